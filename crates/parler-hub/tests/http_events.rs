//! A room as a stream of events.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use std::time::Duration;

use parler_testkit::{EventStream, RawSocket, SOON, TestHub, get, keys};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

async fn watched() -> (TestHub, RawSocket, String) {
    let hub = TestHub::start().await;
    let mut a = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    a.open_channel("r").await;
    let token = full(&mut a).await;
    (hub, a, token)
}

async fn full(owner: &mut RawSocket) -> String {
    let minted = owner
        .ask(json!({"op": "mint_watch", "room": "r", "full": true}))
        .await;
    minted["token"].as_str().unwrap().to_owned()
}

async fn open(hub: &TestHub, token: &str, headers: &[(&str, &str)]) -> EventStream {
    let stream = EventStream::open(hub.addr(), "/api/room/events", token, headers).await;
    assert_eq!(stream.status, 200);
    stream
}

async fn text(stream: &mut EventStream) -> String {
    let event = stream.next_of("message").await.unwrap();
    assert_eq!(event.id, event.data["seq"].to_string());
    event.data["parts"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_stream_tells_what_was_said_and_what_is_said() {
    let (hub, mut a, token) = watched().await;
    a.say("r", "before").await;
    let mut stream = open(&hub, &token, &[]).await;
    assert_eq!(text(&mut stream).await, "before");
    let there = stream.next_of("presence").await.unwrap();
    assert_eq!(there.data["members"][0]["name"], "ann");
    let sent = a.say("r", "now").await;
    let event = stream.next_of("message").await.unwrap();
    assert_eq!(event.data["id"], sent["id"]);
    let pulled = a.pull("r", json!({"since": 0})).await;
    assert_eq!(event.data, pulled["messages"][1], "as members get it");
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was() {
    let (hub, mut a, token) = watched().await;
    let mut seqs = Vec::new();
    for said in ["one", "two", "three"] {
        seqs.push(a.say("r", said).await["seq"].to_string());
    }
    let mut stream = open(&hub, &token, &[("last-event-id", &seqs[1])]).await;
    assert_eq!(text(&mut stream).await, "three");
    let path = format!("/api/room/events?after={}", seqs[0]);
    let mut stream = EventStream::open(hub.addr(), &path, &token, &[]).await;
    assert_eq!(text(&mut stream).await, "two");
}

#[tokio::test]
async fn somebody_who_comes_is_told() {
    let (hub, mut a, token) = watched().await;
    let mut stream = open(&hub, &token, &[]).await;
    let count = |event: &parler_testkit::Event| event.data["members"].as_array().unwrap().len();
    assert_eq!(count(&stream.next_of("presence").await.unwrap()), 1);
    let code = a.open_channel("r").await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    b.redeem(&code).await;
    assert_eq!(count(&stream.next_of("presence").await.unwrap()), 2);
}

#[tokio::test]
async fn a_revoked_token_ends_its_streams_and_no_others() {
    let (hub, mut a, token) = watched().await;
    let other = full(&mut a).await;
    let mut ended = open(&hub, &token, &[]).await;
    let mut lives = open(&hub, &other, &[]).await;
    ended.next().await.unwrap();
    a.ask(json!({"op": "revoke_token", "token": token})).await;
    assert_eq!(ended.next_of("message").await, None);
    a.say("r", "still here").await;
    assert_eq!(text(&mut lives).await, "still here");
    assert_eq!(
        get(hub.addr(), "/api/room/events", Some(&token))
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn what_ends_the_right_to_watch_ends_the_stream() {
    let (hub, mut a, token) = watched().await;
    let mut stream = open(&hub, &token, &[]).await;
    stream.next().await.unwrap();
    a.ask(json!({"op": "delete_room", "room": "r"})).await;
    assert_eq!(stream.next_of("message").await, None, "the room is gone");

    a.open_channel("r").await;
    let code = a.open_channel("r").await;
    let mut b = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    b.redeem(&code).await;
    let token = full(&mut a).await;
    let mut stream = open(&hub, &token, &[]).await;
    stream.next().await.unwrap();
    a.ask(json!({"op": "transfer_owner", "room": "r", "agent": keys(2).id().as_str()}))
        .await;
    a.ask(json!({"op": "leave", "room": "r"})).await;
    assert_eq!(stream.next_of("message").await, None, "its minter left");

    let minted = b
        .ask(json!({"op": "mint_watch", "room": "r", "full": true, "ttlSecs": 1}))
        .await;
    let mut stream = open(&hub, minted["token"].as_str().unwrap(), &[]).await;
    stream.next().await.unwrap();
    assert_eq!(stream.next_of("message").await, None, "its time is over");
    assert!(parler_hub::now_ms() >= minted["expiresAt"].as_i64().unwrap());
}

#[tokio::test]
async fn a_hub_that_stops_ends_its_streams() {
    let (hub, _a, token) = watched().await;
    let mut stream = open(&hub, &token, &[]).await;
    stream.next().await.unwrap();
    hub.stop().await;
    assert_eq!(stream.next_of("message").await, None);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_holds_nobody_up() {
    let (hub, mut a, token) = watched().await;
    let mut stuck = tokio::net::TcpStream::connect(hub.addr()).await.unwrap();
    let request = format!(
        "GET /api/room/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stuck.write_all(request.as_bytes()).await.unwrap();
    let mut quick = open(&hub, &token, &[]).await;
    let big = "x".repeat(400_000);
    for _ in 0..40 {
        assert_eq!(a.say("r", &big).await["type"], "sent");
    }
    a.say("r", "last").await;
    loop {
        if text(&mut quick).await == "last" {
            break;
        }
    }
    assert_eq!(get(hub.addr(), "/health", None).await.text(), "ok");
    drop(stuck);
}

#[tokio::test]
async fn one_token_opens_a_few_streams_and_frees_them() {
    let (hub, _a, token) = watched().await;
    let most = parler_hub::defaults::MAX_STREAMS_PER_TOKEN;
    let mut open_ones = Vec::new();
    for _ in 0..most {
        open_ones.push(open(&hub, &token, &[]).await);
    }
    let refused = get(hub.addr(), "/api/room/events", Some(&token)).await;
    assert_eq!(refused.status, 503);
    let error: Value = refused.json();
    assert!(
        error["error"]
            .as_str()
            .unwrap()
            .contains("too many open streams")
    );
    drop(open_ones);
    let freed = async {
        while hub.state().streams().count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(2 * SOON, freed)
        .await
        .expect("places are freed");
}
