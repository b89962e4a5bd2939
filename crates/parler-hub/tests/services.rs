//! Services: who serves, whom work goes to, and who holds it, over literal JSON.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use std::time::{SystemTime, UNIX_EPOCH};

use parler_protocol::{AgentId, RoomName};
use parler_store::{ClaimOutcome, Work};
use parler_testkit::{RawSocket, TestHub, keys, texts};
use serde_json::{Value, json};

const ROOM: &str = "svc.build";

async fn agent(hub: &TestHub, n: u8, name: &str) -> RawSocket {
    RawSocket::login(hub.addr(), &keys(n), name, None).await
}

fn id(n: u8) -> String {
    keys(n).id().to_string()
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

async fn serve(socket: &mut RawSocket, service: &str) -> Value {
    socket.ask(json!({"op": "serve", "service": service})).await
}

/// A worker of `build`.
async fn worker(hub: &TestHub, n: u8) -> RawSocket {
    let mut socket = agent(hub, n, &format!("worker{n}")).await;
    let joined = serve(&mut socket, "build").await;
    assert_eq!(
        joined,
        json!({"type": "joined", "room": ROOM, "kind": "service"})
    );
    socket
}

/// A message to the service.
fn to_service(parts: Value) -> Value {
    json!({"op": "send", "target": {"kind": "service", "service": "build"}, "parts": parts})
}

/// Work for these roles.
fn job(roles: &[&str]) -> Value {
    let mut parts = vec![json!({"kind": "text", "text": "job"})];
    parts.extend(
        roles
            .iter()
            .map(|role| json!({"kind": "com.parler.dispatch", "role": role})),
    );
    to_service(parts.into())
}

async fn request(socket: &mut RawSocket, roles: &[&str]) -> String {
    let sent = socket.ask(job(roles)).await;
    assert_eq!(sent["room"], ROOM, "{sent}");
    sent["id"].as_str().unwrap().to_owned()
}

fn claim(message: &str) -> Value {
    json!({"op": "claim", "room": ROOM, "message": message})
}

fn complete(message: &str) -> Value {
    json!({"op": "complete", "room": ROOM, "message": message, "status": "done"})
}

async fn waiting(socket: &mut RawSocket, role: &str) -> Vec<String> {
    let queued = socket
        .ask(json!({"op": "queue", "room": ROOM, "role": role}))
        .await;
    assert_eq!(queued["type"], "queued", "{queued}");
    let messages = queued["messages"].as_array().unwrap();
    messages
        .iter()
        .map(|m| m["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn is(socket: &mut RawSocket, status: &str) {
    let ok = socket
        .ask(json!({"op": "presence", "status": status}))
        .await;
    assert_eq!(ok["type"], "presence_ok");
}

#[tokio::test]
async fn the_first_to_serve_owns_the_service() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (worker(&hub, 1).await, worker(&hub, 2).await);
    let delete = json!({"op": "delete_room", "room": ROOM});
    assert_eq!(b.ask(delete.clone()).await["code"], "not_owner");
    assert_eq!(a.ask(delete).await["type"], "room_deleted");
}

#[tokio::test]
async fn the_raw_service_name_is_the_workers_role() {
    let hub = TestHub::start().await;
    let (mut a, mut b) = (agent(&hub, 1, "ann").await, agent(&hub, 2, "ben").await);
    assert_eq!(
        serve(&mut a, "code review").await["room"],
        "svc.code_review"
    );
    let send = json!({"op": "send", "target": {"kind": "service", "service": "code-review"},
                      "parts": []});
    assert_eq!(b.ask(send).await["code"], "unknown_service");
    let send = json!({"op": "send", "target": {"kind": "service", "service": "code.review"},
                      "parts": []});
    assert_eq!(b.ask(send).await["room"], "svc.code_review");
    assert_eq!(
        serve(&mut a, " code review ").await["room"],
        "svc.code_review"
    );
    let roster = a
        .ask(json!({"op": "roster", "room": "svc.code_review"}))
        .await;
    let entries = roster["entries"].as_array().unwrap();
    assert_eq!(entries[0]["serviceRole"], " code review ");
    assert!(
        entries[1].get("serviceRole").is_none(),
        "a requester is no worker"
    );
}

#[tokio::test]
async fn a_send_joins_its_author_at_the_head() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    w.say(ROOM, "secret").await;
    w.ask(json!({"op": "subscribe"})).await;
    let sent = b
        .ask(to_service(json!([{"kind": "text", "text": "hi"}])))
        .await;
    assert_eq!(sent["room"], ROOM);
    assert_eq!(w.push().await["message"]["parts"][0]["text"], "hi");
    w.say(ROOM, "answer").await;
    assert_eq!(texts(&b.pull(ROOM, json!({})).await), ["hi", "answer"]);
    let all = b.pull(ROOM, json!({"since": 0})).await;
    assert_eq!(texts(&all), ["hi", "answer"], "nothing of before");
    let early = b.pull(ROOM, json!({"since": 0, "limit": 0})).await;
    assert_eq!(early["cursor"], 0, "an empty read answers where it began");
    assert_eq!(b.say(ROOM, "by its name").await["room"], ROOM);
}

#[tokio::test]
async fn who_serves_a_strangers_service_reads_nothing_of_before_but_gets_the_work() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    w.say(ROOM, "secret").await;
    let waits = request(&mut b, &["build"]).await;
    let mut late = worker(&hub, 3).await;
    assert!(texts(&late.pull(ROOM, json!({"since": 0})).await).is_empty());
    assert_eq!(waiting(&mut late, "build").await, [waits]);
    // An invite admits to all of it.
    let invite = json!({"op": "invite", "kind": "service", "room": "build"});
    let code = w.ask(invite).await["code"].as_str().unwrap().to_owned();
    let mut guest = agent(&hub, 4, "guest").await;
    guest.redeem(&code).await;
    assert_eq!(texts(&guest.pull(ROOM, json!({})).await), ["secret", "job"]);
}

