//! What goes back to a client.

use parler_protocol::{RoomName, Seq, ServerFrame};
use parler_store::LogEntry;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::blobs::Download;
use crate::error::OpError;

/// The answer to a request.
#[derive(Debug)]
pub enum Reply {
    /// A text frame.
    Frame(Utf8Bytes),
    /// A text frame, and directly behind it the bytes that it announces.
    Blob(Utf8Bytes, Box<Download>),
    /// Nothing yet: more of the request has to come.
    Nothing,
    /// The end: bytes that nobody asked for.
    Stray,
    /// The end: a message larger than any may be.
    TooBig,
}

impl Reply {
    /// A frame with messages, made of their stored bytes.
    #[must_use]
    pub fn messages(
        frame: &str,
        room: &RoomName,
        entries: &[LogEntry],
        cursor: Option<Seq>,
    ) -> Reply {
        let room = serde_json::to_string(room.as_str()).expect("text serialises");
        let bytes: usize = entries.iter().map(|entry| entry.json.len() + 1).sum();
        let mut text = String::with_capacity(bytes + room.len() + 64);
        text.push_str(r#"{"type":""#);
        text.push_str(frame);
        text.push_str(r#"","room":"#);
        text.push_str(&room);
        text.push_str(r#","messages":["#);
        for (i, entry) in entries.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            text.push_str(&entry.json);
        }
        text.push(']');
        if let Some(cursor) = cursor {
            text.push_str(r#","cursor":"#);
            text.push_str(&cursor.0.to_string());
        }
        text.push('}');
        Reply::Frame(text.into())
    }
}

impl From<&ServerFrame> for Reply {
    fn from(frame: &ServerFrame) -> Self {
        Reply::Frame(text(frame))
    }
}

/// A frame as text.
#[must_use]
pub fn text(frame: &ServerFrame) -> Utf8Bytes {
    let text = serde_json::to_string(frame).expect("frames serialise: string keys only");
    text.into()
}

impl From<ServerFrame> for Reply {
    fn from(frame: ServerFrame) -> Self {
        Reply::from(&frame)
    }
}

impl From<OpError> for Reply {
    fn from(error: OpError) -> Self {
        error.into_frame().into()
    }
}

impl From<Result<ServerFrame, OpError>> for Reply {
    fn from(result: Result<ServerFrame, OpError>) -> Self {
        match result {
            Ok(frame) => frame.into(),
            Err(error) => error.into(),
        }
    }
}
