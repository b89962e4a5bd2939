//! Blobs over literal JSON and binary messages.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use std::path::{Path, PathBuf};

use parler_store::BlobReader;
use parler_testkit::{RawSocket, SOON, Seen, TestHub, keys};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_tungstenite::tungstenite::Message;

const CHUNK: usize = 262_144;

async fn agent(hub: &TestHub, n: u8, name: &str) -> RawSocket {
    RawSocket::login(hub.addr(), &keys(n), name, None).await
}

fn id(n: u8) -> String {
    keys(n).id().to_string()
}

fn sha(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

fn pattern(bytes: usize, salt: u8) -> Vec<u8> {
    (0..bytes)
        .map(|i| u8::try_from(i % 251).unwrap() ^ salt)
        .collect()
}

fn room(name: &str) -> Value {
    json!({"kind": "room", "room": name})
}

fn put(target: &Value, bytes: &[u8]) -> Value {
    json!({"op": "put_blob", "target": target, "sha256": sha(bytes), "size": bytes.len()})
}

fn chunked(mut frame: Value) -> Value {
    frame["chunks"] = true.into();
    frame
}

fn get(bytes: &[u8]) -> Value {
    json!({"op": "get_blob", "id": sha(bytes)})
}

async fn send(socket: &mut RawSocket, bytes: &[u8]) {
    socket.send(Message::binary(bytes.to_vec())).await;
}

/// Uploads to a room as one message; the last reply.
async fn post(socket: &mut RawSocket, name: &str, bytes: &[u8]) -> Value {
    let ready = socket.ask(put(&room(name), bytes)).await;
    assert_eq!(ready["type"], "blob_ready", "{ready}");
    assert!(ready.get("offset").is_none(), "{ready}");
    send(socket, bytes).await;
    socket.reply().await
}

/// Two agents in a room `r`.
async fn pair(hub: &TestHub) -> (RawSocket, RawSocket) {
    let (mut a, mut b) = (agent(hub, 1, "ann").await, agent(hub, 2, "ben").await);
    let code = a.open_channel("r").await;
    assert_eq!(b.redeem(&code).await["type"], "joined");
    (a, b)
}

fn folder(hub: &TestHub) -> PathBuf {
    hub.folder().join("hub.sqlite.blobs")
}

/// Files that belong to blobs, or to uploads under way.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let inside = std::fs::read_dir(path).unwrap();
            found.extend(inside.map(|e| e.unwrap().file_name().into_string().unwrap()));
        }
    }
    found
}

/// Until a condition on the disk holds: files go on threads of their own.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + SOON;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_blob_goes_up_and_comes_down_again() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    for size in [0, 1, 65_536, 300_001] {
        let bytes = pattern(size, 1);
        let mut frame = put(&room("r"), &bytes);
        frame["mediaType"] = "text/x".into();
        assert_eq!(a.ask(frame).await["id"], sha(&bytes));
        send(&mut a, &bytes).await;
        assert_eq!(
            a.reply().await,
            json!({"type": "blob_stored", "id": sha(&bytes), "size": size})
        );
        let incoming = b.ask(get(&bytes)).await;
        let expected = json!({"type": "blob_incoming", "id": sha(&bytes), "size": size,
            "mediaType": "text/x"});
        assert_eq!(incoming, expected);
        assert!(b.bytes().await == bytes, "{size} bytes");
    }
}

#[tokio::test]
async fn nothing_stands_between_the_announcement_and_the_bytes() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    let bytes = pattern(2_000_000, 2);
    post(&mut a, "r", &bytes).await;
    b.ask(json!({"op": "subscribe"})).await;
    b.post(get(&bytes)).await;
    b.post(json!({"op": "ping"})).await;
    for n in 0..20 {
        a.say("r", &format!("{n}")).await;
    }
    while b.next(SOON).await.unwrap()
        != Seen::Frame(json!({"type": "blob_incoming",
        "id": sha(&bytes), "size": bytes.len()}))
    {}
    assert!(b.bytes().await == bytes);
    assert_eq!(b.reply().await["type"], "pong");
}

