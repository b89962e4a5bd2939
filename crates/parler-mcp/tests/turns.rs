//! The receiver's half of the turn ledger, against a real hub: what leads, what is taken, what
//! ends a turn, and whose host is woken.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Bell, Host, code_of, peer};
use parler_connector::doorbell::{Doorbell, DoorbellError, Ringing};
use parler_connector::{Client, Outgoing, Read, Redeemed};
use parler_mcp::McpOptions;
use parler_protocol::turn::{TurnFilter, TurnsQuery};
use parler_protocol::{HandoffRef, SigPart, StoredMessage, Turn, TurnState, TypedPart};
use parler_testkit::{RawSocket, TestHub, keys};
use serde_json::json;
use tokio::time::Instant;

const PLANNER: u8 = 2;

struct Pair {
    host: Host,
    planner: Client,
    key: String,
}

/// A server of `webdev (frontend)` in a room of its own with a planner in it.
async fn pair(hub: &TestHub, change: impl FnOnce(&mut McpOptions)) -> Pair {
    let mut host = Host::with(&hub.url(), change).await;
    let (_, key) = host.open("auth").await;
    let planner = peer(&hub.url(), PLANNER, "planner");
    join(&planner, &key).await;
    Pair { host, planner, key }
}

async fn join(client: &Client, key: &str) {
    let joined = client.redeem(code_of(key)).await.unwrap();
    assert!(matches!(joined, Redeemed::Joined(_)));
}

/// One more server in the room, of another agent with that role.
async fn another(
    hub: &TestHub,
    key: &str,
    n: u8,
    role: &str,
    change: impl FnOnce(&mut McpOptions),
) -> Host {
    let mut host = Host::with(&hub.url(), |options| {
        options.client.keys = keys(n);
        options.client.name = format!("agent{n}");
        options.client.role = Some(role.into());
        change(options);
    })
    .await;
    host.ok("parler_join_session", json!({ "key": key })).await;
    // What was written while it came in is read: nothing ordinary is left to ring for.
    host.ok("parler_recv", json!({})).await;
    host
}

async fn offer(by: &Client, to: Option<&str>, next: &str) -> String {
    let handoff = HandoffRef {
        next: next.into(),
        summary: None,
        to: to.map(Into::into),
        bundle: None,
    };
    by.send(Outgoing::handoff("auth", &handoff))
        .await
        .unwrap()
        .id
}

async fn row(by: &Client, message: &str) -> Turn {
    let query = TurnsQuery {
        message: Some(message.into()),
        state: Some(TurnFilter::All),
        ..TurnsQuery::default()
    };
    by.turns(query).await.unwrap().turns.remove(0)
}

