//! What an owner decides, and who may come and go, over literal JSON.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use std::time::Duration;

use parler_testkit::{RawSocket, TestHub, keys, texts};
use serde_json::{Value, json};

async fn agent(hub: &TestHub, n: u8, name: &str) -> RawSocket {
    RawSocket::login(hub.addr(), &keys(n), name, None).await
}

fn id(n: u8) -> String {
    keys(n).id().to_string()
}

/// A gated room `r` of agent 1, and a code for it.
async fn gated(owner: &mut RawSocket) -> String {
    let invite = json!({"op": "invite", "kind": "channel", "room": "r", "requireApproval": true});
    owner.ask(invite).await["code"].as_str().unwrap().to_owned()
}

fn resolve(n: u8, approve: bool) -> Value {
    json!({"op": "resolve_join", "room": "r", "agent": id(n), "approve": approve})
}

#[tokio::test]
async fn an_owner_admits_and_refuses() {
    let hub = TestHub::start().await;
    let (mut owner, mut b, mut c) = (
        agent(&hub, 1, "owner").await,
        agent(&hub, 2, "ben").await,
        agent(&hub, 3, "cat").await,
    );
    let code = gated(&mut owner).await;
    assert_eq!(b.redeem(&code).await["type"], "join_pending");
    assert_eq!(c.redeem(&code).await["type"], "join_pending");
    let waiting = owner.ask(json!({"op": "join_requests", "room": "r"})).await;
    let names: Vec<_> = waiting["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["name"].clone())
        .collect();
    assert_eq!(names, ["ben", "cat"]);
    let resolved = owner.ask(resolve(2, true)).await;
    assert_eq!(
        resolved,
        json!({"type": "join_resolved", "room": "r", "agent": id(2), "approved": true})
    );
    assert_eq!(owner.ask(resolve(3, false)).await["approved"], false);
    assert_eq!(b.redeem(&code).await["type"], "joined");
    let denied = c.redeem(&code).await;
    assert_eq!(denied["code"], "not_authorized");
    assert!(
        denied["message"]
            .as_str()
            .unwrap()
            .contains("denied by the host")
    );
    // The owner may think again.
    assert_eq!(owner.ask(resolve(3, true)).await["approved"], true);
    assert_eq!(c.redeem(&code).await["type"], "joined");
    let again = owner.ask(resolve(3, true)).await;
    assert!(
        again["message"]
            .as_str()
            .unwrap()
            .contains("no pending join request")
    );
}

#[tokio::test]
async fn only_the_owner_decides_and_unknown_rooms_look_the_same() {
    let hub = TestHub::start().await;
    let (mut owner, mut b) = (agent(&hub, 1, "owner").await, agent(&hub, 2, "ben").await);
    let open = owner.open_channel("r").await;
    b.redeem(&open).await;
    for room in ["r", "nowhere"] {
        for frame in [
            json!({"op": "join_requests", "room": room}),
            json!({"op": "resolve_join", "room": room, "agent": id(3), "approve": true}),
            json!({"op": "resolve_join", "room": room, "agent": "nobody", "approve": true}),
            json!({"op": "delete_room", "room": room}),
            json!({"op": "remove_member", "room": room, "agent": id(1)}),
            json!({"op": "transfer_owner", "room": room, "agent": id(2)}),
        ] {
            assert_eq!(b.ask(frame.clone()).await["code"], "not_owner", "{frame}");
        }
    }
}

#[tokio::test]
async fn a_parked_redeem_answers_when_the_owner_decides() {
    let hub = TestHub::start().await;
    let (mut owner, mut b, mut c) = (
        agent(&hub, 1, "owner").await,
        agent(&hub, 2, "ben").await,
        agent(&hub, 3, "cat").await,
    );
    let code = gated(&mut owner).await;
    for socket in [&mut b, &mut c] {
        socket
            .post(json!({"op": "redeem", "code": code, "waitSecs": 60}))
            .await;
        assert_eq!(
            socket.next(Duration::from_millis(100)).await,
            None,
            "parked"
        );
    }
    owner.ask(resolve(2, true)).await;
    assert_eq!(b.reply().await["type"], "joined");
    owner.ask(resolve(3, false)).await;
    assert_eq!(c.reply().await["code"], "not_authorized");
    let mut d = agent(&hub, 4, "dan").await;
    let pending = d
        .ask(json!({"op": "redeem", "code": code, "waitSecs": 1}))
        .await;
    assert_eq!(pending["type"], "join_pending", "the deadline");
}

#[tokio::test]
async fn a_pending_requester_stays_so_after_the_codes_end() {
    let hub = TestHub::start().await;
    let (mut owner, mut b) = (agent(&hub, 1, "owner").await, agent(&hub, 2, "ben").await);
    let invite = json!({"op": "invite", "kind": "channel", "room": "r", "requireApproval": true,
                        "ttlSecs": 1});
    let code = owner.ask(invite).await["code"].as_str().unwrap().to_owned();
    assert_eq!(b.redeem(&code).await["type"], "join_pending");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(b.redeem(&code).await["type"], "join_pending");
    let late = agent(&hub, 3, "cat").await.redeem(&code).await;
    assert_eq!(late["code"], "invalid_invite");
}

#[tokio::test]
async fn who_leaves_is_out_at_once() {
    let hub = TestHub::start().await;
    let (mut owner, mut b) = (agent(&hub, 1, "owner").await, agent(&hub, 2, "ben").await);
    let code = owner.open_channel("r").await;
    b.redeem(&code).await;
    b.ask(json!({"op": "subscribe"})).await;
    b.say("r", "warm").await;
    let refused = owner.ask(json!({"op": "leave", "room": "r"})).await;
    assert_eq!(refused["code"], "not_authorized");
    assert_eq!(
        b.ask(json!({"op": "leave", "room": "r"})).await,
        json!({"type": "left", "room": "r"})
    );
    assert_eq!(b.say("r", "still here?").await["code"], "not_member");
    assert_eq!(b.pull("r", json!({})).await["code"], "not_member");
    assert_eq!(
        b.ask(json!({"op": "leave", "room": "r"})).await["code"],
        "not_member"
    );
    owner.say("r", "quiet").await;
    assert_eq!(
        b.next(Duration::from_millis(100)).await,
        None,
        "no push any more"
    );
    // Who comes back starts anew, with the whole log.
    assert_eq!(b.redeem(&code).await["type"], "joined");
    assert_eq!(texts(&b.pull("r", json!({})).await), ["warm", "quiet"]);
}

#[tokio::test]
async fn a_removal_ends_parked_pulls_and_a_ban_keeps_out() {
    let hub = TestHub::start().await;
    let (mut owner, mut b) = (agent(&hub, 1, "owner").await, agent(&hub, 2, "ben").await);
    let code = owner.open_channel("r").await;
    b.redeem(&code).await;
    b.post(json!({"op": "pull", "room": "r", "waitSecs": 60}))
        .await;
    assert_eq!(b.next(Duration::from_millis(100)).await, None, "parked");
    let removed = owner
        .ask(json!({"op": "remove_member", "room": "r", "agent": id(2)}))
        .await;
    assert_eq!(
        removed,
        json!({"type": "removed", "room": "r", "agent": id(2)})
    );
    assert_eq!(b.reply().await["code"], "not_member");
    assert_eq!(b.redeem(&code).await["type"], "joined", "without a ban");
    let ban = json!({"op": "remove_member", "room": "r", "agent": id(2), "ban": true});
    assert_eq!(owner.ask(ban.clone()).await["type"], "removed");
    assert_eq!(b.redeem(&code).await["code"], "not_authorized");
    assert_eq!(owner.ask(ban).await["code"], "not_member");
}

#[tokio::test]
async fn a_room_is_passed_on() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "a").await, agent(&hub, 2, "b").await);
    let code = a.open_channel("r").await;
    let pass = |n| json!({"op": "transfer_owner", "room": "r", "agent": id(n)});
    assert_eq!(a.ask(pass(2)).await["code"], "not_member");
    b.redeem(&code).await;
    assert_eq!(
        a.ask(pass(2)).await,
        json!({"type": "owner", "room": "r", "agent": id(2)})
    );
    assert_eq!(a.ask(pass(1)).await["code"], "not_owner");
    assert_eq!(
        a.ask(json!({"op": "leave", "room": "r"})).await["type"],
        "left"
    );
    assert_eq!(
        b.ask(json!({"op": "delete_room", "room": "r"})).await["type"],
        "room_deleted"
    );
}