#[tokio::test]
async fn other_requests_may_stand_between_put_blob_and_the_bytes() {
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    let bytes = pattern(100, 3);
    a.ask(put(&room("r"), &bytes)).await;
    assert_eq!(a.say("r", "between").await["type"], "sent");
    send(&mut a, &bytes).await;
    assert_eq!(a.reply().await["type"], "blob_stored");
    // All of it without waiting for a reply.
    let bytes = pattern(3_000_000, 3);
    a.post(put(&room("r"), &bytes)).await;
    send(&mut a, &bytes).await;
    a.post(json!({"op": "ping"})).await;
    for reply in ["blob_ready", "blob_stored", "pong"] {
        assert_eq!(a.reply().await["type"], reply);
    }
}

#[tokio::test]
async fn wrong_bytes_are_refused_and_spend_the_place() {
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    let bytes = pattern(100_000, 4);
    for wrong in [
        &bytes[1..],
        &[],
        &pattern(100_001, 4),
        &pattern(1_000_000, 4),
        &pattern(100_000, 5),
    ] {
        a.ask(put(&room("r"), &bytes)).await;
        send(&mut a, wrong).await;
        let reply = a.reply().await;
        assert_eq!(reply["code"], "protocol", "{}: {reply}", wrong.len());
        assert_eq!(a.ask(json!({"op": "ping"})).await["type"], "pong");
    }
    assert_eq!(a.ask(get(&bytes)).await["code"], "unknown_blob");
    until("nothing is left", || files(&folder(&hub)).is_empty()).await;
    send(&mut a, &bytes).await;
    assert_eq!(a.reply().await["code"], "protocol", "no place any more");
    assert_eq!(a.next(SOON).await, Some(Seen::Close(1008)));
}

#[tokio::test]
async fn a_message_larger_than_any_may_be_ends_the_connection() {
    let hub = TestHub::with(|config| config.limits.max_blob_bytes = 1000).await;
    let (mut a, _) = pair(&hub).await;
    a.ask(put(&room("r"), b"abc")).await;
    send(&mut a, &pattern(1_200_000, 0)).await;
    assert_eq!(a.next(SOON).await, Some(Seen::Close(1009)));
}

#[tokio::test]
async fn strangers_send_no_bytes() {
    let hub = TestHub::start().await;
    let mut stranger = RawSocket::connect(hub.addr()).await;
    send(&mut stranger, &pattern(100_000, 0)).await;
    assert_eq!(stranger.reply().await["code"], "protocol");
    assert_eq!(stranger.next(SOON).await, Some(Seen::Close(1008)));
}

#[tokio::test]
async fn malformed_requests_are_refused_before_any_byte() {
    let hub = TestHub::with(|config| config.limits.max_blob_bytes = 1000).await;
    let (mut a, _) = pair(&hub).await;
    let good = put(&room("r"), b"abc");
    let with = |field: &str, value: Value| {
        let mut frame = good.clone();
        frame[field] = value;
        frame
    };
    for (frame, code) in [
        (with("sha256", "abc".into()), "bad_frame"),
        (
            with("sha256", sha(b"abc").to_uppercase().into()),
            "bad_frame",
        ),
        (with("sha256", "0".repeat(129).into()), "too_large"),
        (with("size", 1001.into()), "too_large"),
        (with("size", (-1).into()), "bad_frame"),
        (with("mediaType", "x".repeat(257).into()), "too_large"),
        (with("target", room(&"x".repeat(4097))), "too_large"),
        (with("target", room("nowhere")), "not_member"),
        (with("offset", 1.into()), "protocol"),
        (
            json!({"op": "get_blob", "id": "0".repeat(129)}),
            "too_large",
        ),
        (
            json!({"op": "get_blob", "id": "../../etc/passwd"}),
            "unknown_blob",
        ),
        (
            json!({"op": "get_blob", "id": sha(b"abc"), "offset": 1}),
            "protocol",
        ),
    ] {
        let reply = a.ask(frame.clone()).await;
        assert_eq!(reply["code"], code, "{frame}");
    }
    let big = a.ask(with("size", 1001.into())).await;
    assert!(big["message"].as_str().unwrap().contains("1000"), "{big}");
    assert_eq!(post(&mut a, "r", b"abc").await["type"], "blob_stored");
    let mut past = chunked(get(b"abc"));
    past["offset"] = 4.into();
    assert_eq!(a.ask(past).await["code"], "protocol");
}

