//! Counters for the operator, on a listener of their own.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_testkit::{RawSocket, TestHub, get, keys};
use serde_json::json;

#[tokio::test]
async fn metrics_are_served_where_the_operator_says_and_nowhere_else() {
    let hub = TestHub::with(|config| {
        config.metrics_addr = Some("127.0.0.1:0".into());
        config.limits.max_ops_per_min = 4;
    })
    .await;
    let addr = hub.state().metrics_addr().unwrap();
    let mut a = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    a.open_channel("r").await;
    a.say("r", "x").await;
    a.ask(json!({"op": "rooms"})).await;
    a.ask(json!({"op": "rooms"})).await;
    assert_eq!(a.ask(json!({"op": "rooms"})).await["code"], "rate_limited");
    let seen = get(addr, "/metrics", None).await;
    assert!(seen.header("content-type").starts_with("text/plain"));
    let text = seen.text();
    for line in [
        "parler_connections 1",
        "parler_connections_total 1",
        "parler_messages_total 1",
        "parler_pushes_dropped_total 0",
        "parler_rate_refusals_total{budget=\"ops\"} 1",
        "parler_ops_total{op=\"rooms\"} 2",
        "parler_ops_total{op=\"send\"} 1",
        "# TYPE parler_store_commits_total counter",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert_eq!(get(addr, "/", None).await.status, 404);
    assert_eq!(get(addr, "/api/hub", None).await.status, 404);
    assert_eq!(get(hub.addr(), "/metrics", None).await.status, 404);
}

#[tokio::test]
async fn there_are_no_metrics_unless_asked_for() {
    let hub = TestHub::start().await;
    assert_eq!(hub.state().metrics_addr(), None);
}
