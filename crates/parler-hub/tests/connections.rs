//! How connections end, what one address may have, and what an agent with several connections is.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use std::time::{Duration, Instant};

use parler_hub::defaults;
use parler_testkit::{RawSocket, SOON, Seen, TestHub, keys, texts};
use serde_json::json;
use tokio_tungstenite::tungstenite::{Error, Message};

/// A hub that believes the addresses that a proxy names.
async fn behind_a_proxy(change: impl FnOnce(&mut parler_hub::Config)) -> TestHub {
    TestHub::with(|config| {
        config.trust_proxy_headers = true;
        change(config);
    })
    .await
}

async fn from(hub: &TestHub, address: &str) -> Result<RawSocket, Error> {
    RawSocket::try_connect_with(hub.addr(), &[("x-forwarded-for", address)]).await
}

#[tokio::test]
async fn a_silent_connection_is_closed_with_1001() {
    let hub = TestHub::with(|c| c.idle_timeout = Some(Duration::from_millis(100))).await;
    let mut socket = RawSocket::login(hub.addr(), &keys(1), "a", None).await;
    assert_eq!(socket.next(SOON).await, Some(Seen::Close(1001)));
}

#[tokio::test]
async fn a_close_by_the_client_is_answered_also_beside_a_parked_pull() {
    let hub = TestHub::start().await;
    for parked in [false, true] {
        let mut socket = RawSocket::login(hub.addr(), &keys(1), "a", None).await;
        socket.open_channel("r").await;
        if parked {
            socket
                .post(json!({"op": "pull", "room": "r", "waitSecs": 60}))
                .await;
        }
        socket.send(Message::Close(None)).await;
        let end = socket.next(SOON).await;
        assert!(matches!(end, Some(Seen::Close(_))), "{parked}: {end:?}");
        assert_eq!(socket.next(SOON).await, Some(Seen::End));
    }
    hub.stop().await;
}

