//! Cards, searching them, and writing to who has one, over literal JSON.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_identity::sign_card;
use parler_protocol::AgentCard;
use parler_testkit::{RawSocket, TestHub, keys};
use serde_json::{Value, json};

async fn agent(hub: &TestHub, n: u8, name: &str) -> RawSocket {
    RawSocket::login(hub.addr(), &keys(n), name, None).await
}

fn card(n: u8, fields: Value) -> Value {
    let mut card = json!({"id": keys(n).id().as_str(), "name": "x", "kind": "agent"});
    for (key, value) in fields.as_object().unwrap() {
        card[key] = value.clone();
    }
    card
}

async fn register(socket: &mut RawSocket, card: Value, visibility: &str) -> Value {
    socket
        .ask(json!({"op": "register", "card": card, "visibility": visibility}))
        .await
}

/// Names of the found cards.
async fn find(socket: &mut RawSocket, fields: Value) -> Vec<String> {
    let mut frame = json!({"op": "discover"});
    for (key, value) in fields.as_object().unwrap() {
        frame[key] = value.clone();
    }
    let found = socket.ask(frame).await;
    let agents = found["agents"]
        .as_array()
        .unwrap_or_else(|| panic!("{found}"));
    agents
        .iter()
        .map(|a| a["card"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_signed_card_is_verified_and_a_bad_one_refused() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1, "a").await;
    let card = card(
        1,
        json!({"name": "planner", "role": "lead", "tags": ["planning"], "future": 1}),
    );
    let typed: AgentCard = serde_json::from_value(card.clone()).unwrap();
    let sig = sign_card(&keys(1), &typed);
    let reply = a
        .ask(json!({"op": "register", "card": card, "sig": sig}))
        .await;
    assert_eq!(reply["verified"], true);
    assert_eq!(reply["visibility"], "private");
    let entry = a
        .ask(json!({"op": "lookup", "id": keys(1).id().as_str()}))
        .await["entry"]
        .clone();
    assert_eq!(entry["card"]["name"], "planner");
    assert!(
        entry["card"].get("future").is_none(),
        "unknown fields are dropped"
    );
    assert_eq!(
        (&entry["verified"], &entry["sig"]),
        (&json!(true), &json!(sig))
    );
    assert_eq!(entry["status"], "idle");
    let mut forged = card.clone();
    forged["name"] = "boss".into();
    let reply = a
        .ask(json!({"op": "register", "card": forged, "sig": sig}))
        .await;
    assert_eq!(reply["code"], "invalid_card");
    let reply = a
        .ask(json!({"op": "register", "card": super_card(2)}))
        .await;
    assert_eq!(reply["code"], "invalid_card", "somebody else's");
    let unknown = a.ask(json!({"op": "lookup", "id": "nobody"})).await;
    assert_eq!(unknown, json!({"type": "card"}));
}

fn super_card(n: u8) -> Value {
    card(n, json!({}))
}

#[tokio::test]
async fn cards_are_found_by_what_they_say() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "a").await, agent(&hub, 2, "b").await);
    let skills = json!([{"id": "rs", "name": "Rust Review"}]);
    register(
        &mut a,
        card(
            1,
            json!({"name": "Reviewer", "tags": ["100%_sure"], "skills": skills,
                                    "description": "Liest Änderungen"}),
        ),
        "public",
    )
    .await;
    register(
        &mut b,
        card(
            2,
            json!({"name": "Planner", "role": "lead", "tags": ["planning"]}),
        ),
        "private",
    )
    .await;
    for (fields, wanted) in [
        (json!({"query": "REVIEW"}), vec!["Reviewer"]),
        (json!({"query": "änderungen"}), vec![]),
        (json!({"query": "lead"}), vec![]),
        (json!({"query": "B"}), vec!["Planner"]),
        (json!({"query": "100%_s"}), vec!["Reviewer"]),
        (json!({"query": "%"}), vec!["Reviewer"]),
        (json!({"query": "_"}), vec!["Reviewer"]),
        (json!({"tag": "plan"}), vec!["Planner"]),
        (json!({"skill": "rust"}), vec!["Reviewer"]),
        (json!({"skill": "rust", "tag": "plan"}), vec![]),
        (json!({"scope": "public"}), vec!["Reviewer"]),
        (json!({"status": "idle", "limit": 0}), vec!["Planner"]),
        (json!({"status": "offline"}), vec![]),
    ] {
        assert_eq!(find(&mut a, fields.clone()).await, wanted, "{fields}");
    }
}

#[tokio::test]
async fn a_card_that_readers_could_not_decode_is_refused() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1, "a").await;
    let nested = |n: usize| {
        let text = format!("{}1{}", "[".repeat(n), "]".repeat(n));
        card(
            1,
            json!({"meta": {"deep": serde_json::from_str::<Value>(&text).unwrap()}}),
        )
    };
    assert_eq!(
        register(&mut a, nested(100), "public").await["type"],
        "registered"
    );
    let found = a.ask(json!({"op": "discover"})).await;
    serde_json::from_value::<parler_protocol::ServerFrame>(found).unwrap();
    assert_eq!(
        register(&mut a, nested(101), "public").await["code"],
        "invalid_card"
    );
}

#[tokio::test]
async fn large_cards_do_not_make_a_reply_without_bound() {
    let hub = TestHub::start().await;
    for n in 1..=12 {
        let mut socket = agent(&hub, n, "a").await;
        let large = card(n, json!({"description": "x".repeat(1_000_000)}));
        assert_eq!(
            register(&mut socket, large, "private").await["type"],
            "registered"
        );
    }
    let mut a = agent(&hub, 13, "a").await;
    let found = a.ask(json!({"op": "discover"})).await;
    let count = found["agents"].as_array().unwrap().len();
    assert!((1..12).contains(&count), "{count}");
}

#[tokio::test]
async fn a_direct_message_opens_a_room_to_who_has_a_card() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "a").await, agent(&hub, 2, "b").await);
    let to_b = json!({"op": "send", "target": {"kind": "dm", "agent": keys(2).id().as_str()},
                      "parts": [{"kind": "text", "text": "hi"}]});
    assert!(
        a.ask(to_b.clone()).await["message"]
            .as_str()
            .unwrap()
            .contains("isn't discoverable")
    );
    register(&mut b, super_card(2), "private").await;
    b.ask(json!({"op": "subscribe"})).await;
    let sent = a.ask(to_b.clone()).await;
    let room = sent["room"].as_str().unwrap().to_owned();
    assert!(room.starts_with("dm."), "{sent}");
    assert_eq!(b.push().await["message"]["room"], room.as_str());
    assert_eq!(a.ask(to_b).await["room"], room.as_str(), "the same room");
    let back = json!({"op": "send", "target": {"kind": "dm", "agent": keys(1).id().as_str()},
                      "parts": []});
    assert_eq!(b.ask(back).await["room"], room.as_str(), "from both sides");
}