#[tokio::test]
async fn a_send_that_is_refused_joins_nobody() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    let large = json!([{"kind": "text", "text": "x".repeat(1_048_577)}]);
    assert_eq!(b.ask(to_service(large)).await["code"], "too_large");
    assert_eq!(b.pull(ROOM, json!({})).await["code"], "not_member");
    let unknown = json!({"op": "send", "target": {"kind": "service", "service": "nobody"},
                         "parts": []});
    assert_eq!(b.ask(unknown).await["code"], "unknown_service");
    w.open_channel("build").await;
    let by_channel =
        json!({"op": "send", "target": {"kind": "room", "room": "build"}, "parts": []});
    assert_eq!(b.ask(by_channel).await["code"], "not_member");
    let rooms = b.ask(json!({"op": "rooms"})).await;
    assert_eq!(rooms["rooms"], json!([]));
}

#[tokio::test]
async fn who_was_banned_comes_back_neither_by_sending_nor_by_serving() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, worker(&hub, 2).await);
    let held = request(&mut w, &["build"]).await;
    assert_eq!(b.ask(claim(&held)).await["claimed"], true);
    let ban = json!({"op": "remove_member", "room": ROOM, "agent": id(2), "ban": true});
    assert_eq!(w.ask(ban).await["type"], "removed");
    assert_eq!(b.ask(complete(&held)).await["code"], "not_member");
    assert_eq!(serve(&mut b, "build").await["code"], "not_authorized");
    assert_eq!(b.ask(job(&["build"])).await["code"], "not_authorized");
    // What it held is free at once.
    let taken = w.ask(claim(&held)).await;
    assert_eq!(
        (&taken["claimed"], &taken["take"]),
        (&json!(true), &json!(2))
    );
}

#[tokio::test]
async fn a_repeat_of_a_request_is_one_piece_of_work() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    let mut send = job(&["build"]);
    send["clientId"] = json!("k");
    let first = b.ask(send.clone()).await;
    assert_eq!(b.ask(send).await["id"], first["id"]);
    assert_eq!(
        waiting(&mut w, "build").await,
        [first["id"].as_str().unwrap()]
    );
}

