//! What goes back to a client: one text frame, ready to send.

use axum::extract::ws::Utf8Bytes;
use parler_protocol::{RoomName, Seq, ServerFrame};
use parler_store::LogEntry;

use crate::error::OpError;

/// A text frame for the client.
#[derive(Clone, Debug)]
pub struct Reply(pub Utf8Bytes);

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
        Reply(text.into())
    }
}

impl From<&ServerFrame> for Reply {
    fn from(frame: &ServerFrame) -> Self {
        let text = serde_json::to_string(frame).expect("frames serialise: string keys only");
        Reply(text.into())
    }
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
