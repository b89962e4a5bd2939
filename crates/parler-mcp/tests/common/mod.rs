//! A host that speaks literal JSON-RPC lines to a server in this process, and people beside it.
//! No client library: what is compared is what stands on the wire.
#![allow(dead_code, clippy::unwrap_used)] // each test file uses its part; a failed step is a failed test

pub mod quiet_hub;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parler_connector::context::Context;
use parler_connector::doorbell::{Doorbell, Ringing, Rung};
use parler_connector::{Client, ClientOptions, Endpoint, Timeouts};
use parler_mcp::{McpError, McpOptions, serve};
use parler_testkit::keys;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// How long a test waits for what must happen.
pub const SOON: Duration = Duration::from_secs(10);

/// The server's agent; others get other numbers.
pub const WEBDEV: u8 = 1;

/// Options for a server of `webdev (frontend)` in a folder of its own.
pub fn options(url: &str, folder: &std::path::Path) -> McpOptions {
    let mut client = ClientOptions::new(Endpoint::new(url), keys(WEBDEV), "webdev");
    client.role = Some("frontend".into());
    let context = Context::new(Vec::<(String, String)>::new(), folder);
    McpOptions::new(client, context, folder.join("home"), folder.join("base"))
}

/// A client of another agent.
pub fn peer(url: &str, n: u8, name: &str) -> Client {
    let mut options = ClientOptions::new(Endpoint::new(url), keys(n), name);
    options.timeouts = Timeouts {
        connect: Duration::from_secs(5),
        request: Duration::from_secs(5),
    };
    Client::new(options)
}

/// The host's end of a server.
pub struct Host {
    input: Option<DuplexStream>,
    output: Lines<BufReader<DuplexStream>>,
    aside: VecDeque<Value>,
    next_id: i64,
    server: JoinHandle<Result<(), McpError>>,
    _folder: Option<tempfile::TempDir>,
}

impl Host {
    /// Starts a server for a hub and introduces the host.
    pub async fn start(url: &str) -> Host {
        Host::with(url, |_| {}).await
    }

    /// The same, with other options.
    pub async fn with(url: &str, change: impl FnOnce(&mut McpOptions)) -> Host {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(url, folder.path());
        change(&mut options);
        let mut host = Host::serve(options);
        host._folder = Some(folder);
        host.introduce().await;
        host
    }

    /// Starts a server and says nothing to it.
    pub fn serve(options: McpOptions) -> Host {
        let (to, input) = tokio::io::duplex(1 << 20);
        let (output, from) = tokio::io::duplex(1 << 20);
        let server = tokio::spawn(serve(options, input, output));
        Host {
            input: Some(to),
            output: BufReader::new(from).lines(),
            aside: VecDeque::new(),
            next_id: 0,
            server,
            _folder: None,
        }
    }

    /// Does the handshake.
    pub async fn introduce(&mut self) -> Value {
        let answer = self
            .ask(
                "initialize",
                json!({"protocolVersion": "2025-06-18", "capabilities": {},
                       "clientInfo": {"name": "test-host", "version": "1"}}),
            )
            .await;
        self.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        answer
    }

    /// Sends a line as it is.
    pub async fn line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        input
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    /// Sends a request; its id.
    pub async fn post(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line(&request.to_string()).await;
        id
    }

    /// Sends a notification.
    pub async fn tell(&mut self, method: &str, params: Value) {
        let note = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.line(&note.to_string()).await;
    }

    /// Starts a tool call; its id.
    pub async fn begin(&mut self, tool: &str, arguments: Value) -> i64 {
        self.post("tools/call", json!({"name": tool, "arguments": arguments}))
            .await
    }

    /// The next line of the server; `None` when none comes in that time.
    pub async fn next_within(&mut self, within: Duration) -> Option<Value> {
        if let Some(line) = self.aside.pop_front() {
            return Some(line);
        }
        self.fresh(within).await
    }

    async fn fresh(&mut self, within: Duration) -> Option<Value> {
        let line = timeout(within, self.output.next_line()).await.ok()?;
        let line = line.unwrap()?;
        Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON-RPC: {line}")))
    }

    /// The next line of the server.
    pub async fn next(&mut self) -> Value {
        self.next_within(SOON).await.expect("a line in time")
    }

