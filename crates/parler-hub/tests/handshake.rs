//! Login, over literal JSON.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use std::time::Duration;

use parler_identity::{KeyPair, challenge};
use parler_testkit::{RawSocket, Seen, TestHub, keys};
use serde_json::{Value, json};

async fn challenge_of(socket: &mut RawSocket, keys: &KeyPair) -> String {
    let reply = socket
        .ask(json!({"op": "hello", "id": keys.id().as_str(), "name": "n"}))
        .await;
    assert_eq!(reply["type"], "challenge", "{reply}");
    reply["nonce"].as_str().unwrap().to_owned()
}

fn signed(keys: &KeyPair, nonce: &str) -> Value {
    json!({"op": "hello", "id": keys.id().as_str(), "name": "n", "nonce": nonce,
           "sig": challenge::answer(keys, nonce).unwrap()})
}

#[tokio::test]
async fn a_challenge_has_its_shape_and_the_proof_lets_in() {
    let hub = TestHub::start().await;
    let mut socket = RawSocket::connect(hub.addr()).await;
    let keys = keys(1);
    let nonce = challenge_of(&mut socket, &keys).await;
    let fields: Vec<&str> = nonce.split(':').collect();
    assert_eq!(
        (fields.len(), fields[0], fields[1], fields[2].len()),
        (5, "parler-auth", "v1", 12)
    );
    let welcome = socket.ask(signed(&keys, &nonce)).await;
    assert_eq!(
        welcome,
        json!({"type": "welcome", "id": keys.id().as_str(), "name": "n"})
    );
    assert_eq!(
        socket.ask(json!({"op": "ping"})).await,
        json!({"type": "pong"})
    );
}

#[tokio::test]
async fn the_hub_proves_its_own_key_when_asked() {
    let hub = TestHub::start().await;
    let mut socket = RawSocket::connect(hub.addr()).await;
    let ask = json!({"op": "hello", "id": "x", "name": "n", "hubNonce": "abc123"});
    let reply = socket.ask(ask).await;
    let (id, nonce) = (
        reply["hub"].as_str().unwrap(),
        reply["nonce"].as_str().unwrap(),
    );
    assert_eq!(id, hub.state().key().id().as_str());
    let sig = reply["hubSig"].as_str().unwrap();
    assert!(challenge::check_hub(id, "abc123", nonce, sig));
    assert!(!challenge::check_hub(id, "abc124", nonce, sig));
    // A nonce that could be something else to sign is not signed.
    let reply = socket
        .ask(json!({"op": "hello", "id": "x", "name": "n", "hubNonce": "{\"a\":1}"}))
        .await;
    assert!(reply.get("hubSig").is_none(), "{reply}");
}

#[tokio::test]
async fn a_nonce_is_spent_by_the_first_try() {
    let hub = TestHub::start().await;
    let mut socket = RawSocket::connect(hub.addr()).await;
    let keys = keys(1);
    let nonce = challenge_of(&mut socket, &keys).await;
    let mut wrong = signed(&keys, &nonce);
    wrong["sig"] = signed(&parler_testkit::keys(2), &nonce)["sig"].clone();
    let reply = socket.ask(wrong).await;
    assert_eq!(reply["code"], "unauthenticated");
    let reply = socket.ask(signed(&keys, &nonce)).await;
    assert_eq!(reply["code"], "protocol", "spent: {reply}");
}

#[tokio::test]
async fn another_connections_nonce_does_not_let_in() {
    let hub = TestHub::start().await;
    let keys = keys(1);
    let mut a = RawSocket::connect(hub.addr()).await;
    let mut b = RawSocket::connect(hub.addr()).await;
    let nonce_a = challenge_of(&mut a, &keys).await;
    challenge_of(&mut b, &keys).await;
    assert_eq!(
        b.ask(signed(&keys, &nonce_a)).await["code"],
        "unauthenticated"
    );
}

#[tokio::test]
async fn ops_before_the_login_and_a_second_login_are_refused() {
    let hub = TestHub::start().await;
    let mut socket = RawSocket::connect(hub.addr()).await;
    assert_eq!(
        socket.ask(json!({"op": "rooms"})).await["code"],
        "unauthenticated"
    );
    assert_eq!(socket.ask_text("nonsense").await["code"], "bad_frame");
    let welcome = socket.hello(&keys(1), "n", None).await;
    assert_eq!(welcome["type"], "welcome");
    let again = socket
        .ask(json!({"op": "hello", "id": "x", "name": "n"}))
        .await;
    assert_eq!(again["code"], "protocol");
    assert_eq!(socket.ask(json!({"op": "ping"})).await["type"], "pong");
}

#[tokio::test]
async fn only_user_keys_are_ids() {
    let hub = TestHub::start().await;
    for id in ["", "x", "AAAA", &keys(1).id().as_str().to_lowercase()] {
        let mut socket = RawSocket::connect(hub.addr()).await;
        let nonce = challenge_of(&mut socket, &keys(1)).await;
        let mut hello = signed(&keys(1), &nonce);
        hello["id"] = id.into();
        assert_eq!(socket.ask(hello).await["code"], "unauthenticated", "{id:?}");
    }
}

