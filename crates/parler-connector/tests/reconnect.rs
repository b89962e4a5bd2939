//! Connections that end: what comes back by itself, what is repeated, and what is final.
#![allow(clippy::unwrap_used)] // in a test's own functions too

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Conn, FakeHub, NONCE, PATIENCE, delivery, error, keys, usual};
use parler_connector::{Client, ClientError, ClientOptions, Endpoint, Outgoing, Timeouts};
use parler_protocol::{Invite, RoomKind};
use serde_json::json;
use tokio::time::timeout;

fn options(url: &str) -> ClientOptions {
    let mut options = ClientOptions::new(Endpoint::new(url), keys(1), "planner");
    options.timeouts = Timeouts {
        connect: Duration::from_millis(1000),
        request: Duration::from_millis(3000),
    };
    options
}

async fn client_of(hub: &FakeHub) -> Client {
    Client::connect(options(&hub.url())).await.unwrap()
}

fn invite() -> Invite {
    Invite {
        kind: RoomKind::Channel,
        room: None,
        ttl_secs: None,
        max_uses: None,
        require_approval: false,
    }
}

/// Answers as usual, but drops the connection at the first frame of an op.
async fn hub_that_drops_at(op: &'static str) -> FakeHub {
    let dropped = Arc::new(AtomicBool::new(false));
    FakeHub::start(move |mut conn: Conn| {
        let dropped = dropped.clone();
        async move {
            conn.login().await;
            while let Some(frame) = conn.hear().await {
                if frame["op"] == op && !dropped.swap(true, Ordering::SeqCst) {
                    return;
                }
                conn.say(usual(&frame)).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_send_whose_connection_ends_is_repeated_with_the_same_key() {
    let hub = hub_that_drops_at("send").await;
    let client = client_of(&hub).await;
    client.send(Outgoing::text("r", "hi")).await.unwrap();
    let sends = hub.of("send");
    assert_eq!(sends.len(), 2);
    assert_eq!(sends[0], sends[1]);
    assert!(sends[0]["clientId"].as_str().unwrap().len() == 36);
    client.send(Outgoing::text("r", "hi")).await.unwrap();
    assert_ne!(hub.of("send")[2]["clientId"], sends[0]["clientId"]);
    assert_eq!(hub.connections(), 2);
}

#[tokio::test]
async fn a_silent_hub_is_left_and_the_send_repeated_with_the_same_key() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        if conn.n == 0 {
            return conn.hold().await;
        }
        while let Some(frame) = conn.hear().await {
            conn.say(usual(&frame)).await;
        }
    })
    .await;
    let client = client_of(&hub).await;
    client.send(Outgoing::text("r", "hi")).await.unwrap();
    let sends = hub.of("send");
    assert_eq!((sends.len(), hub.connections()), (2, 2));
    assert_eq!(sends[0]["clientId"], sends[1]["clientId"]);
}

#[tokio::test]
async fn what_cannot_be_done_twice_is_not_repeated() {
    let hub = hub_that_drops_at("invite").await;
    let client = client_of(&hub).await;
    let failed = client.invite(invite()).await.unwrap_err();
    assert!(
        matches!(&failed, ClientError::Lost { what: "invite", .. }),
        "{failed:?}"
    );
    assert_eq!(hub.of("invite").len(), 1);
    client.invite(invite()).await.unwrap();
}

#[tokio::test]
async fn what_was_not_sent_yet_is_sent_on_the_next_connection() {
    let hub = hub_that_drops_at("ping").await;
    let client = client_of(&hub).await;
    // Ends the first connection, and is repeated on the second.
    client.ping().await.unwrap();
    client.invite(invite()).await.unwrap();
    assert_eq!(hub.of("invite").len(), 1);
}

#[tokio::test]
async fn a_call_outlives_a_hub_restart() {
    let hub = FakeHub::answering(|_, frame| vec![usual(frame)]).await;
    let client = client_of(&hub).await;
    client.ping().await.unwrap();
    let place = hub.stop().await;
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.send(Outgoing::text("r", "hi")).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let hub = FakeHub::start_at(place, |mut conn: Conn| async move {
        conn.login().await;
        while let Some(frame) = conn.hear().await {
            conn.say(usual(&frame)).await;
        }
    })
    .await;
    call.await.unwrap().unwrap();
    assert_eq!(hub.of("send").len(), 1);
}

#[tokio::test]
async fn a_hub_that_stays_away_is_an_error_within_the_time_of_a_call() {
    let hub = FakeHub::answering(|_, frame| vec![usual(frame)]).await;
    let mut options = options(&hub.url());
    options.timeouts.request = Duration::from_millis(800);
    let client = Client::connect(options).await.unwrap();
    let place = hub.stop().await;
    let started = Instant::now();
    let failed = client.send(Outgoing::text("r", "hi")).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_millis(1200));
    assert!(
        matches!(&failed, ClientError::Unreachable { .. }),
        "{failed:?}"
    );
    assert!(failed.retryable());

    // As soon as the hub is back, so is the client.
    let hub = FakeHub::start_at(place, |mut conn: Conn| async move {
        conn.login().await;
        while let Some(frame) = conn.hear().await {
            conn.say(usual(&frame)).await;
        }
    })
    .await;
    client.send(Outgoing::text("r", "hi")).await.unwrap();
    assert_eq!(hub.of("send").len(), 1);
}

#[tokio::test]
async fn a_subscriber_comes_back_by_itself_with_its_subscription_and_presence() {
    for code in [1001, 1012, 1013, 1006] {
        let hub = FakeHub::start(move |mut conn: Conn| async move {
            conn.login().await;
            loop {
                let Some(frame) = conn.hear().await else {
                    return;
                };
                conn.say(usual(&frame)).await;
                if frame["op"] != "subscribe" {
                    continue;
                }
                if conn.n == 0 {
                    // 1006 cannot be sent: the stream just ends.
                    if code != 1006 {
                        conn.close(code, "restart").await;
                    }
                    return;
                }
                conn.say(delivery(9)).await;
            }
        })
        .await;
        let client = client_of(&hub).await;
        client.presence("working", None, None).await.unwrap();
        assert!(client.subscribe().await.unwrap());
        let push = timeout(PATIENCE, client.next_push()).await;
        assert_eq!(push.expect("pushes come again").seq, 9, "{code}");
        let ops: Vec<_> = hub
            .frames()
            .into_iter()
            .filter(|(n, frame)| *n == 1 && frame["op"] != "hello")
            .map(|(_, frame)| frame["op"].clone())
            .collect();
        assert_eq!(ops, [json!("presence"), json!("subscribe")], "{code}");
    }
}

#[tokio::test]
async fn a_client_that_is_not_subscribed_comes_back_only_when_it_is_used() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        if conn.n > 0 {
            while let Some(frame) = conn.hear().await {
                conn.say(usual(&frame)).await;
            }
        }
    })
    .await;
    let client = client_of(&hub).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(hub.connections(), 1);
    client.ping().await.unwrap();
    assert_eq!(hub.connections(), 2);
}