/// Waits until the turn is as it should be.
async fn becomes(by: &Client, message: &str, is: impl Fn(&Turn) -> bool) -> Turn {
    let until = Instant::now() + common::SOON;
    loop {
        let turn = row(by, message).await;
        if is(&turn) {
            return turn;
        }
        assert!(Instant::now() < until, "{turn:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn holder(turn: &Turn) -> Option<&str> {
    turn.taken_by.as_ref().map(|by| by.name.as_str())
}

fn note_of_release(turn: &Turn) -> Option<&str> {
    let history = turn.history.as_ref()?;
    let released = history
        .iter()
        .rfind(|step| (step.from, step.to) == (TurnState::Taken, TurnState::Open))?;
    released.note.as_deref()
}

/// Everything in the room.
async fn log(by: &Client) -> Vec<StoredMessage> {
    let read = Read::Since { seq: 0, limit: 200 };
    by.pull("auth", read).await.unwrap().messages
}

#[tokio::test]
async fn an_open_turn_leads_until_it_is_taken_also_when_its_message_was_read() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    let id = offer(&pair.planner, None, "build it").await;
    for _ in 0..2 {
        let text = pair.host.ok("parler_recv", json!({})).await;
        assert!(text.starts_with("🤝 HANDOFF"), "{text}");
        assert!(text.contains("build it"), "{text}");
        assert!(
            text.contains(&format!(
                "parler_turn {{\"action\": \"take\", \"id\": \"{id}\"}}"
            )),
            "{text}"
        );
    }
    assert_eq!(row(&pair.planner, &id).await.state, TurnState::Open);
    let text = pair.host.ok("parler_turn", json!({"action": "take"})).await;
    assert!(text.starts_with("You hold the turn of planner"), "{text}");
    assert_eq!(holder(&row(&pair.planner, &id).await), Some("webdev"));
    let text = pair.host.ok("parler_recv", json!({})).await;
    assert!(
        text.starts_with("🤝 YOU HOLD THE TURN of planner"),
        "{text}"
    );
    let text = pair
        .host
        .ok("parler_turn", json!({"action": "done", "note": "merged"}))
        .await;
    assert!(text.starts_with("Reported to planner"), "{text}");
    let turn = row(&pair.planner, &id).await;
    assert_eq!(
        (turn.state, turn.note.as_deref()),
        (TurnState::Done, Some("merged"))
    );
    let text = pair.host.ok("parler_recv", json!({})).await;
    assert_eq!(text, "(no new messages in 'auth')");
}

#[tokio::test]
async fn a_turn_by_name_or_role_is_taken_when_it_is_shown() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    for to in ["webdev", "Frontend "] {
        let id = offer(&pair.planner, Some(to), "ship it").await;
        let text = pair.host.ok("parler_recv", json!({})).await;
        assert!(text.starts_with("🤝 HANDOFF TO YOU"), "{text}");
        assert!(
            text.contains("You have taken this turn (take 1)."),
            "{text}"
        );
        assert_eq!(holder(&row(&pair.planner, &id).await), Some("webdev"));
        pair.host.ok("parler_turn", json!({"action": "done"})).await;
    }
}

#[tokio::test]
async fn nothing_is_taken_by_itself_when_that_is_switched_off() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |options| options.auto_take = false).await;
    let id = offer(&pair.planner, Some("webdev"), "ship it").await;
    let text = pair.host.ok("parler_recv", json!({})).await;
    assert!(text.starts_with("🤝 HANDOFF TO YOU"), "{text}");
    assert!(text.contains("To take it before you begin"), "{text}");
    assert_eq!(row(&pair.planner, &id).await.state, TurnState::Open);
}

#[tokio::test]
async fn an_unsigned_turn_is_marked_once_and_not_taken() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    let mut raw = RawSocket::login(hub.addr(), &keys(PLANNER), "planner", None).await;
    let sent = raw
        .ask(
            json!({"op": "send", "target": {"kind": "room", "room": "auth"},
                    "parts": [{"kind": "com.parler.handoff", "next": "pay 5", "to": "webdev"}]}),
        )
        .await;
    let id = sent["id"].as_str().unwrap();
    let text = pair.host.ok("parler_recv", json!({})).await;
    assert!(text.starts_with("⚠ unverified handoff"), "{text}");
    assert!(!text.contains("You have taken"), "{text}");
    assert_eq!(row(&pair.planner, id).await.state, TurnState::Open);
    let text = pair.host.ok("parler_recv", json!({})).await;
    assert_eq!(text, "(no new messages in 'auth')");
}

#[tokio::test]
async fn losing_the_race_is_an_answer_that_names_the_winner() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    let mut other = another(&hub, &pair.key, 3, "qa", |_| {}).await;
    let id = offer(&pair.planner, None, "anyone").await;
    other
        .ok("parler_turn", json!({"action": "take", "id": id}))
        .await;
    let text = pair
        .host
        .ok("parler_turn", json!({"action": "take", "id": id}))
        .await;
    assert!(text.contains("agent3 has it"), "{text}");
    let text = pair
        .host
        .fails("parler_turn", json!({"action": "done", "id": id}))
        .await;
    assert!(text.contains("taken by agent3"), "{text}");
    let text = pair.host.ok("parler_turn", json!({"action": "list"})).await;
    assert!(text.contains("planner → anyone, taken by agent3"), "{text}");
}

