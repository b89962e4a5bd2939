//! What is noticed although nobody pushed it, or although it could not be rung for at once.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::quiet_hub::QuietHub;
use common::{Bell, Host, code_of, options, peer};
use parler_connector::{Client, Outgoing};
use parler_protocol::HandoffRef;
use parler_testkit::{RawSocket, TestHub, keys};
use serde_json::json;

/// How long it may take until something is tried again.
const AGAIN: Duration = Duration::from_secs(25);
/// Long enough for a push to be judged and, where it may, rung for.
const ONE_LOOK: Duration = Duration::from_millis(300);
/// Longer than a ring waits for the ledger.
const LEDGER_WAIT: Duration = Duration::from_millis(1500);

async fn hand_over(planner: &Client, room: &str, next: &str) {
    let turn = HandoffRef {
        next: next.into(),
        summary: None,
        to: Some("webdev".into()),
        bundle: None,
    };
    planner.send(Outgoing::handoff(room, &turn)).await.unwrap();
}

#[tokio::test]
async fn what_comes_in_place_of_what_was_read_rings_without_a_push() {
    let hub = TestHub::start().await;
    let quiet = QuietHub::before(hub.addr()).await;
    let bell = Bell::new();
    let rung = Arc::clone(&bell);
    let mut host = Host::with(&quiet.url(), |options| options.doorbells = vec![rung]).await;
    let (room, key) = host.open("auth").await;
    let planner = peer(&hub.url(), 2, "planner");
    planner.redeem(code_of(&key)).await.unwrap();
    hand_over(&planner, &room, "first").await;
    assert!(bell.rung(1).await.contains("first"));
    // Between two looks one is read and one comes: their number is the same.
    host.ok("parler_recv", json!({})).await;
    hand_over(&planner, &room, "second").await;
    assert!(bell.rung(2).await.contains("second"));
}

#[tokio::test]
async fn a_session_that_only_looked_on_rings_when_the_acting_one_ends() {
    let hub = TestHub::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut raw = RawSocket::login(hub.addr(), &keys(2), "planner", None).await;
    let code = raw.open_channel("auth").await;
    let planner = peer(&hub.url(), 2, "planner");
    let bell = Bell::new();
    let mut hosts = Vec::new();
    for session in ["s1", "s2"] {
        let mut options = options(&hub.url(), folder.path());
        options.session_id = Some(session.into());
        if session == "s2" {
            options.doorbells = vec![Arc::clone(&bell) as _];
        }
        let mut host = Host::serve(options);
        host.introduce().await;
        host.ok("parler_join_session", json!({"key": code})).await;
        hosts.push(host);
    }
    hand_over(&planner, "auth", "left lying").await;
    tokio::time::sleep(ONE_LOOK).await;
    assert_eq!(bell.texts(), Vec::<String>::new());
    hosts.remove(0).close().await;
    let text = bell.rung_within(1, AGAIN).await;
    assert!(text.contains("left lying"), "{text}");
}

#[tokio::test]
async fn a_ledger_that_was_busy_is_asked_again() {
    let hub = TestHub::start().await;
    let folder = tempfile::tempdir().unwrap();
    let bell = Bell::new();
    let mut options = options(&hub.url(), folder.path());
    options.doorbells = vec![Arc::clone(&bell) as _];
    let ledger = options.base.join("once");
    let mut host = Host::serve(options);
    host.introduce().await;
    let (room, key) = host.open("auth").await;
    let planner = peer(&hub.url(), 2, "planner");
    planner.redeem(code_of(&key)).await.unwrap();
    hand_over(&planner, &room, "first").await;
    bell.rung(1).await;
    host.ok("parler_recv", json!({})).await;
    let lock = std::fs::read_dir(ledger)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "lock"))
        .unwrap();
    let held = std::fs::File::open(lock).unwrap();
    held.lock().unwrap();
    hand_over(&planner, &room, "second").await;
    tokio::time::sleep(LEDGER_WAIT).await;
    assert_eq!(bell.texts().len(), 1);
    held.unlock().unwrap();
    let text = bell.rung_within(2, AGAIN).await;
    assert!(text.contains("second"), "{text}");
}
