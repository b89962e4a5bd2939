//! Waiting for messages: concurrency, cancellation, progress, the end.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Host, code_of, peer, text_of};
use parler_connector::{Client, Outgoing, Read};
use parler_testkit::TestHub;
use serde_json::{Value, json};
use tokio::time::Instant;

async fn pair(hub: &TestHub) -> (Host, Client, String) {
    let mut host = Host::start(&hub.url()).await;
    let (room, key) = host.open("auth").await;
    let planner = peer(&hub.url(), 2, "planner");
    planner.redeem(code_of(&key)).await.unwrap();
    (host, planner, room)
}

/// Starts a wait that has begun: its first progress note is there.
async fn wait(host: &mut Host, room: &str, token: &str) -> i64 {
    match wait_or_answer(host, room, token).await {
        Ok(id) => id,
        Err(answer) => panic!("no wait: {answer}"),
    }
}

/// The same, or the answer when something was unread at once.
async fn wait_or_answer(host: &mut Host, room: &str, token: &str) -> Result<i64, Value> {
    let id = host
        .post(
            "tools/call",
            json!({"name": "parler_recv", "arguments": {"room": room, "wait_secs": 45},
                   "_meta": {"progressToken": token}}),
        )
        .await;
    loop {
        let line = host.next().await;
        if line["params"]["progressToken"] == token {
            assert_eq!(line["method"], "notifications/progress");
            assert_eq!(line["params"]["total"], 45.0);
            return Ok(id);
        }
        if line["id"] == id {
            return Err(line);
        }
    }
}

/// Messages by others that the hub counts as unread, as another process of the agent sees it.
async fn unread(again: &Client, room: &str) -> usize {
    let pulled = again.pull(room, Read::Unread { limit: 50 }).await.unwrap();
    let others = |m: &&parler_protocol::StoredMessage| m.from.id != again.id().as_str();
    pulled.messages.iter().filter(others).count()
}

/// Another process of the server's agent.
fn again(hub: &TestHub) -> Client {
    peer(&hub.url(), common::WEBDEV, "webdev")
}

/// Until the hub knows that what was shown was read.
async fn read_on_hub(hub: &TestHub, room: &str) {
    let (again, until) = (again(hub), Instant::now() + common::SOON);
    while unread(&again, room).await > 0 {
        assert!(Instant::now() < until, "the cursor moves");
    }
}

#[tokio::test]
async fn a_wait_ends_with_the_message_that_it_waited_for_and_others_are_answered_meanwhile() {
    let hub = TestHub::start().await;
    let (mut host, planner, room) = pair(&hub).await;
    let id = wait(&mut host, &room, "w").await;
    let rooms = host.ok("parler_rooms", json!({})).await;
    assert!(rooms.contains("#auth"), "{rooms}");
    assert_eq!(host.ask("ping", json!({})).await["result"], json!({}));
    let sent = Instant::now();
    planner
        .send(Outgoing::text(&room, "there you are"))
        .await
        .unwrap();
    let (text, failed) = text_of(&host.answer(id).await);
    assert!(!failed && text.contains("there you are"), "{text}");
    println!("from send to answer: {:?}", sent.elapsed());
    read_on_hub(&hub, &room).await;
}

#[tokio::test]
async fn a_cancelled_wait_gets_no_answer_and_consumes_nothing() {
    let hub = TestHub::start().await;
    let (mut host, planner, room) = pair(&hub).await;
    let id = wait(&mut host, &room, "w").await;
    host.cancel(id).await;
    host.ask("ping", json!({})).await;
    planner.send(Outgoing::text(&room, "kept")).await.unwrap();
    assert!(
        host.answer_within(id, Duration::from_millis(200))
            .await
            .is_none()
    );
    assert_eq!(unread(&again(&hub), &room).await, 1);
    let text = host.ok("parler_recv", json!({})).await;
    assert!(text.contains("kept"), "{text}");
    // Cancelling what is over, and what never was, changes nothing.
    host.cancel(id).await;
    host.cancel(4711).await;
    assert!(host.ask("ping", json!({})).await["result"].is_object());
}