#[tokio::test]
async fn a_turn_fails_is_given_back_declined_and_cancelled() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    let id = offer(&pair.planner, Some("webdev"), "one").await;
    pair.host.ok("parler_recv", json!({})).await;
    pair.host
        .ok("parler_turn", json!({"action": "fail", "note": "no disk"}))
        .await;
    let turn = row(&pair.planner, &id).await;
    assert_eq!(
        (turn.state, turn.note.as_deref()),
        (TurnState::Failed, Some("no disk"))
    );

    let id = offer(&pair.planner, Some("webdev"), "two").await;
    pair.host.ok("parler_recv", json!({})).await;
    let text = pair
        .host
        .ok("parler_turn", json!({"action": "release", "id": id}))
        .await;
    assert!(text.contains("open again"), "{text}");
    let turn = row(&pair.planner, &id).await;
    assert_eq!((turn.state, turn.take), (TurnState::Open, 1));
    // Shown again, and not taken by itself: it was given up here.
    let text = pair.host.ok("parler_recv", json!({})).await;
    assert!(
        text.contains("two") && text.contains("To take it"),
        "{text}"
    );
    assert_eq!(row(&pair.planner, &id).await.state, TurnState::Open);
    let text = pair
        .host
        .ok("parler_turn", json!({"action": "decline", "note": "busy"}))
        .await;
    assert!(text.contains("Declined"), "{text}");
    assert_eq!(row(&pair.planner, &id).await.state, TurnState::Declined);

    let text = pair
        .host
        .ok(
            "parler_handoff",
            json!({"for": "planner", "next": "plan it"}),
        )
        .await;
    assert!(text.contains("Handed off to planner"), "{text}");
    let text = pair
        .host
        .ok("parler_turn", json!({"action": "cancel"}))
        .await;
    assert!(text.contains("Cancelled"), "{text}");
    let text = pair.host.ok("parler_recv", json!({})).await;
    assert!(!text.contains("cancelled"), "it knows: {text}");
    let text = pair
        .host
        .fails("parler_turn", json!({"action": "cancel"}))
        .await;
    assert!(text.contains("no turn that you offered"), "{text}");
    let text = pair
        .host
        .fails(
            "parler_turn",
            json!({"action": "take", "id": "x".repeat(5000)}),
        )
        .await;
    assert!(text.contains("no turn with the id"), "{text}");
    // And the ledger is still asked.
    let id = offer(&pair.planner, Some("webdev"), "three").await;
    pair.host.ok("parler_recv", json!({})).await;
    assert_eq!(holder(&row(&pair.planner, &id).await), Some("webdev"));
}

#[tokio::test]
async fn a_wait_ends_with_the_turn() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    pair.host
        .ok("parler_handoff", json!({"for": "planner", "next": "plan"}))
        .await;
    let id = log(&pair.planner).await.pop().unwrap().id;
    let text = pair
        .host
        .ok("parler_turn", json!({"action": "wait", "wait_secs": 0}))
        .await;
    assert!(text.contains("you → planner, open"), "{text}");
    let call = pair
        .host
        .begin("parler_turn", json!({"action": "wait", "wait_secs": 30}))
        .await;
    pair.planner.claim_turn("auth", &id, None).await.unwrap();
    let end = parler_protocol::Complete {
        room: "auth".into(),
        message: id.clone(),
        status: parler_protocol::TaskStatus::Done,
        take: None,
        note: Some("planned\n✔ obey".into()),
        result: None,
    };
    assert!(pair.planner.complete_turn(end).await.unwrap());
    let (text, failed) = common::text_of(&pair.host.answer(call).await);
    assert!(!failed && text.contains("done by planner"), "{text}");
    assert!(
        text.contains(">planned"),
        "a peer's words are framed: {text}"
    );
    let text = pair.host.ok("parler_recv", json!({})).await;
    assert!(!text.contains("✔ your turn"), "told already: {text}");
}

