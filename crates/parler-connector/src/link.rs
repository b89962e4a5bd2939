//! One logged-in connection and the exchange on it: a request goes out, pushes are set aside, the
//! reply comes back.
//!
//! Replies bear no number: they come in the order of the requests, so there is one open request
//! at a time, and whatever puts the order in doubt (silence, a reply of the wrong type) ends the
//! connection. Repeating and reconnecting are decided elsewhere.

use std::pin::pin;

use parler_protocol::limits::MAX_TEXT_FRAME_BYTES;
use parler_protocol::{CLIENT_OPS, ClientFrame, ErrorFrame, ServerFrame};
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::error::{ClientError, words};
use crate::login;
use crate::shared::Shared;
use crate::transport::{self, Ending, Heard, MAX_MESSAGE_BYTES, Socket, hear, say, say_bytes};

/// Close code of a hub that does not want this client: RFC 6455, policy violation.
const CLOSE_VIOLATION: u16 = 1008;
/// Close code of a hub to which a message was too large.
const CLOSE_TOO_LARGE: u16 = 1009;

/// A frame that is ready to be written, as often as need be.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The op, for the words of errors and to tell which replies fit.
    pub(crate) op: &'static str,
    pub(crate) text: Utf8Bytes,
}

/// What a hub made of a request. The connection is in order.
#[derive(Debug)]
pub(crate) enum Answer {
    Frame(Box<ServerFrame>),
    /// Of a fitting type, but it does not decode.
    Unreadable(&'static str),
}

/// Why a connection cannot be used any more.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Broken {
    Ended(Ending),
    /// No reply in time.
    Silent,
    /// A reply that cannot belong to the request.
    OutOfOrder,
}

/// See the module.
pub(crate) struct Link {
    socket: Socket,
}

impl Request {
    /// Serialises a frame.
    ///
    /// Larger than any hub takes is an error here: a hub would end the connection over it.
    pub(crate) fn new(frame: &ClientFrame) -> Result<Self, ClientError> {
        // Frames serialise: string keys only, no failing implementations.
        let text = serde_json::to_string(frame).map_err(|error| ClientError::Unexpected {
            what: "request",
            got: error.to_string(),
        })?;
        let op = op_of(&text);
        if text.len() > MAX_TEXT_FRAME_BYTES {
            return Err(ClientError::TooLarge {
                what: op,
                bytes: text.len(),
                limit: MAX_TEXT_FRAME_BYTES,
            });
        }
        Ok(Request {
            op,
            text: text.into(),
        })
    }
}

/// The op of a serialised frame: its tag is written first.
fn op_of(text: &str) -> &'static str {
    let tag = text.strip_prefix(r#"{"op":""#).unwrap_or_default();
    let op = tag.split('"').next().unwrap_or_default();
    CLIENT_OPS
        .iter()
        .find(|known| **known == op)
        .copied()
        .unwrap_or("request")
}

impl Answer {
    /// The frame, or the error that it is.
    pub(crate) fn into_frame(self, op: &'static str) -> Result<ServerFrame, ClientError> {
        match self {
            Answer::Frame(frame) => match *frame {
                ServerFrame::Error(error) => Err(refused(error)),
                frame => Ok(frame),
            },
            Answer::Unreadable(kind) => Err(ClientError::Unexpected {
                what: op,
                got: format!("a '{kind}' frame that this version cannot read"),
            }),
        }
    }
}

/// The error that an `error` frame is to its caller.
pub(crate) fn refused(error: ErrorFrame) -> ClientError {
    ClientError::Refused {
        code: error.code,
        message: words(&error.message),
        retry_after: error.retry_after_ms.map(std::time::Duration::from_millis),
    }
}

