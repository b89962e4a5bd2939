//! Sending, reading, waiting, push, over literal JSON.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use std::time::{Duration, Instant};

use parler_testkit::{RawSocket, Seen, TestHub, keys, texts};
use serde_json::{Value, json};

/// Two members of room `r`.
async fn pair(hub: &TestHub) -> (RawSocket, RawSocket) {
    let mut a = RawSocket::login(hub.addr(), &keys(1), "a", Some("lead")).await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "b", None).await;
    let code = a.open_channel("r").await;
    assert_eq!(b.redeem(&code).await["type"], "joined");
    (a, b)
}

fn send(text: &str, fields: Value) -> Value {
    let mut frame = json!({"op": "send", "target": {"kind": "room", "room": "r"},
                           "parts": [{"kind": "text", "text": text}]});
    for (key, value) in fields.as_object().unwrap() {
        frame[key] = value.clone();
    }
    frame
}

#[tokio::test]
async fn what_is_sent_is_what_is_read() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    let parts = json!([
        {"kind": "text", "text": "é\u{2028}😀 \"q\" \\ \u{7f}"},
        {"kind": "data", "data": {"z": 1, "a": [null, true, -9007199254740993_i64]}},
        {"kind": "com.parler.handoff", "next": "go", "to": "b"},
        {"kind": "org.x-y.z", "b": {"y": 1}, "a": -5},
    ]);
    let frame = json!({"op": "send", "target": {"kind": "room", "room": "r"}, "parts": parts,
                       "mentions": [" WebDev ", "webdev", ""], "replyTo": "m0"});
    let sent = a.ask(frame).await;
    assert_eq!(sent["room"], "r");
    let pulled = b.pull("r", json!({})).await;
    let message = &pulled["messages"][0];
    assert_eq!(message["parts"], parts);
    assert_eq!(message["mentions"], json!(["webdev"]));
    assert_eq!(message["replyTo"], "m0");
    assert_eq!(
        message["from"],
        json!({"id": keys(1).id().as_str(), "name": "a", "role": "lead"})
    );
    assert_eq!(
        (&message["seq"], &message["id"]),
        (&sent["seq"], &sent["id"])
    );
    let wanted = [
        "seq", "id", "room", "from", "parts", "mentions", "replyTo", "ts",
    ];
    let known: Vec<&String> = message.as_object().unwrap().keys().collect();
    assert!(
        known.iter().all(|k| wanted.contains(&k.as_str())),
        "no new key: {known:?}"
    );
    assert_eq!(pulled["cursor"], sent["seq"]);
}

#[tokio::test]
async fn the_three_forms_of_a_pull_move_the_cursor_as_they_should() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    let mut seqs = Vec::new();
    for text in ["1", "2", "3", "4"] {
        seqs.push(a.say("r", text).await["seq"].as_i64().unwrap());
    }
    // since: re-reads, the cursor stays.
    assert_eq!(
        texts(&b.pull("r", json!({"since": seqs[1], "ack": seqs[3]})).await),
        ["3", "4"]
    );
    // ack 0: reads and never advances.
    assert_eq!(
        texts(&b.pull("r", json!({"ack": 0})).await),
        ["1", "2", "3", "4"]
    );
    assert_eq!(
        texts(&b.pull("r", json!({"ack": 0, "limit": 2})).await),
        ["1", "2"]
    );
    // ack n: confirms, then reads.
    let pulled = b.pull("r", json!({"ack": seqs[0], "limit": 1})).await;
    assert_eq!(
        (texts(&pulled), &pulled["cursor"]),
        (vec!["2".to_owned()], &json!(seqs[1]))
    );
    // A lower ack and one above the room's head change nothing.
    assert_eq!(
        texts(&b.pull("r", json!({"ack": 0, "limit": 1})).await),
        ["2"]
    );
    assert_eq!(
        texts(&b.pull("r", json!({"ack": i64::MAX, "limit": 1})).await),
        ["2"]
    );
    // A pure commit.
    let commit = b.pull("r", json!({"ack": seqs[1], "limit": 0})).await;
    assert_eq!(
        (texts(&commit).len(), &commit["cursor"]),
        (0, &json!(seqs[1]))
    );
    // Neither: advances on read.
    assert_eq!(texts(&b.pull("r", json!({"limit": 1})).await), ["3"]);
    assert_eq!(texts(&b.pull("r", json!({})).await), ["4"]);
    assert_eq!(texts(&b.pull("r", json!({})).await).len(), 0);
}

