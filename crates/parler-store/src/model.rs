//! Rows and outcomes, as plain values.

use std::sync::Arc;

use parler_protocol::{AgentId, Attention, RoomKind, RoomName, Seq};

/// Hash of an invite code or token: the text itself is never stored.
pub type CodeHash = [u8; 32];

/// What [`crate::Store::invite`] stores.
#[derive(Clone, Debug)]
pub struct NewInvite {
    /// The caller.
    pub agent: AgentId,
    /// Kind of the room.
    pub kind: RoomKind,
    /// Stored name to use, created if missing.
    pub room: RoomName,
    /// A name as the caller wrote it, used instead of `room` when a room of this kind and exactly
    /// this name exists and the caller is a member of it.
    pub verbatim: Option<RoomName>,
    /// Hash of the code.
    pub code: CodeHash,
    /// Public id of the invite.
    pub id: String,
    /// Milliseconds.
    pub expires_at: i64,
    /// How many may redeem it; 0: nobody.
    pub max_uses: u32,
    /// The owner decides on each joiner. A room that was ever gated stays so for invites of
    /// members that are not its owner, whatever they ask for.
    pub gated: bool,
    /// Rooms that one agent may own.
    pub max_owned_rooms: u32,
    /// Milliseconds.
    pub now: i64,
}

/// What came of an invite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InviteOutcome {
    /// Stored, for this room.
    Invited {
        /// Stored name.
        room: RoomName,
        /// The gate as it is.
        gated: bool,
    },
    /// The room exists and the caller is no member of it.
    NotMember,
    /// The caller owns as many rooms as it may.
    TooManyRooms,
}

/// What came of a redeem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedeemOutcome {
    /// A member now, or already.
    Joined {
        /// Stored name.
        room: RoomName,
        /// Kind of the room.
        kind: RoomKind,
    },
    /// The owner has to decide.
    Pending {
        /// Stored name.
        room: RoomName,
        /// This call stored the request.
        new: bool,
    },
    /// No such code.
    Unknown,
    /// Past its end.
    Expired,
    /// All uses spent.
    UsedUp,
    /// The owner refused.
    Denied,
}

/// One of an agent's rooms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomRow {
    /// Stored name.
    pub name: RoomName,
    /// Kind of the room.
    pub kind: RoomKind,
    /// Members.
    pub members: u32,
    /// Messages above the agent's cursor.
    pub unread: u32,
    /// The same without its own.
    pub unread_others: u32,
}

/// One member of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    /// Agent id.
    pub agent: AgentId,
    /// Display name; empty for who never logged in.
    pub name: String,
    /// Role.
    pub role: Option<String>,
    /// Milliseconds of the last login; 0 for who never logged in.
    pub last_hello: i64,
    /// Presence, if any was ever set.
    pub presence: Option<PresenceRow>,
    /// Role that it serves in this room.
    pub service_role: Option<String>,
}

/// An agent's presence as it was last set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceRow {
    /// Status.
    pub status: String,
    /// Activity.
    pub activity: Option<String>,
    /// Attention.
    pub attention: Option<Attention>,
    /// Milliseconds.
    pub at: i64,
}

/// What [`crate::Store::append`] stores.
#[derive(Clone, Debug)]
pub struct Append {
    /// The author.
    pub agent: AgentId,
    /// Its name now.
    pub name: Arc<str>,
    /// Its role now.
    pub role: Option<Arc<str>>,
    /// Stored name of the room.
    pub room: RoomName,
    /// UUIDv7 for the message.
    pub id: String,
    /// The parts: a JSON array, validated and normalised by the caller.
    pub parts: Arc<str>,
    /// Normalised mentions; `None` when there are none.
    pub mentions: Option<Vec<String>>,
    /// Id of the answered message.
    pub reply_to: Option<String>,
    /// Idempotency key within (room, author).
    pub client_id: Option<String>,
    /// Digest of the canonical parts, to tell a repeat from a reused key; set when `client_id` is.
    pub digest: Option<[u8; 32]>,
    /// What the turn ledger has to know of it; `None` for a plain message.
    pub ledger: Option<Box<crate::LedgerNotes>>,
    /// Roles that the message is dispatched to: nearly always none.
    pub dispatch: Vec<String>,
    /// The room is a service, and its author becomes a member with this message if it is none yet:
    /// at the head, so that it reads nothing that was said before.
    pub join: bool,
    /// Milliseconds.
    pub now: i64,
}

/// What came of an append.
#[derive(Clone, Debug)]
pub enum Appended {
    /// Stored.
    New(LogEntry),
    /// The same key and parts were stored before: the original.
    Repeat {
        /// Message id.
        id: String,
        /// Its place.
        seq: Seq,
    },
    /// The same key was stored before with other parts; nothing was stored now.
    KeyReused,
    /// The author is not a member of the room.
    NotMember,
    /// There is no such service to join.
    UnknownService,
    /// The author is no member, and the service's owner decides who becomes one; or it was banned.
    Denied,
}

/// A message as it stands in the log.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Its place.
    pub seq: Seq,
    /// Message id.
    pub id: Arc<str>,
    /// Stored name of the room.
    pub room: RoomName,
    /// Author.
    pub author: AgentId,
    /// The whole [`parler_protocol::StoredMessage`] as JSON, serialised once and shared by all
    /// readers.
    pub json: Arc<str>,
}

/// Where a read begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// After this place, whatever the cursor says.
    Since(Seq),
    /// After the cursor, or after `ack` if that is greater and not above the room's head.
    Cursor {
        /// What the caller confirms.
        ack: Option<Seq>,
    },
}

/// What a read found.
#[derive(Clone, Debug)]
pub struct Page {
    /// Ascending by `seq`.
    pub entries: Vec<LogEntry>,
    /// Where the read began.
    pub floor: Seq,
    /// The stored cursor at the time of the read.
    pub cursor: Seq,
}

/// What others may observe of a commit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A message was appended.
    Appended(LogEntry),
    /// An agent became a member.
    Joined {
        /// Stored name.
        room: RoomName,
        /// Kind of the room.
        kind: RoomKind,
        /// Who.
        agent: AgentId,
    },
    /// An agent is no member any more.
    Left {
        /// Stored name.
        room: RoomName,
        /// Who.
        agent: AgentId,
    },
    /// Somebody waits to be admitted, or was refused: who redeems may ask again.
    Asked {
        /// Stored name.
        room: RoomName,
        /// Who.
        agent: AgentId,
    },
    /// Somebody began to wait to be admitted: for the owner of the room.
    Requested {
        /// Stored name.
        room: RoomName,
        /// Who owns the room.
        owner: AgentId,
        /// Who waits.
        request: crate::JoinRequestRow,
    },
    /// A turn was born or moved.
    Turn(crate::TurnChange),
    /// Something about a turn is due at this time, in milliseconds.
    TurnDue(i64),
    /// The loop guard held a message back, or let it go.
    Guard(crate::GuardChange),
    /// Tokens of a room ended: who watches it looks again.
    Revoked {
        /// Stored name.
        room: RoomName,
    },
    /// A room is gone.
    Deleted {
        /// Stored name.
        room: RoomName,
    },
}