#[tokio::test]
async fn a_violation_is_final_until_somebody_calls_again() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        while let Some(frame) = conn.hear().await {
            if frame["op"] == "rooms" {
                conn.close(1008, "too many strikes").await;
                return conn.hold().await;
            }
            conn.say(usual(&frame)).await;
        }
    })
    .await;
    let client = client_of(&hub).await;
    client.subscribe().await.unwrap();
    let failed = client.rooms().await.unwrap_err();
    assert!(
        matches!(&failed, ClientError::Expelled { reason, .. } if reason == "too many strikes"),
        "{failed:?}"
    );
    assert!(!failed.retryable());
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!((hub.connections(), hub.of("rooms").len()), (1, 1));
    client.ping().await.unwrap();
    assert_eq!(hub.of("subscribe").len(), 2, "and is then subscribed again");
}

#[tokio::test]
async fn a_login_that_is_refused_after_an_outage_is_final() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        if conn.n == 0 {
            conn.login().await;
            let subscribe = conn.hear().await.unwrap();
            conn.say(usual(&subscribe)).await;
            return;
        }
        conn.hear().await;
        conn.say(json!({"type":"challenge","nonce":NONCE})).await;
        conn.hear().await;
        conn.say(error(Some("not_authorized"), "wrong join secret"))
            .await;
        conn.hold().await;
    })
    .await;
    let client = client_of(&hub).await;
    client.subscribe().await.unwrap();
    hub.until("the second login", |hub| hub.of("hello").len() == 4)
        .await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(hub.connections(), 2, "it is not tried again by itself");
    let failed = client.ping().await.unwrap_err();
    assert!(failed.to_string().contains("join secret"));
    assert_eq!(hub.connections(), 3, "a call tries once");
}

