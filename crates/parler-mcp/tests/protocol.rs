//! JSON-RPC and the handshake, over literal lines, with a hub that is not there.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Host, options, text_of};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Nothing listens there: the port is reserved and never bound.
const NOWHERE: &str = "parler://127.0.0.1:1";

/// What `initialize` and `tools/list` may take whatever the hub does.
const AT_ONCE: Duration = Duration::from_millis(50);

/// All tools as listed, in bytes of JSON: they stand in every request of a model.
const LIST_BUDGET: usize = 6 * 1024;

async fn listening(host: &mut Host) -> Value {
    host.ask("tools/list", json!({})).await
}

#[tokio::test]
async fn the_server_introduces_itself_and_lists_its_tools_at_once_without_a_hub() {
    let mut best = Duration::MAX;
    let (mut hello, mut list) = (Value::Null, Value::Null);
    // The best of a few: on a machine that does other things any single one may be late.
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let mut host = Host::serve(options(NOWHERE, folder.path()));
        hello = host.introduce().await;
        list = listening(&mut host).await;
        best = best.min(started.elapsed());
    }
    println!("initialize and tools/list: {best:?}");
    assert!(best < AT_ONCE, "{best:?}");
    let result = &hello["result"];
    assert_eq!(result["serverInfo"]["name"], "parler");
    assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(result["protocolVersion"], "2025-06-18");
    assert!(result["capabilities"]["tools"].is_object(), "{hello}");
    assert!(result["instructions"].as_str().unwrap().len() < 800);
    let names: Vec<_> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "parler_open_session",
            "parler_join_session",
            "parler_close_session",
            "parler_send",
            "parler_recv",
            "parler_handoff",
            "parler_turn",
            "parler_rooms",
            "parler_roster",
        ]
    );
    let bytes = list["result"]["tools"].to_string().len();
    println!("tools/list: {bytes} bytes for {} tools", names.len());
    assert!(bytes <= LIST_BUDGET, "{bytes} bytes");
}

#[tokio::test]
async fn a_hub_that_accepts_and_says_nothing_delays_no_start_and_a_call_ends_with_a_clear_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("parler://{}", listener.local_addr().unwrap());
    let started = Instant::now();
    let mut host = Host::with(&url, |options| {
        options.client.timeouts.connect = Duration::from_millis(300);
        options.client.timeouts.request = Duration::from_millis(600);
    })
    .await;
    listening(&mut host).await;
    // The half of what the hub is given: it was not waited for.
    assert!(
        started.elapsed() < Duration::from_millis(150),
        "{:?}",
        started.elapsed()
    );
    let text = host.fails("parler_rooms", json!({})).await;
    assert!(
        text.contains("in time") && text.contains("Call again"),
        "{text}"
    );
    assert!(host.close().await < Duration::from_secs(2));
    // Also with a call in flight that would go on for long.
    let mut host = Host::start(&url).await;
    let id = host.begin("parler_rooms", json!({})).await;
    host.ask("ping", json!({})).await;
    let closed = Instant::now();
    host.shut_input();
    let (text, failed) = text_of(&host.answer(id).await);
    assert!(failed && text.contains("closed the connection"), "{text}");
    host.ended().await;
    let took = closed.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn a_host_that_reads_no_more_is_the_end() {
    let host = Host::start(NOWHERE).await;
    host.shut_output().await;
}

#[tokio::test]
async fn a_hub_that_is_away_is_a_tool_error_that_names_it_and_the_server_lives() {
    let mut host = Host::start(NOWHERE).await;
    for (tool, arguments) in [
        ("parler_rooms", json!({})),
        ("parler_open_session", json!({"topic": "x"})),
        ("parler_join_session", json!({"key": "A3KELDJR"})),
        ("parler_recv", json!({"room": "x"})),
    ] {
        let text = host.fails(tool, arguments).await;
        assert!(text.contains("127.0.0.1:1"), "{tool}: {text}");
    }
    assert!(host.close().await < Duration::from_secs(2));
}

#[tokio::test]
async fn every_handshake_revision_is_answered_in_kind() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut host = Host::serve(options(NOWHERE, folder.path()));
        let hello = host
            .ask(
                "initialize",
                json!({"protocolVersion": asked, "capabilities": {},
                       "clientInfo": {"name": "h", "version": "1"}}),
            )
            .await;
        assert_eq!(hello["result"]["protocolVersion"], answered, "{asked}");
        let ping = host.ask("ping", json!({})).await;
        assert_eq!(ping["result"], json!({}), "{asked}: {ping}");
    }
}

