//! The calls of the turn ledger: what each one sends, and what of a reply goes on.
#![allow(clippy::unwrap_used)] // in a test's own functions too

mod common;

use std::time::Duration;

use common::{FakeHub, error, keys, usual};
use parler_connector::{Client, ClientOptions, Endpoint, Notice, Outgoing};
use parler_protocol::turn::{TurnAct, TurnFilter, TurnsQuery};
use parler_protocol::{Complete, ErrorCode, HandoffRef, SetRoomPolicy, TaskStatus};
use serde_json::{Value, json};

fn options(hub: &FakeHub) -> ClientOptions {
    ClientOptions::new(Endpoint::new(hub.url()), keys(1), "planner")
}

fn turn(message: &str, room: &str) -> Value {
    json!({"message": message, "room": room, "seq": 4, "from": {"id": "U", "name": "ann"},
           "next": "go on", "state": "open", "take": 0, "offeredAt": 1, "seenBy": []})
}

fn act() -> TurnAct {
    TurnAct {
        room: "r".into(),
        message: "m".into(),
        take: Some(2),
        note: Some("later".into()),
    }
}

#[tokio::test]
async fn every_call_sends_its_op_and_reads_its_reply() {
    let hub = FakeHub::answering(|_, frame| {
        let about = |kind: &str, fields: Value| {
            let mut reply =
                json!({"type": kind, "room": frame["room"], "message": frame["message"]});
            for (key, value) in fields.as_object().unwrap() {
                reply[key] = value.clone();
            }
            vec![reply]
        };
        let take = frame["take"].as_i64();
        match frame["op"].as_str() {
            Some("claim") => about(
                "claimed",
                json!({"claimed": true, "leaseUntil": 9, "take": take.unwrap_or(1)}),
            ),
            Some("complete") => about("completed", json!({"completed": frame["result"] == "blob"})),
            Some("release") => about("released", json!({"released": frame["note"] == "later"})),
            Some("decline") => about("declined", json!({"declined": false})),
            Some("cancel") => about("cancelled", json!({"cancelled": true})),
            Some("bind_name") => {
                vec![json!({"type": "name_bound", "room": "r", "name": "ben", "agent": "U"})]
            }
            Some("room_policy") => vec![json!({"type": "room_policy", "room": "r",
                "hopLimit": frame["hopLimit"], "handoffHopLimit": 100, "requireApproval": false})],
            _ => vec![usual(frame)],
        }
    })
    .await;
    let client = Client::connect(options(&hub)).await.unwrap();
    let lease = Some(Duration::from_secs(60));
    let claimed = client.claim_turn("r", "m", lease).await.unwrap();
    assert_eq!(
        (claimed.claimed, claimed.take, claimed.lease_until),
        (true, Some(1), Some(9))
    );
    let renewed = client.renew_turn("r", "m", 7, None).await.unwrap();
    assert_eq!(renewed.take, Some(7));
    let end = Complete {
        room: "r".into(),
        message: "m".into(),
        status: TaskStatus::Done,
        take: Some(1),
        note: None,
        result: Some("blob".into()),
    };
    assert!(client.complete_turn(end).await.unwrap());
    assert!(client.release_turn(act()).await.unwrap());
    assert!(!client.decline_turn(act()).await.unwrap());
    assert!(client.cancel_turn(act()).await.unwrap());
    client.bind_name("r", "ben", "U").await.unwrap();
    let policy = SetRoomPolicy {
        room: "r".into(),
        hop_limit: Some(3),
        handoff_hop_limit: None,
        require_approval: None,
        reset: None,
    };
    assert_eq!(client.room_policy(policy).await.unwrap().hop_limit, 3);
    assert_eq!(
        hub.of("claim"),
        [
            json!({"op": "claim", "room": "r", "message": "m", "leaseSecs": 60}),
            json!({"op": "claim", "room": "r", "message": "m", "take": 7}),
        ]
    );
}

