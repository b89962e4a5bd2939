//! `com.parler.sig`: the author's signature over the rest of the message (see
//! [`crate::canonical::message_bytes`]).

use serde::{Deserialize, Serialize};

use super::TypedPart;
use crate::types::Target;

/// Kind of [`SigPart`].
pub const SIG_KIND: &str = "com.parler.sig";

/// The signature and what it covers beside the parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigPart {
    /// Standard base64 with padding, 88 characters.
    pub sig: String,
    /// Always `ed25519`.
    pub alg: String,
    /// Always 1.
    pub v: i64,
    /// The author's clock, milliseconds.
    pub ts: i64,
    /// Unique string of the author's choice; receivers reject a second one.
    pub uid: String,
    /// What the author addressed.
    pub target: Target,
    /// Where the message stands in a chain of automatic turns. Not covered by the signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<Hop>,
}

/// Place in a chain of messages that woke one another without a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The waking message's `n` + 1; a person's input starts at 0.
    pub n: u32,
    /// Id of the chain.
    pub root: String,
}

impl TypedPart for SigPart {
    const KIND: &'static str = SIG_KIND;
}
