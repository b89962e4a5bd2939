//! What a client says in the log, and what it never says there.
#![allow(clippy::unwrap_used)] // in a test's own functions too

mod common;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Conn, FakeHub, NONCE, keys, message, pulled, usual};
use parler_connector::{Client, ClientOptions, Endpoint, Outgoing, Timeouts};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps every line that is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    fn warnings(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        let warnings = lines.iter().filter(|(level, _)| *level <= Level::WARN);
        warnings.map(|(_, line)| line.clone()).collect()
    }

    fn all(&self) -> String {
        format!("{:?}", self.0.lock().unwrap())
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("parler_connector")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let level = *event.metadata().level();
        self.0.lock().unwrap().push((level, line.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn options(url: &str) -> ClientOptions {
    let mut options = ClientOptions::new(Endpoint::new(url), keys(1), "planner");
    options.endpoint.secret = Some("sesame-open".to_owned().into());
    options.timeouts = Timeouts {
        connect: Duration::from_millis(200),
        request: Duration::from_millis(1000),
    };
    options
}

#[tokio::test]
async fn another_version_of_the_protocol_is_warned_of_once() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.hear().await;
        conn.say(json!({"type":"challenge","nonce":NONCE,"version":"7.1"}))
            .await;
        let hello = conn.hear().await.unwrap();
        conn.say(json!({"type":"welcome","id":hello["id"],"name":"x"}))
            .await;
        // The first connection ends at its first request.
        while let Some(frame) = conn.hear().await.filter(|_| conn.n > 0) {
            conn.say(usual(&frame)).await;
        }
    })
    .await;
    let client = Client::connect(options(&hub.url())).await.unwrap();
    client.ping().await.unwrap();
    assert_eq!(hub.connections(), 2);
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("7.1"), "{warnings:?}");
}

#[tokio::test]
async fn a_secret_that_would_cross_a_network_in_clear_is_warned_of() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    // An address that documentation owns: nothing answers there.
    for url in ["ws://192.0.2.1:7070", "parler://192.0.2.1:7070"] {
        let before = log.warnings().len();
        let client = Client::new(options(url));
        assert!(client.ping().await.is_err());
        assert!(client.ping().await.is_err());
        assert_eq!(log.warnings().len(), before + 1, "once a client");
    }
    let before = log.warnings().len();
    for url in ["wss://192.0.2.1:7070", "ws://127.0.0.1:1", "localhost:1"] {
        assert!(Client::new(options(url)).ping().await.is_err());
    }
    let mut without = options("ws://192.0.2.1:7070");
    without.endpoint.secret = None;
    assert_eq!(log.warnings().len(), before);
    assert!(Client::new(without).ping().await.is_err());
    assert_eq!(
        log.warnings().len(),
        before + 1,
        "messages are worth a word too"
    );
    assert!(!log.all().contains("sesame-open"));
}

#[tokio::test]
async fn neither_secrets_nor_bodies_reach_the_log() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        while let Some(frame) = conn.hear().await {
            conn.say(usual(&frame)).await;
            // A reply to nothing, with a body.
            let mut stray = message(1);
            stray["parts"][0]["text"] = json!("the plan");
            conn.say(pulled(&[stray], 1)).await;
        }
    })
    .await;
    let client = Client::connect(options(&hub.url())).await.unwrap();
    client.send(Outgoing::text("r", "the plan")).await.unwrap();
    hub.until("the send", |hub| hub.of("send").len() == 1).await;
    // The stray frame is heard before anything else is, or ends the connection.
    let _ = client.rooms().await;
    drop(hub);
    let _ = client.rooms().await;
    let all = log.all();
    for word in ["the plan", "sesame-open", keys(1).seed_text().as_str()] {
        assert!(!all.contains(word), "{all}");
    }
    assert!(!all.is_empty());
}
