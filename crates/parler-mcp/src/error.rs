//! What can go wrong in this crate: for the process that serves, and for a model that calls.
//!
//! A tool's error is text for a model: it says what happened, to which thing, and what to do next.
//! Nothing decides by that text.

use parler_connector::ClientError;
use parler_protocol::ErrorCode;

/// Why the server ended with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The loop that serves the host broke down.
    #[error("the MCP server stopped: {0}")]
    Stopped(String),
}

/// Why a tool did not do what was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ToolError {
    /// The arguments cannot be read.
    #[error("{tool}: {reason}; example: {tool} {example}")]
    Arguments {
        tool: String,
        reason: String,
        example: String,
    },
    /// What was asked cannot be done; the text says why and what to do next.
    #[error("{0}")]
    Refused(String),
    /// The hub, or the way to it.
    #[error("{cause}{}", hint(cause).map(|hint| format!(". {hint}")).unwrap_or_default())]
    Hub {
        #[from]
        cause: ClientError,
    },
    /// The hub could not be found or started.
    #[error("no hub: {0}")]
    NoHub(String),
    /// The host closed the connection while the call ran.
    #[error("the host closed the connection; nothing more was done")]
    Closing,
    /// The call took longer than a call may.
    #[error("this took longer than {0} s; what was sent may have arrived. Call parler_recv to see")]
    TooSlow(u64),
}

impl ToolError {
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        ToolError::Refused(text.into())
    }

    /// Whether it may be different later without anything else changing.
    pub(crate) fn passes(&self) -> bool {
        match self {
            ToolError::Hub { cause } => cause.retryable(),
            _ => true,
        }
    }

    /// Whether the hub knows the op and does not do it, or does not know it.
    pub(crate) fn unsupported(&self) -> bool {
        matches!(self, ToolError::Hub { cause }
            if matches!(cause.code(), Some(ErrorCode::Unsupported | ErrorCode::BadFrame)))
    }
}

/// What a model could do next. Where the connector's hint names a command, the tool stands here.
fn hint(error: &ClientError) -> Option<String> {
    let hint = match error.code() {
        Some(ErrorCode::NotMember) => {
            "parler_rooms lists your rooms; join one with parler_join_session"
        }
        Some(ErrorCode::InvalidInvite) => {
            "Ask for a new key. A key of another hub has the form CODE@HUB"
        }
        Some(ErrorCode::Unsupported | ErrorCode::BadFrame) => {
            "This hub does not do that; update it, or do without"
        }
        Some(ErrorCode::TooLarge) => "Send less, or put the content in a file that both can read",
        _ => match error {
            ClientError::Unreachable { .. } => {
                "Call again in a moment; if it stays like this, ask your user to run: parler hub status"
            }
            ClientError::TimedOut { .. } | ClientError::Lost { .. } => {
                "Call again in a moment; nothing that you have not read is lost"
            }
            ClientError::ReplyTooLarge { .. } => "Ask for fewer messages with limit",
            _ => return error.hint().map(capital),
        },
    };
    Some(hint.to_owned())
}

fn capital(text: String) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do_next_in_terms_of_tools() {
        let away = ToolError::from(ClientError::Unreachable {
            url: "ws://127.0.0.1:1/ws".into(),
            reason: "connection refused".into(),
        });
        let text = away.to_string();
        assert!(
            text.contains("127.0.0.1:1") && text.contains("Call again"),
            "{text}"
        );

        let stranger = ToolError::from(ClientError::Refused {
            code: Some(ErrorCode::NotMember),
            message: "you are not a member of 'x'".into(),
            retry_after: None,
        });
        assert!(stranger.to_string().contains("parler_join_session"));

        let slow = ToolError::from(ClientError::Refused {
            code: Some(ErrorCode::RateLimited),
            message: "slow down".into(),
            retry_after: Some(std::time::Duration::from_secs(3)),
        });
        assert!(slow.to_string().ends_with("Try again in 3 s"), "{slow}");
    }
}