#[tokio::test]
async fn the_target_notices_nothing_before_the_bytes_are_stored() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "ann").await, agent(&hub, 2, "ben").await);
    let dm = json!({"kind": "dm", "agent": id(2)});
    let bytes = pattern(10, 6);
    let refused = a.ask(put(&dm, &bytes)).await;
    let text = refused["message"].as_str().unwrap();
    assert!(text.contains("discoverable") && refused.get("code").is_none());
    let card = json!({"id": id(2), "name": "ben", "kind": "agent", "protocolVersion": "0.2",
        "description": "d"});
    let registered = b.ask(json!({"op": "register", "card": card})).await;
    assert_eq!(registered["type"], "registered", "{registered}");
    assert_eq!(a.ask(put(&dm, &bytes)).await["type"], "blob_ready");
    assert_eq!(b.ask(json!({"op": "rooms"})).await["rooms"], json!([]));
    send(&mut a, &bytes[1..]).await;
    assert_eq!(a.reply().await["code"], "protocol");
    assert_eq!(b.ask(json!({"op": "rooms"})).await["rooms"], json!([]));
    assert_eq!(a.ask(put(&dm, &bytes)).await["type"], "blob_ready");
    send(&mut a, &bytes).await;
    assert_eq!(a.reply().await["type"], "blob_stored");
    let rooms = b.ask(json!({"op": "rooms"})).await["rooms"].clone();
    assert_eq!(rooms.as_array().unwrap().len(), 1);
    b.ask(get(&bytes)).await;
    assert_eq!(b.bytes().await, bytes);
}

#[tokio::test]
async fn an_upload_to_a_service_joins_it_when_the_bytes_are_stored() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "ann").await, agent(&hub, 2, "ben").await);
    let bytes = pattern(10, 6);
    let target = json!({"kind": "service", "service": "build"});
    let refused = b.ask(put(&target, &bytes)).await;
    assert_eq!(refused["code"], "unknown_service");
    a.ask(json!({"op": "serve", "service": "build"})).await;
    assert_eq!(b.ask(put(&target, &bytes)).await["type"], "blob_ready");
    assert_eq!(b.ask(json!({"op": "rooms"})).await["rooms"], json!([]));
    send(&mut b, &bytes).await;
    assert_eq!(b.reply().await["type"], "blob_stored");
    assert_eq!(
        b.ask(json!({"op": "rooms"})).await["rooms"][0]["name"],
        "svc.build"
    );
    a.ask(get(&bytes)).await;
    assert_eq!(a.bytes().await, bytes);
}

