//! Newtypes for the identifiers of the wire: parsed once at the edge, trusted inside.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text of the id.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }
        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.to_string()
            }
        }
    };
}

text_id! {
    /// An agent's id: its Ed25519 public key in nkey text form (56 characters, first letter `U`).
    AgentId
}
text_id! {
    /// A room by its full stored name.
    RoomName
}
text_id! {
    /// The idempotency key of one logical send; 1 to 4096 bytes are customary, empty is a key too.
    ClientId
}
text_id! {
    /// The content address of a blob: 64 lower-case hexadecimal digits (SHA-256).
    BlobId
}

impl AgentId {
    /// Length of an id's text.
    pub const LEN: usize = 56;

    /// Checks the shape (length, prefix `U`, alphabet). The checksum and the key itself are
    /// checked where signatures are, in `parler-identity`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let shaped = text.len() == Self::LEN
            && text.starts_with('U')
            && text.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'2'..=b'7'));
        shaped.then(|| Self(text.into()))
    }

    /// Takes an id that was checked before, for example by a store that only holds checked ones.
    #[must_use]
    pub fn trusted(text: &str) -> Self {
        Self(text.into())
    }

    /// The id as people see it beside a name: the last six characters, which differ between any
    /// two keys that one meets (the first ones start alike).
    #[must_use]
    pub fn short(&self) -> &str {
        short_id(&self.0)
    }
}

/// The last six characters of an id, on a character boundary; the whole text when it is shorter.
#[must_use]
pub fn short_id(id: &str) -> &str {
    let cut = id.char_indices().rev().nth(5).map_or(0, |(at, _)| at);
    &id[cut..]
}

impl RoomName {
    /// Takes a stored room name verbatim. For a name that a person chose see
    /// [`crate::names::token`].
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }
}

impl ClientId {
    /// Takes any text as a key.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }
}

impl BlobId {
    /// Checks the shape: 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let shaped =
            text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        shaped.then(|| Self(text.into()))
    }
}

/// A place in the hub's log: hub-wide, strictly increasing, never reused; gaps are normal.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub i64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_id_has_its_shape() {
        let id = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK";
        assert_eq!(AgentId::parse(id).unwrap().short(), "Y3RLKK");
        assert!(AgentId::parse(&id[1..]).is_none());
        assert!(AgentId::parse(&id.to_lowercase()).is_none());
        assert!(AgentId::parse(&format!("A{}", &id[1..])).is_none());
    }

    #[test]
    fn a_short_id_never_splits_a_character() {
        assert_eq!(short_id("é☃"), "é☃");
        assert_eq!(short_id("abcdefgh"), "cdefgh");
        assert_eq!(short_id(""), "");
    }

    #[test]
    fn a_blob_id_is_lower_case_hex() {
        assert!(BlobId::parse(&"a0".repeat(32)).is_some());
        assert!(BlobId::parse(&"A0".repeat(32)).is_none());
        assert!(BlobId::parse("a0").is_none());
    }
}
