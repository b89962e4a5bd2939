//! Ringing for the model's attention, and what it sees when it comes.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Bell, Host, code_of, options, peer};
use parler_connector::config::{AttentionSettings, Config, RoomAttention};
use parler_connector::{Client, Outgoing};
use parler_protocol::{HandoffRef, Part};
use parler_testkit::{RawSocket, TestHub, keys};
use serde_json::json;
use tokio::time::Instant;

/// How long nobody must say how the agent is, where nobody may: twice what it takes otherwise.
const QUIET: Duration = Duration::from_millis(300);

struct Stage {
    host: Host,
    bell: Arc<Bell>,
    room: String,
    key: String,
}

/// A server with a bell and an open session.
async fn stage(hub: &TestHub) -> Stage {
    let bell = Bell::new();
    let rung = Arc::clone(&bell);
    let mut host = Host::with(&hub.url(), |options| options.doorbells = vec![rung]).await;
    let (room, key) = host.open("auth").await;
    Stage {
        host,
        bell,
        room,
        key,
    }
}

async fn member(hub: &TestHub, stage: &Stage, n: u8, name: &str) -> Client {
    let client = peer(&hub.url(), n, name);
    client.redeem(code_of(&stage.key)).await.unwrap();
    client
}

fn turn(to: Option<&str>, next: &str) -> HandoffRef {
    HandoffRef {
        next: next.into(),
        summary: None,
        to: to.map(Into::into),
        bundle: None,
    }
}

/// Rings once more, and sees that nothing else rang before: things ring in the order of the log,
/// one at a time. Only after what rang before was confirmed.
async fn nothing_rang_before(bell: &Bell, planner: &Client, room: &str) {
    let so_far = bell.texts().len();
    planner
        .send(Outgoing::handoff(room, &turn(Some("webdev"), "the fence")))
        .await
        .unwrap();
    let text = bell.rung(so_far + 1).await;
    assert!(text.contains("the fence"), "{text}");
}

#[tokio::test]
async fn a_handoff_rings_an_idle_host_and_reading_it_confirms() {
    let hub = TestHub::start().await;
    let mut stage = stage(&hub).await;
    let planner = member(&hub, &stage, 2, "planner").await;
    member(&hub, &stage, 3, "third").await;
    let sent = Instant::now();
    let message = planner
        .send(Outgoing::handoff(
            &stage.room,
            &turn(Some("frontend"), "ship it"),
        ))
        .await
        .unwrap();
    let text = stage.bell.rung(1).await;
    println!("from send to ring: {:?}", sent.elapsed());
    assert!(text.starts_with("🤝 HANDOFF TO YOU"), "{text}");
    assert!(
        text.contains("ship it") && text.contains(&message.id),
        "{text}"
    );
    assert!(
        text.lines()
            .last()
            .unwrap()
            .contains("parler_recv {\"room\": \"auth\"}"),
        "{text}"
    );
    let read = stage.host.ok("parler_recv", json!({})).await;
    assert!(read.starts_with("🤝 HANDOFF TO YOU"), "{read}");
    nothing_rang_before(&stage.bell, &planner, &stage.room).await;
}

#[tokio::test]
async fn every_answer_has_a_line_until_the_thing_was_read() {
    let hub = TestHub::start().await;
    let mut stage = stage(&hub).await;
    let planner = member(&hub, &stage, 2, "planner").await;
    planner
        .send(Outgoing::handoff(
            &stage.room,
            &turn(Some("webdev"), "ship it"),
        ))
        .await
        .unwrap();
    stage.bell.rung(1).await;
    for tool in ["parler_rooms", "parler_roster"] {
        let text = stage.host.ok(tool, json!({})).await;
        assert!(
            text.ends_with("Unread: 1 turn for you. Call parler_recv."),
            "{text}"
        );
    }
    let text = stage
        .host
        .fails("parler_handoff", json!({"for": "x", "next": "y"}))
        .await;
    assert!(
        text.ends_with("Unread: 1 turn for you. Call parler_recv."),
        "{text}"
    );
    stage.host.ok("parler_recv", json!({})).await;
    let text = stage.host.ok("parler_rooms", json!({})).await;
    assert!(!text.contains("Unread"), "{text}");
}

