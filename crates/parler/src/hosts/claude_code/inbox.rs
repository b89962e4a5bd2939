//! The inbox of a running Claude Code session: a socket where a line opens a turn.
//!
//! Two lines of JSON: the token, then a user message. The socket never answers, not even to
//! nonsense, so writing proves nothing: what proves that the session woke is that it calls one of
//! our tools. Written from the session's own MCP server, because the session lets in its own
//! children and holds back everybody else.

use std::time::Duration;

use parler_connector::context::Context;
use parler_connector::doorbell::{Doorbell, DoorbellError, Ringing, Rung};
use serde_json::json;

use crate::os;

/// How long writing may take: the socket is on this machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the inbox of this process's session is.
#[derive(Clone)]
pub struct Inbox {
    socket: String,
    token: Option<String>,
}

/// Shows no token.
impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl Inbox {
    /// The inbox of the session that this process belongs to, where there is one.
    pub fn of(cx: &Context) -> Option<Inbox> {
        Some(Inbox {
            socket: cx.var("CLAUDE_CODE_MESSAGING_SOCKET")?.to_owned(),
            token: cx.var("CLAUDE_CODE_MESSAGING_TOKEN").map(str::to_owned),
        })
    }

    /// What is written to say `text`.
    fn lines(&self, text: &str) -> String {
        let auth = self
            .token
            .as_ref()
            .map(|token| json!({"type": "auth", "token": token}));
        let user = json!({"type": "user", "message": {"role": "user", "content": text}});
        let auth = auth.map(|line| format!("{line}\n")).unwrap_or_default();
        format!("{auth}{user}\n")
    }

    /// Puts the text into the inbox.
    ///
    /// # Errors
    /// When the socket is not there or does not take it.
    pub async fn put(&self, text: &str) -> std::io::Result<()> {
        let (socket, lines) = (self.socket.clone(), self.lines(text));
        let write = tokio::task::spawn_blocking(move || {
            os::write_to_socket(&socket, lines.as_bytes(), PATIENCE)
        });
        match tokio::time::timeout(PATIENCE, write).await {
            Ok(Ok(written)) => written,
            Ok(Err(e)) => Err(std::io::Error::other(e)),
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Doorbell for Inbox {
    fn name(&self) -> &str {
        "the session's inbox"
    }

    fn available(&self) -> bool {
        os::socket_exists(&self.socket)
    }

    fn ring<'a>(&'a self, text: &'a str) -> Ringing<'a> {
        Box::pin(async move {
            match self.put(text).await {
                // The socket never says what became of it.
                Ok(()) => Ok(Rung::Submitted),
                Err(e) => Err(DoorbellError::Failed {
                    bell: self.name().to_owned(),
                    why: e.to_string(),
                }),
            }
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::BufRead;

    #[tokio::test]
    async fn the_token_goes_before_the_message() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let reader = std::thread::spawn(move || {
            let (stream, _) = socket.accept().unwrap();
            std::io::BufReader::new(stream)
                .lines()
                .map(Result::unwrap)
                .collect::<Vec<_>>()
        });
        let cx = Context::new(
            [
                ("CLAUDE_CODE_MESSAGING_SOCKET", path.to_str().unwrap()),
                ("CLAUDE_CODE_MESSAGING_TOKEN", "t0k"),
            ],
            "/",
        );
        let inbox = Inbox::of(&cx).unwrap();
        assert!(inbox.available());
        assert_eq!(inbox.ring("two\nlines").await.unwrap(), Rung::Submitted);
        let lines = reader.join().unwrap();
        let lines: Vec<serde_json::Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0], json!({"type": "auth", "token": "t0k"}));
        assert_eq!(lines[1]["message"]["content"], "two\nlines");
        assert!(!format!("{inbox:?}").contains("t0k"));
    }

    #[tokio::test]
    async fn a_socket_that_is_gone_is_an_error() {
        let cx = Context::new([("CLAUDE_CODE_MESSAGING_SOCKET", "/nowhere/s.sock")], "/");
        let inbox = Inbox::of(&cx).unwrap();
        assert!(!inbox.available());
        assert!(inbox.ring("x").await.is_err());
        assert!(Inbox::of(&Context::new([("A", "b")], "/")).is_none());
    }
}