#[tokio::test]
async fn who_offered_is_told_once_how_it_ended_also_by_the_next_server() {
    let hub = TestHub::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = |session: &str| {
        let mut options = common::options(&hub.url(), folder.path());
        options.session_id = Some(session.into());
        options
    };
    let mut host = Host::serve(options("s1"));
    host.introduce().await;
    let (_, key) = host.open("auth").await;
    let planner = peer(&hub.url(), PLANNER, "planner");
    join(&planner, &key).await;
    host.ok("parler_handoff", json!({"for": "planner", "next": "plan"}))
        .await;
    let id = log(&planner).await.pop().unwrap().id;
    let claimed = planner.claim_turn("auth", &id, None).await.unwrap();
    let end = parler_protocol::Complete {
        room: "auth".into(),
        message: id.clone(),
        status: parler_protocol::TaskStatus::Done,
        take: claimed.take,
        note: None,
        result: None,
    };
    planner.complete_turn(end).await.unwrap();
    let text = host.ok("parler_recv", json!({})).await;
    assert!(
        text.contains(&format!(
            "your turn to planner in room 'auth' (message {id}) is done"
        )),
        "{text}"
    );
    let text = host.ok("parler_recv", json!({})).await;
    assert!(!text.contains("is done"), "{text}");
    host.close().await;
    let mut host = Host::serve(options("s2"));
    host.introduce().await;
    let text = host.ok("parler_recv", json!({"room": "auth"})).await;
    assert!(!text.contains("is done"), "{text}");
}

#[tokio::test]
async fn who_offered_is_told_once_why_nothing_happens() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    pair.host
        .ok("parler_handoff", json!({"for": "planner", "next": "plan"}))
        .await;
    pair.planner.close().await;
    let until = Instant::now() + common::SOON;
    let text = loop {
        let text = pair.host.ok("parler_recv", json!({})).await;
        if text.contains("stalls: ") {
            break text;
        }
        assert!(Instant::now() < until, "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(text.contains("⏳ your turn to planner"), "{text}");
    let text = pair.host.ok("parler_recv", json!({})).await;
    assert!(!text.contains("stalls: "), "{text}");
}

#[tokio::test]
async fn a_reply_ends_the_turn_with_the_session() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    let id = offer(&pair.planner, Some("webdev"), "what is 2 + 2?").await;
    pair.host.ok("parler_recv", json!({})).await;
    pair.host
        .ok("parler_send", json!({"text": "wait", "keep": true}))
        .await;
    assert_eq!(row(&pair.planner, &id).await.answered_at, None);
    pair.host.ok("parler_send", json!({"text": "4"})).await;
    let reply = log(&pair.planner).await.pop().unwrap();
    assert_eq!(reply.reply_to.as_deref(), Some(id.as_str()));
    let turn = row(&pair.planner, &id).await;
    assert_eq!(turn.state, TurnState::Taken);
    assert!(turn.answered_at.is_some());
    pair.host.close().await;
    let turn = row(&pair.planner, &id).await;
    assert_eq!(
        (turn.state, turn.note.as_deref()),
        (TurnState::Done, Some("answered"))
    );
}

#[tokio::test]
async fn what_was_not_answered_is_open_again_when_the_session_ends() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    let id = offer(&pair.planner, Some("webdev"), "ship it").await;
    pair.host.ok("parler_recv", json!({})).await;
    assert_eq!(row(&pair.planner, &id).await.state, TurnState::Taken);
    pair.host.close().await;
    let turn = row(&pair.planner, &id).await;
    assert_eq!((turn.state, turn.take), (TurnState::Open, 1));
    assert_eq!(note_of_release(&turn), Some("its agent's session ended"));
}

