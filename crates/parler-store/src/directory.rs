//! The directory: what agents say about themselves, signed.

use parler_protocol::{AgentId, Visibility};

use crate::model::PresenceRow;

/// A card to be stored.
#[derive(Clone, Debug)]
pub struct NewCard {
    /// Whose card; the caller checked that it is its own.
    pub agent: AgentId,
    /// The card as JSON, in the form that its signature covers.
    pub card: String,
    /// The card's name, lower-cased: a search for words looks at it and at the name of the last
    /// login.
    pub words: String,
    /// Tags: each after a blank, lower-cased, and a last blank.
    pub tags: String,
    /// Skills, id then name: each after a blank, lower-cased, and a last blank.
    pub skills: String,
    /// Who may see it.
    pub visibility: Visibility,
    /// The card's signature, if there is one; the caller checked it.
    pub sig: Option<String>,
    /// Milliseconds.
    pub now: i64,
}

/// A card as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardRow {
    /// Whose card.
    pub agent: AgentId,
    /// The card as JSON.
    pub card: String,
    /// Who may see it.
    pub visibility: Visibility,
    /// Its signature.
    pub sig: Option<String>,
    /// Presence, if any was ever set.
    pub presence: Option<PresenceRow>,
    /// Milliseconds of the first login.
    pub first_seen: i64,
    /// Milliseconds of the last login.
    pub last_seen: i64,
}

/// Which cards to find; all conditions hold together. Texts are lower-cased by the caller and
/// match anywhere; no character of them is special.
#[derive(Clone, Debug, Default)]
pub struct CardFilter {
    /// Public cards only.
    pub public_only: bool,
    /// In the name, the tags or the skills.
    pub query: Option<String>,
    /// In the tags.
    pub tag: Option<String>,
    /// In the skills.
    pub skill: Option<String>,
}