#[tokio::test]
async fn a_deleted_room_is_gone_with_all_of_it_and_its_name_is_free() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "a").await, agent(&hub, 2, "b").await);
    let code = a.open_channel("r").await;
    b.redeem(&code).await;
    let last = a.say("r", "old").await["seq"].as_i64().unwrap();
    b.post(json!({"op": "pull", "room": "r", "waitSecs": 60, "ack": last}))
        .await;
    assert_eq!(b.next(Duration::from_millis(100)).await, None, "parked");
    let deleted = a.ask(json!({"op": "delete_room", "room": "r"})).await;
    assert_eq!(deleted, json!({"type": "room_deleted", "room": "r"}));
    assert_eq!(
        b.reply().await["code"],
        "not_member",
        "the parked pull ends"
    );
    assert_eq!(a.say("r", "x").await["code"], "not_member");
    assert_eq!(a.ask(json!({"op": "rooms"})).await["rooms"], json!([]));
    assert_eq!(a.redeem(&code).await["code"], "invalid_invite");
    b.open_channel("r").await;
    let first = b.say("r", "new").await["seq"].as_i64().unwrap();
    assert!(first > last, "no seq is used twice");
    assert_eq!(texts(&b.pull("r", json!({})).await), ["new"]);
}

#[tokio::test]
async fn codes_are_revoked_by_their_minter_or_the_owner() {
    let hub = TestHub::start().await;
    let (mut a, mut b, mut c) = (
        agent(&hub, 1, "a").await,
        agent(&hub, 2, "b").await,
        agent(&hub, 3, "c").await,
    );
    let invited = a
        .ask(json!({"op": "invite", "kind": "channel", "room": "r"}))
        .await;
    b.redeem(invited["code"].as_str().unwrap()).await;
    let theirs = b.open_channel("r").await;
    let by_id = json!({"op": "revoke_invite", "id": invited["id"]});
    assert_eq!(b.ask(by_id.clone()).await["count"], 0, "not b's to revoke");
    assert_eq!(a.ask(by_id).await, json!({"type": "revoked", "count": 1}));
    assert_eq!(
        c.redeem(invited["code"].as_str().unwrap()).await["code"],
        "invalid_invite"
    );
    assert_eq!(
        a.ask(json!({"op": "revoke_invite", "code": theirs})).await["count"],
        1
    );
    a.open_channel("r").await;
    b.open_channel("r").await;
    assert_eq!(
        a.ask(json!({"op": "revoke_invite", "room": "r"})).await["count"],
        2
    );
    assert_eq!(
        a.ask(json!({"op": "revoke_invite"})).await["code"],
        "bad_frame"
    );
}

