//! Retention, as agents see it. The time is handed in.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_hub::janitor::{Swept, sweep};
use parler_hub::now_ms;
use parler_testkit::{RawSocket, TestHub, keys, texts};
use serde_json::{Value, json};

/// Longer than anything is kept.
const LATER: i64 = 31 * 86_400_000;

async fn keeping(messages: u32) -> TestHub {
    TestHub::with(|config| config.retention.keep_messages_per_room = messages).await
}

async fn room(socket: &mut RawSocket, room: &str) -> Value {
    let rooms = socket.ask(json!({"op": "rooms"})).await;
    let rooms = rooms["rooms"].as_array().unwrap().clone();
    rooms.into_iter().find(|r| r["name"] == room).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_messages_go_and_the_rest_reads_as_before() {
    let hub = keeping(5).await;
    let mut ann = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    let mut ben = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    let code = ann.open_channel("r").await;
    ben.redeem(&code).await;
    for n in 0..300 {
        ann.say("r", &format!("{n}")).await;
    }
    let third = ben.pull("r", json!({"limit": 3})).await["cursor"].clone();
    let now = now_ms();
    assert_eq!(sweep(hub.state(), now).await.unwrap(), Swept::default());
    let swept = sweep(hub.state(), now + LATER).await.unwrap();
    assert_eq!((swept.messages, swept.invites), (295, 1));
    let again = sweep(hub.state(), now + LATER).await.unwrap();
    assert_eq!(again, Swept::default());

    let unread = room(&mut ben, "r").await;
    assert_eq!(
        (unread["unread"].clone(), unread["unreadOthers"].clone()),
        (5.into(), 5.into())
    );
    let mine = room(&mut ann, "r").await;
    assert_eq!(
        (mine["unread"].clone(), mine["unreadOthers"].clone()),
        (5.into(), 0.into())
    );
    let pulled = ben.pull("r", json!({"since": third})).await;
    assert_eq!(texts(&pulled), ["295", "296", "297", "298", "299"]);
    let pulled = ben.pull("r", json!({})).await;
    assert_eq!(texts(&pulled).len(), 5);
    ann.say("r", "next").await;
    assert_eq!(texts(&ben.pull("r", json!({})).await), ["next"]);
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_pulls_do_not_notice_and_restarts_change_nothing() {
    let hub = keeping(0).await;
    let mut ann = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    let mut ben = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    let code = ann.open_channel("r").await;
    ben.redeem(&code).await;
    let old = ann.say("r", "old").await;
    ben.pull("r", json!({})).await;
    ben.post(json!({"op": "pull", "room": "r", "waitSecs": 60}))
        .await;
    let swept = sweep(hub.state(), now_ms() + LATER).await.unwrap();
    assert_eq!(swept.messages, 1);
    let new = ann.say("r", "new").await;
    assert!(new["seq"].as_i64() > old["seq"].as_i64());
    assert_eq!(texts(&ben.reply().await), ["new"]);
    sweep(hub.state(), now_ms() + LATER).await.unwrap();
    let hub = hub.restart().await;
    let mut ann = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    let newer = ann.say("r", "newer").await;
    assert!(newer["seq"].as_i64() > new["seq"].as_i64());
    assert_eq!(texts(&ann.pull("r", json!({"since": 0})).await), ["newer"]);
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_invite_is_unknown_unless_one_waits_by_it() {
    let hub = keeping(0).await;
    let mut ann = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    let mut ben = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    let open = ann.open_channel("open").await;
    let gated = ann
        .ask(json!({"op": "invite", "kind": "channel", "room": "gated", "requireApproval": true}))
        .await;
    let gated = gated["code"].as_str().unwrap().to_owned();
    assert_eq!(ben.redeem(&gated).await["type"], "join_pending");
    let day = 86_400_000;
    let swept = sweep(hub.state(), now_ms() + day + 60_000).await.unwrap();
    assert_eq!(swept.invites, 1);
    assert_eq!(ben.redeem(&open).await["code"], "invalid_invite");
    assert_eq!(ben.redeem(&gated).await["type"], "join_pending");
    let swept = sweep(hub.state(), now_ms() + LATER).await.unwrap();
    assert_eq!(swept.invites, 1);
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_can_be_switched_off() {
    let hub = TestHub::with(|config| {
        config.retention.keep_messages_per_room = 0;
        config.retention.messages = None;
    })
    .await;
    let mut ann = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    ann.open_channel("r").await;
    ann.say("r", "kept").await;
    let swept = sweep(hub.state(), now_ms() + 100 * LATER).await.unwrap();
    assert_eq!(swept.messages, 0);
    assert_eq!(texts(&ann.pull("r", json!({"since": 0})).await), ["kept"]);
    hub.stop().await;
}
