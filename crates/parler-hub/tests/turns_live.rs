//! Turns and who is there: the answer to a handoff, frames without asking, parked queries, and what
//! time does by itself.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use std::time::Duration;

use parler_hub::now_ms;
use parler_protocol::RoomName;
use parler_store::{Actor, TakeOutcome, TurnClaim};
use parler_testkit::{RawSocket, SOON, Seen, TestHub, keys};
use serde_json::{Value, json};

/// How long a test looks for a frame that must not come: longer than what does come takes.
const QUIET: Duration = Duration::from_millis(150);

async fn agent(hub: &TestHub, n: u8, name: &str, role: Option<&str>) -> RawSocket {
    RawSocket::login(hub.addr(), &keys(n), name, role).await
}

fn handoff(to: Option<&str>) -> Value {
    let mut part = json!({"kind": "com.parler.handoff", "next": "go on"});
    if let Some(to) = to {
        part["to"] = to.into();
    }
    json!({"op": "send", "target": {"kind": "room", "room": "r"}, "parts": [part]})
}

fn act(op: &str, message: &str) -> Value {
    json!({"op": op, "room": "r", "message": message, "status": "done"})
}

async fn offer(by: &mut RawSocket, to: Option<&str>) -> String {
    let sent = by.ask(handoff(to)).await;
    sent["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{sent}"))
        .to_owned()
}

/// The next `turn` frame: which turn, and its state.
async fn told(socket: &mut RawSocket) -> (String, String) {
    loop {
        let push = socket.push().await;
        if push["type"] == "turn" {
            let text = |key: &str| push["turn"][key].as_str().unwrap().to_owned();
            return (text("message"), text("state"));
        }
    }
}

/// Whether a `turn` frame came, or comes within a moment.
async fn is_told(socket: &mut RawSocket) -> bool {
    loop {
        let push = match socket.pushes.is_empty() {
            false => socket.pushes.remove(0),
            true => match socket.next(QUIET).await {
                Some(Seen::Frame(frame)) => frame,
                _ => return false,
            },
        };
        if push["type"] == "turn" {
            return true;
        }
    }
}

/// Takes a turn at a time in the past, so that its lease has run out already.
async fn claim_long_ago(hub: &TestHub, n: u8, name: &str, message: &str) {
    let claim = TurnClaim {
        by: Actor {
            id: keys(n).id().clone(),
            name: name.into(),
            role: None,
        },
        room: RoomName::new("r"),
        message: message.into(),
        renews: None,
        lease: 30_000,
        now: now_ms() - 60_000,
    };
    let outcome = hub.state().store().claim_turn(claim).await.unwrap();
    assert!(matches!(outcome, TakeOutcome::Won { .. }), "{outcome:?}");
}

#[tokio::test]
async fn the_answer_to_a_handoff_says_whether_anybody_is_there() {
    let hub = TestHub::start().await;
    let mut ann = agent(&hub, 1, "ann", None).await;
    let code = ann.open_channel("r").await;
    let alone = ann.ask(handoff(None)).await["turn"].clone();
    assert_eq!(
        alone["audience"],
        json!({"eligible": 0, "online": 0, "listening": 0})
    );
    assert!(alone["stalled"].as_str().unwrap().contains("nobody else"));
    let mut ben = agent(&hub, 2, "ben", Some("webdev")).await;
    ben.redeem(&code).await;
    let ask = async |ann: &mut RawSocket, to: &str| {
        let turn = ann.ask(handoff(Some(to))).await["turn"].clone();
        let stalled = turn["stalled"].as_str().unwrap_or_default().to_owned();
        (turn["audience"].clone(), stalled)
    };
    let audience = |eligible: u32, online: u32, listening: u32| json!({"eligible": eligible, "online": online, "listening": listening});
    let (counts, stalled) = ask(&mut ann, "reviewer").await;
    assert_eq!(counts, audience(0, 0, 0));
    assert!(
        stalled.contains("'reviewer'") && stalled.contains("ann, ben"),
        "{stalled}"
    );
    let (counts, stalled) = ask(&mut ann, "webdev").await;
    assert_eq!(counts, audience(1, 1, 0));
    assert!(
        stalled.contains("ben is online, nothing there listens"),
        "{stalled}"
    );
    ben.ask(json!({"op": "subscribe", "wakes": false})).await;
    assert_eq!(ask(&mut ann, "ben").await.0, audience(1, 1, 0));
    ben.ask(json!({"op": "subscribe"})).await;
    assert_eq!(
        ask(&mut ann, "ben").await,
        (audience(1, 1, 1), String::new())
    );
    ben.ask(json!({"op": "unsubscribe"})).await;
    assert_eq!(ask(&mut ann, "ben").await.0, audience(1, 1, 0));
    // A parked pull listens too. It parks on another room, so that the handoff does not end it.
    let mut second = agent(&hub, 2, "ben", Some("webdev")).await;
    second.open_channel("own").await;
    second
        .post(json!({"op": "pull", "room": "own", "waitSecs": 60}))
        .await;
    let mut patience = 200;
    while ask(&mut ann, "ben").await.0 != audience(1, 1, 1) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        patience -= 1;
        assert!(patience > 0, "a parked pull was never seen to listen");
    }
    second.abort();
    ben.abort();
    let mut patience = 200;
    let stalled = loop {
        let (counts, stalled) = ask(&mut ann, "ben").await;
        if counts == audience(1, 0, 0) {
            break stalled;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        patience -= 1;
        assert!(patience > 0, "the end of a connection was never noticed");
    };
    assert!(stalled.starts_with("ben was last seen "), "{stalled}");
}

