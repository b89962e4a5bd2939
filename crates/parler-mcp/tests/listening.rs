//! What is noticed although nobody pushed it, or although it could not be rung for at once.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::quiet_hub::QuietHub;
use common::{Bell, Host, code_of, peer};
use parler_connector::{Client, Outgoing};
use parler_protocol::HandoffRef;
use parler_testkit::TestHub;
use serde_json::json;

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