#[tokio::test]
async fn the_fifth_hello_is_refused_and_the_connection_stays() {
    let hub = TestHub::start().await;
    let mut socket = RawSocket::connect(hub.addr()).await;
    for _ in 0..4 {
        challenge_of(&mut socket, &keys(1)).await;
    }
    let fifth = json!({"op": "hello", "id": "x", "name": "n"});
    assert_eq!(socket.ask(fifth).await["code"], "rate_limited");
    assert_eq!(
        socket.ask(json!({"op": "ping"})).await["code"],
        "unauthenticated"
    );
}

#[tokio::test]
async fn fields_over_their_cap_are_refused() {
    let hub = TestHub::start().await;
    for (field, cap) in [
        ("id", 256),
        ("name", 256),
        ("role", 256),
        ("sig", 512),
        ("secret", 4096),
    ] {
        let mut socket = RawSocket::connect(hub.addr()).await;
        let mut hello = json!({"op": "hello", "id": "x", "name": "n"});
        hello[field] = "x".repeat(cap + 1).into();
        let reply = socket.ask(hello).await;
        assert_eq!(reply["code"], "too_large", "{field}");
        assert!(reply["message"].as_str().unwrap().contains(field));
    }
}

#[tokio::test]
async fn a_join_secret_keeps_strangers_out() {
    let hub = TestHub::with(|c| c.join_secret = Some("s3cret-words".into())).await;
    for secret in [None, Some(""), Some("s3cret-wordz"), Some("short")] {
        let mut socket = RawSocket::connect(hub.addr()).await;
        let nonce = challenge_of(&mut socket, &keys(1)).await;
        let mut hello = signed(&keys(1), &nonce);
        if let Some(secret) = secret {
            hello["secret"] = secret.into();
        }
        let reply = socket.ask(hello).await;
        assert_eq!(reply["code"], "not_authorized", "{secret:?}");
        assert!(reply["message"].as_str().unwrap().contains("join secret"));
        assert_eq!(
            socket.ask(json!({"op": "rooms"})).await["code"],
            "unauthenticated"
        );
    }
    let mut socket = RawSocket::connect(hub.addr()).await;
    let nonce = challenge_of(&mut socket, &keys(1)).await;
    let mut hello = signed(&keys(1), &nonce);
    hello["secret"] = "s3cret-words".into();
    assert_eq!(socket.ask(hello).await["type"], "welcome");
}

#[tokio::test]
async fn names_lose_what_hides_in_them() {
    let hub = TestHub::start().await;
    let mut socket = RawSocket::connect(hub.addr()).await;
    let name = "web\u{202e}dev\u{1b}[31m\n\u{200b}x";
    let welcome = socket.hello(&keys(1), name, Some("front\u{7}end")).await;
    assert_eq!(welcome["name"], "webdev[31m x");
    let code = socket.open_channel("r").await;
    assert_eq!(code.len(), 8);
    let roster = socket.ask(json!({"op": "roster", "room": "r"})).await;
    assert_eq!(roster["entries"][0]["role"], "frontend");
}

#[tokio::test]
async fn empty_and_reserved_names_are_refused() {
    let hub = TestHub::start().await;
    for name in ["", "  ", "\u{200b}", "hub", "ALL", "system"] {
        let mut socket = RawSocket::connect(hub.addr()).await;
        let reply = socket.hello(&keys(1), name, None).await;
        assert_eq!(reply["code"], "not_authorized", "{name:?}");
        assert_eq!(
            socket.hello(&keys(1), "fine", None).await["type"],
            "welcome"
        );
    }
}

#[tokio::test]
async fn malformed_traffic_ends_a_connection() {
    let hub = TestHub::start().await;
    let mut socket = RawSocket::connect(hub.addr()).await;
    let mut closed = None;
    for _ in 0..300 {
        socket.post_text("{").await;
        match socket.next(Duration::from_secs(5)).await {
            Some(Seen::Frame(frame)) => assert_eq!(frame["code"], "bad_frame"),
            other => {
                closed = other;
                break;
            }
        }
    }
    assert_eq!(closed, Some(Seen::Close(1008)));
}

#[tokio::test]
async fn a_full_hub_says_so_and_frees_places() {
    let hub = TestHub::with(|c| c.limits.max_connections = 1).await;
    let first = RawSocket::login(hub.addr(), &keys(1), "a", None).await;
    let mut second = RawSocket::connect(hub.addr()).await;
    match second.next(Duration::from_secs(5)).await {
        Some(Seen::Frame(frame)) => assert_eq!(frame["code"], "at_capacity"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        second.next(Duration::from_secs(5)).await,
        Some(Seen::Close(1013))
    );
    first.abort();
    let deadline = tokio::time::Instant::now() + parler_testkit::SOON;
    while hub.state().live_connections() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the place is freed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    RawSocket::login(hub.addr(), &keys(2), "b", None).await;
}

#[tokio::test]
async fn a_foreign_web_page_cannot_open_a_socket() {
    use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
    let hub = TestHub::with(|c| c.allowed_origins.push("https://ok.example".into())).await;
    let own = format!("http://{}", hub.addr());
    for (origin, allowed) in [
        ("https://evil.example", false),
        ("null", false),
        ("file://", false),
        (own.as_str(), true),
        ("https://ok.example", true),
    ] {
        let mut request = format!("ws://{}/ws", hub.addr())
            .into_client_request()
            .unwrap();
        request
            .headers_mut()
            .insert("origin", origin.parse().unwrap());
        let tcp = tokio::net::TcpStream::connect(hub.addr()).await.unwrap();
        let result = tokio_tungstenite::client_async(request, tcp).await;
        assert_eq!(result.is_ok(), allowed, "{origin}");
    }
}
