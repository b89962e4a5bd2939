//! How an agent appears to others: arriving, looking on, its card.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, WEBDEV, options, peer};
use parler_connector::Outgoing;
use parler_testkit::{RawSocket, TestHub, keys, texts};
use serde_json::json;

#[tokio::test]
async fn who_joins_again_arrives_once() {
    let hub = TestHub::start().await;
    let mut raw = RawSocket::login(hub.addr(), &keys(2), "planner", None).await;
    let code = raw.open_channel("auth").await;
    let mut host = Host::start(&hub.url()).await;
    for _ in 0..2 {
        host.ok("parler_join_session", json!({"key": code})).await;
    }
    let said = texts(&raw.pull("auth", json!({"since": 0})).await);
    assert_eq!(said, ["webdev joined the session"]);
}

#[tokio::test]
async fn a_session_that_looks_on_reads_past_its_own_words_and_moves_nothing() {
    let hub = TestHub::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut raw = RawSocket::login(hub.addr(), &keys(2), "planner", None).await;
    let code = raw.open_channel("auth").await;
    let planner = peer(&hub.url(), 2, "planner");
    let mut hosts = Vec::new();
    for session in ["s1", "s2"] {
        let mut options = options(&hub.url(), folder.path());
        options.session_id = Some(session.into());
        let mut host = Host::serve(options);
        host.introduce().await;
        host.ok("parler_join_session", json!({"key": code})).await;
        hosts.push(host);
    }
    let looker = &mut hosts[1];
    looker.ok("parler_send", json!({"text": "mine"})).await;
    let mut me = RawSocket::login(hub.addr(), &keys(WEBDEV), "webdev", None).await;
    let before = me.ask(json!({"op": "rooms"})).await;
    assert!(
        before["rooms"][0]["unread"].as_u64().unwrap() > 0,
        "{before}"
    );
    let nothing = looker.ok("parler_recv", json!({})).await;
    assert_eq!(nothing, "(no new messages in 'auth')");
    assert_eq!(me.ask(json!({"op": "rooms"})).await, before);
    let id = looker.begin("parler_recv", json!({"wait_secs": 45})).await;
    looker.ask("ping", json!({})).await;
    planner.send(Outgoing::text("auth", "yours")).await.unwrap();
    let (text, _) = common::text_of(&looker.answer(id).await);
    assert!(
        text.contains("yours") && text.contains("Only shown"),
        "{text}"
    );
}
