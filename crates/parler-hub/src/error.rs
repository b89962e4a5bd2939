//! Refusals: what an op answers instead of its reply, with a code to decide by.
//!
//! The wording lives here, in one constructor a case. Some fragments are matched by existing
//! clients and must stay: `invalid or unknown invite code`, `join secret`. Details of the store
//! are logged and never sent.

use parler_protocol::{ErrorCode, ErrorFrame, ServerFrame};
use parler_store::StoreError;

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct OpError {
    code: Option<ErrorCode>,
    message: String,
    retry_after_ms: Option<u64>,
}

impl OpError {
    /// A refusal with a code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        OpError {
            code: Some(code),
            message: message.into(),
            retry_after_ms: None,
        }
    }

    /// Existing clients expect no code here.
    pub fn uncoded(message: impl Into<String>) -> Self {
        OpError {
            code: None,
            message: message.into(),
            retry_after_ms: None,
        }
    }

    /// A budget is spent.
    pub fn rate_limited(what: &str, retry_after_ms: u64) -> Self {
        OpError {
            retry_after_ms: Some(retry_after_ms),
            ..OpError::new(
                ErrorCode::RateLimited,
                format!(
                    "rate limit: too many {what}, try again in {} s",
                    retry_after_ms / 1000 + 1
                ),
            )
        }
    }

    /// Whether a budget is spent.
    #[must_use]
    pub fn is_rate_limit(&self) -> bool {
        self.code == Some(ErrorCode::RateLimited)
    }

    /// A frame that is none of ours.
    pub fn bad_frame(why: impl std::fmt::Display) -> Self {
        OpError::new(ErrorCode::BadFrame, format!("malformed frame: {why}"))
    }

    /// A field over its cap.
    pub fn too_large(what: &str, cap: usize) -> Self {
        OpError::new(
            ErrorCode::TooLarge,
            format!("`{what}` is larger than {cap} bytes"),
        )
    }

    /// Not in the room, or no such room: the same words, so that nothing leaks.
    pub fn not_member(room: &str) -> Self {
        OpError::new(ErrorCode::NotMember, format!("not a member of '{room}'"))
    }

    /// Only the owner may; also for a room that does not exist.
    pub fn not_owner(message: String) -> Self {
        OpError::new(ErrorCode::NotOwner, message)
    }

    /// Whether there was no turn to act on.
    #[must_use]
    pub fn is_unknown_turn(&self) -> bool {
        self.code == Some(ErrorCode::UnknownTurn)
    }

    /// A message that carries no turn, or stands in another room.
    pub fn unknown_turn(message: &str, room: &str) -> Self {
        OpError::new(
            ErrorCode::UnknownTurn,
            format!("the message '{message}' of '{room}' offers no turn"),
        )
    }

    /// An op that the protocol knows and this hub does not do.
    pub fn unsupported(op: &str) -> Self {
        OpError::new(
            ErrorCode::Unsupported,
            format!("this hub does not support `{op}`"),
        )
    }

    /// An op before the login.
    pub fn unauthenticated() -> Self {
        OpError::new(
            ErrorCode::Unauthenticated,
            "not logged in: send `hello` first",
        )
    }

    /// A peer that cannot be written to yet.
    pub fn not_discoverable(agent: &str) -> Self {
        OpError::uncoded(format!(
            "'{agent}' isn't discoverable (no directory card) — pair first (invite/join)"
        ))
    }

    /// A code that opens nothing.
    pub fn invalid_invite(message: &str) -> Self {
        OpError::new(ErrorCode::InvalidInvite, message)
    }

    /// An existing room of strangers.
    pub fn room_exists(room: &str) -> Self {
        OpError::new(
            ErrorCode::NotMember,
            format!("room '{room}' already exists — only a member can mint an invite for it"),
        )
    }

    /// An agent's share of rooms is used up.
    pub fn too_many_rooms() -> Self {
        OpError::new(
            ErrorCode::AtCapacity,
            "you own as many rooms as this hub allows: delete one first",
        )
    }

    /// Nobody serves that yet.
    pub fn unknown_service(service: &str) -> Self {
        OpError::new(
            ErrorCode::UnknownService,
            format!("nobody ever served '{service}': check the name, or serve it yourself"),
        )
    }

    /// A service whose owner lets nobody come by itself, or not this agent.
    pub fn service_closed(room: &str) -> Self {
        OpError::new(
            ErrorCode::NotAuthorized,
            format!("'{room}' takes nobody in without an invite: ask its owner for one"),
        )
    }

    /// An op for service rooms in a room of another kind.
    pub fn not_a_service(room: &str) -> Self {
        OpError::new(
            ErrorCode::NotAuthorized,
            format!("'{room}' is not a service room"),
        )
    }

    /// The frame to send.
    #[must_use]
    pub fn into_frame(self) -> ServerFrame {
        ServerFrame::Error(ErrorFrame {
            message: self.message,
            code: self.code,
            retry_after_ms: self.retry_after_ms,
        })
    }
}

impl From<StoreError> for OpError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed");
        OpError::new(
            ErrorCode::Internal,
            "the hub could not store or read that: try again",
        )
    }
}
