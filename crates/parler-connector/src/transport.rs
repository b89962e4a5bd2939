//! The socket: dialling, TLS, raw frames in and out.
//!
//! Owns what a WebSocket needs to be bounded (buffers, message size) and how bytes become frames.
//! Knows nothing of logins, requests and their order.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use parler_protocol::limits::{MAX_BLOB_BYTES, WS_MESSAGE_SLACK_BYTES};
use parler_protocol::{SERVER_TYPES, ServerFrame};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as WsError, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::client::Request as Upgrade;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Message, Utf8Bytes};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};

use crate::error::{ClientError, words};
use crate::tls::{self, Authorities};

/// What is read from the socket at once: most frames fit, and an idle connection costs little.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// What is gathered before it is written; every frame is flushed anyway.
const WRITE_BUFFER_BYTES: usize = 8 * 1024;
/// The largest message that is read, in round figures what a hub sends at most: one blob and a
/// little more. What is larger ends the connection before it is allocated.
pub(crate) const MAX_MESSAGE_BYTES: usize = 28 * 1024 * 1024;
const _: () = assert!(MAX_MESSAGE_BYTES as u64 > MAX_BLOB_BYTES + WS_MESSAGE_SLACK_BYTES);
/// The most that may wait to be written: one message of the largest kind and its framing.
const MAX_WRITE_BUFFER_BYTES: usize = MAX_MESSAGE_BYTES + WRITE_BUFFER_BYTES + 1024;

/// How long a hub that does not say it wants no more connections: its budget is one of a minute.
const USUAL_PAUSE: Duration = Duration::from_secs(60);
/// The longest such time that is told.
const MAX_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

type Ws = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// An open WebSocket. Both halves can be used at once, so that neither end waits for the other to
/// read first.
pub(crate) struct Socket {
    pub(crate) sink: SplitSink<Ws, Message>,
    pub(crate) stream: SplitStream<Ws>,
}

/// Something that came over the socket and left it in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    /// A frame, and how many bytes it had.
    Frame(Box<ServerFrame>, usize),
    /// A reply of a known type that does not decode.
    Unreadable(&'static str),
    /// A binary message.
    Bytes(Bytes),
    /// A sign of life that means nothing else: a WebSocket ping, a frame of an unknown type.
    Nothing,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By a Close frame.
    Closed { code: u16, reason: String },
    /// Without one.
    Lost(String),
    /// A message larger than [`MAX_MESSAGE_BYTES`] was announced.
    TooLarge,
    /// Text that is no frame of a hub.
    Garbage(String),
}