#[tokio::test]
async fn the_revision_without_a_handshake_is_served_on_the_same_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::serve(options(NOWHERE, folder.path()));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "h", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = host.ask("server/discover", json!({"_meta": meta})).await;
    assert!(
        found["result"]["supportedVersions"]
            .as_array()
            .unwrap_or_else(|| panic!("{found}"))
            .contains(&json!("2026-07-28"))
    );
    let list = host.ask("tools/list", json!({"_meta": meta})).await;
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 9);
    let call = host
        .ask(
            "tools/call",
            json!({"_meta": meta, "name": "parler_close_session", "arguments": {}}),
        )
        .await;
    assert_eq!(text_of(&call), ("No session is active.".to_owned(), false));
}

#[tokio::test]
async fn a_sloppy_handshake_and_none_at_all_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::serve(options(NOWHERE, folder.path()));
    host.tell("notifications/initialized", json!({})).await;
    let list = listening(&mut host).await;
    assert!(list["result"]["tools"].is_array(), "{list}");
    let hello = host.ask("initialize", json!({})).await;
    assert_eq!(hello["result"]["protocolVersion"], "2024-11-05", "{hello}");
}

#[tokio::test]
async fn bad_lines_are_answered_without_an_id_and_the_server_lives() {
    let mut host = Host::start(NOWHERE).await;
    for (line, code) in [
        ("{\"jsonrpc\":", -32700),
        ("hello", -32700),
        ("[1,2]", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
        ("42", -32600),
    ] {
        host.line(line).await;
        let answer = host.next().await;
        assert_eq!(answer["error"]["code"], code, "{line}");
        assert!(answer.as_object().unwrap().contains_key("id") && answer["id"].is_null());
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty());
    }
    host.line("").await;
    assert!(listening(&mut host).await["result"].is_object());
}

#[tokio::test]
async fn unknown_methods_tools_and_parameters_have_their_codes() {
    let mut host = Host::start(NOWHERE).await;
    for method in [
        "no/such",
        "resources/list",
        "prompts/list",
        "logging/setLevel",
    ] {
        let answer = host.ask(method, json!({"level": "info"})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
    for params in [
        json!({}),
        json!({"name": "parler_nothing"}),
        json!({"name": 7}),
        json!({"name": "parler_rooms", "arguments": [1]}),
    ] {
        let answer = host.ask("tools/call", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    let text = host.fails("parler_send", json!({})).await;
    assert!(
        text.contains("`text`") && text.contains("parler_send {"),
        "{text}"
    );
}

#[tokio::test]
async fn a_call_without_an_id_is_not_executed() {
    let hub = parler_testkit::TestHub::start().await;
    let mut host = Host::start(&hub.url()).await;
    host.tell(
        "tools/call",
        json!({"name": "parler_open_session", "arguments": {"topic": "ghost"}}),
    )
    .await;
    let text = host.ok("parler_rooms", json!({})).await;
    assert!(!text.contains("ghost"), "{text}");
    assert!(host.next_within(Duration::from_millis(50)).await.is_none());
}

#[tokio::test]
async fn tools_say_what_they_change() {
    let mut host = Host::start(NOWHERE).await;
    let list = listening(&mut host).await;
    for tool in list["result"]["tools"].as_array().unwrap() {
        let hints = &tool["annotations"];
        let reads = ["parler_rooms", "parler_roster"].contains(&tool["name"].as_str().unwrap());
        assert_eq!(hints["readOnlyHint"], reads, "{tool}");
        assert!(hints["title"].is_string());
        if !reads {
            assert_eq!(hints["destructiveHint"], false);
        }
    }
}

#[tokio::test]
async fn the_last_request_before_the_end_of_input_is_answered() {
    let mut host = Host::start(NOWHERE).await;
    let id = host.begin("parler_close_session", json!({})).await;
    host.shut_input();
    assert!(text_of(&host.answer(id).await).0.contains("No session"));
    host.ended().await;
}

#[tokio::test]
async fn the_host_is_told_of_with_the_ids_of_its_requests() {
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut host = Host::with(NOWHERE, |options| {
        let told = std::sync::Arc::clone(&told);
        options.on_host = Some(std::sync::Arc::new(move |host: &parler_mcp::HostInfo| {
            told.lock().unwrap().push(host.clone());
        }));
    })
    .await;
    for _ in 0..2 {
        host.ask(
            "tools/call",
            json!({"_meta": {"threadId": "t-1", "progressToken": 1}, "name": "parler_close_session"}),
        )
        .await;
    }
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0].client_name, "test-host");
    assert_eq!(
        (told[0].session_id(), told[1].session_id()),
        (None, Some("t-1"))
    );
}
