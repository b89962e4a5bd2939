//! What can go wrong between a client and its hub, typed by what a caller does about it.
//!
//! No text here is decided upon by anybody: callers match the variant or the hub's code. What a
//! hub wrote is cleaned of control characters and cut before it gets in.

use std::time::Duration;

use parler_protocol::{ErrorCode, clean};

use crate::tls::Distrust;

/// Longest piece of a hub's words that an error repeats, in characters: a paragraph.
const MAX_WORDS: usize = 600;

/// Why a call did not do what was asked.
///
/// Cloneable, because one lost connection is the answer to several callers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address cannot be read as that of a hub.
    #[error("'{url}' is not the address of a hub: {reason}")]
    BadUrl {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing answers there, or the connection could not be made. Comes back when the hub does.
    #[error("cannot reach the hub at {url}: {reason}")]
    Unreachable {
        /// The hub.
        url: String,
        /// The system's words.
        reason: String,
    },
    /// The hub, or a proxy before it, takes no more connections from this address for now.
    #[error(
        "too many requests from this address; try again in {} s",
        retry_after.as_millis().div_ceil(1000)
    )]
    Throttled {
        /// The hub.
        url: String,
        /// When it may work.
        retry_after: Duration,
    },
    /// The hub accepts and says nothing. The request may or may not have had an effect.
    #[error("the hub at {url} did not answer in time ({what})")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// The hub.
        url: String,
    },
    /// The connection ended while the request was open: it may or may not have had an effect.
    #[error("the connection to the hub at {url} ended during '{what}': {reason}")]
    Lost {
        /// The op.
        what: &'static str,
        /// The hub.
        url: String,
        /// How it ended.
        reason: String,
    },
    /// Something answers there, and it is no Parler hub.
    #[error("what answers at {url} is not a Parler hub: {reason}")]
    NotAHub {
        /// The address.
        url: String,
        /// What gave it away.
        reason: String,
    },
    /// TLS, and the certificate that the hub shows is not to be believed. Nothing was sent.
    #[error("the certificate of {url} {}: {detail}", distrust.words())]
    BadCertificate {
        /// The address.
        url: String,
        /// Why.
        distrust: Distrust,
        /// The library's words.
        detail: String,
    },
    /// A hub answers there that is not the one whose key is known. Nothing secret was sent to it.
    #[error(
        "the program at {url} is not the expected hub: it did not prove the key …{expected}{}",
        got.as_deref().map(|id| format!(" (it names …{})", parler_protocol::ids::short_id(id))).unwrap_or_default(),
        expected = parler_protocol::ids::short_id(expected)
    )]
    WrongHub {
        /// The address.
        url: String,
        /// Id of the known hub key.
        expected: String,
        /// The id that it names instead; absent when it names none. A claim.
        got: Option<String>,
    },
    /// The hub asked for a signature over something that has not the shape of a login challenge.
    /// Nothing was signed.
    #[error(
        "authentication failed: the hub at {url} asked for a signature over something else than \
         a login challenge; nothing was signed"
    )]
    BadChallenge {
        /// The hub.
        url: String,
    },
    /// The hub passes on the challenge of another hub that this agent knows, to be let in there as
    /// this agent. Nothing was signed.
    #[error(
        "authentication failed: the hub at {url} passes on another hub's login, that of {other}; \
         nothing was signed"
    )]
    AnothersLogin {
        /// The hub.
        url: String,
        /// The hub whose login it is.
        other: String,
    },
    /// The hub wants a join secret and took none, or refused the one it got.
    #[error("authentication failed: {message}")]
    SecretRefused {
        /// The hub.
        url: String,
        /// The hub's words; they contain "join secret".
        message: String,
        /// Whether one was sent.
        sent: bool,
    },
    /// The hub refused the login for another reason.
    #[error("authentication failed: {message}")]
    AuthenticationFailed {
        /// The hub.
        url: String,
        /// The hub's code.
        code: Option<ErrorCode>,
        /// The hub's words.
        message: String,
    },
    /// The hub ended the connection for a violation (Close 1008) and does not want it back.
    #[error("the hub at {url} closed the connection for good: {reason}")]
    Expelled {
        /// The hub.
        url: String,
        /// The hub's words.
        reason: String,
    },
    /// The hub answered with an error. The connection is in order.
    #[error("{message}")]
    Refused {
        /// What to decide by; hubs leave it out now and then.
        code: Option<ErrorCode>,
        /// The hub's words.
        message: String,
        /// When it may work.
        retry_after: Option<Duration>,
    },
    /// The request is larger than any hub takes. Nothing was sent.
    #[error("'{what}' is too large: {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// The op.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The most that may be sent.
        limit: usize,
    },
    /// The reply is larger than this client takes; ask for less.
    #[error("the hub's reply to '{what}' is larger than {limit} bytes")]
    ReplyTooLarge {
        /// The op.
        what: &'static str,
        /// The most that is read.
        limit: usize,
    },
    /// The hub answered with something that does not belong to the request.
    #[error("the hub's reply to '{what}' cannot be used: {got}")]
    Unexpected {
        /// The op.
        what: &'static str,
        /// What came.
        got: String,
    },
    /// The op needs an exchange that [`crate::Client::request`] does not do.
    #[error("'{what}' cannot be sent as a single request")]
    NotASingleRequest {
        /// The op.
        what: &'static str,
    },
    /// The hub sent other bytes than those of the blob that it was asked for.
    #[error("the bytes that the hub sent are not those of blob {id}; they were not taken")]
    WrongBytes {
        /// The blob.
        id: String,
    },
    /// What was to be posted cannot be read, or what was fetched cannot be written.
    #[error("the bytes on this side: {0}")]
    LocalFile(String),
    /// The system gives no random bytes, so the hub cannot be asked to prove its key.
    #[error("the system gives no random bytes: {0}")]
    NoRandomness(String),
    /// The client was closed, or its runtime is gone.
    #[error("this connection was closed")]
    Stopped,
}

