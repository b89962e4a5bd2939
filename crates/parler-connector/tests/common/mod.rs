//! A hub that does what a test's script says, over a real WebSocket on a port of its own.
//!
//! It keeps every frame that it was sent, so that a test can say what a client never sent.
#![allow(dead_code, clippy::unwrap_used)] // each test file uses a part of it

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use parler_identity::KeyPair;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_async};

/// A challenge of the right shape.
pub const NONCE: &str =
    "parler-auth:v1:22879f9aaa3a:1760000060000:0b8f6b1e-3f0a-4b52-9d55-6a6f2f1c9a10";
/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Keys that are the same in every run.
pub fn keys(n: u8) -> KeyPair {
    KeyPair::from_seed_bytes([n; 32])
}

/// A scripted hub; it ends when it is dropped.
pub struct FakeHub {
    pub addr: SocketAddr,
    record: Arc<Record>,
    task: tokio::task::JoinHandle<()>,
}

/// Where a hub was: a port at which nobody listens.
pub struct Place {
    pub addr: SocketAddr,
    _held: TcpSocket,
}

/// What a hub has seen.
#[derive(Default)]
pub struct Record {
    frames: Mutex<Vec<(usize, Value)>>,
    connections: AtomicUsize,
    grown: Notify,
}

/// One connection, as the script sees it.
pub struct Conn {
    /// Number of the connection, from 0.
    pub n: usize,
    ws: WebSocketStream<TcpStream>,
    record: Arc<Record>,
}

impl FakeHub {
    /// Starts a hub on a free port; the script runs once a connection.
    pub async fn start<F, Fut>(script: F) -> Self
    where
        F: Fn(Conn) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), script)
    }

    /// Starts a hub where another one was.
    pub async fn start_at<F, Fut>(place: Place, script: F) -> Self
    where
        F: Fn(Conn) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let addr = place.addr;
        drop(place);
        Self::serve(TcpListener::bind(addr).await.unwrap(), script)
    }

    fn serve<F, Fut>(listener: TcpListener, script: F) -> Self
    where
        F: Fn(Conn) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let addr = listener.local_addr().unwrap();
        let record = Arc::new(Record::default());
        let seen = record.clone();
        let task = tokio::spawn(async move {
            let mut running = JoinSet::new();
            let script = Arc::new(script);
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let n = seen.connections.fetch_add(1, Ordering::SeqCst);
                seen.grown.notify_waiters();
                let (record, script) = (seen.clone(), script.clone());
                running.spawn(async move {
                    if let Ok(ws) = accept_async(tcp).await {
                        script(Conn { n, ws, record }).await;
                    }
                });
            }
        });
        FakeHub { addr, record, task }
    }

    /// A hub that logs everybody in and answers each frame with what the closure gives.
    pub async fn answering<F>(answer: F) -> Self
    where
        F: Fn(usize, &Value) -> Vec<Value> + Send + Sync + 'static,
    {
        let answer = Arc::new(answer);
        Self::start(move |mut conn: Conn| {
            let answer = answer.clone();
            async move {
                conn.login().await;
                while let Some(frame) = conn.hear().await {
                    for reply in answer(conn.n, &frame) {
                        conn.say(reply).await;
                    }
                }
            }
        })
        .await
    }

    pub fn url(&self) -> String {
        format!("parler://{}", self.addr)
    }

    /// Every frame that was received, in order, with the number of its connection.
    pub fn frames(&self) -> Vec<(usize, Value)> {
        self.record.frames.lock().unwrap().clone()
    }

    /// The received frames of one op.
    pub fn of(&self, op: &str) -> Vec<Value> {
        self.frames()
            .into_iter()
            .map(|(_, frame)| frame)
            .filter(|frame| frame["op"] == op)
            .collect()
    }

    pub fn connections(&self) -> usize {
        self.record.connections.load(Ordering::SeqCst)
    }

    /// Waits until what the hub has seen satisfies a condition.
    pub async fn until(&self, what: &str, seen: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let grown = self.record.grown.notified();
                if seen(self) {
                    return;
                }
                grown.await;
            }
        });
        waited
            .await
            .unwrap_or_else(|_| panic!("never happened: {what}; seen: {:?}", self.frames()));
    }

    /// Ends the hub with all its connections, abruptly. Its port stays taken, so that no hub of
    /// another test appears there.
    pub async fn stop(self) -> Place {
        self.task.abort();
        while !self.task.is_finished() {
            tokio::task::yield_now().await;
        }
        let held = TcpSocket::new_v4().unwrap();
        held.set_reuseaddr(true).unwrap();
        held.bind(self.addr).unwrap();
        Place {
            addr: self.addr,
            _held: held,
        }
    }
}