#[tokio::test]
async fn work_goes_from_queue_to_done() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    let first = request(&mut b, &["other", "BUILD"]).await;
    request(&mut b, &[]).await;
    request(&mut b, &["other"]).await;
    let second = request(&mut b, &["build"]).await;
    assert_eq!(
        waiting(&mut w, "Build").await,
        [first.clone(), second.clone()]
    );
    let queued = w
        .ask(json!({"op": "queue", "room": ROOM, "role": "build", "limit": 1}))
        .await;
    assert_eq!(queued["room"], ROOM);
    let shown = queued["messages"][0].clone();
    let log = w.pull(ROOM, json!({"since": 0})).await;
    assert_eq!(shown, log["messages"][0], "as the log has it");

    let before = now_ms();
    let claimed = w.ask(claim(&first)).await;
    let lease = claimed["leaseUntil"].as_i64().unwrap();
    assert!((before + 300_000..=now_ms() + 300_000).contains(&lease));
    assert_eq!(
        claimed,
        json!({"type": "claimed", "room": ROOM, "message": first, "claimed": true,
               "leaseUntil": lease, "take": 1})
    );
    assert_eq!(waiting(&mut w, "build").await, [second]);
    let done = w.ask(complete(&first)).await;
    assert_eq!(
        done,
        json!({"type": "completed", "room": ROOM, "message": first, "completed": true})
    );
    let again = w.ask(claim(&first)).await;
    assert_eq!(
        again,
        json!({"type": "claimed", "room": ROOM, "message": first, "claimed": false})
    );
    assert_eq!(w.ask(complete(&first)).await["completed"], false);
    let log = w.pull(ROOM, json!({"since": 0})).await;
    assert_eq!(log["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_claim_that_is_not_due_changes_nothing() {
    let hub = TestHub::start().await;
    let (mut w, mut v, mut b) = (
        worker(&hub, 1).await,
        worker(&hub, 2).await,
        agent(&hub, 3, "ben").await,
    );
    let job = request(&mut b, &["build"]).await;
    let other = request(&mut b, &["other"]).await;
    let plain = request(&mut b, &[]).await;
    let malformed = to_service(json!([{"kind": "com.parler.dispatch", "role": 5}]));
    let malformed = b.ask(malformed).await["id"].as_str().unwrap().to_owned();
    for (who, message) in [
        ("w", other.as_str()),
        ("w", &plain),
        ("w", &malformed),
        ("w", "0199c2f0-0000-7000-8000-000000000001"),
        ("b", &job),
    ] {
        let socket = if who == "w" { &mut w } else { &mut b };
        let answer = socket.ask(claim(message)).await;
        assert_eq!(
            answer,
            json!({"type": "claimed", "room": ROOM, "message": message, "claimed": false}),
            "{who}"
        );
        assert_eq!(socket.ask(complete(message)).await["completed"], false);
    }
    assert!(waiting(&mut b, "build").await.is_empty(), "no worker");
    assert!(waiting(&mut w, "other").await.is_empty(), "not its role");
    w.ask(claim(&job)).await;
    let lost = v.ask(claim(&job)).await;
    assert_eq!(
        lost,
        json!({"type": "claimed", "room": ROOM, "message": job, "claimed": false,
               "holder": {"id": id(1), "name": "worker1"}})
    );
    assert_eq!(v.ask(complete(&job)).await["completed"], false);
}

#[tokio::test]
async fn a_worker_is_available_when_idle_or_waiting() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    let (first, second) = (
        request(&mut b, &["build"]).await,
        request(&mut b, &["build"]).await,
    );
    for status in ["working", "online", "Idle", "offline"] {
        is(&mut w, status).await;
        assert!(waiting(&mut w, "build").await.is_empty(), "{status}");
        assert_eq!(w.ask(claim(&first)).await["claimed"], false, "{status}");
    }
    for (status, job) in [("waiting", &first), ("idle", &second)] {
        is(&mut w, status).await;
        assert_eq!(w.ask(claim(job)).await["claimed"], true, "{status}");
    }
    is(&mut w, "working").await;
    let mut renewal = claim(&first);
    renewal["leaseSecs"] = json!(3600);
    let renewed = w.ask(renewal).await;
    assert_eq!(
        (&renewed["claimed"], &renewed["take"]),
        (&json!(true), &json!(1))
    );
    assert!(renewed["leaseUntil"].as_i64().unwrap() > now_ms() + 3_000_000);
}

#[tokio::test]
async fn a_lease_is_clamped() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    for (asked, secs) in [
        (json!(0), 15),
        (json!(100), 100),
        (json!(u64::MAX), 3600),
        (Value::Null, 300),
    ] {
        let mut frame = claim(&request(&mut b, &["build"]).await);
        frame["leaseSecs"] = asked;
        let before = now_ms();
        let until = w.ask(frame).await["leaseUntil"].as_i64().unwrap();
        let range = before + secs * 1000..=now_ms() + secs * 1000;
        assert!(range.contains(&until), "{secs}");
    }
}

