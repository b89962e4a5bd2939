//! Service queues: work that is dispatched to a role, and whoever serves it claims a piece.
//!
//! A message with dispatch parts ([`crate::Append::dispatch`]) is a piece of work. At any time at
//! most one worker holds it, under a lease. Each time that it is taken its `take` grows by one:
//! the number is the holder's fencing token, so that a worker that slept through its lease cannot
//! renew or finish what somebody else has taken since.

use parler_protocol::{AgentId, RoomName};

use crate::StoreFuture;
use crate::model::LogEntry;

/// What [`ServiceStore::serve`] stores.
#[derive(Clone, Debug)]
pub struct NewWorker {
    /// The caller.
    pub agent: AgentId,
    /// Stored name of the service's room, created if missing.
    pub room: RoomName,
    /// Role of the worker in that room, in place of an earlier one.
    pub role: String,
    /// Rooms that one agent may own.
    pub max_owned_rooms: u32,
    /// Milliseconds.
    pub now: i64,
}

/// What came of registering as a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeOutcome {
    /// A worker now, and a member.
    Serving,
    /// The room would be new, and the caller owns as many as it may.
    TooManyRooms,
    /// The caller is no member, and the room's owner decides who becomes one; or it was banned.
    Denied,
}

/// A piece of work, and who wants to do something with it.
#[derive(Clone, Debug)]
pub struct Work {
    /// The caller.
    pub agent: AgentId,
    /// Stored name of the room.
    pub room: RoomName,
    /// Message id.
    pub message: String,
    /// Fencing token, from who knows it.
    pub take: Option<i64>,
    /// Milliseconds.
    pub now: i64,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Taken, or renewed.
    Claimed {
        /// The number of this take.
        take: i64,
        /// Milliseconds.
        lease_until: i64,
    },
    /// Nothing changed.
    Refused {
        /// Who has it, if that is why.
        holder: Option<Holder>,
    },
    /// No message of that id in that room was dispatched to anybody.
    NotWork,
    /// The caller is no member; also for an unknown room.
    NotMember,
}

/// Who holds a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Agent id.
    pub agent: AgentId,
    /// Display name of its last login.
    pub name: String,
    /// Role of its last login.
    pub role: Option<String>,
}

/// How a piece of work may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkEnd {
    /// Finished well.
    Done,
    /// Finished badly.
    Failed,
    /// Given up.
    Cancelled,
}

impl WorkEnd {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            WorkEnd::Done => "done",
            WorkEnd::Failed => "failed",
            WorkEnd::Cancelled => "cancelled",
        }
    }
}

/// What came of ending a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompleteOutcome {
    /// Ended for good.
    Completed,
    /// The caller does not hold it now, or not by that take: nothing changed.
    Unchanged,
    /// No message of that id in that room was dispatched to anybody.
    NotWork,
    /// The caller is no member; also for an unknown room.
    NotMember,
}

/// Workers, work and claims.
///
/// A worker is available while its presence is exactly `idle` or `waiting`. Asking is a sign of
/// life, so the age of the stored presence does not count here. Roles are compared without regard
/// to the case of ASCII letters.
pub trait ServiceStore: Send + Sync {
    /// Registers a worker. Opens the room if it does not exist, owned by the caller. A stranger to
    /// a room that exists becomes a member at its head: it reads nothing that was said before.
    fn serve(&self, worker: NewWorker) -> StoreFuture<'_, ServeOutcome>;

    /// Whether a service of that room exists.
    fn is_service<'a>(&'a self, room: &'a RoomName) -> StoreFuture<'a, bool>;

    /// Work for a role that nobody holds now, in the order of the log: empty unless the caller
    /// serves the room by that role and is available. At most `limit` messages, and fewer when
    /// their JSON would pass [`crate::PAGE_BYTES`], but never none for that reason.
    fn queue<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
        role: &'a str,
        limit: u32,
        now: i64,
    ) -> StoreFuture<'a, Vec<LogEntry>>;

    /// Takes a piece of work until `now + lease_ms`, in one step of which exactly one caller wins:
    /// an available worker whose role it was dispatched to, while nobody's lease lives. The holder
    /// renews, available or not, and keeps its `take`. With `take` it is a renewal of just that
    /// take, or nothing.
    fn claim(&self, work: Work, lease_ms: i64) -> StoreFuture<'_, ClaimOutcome>;

    /// Ends a piece of work for good; only its holder can, while its lease lives. With `take`
    /// only if it is the present one.
    fn complete(&self, work: Work, end: WorkEnd) -> StoreFuture<'_, CompleteOutcome>;
}