#[tokio::test]
async fn a_place_is_as_large_as_the_upload_and_one_an_agent() {
    let hub = TestHub::with(|config| config.limits.max_inflight_blob_bytes = 1000).await;
    let (mut a, mut b) = pair(&hub).await;
    let reserve = |size: u64| {
        json!({"op": "put_blob", "target": room("r"), "size": size,
        "sha256": "0".repeat(64)})
    };
    assert_eq!(a.ask(reserve(600)).await["type"], "blob_ready");
    assert_eq!(b.ask(reserve(401)).await["code"], "at_capacity");
    assert_eq!(b.ask(reserve(400)).await["type"], "blob_ready");
    let mut twice = agent(&hub, 1, "ann").await;
    assert_eq!(twice.ask(reserve(0)).await["code"], "at_capacity");
    assert_eq!(
        a.ask(reserve(500)).await["type"],
        "blob_ready",
        "in its place"
    );
    assert_eq!(b.ask(reserve(501)).await["code"], "at_capacity");
    send(&mut a, b"x").await;
    assert_eq!(a.reply().await["code"], "protocol");
    assert_eq!(
        b.ask(reserve(1000)).await["type"],
        "blob_ready",
        "freed by a failure"
    );
    b.abort();
    let freed = async {
        while twice.ask(reserve(1000)).await["type"] != "blob_ready" {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, freed).await.unwrap();
}

#[tokio::test]
async fn a_refused_request_leaves_the_earlier_upload_alone() {
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    let bytes = pattern(10, 7);
    a.ask(put(&room("r"), &bytes)).await;
    assert_eq!(
        a.ask(put(&room("nowhere"), b"x")).await["code"],
        "not_member"
    );
    send(&mut a, &bytes).await;
    assert_eq!(a.reply().await["type"], "blob_stored");
    // A newer one takes its place.
    a.ask(put(&room("r"), b"first")).await;
    a.ask(put(&room("r"), b"second")).await;
    send(&mut a, b"second").await;
    assert_eq!(a.reply().await["id"], sha(b"second"));
}

#[tokio::test]
async fn budgets_are_kept_and_known_content_is_no_growth() {
    let hub = TestHub::with(|config| {
        config.limits.max_blob_dir_bytes = 1000;
        config.limits.max_room_blobs_per_hour = 4;
    })
    .await;
    let (mut a, mut b) = pair(&hub).await;
    a.open_channel("q").await;
    let first = pattern(700, 8);
    assert_eq!(post(&mut a, "r", &first).await["type"], "blob_stored");
    let more = put(&room("q"), &pattern(301, 8));
    assert_eq!(a.ask(more).await["code"], "storage_full");
    assert_eq!(post(&mut a, "q", &first).await["type"], "blob_stored");
    assert_eq!(
        post(&mut a, "q", &pattern(300, 8)).await["type"],
        "blob_stored"
    );
    assert_eq!(post(&mut b, "r", &first).await["type"], "blob_stored");
    // Both fit at first, not both together.
    let hub = TestHub::with(|config| config.limits.max_blob_dir_bytes = 1000).await;
    let (mut a, mut b) = pair(&hub).await;
    let (one, two) = (pattern(600, 1), pattern(600, 2));
    assert_eq!(a.ask(put(&room("r"), &one)).await["type"], "blob_ready");
    assert_eq!(b.ask(put(&room("r"), &two)).await["type"], "blob_ready");
    send(&mut a, &one).await;
    assert_eq!(a.reply().await["type"], "blob_stored");
    send(&mut b, &two).await;
    assert_eq!(b.reply().await["code"], "storage_full");
    assert_eq!(files(&folder(&hub)), [sha(&one)]);
}

#[tokio::test]
async fn uploads_have_hourly_budgets() {
    let hub = TestHub::with(|config| {
        config.limits.max_blobs_per_hour = 3;
        config.limits.max_room_blobs_per_hour = 2;
    })
    .await;
    let (mut a, mut b) = pair(&hub).await;
    a.open_channel("q").await;
    post(&mut a, "r", b"1").await;
    post(&mut b, "r", b"2").await;
    let refused = a.ask(put(&room("r"), b"3")).await;
    assert_eq!(refused["code"], "rate_limited", "the room's");
    assert!(
        refused["retryAfterMs"].as_u64().unwrap() > 60_000,
        "{refused}"
    );
    post(&mut a, "q", b"3").await;
    assert_eq!(
        a.ask(put(&room("q"), b"4")).await["code"],
        "rate_limited",
        "the agent's"
    );
}

#[tokio::test]
async fn members_of_a_bound_room_read_it_and_nobody_else() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    a.open_channel("mine").await;
    let bytes = pattern(64, 9);
    post(&mut a, "mine", &bytes).await;
    assert_eq!(b.ask(get(&bytes)).await["code"], "not_authorized");
    post(&mut a, "r", &bytes).await;
    b.ask(get(&bytes)).await;
    assert_eq!(b.bytes().await, bytes);
    let remove = json!({"op": "remove_member", "room": "r", "agent": id(2)});
    assert_eq!(a.ask(remove).await["type"], "removed");
    assert_eq!(b.ask(get(&bytes)).await["code"], "not_authorized");
    assert_eq!(b.ask(put(&room("r"), &bytes)).await["code"], "not_member");
}