impl Drop for FakeHub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Conn {
    /// The next frame; `None` when the client is gone.
    pub async fn hear(&mut self) -> Option<Value> {
        loop {
            match self.ws.next().await? {
                Ok(Message::Text(text)) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    let seen = (self.n, frame.clone());
                    self.record.frames.lock().unwrap().push(seen);
                    self.record.grown.notify_waiters();
                    return Some(frame);
                }
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    /// The next binary message; `None` when the client is gone.
    pub async fn hear_bytes(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Message::Binary(bytes) = self.ws.next().await?.ok()? {
                return Some(bytes.to_vec());
            }
        }
    }

    /// Sends a frame. A client that is gone does not hear it.
    pub async fn say(&mut self, frame: Value) {
        let _ = self.ws.send(Message::text(frame.to_string())).await;
    }

    /// Sends whatever.
    pub async fn send(&mut self, message: Message) {
        let _ = self.ws.send(message).await;
    }

    /// Takes the client in as every hub does; gives its signed hello.
    pub async fn login(&mut self) -> Value {
        if self.hear().await.is_none() {
            return Value::Null;
        }
        self.say(json!({"type":"challenge","nonce":NONCE,"version":"0.2"}))
            .await;
        let Some(hello) = self.hear().await else {
            return Value::Null;
        };
        self.say(json!({"type":"welcome","id":hello["id"],"name":hello["name"]}))
            .await;
        hello
    }

    /// Closes with a code.
    pub async fn close(&mut self, code: u16, reason: &str) {
        let frame = CloseFrame {
            code: code.into(),
            reason: reason.to_owned().into(),
        };
        let _ = self.ws.send(Message::Close(Some(frame))).await;
    }

    /// Hears and never answers, until the client goes.
    pub async fn hold(mut self) {
        while self.hear().await.is_some() {}
    }
}

/// A reply of the usual form to anything that a test does not care about.
pub fn usual(frame: &Value) -> Value {
    match frame["op"].as_str().unwrap() {
        "ping" => json!({"type":"pong"}),
        "subscribe" => json!({"type":"subscribed"}),
        "presence" => json!({"type":"presence_ok"}),
        "set_attention" => json!({"type":"attention_ok"}),
        "rooms" => json!({"type":"rooms","rooms":[]}),
        "roster" => json!({"type":"roster","room":frame["room"],"entries":[]}),
        "send" => json!({"type":"sent","id":"m1","seq":1,"room":"r"}),
        "pull" => pulled(&[], frame["ack"].as_i64().unwrap_or(0)),
        "invite" => json!({"type":"invited","code":"A3KELDJR","url":"parler://h/join/A3KELDJR",
            "room":"r","kind":"channel","expiresAt":1}),
        other => panic!("no usual reply to {other}"),
    }
}

/// A `pulled` reply for room `r`.
pub fn pulled(messages: &[Value], cursor: i64) -> Value {
    json!({"type":"pulled","room":"r","messages":messages,"cursor":cursor})
}

/// A message in room `r`.
pub fn message(seq: i64) -> Value {
    json!({"seq":seq,"id":format!("m{seq}"),"room":"r","from":{"id":"UPEER","name":"peer"},
        "parts":[{"kind":"text","text":"hi"}],"ts":1})
}

/// A pushed message.
pub fn delivery(seq: i64) -> Value {
    json!({"type":"delivery","message":message(seq)})
}

/// An `error` frame.
pub fn error(code: Option<&str>, text: &str) -> Value {
    match code {
        Some(code) => json!({"type":"error","message":text,"code":code}),
        None => json!({"type":"error","message":text}),
    }
}
