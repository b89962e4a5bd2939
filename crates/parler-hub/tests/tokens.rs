//! Minting and revoking tokens, over literal JSON.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_testkit::{RawSocket, TestHub, get, keys};
use serde_json::{Value, json};

const DAY: i64 = 86_400_000;

async fn agent(hub: &TestHub, n: u8, name: &str) -> RawSocket {
    RawSocket::login(hub.addr(), &keys(n), name, None).await
}

fn token(reply: &Value) -> &str {
    reply["token"].as_str().unwrap_or_else(|| panic!("{reply}"))
}

async fn status(hub: &TestHub, path: &str, token: &str) -> u16 {
    get(hub.addr(), path, Some(token)).await.status
}

#[tokio::test]
async fn a_token_lives_as_long_as_it_may_and_no_longer() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1, "ann").await;
    a.open_channel("r").await;
    let for_ever = 1_u64 << 60;
    for (op, kind, most) in [
        ("mint_directory_token", "directory_token", 30 * DAY),
        ("mint_watch", "watch", 365 * DAY),
        ("mint_admin", "admin", DAY),
    ] {
        let before = parler_hub::now_ms();
        let usual = a.ask(json!({"op": op, "room": "r"})).await;
        let longest = a
            .ask(json!({"op": op, "room": "r", "ttlSecs": for_ever}))
            .await;
        let after = parler_hub::now_ms();
        assert_eq!(usual["type"], kind, "{usual}");
        for (reply, life) in [(&usual, DAY / 24), (&longest, most)] {
            let ends = reply["expiresAt"].as_i64().unwrap();
            assert!((before + life..=after + life).contains(&ends), "{op}");
            assert_eq!(token(reply).len(), 32);
            assert!(!reply["id"].as_str().unwrap().is_empty());
        }
        assert_ne!(token(&usual), token(&longest));
        if op != "mint_directory_token" {
            assert_eq!(usual["room"], "r");
        }
    }
}

#[tokio::test]
async fn room_tokens_are_for_the_owner() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "ann").await, agent(&hub, 2, "ben").await);
    let code = a.open_channel("r").await;
    b.redeem(&code).await;
    for op in ["mint_watch", "mint_admin"] {
        for room in ["r", "nowhere"] {
            let refused = b.ask(json!({"op": op, "room": room})).await;
            assert_eq!(refused["code"], "not_owner", "{refused}");
            assert!(refused["message"].as_str().unwrap().contains("owner"));
        }
    }
}

#[tokio::test]
async fn all_kinds_share_one_cap() {
    let hub = TestHub::with(|config| config.limits.max_active_tokens = 3).await;
    let mut a = agent(&hub, 1, "ann").await;
    a.open_channel("r").await;
    for op in ["mint_directory_token", "mint_watch", "mint_admin"] {
        token(&a.ask(json!({"op": op, "room": "r"})).await);
    }
    for op in ["mint_directory_token", "mint_watch", "mint_admin"] {
        let full = a.ask(json!({"op": op, "room": "r"})).await;
        assert_eq!(full["code"], "at_capacity", "{full}");
    }
    let gone = a.ask(json!({"op": "revoke_token", "room": "r"})).await;
    assert_eq!(gone["count"], 1);
    token(&a.ask(json!({"op": "mint_watch", "room": "r"})).await);
}

#[tokio::test]
async fn a_revoked_token_opens_nothing_from_that_moment() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "ann").await, agent(&hub, 2, "ben").await);
    a.open_channel("r").await;
    let watch = a.ask(json!({"op": "mint_watch", "room": "r"})).await;
    let full = a
        .ask(json!({"op": "mint_watch", "room": "r", "full": true}))
        .await;
    let list = a.ask(json!({"op": "mint_directory_token"})).await;
    let hidden = "/api/directory?scope=hub";
    assert_eq!(status(&hub, "/api/session", token(&watch)).await, 200);
    assert_eq!(status(&hub, hidden, token(&list)).await, 200);

    let by_stranger = b
        .ask(json!({"op": "revoke_token", "token": token(&watch)}))
        .await;
    assert_eq!(by_stranger, json!({"type": "revoked", "count": 0}));
    for bad in [
        json!({"op": "revoke_token"}),
        json!({"op": "revoke_token", "token": "x", "room": "r"}),
    ] {
        assert_eq!(a.ask(bad).await["code"], "bad_frame");
    }
    let gone = a
        .ask(json!({"op": "revoke_token", "token": token(&watch)}))
        .await;
    assert_eq!(gone["count"], 1);
    assert_eq!(status(&hub, "/api/session", token(&watch)).await, 401);
    assert_eq!(
        a.ask(json!({"op": "revoke_token", "id": list["id"]})).await["count"],
        1
    );
    assert_eq!(status(&hub, hidden, token(&list)).await, 401);
    assert_eq!(status(&hub, "/api/room/roster", token(&full)).await, 200);
    assert_eq!(
        a.ask(json!({"op": "revoke_token", "room": "r"})).await["count"],
        1
    );
    assert_eq!(status(&hub, "/api/room/roster", token(&full)).await, 401);
}

#[tokio::test]
async fn tokens_are_kept_as_hashes_and_outlive_a_restart() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1, "ann").await;
    a.open_channel("r").await;
    let watch = a.ask(json!({"op": "mint_watch", "room": "r"})).await;
    let hub = hub.restart().await;
    assert_eq!(status(&hub, "/api/session", token(&watch)).await, 200);
    for file in std::fs::read_dir(hub.folder()).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            continue; // blobs, and there are none
        }
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes
            .windows(32)
            .any(|window| window == token(&watch).as_bytes());
        assert!(!found, "{}", path.display());
    }
}