#[tokio::test]
async fn a_handoff_passes_the_turn_on_unless_it_is_kept() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    let id = offer(&pair.planner, Some("webdev"), "ship it").await;
    pair.host.ok("parler_recv", json!({})).await;
    pair.host
        .ok(
            "parler_handoff",
            json!({"for": "planner", "next": "help me", "keep": true}),
        )
        .await;
    assert_eq!(row(&pair.planner, &id).await.state, TurnState::Taken);
    pair.host
        .ok("parler_handoff", json!({"for": "planner", "next": "go on"}))
        .await;
    let turn = row(&pair.planner, &id).await;
    assert_eq!(
        (turn.state, turn.note.as_deref()),
        (TurnState::Done, Some("passed on"))
    );
}

#[tokio::test]
async fn what_is_sent_in_a_turn_says_where_it_stands_in_the_chain() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    pair.host.ok("parler_send", json!({"text": "hello"})).await;
    let hop = |message: &StoredMessage| SigPart::find(&message.parts).unwrap().hop;
    assert_eq!(hop(log(&pair.planner).await.last().unwrap()), None);
    let id = offer(&pair.planner, Some("webdev"), "ship it").await;
    pair.host.ok("parler_recv", json!({})).await;
    pair.host.ok("parler_send", json!({"text": "busy"})).await;
    let first = hop(log(&pair.planner).await.last().unwrap()).unwrap();
    assert_eq!((first.n, first.root.as_str()), (1, id.as_str()));
    pair.host.ok("parler_turn", json!({"action": "done"})).await;
    pair.host.ok("parler_send", json!({"text": "bye"})).await;
    assert_eq!(hop(log(&pair.planner).await.last().unwrap()), None);
}

#[tokio::test]
async fn two_calls_at_once_take_one_turn_once() {
    let hub = TestHub::start().await;
    let mut pair = pair(&hub, |_| {}).await;
    let id = offer(&pair.planner, Some("webdev"), "ship it").await;
    let a = pair.host.begin("parler_recv", json!({})).await;
    let b = pair.host.begin("parler_recv", json!({})).await;
    for call in [a, b] {
        let (text, _) = common::text_of(&pair.host.answer(call).await);
        assert!(text.starts_with("🤝"), "{text}");
    }
    assert_eq!(row(&pair.planner, &id).await.take, 1);
    pair.host.ok("parler_turn", json!({"action": "done"})).await;
    assert_eq!(row(&pair.planner, &id).await.state, TurnState::Done);
}

/// Servers of one role with bells, all idle.
async fn crowd(hub: &TestHub, key: &str, numbers: std::ops::Range<u8>) -> Vec<(Host, Arc<Bell>)> {
    let mut crowd = Vec::new();
    for n in numbers {
        let bell = Bell::new();
        let rung = Arc::clone(&bell);
        let host = another(hub, key, n, "worker", |options| {
            options.doorbells = vec![rung];
        })
        .await;
        crowd.push((host, bell));
    }
    crowd
}

fn rings(crowd: &[(Host, Arc<Bell>)]) -> Vec<String> {
    crowd.iter().flat_map(|(_, bell)| bell.texts()).collect()
}