impl ClientError {
    /// Whether the same call may succeed later without anything else changing.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            ClientError::Refused { code, .. } => code.as_ref().is_some_and(ErrorCode::retryable),
            ClientError::Throttled { .. } => true,
            other => other.is_outage(),
        }
    }

    /// Whether the hub could not be talked to, as opposed to: it answered.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            ClientError::Unreachable { .. }
                | ClientError::TimedOut { .. }
                | ClientError::Lost { .. }
        )
    }

    /// Whether the login itself was refused: trying again with the same credentials is in vain.
    #[must_use]
    pub fn is_authentication(&self) -> bool {
        matches!(
            self,
            ClientError::BadChallenge { .. }
                | ClientError::AnothersLogin { .. }
                | ClientError::SecretRefused { .. }
                | ClientError::AuthenticationFailed { .. }
                | ClientError::WrongHub { .. }
        )
    }

    /// The hub's code, where it gave one.
    #[must_use]
    pub fn code(&self) -> Option<&ErrorCode> {
        match self {
            ClientError::Refused { code, .. } | ClientError::AuthenticationFailed { code, .. } => {
                code.as_ref()
            }
            _ => None,
        }
    }

    /// What a person could do next, as a sentence without a capital; `None` where the error says
    /// it all.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            ClientError::BadUrl { .. } => "write it like parler://HOST:PORT or wss://HOST",
            ClientError::Unreachable { .. } => {
                "start a hub there (parler hub), or name another one with PARLER_HUB"
            }
            ClientError::TimedOut { .. } | ClientError::Lost { .. } => {
                "try again; if it stays like this, look at the hub's log"
            }
            ClientError::NotAHub { .. } => {
                "check the address and port; parler whoami says where it comes from"
            }
            ClientError::BadCertificate { distrust, .. } => distrust.hint(),
            ClientError::WrongHub { .. } => {
                "stop the program that holds this port, or, if the hub was set up anew, remove \
                 the old key that is stored for it"
            }
            ClientError::BadChallenge { .. } => "do not use this hub; it is broken or hostile",
            ClientError::AnothersLogin { .. } => {
                "do not use this hub; if both are one hub, use the address that you know it by; \
                 a hub behind a proxy must be told its own address (parler hub --url)"
            }
            ClientError::SecretRefused { sent: false, .. } => {
                "set PARLER_JOIN_SECRET to the hub's join secret"
            }
            ClientError::SecretRefused { sent: true, .. } => {
                "ask the hub's owner for the present secret and set PARLER_JOIN_SECRET to it"
            }
            ClientError::AuthenticationFailed { .. } => "check this agent's key and name",
            ClientError::Expelled { .. } => "read the hub's words; connecting again will not help",
            ClientError::TooLarge { .. } => "send less at a time",
            ClientError::ReplyTooLarge { .. } => "ask for fewer at a time (--limit)",
            ClientError::Refused {
                code, retry_after, ..
            } => return refused_hint(code.as_ref(), *retry_after),
            ClientError::Throttled { .. }
            | ClientError::Unexpected { .. }
            | ClientError::NotASingleRequest { .. }
            | ClientError::WrongBytes { .. }
            | ClientError::LocalFile(_)
            | ClientError::NoRandomness(_)
            | ClientError::Stopped => return None,
        };
        Some(hint.to_owned())
    }
}