/// Opens the WebSocket at a dial URL (`ws://` or `wss://`, path included). Certificates are checked
/// with the public web authorities, and with those that are given.
pub(crate) async fn dial(
    url: &str,
    authorities: Option<&Authorities>,
) -> Result<Socket, ClientError> {
    let upgrade = upgrade(url)?;
    provide_tls();
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(MAX_WRITE_BUFFER_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let no_delay = true;
    // Without a connector of ours the bundled web roots are what certificates are checked with.
    let connector = authorities.map(|authorities| Connector::Rustls(authorities.config()));
    let (ws, _) = connect_async_tls_with_config(upgrade, Some(config), no_delay, connector)
        .await
        .map_err(|error| not_opened(url, error))?;
    let (sink, stream) = ws.split();
    Ok(Socket { sink, stream })
}

pub(crate) fn upgrade(url: &str) -> Result<Upgrade, ClientError> {
    let bad = |reason: &str| ClientError::BadUrl {
        url: words(url),
        reason: reason.to_owned(),
    };
    let upgrade = url
        .into_client_request()
        .map_err(|error| bad(&words(&error.to_string())))?;
    let uri = upgrade.uri();
    let authority = uri.authority().map_or("", |a| a.as_str());
    let host = uri.host().unwrap_or_default();
    if authority.contains('@') {
        return Err(bad("a hub's address holds no user name"));
    }
    if host.is_empty() {
        return Err(bad("it names no host"));
    }
    // Otherwise the usual port would be dialled.
    if authority.len() > host.len() && uri.port_u16().is_none() {
        return Err(bad("its port is no number from 0 to 65535"));
    }
    Ok(upgrade)
}

/// Sees to it that TLS has its cryptography, once a process. A program that chose one keeps it.
fn provide_tls() {
    use rustls::crypto::{CryptoProvider, ring};
    if CryptoProvider::get_default().is_none() {
        // Losing a race here means that another thread installed one.
        let _ = ring::default_provider().install_default();
    }
}

fn not_opened(url: &str, error: WsError) -> ClientError {
    let url = words(url);
    let not_a_hub = |reason: String| ClientError::NotAHub {
        url: url.clone(),
        reason,
    };
    let unreachable = |reason: String| ClientError::Unreachable {
        url: url.clone(),
        reason,
    };
    match error {
        WsError::Http(response) => {
            let status = response.status();
            if status.as_u16() == 429 {
                let retry_after = retry_after(response.headers().get("retry-after"));
                return ClientError::Throttled { url, retry_after };
            }
            // A proxy whose hub is away passes.
            if status.is_server_error() || status.as_u16() == 408 {
                unreachable(format!("HTTP {status}"))
            } else {
                not_a_hub(format!("it answers with HTTP {status}"))
            }
        }
        WsError::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            let shown = words(&error.to_string());
            match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(why) => tls::failed(url, why, shown),
                None => not_a_hub(format!("TLS failed: {shown}")),
            }
        }
        WsError::Tls(error) => not_a_hub(words(&format!("TLS failed: {error}"))),
        WsError::Url(error) => ClientError::BadUrl {
            reason: words(&error.to_string()),
            url,
        },
        WsError::Io(error) => unreachable(words(&error.to_string())),
        WsError::Protocol(ProtocolError::HandshakeIncomplete)
        | WsError::ConnectionClosed
        | WsError::AlreadyClosed => unreachable("the connection ended at once".to_owned()),
        other => not_a_hub(words(&other.to_string())),
    }
}

/// What the header says in seconds; [`USUAL_PAUSE`] where it says something else.
fn retry_after(header: Option<&HeaderValue>) -> Duration {
    let secs = header.and_then(|header| header.to_str().ok()?.trim().parse().ok());
    secs.map_or(USUAL_PAUSE, Duration::from_secs).min(MAX_PAUSE)
}

/// Waits for whatever comes next. Safe to cancel.
pub(crate) async fn hear(stream: &mut SplitStream<Ws>) -> Result<Heard, Ending> {
    match stream.next().await {
        None => Err(Ending::Lost("the stream ended".to_owned())),
        Some(Err(error)) => Err(broken(&error)),
        Some(Ok(Message::Text(text))) => decode(text.as_str()),
        Some(Ok(Message::Close(close))) => Err(match close {
            Some(close) => Ending::Closed {
                code: close.code.into(),
                reason: words(close.reason.as_str()),
            },
            None => Ending::Lost("it was closed".to_owned()),
        }),
        Some(Ok(Message::Binary(bytes))) => Ok(Heard::Bytes(bytes)),
        Some(Ok(_)) => Ok(Heard::Nothing),
    }
}

/// Writes one text frame and flushes it.
pub(crate) async fn say(sink: &mut SplitSink<Ws, Message>, text: Utf8Bytes) -> Result<(), Ending> {
    sink.send(Message::Text(text))
        .await
        .map_err(|error| broken(&error))
}

/// Writes one binary message and flushes it.
pub(crate) async fn say_bytes(
    sink: &mut SplitSink<Ws, Message>,
    bytes: Vec<u8>,
) -> Result<(), Ending> {
    sink.send(Message::Binary(bytes.into()))
        .await
        .map_err(|error| broken(&error))
}