    /// The answer to a request; other lines are set aside.
    pub async fn answer_within(&mut self, id: i64, within: Duration) -> Option<Value> {
        let until = Instant::now() + within;
        if let Some(at) = self.aside.iter().position(|line| line["id"] == id) {
            return self.aside.remove(at);
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.fresh(left).await?;
            if line["id"] == id && line.get("method").is_none() {
                return Some(line);
            }
            self.aside.push_back(line);
        }
    }

    /// The answer to a request.
    pub async fn answer(&mut self, id: i64) -> Value {
        self.answer_within(id, SOON)
            .await
            .unwrap_or_else(|| panic!("no answer to {id}"))
    }

    /// Asks and waits for the answer.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params).await;
        self.answer(id).await
    }

    /// Calls a tool: text and whether it failed.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let id = self.begin(tool, arguments).await;
        text_of(&self.answer(id).await)
    }

    /// Calls a tool that must not fail.
    pub async fn ok(&mut self, tool: &str, arguments: Value) -> String {
        let (text, failed) = self.call(tool, arguments).await;
        assert!(!failed, "{tool}: {text}");
        text
    }

    /// Calls a tool that must fail.
    pub async fn fails(&mut self, tool: &str, arguments: Value) -> String {
        let (text, failed) = self.call(tool, arguments).await;
        assert!(failed && text.starts_with("error: "), "{tool}: {text}");
        text
    }

    /// Gives a call up.
    pub async fn cancel(&mut self, id: i64) {
        self.tell(
            "notifications/cancelled",
            json!({"requestId": id, "reason": "test"}),
        )
        .await;
    }

    /// Opens a session; room and key.
    pub async fn open(&mut self, topic: &str) -> (String, String) {
        let text = self
            .ok("parler_open_session", json!({"topic": topic}))
            .await;
        (topic.to_owned(), key_of(&text))
    }

    /// Closes the input; how long the server took to end.
    pub async fn close(mut self) -> Duration {
        let closed = Instant::now();
        self.shut_input();
        self.ended().await;
        closed.elapsed()
    }

    /// Closes the input and keeps the output open: what still comes.
    pub fn shut_input(&mut self) {
        self.input = None;
    }

    /// Closes the output and keeps the input open; what the server sees is a broken pipe.
    pub async fn shut_output(mut self) {
        let (gone, _) = tokio::io::duplex(1);
        self.output = BufReader::new(gone).lines();
        self.post("ping", json!({})).await;
        self.ended().await;
    }

    /// Waits for the server's end.
    pub async fn ended(&mut self) {
        timeout(SOON, &mut self.server)
            .await
            .expect("the server ends")
            .unwrap()
            .unwrap();
    }
}

/// Text of a tool's result and whether it failed.
pub fn text_of(answer: &Value) -> (String, bool) {
    let result = &answer["result"];
    let text = result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no tool result: {answer}"));
    assert_eq!(result["content"].as_array().unwrap().len(), 1);
    (text.to_owned(), result["isError"].as_bool().unwrap())
}

/// The key in the answer of an opened session.
pub fn key_of(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("KEY: "));
    line.unwrap_or_else(|| panic!("no key: {text}")).to_owned()
}

/// The code in a key.
pub fn code_of(key: &str) -> &str {
    key.split('@').next().unwrap()
}

/// A doorbell that remembers what it was rung with.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<Vec<String>>,
    rings: Notify,
}

impl Bell {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// All texts so far.
    pub fn texts(&self) -> Vec<String> {
        self.rung.lock().unwrap().clone()
    }

    /// Waits until it was rung `n` times; the last text.
    pub async fn rung(&self, n: usize) -> String {
        self.rung_within(n, SOON).await
    }

    /// The same with another patience.
    pub async fn rung_within(&self, n: usize, within: Duration) -> String {
        let wait = async {
            loop {
                let next = self.rings.notified();
                if self.texts().len() >= n {
                    return;
                }
                next.await;
            }
        };
        timeout(within, wait).await.expect("the bell rings");
        self.texts()[n - 1].clone()
    }
}

impl Doorbell for Bell {
    fn name(&self) -> &str {
        "test bell"
    }
    fn available(&self) -> bool {
        true
    }
    fn ring<'a>(&'a self, text: &'a str) -> Ringing<'a> {
        Box::pin(async move {
            self.rung.lock().unwrap().push(text.to_owned());
            self.rings.notify_waiters();
            self.rings.notify_one();
            Ok(Rung::Submitted)
        })
    }
}
