//! A WebSocket that sends literal JSON: no client library between the test and the wire.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use parler_identity::{KeyPair, challenge};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::{SOON, TestCert};

/// One open socket to a hub.
pub struct RawSocket {
    ws: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Pushes that came while a reply was awaited.
    pub pushes: Vec<Value>,
}

/// What came off the socket.
#[derive(Debug, PartialEq)]
pub enum Seen {
    /// A text frame.
    Frame(Value),
    /// A binary message.
    Bytes(Vec<u8>),
    /// A WebSocket pong.
    Pong,
    /// A Close frame with its code.
    Close(u16),
    /// The end of the stream without a Close frame, or an error.
    End,
}

impl RawSocket {
    /// Opens a socket.
    ///
    /// # Panics
    /// When there is no hub.
    pub async fn connect(addr: SocketAddr) -> RawSocket {
        RawSocket::try_connect(addr)
            .await
            .expect("a hub listens there")
    }

    /// Opens a socket.
    ///
    /// # Errors
    /// What the library says.
    pub async fn try_connect(addr: SocketAddr) -> Result<RawSocket, Error> {
        RawSocket::try_connect_with(addr, &[]).await
    }

    /// Opens a socket with more headers.
    ///
    /// # Errors
    /// What the library says; a refusal is [`Error::Http`].
    ///
    /// # Panics
    /// When a header is none.
    pub async fn try_connect_with(
        addr: SocketAddr,
        headers: &[(&'static str, &str)],
    ) -> Result<RawSocket, Error> {
        let tcp = tcp(addr).await?;
        RawSocket::upgrade(
            &format!("ws://{addr}/ws"),
            headers,
            MaybeTlsStream::Plain(tcp),
        )
        .await
    }

    /// Opens a socket to a hub that speaks TLS, under the name `localhost`.
    ///
    /// # Errors
    /// What the library says.
    ///
    /// # Panics
    /// Never: the name is one.
    pub async fn try_connect_tls(addr: SocketAddr, cert: &TestCert) -> Result<RawSocket, Error> {
        let name = "localhost".try_into().expect("a name");
        let tls = TlsConnector::from(cert.client())
            .connect(name, tcp(addr).await?)
            .await
            .map_err(Error::Io)?;
        RawSocket::upgrade("wss://localhost/ws", &[], MaybeTlsStream::Rustls(tls)).await
    }

    async fn upgrade(
        url: &str,
        headers: &[(&'static str, &str)],
        stream: MaybeTlsStream<TcpStream>,
    ) -> Result<RawSocket, Error> {
        let config = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let mut request = url.into_client_request()?;
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).expect("a header");
            request.headers_mut().insert(*name, value);
        }
        let (ws, _) =
            tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await?;
        Ok(RawSocket {
            ws,
            pushes: Vec::new(),
        })
    }

    /// Opens a socket and logs in.
    ///
    /// # Panics
    /// When the login is refused.
    pub async fn login(addr: SocketAddr, keys: &KeyPair, name: &str, role: Option<&str>) -> Self {
        let mut socket = RawSocket::connect(addr).await;
        let welcome = socket.hello(keys, name, role).await;
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        socket
    }

    /// Does both steps of the login; the last reply.
    pub async fn hello(&mut self, keys: &KeyPair, name: &str, role: Option<&str>) -> Value {
        let more = role.map_or(json!({}), |role| json!({"role": role}));
        self.hello_with(keys, name, more).await
    }

    /// The same with more fields.
    pub async fn hello_with(&mut self, keys: &KeyPair, name: &str, more: Value) -> Value {
        let mut hello = json!({"op": "hello", "id": keys.id().as_str(), "name": name});
        for (key, value) in more.as_object().expect("an object") {
            hello[key] = value.clone();
        }
        let challenge = self.ask(hello.clone()).await;
        let nonce = challenge["nonce"].as_str().expect("a nonce").to_owned();
        hello["sig"] = challenge::answer(keys, &nonce).expect("a challenge").into();
        hello["nonce"] = nonce.into();
        self.ask(hello).await
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// When the socket is gone.
    pub async fn post(&mut self, frame: Value) {
        self.send(Message::text(frame.to_string())).await;
    }

    /// Sends any text.
    pub async fn post_text(&mut self, text: &str) {
        self.send(Message::text(text.to_owned())).await;
    }

    /// Sends any message.
    ///
    /// # Panics
    /// When the socket is gone.
    pub async fn send(&mut self, message: Message) {
        self.ws.send(message).await.expect("the socket is open");
    }

    /// Sends a frame and waits for its reply; pushes that come before it are set aside.
    pub async fn ask(&mut self, frame: Value) -> Value {
        self.post(frame).await;
        self.reply().await
    }

    /// Sends any text and waits for the reply.
    pub async fn ask_text(&mut self, text: &str) -> Value {
        self.post_text(text).await;
        self.reply().await
    }

    /// The next frame that is no push.
    ///
    /// # Panics
    /// When none comes.
    pub async fn reply(&mut self) -> Value {
        loop {
            match self.next(SOON).await {
                Some(Seen::Frame(frame)) if is_push(&frame) => self.pushes.push(frame),
                Some(Seen::Frame(frame)) => return frame,
                Some(Seen::Pong) => {}
                other => panic!("a reply, not {other:?}"),
            }
        }
    }

    /// The next binary message.
    ///
    /// # Panics
    /// When something else comes first.
    pub async fn bytes(&mut self) -> Vec<u8> {
        match self.next(SOON).await {
            Some(Seen::Bytes(bytes)) => bytes,
            other => panic!("bytes, not {other:?}"),
        }
    }

    /// The next push.
    ///
    /// # Panics
    /// When none comes.
    pub async fn push(&mut self) -> Value {
        if !self.pushes.is_empty() {
            return self.pushes.remove(0);
        }
        match self.next(SOON).await {
            Some(Seen::Frame(frame)) if is_push(&frame) => frame,
            other => panic!("a push, not {other:?}"),
        }
    }

    /// What comes next; `None` when nothing does within `within`.
    pub async fn next(&mut self, within: Duration) -> Option<Seen> {
        let message = timeout(within, self.ws.next()).await.ok()?;
        Some(match message {
            Some(Ok(Message::Text(text))) => {
                Seen::Frame(serde_json::from_str(text.as_str()).expect("frames are JSON"))
            }
            Some(Ok(Message::Binary(bytes))) => Seen::Bytes(bytes.to_vec()),
            Some(Ok(Message::Pong(_))) => Seen::Pong,
            Some(Ok(Message::Close(frame))) => Seen::Close(frame.map_or(1005, |f| f.code.into())),
            Some(Ok(other)) => panic!("unexpected {other:?}"),
            Some(Err(_)) | None => Seen::End,
        })
    }

    /// Ends the connection without a word.
    pub fn abort(self) {
        drop(self);
    }

    // ---- the usual requests ------------------------------------------------------------------

    /// Opens a channel; its code.
    pub async fn open_channel(&mut self, room: &str) -> String {
        let reply = self
            .ask(json!({"op": "invite", "kind": "channel", "room": room}))
            .await;
        reply["code"]
            .as_str()
            .unwrap_or_else(|| panic!("{reply}"))
            .to_owned()
    }

    /// Redeems a code.
    pub async fn redeem(&mut self, code: &str) -> Value {
        self.ask(json!({"op": "redeem", "code": code})).await
    }

    /// Sends a text to a room; the reply.
    pub async fn say(&mut self, room: &str, text: &str) -> Value {
        self.ask(
            json!({"op": "send", "target": {"kind": "room", "room": room},
                        "parts": [{"kind": "text", "text": text}]}),
        )
        .await
    }

    /// Pulls with these fields beside `op` and `room`.
    pub async fn pull(&mut self, room: &str, fields: Value) -> Value {
        let mut frame = json!({"op": "pull", "room": room});
        for (key, value) in fields.as_object().expect("an object") {
            frame[key] = value.clone();
        }
        self.ask(frame).await
    }
}

async fn tcp(addr: SocketAddr) -> Result<TcpStream, Error> {
    let tcp = TcpStream::connect(addr).await.map_err(Error::Io)?;
    tcp.set_nodelay(true).map_err(Error::Io)?;
    Ok(tcp)
}

/// Whether a frame comes unasked.
fn is_push(frame: &Value) -> bool {
    const PUSHES: [&str; 4] = ["delivery", "turn", "guard", "join_request"];
    PUSHES.iter().any(|kind| frame["type"] == *kind)
}

/// The texts of a `pulled` reply, in order.
#[must_use]
pub fn texts(pulled: &Value) -> Vec<String> {
    let messages = pulled["messages"]
        .as_array()
        .unwrap_or_else(|| panic!("{pulled}"));
    let text = |m: &Value| {
        m["parts"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    messages.iter().map(text).collect()
}
