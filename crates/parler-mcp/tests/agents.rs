//! How an agent appears to others: arriving, looking on, its card.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, WEBDEV, options, peer};
use parler_connector::Outgoing;
use parler_mcp::Card;
use parler_testkit::{RawSocket, TestHub, keys, texts};
use serde_json::json;
use tokio::time::Instant;

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

#[tokio::test]
async fn an_agent_has_a_card_after_its_first_call_and_is_found_by_its_name() {
    let hub = TestHub::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut card = Card::default();
    card.about.tags = vec!["css".into()];
    card.public = true;
    let mut served = options(&hub.url(), folder.path());
    served.card = Some(card);
    let mut host = Host::serve(served);
    host.introduce().await;
    let other = peer(&hub.url(), 2, "planner");
    assert_eq!(
        other.lookup(keys(WEBDEV).id().as_str()).await.unwrap(),
        None
    );
    host.ok("parler_rooms", json!({})).await;
    let until = Instant::now() + common::SOON;
    let found = loop {
        if let Some(found) = other.lookup(keys(WEBDEV).id().as_str()).await.unwrap() {
            break found;
        }
        assert!(Instant::now() < until, "no card");
        tokio::task::yield_now().await;
    };
    assert_eq!(found.card.name, "webdev");
    assert_eq!(found.card.tags.unwrap(), ["css"]);
    assert!(found.verified);
    // Somebody who shares no room with it writes to it by that name.
    let mut stranger = Host::with(&hub.url(), |options| {
        options.client.keys = keys(3);
        options.client.name = "tester".into();
    })
    .await;
    let sent = stranger
        .ok("parler_send", json!({"to": "WebDev", "text": "hi"}))
        .await;
    assert!(sent.starts_with("Sent to "), "{sent}");
}