#[tokio::test]
async fn what_a_wait_brings_is_not_rung_for() {
    let hub = TestHub::start().await;
    let mut stage = stage(&hub).await;
    let planner = member(&hub, &stage, 2, "planner").await;
    let id = stage
        .host
        .post(
            "tools/call",
            json!({"name": "parler_recv", "arguments": {"wait_secs": 45},
                   "_meta": {"progressToken": 1}}),
        )
        .await;
    assert_eq!(stage.host.next().await["method"], "notifications/progress");
    planner
        .send(Outgoing::handoff(
            &stage.room,
            &turn(Some("webdev"), "ship it"),
        ))
        .await
        .unwrap();
    let (text, _) = common::text_of(&stage.host.answer(id).await);
    assert!(text.starts_with("🤝 HANDOFF TO YOU"), "{text}");
    nothing_rang_before(&stage.bell, &planner, &stage.room).await;
}

#[tokio::test]
async fn a_message_in_a_pair_rings_and_in_a_larger_room_only_what_is_directed() {
    let hub = TestHub::start().await;
    let mut stage = stage(&hub).await;
    let planner = member(&hub, &stage, 2, "planner").await;
    planner
        .send(Outgoing::text(&stage.room, "just us"))
        .await
        .unwrap();
    let text = stage.bell.rung(1).await;
    assert!(text.starts_with("✉ NEW MESSAGE in room 'auth'"), "{text}");
    stage.host.ok("parler_recv", json!({})).await;

    let third = member(&hub, &stage, 3, "third").await;
    third
        .send(Outgoing::text(&stage.room, "hello all"))
        .await
        .unwrap();
    let mut mention = Outgoing::text(&stage.room, "you, please");
    mention.mentions = Some(vec!["WebDev".into()]);
    third.send(mention).await.unwrap();
    let text = stage.bell.rung(2).await;
    assert!(text.starts_with("✉ MESSAGE FOR YOU"), "{text}");
    assert!(text.contains("1 unread message beside it."), "{text}");
}

#[tokio::test]
async fn arrivals_unsigned_words_and_other_peoples_turns_ring_nobody() {
    let hub = TestHub::start().await;
    let stage = stage(&hub).await;
    let planner = member(&hub, &stage, 2, "planner").await;
    planner
        .send(Outgoing::text(&stage.room, "planner joined the session"))
        .await
        .unwrap();
    let mut raw = RawSocket::login(hub.addr(), &keys(2), "planner", None).await;
    raw.say(&stage.room, "obey").await;
    let third = member(&hub, &stage, 3, "third").await;
    third
        .send(Outgoing::handoff(
            &stage.room,
            &turn(Some("planner"), "not webdev"),
        ))
        .await
        .unwrap();
    nothing_rang_before(&stage.bell, &planner, &stage.room).await;
}

#[tokio::test]
async fn what_was_missed_while_the_hub_was_away_rings_when_it_is_back() {
    let hub = TestHub::start().await;
    let stage = stage(&hub).await;
    let planner = member(&hub, &stage, 2, "planner").await;
    let hub = hub.restart().await;
    planner
        .send(Outgoing::handoff(
            &stage.room,
            &turn(Some("webdev"), "late"),
        ))
        .await
        .unwrap();
    let text = stage.bell.rung_within(1, Duration::from_secs(30)).await;
    assert!(text.contains("late"), "{text}");
    drop(hub);
}

#[tokio::test]
async fn a_hub_that_pushes_nothing_is_asked_now_and_then() {
    let hub = TestHub::start().await;
    let quiet = common::quiet_hub::QuietHub::before(hub.addr()).await;
    let bell = Bell::new();
    let rung = Arc::clone(&bell);
    let mut host = Host::with(&quiet.url(), |options| options.doorbells = vec![rung]).await;
    let (room, key) = host.open("auth").await;
    let planner = peer(&hub.url(), 2, "planner");
    planner.redeem(code_of(&key)).await.unwrap();
    planner
        .send(Outgoing::handoff(&room, &turn(Some("webdev"), "unpushed")))
        .await
        .unwrap();
    assert!(bell.rung(1).await.contains("unpushed"));
    host.ok("parler_recv", json!({})).await;
    let id = host.begin("parler_recv", json!({"wait_secs": 45})).await;
    host.ask("ping", json!({})).await;
    planner
        .send(Outgoing::text(&room, "waited for"))
        .await
        .unwrap();
    let (text, _) = common::text_of(&host.answer(id).await);
    assert!(text.contains("waited for"), "{text}");
}

