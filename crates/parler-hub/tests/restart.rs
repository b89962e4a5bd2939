//! Thirty agents, everything they have on the hub, a hub that is stopped and one that is killed:
//! what was there before is there after, to the digit.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

mod common;

use std::net::SocketAddr;

use common::{Running, free_addr};
use parler_testkit::{RawSocket, SOON, Seen, keys, texts};
use serde_json::{Value, json};

const AGENTS: u8 = 30;
/// Wait for admission to the gated room.
const WAITING: std::ops::Range<u8> = 20..25;
/// Have a pull parked when the hub goes.
const PARKED: std::ops::Range<u8> = 5..15;

fn id(n: u8) -> String {
    keys(n).id().to_string()
}

async fn agent(addr: SocketAddr, n: u8) -> RawSocket {
    RawSocket::login(addr, &keys(n), &format!("agent-{n}"), Some("tester")).await
}

async fn all(addr: SocketAddr) -> Vec<RawSocket> {
    let mut sockets = Vec::new();
    for n in 0..AGENTS {
        sockets.push(agent(addr, n).await);
    }
    sockets
}

async fn done(socket: &mut RawSocket, frame: Value) -> Value {
    let reply = socket.ask(frame).await;
    assert_ne!(reply["type"], "error", "{reply}");
    reply
}

fn keyed() -> Value {
    json!({"op": "send", "target": {"kind": "room", "room": "r"}, "clientId": "once",
           "parts": [{"kind": "text", "text": "said once"}]})
}

fn work() -> Value {
    json!({"op": "send", "target": {"kind": "service", "service": "review"},
           "parts": [{"kind": "com.parler.dispatch", "role": "review"},
                     {"kind": "text", "text": "please"}]})
}

/// What is left to do with after the restarts.
struct Left {
    /// A code with two uses left.
    code: String,
    /// The reply to the send with a key.
    sent: Value,
}

/// Gives thirty agents something of everything.
async fn fill(sockets: &mut [RawSocket]) -> Left {
    let invite = json!({"op": "invite", "kind": "channel", "room": "r", "maxUses": 29});
    let code = done(&mut sockets[0], invite).await["code"].clone();
    let gated =
        json!({"op": "invite", "kind": "channel", "room": "gated", "requireApproval": true});
    let gated = done(&mut sockets[0], gated).await["code"].clone();
    for (n, socket) in (0..).zip(sockets.iter_mut()) {
        if n > 0 {
            done(socket, json!({"op": "redeem", "code": code})).await;
        }
        if WAITING.contains(&n) {
            let reply = done(socket, json!({"op": "redeem", "code": gated})).await;
            assert_eq!(reply["type"], "join_pending");
        }
    }
    let mut places = Vec::new();
    for round in 0..3 {
        for (n, socket) in sockets.iter_mut().enumerate() {
            places.push(socket.say("r", &format!("{round} by {n}")).await["seq"].clone());
        }
    }
    let sent = done(&mut sockets[3], keyed()).await;
    // Thirty cursors, each somewhere else.
    for (n, socket) in sockets.iter_mut().enumerate() {
        socket
            .pull("r", json!({"ack": places[3 * n], "limit": 0}))
            .await;
    }
    // A service with a worker that holds one piece of work; another piece waits.
    for n in [1, 2] {
        done(&mut sockets[n], json!({"op": "serve", "service": "review"})).await;
    }
    for n in [26, 27] {
        done(&mut sockets[n], work()).await;
    }
    let queue = json!({"op": "queue", "room": "svc.review", "role": "review"});
    let queued = done(&mut sockets[1], queue).await;
    let first = queued["messages"][0]["id"].clone();
    let claim = json!({"op": "claim", "room": "svc.review", "message": first, "leaseSecs": 3600});
    assert_eq!(done(&mut sockets[1], claim).await["claimed"], true);
    // Facts and cards.
    for (n, socket) in (0..).zip(sockets.iter_mut()) {
        let fact = json!({"text": format!("fact {n}"), "key": format!("k{n}"), "room": "r"});
        done(socket, json!({"op": "remember", "fact": fact})).await;
        let private = json!({"text": format!("private {n}")});
        done(socket, json!({"op": "remember", "fact": private})).await;
        let card = json!({"id": id(n), "name": format!("agent-{n}"), "kind": "agent"});
        done(socket, json!({"op": "register", "card": card})).await;
    }
    let left = json!({"op": "invite", "kind": "channel", "room": "last", "maxUses": 3});
    let left = done(&mut sockets[0], left).await["code"].clone();
    done(&mut sockets[1], json!({"op": "redeem", "code": left})).await;
    let code = left.as_str().unwrap().to_owned();
    Left { code, sent }
}

