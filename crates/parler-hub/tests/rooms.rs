//! Invites, redeeming, listings, presence, over literal JSON.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_testkit::{RawSocket, TestHub, keys};
use serde_json::json;

async fn agent(hub: &TestHub, n: u8, name: &str) -> RawSocket {
    RawSocket::login(hub.addr(), &keys(n), name, None).await
}

#[tokio::test]
async fn an_invite_opens_a_room_and_a_code_joins_it() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "a").await, agent(&hub, 2, "b").await);
    let invited = a
        .ask(json!({"op": "invite", "kind": "channel", "room": "release train"}))
        .await;
    assert_eq!(invited["room"], "release_train");
    assert_eq!(invited["kind"], "channel");
    let code = invited["code"].as_str().unwrap();
    assert_eq!(invited["url"], format!("{}/join/{code}", hub.url()));
    let joined = b.redeem(&format!("{}/join/{code}/", hub.url())).await;
    assert_eq!(
        joined,
        json!({"type": "joined", "room": "release_train", "kind": "channel"})
    );
    let roster = a
        .ask(json!({"op": "roster", "room": "release_train"}))
        .await;
    let names: Vec<_> = roster["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["name"])
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn codes_end_and_run_out_with_their_codes() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "a").await, agent(&hub, 2, "b").await);
    let mint = |fields: serde_json::Value| {
        let mut frame = json!({"op": "invite", "kind": "channel", "room": "r"});
        for (key, value) in fields.as_object().unwrap() {
            frame[key] = value.clone();
        }
        frame
    };
    let spent = a.ask(mint(json!({"maxUses": 0}))).await["code"]
        .as_str()
        .unwrap()
        .to_owned();
    let expired = a.ask(mint(json!({"ttlSecs": 0}))).await["code"]
        .as_str()
        .unwrap()
        .to_owned();
    // Past the millisecond in which it was minted.
    a.ask(json!({"op": "ping"})).await;
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    for (code, text) in [
        (spent.as_str(), "used up"),
        (expired.as_str(), "this code has expired"),
        ("NOSUCHCO", "invalid or unknown invite code"),
    ] {
        let reply = b.redeem(code).await;
        assert_eq!(reply["code"], "invalid_invite", "{reply}");
        assert!(reply["message"].as_str().unwrap().contains(text), "{reply}");
    }
    assert_eq!(a.redeem(&spent).await["type"], "joined", "a member already");
}

#[tokio::test]
async fn guessing_codes_is_throttled() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1, "a").await;
    let mut limited = None;
    for n in 0..250 {
        let reply = a.redeem(&format!("GUESS{n:03}")).await;
        if reply["code"] == "rate_limited" {
            assert!(reply["retryAfterMs"].as_u64().unwrap() <= 60_000);
            limited = Some(n);
            break;
        }
    }
    assert!(limited.is_some_and(|n| n < 100), "{limited:?}");
}

#[tokio::test]
async fn an_existing_room_is_invited_to_by_its_members_only() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "a").await, agent(&hub, 2, "b").await);
    a.open_channel("mine").await;
    let reply = b
        .ask(json!({"op": "invite", "kind": "channel", "room": "mine"}))
        .await;
    assert!(
        reply["message"]
            .as_str()
            .unwrap()
            .contains("only a member can mint an invite")
    );
    // An automatically named room is invited to by its name.
    let auto = a.ask(json!({"op": "invite", "kind": "channel"})).await;
    let again = a
        .ask(json!({"op": "invite", "kind": "channel", "room": auto["room"]}))
        .await;
    assert_eq!(again["room"], auto["room"]);
}

#[tokio::test]
async fn a_gated_room_stays_gated_whoever_mints_the_invite() {
    let hub = TestHub::start().await;
    let (mut owner, mut b, mut c) = (
        agent(&hub, 1, "owner").await,
        agent(&hub, 2, "b").await,
        agent(&hub, 3, "c").await,
    );
    let open = owner.open_channel("vetted").await;
    assert_eq!(b.redeem(&open).await["type"], "joined");
    let gated =
        json!({"op": "invite", "kind": "channel", "room": "vetted", "requireApproval": true});
    let gated = owner.ask(gated).await["code"].as_str().unwrap().to_owned();
    assert_eq!(
        c.redeem(&gated).await,
        json!({"type": "join_pending", "room": "vetted"})
    );
    let sneaky = b.open_channel("vetted").await;
    assert_eq!(c.redeem(&sneaky).await["type"], "join_pending");
    assert_eq!(
        c.ask(json!({"op": "roster", "room": "vetted"})).await["code"],
        "not_member"
    );
}