#[tokio::test]
async fn strangers_and_unknown_rooms_get_the_same_answer() {
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    let mut c = RawSocket::login(hub.addr(), &keys(3), "c", None).await;
    for room in ["r", "nowhere"] {
        for frame in [
            json!({"op": "pull", "room": room}),
            json!({"op": "pull", "room": room, "waitSecs": 5}),
            json!({"op": "roster", "room": room}),
            json!({"op": "send", "target": {"kind": "room", "room": room}, "parts": []}),
        ] {
            let reply = c.ask(frame).await;
            assert_eq!(reply["code"], "not_member");
            assert_eq!(reply["message"], format!("not a member of '{room}'"));
        }
    }
    assert_eq!(a.say("r", "still fine").await["type"], "sent");
}

#[tokio::test]
async fn a_repeat_of_a_key_is_answered_with_the_original() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    let first = a.ask(send("x", json!({"clientId": "k"}))).await;
    let repeat = a.ask(send("x", json!({"clientId": "k"}))).await;
    assert_eq!(repeat, first);
    // The same parts, written otherwise.
    let other = r#"{"op":"send","target":{"kind":"room","room":"r"},"parts":[{"text":"\u0078","kind":"text"}],"clientId":"k"}"#;
    assert_eq!(a.ask_text(other).await, first);
    let reused = a.ask(send("y", json!({"clientId": "k"}))).await;
    assert_eq!(reused["code"], "protocol", "{reused}");
    assert_eq!(
        b.ask(send("x", json!({"clientId": "k"}))).await["type"],
        "sent",
        "another author"
    );
    assert_eq!(texts(&b.pull("r", json!({})).await), ["x", "x"]);
}

#[tokio::test]
async fn sizes_are_refused_and_the_connection_stays() {
    let hub = TestHub::with(|c| c.limits.max_message_bytes = 100).await;
    let (mut a, _) = pair(&hub).await;
    assert_eq!(a.say("r", &"x".repeat(200)).await["code"], "too_large");
    assert_eq!(a.say("r", "fits").await["type"], "sent");
}

#[tokio::test]
async fn a_frame_over_the_cap_is_told_and_ends_the_connection() {
    let hub = TestHub::with(|c| c.limits.max_text_frame_bytes = 1000).await;
    let mut a = RawSocket::login(hub.addr(), &keys(1), "a", None).await;
    let reply = a.ask(json!({"op": "ping", "pad": "x".repeat(1000)})).await;
    assert_eq!(reply["code"], "too_large");
    assert_eq!(
        a.next(Duration::from_secs(5)).await,
        Some(Seen::Close(1009))
    );
}

#[tokio::test]
async fn a_binary_message_without_an_upload_ends_the_connection() {
    let hub = TestHub::start().await;
    let mut a = RawSocket::login(hub.addr(), &keys(1), "a", None).await;
    a.send(tokio_tungstenite::tungstenite::Message::binary(vec![0, 1]))
        .await;
    assert_eq!(a.reply().await["code"], "protocol");
    assert_eq!(
        a.next(Duration::from_secs(5)).await,
        Some(Seen::Close(1008))
    );
}

#[tokio::test]
async fn subscribers_get_others_messages_in_order_with_what_a_pull_would_give() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    assert_eq!(
        b.ask(json!({"op": "subscribe"})).await,
        json!({"type": "subscribed"})
    );
    assert_eq!(
        b.ask(json!({"op": "subscribe"})).await,
        json!({"type": "subscribed"})
    );
    for n in 0..50 {
        a.post(send(&n.to_string(), json!({}))).await;
    }
    b.say("r", "own").await;
    for n in 0..50 {
        let push = b.push().await;
        assert_eq!(push["message"]["parts"][0]["text"], n.to_string());
    }
    let pulled = b.pull("r", json!({"ack": 0, "limit": 1000})).await;
    assert_eq!(pulled["messages"].as_array().unwrap().len(), 51);
    assert!(b.pushes.is_empty(), "each once, and none of its own");
}

#[tokio::test]
async fn a_room_joined_after_subscribing_is_followed() {
    let hub = TestHub::start().await;
    let mut a = RawSocket::login(hub.addr(), &keys(1), "a", None).await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "b", None).await;
    b.ask(json!({"op": "subscribe"})).await;
    let code = a.open_channel("later").await;
    b.redeem(&code).await;
    a.say("later", "hello").await;
    assert_eq!(b.push().await["message"]["room"], "later");
}

