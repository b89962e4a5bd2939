//! The error codes that a hub may send: closed for renaming, open for addition.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! codes {
    ($( $(#[$doc:meta])* $variant:ident = $text:literal ),+ $(,)?) => {
        /// A code in the `code` field of an `error` frame.
        ///
        /// Clients decide by the code, never by the text of the message. A code that this version
        /// does not know is kept as [`ErrorCode::Other`].
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $( $(#[$doc])* $variant, )+
            /// A code that this version does not know.
            Other(String),
        }

        impl ErrorCode {
            /// Every code that this version knows.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant),+];

            /// The code as it stands on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $( ErrorCode::$variant => $text, )+
                    ErrorCode::Other(text) => text,
                }
            }

            /// Reads a code; never fails.
            #[must_use]
            pub fn from_wire(text: &str) -> Self {
                match text {
                    $( $text => ErrorCode::$variant, )+
                    other => ErrorCode::Other(other.to_owned()),
                }
            }
        }
    };
}

codes! {
    /// An op before `hello`, an expired challenge, a bad signature.
    Unauthenticated = "unauthenticated",
    /// The text message is not a known client frame.
    BadFrame = "bad_frame",
    /// The frame is well formed and came at the wrong moment.
    Protocol = "protocol",
    /// A cap on connections, uploads, rooms, tokens or facts is reached.
    AtCapacity = "at_capacity",
    /// The handshake was not finished in time.
    Timeout = "timeout",
    /// The caller is not a member of the room; also for a room that does not exist.
    NotMember = "not_member",
    /// Nobody ever opened that service.
    UnknownService = "unknown_service",
    /// A budget is spent; `retryAfterMs` says for how long.
    RateLimited = "rate_limited",
    /// A field or frame is larger than its cap.
    TooLarge = "too_large",
    /// The disk budget for blobs is spent.
    StorageFull = "storage_full",
    /// The caller may not do that.
    NotAuthorized = "not_authorized",
    /// No such blob.
    UnknownBlob = "unknown_blob",
    /// A card whose id or signature does not match.
    InvalidCard = "invalid_card",
    /// The hub failed; the request may or may not have had an effect.
    Internal = "internal",
    /// The invite code is unknown, used up or expired.
    InvalidInvite = "invalid_invite",
    /// Only the owner of the room may do that; also for a room that does not exist.
    NotOwner = "not_owner",
    /// An op that the protocol knows and this hub does not do.
    Unsupported = "unsupported",
    /// The caller may not claim that turn.
    NotEligible = "not_eligible",
    /// The message carries no turn.
    UnknownTurn = "unknown_turn",
}

impl ErrorCode {
    /// Whether the same request may succeed later without anything else changing.
    ///
    /// `internal` is retryable because a send carries an idempotency key.
    #[must_use]
    pub fn retryable(&self) -> bool {
        matches!(
            self,
            ErrorCode::RateLimited
                | ErrorCode::AtCapacity
                | ErrorCode::Internal
                | ErrorCode::Timeout
                | ErrorCode::StorageFull
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(ErrorCode::from_wire(&String::deserialize(d)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_as_itself() {
        for code in ErrorCode::ALL {
            assert_eq!(&ErrorCode::from_wire(code.as_str()), code);
        }
        assert_eq!(ErrorCode::ALL.len(), 19);
    }

    #[test]
    fn an_unknown_code_is_kept() {
        let code: ErrorCode = serde_json::from_str("\"from_the_future\"").unwrap();
        assert_eq!(code, ErrorCode::Other("from_the_future".into()));
        assert_eq!(serde_json::to_string(&code).unwrap(), "\"from_the_future\"");
        assert!(!code.retryable());
    }
}