fn broken(error: &WsError) -> Ending {
    match error {
        WsError::Capacity(CapacityError::MessageTooLong { .. }) => Ending::TooLarge,
        WsError::Utf8(_) => Ending::Garbage("text that is not UTF-8".to_owned()),
        other => Ending::Lost(words(&other.to_string())),
    }
}

/// Reads one text message. A frame of a type that this version does not know is no error: hubs
/// may grow.
pub(crate) fn decode(text: &str) -> Result<Heard, Ending> {
    #[derive(Deserialize)]
    struct Peek {
        r#type: String,
    }
    match serde_json::from_str::<ServerFrame>(text) {
        Ok(frame) => return Ok(Heard::Frame(Box::new(frame), text.len())),
        Err(error) => match serde_json::from_str::<Peek>(text) {
            Ok(peek) => match SERVER_TYPES.iter().find(|known| **known == peek.r#type) {
                Some(known) if is_reply(known) => {
                    tracing::debug!(kind = known, %error, "a reply does not decode");
                    return Ok(Heard::Unreadable(known));
                }
                _ => tracing::trace!(kind = words(&peek.r#type), "ignoring an unknown frame"),
            },
            Err(_) => return Err(Ending::Garbage("text that is no frame".to_owned())),
        },
    }
    Ok(Heard::Nothing)
}

/// Whether a frame of that known type answers a request; see [`ServerFrame::is_unsolicited`].
fn is_reply(kind: &str) -> bool {
    !matches!(kind, "delivery" | "turn" | "guard" | "join_request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_told_from_what_may_come_later_and_from_garbage() {
        assert!(
            matches!(decode(r#"{"type":"pong"}"#), Ok(Heard::Frame(f, 15)) if *f == ServerFrame::Pong)
        );
        assert_eq!(decode(r#"{"type":"from_the_future"}"#), Ok(Heard::Nothing));
        assert_eq!(
            decode(r#"{"type":"sent","id":1}"#),
            Ok(Heard::Unreadable("sent"))
        );
        let strange = r#"{"type":"delivery","message":{"parts":[{"kind":"hologram"}]}}"#;
        assert_eq!(decode(strange), Ok(Heard::Nothing));
        for garbage in ["", "hello", "[]", "{}", r#"{"type":7}"#, "null"] {
            assert!(
                matches!(decode(garbage), Err(Ending::Garbage(_))),
                "{garbage}"
            );
        }
    }

    #[test]
    fn a_hub_that_wants_fewer_connections_says_for_how_long() {
        let secs = |text: &str| retry_after(HeaderValue::from_str(text).ok().as_ref()).as_secs();
        assert_eq!((secs(" 12 "), secs("soon"), secs("-1")), (12, 60, 60));
        assert_eq!(retry_after(None), USUAL_PAUSE);
        assert_eq!(secs("18446744073709551615"), MAX_PAUSE.as_secs());
    }

    #[test]
    fn what_is_a_reply_here_is_a_reply_in_the_contract() {
        let unasked: Vec<_> = SERVER_TYPES.iter().filter(|t| !is_reply(t)).collect();
        assert_eq!(unasked, [&"join_request", &"turn", &"guard", &"delivery"]);
    }

    #[test]
    fn an_address_that_is_none_is_refused_before_dialling() {
        for bad in [
            "ws:///ws",
            "ws://",
            "ws://a b/ws",
            "ws://user@h/ws",
            "ws://h:port/ws",
            "ws://h:65536/ws",
            "ws://[::1]:/ws",
        ] {
            let refused = upgrade(bad).map(|_| ());
            assert!(
                matches!(refused, Err(ClientError::BadUrl { .. })),
                "{bad}: {refused:?}"
            );
        }
        assert!(upgrade("wss://hub.example/ws").is_ok());
        assert!(upgrade("ws://[::1]:7070/ws").is_ok());
    }
}