#[tokio::test]
async fn a_parked_pull_answers_when_something_is_there() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    b.post(json!({"op": "pull", "room": "r", "waitSecs": 30}))
        .await;
    assert_eq!(b.next(Duration::from_millis(100)).await, None, "parked");
    let began = Instant::now();
    a.say("r", "wake up").await;
    assert_eq!(texts(&b.reply().await), ["wake up"]);
    assert!(began.elapsed() < Duration::from_secs(5));
    // At the deadline: empty, and the cursor as it was.
    let empty = b.pull("r", json!({"waitSecs": 1})).await;
    assert_eq!(texts(&empty).len(), 0);
    // With since it never parks.
    let began = Instant::now();
    b.pull("r", json!({"since": i64::MAX, "waitSecs": 30}))
        .await;
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn beside_a_parked_pull_pings_are_answered_and_pushes_flow() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    let other = a.open_channel("other").await;
    b.redeem(&other).await;
    b.ask(json!({"op": "subscribe"})).await;
    b.post(json!({"op": "pull", "room": "r", "waitSecs": 30}))
        .await;
    b.send(tokio_tungstenite::tungstenite::Message::Ping(
        Vec::new().into(),
    ))
    .await;
    assert_eq!(b.next(Duration::from_secs(5)).await, Some(Seen::Pong));
    a.say("other", "pushed").await;
    assert_eq!(b.push().await["message"]["room"], "other");
    // A later request waits for the parked one, and gets its turn.
    b.post(json!({"op": "ping"})).await;
    a.say("r", "wake").await;
    assert_eq!(b.reply().await["type"], "pulled");
    assert_eq!(b.reply().await["type"], "pong");
}

#[tokio::test]
async fn a_dead_waiter_consumes_nothing() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    b.post(json!({"op": "pull", "room": "r", "waitSecs": 30}))
        .await;
    b.post_text("{").await;
    assert_eq!(
        b.next(Duration::from_millis(50)).await,
        None,
        "an answer waits for its turn"
    );
    b.abort();
    let deadline = Instant::now() + Duration::from_secs(5);
    while hub.state().live_connections() > 1 {
        assert!(Instant::now() < deadline, "the dead socket is noticed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    a.say("r", "for later").await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "b", None).await;
    assert_eq!(texts(&b.pull("r", json!({})).await), ["for later"]);
}

#[tokio::test]
async fn replies_come_in_the_order_of_the_requests() {
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    for n in 0..100 {
        a.post(send(&n.to_string(), json!({}))).await;
        if n % 10 == 0 {
            a.post(json!({"op": "rooms"})).await;
            a.post_text("{").await;
        }
    }
    let mut last = 0;
    for n in 0..100_u32 {
        let sent = a.reply().await;
        let seq = sent["seq"].as_i64().unwrap_or_else(|| panic!("{sent}"));
        assert!(seq > last);
        last = seq;
        if n.is_multiple_of(10) {
            let rooms = a.reply().await;
            assert_eq!(
                rooms["rooms"][0]["unread"],
                n + 1,
                "sees the sends before it"
            );
            assert_eq!(a.reply().await["code"], "bad_frame");
        }
    }
}

#[tokio::test]
async fn budgets_are_kept_and_say_when_to_come_back() {
    let hub = TestHub::with(|c| {
        c.limits.max_ops_per_min = 12;
        c.limits.max_sends_per_min = 5;
        c.limits.max_room_sends_per_min = 7;
    })
    .await;
    let (mut a, mut b) = pair(&hub).await;
    for _ in 0..5 {
        assert_eq!(a.say("r", "x").await["type"], "sent");
    }
    let refused = a.say("r", "x").await;
    assert_eq!(refused["code"], "rate_limited");
    assert!((1..=60_000).contains(&refused["retryAfterMs"].as_u64().unwrap()));
    for _ in 0..2 {
        assert_eq!(b.say("r", "x").await["type"], "sent");
    }
    assert_eq!(
        b.say("r", "x").await["code"],
        "rate_limited",
        "the room's budget"
    );
    for _ in 0..8 {
        b.ask(json!({"op": "ping"})).await;
    }
    assert_eq!(
        b.ask(json!({"op": "pull", "room": "r", "waitSecs": 1}))
            .await["code"],
        "rate_limited"
    );
}

#[tokio::test]
async fn a_stopping_hub_answers_parked_pulls_and_says_goodbye() {
    let hub = TestHub::start().await;
    let (_a, mut b) = pair(&hub).await;
    b.post(json!({"op": "pull", "room": "r", "waitSecs": 60}))
        .await;
    assert_eq!(b.next(Duration::from_millis(50)).await, None);
    let began = Instant::now();
    let stopping = tokio::spawn(hub.stop());
    assert_eq!(texts(&b.reply().await).len(), 0);
    assert_eq!(
        b.next(Duration::from_secs(5)).await,
        Some(Seen::Close(1012))
    );
    drop(b);
    stopping.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_restart_is_invisible_but_for_the_connection() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    let sent = a.ask(send("before", json!({"clientId": "k"}))).await;
    a.say("r", "two").await;
    b.pull("r", json!({"limit": 1})).await;
    drop((a, b));
    let hub = hub.restart().await;
    let mut a = RawSocket::login(hub.addr(), &keys(1), "a", None).await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "b", None).await;
    assert_eq!(a.ask(send("before", json!({"clientId": "k"}))).await, sent);
    let next = a.say("r", "three").await;
    assert!(next["seq"].as_i64() > sent["seq"].as_i64());
    assert_eq!(texts(&b.pull("r", json!({})).await), ["two", "three"]);
}