#[tokio::test]
async fn a_lost_race_is_an_answer_and_a_refusal_has_its_code() {
    let hub = FakeHub::answering(|_, frame| match frame["message"].as_str() {
        Some("taken") => vec![json!({"type": "claimed", "room": "r", "message": "taken",
            "claimed": false, "holder": {"id": "U", "name": "ben"}})],
        Some("other") => {
            vec![json!({"type": "claimed", "room": "r", "message": "mine", "claimed": true})]
        }
        Some("foreign") => vec![error(Some("not_eligible"), "not for you")],
        Some(_) => vec![error(Some("unknown_turn"), "no turn")],
        None => vec![usual(frame)],
    })
    .await;
    let client = Client::connect(options(&hub)).await.unwrap();
    let lost = client.claim_turn("r", "taken", None).await.unwrap();
    assert_eq!(
        (lost.claimed, lost.holder.unwrap().name.as_str()),
        (false, "ben")
    );
    assert!(
        client.claim_turn("r", "other", None).await.is_err(),
        "of another turn"
    );
    for (message, code) in [
        ("foreign", ErrorCode::NotEligible),
        ("x", ErrorCode::UnknownTurn),
    ] {
        let refused = client.claim_turn("r", message, None).await.unwrap_err();
        assert_eq!(refused.code(), Some(&code));
    }
}

#[tokio::test]
async fn turns_that_were_not_asked_for_or_cannot_be_are_left_out() {
    let hub = FakeHub::answering(|_, frame| match frame["op"].as_str() {
        Some("turns") => vec![json!({"type": "turns", "rev": 5, "turns": [
            turn("0199-ok", "r"), turn("x", "elsewhere"), turn("a; rm -rf ~", "r"),
            turn("", "r"), turn("y", "r\n"), turn(&"z".repeat(200), "r"),
        ]})],
        _ => vec![usual(frame)],
    })
    .await;
    let client = Client::connect(options(&hub)).await.unwrap();
    let listed = |room: Option<&str>| {
        let query = TurnsQuery {
            room: room.map(Into::into),
            state: Some(TurnFilter::All),
            ..TurnsQuery::default()
        };
        let client = client.clone();
        async move {
            let found = client.turns(query).await.unwrap();
            assert_eq!(found.rev, 5);
            let ids: Vec<String> = found.turns.into_iter().map(|turn| turn.message).collect();
            ids
        }
    };
    assert_eq!(listed(Some("r")).await, ["0199-ok"]);
    assert_eq!(listed(None).await, ["0199-ok", "x"]);
}

#[tokio::test]
async fn the_turn_of_a_sent_handoff_is_that_of_its_message() {
    let hub = FakeHub::answering(|_, frame| match frame["target"]["room"].as_str() {
        Some(room) => vec![json!({"type": "sent", "id": "m1", "seq": 4, "room": room,
            "turn": turn(if room == "r" { "m1" } else { "m2" }, room)})],
        None => vec![usual(frame)],
    })
    .await;
    let client = Client::connect(options(&hub)).await.unwrap();
    let handoff = HandoffRef {
        next: "go on".into(),
        summary: None,
        to: None,
        bundle: None,
    };
    let sent = |room: &'static str| client.send(Outgoing::handoff(room, &handoff));
    assert_eq!(sent("r").await.unwrap().turn.unwrap().message, "m1");
    assert_eq!(sent("q").await.unwrap().turn, None, "of another message");
}

#[tokio::test]
async fn notices_come_to_who_asked_for_them() {
    let hub = FakeHub::answering(|_, frame| match frame["op"].as_str() {
        Some("subscribe") => vec![
            json!({"type": "turn", "turn": turn("bad id", "r")}),
            json!({"type": "turn", "turn": turn("m1", "r")}),
            json!({"type": "guard", "room": "r", "seq": 3, "reason": "held"}),
            json!({"type": "join_request", "room": "r",
                   "request": {"agent": "U", "name": "cat", "requestedAt": 1}}),
            usual(frame),
        ],
        _ => vec![usual(frame)],
    })
    .await;
    let with = ClientOptions {
        turns: true,
        wakes: false,
        ..options(&hub)
    };
    let client = Client::connect(with).await.unwrap();
    assert!(client.subscribe().await.unwrap());
    assert!(matches!(client.next_event().await, Notice::Turn(turn) if turn.message == "m1"));
    assert!(matches!(client.next_event().await, Notice::Guard(guard) if guard.seq == 3));
    let request = client.next_event().await;
    assert!(matches!(request, Notice::JoinRequest(r) if r.request.name == "cat"));
    let plain = Client::connect(options(&hub)).await.unwrap();
    plain.subscribe().await.unwrap();
    assert_eq!(
        hub.of("subscribe"),
        [
            json!({"op": "subscribe", "turns": true, "wakes": false}),
            json!({"op": "subscribe"}),
        ]
    );
}
