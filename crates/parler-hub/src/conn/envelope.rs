//! The only place where a client's JSON becomes types: reads the tag, then that op's struct.
//! `parts` stay raw (see [`super::parts`]).

use std::borrow::Cow;

use parler_protocol::{CLIENT_OPS, ClientFrame, Hello, Pull, Send};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::parts::{self, Checked};
use crate::blobs::Piece;
use crate::error::OpError;

/// A decoded request.
#[derive(Debug)]
pub enum Request {
    /// Log in.
    Hello(Hello),
    /// Append, with validated raw parts.
    Send(Send<Checked<Box<str>>>),
    /// Read.
    Pull(Pull),
    /// Everything else.
    Other(ClientFrame),
    /// Bytes of an upload.
    Piece(Piece),
    /// Not a frame: the answer to it, which waits for its turn like any other.
    Refused(OpError),
}

/// Decodes one text frame.
///
/// # Errors
/// `bad_frame` with what is wrong.
pub fn decode(text: &str) -> Result<Request, OpError> {
    match &*op_of(text)? {
        "hello" => read(text).map(Request::Hello),
        "pull" => read(text).map(Request::Pull),
        "send" => send(text).map(Request::Send),
        op if CLIENT_OPS.contains(&op) => read(text).map(Request::Other),
        op => Err(OpError::bad_frame(format_args!(
            "unknown op `{}`",
            shown(op)
        ))),
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, OpError> {
    serde_json::from_str(text).map_err(OpError::bad_frame)
}

fn send(text: &str) -> Result<Send<Checked<Box<str>>>, OpError> {
    let send: Send<&RawValue> = read(text)?;
    let parts = parts::normalise(send.parts.get()).map_err(OpError::bad_frame)?;
    Ok(Send {
        target: send.target,
        parts: Checked {
            json: parts.json.into(),
            kinds: parts.kinds,
        },
        mentions: send.mentions,
        reply_to: send.reply_to,
        client_id: send.client_id,
        deadline_secs: send.deadline_secs,
    })
}

/// The `op` of a frame. Where it stands first, as clients write it, nothing else is looked at.
fn op_of(text: &str) -> Result<Cow<'_, str>, OpError> {
    if let Some(rest) = text.strip_prefix(r#"{"op":""#)
        && let Some((op, _)) = rest.split_once('"')
        && op.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    {
        return Ok(Cow::Borrowed(op));
    }
    #[derive(Deserialize)]
    struct Tag<'a> {
        #[serde(borrow)]
        op: Cow<'a, str>,
    }
    read::<Tag<'_>>(text).map(|tag| tag.op)
}

/// An unknown op in an error text: short, and nothing that drives a terminal.
fn shown(op: &str) -> String {
    parler_protocol::clean::name(op).chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_may_stand_anywhere() {
        for text in [
            r#"{"op":"ping"}"#,
            r#"{"zzz":1,"op":"ping"}"#,
            r#" { "op" : "ping" } "#,
            r#"{"op":"p\u0069ng"}"#,
        ] {
            assert!(
                matches!(decode(text), Ok(Request::Other(ClientFrame::Ping))),
                "{text}"
            );
        }
    }

    #[test]
    fn a_send_keeps_its_parts_as_written() {
        let text = r#"{"op":"send","target":{"kind":"room","room":"r"},"parts":[ {"kind":"text","text":"x"}]}"#;
        match decode(text) {
            Ok(Request::Send(send)) => {
                assert_eq!(&*send.parts.json, r#"[ {"kind":"text","text":"x"}]"#);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_frame_is_named() {
        for (text, why) in [
            ("hello there", "expected"),
            (r#"{"op":"frobnicate"}"#, "unknown op `frobnicate`"),
            (r#"{"op":5}"#, "invalid type"),
            (r#"{"op":"roster","room":"a","room":"b"}"#, "duplicate"),
            (r#"{"op":"pull"}"#, "room"),
            (
                r#"{"op":"send","target":{"kind":"room","room":"x"}}"#,
                "parts",
            ),
        ] {
            let error = format!("{:?}", decode(text).unwrap_err());
            assert!(
                error.contains("bad_frame") || error.contains("BadFrame"),
                "{error}"
            );
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