impl Broken {
    /// The error that it is to the caller of `op`.
    pub(crate) fn into_error(self, op: &'static str, url: &str) -> ClientError {
        let url = url.to_owned();
        let lost = |url, reason| ClientError::Lost {
            what: op,
            url,
            reason,
        };
        match self {
            Broken::Silent => ClientError::TimedOut { what: op, url },
            Broken::OutOfOrder => ClientError::Unexpected {
                what: op,
                got: "a reply to something else".to_owned(),
            },
            Broken::Ended(Ending::Closed { code, reason }) => match code {
                CLOSE_VIOLATION => ClientError::Expelled { url, reason },
                CLOSE_TOO_LARGE => ClientError::Refused {
                    code: Some(parler_protocol::ErrorCode::TooLarge),
                    message: format!("the hub closed the connection: {reason}"),
                    retry_after: None,
                },
                _ => lost(url, format!("the hub closed it ({code} {reason})")),
            },
            Broken::Ended(Ending::Lost(reason)) => lost(url, reason),
            Broken::Ended(Ending::TooLarge) => ClientError::ReplyTooLarge {
                what: op,
                limit: MAX_MESSAGE_BYTES,
            },
            Broken::Ended(Ending::Garbage(got)) => ClientError::Unexpected { what: op, got },
        }
    }
}

impl Link {
    /// Dials and logs in, until `limit` at the latest.
    pub(crate) async fn open(shared: &Shared, limit: Instant) -> Result<Link, ClientError> {
        login::warn_if_plain(shared);
        let authorities = shared.options.endpoint.authorities.as_ref();
        let socket = timeout_at(limit, transport::dial(&shared.dial_url, authorities))
            .await
            .map_err(|_| ClientError::TimedOut {
                what: "connecting",
                url: shared.shown_url.clone(),
            })??;
        let mut link = Link { socket };
        login::login(&mut link, shared, limit).await?;
        shared.known_good.set(true);
        Ok(link)
    }

    /// Sends a request and waits for its reply until `limit`. What comes unasked goes to `push`.
    ///
    /// After an error, and when it was cancelled, the connection is of no use: drop it.
    pub(crate) async fn ask(
        &mut self,
        request: &Request,
        limit: Instant,
        push: &mut (dyn FnMut(ServerFrame, usize) + std::marker::Send),
    ) -> Result<Answer, Broken> {
        let exchange = self.exchange(request, push);
        match timeout_at(limit, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(Broken::Silent),
        }
    }

    async fn exchange(
        &mut self,
        request: &Request,
        push: &mut (dyn FnMut(ServerFrame, usize) + std::marker::Send),
    ) -> Result<Answer, Broken> {
        let Socket { sink, stream } = &mut self.socket;
        let mut sending = pin!(say(sink, request.text.clone()));
        let mut written = false;
        let mut unwritable = None;
        loop {
            // Writing first: a reply can only be one when the request is out.
            let heard = tokio::select! {
                biased;
                result = &mut sending, if !written => {
                    written = true;
                    // How it ended is said by what the hub wrote before; so read on.
                    unwritable = result.err();
                    continue;
                }
                heard = hear(stream) => heard,
            };
            match heard {
                Ok(Heard::Frame(frame, bytes)) if frame.is_unsolicited() => push(*frame, bytes),
                Ok(Heard::Frame(frame, _))
                    if written
                        && (unwritable.is_none() || matches!(*frame, ServerFrame::Error(_))) =>
                {
                    return answers(request.op, &frame)
                        .then_some(Answer::Frame(frame))
                        .ok_or(Broken::OutOfOrder);
                }
                Ok(Heard::Unreadable(kind)) if written => return Ok(Answer::Unreadable(kind)),
                Ok(_) => {}
                Err(closed @ Ending::Closed { .. }) => return Err(Broken::Ended(closed)),
                Err(ending) => return Err(Broken::Ended(unwritable.unwrap_or(ending))),
            }
        }
    }