#[tokio::test]
async fn who_was_removed_while_uploading_stores_nothing() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    let bytes = pattern(64, 10);
    assert_eq!(b.ask(put(&room("r"), &bytes)).await["type"], "blob_ready");
    a.ask(json!({"op": "remove_member", "room": "r", "agent": id(2)}))
        .await;
    send(&mut b, &bytes).await;
    assert_eq!(b.reply().await["code"], "not_member");
    assert_eq!(a.ask(get(&bytes)).await["code"], "unknown_blob");
    until("no file stays", || files(&folder(&hub)).is_empty()).await;
}

#[tokio::test]
async fn missing_bytes_are_said_and_can_be_posted_again() {
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    let bytes = pattern(64, 11);
    post(&mut a, "r", &bytes).await;
    std::fs::remove_dir_all(folder(&hub)).unwrap();
    let reply = a.ask(get(&bytes)).await;
    assert_eq!(reply["code"], "internal");
    let text = reply["message"].as_str().unwrap();
    assert!(text.contains("blob bytes unavailable"), "{text}");
    assert_eq!(post(&mut a, "r", &bytes).await["type"], "blob_stored");
    a.ask(get(&bytes)).await;
    assert_eq!(a.bytes().await, bytes);
}

#[tokio::test]
async fn chunks_go_up_and_come_down() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    for size in [0, 10, 3 * CHUNK, 3 * CHUNK + 5] {
        let bytes = pattern(size, 12);
        let ready = a.ask(chunked(put(&room("r"), &bytes))).await;
        assert_eq!(
            (&ready["type"], &ready["offset"]),
            (&json!("blob_ready"), &json!(0))
        );
        if bytes.is_empty() {
            send(&mut a, b"").await;
        }
        for chunk in bytes.chunks(CHUNK) {
            send(&mut a, chunk).await;
        }
        assert_eq!(a.reply().await["type"], "blob_stored");
        for offset in [0, size / 2, size] {
            let mut frame = chunked(get(&bytes));
            frame["offset"] = offset.into();
            let incoming = b.ask(frame).await;
            assert_eq!(
                (&incoming["size"], &incoming["offset"]),
                (&json!(size), &json!(offset))
            );
            let mut got = b.bytes().await;
            while offset + got.len() < size {
                let chunk = b.bytes().await;
                assert!(!chunk.is_empty() && chunk.len() <= CHUNK);
                got.extend(chunk);
            }
            assert!(got == bytes[offset..], "{size} from {offset}");
        }
        assert_eq!(b.ask(json!({"op": "ping"})).await["type"], "pong");
    }
}

#[tokio::test]
async fn an_upload_that_broke_resumes() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    let bytes = pattern(10 * CHUNK, 13);
    a.ask(chunked(put(&room("r"), &bytes))).await;
    for chunk in bytes.chunks(CHUNK).take(4) {
        send(&mut a, chunk).await;
    }
    // In its turn: what was sent is written by then.
    a.ask(json!({"op": "ping"})).await;
    a.abort();
    let mut again = agent(&hub, 1, "ann").await;
    let ready = again.ask(chunked(put(&room("r"), &bytes))).await;
    assert_eq!(ready["offset"], 4 * CHUNK, "{ready}");
    for chunk in bytes[4 * CHUNK..].chunks(CHUNK) {
        send(&mut again, chunk).await;
    }
    assert_eq!(again.reply().await["type"], "blob_stored");
    b.ask(get(&bytes)).await;
    assert!(b.bytes().await == bytes);
    // Another one begins anew if it wants to, and somebody else has no part in it.
    let other = pattern(2 * CHUNK, 14);
    again.ask(chunked(put(&room("r"), &other))).await;
    send(&mut again, &other[..CHUNK]).await;
    again.ask(json!({"op": "ping"})).await;
    assert_eq!(b.ask(chunked(put(&room("r"), &other))).await["offset"], 0);
    let mut anew = chunked(put(&room("r"), &other));
    anew["offset"] = 0.into();
    assert_eq!(again.ask(anew).await["offset"], 0);
}