#[tokio::test]
async fn one_address_cannot_take_all_connections() {
    let hub = behind_a_proxy(|c| c.limits.max_connections = 100).await;
    let share = parler_hub::addresses::share(100);
    assert_eq!(share, defaults::ADDRESS_MIN);
    let mut held = Vec::new();
    for n in 0..share {
        // An IPv6 host may use every address of its network.
        let socket = from(&hub, &format!("2001:db8:1:2::{n:x}")).await.unwrap();
        held.push(socket);
    }
    let mut refused = from(&hub, "2001:db8:1:2:ffff::1").await.unwrap();
    match refused.next(SOON).await {
        Some(Seen::Frame(frame)) => {
            assert_eq!(frame["code"], "at_capacity");
            assert!(frame["message"].as_str().unwrap().contains("address"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(refused.next(SOON).await, Some(Seen::Close(1013)));
    let mut other = from(&hub, "2001:db8:1:3::1").await.unwrap();
    assert_eq!(other.hello(&keys(1), "a", None).await["type"], "welcome");
    // What is closed can be opened again.
    held.clear();
    let deadline = Instant::now() + SOON;
    while hub.state().live_connections() > 1 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut again = from(&hub, "2001:db8:1:2::1").await.unwrap();
    assert_eq!(again.hello(&keys(2), "b", None).await["type"], "welcome");
}

#[tokio::test]
async fn upgrades_are_counted_by_network() {
    let hub = behind_a_proxy(|c| c.limits.max_http_per_min = 2).await;
    assert!(from(&hub, "2001:db8:1:2::1").await.is_ok());
    assert!(from(&hub, "2001:db8:1:2:9::2").await.is_ok());
    match from(&hub, "2001:db8:1:2::3").await {
        Err(Error::Http(response)) => assert_eq!(response.status(), 429),
        other => panic!("{:?}", other.err()),
    }
    assert!(
        from(&hub, "2001:db8:1:3::1").await.is_ok(),
        "another network"
    );
}

#[tokio::test]
async fn a_new_id_does_not_help_who_guesses_codes() {
    let hub = behind_a_proxy(|_| {}).await;
    let mut owner = RawSocket::login(hub.addr(), &keys(1), "owner", None).await;
    let code = owner.open_channel("r").await;
    let mut wrong = 0;
    let mut stopped = None;
    'ids: for n in 10..40 {
        let mut guesser = from(&hub, "192.0.2.1").await.unwrap();
        guesser.hello(&keys(n), "guesser", None).await;
        for guess in 0..20 {
            let reply = guesser.redeem(&format!("G{n:03}{guess:04}")).await;
            match reply["code"].as_str().unwrap() {
                "invalid_invite" => wrong += 1,
                _ => {
                    stopped = Some((reply, guesser));
                    break 'ids;
                }
            }
        }
    }
    let (reply, mut guesser) = stopped.unwrap();
    assert_eq!(reply["code"], "rate_limited");
    assert!(reply["retryAfterMs"].as_u64().unwrap() > 0);
    assert_eq!(wrong, defaults::MAX_BAD_GUESSES_PER_MIN);
    // The right one is not looked at either: nothing is learned from the delay.
    assert_eq!(guesser.redeem(&code).await["code"], "rate_limited");
    let mut elsewhere = from(&hub, "192.0.2.2").await.unwrap();
    elsewhere.hello(&keys(2), "ben", None).await;
    assert_eq!(elsewhere.redeem(&code).await["type"], "joined");
}

#[tokio::test]
async fn guessing_the_join_secret_is_throttled_too() {
    let hub = behind_a_proxy(|c| c.join_secret = Some("s3cret-words".into())).await;
    let mut refusals = Vec::new();
    for n in 0..defaults::MAX_BAD_GUESSES_PER_MIN + 2 {
        let mut socket = from(&hub, "192.0.2.1").await.unwrap();
        let secret = if n > defaults::MAX_BAD_GUESSES_PER_MIN {
            "s3cret-words"
        } else {
            "wrong"
        };
        let more = json!({"secret": secret});
        let reply = socket.hello_with(&keys(1), "a", more).await;
        refusals.push(reply["code"].as_str().unwrap().to_owned());
    }
    let wrong = refusals.iter().filter(|c| *c == "not_authorized").count();
    assert_eq!(wrong, defaults::MAX_BAD_GUESSES_PER_MIN as usize);
    assert_eq!(refusals[wrong..], ["rate_limited", "rate_limited"]);
    let mut elsewhere = from(&hub, "192.0.2.2").await.unwrap();
    let secret = json!({"secret": "s3cret-words"});
    let reply = elsewhere.hello_with(&keys(1), "a", secret).await;
    assert_eq!(reply["type"], "welcome");
}

#[tokio::test]
async fn whoever_goes_on_without_heed_is_refused_slowly() {
    let hub = TestHub::with(|c| c.limits.max_ops_per_min = 1).await;
    let mut socket = RawSocket::login(hub.addr(), &keys(1), "a", None).await;
    assert_eq!(socket.ask(json!({"op": "ping"})).await["type"], "pong");
    let began = Instant::now();
    for _ in 0..10 {
        socket.post(json!({"op": "ping"})).await;
    }
    for _ in 0..10 {
        let refused = socket.reply().await;
        assert_eq!(refused["code"], "rate_limited");
        assert!(refused["retryAfterMs"].as_u64().unwrap() > 0);
    }
    assert!(began.elapsed() >= 10 * defaults::REFUSAL_PAUSE);
}

#[tokio::test]
async fn an_agent_with_several_connections_is_one_agent() {
    let hub = TestHub::start().await;
    let mut one = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    let mut two = RawSocket::login(hub.addr(), &keys(1), "ann", None).await;
    let mut ben = RawSocket::login(hub.addr(), &keys(2), "ben", None).await;
    let code = one.open_channel("r").await;
    ben.redeem(&code).await;
    two.ask(json!({"op": "subscribe"})).await;
    one.ask(json!({"op": "subscribe"})).await;
    let roster = ben.ask(json!({"op": "roster", "room": "r"})).await;
    let names: Vec<_> = roster["entries"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2);
    let rooms = two.ask(json!({"op": "rooms"})).await;
    assert_eq!(rooms["rooms"][0]["members"], 2);
    // Both hear of others, neither of the other; the cursor is one.
    ben.say("r", "hello").await;
    let pushed = [one.push().await, two.push().await];
    assert!(pushed.iter().all(|p| p["message"]["from"]["name"] == "ben"));
    one.say("r", "mine").await;
    assert_eq!(two.ask(json!({"op": "ping"})).await["type"], "pong");
    assert_eq!((one.pushes.len(), two.pushes.len()), (0, 0));
    assert_eq!(texts(&one.pull("r", json!({})).await), ["hello", "mine"]);
    assert_eq!(texts(&two.pull("r", json!({})).await).len(), 0);
    // The end of one is not the end of the agent.
    one.abort();
    ben.say("r", "again").await;
    assert_eq!(two.push().await["message"]["parts"][0]["text"], "again");
}
