//! A socket that speaks the wire without a client library: what is measured is the hub.

use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use parler_identity::{KeyPair, challenge};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// One logged-in connection.
pub struct Socket {
    ws: WebSocketStream<TcpStream>,
}

impl Socket {
    /// Opens a socket to any WebSocket server.
    pub async fn open(addr: SocketAddr) -> anyhow::Result<Socket> {
        let tcp = TcpStream::connect(addr).await?;
        tcp.set_nodelay(true)?;
        let (ws, _) = tokio_tungstenite::client_async(format!("ws://{addr}/ws"), tcp).await?;
        Ok(Socket { ws })
    }

    /// Opens a socket to a hub and logs in.
    pub async fn login(addr: SocketAddr, keys: &KeyPair, name: &str) -> anyhow::Result<Socket> {
        let mut socket = Socket::open(addr).await?;
        let mut hello = json!({"op": "hello", "id": keys.id().as_str(), "name": name});
        let reply = socket.ask(&hello).await?;
        let nonce = reply["nonce"].as_str().context("a challenge")?;
        hello["sig"] = challenge::answer(keys, nonce)?.into();
        let reply = socket.ask(&hello).await?;
        if reply["type"] != "welcome" {
            bail!("login: {reply}");
        }
        Ok(socket)
    }

    /// Sends text as it is.
    pub async fn post(&mut self, text: String) -> anyhow::Result<()> {
        Ok(self.ws.send(Message::text(text)).await?)
    }

    /// The next text frame.
    pub async fn text(&mut self) -> anyhow::Result<String> {
        loop {
            match self.ws.next().await.context("the socket ended")?? {
                Message::Text(text) => return Ok(text.as_str().to_owned()),
                Message::Close(frame) => bail!("closed: {frame:?}"),
                _ => {}
            }
        }
    }

    /// The next frame.
    pub async fn frame(&mut self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.text().await?)?)
    }

    /// Sends a frame and takes the next one as its reply.
    pub async fn ask(&mut self, frame: &Value) -> anyhow::Result<Value> {
        self.post(frame.to_string()).await?;
        self.frame().await
    }

    /// Sends a frame; any reply but an error.
    pub async fn done(&mut self, frame: &Value) -> anyhow::Result<Value> {
        let reply = self.ask(frame).await?;
        if reply["type"] == "error" {
            bail!("{frame}: {reply}");
        }
        Ok(reply)
    }

    /// Makes both sockets members of a new channel.
    pub async fn share(&mut self, others: &mut [&mut Socket], room: &str) -> anyhow::Result<()> {
        let invite = json!({"op": "invite", "kind": "channel", "room": room, "maxUses": 10_000});
        let code = self.done(&invite).await?["code"].clone();
        for other in others {
            other.done(&json!({"op": "redeem", "code": code})).await?;
        }
        Ok(())
    }
}

/// A `send` of a text to a room, with an idempotency key.
pub fn send(room: &str, text: &str, client_id: &str) -> String {
    json!({"op": "send", "target": {"kind": "room", "room": room}, "clientId": client_id,
           "parts": [{"kind": "text", "text": text}]})
    .to_string()
}

/// A new time-ordered idempotency key.
pub fn client_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
