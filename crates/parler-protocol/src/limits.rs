//! Every size, count and duration that both ends must agree on, each with its reason.
//!
//! Sizes are bytes of UTF-8 unless a name ends otherwise. What a hub's operator may change is the
//! default here; what cannot be changed is simply the limit.

/// A text message (one JSON frame). Twice the largest message, for escapes and the envelope.
pub const MAX_TEXT_FRAME_BYTES: usize = 2_097_152;
/// The serialised `parts` of one message: a long file or log, not a dump; those are blobs.
pub const MAX_MESSAGE_BYTES: usize = 1_048_576;
/// One blob.
pub const MAX_BLOB_BYTES: u64 = 26_214_400;
/// What a WebSocket message may be larger than a blob by.
pub const WS_MESSAGE_SLACK_BYTES: u64 = 1_048_576;
/// One binary message of a blob that goes in chunks: whoever takes one holds no more in memory.
pub const MAX_BLOB_CHUNK_BYTES: u64 = 262_144;
/// All blobs on disk.
pub const MAX_BLOB_DIR_BYTES: u64 = 1_073_741_824;
/// All uploads in flight.
pub const MAX_INFLIGHT_BLOB_BYTES: u64 = 52_428_800;
/// Names of rooms, ids, codes, roles, statuses, activities, keys.
pub const MAX_FIELD_BYTES: usize = 4096;
/// `query` of `discover` and `recall`.
pub const MAX_QUERY_BYTES: usize = 65_536;
/// Entries of `mentions`.
pub const MAX_MENTIONS: usize = 256;
/// `id`, `name` and `role` of `hello`: they are shown and stored with every message.
pub const MAX_HELLO_FIELD_BYTES: usize = 256;
/// `sig` of `hello`.
pub const MAX_HELLO_SIG_BYTES: usize = 512;
/// `sha256` of `put_blob`, `id` of `get_blob`.
pub const MAX_BLOB_ID_BYTES: usize = 128;
/// `mediaType` of `put_blob`.
pub const MAX_MEDIA_TYPE_BYTES: usize = 256;
/// Numbers in an embedding.
pub const EMBEDDING_DIMENSIONS: usize = 768;

/// Messages of one `pull` when no limit is given.
pub const DEFAULT_PULL_LIMIT: u32 = 200;
/// Messages of one `pull` at most.
pub const MAX_PULL_LIMIT: u32 = 1000;
/// `waitSecs` at most: below the idle limits of common proxies.
pub const MAX_WAIT_SECS: u64 = 60;
/// Life of an invite when `ttlSecs` is absent: one day.
pub const DEFAULT_INVITE_TTL_SECS: u64 = 86_400;
/// Life of an invite or token at most: one year.
pub const MAX_TTL_SECS: u64 = 31_536_000;
/// Uses of an invite when `maxUses` is absent.
pub const DEFAULT_INVITE_USES: u32 = 50;
/// Life of a token when `ttlSecs` is absent: one hour.
pub const DEFAULT_TOKEN_TTL_SECS: u64 = 3600;
/// Work of one `queue` when no limit is given.
pub const DEFAULT_QUEUE_LIMIT: u32 = 50;
/// Work of one `queue` at most.
pub const MAX_QUEUE_LIMIT: u32 = 200;
/// Dispatch parts of one message: each is a row to look work up by.
pub const MAX_DISPATCH_ROLES: usize = 64;
/// Life of a directory token at most: thirty days. It shows private cards to whoever has it, and
/// any agent may mint one.
pub const MAX_DIRECTORY_TOKEN_TTL_SECS: u64 = 2_592_000;
/// Life of an admin token at most: one day. It acts for a room's owner.
pub const MAX_ADMIN_TOKEN_TTL_SECS: u64 = 86_400;
/// Lease of a claim when `leaseSecs` is absent.
pub const DEFAULT_LEASE_SECS: u64 = 300;
/// Shortest and longest lease of service work, in seconds.
pub const SERVICE_LEASE_SECS: (u64, u64) = (15, 3600);
/// Shortest and longest lease of a turn, in seconds.
pub const TURN_LEASE_SECS: (u64, u64) = (30, 3600);

/// An open turn that was seen, or that nobody saw, for longer than this is stalled.
pub const TURN_STALL_SECS: u64 = 120;
/// `deadlineSecs` at most: one year.
pub const MAX_DEADLINE_SECS: u64 = 31_536_000;
/// Turns of one `turns` reply when no limit is given.
pub const DEFAULT_TURNS_LIMIT: u32 = 50;
/// Turns of one `turns` reply at most.
pub const MAX_TURNS_LIMIT: u32 = 500;
/// `note` of an op on a turn: a line or two of words, not the result.
pub const MAX_NOTE_BYTES: usize = 4096;
/// Messages without a turn in one chain, unless a room's owner sets it otherwise.
pub const HOP_LIMIT: u32 = 12;
/// Handoffs in one chain, unless a room's owner sets it otherwise.
pub const HANDOFF_HOP_LIMIT: u32 = 100;

/// Presence older than this reads as `offline`.
pub const PRESENCE_FRESH_MS: i64 = 300_000;
/// How long a challenge may be answered.
pub const CHALLENGE_TTL_MS: i64 = 60_000;
/// `hello` frames of one connection.
pub const MAX_HELLOS: u32 = 4;

/// Operations of one agent in [`RATE_WINDOW_MS`].
pub const MAX_OPS_PER_MIN: u32 = 600;
/// Sends of one agent in [`RATE_WINDOW_MS`].
pub const MAX_SENDS_PER_MIN: u32 = 240;
/// Sends into one room in [`RATE_WINDOW_MS`].
pub const MAX_ROOM_SENDS_PER_MIN: u32 = 1200;
/// HTTP requests (the WebSocket upgrade included) of one address in [`RATE_WINDOW_MS`].
pub const MAX_HTTP_PER_MIN: u32 = 600;
/// Window of the budgets above.
pub const RATE_WINDOW_MS: i64 = 60_000;
/// Rooms that one agent may own.
pub const MAX_OWNED_ROOMS: u32 = 1000;
/// Window of the two budgets below.
pub const BLOB_RATE_WINDOW_MS: i64 = 3_600_000;
/// Uploads of one agent in an hour.
pub const MAX_BLOBS_PER_HOUR: u32 = 120;
/// Uploads into one room in an hour.
pub const MAX_ROOM_BLOBS_PER_HOUR: u32 = 600;
/// Unexpired tokens of one agent, of all kinds together.
pub const MAX_ACTIVE_TOKENS: u32 = 1000;
/// Keyed facts of one agent.
pub const MAX_KEYED_FACTS: u32 = 10_000;

/// Days that messages are kept, unless they are among the newest of their room.
pub const RETENTION_DAYS: u32 = 30;
/// Newest messages of a room that are kept whatever their age.
pub const KEEP_MESSAGES_PER_ROOM: u32 = 10_000;
/// Newest facts without a key that are kept of one author in one room, or private.
pub const KEEP_FACTS: i64 = 500;
/// Days that a blob is kept after it was last fetched.
pub const BLOB_TTL_DAYS: u32 = 14;
/// Seconds between two runs of the janitor.
pub const JANITOR_INTERVAL_SECS: u64 = 3600;
