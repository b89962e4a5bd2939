//! The hub's own sizes, depths and times, each with its reason. What both ends of a connection
//! must agree on is in `parler_protocol::limits`.

use std::time::Duration;

/// Where a hub listens unless told otherwise: this machine only.
pub const ADDR: &str = "127.0.0.1:7070";
/// Its port, also the first choice of the hub on demand.
pub const PORT: u16 = 7070;
/// Its display name.
pub const NAME: &str = "Parler Protocol Hub";

/// Connections at once: a team's agents many times over, and about 10 MB of buffers.
pub const MAX_CONNECTIONS: usize = 1024;
/// One address may have one of so many parts of the connections, and of the sockets that are not
/// answered yet: no machine alone keeps the others out.
pub const ADDRESS_SHARE: usize = 4;
/// But never fewer than this, so that a small hub serves a team behind one address.
pub const ADDRESS_MIN: usize = 64;
/// Connections waiting to be accepted: a fleet that reconnects at once after a restart must not
/// overflow the queue, and one entry costs little.
pub const LISTEN_BACKLOG: i32 = 4096;
/// TCP keep-alive: finds a peer that vanished without a word, long before the idle limit.
pub const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// Silence before a login that ends a connection.
pub const HANDSHAKE_SILENCE: Duration = Duration::from_secs(15);
/// A login must be done by then, whatever was sent meanwhile.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(30);
/// Frames that could not be read, for one connection: enough for a client with a bug to be told
/// so, far too few to be a way to spend our time.
pub const MAX_STRIKES: u32 = 64;

/// Pushes waiting for one connection; what does not fit is dropped, the cursor has it.
pub const OUTBOX_DEPTH: usize = 256;
/// Requests read ahead on one connection while earlier ones run.
pub const MAX_PENDING_FRAMES: usize = 64;
/// Bytes of such requests: one largest frame more, and no more.
pub const MAX_PENDING_BYTES: usize = 2 * parler_protocol::limits::MAX_TEXT_FRAME_BYTES;
/// Sends of one connection that may share commits.
pub const MAX_SENDS_IN_FLIGHT: usize = 64;
/// A peer that takes nothing off its socket for so long is gone.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a Close frame may take both ways.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a stopping hub waits for its connections to end.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// First size of a connection's read and write buffers: most connections are idle, and the
/// default of 128 KiB each would be most of the hub's memory.
pub const SOCKET_BUFFER_BYTES: usize = 4096;

/// What a WebSocket message may be longer than a text frame: such a one is answered with
/// `too_large` before the end; a longer one just ends.
pub const MESSAGE_SLACK_BYTES: usize = 64 * 1024;
/// Bytes waiting to be written to one connection: a page of messages several times over. A page
/// with one message over its size, and its escapes, fits as well.
pub const MAX_WRITE_BUFFER_BYTES: usize = 64 * 1024 * 1024;

/// Sockets that have not yet sent a whole HTTP request or become a WebSocket. When so many are
/// open, further ones wait in the system's queue.
pub const MAX_HTTP_SOCKETS: usize = 512;
/// How long a request's head may take: silent sockets must not use up our descriptors.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a TLS handshake may take: two round trips and some arithmetic, over any line.
pub const TLS_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system refused to accept: it has no descriptors left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long the store may take to answer a deep health check.
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);
/// Open event streams of one hub. They take places of [`MAX_HTTP_SOCKETS`]: most of those must
/// stay free.
pub const MAX_STREAMS: usize = 128;
/// Open event streams of one token: a person with a few windows.
pub const MAX_STREAMS_PER_TOKEN: usize = 8;
/// Messages of one piece of an event stream: what one slow reader can make us hold.
pub const STREAM_PAGE: u32 = 50;
/// Silence after which an event stream says that it lives: below what common proxies bear.
pub const STREAM_HEARTBEAT: Duration = Duration::from_secs(15);
/// How often an event stream looks whether somebody came, went or changed its status.
pub const STREAM_PRESENCE: Duration = Duration::from_secs(5);
/// Longest timer that is set for something far away.
pub const FAR: Duration = Duration::from_secs(86_400);
/// Body of an admin request: an id and a few words.
pub const MAX_ADMIN_BODY_BYTES: usize = 16 * 1024;
/// Watched rooms whose counts are kept, so that a watcher's next look only counts what is new.
pub const MAX_TALLIES: usize = 64;
/// Authors of one room that are counted apart: anybody can take any number of names.
pub const MAX_TALLY_AUTHORS: usize = 256;
/// Pages that one look at the counts reads at most; the next look goes on.
pub const MAX_TALLY_PAGES: usize = 8;

