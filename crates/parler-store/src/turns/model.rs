//! Rows, requests and outcomes of the ledger.

use std::sync::Arc;

use parler_protocol::parts::Hop;
use parler_protocol::turn::Transition;
use parler_protocol::{AgentId, EndpointRef, RoomName, Seq, Turn, TurnState};

/// What the ledger has to know of a message beside its body. A plain message has none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerNotes {
    /// It offers a turn.
    pub offer: Option<Offer>,
    /// It reports an end.
    pub report: Option<Report>,
    /// It reports on work that goes on: a reply of this kind is no answer.
    pub progress: bool,
    /// It brings files.
    pub files: bool,
    /// Its place in a chain of messages that woke one another.
    pub hop: Option<Hop>,
}

/// A turn that a message offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The instruction.
    pub next: String,
    /// State so far.
    pub summary: Option<String>,
    /// The addressee as written; absent: anyone.
    pub to: Option<String>,
    /// Blob id of a bundle.
    pub bundle: Option<String>,
    /// Milliseconds: it expires then if nobody took it.
    pub deadline: Option<i64>,
}

/// The end that a reply reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Done, or failed.
    pub end: TurnState,
    /// Words.
    pub note: Option<String>,
    /// Blob id.
    pub result: Option<String>,
}

/// Who acts, as it logged in.
#[derive(Clone, Debug)]
pub struct Actor {
    /// Its id.
    pub id: AgentId,
    /// Its name.
    pub name: Arc<str>,
    /// Its role.
    pub role: Option<Arc<str>>,
}

/// A claim.
#[derive(Clone, Debug)]
pub struct TurnClaim {
    /// Who.
    pub by: Actor,
    /// Stored name of the room.
    pub room: RoomName,
    /// The turn.
    pub message: String,
    /// Only renew this take.
    pub renews: Option<i64>,
    /// Milliseconds.
    pub lease: i64,
    /// Milliseconds.
    pub now: i64,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum TakeOutcome {
    /// The caller holds it.
    Won {
        /// Fencing token.
        take: i64,
        /// Milliseconds.
        lease_until: i64,
    },
    /// Somebody else holds it, or it is over, or there was nothing to renew.
    Lost {
        /// Who holds it, if it is taken.
        holder: Option<EndpointRef>,
    },
    /// The caller is no member.
    NotMember,
    /// No such turn in that room.
    UnknownTurn,
    /// The caller may not claim it.
    NotEligible,
}

/// A release, decline or cancel.
#[derive(Clone, Debug)]
pub struct TurnStep {
    /// Who.
    pub by: Actor,
    /// Stored name of the room.
    pub room: RoomName,
    /// The turn.
    pub message: String,
    /// Fencing token; absent: judged by the id alone.
    pub take: Option<i64>,
    /// Words.
    pub note: Option<String>,
    /// Milliseconds.
    pub now: i64,
}

/// The end of a take.
#[derive(Clone, Debug)]
pub struct TurnEnd {
    /// Who, which turn, under which token.
    pub step: TurnStep,
    /// The final state.
    pub end: TurnState,
    /// Blob id.
    pub result: Option<String>,
}

/// What came of an act on a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActOutcome {
    /// Done.
    Done,
    /// Nothing changed.
    Nothing,
    /// The caller is no member.
    NotMember,
    /// No such turn in that room.
    UnknownTurn,
    /// Only the offerer or the room's owner may.
    NotOwner,
}