#[tokio::test]
async fn subscribers_hear_of_turns_that_concern_them_and_of_no_others() {
    let hub = TestHub::start().await;
    let mut ann = agent(&hub, 1, "ann", None).await;
    let mut ben = agent(&hub, 2, "ben", Some("webdev")).await;
    let mut cat = agent(&hub, 3, "cat", Some("webdev")).await;
    let mut dan = agent(&hub, 4, "dan", None).await;
    let mut old = agent(&hub, 5, "old", Some("webdev")).await;
    let code = ann.open_channel("r").await;
    for socket in [&mut ben, &mut cat, &mut dan, &mut old] {
        socket.redeem(&code).await;
    }
    for socket in [&mut ann, &mut ben, &mut cat, &mut dan] {
        socket.ask(json!({"op": "subscribe", "turns": true})).await;
    }
    old.ask(json!({"op": "subscribe"})).await;
    let turn = offer(&mut ann, Some("webdev")).await;
    let is = |state: &str| (turn.clone(), state.to_owned());
    for socket in [&mut ben, &mut cat] {
        assert_eq!(told(socket).await, is("open"));
    }
    ben.ask(act("claim", &turn)).await;
    for socket in [&mut ann, &mut ben, &mut cat] {
        assert_eq!(told(socket).await, is("taken"));
    }
    ben.ask(act("claim", &turn)).await; // A renewal is no news.
    ben.ask(act("release", &turn)).await;
    for socket in [&mut ann, &mut ben, &mut cat] {
        assert_eq!(told(socket).await, is("open"));
    }
    ben.ask(act("claim", &turn)).await;
    ann.ask(act("cancel", &turn)).await;
    for socket in [&mut ann, &mut ben, &mut cat] {
        assert_eq!(told(socket).await, is("taken"));
        assert_eq!(told(socket).await, is("cancelled"));
    }
    for (name, socket) in [("dan", &mut dan), ("old", &mut old)] {
        assert!(!is_told(socket).await, "{name}");
        assert_eq!(socket.ask(json!({"op": "ping"})).await["type"], "pong");
    }
}

#[tokio::test]
async fn a_parked_query_answers_when_something_that_it_shows_changes() {
    let hub = TestHub::start().await;
    let mut ann = agent(&hub, 1, "ann", None).await;
    let mut ben = agent(&hub, 2, "ben", None).await;
    let code = ann.open_channel("r").await;
    ben.redeem(&code).await;
    ann.open_channel("private").await;
    let rev = ben.ask(json!({"op": "turns"})).await["rev"].clone();
    let park = |after: &Value, secs: u32| json!({"op": "turns", "waitSecs": secs, "after": after});
    let ahead = json!(rev.as_i64().unwrap() + 5);
    let at_once = ben.ask(park(&ahead, 60)).await;
    assert_eq!(
        at_once["rev"], rev,
        "an `after` above the present answers at once"
    );
    ben.post(park(&rev, 60)).await;
    assert_eq!(ben.next(QUIET).await, None, "parked");
    // News of a room that it is not in is none.
    let mut elsewhere = handoff(None);
    elsewhere["target"]["room"] = "private".into();
    ann.ask(elsewhere).await;
    assert_eq!(ben.next(QUIET).await, None, "parked");
    let turn = offer(&mut ann, None).await;
    let found = ben.reply().await;
    assert_eq!(found["turns"][0]["message"], turn);
    assert!(found["rev"].as_i64() > rev.as_i64());
    let rev = found["rev"].clone();
    // Others' messages, pulls and renewals change nothing; at its deadline it is as it was.
    ann.say("r", "x").await;
    let timed_out = ben.ask(park(&rev, 1)).await;
    assert_eq!(
        (&timed_out["rev"], &timed_out["turns"][0]["message"]),
        (&rev, &json!(turn))
    );
    // A turn that disappears from the list is a change.
    ben.ask(act("claim", &turn)).await;
    let rev = ben.ask(json!({"op": "turns"})).await["rev"].clone();
    ann.post(park(&rev, 60)).await;
    assert_eq!(ann.next(QUIET).await, None, "parked");
    ben.ask(act("complete", &turn)).await;
    let found = ann.reply().await;
    assert!(found["rev"].as_i64() > rev.as_i64());
    let listed = found["turns"].as_array().unwrap();
    assert!(
        listed.iter().all(|t| t["message"] != json!(turn)),
        "{found}"
    );
    // Who has to go is told so.
    let rev = found["rev"].clone();
    let room = json!({"op": "turns", "room": "r", "waitSecs": 60, "after": rev});
    ben.post(room).await;
    assert_eq!(ben.next(QUIET).await, None, "parked");
    let ben_id = keys(2).id().to_string();
    ann.ask(json!({"op": "remove_member", "room": "r", "agent": ben_id}))
        .await;
    assert_eq!(ben.reply().await["code"], "not_member");
}