fn refused_hint(code: Option<&ErrorCode>, retry_after: Option<Duration>) -> Option<String> {
    if let Some(after) = retry_after {
        let secs = after.as_millis().div_ceil(1000);
        return Some(format!("try again in {secs} s"));
    }
    let hint = match code? {
        ErrorCode::NotMember => "parler rooms lists your rooms; join one with parler join KEY",
        ErrorCode::InvalidInvite => {
            "ask for a new key, in the form CODE@HUB if it is for another hub"
        }
        ErrorCode::NotOwner => "ask the owner of the room",
        ErrorCode::RateLimited | ErrorCode::AtCapacity | ErrorCode::Internal => {
            "try again in a moment"
        }
        ErrorCode::TooLarge => "send less at a time",
        ErrorCode::Unsupported => "this hub does not do that (yet)",
        ErrorCode::BadFrame => "the hub is older than this; update it",
        ErrorCode::UnknownService => "parler discover lists who is there",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Makes a hub's words fit to be repeated: cleaned, one line, cut on a character boundary.
pub(crate) fn words(text: &str) -> String {
    let cleaned = clean::name(text);
    match cleaned.char_indices().nth(MAX_WORDS) {
        Some((cut, _)) => format!("{}…", &cleaned[..cut]),
        None => cleaned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: Option<ErrorCode>) -> ClientError {
        ClientError::Refused {
            code,
            message: "no".into(),
            retry_after: None,
        }
    }

    #[test]
    fn only_what_may_heal_by_itself_is_retryable() {
        let url = || "ws://h/ws".to_owned();
        assert!(refused(Some(ErrorCode::RateLimited)).retryable());
        assert!(!refused(Some(ErrorCode::NotMember)).retryable());
        assert!(!refused(None).retryable());
        let lost = ClientError::TimedOut {
            what: "ping",
            url: url(),
        };
        assert!(lost.retryable() && lost.is_outage());
        let secret = ClientError::SecretRefused {
            url: url(),
            message: "wrong join secret".into(),
            sent: true,
        };
        assert!(!secret.retryable() && secret.is_authentication());
    }

    #[test]
    fn a_login_error_keeps_the_words_that_tell_it() {
        let error = ClientError::SecretRefused {
            url: "ws://h/ws".into(),
            message: "this hub needs a join secret".into(),
            sent: false,
        };
        assert_eq!(
            error.to_string(),
            "authentication failed: this hub needs a join secret"
        );
        assert!(error.hint().unwrap().contains("PARLER_JOIN_SECRET"));
    }

    #[test]
    fn a_stranger_on_the_port_is_named_by_short_keys_only() {
        let error = ClientError::WrongHub {
            url: "ws://127.0.0.1:7070/ws".into(),
            expected: "UAAAAAAAAAAAAAAAEXPECT".into(),
            got: Some("UBBBBBBBBBBBBBBBGOTTEN".into()),
        };
        assert_eq!(
            error.to_string(),
            "the program at ws://127.0.0.1:7070/ws is not the expected hub: it did not prove the \
             key …EXPECT (it names …GOTTEN)"
        );
    }

    #[test]
    fn a_hubs_words_drive_no_terminal_and_have_an_end() {
        assert_eq!(words("no\u{1b}[31m\n way"), "no[31m way");
        assert_eq!(words(&"é".repeat(2000)).chars().count(), MAX_WORDS + 1);
    }

    #[test]
    fn a_wait_that_the_hub_asks_for_is_the_hint() {
        let error = ClientError::Refused {
            code: Some(ErrorCode::RateLimited),
            message: "slow down".into(),
            retry_after: Some(Duration::from_millis(12_001)),
        };
        assert_eq!(error.hint().unwrap(), "try again in 13 s");
    }
}