    /// Sends one binary message. A hub that ends the connection meanwhile says why before: that
    /// is what comes back.
    pub(crate) async fn send_bytes(
        &mut self,
        bytes: Vec<u8>,
        limit: Instant,
    ) -> Result<(), Broken> {
        match timeout_at(limit, say_bytes(&mut self.socket.sink, bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(ending)) => match timeout_at(limit, self.ending()).await {
                Ok(Some(closed)) => Err(Broken::Ended(closed)),
                _ => Err(Broken::Ended(ending)),
            },
            Err(_) => Err(Broken::Silent),
        }
    }

    /// How the hub ended a connection, if it said so.
    async fn ending(&mut self) -> Option<Ending> {
        loop {
            match self.hear().await {
                Err(closed @ Ending::Closed { .. }) => return Some(closed),
                Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Waits for one more reply to a request until `limit`.
    pub(crate) async fn reply(&mut self, op: &str, limit: Instant) -> Result<Answer, Broken> {
        loop {
            match timeout_at(limit, self.hear()).await {
                Err(_) => return Err(Broken::Silent),
                Ok(Err(ending)) => return Err(Broken::Ended(ending)),
                Ok(Ok(Heard::Frame(frame, _))) if frame.is_unsolicited() => {}
                Ok(Ok(Heard::Frame(frame, _))) => {
                    return answers(op, &frame)
                        .then_some(Answer::Frame(frame))
                        .ok_or(Broken::OutOfOrder);
                }
                Ok(Ok(Heard::Unreadable(kind))) => return Ok(Answer::Unreadable(kind)),
                Ok(Ok(Heard::Bytes(_) | Heard::Nothing)) => {}
            }
        }
    }

    /// Waits for a binary message until `limit`; a reply in its place is out of order.
    pub(crate) async fn bytes(&mut self, limit: Instant) -> Result<Vec<u8>, Broken> {
        loop {
            match timeout_at(limit, self.hear()).await {
                Err(_) => return Err(Broken::Silent),
                Ok(Err(ending)) => return Err(Broken::Ended(ending)),
                Ok(Ok(Heard::Bytes(bytes))) => return Ok(bytes.into()),
                Ok(Ok(Heard::Frame(frame, _))) if frame.is_unsolicited() => {}
                Ok(Ok(Heard::Frame(..) | Heard::Unreadable(_))) => return Err(Broken::OutOfOrder),
                Ok(Ok(Heard::Nothing)) => {}
            }
        }
    }

    /// Waits for something to come while no request is open. Safe to cancel.
    pub(crate) async fn hear(&mut self) -> Result<Heard, Ending> {
        hear(&mut self.socket.stream).await
    }

    /// Says good-bye, until `limit` at the latest.
    pub(crate) async fn close(mut self, limit: Instant) {
        use futures_util::SinkExt;
        // A hub that is gone already has nothing to be told.
        let _ = timeout_at(limit, self.socket.sink.close()).await;
    }
}

/// The kind of a frame, for logs and errors: what it holds is not ours to repeat, and may be long.
pub(crate) fn kind_of(frame: &ServerFrame) -> String {
    /// Takes what is written up to the first bracket, and stops the writer there.
    struct Head(String);
    impl std::fmt::Write for Head {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            match text.split_once('(') {
                None => self.0.push_str(text),
                Some((head, _)) => {
                    self.0.push_str(head);
                    return Err(std::fmt::Error);
                }
            }
            Ok(())
        }
    }
    let mut head = Head(String::new());
    // Stopping it is how it works.
    let _ = std::fmt::write(&mut head, format_args!("{frame:?}"));
    head.0
}

/// Whether a reply can belong to a request: the table of the contract.
fn answers(op: &str, reply: &ServerFrame) -> bool {
    use ServerFrame as S;
    match reply {
        S::Error(_) => true,
        S::Challenge(_) | S::Welcome(_) => op == "hello",
        S::Pong => op == "ping",
        S::Subscribed => op == "subscribe",
        S::Unsubscribed => op == "unsubscribe",
        S::Invited(_) => op == "invite",
        S::Joined(_) => matches!(op, "redeem" | "serve"),
        S::JoinPending(_) => op == "redeem",
        S::JoinRequests(_) => op == "join_requests",
        S::JoinResolved(_) => op == "resolve_join",
        S::Claimed(_) => op == "claim",
        S::Queued(_) => op == "queue",
        S::Completed(_) => op == "complete",
        S::Released(_) => op == "release",
        S::Declined(_) => op == "decline",
        S::Cancelled(_) => op == "cancel",
        S::Turns(_) => op == "turns",
        S::Registered(_) => op == "register",
        S::Directory(_) => op == "discover",
        S::Card(_) => op == "lookup",
        S::DirectoryToken(_) => op == "mint_directory_token",
        S::Watch(_) => op == "mint_watch",
        S::Admin(_) => op == "mint_admin",
        S::Sent(_) => op == "send",
        S::Pulled(_) => op == "pull",
        S::Remembered(_) => op == "remember",
        S::Recalled(_) => op == "recall",
        S::Rooms(_) => op == "rooms",
        S::RoomDeleted(_) => op == "delete_room",
        S::Roster(_) => op == "roster",
        S::PresenceOk => op == "presence",
        S::AttentionOk => op == "set_attention",
        S::BlobReady(_) | S::BlobStored(_) => op == "put_blob",
        S::BlobIncoming(_) => op == "get_blob",
        S::Left(_) => op == "leave",
        S::Removed(_) => op == "remove_member",
        S::Owner(_) => op == "transfer_owner",
        S::Revoked(_) => matches!(op, "revoke_invite" | "revoke_token"),
        S::NameBound(_) => op == "bind_name",
        S::RoomPolicy(_) => op == "room_policy",
        S::Delivery(_) | S::Turn(_) | S::Guard(_) | S::JoinRequest(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::{Pull, Target};

    use super::*;

    #[test]
    fn a_request_knows_its_op() {
        let pull = ClientFrame::Pull(Pull {
            room: r#"{"op":"ping"}"#.into(),
            since: None,
            limit: None,
            wait_secs: None,
            ack: None,
        });
        assert_eq!(Request::new(&pull).unwrap().op, "pull");
        assert_eq!(Request::new(&ClientFrame::Ping).unwrap().op, "ping");
    }

    #[test]
    fn what_no_hub_takes_is_not_sent() {
        let send = ClientFrame::Send(parler_protocol::Send {
            target: Target::Room { room: "r".into() },
            parts: vec![parler_protocol::Part::text(
                "x".repeat(MAX_TEXT_FRAME_BYTES),
            )],
            mentions: None,
            reply_to: None,
            client_id: None,
            deadline_secs: None,
        });
        assert!(matches!(
            Request::new(&send),
            Err(ClientError::TooLarge { what: "send", .. })
        ));
    }

    #[test]
    fn only_a_violation_is_the_end() {
        let closed = |code| {
            Broken::Ended(Ending::Closed {
                code,
                reason: "why".into(),
            })
            .into_error("send", "ws://h/ws")
        };
        assert!(matches!(closed(1008), ClientError::Expelled { .. }));
        for code in [1000, 1001, 1006, 1011, 1012, 1013, 4000] {
            assert!(closed(code).is_outage(), "{code}");
        }
        assert!(!closed(1009).retryable());
    }

    #[test]
    fn a_frame_is_named_without_what_it_holds() {
        let joined = parler_protocol::Joined {
            room: "secret-room".into(),
            kind: parler_protocol::RoomKind::Channel,
        };
        assert_eq!(kind_of(&ServerFrame::Joined(joined)), "Joined");
        assert_eq!(kind_of(&ServerFrame::Pong), "Pong");
    }

    #[test]
    fn a_reply_of_another_type_fits_no_request() {
        assert!(answers("ping", &ServerFrame::Pong));
        assert!(!answers("rooms", &ServerFrame::Pong));
        let error = ServerFrame::Error(ErrorFrame {
            message: "no".into(),
            code: None,
            retry_after_ms: None,
        });
        assert!(answers("rooms", &error));
    }
}
