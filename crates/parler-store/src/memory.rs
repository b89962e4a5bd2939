//! Facts that agents remember and recall.

use parler_protocol::{AgentId, RoomName};

use crate::StoreFuture;

/// A fact to be kept.
#[derive(Clone, Debug)]
pub struct NewFact {
    /// Who says so.
    pub author: AgentId,
    /// The room that it belongs to; `None`: its author's private memory.
    pub room: Option<RoomName>,
    /// With a key it replaces the author's fact of that key in that room, or in private.
    pub key: Option<String>,
    /// The fact.
    pub text: String,
    /// Where it lies among others: finite numbers, as many in every fact of a store. Without one
    /// a fact that is replaced hands its own on.
    pub embedding: Option<Vec<f32>>,
    /// What made the embedding.
    pub embedding_model: Option<String>,
    /// Facts with a key that an author may have; replacing one is always allowed.
    pub max_keyed: u32,
    /// Milliseconds.
    pub now: i64,
}

/// What came of remembering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RememberOutcome {
    /// Stored.
    Remembered,
    /// The author is no member of that room; also for an unknown one.
    NotMember,
    /// The author has as many facts with keys as it may.
    AtCapacity,
}

/// What to look for.
#[derive(Clone, Debug)]
pub enum Find {
    /// Exactly this key, the newest first; every score is 0.
    Key(String),
    /// Words, a place among other facts, or both.
    ///
    /// Words alone: the score is negative, the lowest is the best. An embedding alone: the score
    /// is the distance, the lowest is the best. Where both find something: reciprocal ranks, the
    /// highest is the best.
    Like {
        /// Any text; a fact is found by each word of it, and by each word that begins like one.
        text: String,
        /// As many numbers as facts have.
        embedding: Option<Vec<f32>>,
    },
}

/// A search in the memory of an agent.
#[derive(Clone, Debug)]
pub struct Recall {
    /// Who asks.
    pub agent: AgentId,
    /// Only facts of this room, by anyone; `None`: the agent's private ones and those of all rooms
    /// that it is a member of.
    pub room: Option<RoomName>,
    /// What to look for.
    pub find: Find,
    /// Hits at most.
    pub limit: u32,
}

/// A fact that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FactHit {
    /// The fact.
    pub text: String,
    /// Its key.
    pub key: Option<String>,
    /// Its room; `None`: private.
    pub room: Option<RoomName>,
    /// Who said so.
    pub author: AgentId,
    /// Milliseconds of the last write.
    pub ts: i64,
    /// See [`Find`].
    pub score: f64,
}

/// Facts: kept for a room or in private, found by key, words and embeddings.
///
/// The facts of a room go with it. Those of a member that leaves stay; it just sees them no longer.
pub trait MemoryStore: Send + Sync {
    /// Keeps a fact.
    fn remember(&self, fact: NewFact) -> StoreFuture<'_, RememberOutcome>;

    /// Finds facts, best first; `None` if the agent is no member of that room. Nothing of any fact
    /// outside of what the agent may see has an effect on which facts are found. A page ends early
    /// when its texts would pass [`crate::PAGE_BYTES`], but never before its first hit.
    fn recall(&self, recall: Recall) -> StoreFuture<'_, Option<Vec<FactHit>>>;
}