#[tokio::test]
async fn a_late_worker_cannot_touch_what_was_taken_since() {
    let hub = TestHub::start().await;
    let (mut w, mut v, mut b) = (
        worker(&hub, 1).await,
        worker(&hub, 2).await,
        agent(&hub, 3, "ben").await,
    );
    let job = request(&mut b, &["build"]).await;
    // A claim of a minute ago, whose lease was shorter.
    let work = Work {
        agent: AgentId::parse(&id(1)).unwrap(),
        room: RoomName::new(ROOM),
        message: job.clone(),
        take: None,
        now: now_ms() - 60_000,
    };
    let old = hub.state().store().claim(work, 30_000).await.unwrap();
    assert!(
        matches!(old, ClaimOutcome::Claimed { take: 1, .. }),
        "{old:?}"
    );
    assert_eq!(
        waiting(&mut v, "build").await,
        std::slice::from_ref(&job),
        "offered again"
    );
    assert_eq!(w.ask(complete(&job)).await["completed"], false, "too late");
    let mut renewal = claim(&job);
    renewal["take"] = json!(1);
    assert_eq!(w.ask(renewal.clone()).await["claimed"], false);
    assert_eq!(v.ask(claim(&job)).await["take"], 2);
    assert_eq!(w.ask(claim(&job)).await["claimed"], false);
    // Not even the same agent by its earlier take.
    assert_eq!(v.ask(renewal).await["claimed"], false);
    let mut end = complete(&job);
    for take in [0, 1, 3] {
        end["take"] = json!(take);
        assert_eq!(v.ask(end.clone()).await["completed"], false, "{take}");
    }
    end["take"] = json!(2);
    assert_eq!(v.ask(end).await["completed"], true);
}

#[tokio::test]
async fn work_ends_in_one_of_three_ways_and_for_good() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    for status in ["done", "failed", "cancelled"] {
        let job = request(&mut b, &["build"]).await;
        w.ask(claim(&job)).await;
        let mut end = complete(&job);
        for between in ["accepted", "working", "awaiting"] {
            end["status"] = json!(between);
            assert_eq!(w.ask(end.clone()).await["code"], "not_authorized");
        }
        end["status"] = json!("ready");
        assert_eq!(w.ask(end.clone()).await["code"], "bad_frame");
        end["status"] = json!(status);
        assert_eq!(w.ask(end).await["completed"], true, "{status}");
        assert_eq!(w.ask(claim(&job)).await["claimed"], false);
    }
    assert!(waiting(&mut w, "build").await.is_empty());
}

#[tokio::test]
async fn the_ops_are_for_members_of_service_rooms() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    w.open_channel("r").await;
    let ops = |room: &str| {
        [
            json!({"op": "queue", "room": room, "role": "build"}),
            json!({"op": "claim", "room": room, "message": "m"}),
            json!({"op": "complete", "room": room, "message": "m", "status": "done"}),
        ]
    };
    for room in [ROOM, "r", "nowhere"] {
        for frame in ops(room) {
            assert_eq!(b.ask(frame.clone()).await["code"], "not_member", "{frame}");
        }
    }
    let [queue, claim, complete] = ops("r");
    let refused = w.ask(queue).await;
    assert_eq!(refused["code"], "not_authorized");
    assert_eq!(refused["message"], "'r' is not a service room");
    // Elsewhere these two are about turns.
    for frame in [claim, complete] {
        assert_eq!(w.ask(frame).await["code"], "unknown_turn");
    }
    let long = "x".repeat(4097);
    for (op, field) in [
        ("serve", "service"),
        ("queue", "role"),
        ("claim", "message"),
        ("complete", "note"),
    ] {
        let mut frame = json!({"op": op, "room": ROOM, "message": "m", "status": "done",
                               "role": "build"});
        frame[field] = json!(long);
        assert_eq!(w.ask(frame).await["code"], "too_large", "{op}.{field}");
    }
}

#[tokio::test]
async fn a_service_counts_among_the_rooms_that_one_may_own() {
    let hub = TestHub::with(|c| c.limits.max_owned_rooms = 1).await;
    let mut a = agent(&hub, 1, "ann").await;
    a.open_channel("r").await;
    assert_eq!(serve(&mut a, "build").await["code"], "at_capacity");
    worker(&hub, 2).await;
    assert_eq!(
        serve(&mut a, "build").await["type"],
        "joined",
        "somebody else's"
    );
}

