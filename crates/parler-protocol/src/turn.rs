//! The turn ledger on the wire: a handoff as a fact with a state.
//!
//! Everything here is additive; a client that never heard of it sends and receives handoffs as
//! before. A turn's identity is the id of the message that offered it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::EndpointRef;

/// Where a turn stands. The last five are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnState {
    /// Offered, held by nobody.
    Open,
    /// Held under a lease.
    Taken,
    /// Finished well.
    Done,
    /// Finished badly.
    Failed,
    /// Refused by the addressee.
    Declined,
    /// Withdrawn.
    Cancelled,
    /// Its deadline passed while open.
    Expired,
}

impl TurnState {
    /// All of them, in the order of a turn's life.
    pub const ALL: [TurnState; 7] = [
        TurnState::Open,
        TurnState::Taken,
        TurnState::Done,
        TurnState::Failed,
        TurnState::Declined,
        TurnState::Cancelled,
        TurnState::Expired,
    ];

    /// The word as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TurnState::Open => "open",
            TurnState::Taken => "taken",
            TurnState::Done => "done",
            TurnState::Failed => "failed",
            TurnState::Declined => "declined",
            TurnState::Cancelled => "cancelled",
            TurnState::Expired => "expired",
        }
    }

    /// Reads the word; `None` for any other text.
    #[must_use]
    pub fn from_wire(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing follows.
    #[must_use]
    pub fn terminal(self) -> bool {
        !matches!(self, TurnState::Open | TurnState::Taken)
    }
}

/// One row of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Id of the message that offered the turn.
    pub message: String,
    /// Where it stands.
    pub room: String,
    /// Where it stands in the log.
    pub seq: i64,
    /// Who offered it.
    pub from: EndpointRef,
    /// The addressee as written; absent: anyone in the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The instruction.
    pub next: String,
    /// State so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Blob id of an attached bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// Where the turn stands.
    pub state: TurnState,
    /// Present holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<EndpointRef>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<i64>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<i64>,
    /// How often it has been taken; the number of the present take is its fencing token.
    pub take: i64,
    /// Milliseconds.
    pub offered_at: i64,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<i64>,
    /// Milliseconds: an open turn expires then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<i64>,
    /// Milliseconds: when the holder replied in the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<i64>,
    /// What the holder said at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Blob id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Eligible members whose stored cursor is at or past `seq`.
    #[serde(default)]
    pub seen_by: Vec<EndpointRef>,
    /// Why nothing happens, in words for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
    /// Who could take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
    /// Transitions so far; only when one turn was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Transition>>,
}

/// How many members could take a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audience {
    /// May take it.
    pub eligible: u32,
    /// Of these, connected.
    pub online: u32,
    /// Of these, with something that would start them.
    pub listening: u32,
}

/// One transition of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Milliseconds.
    pub at: i64,
    /// Who.
    pub by: EndpointRef,
    /// State before.
    pub from: TurnState,
    /// State after.
    pub to: TurnState,
    /// Words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Which turns an op `turns` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnFilter {
    /// Open and taken.
    #[default]
    Active,
    /// Every state.
    All,
    /// One state.
    Open,
    /// One state.
    Taken,
    /// One state.
    Done,
    /// One state.
    Failed,
    /// One state.
    Declined,
    /// One state.
    Cancelled,
    /// One state.
    Expired,
}

impl TurnFilter {
    /// The states that it lets through.
    #[must_use]
    pub fn states(self) -> Vec<TurnState> {
        match self {
            TurnFilter::Active => vec![TurnState::Open, TurnState::Taken],
            TurnFilter::All => TurnState::ALL.to_vec(),
            TurnFilter::Open => vec![TurnState::Open],
            TurnFilter::Taken => vec![TurnState::Taken],
            TurnFilter::Done => vec![TurnState::Done],
            TurnFilter::Failed => vec![TurnState::Failed],
            TurnFilter::Declined => vec![TurnState::Declined],
            TurnFilter::Cancelled => vec![TurnState::Cancelled],
            TurnFilter::Expired => vec![TurnState::Expired],
        }
    }
}

/// Op `turns`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnsQuery {
    /// One room; absent: all rooms of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// One turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Which states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TurnFilter>,
    /// Only those that the caller may claim or holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mine: Option<bool>,
    /// Default 50, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Park until the answer would differ from `after`, 0 to 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_secs: Option<u64>,
    /// `rev` of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
}

/// Ops `release`, `decline` and `cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnAct {
    /// The room.
    pub room: String,
    /// The turn.
    pub message: String,
    /// Fencing token of the present take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub take: Option<i64>,
    /// Words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