#[tokio::test]
async fn a_direct_room_takes_one_guest() {
    let hub = TestHub::start().await;
    let (mut a, mut b, mut c) = (
        agent(&hub, 1, "a").await,
        agent(&hub, 2, "b").await,
        agent(&hub, 3, "c").await,
    );
    let invited = a
        .ask(json!({"op": "invite", "kind": "dm", "room": "ignored"}))
        .await;
    let (room, code) = (
        invited["room"].as_str().unwrap(),
        invited["code"].as_str().unwrap(),
    );
    assert!(room.starts_with("dm."));
    assert_eq!(b.redeem(code).await["kind"], "dm");
    assert!(
        c.redeem(code).await["message"]
            .as_str()
            .unwrap()
            .contains("used up")
    );
    let to_b = json!({"op": "send", "target": {"kind": "dm", "agent": keys(2).id().as_str()},
                      "parts": [{"kind": "text", "text": "hi"}]});
    assert_eq!(a.ask(to_b).await["room"], room);
    let to_self = json!({"op": "send", "target": {"kind": "dm", "agent": keys(1).id().as_str()},
                         "parts": []});
    assert_eq!(a.ask(to_self).await["code"], "not_authorized");
    let to_c = json!({"op": "send", "target": {"kind": "dm", "agent": keys(3).id().as_str()},
                      "parts": []});
    assert!(
        a.ask(to_c).await["message"]
            .as_str()
            .unwrap()
            .contains("isn't discoverable")
    );
}

#[tokio::test]
async fn rooms_counts_unread_with_and_without_ones_own() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "a").await, agent(&hub, 2, "b").await);
    let code = a.open_channel("r").await;
    b.redeem(&code).await;
    a.say("r", "one").await;
    a.say("r", "two").await;
    b.say("r", "three").await;
    let rooms = a.ask(json!({"op": "rooms"})).await;
    let wanted =
        json!({"name": "r", "kind": "channel", "members": 2, "unread": 3, "unreadOthers": 1});
    assert_eq!(rooms["rooms"], json!([wanted]));
    b.pull("r", json!({"limit": 1})).await;
    let rooms = b.ask(json!({"op": "rooms"})).await;
    assert_eq!(
        (
            &rooms["rooms"][0]["unread"],
            &rooms["rooms"][0]["unreadOthers"]
        ),
        (&json!(2), &json!(1))
    );
}

#[tokio::test]
async fn presence_and_attention_show_in_the_roster() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1, "a").await;
    a.open_channel("r").await;
    let entry = a.ask(json!({"op": "roster", "room": "r"})).await["entries"][0].clone();
    assert_eq!(
        (&entry["status"], entry.get("activity")),
        (&json!("idle"), None)
    );
    let set = json!({"op": "presence", "status": "work\u{1b}ing", "activity": "x\ny", "attention": "focus"});
    assert_eq!(a.ask(set).await, json!({"type": "presence_ok"}));
    let entry = a.ask(json!({"op": "roster", "room": "r"})).await["entries"][0].clone();
    assert_eq!(entry["status"], "working");
    assert_eq!(entry["activity"], "x y");
    assert_eq!(entry["attention"], "focus");
    assert_eq!(
        a.ask(json!({"op": "set_attention", "attention": "dnd"}))
            .await["type"],
        "attention_ok"
    );
    assert_eq!(
        a.ask(json!({"op": "presence", "status": "idle"})).await["type"],
        "presence_ok"
    );
    let entry = a.ask(json!({"op": "roster", "room": "r"})).await["entries"][0].clone();
    assert_eq!(
        (&entry["attention"], entry.get("activity")),
        (&json!("dnd"), None)
    );
}

#[tokio::test]
async fn an_op_that_nobody_knows_is_no_frame() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1, "a").await;
    assert_eq!(
        a.ask(json!({"op": "frobnicate"})).await["code"],
        "bad_frame"
    );
    assert_eq!(
        a.ask(json!({"op": "recall"})).await["code"],
        "bad_frame",
        "decoded first"
    );
}

#[tokio::test]
async fn every_field_of_these_ops_has_its_cap() {
    let hub = TestHub::start().await;
    let mut a = agent(&hub, 1, "a").await;
    a.open_channel("r").await;
    let long = "x".repeat(4097);
    let room = json!({"kind": "room", "room": "r"});
    for frame in [
        json!({"op": "invite", "kind": "channel", "room": long}),
        json!({"op": "redeem", "code": long}),
        json!({"op": "roster", "room": long}),
        json!({"op": "presence", "status": long}),
        json!({"op": "presence", "status": "idle", "activity": long}),
        json!({"op": "pull", "room": long}),
        json!({"op": "pull", "room": long, "waitSecs": 1}),
        json!({"op": "send", "target": {"kind": "room", "room": long}, "parts": []}),
        json!({"op": "send", "target": {"kind": "dm", "agent": long}, "parts": []}),
        json!({"op": "send", "target": room, "parts": [], "replyTo": long}),
        json!({"op": "send", "target": room, "parts": [], "clientId": long}),
        json!({"op": "send", "target": room, "parts": [], "mentions": [long]}),
        json!({"op": "send", "target": room, "parts": [], "mentions": vec!["x"; 257]}),
    ] {
        assert_eq!(
            a.ask(frame.clone()).await["code"],
            "too_large",
            "{}",
            frame["op"]
        );
    }
}