/// Which turns are asked for.
#[derive(Clone, Debug)]
pub struct TurnFind {
    /// Who asks.
    pub by: Actor,
    /// One room; absent: all of the caller's.
    pub room: Option<RoomName>,
    /// One turn, with its history.
    pub message: Option<String>,
    /// These states.
    pub states: Vec<TurnState>,
    /// Only those that the caller may claim, holds, or held at the end.
    pub mine: bool,
    /// At most so many.
    pub limit: u32,
    /// Whether anything of it changed since this revision.
    pub after: Option<i64>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct TurnsFound {
    /// Newest first. Ends early when its texts would pass [`crate::PAGE_BYTES`].
    pub turns: Vec<TurnView>,
    /// Revision of the ledger.
    pub rev: i64,
    /// There are more.
    pub more: bool,
    /// The answer differs from the one at `after`; true without one.
    pub changed: bool,
    /// The rooms that were looked at.
    pub rooms: Vec<RoomName>,
}

/// A row of the ledger, without what depends on the room's members.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnRow {
    /// The row as the wire has it; `seen_by`, `stalled`, `audience` and `history` are empty.
    pub turn: Turn,
    /// Milliseconds: since when it was last open.
    pub opened_at: i64,
    /// Leases that ran out.
    pub run_outs: i64,
    /// Who held it last, when nobody does.
    pub last_holder: Option<String>,
    /// Why the loop guard holds it back.
    pub held: Option<String>,
    /// Revision of its last change.
    pub rev: i64,
}

/// Somebody who may claim a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateRow {
    /// Who.
    pub who: EndpointRef,
    /// Its cursor is at or past the turn.
    pub seen: bool,
    /// Milliseconds: when it got there, if that was while the turn was open.
    pub seen_at: Option<i64>,
    /// Milliseconds of its last sign of life that is stored.
    pub last_seen: i64,
}

/// A turn and who could take it.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnView {
    /// The row.
    pub row: TurnRow,
    /// Who may claim it, the first [`crate::MAX_CANDIDATES`].
    pub candidates: Vec<CandidateRow>,
    /// How many may claim it.
    pub eligible: u32,
    /// Names of the room's members, the first [`crate::MAX_NAMED_MEMBERS`].
    pub members: Vec<String>,
    /// How many members the room has.
    pub member_count: u32,
    /// Transitions, when one turn was asked for.
    pub history: Option<Vec<Transition>>,
}

/// A turn was born or moved.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnChange {
    /// The row after it.
    pub row: Arc<TurnRow>,
    /// The state before; `None`: it was born.
    pub was: Option<TurnState>,
    /// Who held it before.
    pub was_held_by: Option<AgentId>,
}

/// What came of binding a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOutcome {
    /// Bound.
    Bound,
    /// The caller is no member.
    NotMember,
    /// Not the caller's to do.
    NotOwner,
    /// The other one is no member.
    Stranger,
}

/// A room's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomPolicyRow {
    /// Longest chain of messages without a turn; `None`: the default.
    pub hop_limit: Option<u32>,
    /// Longest chain of handoffs; `None`: the default.
    pub handoff_hop_limit: Option<u32>,
    /// The owner decides on each joiner.
    pub require_approval: bool,
}

/// A change of a room's settings.
#[derive(Clone, Debug)]
pub struct PolicyChange {
    /// Stored name of the room.
    pub room: RoomName,
    /// Who changes it.
    pub by: AgentId,
    /// Longest chain of messages without a turn.
    pub hop_limit: Option<u32>,
    /// Longest chain of handoffs.
    pub handoff_hop_limit: Option<u32>,
    /// The owner decides on each joiner.
    pub require_approval: Option<bool>,
    /// Let the loop guard count from here.
    pub reset: bool,
    /// Milliseconds.
    pub now: i64,
}

/// What came of a change of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyOutcome {
    /// Changed; the settings as they are now.
    Set(RoomPolicyRow),
    /// The caller is no member.
    NotMember,
    /// Only the owner may.
    NotOwner,
    /// Only a channel has a gate.
    NoGate,
}

/// A message that the loop guard held back from waking anybody, or let go again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardChange {
    /// Stored name of the room.
    pub room: RoomName,
    /// Which message.
    pub seq: Seq,
    /// Why, in words; `released` when it was let go.
    pub reason: String,
}