#[tokio::test]
async fn a_thing_rings_once_also_after_a_restart_of_the_server() {
    let hub = TestHub::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut raw = RawSocket::login(hub.addr(), &keys(2), "planner", None).await;
    let code = raw.open_channel("auth").await;
    let planner = peer(&hub.url(), 2, "planner");
    let start = |bell: &Arc<Bell>| {
        let mut options = options(&hub.url(), folder.path());
        options.session_key = Some(code.clone());
        options.session_id = Some("the same session".into());
        options.doorbells = vec![Arc::clone(bell) as _];
        Host::serve(options)
    };
    let first = Bell::new();
    let mut host = start(&first);
    host.introduce().await;
    host.ok("parler_roster", json!({"room": "auth"})).await;
    planner
        .send(Outgoing::handoff("auth", &turn(Some("webdev"), "once")))
        .await
        .unwrap();
    first.rung(1).await;
    host.ok("parler_rooms", json!({})).await; // the model is awake, and has not read it
    host.close().await;
    let second = Bell::new();
    planner
        .send(Outgoing::handoff("auth", &turn(Some("webdev"), "another")))
        .await
        .unwrap();
    // Both are unread at the start, the older one first.
    let mut host = start(&second);
    host.introduce().await;
    assert!(second.rung(1).await.contains("another"));
}

#[tokio::test]
async fn an_old_message_offered_again_neither_rings_nor_leads_as_a_turn() {
    let hub = TestHub::start().await;
    let mut stage = stage(&hub).await;
    let planner = member(&hub, &stage, 2, "planner").await;
    planner
        .send(Outgoing::handoff(
            &stage.room,
            &turn(Some("webdev"), "pay 5"),
        ))
        .await
        .unwrap();
    stage.bell.rung(1).await;
    stage.host.ok("parler_recv", json!({})).await;
    // The same signed parts once more, as a hub or a copied key could do it.
    let mut raw = RawSocket::login(hub.addr(), &keys(2), "planner", None).await;
    let pulled = raw.pull(&stage.room, json!({"since": 0})).await;
    let old = pulled["messages"]
        .as_array()
        .unwrap()
        .iter()
        .find(|message| message["parts"][0]["next"] == "pay 5")
        .unwrap();
    let sent = raw
        .ask(
            json!({"op": "send", "target": {"kind": "room", "room": stage.room},
                    "parts": old["parts"]}),
        )
        .await;
    assert_eq!(sent["type"], "sent", "{sent}");
    nothing_rang_before(&stage.bell, &planner, &stage.room).await;
    let text = stage.host.ok("parler_recv", json!({})).await;
    let (good, doubtful) = text.split_once("⚠ unverified handoff").unwrap();
    assert!(
        good.starts_with("🤝 HANDOFF TO YOU") && good.contains("the fence"),
        "{text}"
    );
    assert!(
        !good.contains("pay 5") && doubtful.contains("offered again"),
        "{text}"
    );
}

#[tokio::test]
async fn a_muted_room_rings_nobody() {
    let hub = TestHub::start().await;
    let folder = tempfile::tempdir().unwrap();
    let bell = Bell::new();
    let mut options = options(&hub.url(), folder.path());
    let (mut config, _) = Config::load_or_mint(&options.home, Some("webdev"), None).unwrap();
    let mut attention = AttentionSettings::default();
    attention.set_room("auth", Some(RoomAttention::Muted));
    config.attention = attention;
    config.save(&options.home).unwrap();
    options.doorbells = vec![Arc::clone(&bell) as _];
    let mut host = Host::serve(options);
    host.introduce().await;
    let planner = peer(&hub.url(), 2, "planner");
    for topic in ["auth", "calm"] {
        let (_, key) = host.open(topic).await;
        planner.redeem(code_of(&key)).await.unwrap();
    }
    planner
        .send(Outgoing::handoff("auth", &turn(Some("webdev"), "x")))
        .await
        .unwrap();
    nothing_rang_before(&bell, &planner, "calm").await;
    assert!(!host.ok("parler_rooms", json!({})).await.contains("2 turns"));
}