/// Batches of commits between the store and the fan-out.
pub const BUS_DEPTH: usize = 1024;
/// Changes of turns waiting to be announced; what does not fit is dropped, the ledger has it.
pub const TURN_NEWS_DEPTH: usize = 1024;
/// Shortest sleep of the ledger's alarm: what cannot be settled must not become a busy loop.
pub const ALARM_PAUSE: Duration = Duration::from_millis(20);
/// Longest sleep of the ledger's alarm: the clock on the wall may be set, or a laptop wake up.
pub const ALARM_LONGEST: Duration = Duration::from_secs(60);
/// Depth of arrays and objects inside `parts`. Readers that build a tree stop at 128 in all, and
/// what a reader cannot read would block it for ever.
pub const MAX_PARTS_DEPTH: usize = 100;

/// Keys that one budget remembers: bounds the memory that strangers can make us spend (about
/// 100 bytes each).
pub const MAX_RATE_KEYS: usize = 65_536;
/// Wrong invite codes of one agent in a minute. Forty bits stay out of reach.
pub const MAX_BAD_CODES_PER_MIN: u32 = 30;
/// Wrong invite codes and join secrets of one address in a minute: an id costs nothing, so that
/// who guesses takes a new one each time. Above what a team behind one address mistypes.
pub const MAX_BAD_GUESSES_PER_MIN: u32 = 120;
/// Longest time for which no guess of an agent or address is looked at: long enough that guessing
/// leads nowhere, short enough that a team whose address was misused can wait for it.
pub const MAX_GUESS_DELAY_MS: i64 = 15 * 60_000;
/// After so long without a wrong guess the delays begin anew.
pub const GUESS_MEMORY_MS: i64 = 3_600_000;
/// A refusal for a spent budget comes after this pause: whoever goes on without heed is read no
/// faster than that, and costs the others nothing. Who keeps the limits never notices.
pub const REFUSAL_PAUSE: Duration = Duration::from_millis(20);
/// Wrong tokens of one address in a minute; further ones are answered 429. A right one is taken
/// at any time: who shares an address with a guesser must not be locked out, and 160 bits are out
/// of reach at any rate.
pub const MAX_BAD_TOKENS_PER_MIN: u32 = 60;
/// How often the presence times of busy agents are written: far below the time after which a
/// presence reads as offline.
pub const PRESENCE_FLUSH: Duration = Duration::from_secs(15);
/// Agents whose presence times wait to be written; the time of one more is not noted.
pub const MAX_HEARD: usize = 65_536;
/// Rooms that one subscribed connection follows; those beyond are found by reading.
pub const MAX_FOLLOWED_ROOMS: usize = 10_000;
/// Memberships kept in memory to spare the store a question.
pub const MAX_CACHED_MEMBERSHIPS: usize = 65_536;

/// Rows of one step of the janitor: a few milliseconds of the writer, also on a slow disk.
pub const SWEEP_ROWS: u32 = 128;
/// Bytes of bodies that one such step deletes: a long body's pages are visited one by one.
pub const SWEEP_BYTES: u64 = 1024 * 1024;
/// Rooms that the janitor asks for at once.
pub const SWEEP_ROOMS: u32 = 64;
/// Pause after each step: whoever waits for the writer gets it first.
pub const SWEEP_PAUSE: Duration = Duration::from_millis(5);
/// How long an invite outlives its end while somebody who redeemed it still waits for the owner:
/// it is told so by the code, until the owner had a week to decide.
pub const ASKED_GRACE_MS: i64 = 7 * 86_400_000;

/// A hub on demand stops after so long without connections.
pub const LOCAL_IDLE_EXIT: Duration = Duration::from_secs(3600);
/// How long a starting hub waits for its port or lock, which a stopping one may still hold.
pub const START_WAIT: Duration = Duration::from_secs(5);

/// A binary message comes to us in pieces of this size, however long it is: what an upload costs
/// in memory. Large enough that the cost of a piece does not show.
pub const PIECE_BYTES: usize = 64 * 1024;
/// Pieces are written to the disk, and read from it, when they make up so much: one trip to a
/// thread for it.
pub const DISK_BLOCK_BYTES: usize = 256 * 1024;
/// Reads and writes of blobs at the same time, of all connections: more of them only queue in the
/// disk, on threads that the store's reads need as well.
pub const MAX_DISK_JOBS: usize = 8;
/// An upload that sends nothing for so long gives its place to others.
pub const UPLOAD_SILENCE: Duration = Duration::from_secs(60);
/// An upload slower than this ends, so that nobody keeps a place by a byte a minute.
pub const MIN_UPLOAD_BYTES_PER_SEC: u64 = 16 * 1024;
/// How long the bytes of an upload in chunks that broke off wait for its sender to come back.
pub const BROKEN_UPLOAD_KEPT: Duration = Duration::from_secs(600);
/// How often what nobody came back for is thrown away.
pub const UPLOAD_SWEEP: Duration = Duration::from_secs(30);
/// A download is noted at most this often for one blob: retention counts days, and each note is a
/// commit.
pub const FETCH_NOTE_MS: i64 = 3_600_000;
/// Blobs that one step of the collection forgets: the writer is not held up by more.
pub const COLLECT_BLOBS: u32 = 64;
