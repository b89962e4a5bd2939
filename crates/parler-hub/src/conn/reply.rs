//! What goes back to a client: one text frame, ready to send.

use axum::extract::ws::Utf8Bytes;
use parler_protocol::ServerFrame;

use crate::error::OpError;

/// A text frame for the client.
#[derive(Clone, Debug)]
pub struct Reply(pub Utf8Bytes);

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