#[tokio::test]
async fn a_hub_that_falls_over_is_not_hammered() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        let subscribe = conn.hear().await.unwrap_or_default();
        conn.say(json!({"type":"subscribed","for":subscribe["op"]}))
            .await;
    })
    .await;
    let client = client_of(&hub).await;
    let _ = client.subscribe().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The ceilings of the pauses sum up to 2 s after four failures; with every pause at a third
    // of its ceiling it would be six.
    assert!(hub.connections() <= 10, "{}", hub.connections());
}

#[tokio::test]
async fn a_refused_subscription_is_told_and_not_tried_again() {
    let hub = FakeHub::answering(|_, frame| match frame["op"].as_str() {
        Some("subscribe") => vec![error(Some("bad_frame"), "malformed frame")],
        _ => vec![usual(frame)],
    })
    .await;
    let client = client_of(&hub).await;
    assert!(!client.subscribe().await.unwrap());
    client.ping().await.unwrap();
    assert_eq!(hub.of("subscribe").len(), 1);
}

#[tokio::test]
async fn a_subscription_that_is_refused_for_a_moment_after_a_reconnect_comes_back() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        let subscribe = conn.hear().await.unwrap_or(json!({"op":"ping"}));
        match conn.n {
            0 => conn.say(usual(&subscribe)).await,
            1 => {
                conn.say(error(Some("rate_limited"), "slow down")).await;
                conn.hold().await;
            }
            _ => {
                conn.say(usual(&subscribe)).await;
                conn.say(delivery(3)).await;
                conn.hold().await;
            }
        }
    })
    .await;
    let client = client_of(&hub).await;
    client.subscribe().await.unwrap();
    let push = timeout(PATIENCE, client.next_push()).await;
    assert_eq!(push.expect("pushes come again").seq, 3);
}

#[tokio::test]
async fn the_last_handle_ends_the_connection_even_in_the_middle_of_a_call() {
    let gone = Arc::new(tokio::sync::Notify::new());
    let told = gone.clone();
    let hub = FakeHub::start(move |mut conn: Conn| {
        let told = told.clone();
        async move {
            conn.login().await;
            conn.hold().await;
            told.notify_one();
        }
    })
    .await;
    let client = client_of(&hub).await;
    let other = client.clone();
    drop(client);
    let call = tokio::spawn(async move { other.rooms().await });
    hub.until("the request", |hub| !hub.of("rooms").is_empty())
        .await;
    call.abort();
    timeout(PATIENCE, gone.notified())
        .await
        .expect("the connection ends");
}

#[tokio::test]
async fn a_closed_client_says_goodbye_and_does_nothing_more() {
    let hub = FakeHub::answering(|_, frame| vec![usual(frame)]).await;
    let client = client_of(&hub).await;
    let other = client.clone();
    client.close().await;
    assert_eq!(other.ping().await, Err(ClientError::Stopped));
    assert_eq!(hub.connections(), 1);
}