#[tokio::test]
async fn a_lease_that_ran_out_opens_the_turn_without_anybody_asking() {
    let hub = TestHub::start().await;
    let mut ann = agent(&hub, 1, "ann", None).await;
    let mut ben = agent(&hub, 2, "ben", None).await;
    let code = ann.open_channel("r").await;
    ben.redeem(&code).await;
    let turn = offer(&mut ann, None).await;
    ann.ask(json!({"op": "subscribe", "turns": true})).await;
    claim_long_ago(&hub, 2, "ben", &turn).await;
    let is = |state: &str| (turn.clone(), state.to_owned());
    assert_eq!(told(&mut ann).await, is("taken"));
    assert_eq!(told(&mut ann).await, is("open"));
    let query = json!({"op": "turns", "message": turn});
    let row = ann.ask(query.clone()).await["turns"][0].clone();
    assert_eq!(row["history"][1]["note"], "the lease ran out");
    let again = ben.ask(act("claim", &turn)).await;
    assert_eq!(again["take"], 2, "with a new token");
    // What is held survives a restart, and what ran out meanwhile is open before anybody asks.
    let other = offer(&mut ann, None).await;
    let until = again["leaseUntil"].clone();
    drop((ann, ben));
    let hub = hub.restart().await;
    let mut ben = agent(&hub, 2, "ben", None).await;
    let held = ben.ask(query).await["turns"][0].clone();
    assert_eq!(
        (&held["state"], &held["leaseUntil"], &held["take"]),
        (&json!("taken"), &until, &json!(2))
    );
    let done = json!({"op": "complete", "room": "r", "message": turn, "status": "done", "take": 2});
    assert_eq!(ben.ask(done).await["completed"], true);
    let open = ben.ask(json!({"op": "turns", "message": other})).await;
    assert_eq!(open["turns"][0]["state"], "open");
}

#[tokio::test]
async fn a_deleted_room_takes_its_turns_along() {
    let hub = TestHub::start().await;
    let mut ann = agent(&hub, 1, "ann", None).await;
    ann.open_channel("r").await;
    let turn = offer(&mut ann, None).await;
    ann.ask(json!({"op": "delete_room", "room": "r"})).await;
    ann.open_channel("r").await;
    let all = ann.ask(json!({"op": "turns", "state": "all"})).await;
    assert_eq!(all["turns"], json!([]));
    assert_eq!(ann.ask(act("cancel", &turn)).await["code"], "unknown_turn");
}

/// Rounds of the race; `PARLER_RACE_ROUNDS` asks for more.
const ROUNDS: usize = 25;
const CLAIMERS: u8 = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_that_race_one_wins() {
    let rounds = std::env::var("PARLER_RACE_ROUNDS");
    let rounds = rounds.map_or(ROUNDS, |n| n.parse().unwrap());
    let hub = TestHub::start().await;
    let mut ann = agent(&hub, 100, "ann", None).await;
    let code = ann.open_channel("r").await;
    let mut sockets = Vec::new();
    for n in 0..CLAIMERS {
        let mut socket = agent(&hub, n, &format!("agent{n}"), None).await;
        assert_eq!(socket.redeem(&code).await["type"], "joined");
        sockets.push(socket);
    }
    for round in 0..rounds {
        let turn = offer(&mut ann, None).await;
        let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(usize::from(CLAIMERS)));
        let claims = sockets.drain(..).map(|mut socket| {
            let (barrier, turn) = (barrier.clone(), turn.clone());
            tokio::spawn(async move {
                barrier.wait().await;
                let answer = socket.ask(act("claim", &turn)).await;
                (socket, answer)
            })
        });
        let claims: Vec<_> = claims.collect();
        let mut winners = Vec::new();
        let mut named = Vec::new();
        for (n, claim) in (0..CLAIMERS).zip(claims) {
            let (socket, answer) = tokio::time::timeout(SOON, claim).await.unwrap().unwrap();
            sockets.push(socket);
            match answer["claimed"].as_bool() {
                Some(true) => winners.push((n, answer["take"].clone())),
                Some(false) => named.push(answer["holder"]["id"].clone()),
                None => panic!("round {round}: {answer}"),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let (winner, take) = &winners[0];
        let id = json!(keys(*winner).id().to_string());
        assert_eq!(*take, 1);
        assert!(named.iter().all(|holder| *holder == id), "round {round}");
        let row = ann.ask(json!({"op": "turns", "message": turn})).await;
        assert_eq!(row["turns"][0]["takenBy"]["id"], id, "round {round}");
    }
}