#[tokio::test]
async fn wrong_chunks_are_refused_and_what_follows_them_is_no_violation() {
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    let bytes = pattern(8 * CHUNK, 15);
    a.ask(chunked(put(&room("r"), &bytes))).await;
    send(&mut a, &bytes[..CHUNK + 1]).await;
    for chunk in bytes[CHUNK + 1..].chunks(CHUNK) {
        send(&mut a, chunk).await;
    }
    a.post(json!({"op": "ping"})).await;
    assert_eq!(a.reply().await["code"], "protocol");
    assert_eq!(a.reply().await["type"], "pong");
    // More than was announced.
    a.ask(chunked(put(&room("r"), &bytes[..10]))).await;
    send(&mut a, &bytes[..11]).await;
    assert_eq!(a.reply().await["code"], "protocol");
    until("nothing is left", || files(&folder(&hub)).is_empty()).await;
}

#[tokio::test]
async fn the_collection_takes_what_nobody_can_read_or_wants() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    a.open_channel("q").await;
    let (kept, lost) = (pattern(10, 16), pattern(10, 17));
    post(&mut a, "q", &kept).await;
    post(&mut a, "q", &lost).await;
    post(&mut a, "r", &kept).await;
    let blobs = hub.state().blobs();
    assert_eq!(blobs.collect(None).await.unwrap(), 0);
    a.ask(json!({"op": "delete_room", "room": "q"})).await;
    assert_eq!(blobs.collect(None).await.unwrap(), 1);
    assert_eq!(files(&folder(&hub)), [sha(&kept)]);
    assert_eq!(a.ask(get(&lost)).await["code"], "unknown_blob");
    b.ask(get(&kept)).await;
    assert_eq!(b.bytes().await, kept);
    let later = parler_hub::now_ms() + 1000;
    assert_eq!(blobs.collect(Some(later)).await.unwrap(), 1);
    assert!(files(&folder(&hub)).is_empty());
    assert_eq!(b.ask(get(&kept)).await["code"], "unknown_blob");
    assert_eq!(post(&mut a, "r", &kept).await["type"], "blob_stored");
}

#[tokio::test]
async fn the_janitor_collects_after_the_days_that_were_set() {
    const DAY: i64 = 86_400_000;
    let sweep = parler_hub::janitor::sweep;
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    let now = parler_hub::now_ms();
    post(&mut a, "r", b"abc").await;
    let early = sweep(hub.state(), now + 14 * DAY - 60_000).await.unwrap();
    assert_eq!((early.blobs, files(&folder(&hub)).len()), (0, 1));
    let late = sweep(hub.state(), now + 14 * DAY + 60_000).await.unwrap();
    assert_eq!((late.blobs, files(&folder(&hub)).len()), (1, 0));
    let hub = TestHub::with(|config| config.retention.blobs = None).await;
    let (mut a, _) = pair(&hub).await;
    post(&mut a, "r", b"abc").await;
    let kept = sweep(hub.state(), now + 10_000 * DAY).await.unwrap();
    assert_eq!(kept.blobs, 0);
}