/// Everything that an agent can ask about without changing it. Times of presence excepted: a login
/// is a new presence.
async fn snapshot(sockets: &mut [RawSocket]) -> Vec<Value> {
    let mut all = Vec::new();
    for (n, socket) in (0..).zip(sockets.iter_mut()) {
        let mut seen = json!({
            "rooms": done(socket, json!({"op": "rooms"})).await,
            "cursor": socket.pull("r", json!({"limit": 0})).await["cursor"],
            "log": socket.pull("r", json!({"since": 0, "limit": 1000})).await,
            "facts": done(socket, json!({"op": "recall", "query": "fact", "limit": 50})).await,
            "private": done(socket, json!({"op": "recall", "query": "private"})).await,
        });
        let mut card = done(socket, json!({"op": "lookup", "id": id(n)})).await;
        for changing in ["lastSeen", "status"] {
            card["entry"].as_object_mut().unwrap().remove(changing);
        }
        seen["card"] = card;
        let roster = done(socket, json!({"op": "roster", "room": "r"})).await;
        let entries = roster["entries"].as_array().unwrap();
        seen["roster"] = entries
            .iter()
            .map(|e| json!([e["id"], e["name"], e["role"]]))
            .collect();
        if n == 0 {
            seen["waiting"] = done(socket, json!({"op": "join_requests", "room": "gated"})).await;
        }
        if n == 1 || n == 2 {
            let queue = json!({"op": "queue", "room": "svc.review", "role": "review"});
            seen["queue"] = done(socket, queue).await;
        }
        all.push(seen);
    }
    all
}

fn start(addr: SocketAddr, db: &str) -> Running {
    Running::start(&["--addr", &addr.to_string(), "--db", db], addr)
}

async fn park(sockets: &mut [RawSocket]) {
    for n in PARKED {
        let socket = &mut sockets[usize::from(n)];
        // The room where this agent has read all: `last` for some, a new one of its own.
        let room = format!("own-{n}");
        socket.open_channel(&room).await;
        socket
            .post(json!({"op": "pull", "room": room, "waitSecs": 60}))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_as_before_after_a_stop_and_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("hub.sqlite");
    let db = db.to_str().unwrap();
    let addr = free_addr();
    let mut hub = start(addr, db);
    let mut sockets = all(addr).await;
    let left = fill(&mut sockets).await;
    for n in PARKED {
        sockets[usize::from(n)]
            .open_channel(&format!("own-{n}"))
            .await;
    }
    let before = snapshot(&mut sockets).await;
    assert_eq!(
        before[0]["waiting"]["requests"].as_array().unwrap().len(),
        5
    );
    assert_eq!(before[2]["queue"]["messages"].as_array().unwrap().len(), 1);
    assert_eq!(before[7]["facts"]["hits"].as_array().unwrap().len(), 30);

    park(&mut sockets).await;
    hub.signal("-TERM");
    for n in PARKED {
        let socket = &mut sockets[usize::from(n)];
        assert_eq!(texts(&socket.reply().await).len(), 0);
        assert_eq!(socket.next(SOON).await, Some(Seen::Close(1012)));
    }
    drop(sockets);
    assert!(hub.wait(SOON).success());

    let mut hub = start(addr, db);
    let mut sockets = all(addr).await;
    assert_eq!(snapshot(&mut sockets).await, before, "after a stop");
    park(&mut sockets).await;
    hub.signal("-KILL");
    drop(sockets);
    hub.wait(SOON);

    let _hub = start(addr, db);
    let mut sockets = all(addr).await;
    assert_eq!(snapshot(&mut sockets).await, before, "after a kill");
    // And it goes on: keys, places, uses, leases, requests.
    assert_eq!(sockets[3].ask(keyed()).await, left.sent);
    let next = sockets[3].say("r", "next").await;
    assert!(next["seq"].as_i64() > left.sent["seq"].as_i64());
    for (n, admitted) in [(2, true), (3, true), (4, false)] {
        let reply = sockets[n].redeem(&left.code).await;
        assert_eq!(reply["type"] == "joined", admitted, "{reply}");
    }
    let work = sockets[26].pull("svc.review", json!({"since": 0})).await;
    let held = work["messages"][0]["id"].clone();
    let claim = |message: &Value| json!({"op": "claim", "room": "svc.review", "message": message});
    assert_eq!(sockets[2].ask(claim(&held)).await["claimed"], false);
    assert_eq!(sockets[1].ask(claim(&held)).await["claimed"], true);
    let who = WAITING.start;
    let admit = json!({"op": "resolve_join", "room": "gated", "agent": id(who), "approve": true});
    done(&mut sockets[0], admit).await;
    let rooms = done(&mut sockets[usize::from(who)], json!({"op": "rooms"})).await;
    let names: Vec<_> = rooms["rooms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["name"].clone())
        .collect();
    assert!(names.contains(&"gated".into()));
}