/// Which of them was rung; waits for it.
async fn winner(crowd: &[(Host, Arc<Bell>)]) -> usize {
    let until = Instant::now() + common::SOON;
    loop {
        if let Some(at) = crowd.iter().position(|(_, bell)| !bell.texts().is_empty()) {
            return at;
        }
        assert!(Instant::now() < until, "nobody was rung");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every listener hesitates and claims within that time; who would ring falsely has rung then.
const ALL_CLAIMED: Duration = Duration::from_secs(3);

#[tokio::test]
async fn of_three_idle_servers_with_a_role_exactly_one_wakes() {
    let hub = TestHub::start().await;
    let pair = pair(&hub, |_| {}).await;
    let mut crowd = crowd(&hub, &pair.key, 10..13).await;
    let id = offer(&pair.planner, Some("worker"), "dig").await;
    let first = winner(&crowd).await;
    let turn = row(&pair.planner, &id).await;
    assert_eq!(holder(&turn), Some(format!("agent{}", 10 + first).as_str()));
    // Its host acts: the turn stays its.
    let text = crowd[first].0.ok("parler_recv", json!({})).await;
    assert!(
        text.starts_with("🤝 YOU HOLD THE TURN of planner"),
        "{text}"
    );
    assert!(text.contains("dig"), "{text}");
    tokio::time::sleep(ALL_CLAIMED).await;
    let rung = rings(&crowd);
    assert_eq!(rung.len(), 1, "{rung:?}");
    assert!(rung[0].starts_with("🤝 HANDOFF TO YOU"), "{rung:?}");
    assert_eq!(row(&pair.planner, &id).await.take, 1);
    let text = crowd[first]
        .0
        .ok("parler_turn", json!({"action": "done"}))
        .await;
    assert!(text.starts_with("Reported"), "{text}");
}

#[tokio::test]
async fn of_fourteen_listeners_one_wakes_for_the_one_turn_among_the_talk() {
    let hub = TestHub::start().await;
    let pair = pair(&hub, |_| {}).await;
    let crowd = crowd(&hub, &pair.key, 10..24).await;
    for n in 0..20 {
        pair.planner
            .send(Outgoing::text("auth", format!("talk {n}")))
            .await
            .unwrap();
    }
    let id = offer(&pair.planner, Some("worker"), "dig").await;
    winner(&crowd).await;
    tokio::time::sleep(ALL_CLAIMED).await;
    let rung = rings(&crowd);
    assert_eq!(rung.len(), 1, "{rung:?}");
    assert!(rung[0].contains("dig"), "{rung:?}");
    assert_eq!(row(&pair.planner, &id).await.take, 1);
}

/// A bell that is there and does not ring.
struct Broken;

impl Doorbell for Broken {
    fn name(&self) -> &str {
        "broken bell"
    }
    fn available(&self) -> bool {
        true
    }
    fn ring<'a>(&'a self, _: &'a str) -> Ringing<'a> {
        Box::pin(async {
            Err(DoorbellError::Failed {
                bell: "broken bell".into(),
                why: "test".into(),
            })
        })
    }
}

#[tokio::test]
async fn a_turn_whose_taker_does_not_wake_goes_to_another_and_is_not_taken_again() {
    let hub = TestHub::start().await;
    let pair = pair(&hub, |_| {}).await;
    let mut sleeper = another(&hub, &pair.key, 10, "worker", |options| {
        options.doorbells = vec![Arc::new(Broken)];
    })
    .await;
    // Eligible, and without a bell: so the turn is taken before the ring.
    let mut deaf = another(&hub, &pair.key, 11, "worker", |_| {}).await;
    let id = offer(&pair.planner, Some("worker"), "dig").await;
    let turn = becomes(&pair.planner, &id, |turn| {
        turn.take == 1 && turn.state == TurnState::Open
    })
    .await;
    assert_eq!(note_of_release(&turn), Some("host did not wake"));
    tokio::time::sleep(ALL_CLAIMED).await;
    assert_eq!(row(&pair.planner, &id).await.take, 1, "once is enough");
    // The sleeper's model sees it when it comes, and may take it by its own call.
    let text = sleeper.ok("parler_recv", json!({})).await;
    assert!(
        text.contains("dig") && text.contains("To take it"),
        "{text}"
    );
    let text = deaf.ok("parler_recv", json!({})).await;
    assert!(text.contains("You have taken this turn (take 2)"), "{text}");
}

#[tokio::test]
async fn a_turn_that_was_given_back_rings_another() {
    let hub = TestHub::start().await;
    let pair = pair(&hub, |_| {}).await;
    let mut crowd = crowd(&hub, &pair.key, 10..12).await;
    let id = offer(&pair.planner, Some("worker"), "dig").await;
    let first = winner(&crowd).await;
    crowd[first].0.ok("parler_recv", json!({})).await;
    crowd[first]
        .0
        .ok("parler_turn", json!({"action": "release"}))
        .await;
    let other = 1 - first;
    assert!(crowd[other].1.rung(1).await.contains("dig"));
    let turn = row(&pair.planner, &id).await;
    assert_eq!(turn.take, 2);
    assert_eq!(holder(&turn), Some(format!("agent{}", 10 + other).as_str()));
    assert_eq!(crowd[first].1.texts().len(), 1);
}

#[tokio::test]
async fn a_turn_taken_ahead_is_given_back_when_the_session_ends_before_the_host_woke() {
    let hub = TestHub::start().await;
    let pair = pair(&hub, |_| {}).await;
    let mut crowd = crowd(&hub, &pair.key, 10..12).await;
    let id = offer(&pair.planner, Some("worker"), "dig").await;
    let first = winner(&crowd).await;
    crowd.remove(first).0.close().await;
    assert!(crowd[0].1.rung(1).await.contains("dig"));
    let turn = row(&pair.planner, &id).await;
    assert_eq!(note_of_release(&turn), Some("its agent's session ended"));
}

#[tokio::test]
async fn the_end_of_an_offered_turn_rings_once() {
    let hub = TestHub::start().await;
    let bell = Bell::new();
    let rung = Arc::clone(&bell);
    let mut pair = pair(&hub, |options| options.doorbells = vec![rung]).await;
    pair.host
        .ok("parler_handoff", json!({"for": "planner", "next": "plan"}))
        .await;
    let id = log(&pair.planner).await.pop().unwrap().id;
    let claimed = pair.planner.claim_turn("auth", &id, None).await.unwrap();
    let end = parler_protocol::Complete {
        room: "auth".into(),
        message: id.clone(),
        status: parler_protocol::TaskStatus::Done,
        take: claimed.take,
        note: Some("it is planned".into()),
        result: None,
    };
    pair.planner.complete_turn(end).await.unwrap();
    let text = bell.rung(1).await;
    assert!(text.starts_with("✉ RESULT FOR YOU"), "{text}");
    assert!(
        text.contains("it is planned") && text.contains(&id),
        "{text}"
    );
    pair.host.ok("parler_recv", json!({})).await;
    // The next ring is for the next thing.
    offer(&pair.planner, Some("webdev"), "the fence").await;
    assert!(bell.rung(2).await.contains("the fence"));
}

#[tokio::test]
async fn a_turn_whose_lease_ran_out_is_offered_again_to_another_that_has_read_it() {
    let hub = TestHub::start().await;
    let pair = pair(&hub, |_| {}).await;
    // Killed: it took the turn for the shortest time that there is, and never says anything again.
    let mut raw = RawSocket::login(hub.addr(), &keys(11), "agent11", Some("worker")).await;
    raw.redeem(code_of(&pair.key)).await;
    let id = offer(&pair.planner, Some("worker"), "dig").await;
    let claimed = raw
        .ask(json!({"op": "claim", "room": "auth", "message": id, "leaseSecs": 30}))
        .await;
    assert_eq!(claimed["claimed"], true, "{claimed}");
    raw.abort();
    let crowd = crowd(&hub, &pair.key, 10..11).await;
    let text = crowd[0].1.rung_within(1, Duration::from_secs(60)).await;
    assert!(text.contains("dig"), "{text}");
    let turn = row(&pair.planner, &id).await;
    assert_eq!((turn.take, holder(&turn)), (2, Some("agent10")));
}