#[tokio::test]
async fn the_collection_never_takes_what_is_posted_at_the_same_time() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = pair(&hub).await;
    let bytes = pattern(1000, 18);
    let state = hub.state().clone();
    let collecting = tokio::spawn(async move {
        loop {
            let all = Some(parler_hub::now_ms() + 1000);
            state.blobs().collect(all).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..50 {
        assert_eq!(post(&mut a, "r", &bytes).await["type"], "blob_stored");
        // Gone by now or there, never half.
        let reply = b.ask(get(&bytes)).await;
        match reply["type"].as_str().unwrap() {
            "blob_incoming" => assert_eq!(b.bytes().await, bytes),
            _ => assert!(
                reply["code"] == "unknown_blob" || reply["code"] == "internal",
                "{reply}"
            ),
        }
    }
    collecting.abort();
    let _ = collecting.await;
    assert_eq!(post(&mut a, "r", &bytes).await["type"], "blob_stored");
    b.ask(get(&bytes)).await;
    assert_eq!(b.bytes().await, bytes);
}

#[tokio::test]
async fn a_blob_is_read_through_the_hub_itself_for_http() {
    use futures_util::TryStreamExt as _;
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    let bytes = pattern(200_000, 19);
    post(&mut a, "r", &bytes).await;
    a.open_channel("q").await;
    let reader = |room: &str| BlobReader::Room(parler_protocol::RoomName::new(room));
    let open = hub.state().open_blob(&reader("r"), &sha(&bytes), 5).await;
    let open = open.unwrap();
    assert_eq!((open.row.size, open.bytes.left()), (200_000, 199_995));
    let blocks: Vec<_> = open.bytes.into_stream().try_collect().await.unwrap();
    assert!(blocks.len() > 1 && blocks.concat() == bytes[5..]);
    let other = hub.state().open_blob(&reader("q"), &sha(&bytes), 0).await;
    assert!(matches!(
        other,
        Err(parler_hub::blobs::BlobError::Forbidden)
    ));
}

#[tokio::test]
async fn blobs_survive_a_restart_and_uploads_do_not() {
    let hub = TestHub::start().await;
    let (mut a, _) = pair(&hub).await;
    let (stored, begun) = (pattern(5000, 20), pattern(5 * CHUNK, 21));
    post(&mut a, "r", &stored).await;
    a.ask(chunked(put(&room("r"), &begun))).await;
    send(&mut a, &begun[..CHUNK]).await;
    a.ask(json!({"op": "ping"})).await;
    let hub = hub.restart().await;
    assert_eq!(files(&folder(&hub)), [sha(&stored)]);
    let mut a = agent(&hub, 1, "ann").await;
    a.ask(get(&stored)).await;
    assert_eq!(a.bytes().await, stored);
    assert_eq!(a.ask(chunked(put(&room("r"), &begun))).await["offset"], 0);
}

#[tokio::test]
async fn a_hub_without_a_database_keeps_blobs_as_long_as_it_runs() {
    let hub = TestHub::with(|config| config.db = None).await;
    let (mut a, _) = pair(&hub).await;
    post(&mut a, "r", b"abc").await;
    a.ask(get(b"abc")).await;
    assert_eq!(a.bytes().await, b"abc");
    assert!(!folder(&hub).exists());
}

#[tokio::test]
async fn a_watcher_downloads_what_its_room_has_and_nothing_else() {
    let hub = TestHub::start().await;
    let (mut a, _b) = pair(&hub).await;
    a.open_channel("other").await;
    let (bytes, foreign) = (pattern(100_000, 1), pattern(10, 2));
    let mut with_type = put(&room("r"), &bytes);
    with_type["mediaType"] = "text/html".into();
    assert_eq!(a.ask(with_type).await["type"], "blob_ready");
    send(&mut a, &bytes).await;
    assert_eq!(a.reply().await["type"], "blob_stored");
    assert_eq!(post(&mut a, "other", &foreign).await["type"], "blob_stored");
    let minted = a.ask(json!({"op": "mint_watch", "room": "r"})).await;
    let token = minted["token"].as_str().unwrap();
    let see = async |path: String| parler_testkit::get(hub.addr(), &path, Some(token)).await;

    let answer = see(format!("/api/session/blob/{}?name=../x.html", sha(&bytes))).await;
    assert_eq!((answer.status, &answer.body), (200, &bytes));
    assert_eq!(
        answer.header("content-disposition"),
        "attachment; filename=\"x.html\""
    );
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert!(
        answer
            .header("content-security-policy")
            .starts_with("sandbox")
    );
    assert_eq!(answer.header("cache-control"), "no-store");
    let unknown = "0".repeat(64);
    for id in [sha(&foreign), unknown, "x".to_owned()] {
        let refused = see(format!("/api/session/blob/{id}")).await;
        assert_eq!(refused.status, 403, "{id}");
    }
    let path = format!("/api/session/blob/{}", sha(&bytes));
    let nobody = parler_testkit::get(hub.addr(), &path, None).await;
    assert_eq!(nobody.status, 401);
}