#[tokio::test]
async fn an_owner_that_subscribed_with_turns_is_told_who_waits_once() {
    let hub = TestHub::start().await;
    let mut owner = agent(&hub, 1, "owner").await;
    let mut older = agent(&hub, 1, "owner").await;
    let mut asker = RawSocket::login(hub.addr(), &keys(2), "ben", Some("tester")).await;
    let code = gated(&mut owner).await;
    owner.ask(json!({"op": "subscribe", "turns": true})).await;
    older.ask(json!({"op": "subscribe"})).await;
    assert_eq!(asker.redeem(&code).await["type"], "join_pending");
    let told = owner.push().await;
    let listed = owner.ask(json!({"op": "join_requests", "room": "r"})).await;
    let request = listed["requests"][0].clone();
    assert_eq!(request["role"], "tester");
    assert_eq!(
        told,
        json!({"type": "join_request", "room": "r", "request": request})
    );
    // Asking again is no new request, and deciding tells the owner nothing.
    asker.redeem(&code).await;
    owner.ask(resolve(2, false)).await;
    asker.redeem(&code).await;
    assert_eq!(owner.ask(json!({"op": "ping"})).await["type"], "pong");
    assert_eq!(older.ask(json!({"op": "ping"})).await["type"], "pong");
    assert_eq!((owner.pushes.len(), older.pushes.len()), (0, 0));
}