/// Messages and cancellations at the same moment, many times: what was not shown is unread, what
/// was shown is shown once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_that_races_a_message_neither_loses_nor_repeats_it() {
    let hub = TestHub::start().await;
    let (mut host, planner, room) = pair(&hub).await;
    let mut shown: Vec<String> = Vec::new();
    let keep = |answer: &Value, shown: &mut Vec<String>| {
        let (text, _) = text_of(answer);
        shown.extend(
            (0..40)
                .filter(|n| text.contains(&format!("word-{n};")))
                .map(|n| n.to_string()),
        );
    };
    for n in 0..40 {
        let id = loop {
            match wait_or_answer(&mut host, &room, &format!("w{n}")).await {
                Ok(id) => break id,
                // What a cancelled wait did not show.
                Err(answer) => keep(&answer, &mut shown),
            }
        };
        let word = Outgoing::text(&room, format!("word-{n};"));
        let (sent, ()) = tokio::join!(planner.send(word), async {
            tokio::time::sleep(Duration::from_micros(300 * (n % 8))).await;
            host.cancel(id).await;
        });
        sent.unwrap();
        // The ping is answered behind whatever the server had to say.
        host.ask("ping", json!({})).await;
        if let Some(answer) = host.answer_within(id, Duration::from_millis(30)).await {
            keep(&answer, &mut shown);
        }
    }
    let id = host.begin("parler_recv", json!({"limit": 100})).await;
    keep(&host.answer(id).await, &mut shown);
    let all: Vec<_> = (0..40).map(|n| n.to_string()).collect();
    assert_eq!(shown, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_waits_at_once_never_show_the_same_message() {
    let hub = TestHub::start().await;
    let (mut host, planner, room) = pair(&hub).await;
    let mut shown = Vec::new();
    for n in 0..20 {
        let first = wait(&mut host, &room, &format!("a{n}")).await;
        let second = wait(&mut host, &room, &format!("b{n}")).await;
        for half in 0..2 {
            let word = format!("word-{};", 2 * n + half);
            planner.send(Outgoing::text(&room, word)).await.unwrap();
        }
        // One of them may show both; then the other one waits on.
        let mut open = vec![first, second];
        while shown.len() < 2 * n + 2 {
            let line = host.next().await;
            let Some(id) = line["id"].as_i64() else {
                continue;
            };
            open.retain(|other| *other != id);
            let (text, _) = text_of(&line);
            shown.extend((0..40).filter(|n| text.contains(&format!("word-{n};"))));
        }
        for id in open {
            host.cancel(id).await;
        }
    }
    assert_eq!(shown, (0..40).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_any_length_returns_within_the_time_of_a_call() {
    // No hub: with a clock that jumps, a wait that outlives an outage still has to end.
    let mut host = Host::start("parler://127.0.0.1:1").await;
    let begun = Instant::now();
    let id = host
        .begin("parler_recv", json!({"room": "x", "wait_secs": 100_000}))
        .await;
    let answer = host.answer_within(id, Duration::from_secs(60)).await;
    text_of(&answer.expect("an answer"));
    assert!(
        begun.elapsed() <= Duration::from_secs(50),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_wait_that_stays_empty_says_so_and_is_no_error() {
    let hub = TestHub::start().await;
    let (mut host, _planner, _room) = pair(&hub).await;
    let begun = Instant::now();
    let text = host.ok("parler_recv", json!({"wait_secs": 1})).await;
    assert_eq!(text, "(no new messages in 'auth')");
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn the_end_of_input_ends_a_wait_and_the_server_within_two_seconds() {
    let hub = TestHub::start().await;
    let (mut host, planner, room) = pair(&hub).await;
    planner.send(Outgoing::text(&room, "shown")).await.unwrap();
    host.ok("parler_recv", json!({})).await;
    wait(&mut host, &room, "w").await;
    let took = host.close().await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(unread(&again(&hub), &room).await, 0);
}

#[tokio::test]
async fn the_end_of_input_ends_a_wait_also_when_the_hub_went_away() {
    let hub = TestHub::start().await;
    let (mut host, _planner, room) = pair(&hub).await;
    wait(&mut host, &room, "w").await;
    hub.stop().await;
    let took = host.close().await;
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn a_wait_outlives_a_restart_of_the_hub() {
    let hub = TestHub::start().await;
    let (mut host, planner, room) = pair(&hub).await;
    let id = wait(&mut host, &room, "w").await;
    let hub = hub.restart().await;
    planner.send(Outgoing::text(&room, "after")).await.unwrap();
    let (text, failed) = text_of(
        &host
            .answer_within(id, Duration::from_secs(30))
            .await
            .unwrap(),
    );
    assert!(!failed && text.contains("after"), "{text}");
    drop(hub);
}