#[tokio::test]
async fn a_message_is_dispatched_to_a_bounded_number_of_roles() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    let mut roles = vec!["other"; 63];
    roles.push("build");
    request(&mut b, &roles).await;
    assert_eq!(waiting(&mut w, "build").await.len(), 1);
    roles.push("one-more");
    assert_eq!(b.ask(job(&roles)).await["code"], "too_large");
}

#[tokio::test]
async fn a_queue_has_fifty_by_default_and_two_hundred_at_most() {
    let hub = TestHub::with(|c| {
        c.limits.max_ops_per_min = 0;
        c.limits.max_sends_per_min = 0;
    })
    .await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 2, "ben").await);
    for _ in 0..203 {
        b.post(job(&["build"])).await;
    }
    for _ in 0..203 {
        assert_eq!(b.reply().await["type"], "sent");
    }
    assert_eq!(waiting(&mut w, "build").await.len(), 50);
    let more = json!({"op": "queue", "room": ROOM, "role": "build", "limit": 5000});
    let more = w.ask(more).await;
    assert_eq!(more["messages"].as_array().unwrap().len(), 200);
}

#[tokio::test]
async fn one_of_many_claimers_wins() {
    const WORKERS: u8 = 8;
    let hub = TestHub::start().await;
    let mut workers = Vec::new();
    for n in 1..=WORKERS {
        workers.push(worker(&hub, n).await);
    }
    let mut b = agent(&hub, 20, "ben").await;
    for round in 0..20 {
        let job = request(&mut b, &["build"]).await;
        for socket in &mut workers {
            socket.post(claim(&job)).await;
        }
        let mut won = 0;
        for socket in &mut workers {
            let answer = socket.reply().await;
            won += usize::from(answer["claimed"] == true);
        }
        assert_eq!(won, 1, "round {round}");
    }
}

#[tokio::test]
async fn claims_survive_a_restart() {
    let hub = TestHub::start().await;
    let (mut w, mut b) = (worker(&hub, 1).await, agent(&hub, 3, "ben").await);
    worker(&hub, 2).await;
    let (held, ended, open) = (
        request(&mut b, &["build"]).await,
        request(&mut b, &["build"]).await,
        request(&mut b, &["build"]).await,
    );
    w.ask(claim(&held)).await;
    w.ask(claim(&ended)).await;
    w.ask(complete(&ended)).await;
    let hub = hub.restart().await;
    let (mut w, mut v) = (
        agent(&hub, 1, "worker1").await,
        agent(&hub, 2, "worker2").await,
    );
    assert_eq!(waiting(&mut v, "build").await, [open]);
    assert_eq!(v.ask(claim(&held)).await["holder"]["id"], id(1));
    assert_eq!(v.ask(claim(&ended)).await["claimed"], false);
    let mut end = complete(&held);
    end["take"] = json!(1);
    assert_eq!(w.ask(end).await["completed"], true);
}

#[tokio::test]
async fn a_deleted_service_leaves_neither_workers_nor_work() {
    let hub = TestHub::start().await;
    let (mut w, mut v) = (worker(&hub, 1).await, worker(&hub, 2).await);
    let mut b = agent(&hub, 3, "ben").await;
    let (held, open) = (
        request(&mut b, &["build"]).await,
        request(&mut b, &["build"]).await,
    );
    v.ask(claim(&held)).await;
    w.ask(json!({"op": "delete_room", "room": ROOM})).await;
    assert_eq!(b.ask(job(&["build"])).await["code"], "unknown_service");
    serve(&mut b, "build").await;
    assert!(waiting(&mut b, "build").await.is_empty());
    assert_eq!(v.ask(job(&[])).await["room"], ROOM, "as a requester");
    let roster = v.ask(json!({"op": "roster", "room": ROOM})).await;
    let served = roster["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry.get("serviceRole").is_some())
        .count();
    assert_eq!(served, 1, "{roster}");
    for message in [&held, &open] {
        assert_eq!(b.ask(claim(message)).await["claimed"], false);
    }
}

#[tokio::test]
async fn a_dispatch_in_a_channel_is_no_service_work() {
    let hub = TestHub::start().await;
    let mut w = worker(&hub, 1).await;
    w.open_channel("r").await;
    let mut send = job(&["build"]);
    send["target"] = json!({"kind": "room", "room": "r"});
    let sent = w.ask(send).await;
    assert_eq!(sent["room"], "r");
    assert!(waiting(&mut w, "build").await.is_empty());
    assert_eq!(
        w.ask(claim(sent["id"].as_str().unwrap())).await["claimed"],
        false
    );
}