#[tokio::test]
async fn a_name_that_a_call_brings_is_kept_in_the_config() {
    let hub = TestHub::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = options(&hub.url(), folder.path());
    let home = options.home.clone();
    Config::load_or_mint(&home, Some("old"), None).unwrap();
    let mut host = Host::serve(options);
    host.introduce().await;
    host.ok(
        "parler_open_session",
        json!({"topic": "auth", "name": "tester", "role": "qa"}),
    )
    .await;
    let config = Config::load(&home).unwrap().unwrap();
    assert_eq!(
        (config.name.as_str(), config.role.as_deref()),
        ("tester", Some("qa"))
    );
    let roster = host.ok("parler_roster", json!({})).await;
    assert!(roster.contains("tester (qa) ·"), "{roster}");
}

#[tokio::test]
async fn the_hub_learns_how_the_agent_is() {
    let hub = TestHub::start().await;
    let mut stage = stage(&hub).await;
    let planner = member(&hub, &stage, 2, "planner").await;
    let becomes = async |status: &str| {
        let until = Instant::now() + common::SOON;
        loop {
            let roster = planner.roster("auth").await.unwrap();
            let webdev = roster
                .iter()
                .find(|member| member.name == "webdev")
                .unwrap();
            if webdev.status == status {
                return;
            }
            assert!(Instant::now() < until, "{status}, not {}", webdev.status);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    becomes("working").await;
    let id = stage
        .host
        .begin("parler_recv", json!({"wait_secs": 45}))
        .await;
    becomes("waiting").await;
    stage.host.cancel(id).await;
    becomes("working").await;
    stage.host.ok("parler_close_session", json!({})).await;
    becomes("idle").await;
}

#[tokio::test]
async fn a_managed_presence_is_left_alone() {
    let hub = TestHub::start().await;
    let mut host = Host::with(&hub.url(), |options| options.presence_managed = true).await;
    let (_, key) = host.open("auth").await;
    let planner = peer(&hub.url(), 2, "planner");
    planner.redeem(code_of(&key)).await.unwrap();
    tokio::time::sleep(QUIET).await;
    let roster = planner.roster("auth").await.unwrap();
    let webdev = roster
        .iter()
        .find(|member| member.name == "webdev")
        .unwrap();
    assert_eq!(webdev.status, "idle");
}

#[tokio::test]
async fn two_sessions_of_one_agent_do_not_both_read() {
    let hub = TestHub::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut raw = RawSocket::login(hub.addr(), &keys(2), "planner", None).await;
    let code = raw.open_channel("auth").await;
    let planner = peer(&hub.url(), 2, "planner");
    let mut hosts = Vec::new();
    for session in ["s1", "s2"] {
        let mut options = options(&hub.url(), folder.path());
        options.session_id = Some(session.into());
        let mut host = Host::serve(options);
        host.introduce().await;
        host.ok("parler_join_session", json!({"key": code})).await;
        hosts.push(host);
    }
    planner
        .send(Outgoing::text("auth", "for one"))
        .await
        .unwrap();
    let text = hosts[1].ok("parler_recv", json!({})).await;
    assert!(
        text.contains("for one") && text.contains("Only shown: "),
        "{text}"
    );
    assert!(text.contains("s1"), "{text}");
    let text = hosts[0].ok("parler_recv", json!({})).await;
    assert!(
        text.contains("for one") && !text.contains("Only shown"),
        "{text}"
    );
    let parts = vec![Part::text("bye")];
    planner
        .send(Outgoing::to_room("auth", parts))
        .await
        .unwrap();
    hosts.remove(0).close().await;
    let text = hosts[0].ok("parler_recv", json!({})).await;
    assert!(
        text.contains("bye") && !text.contains("Only shown"),
        "{text}"
    );
}
