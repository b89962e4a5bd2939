//! Acting on turns, over literal JSON: who may, what comes of it, and in which order it is refused.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

use parler_hub::now_ms;
use parler_testkit::{RawSocket, TestHub, keys};
use serde_json::{Value, json};

fn id(n: u8) -> String {
    keys(n).id().to_string()
}

/// Ann owns the room; ben and cat are web developers, dan is not; eve is outside.
struct Cast {
    ann: RawSocket,
    ben: RawSocket,
    cat: RawSocket,
    dan: RawSocket,
    eve: RawSocket,
}

async fn cast(hub: &TestHub) -> Cast {
    let login = async |n, name, role| RawSocket::login(hub.addr(), &keys(n), name, role).await;
    let mut cast = Cast {
        ann: login(1, "ann", Some("planner")).await,
        ben: login(2, "ben", Some("webdev")).await,
        cat: login(3, "cat", Some("webdev")).await,
        dan: login(4, "dan", None).await,
        eve: login(5, "eve", None).await,
    };
    let code = cast.ann.open_channel("r").await;
    for socket in [&mut cast.ben, &mut cast.cat, &mut cast.dan] {
        assert_eq!(socket.redeem(&code).await["type"], "joined");
    }
    cast
}

fn message(to: Option<&str>) -> Value {
    let mut part = json!({"kind": "com.parler.handoff", "next": "go on", "summary": "half done"});
    if let Some(to) = to {
        part["to"] = to.into();
    }
    json!({"op": "send", "target": {"kind": "room", "room": "r"}, "parts": [part]})
}

/// Offers a turn; its message.
async fn offer(by: &mut RawSocket, to: Option<&str>) -> String {
    let sent = by.ask(message(to)).await;
    assert_eq!(sent["turn"]["state"], "open", "{sent}");
    sent["id"].as_str().unwrap().to_owned()
}

fn act(op: &str, message: &str) -> Value {
    json!({"op": op, "room": "r", "message": message})
}

fn with(mut frame: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        frame[key] = value.clone();
    }
    frame
}

async fn claim(by: &mut RawSocket, message: &str) -> Value {
    by.ask(act("claim", message)).await
}

async fn complete(by: &mut RawSocket, message: &str, fields: Value) -> Value {
    let frame = with(act("complete", message), json!({"status": "done"}));
    by.ask(with(frame, fields)).await
}

/// The row of one turn, with its history.
async fn row(by: &mut RawSocket, message: &str) -> Value {
    let found = by.ask(json!({"op": "turns", "message": message})).await;
    assert_eq!(found["type"], "turns", "{found}");
    found["turns"][0].clone()
}

#[tokio::test]
async fn a_handoff_is_a_turn_and_everything_else_looks_as_before() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    let plain = c.ann.say("r", "hello").await;
    assert!(plain.get("turn").is_none(), "{plain}");
    let sent = c.ann.ask(message(Some(" Ben"))).await;
    let turn = &sent["turn"];
    assert_eq!(turn["message"], sent["id"]);
    assert_eq!(turn["seq"], sent["seq"]);
    assert_eq!(
        (&turn["room"], &turn["to"], &turn["next"], &turn["summary"]),
        (
            &json!("r"),
            &json!(" Ben"),
            &json!("go on"),
            &json!("half done")
        )
    );
    assert_eq!(
        turn["from"],
        json!({"id": id(1), "name": "ann", "role": "planner"})
    );
    assert_eq!((&turn["take"], &turn["seenBy"]), (&json!(0), &json!([])));
    for absent in [
        "takenBy",
        "leaseUntil",
        "finishedAt",
        "note",
        "history",
        "deadline",
    ] {
        assert!(turn.get(absent).is_none(), "{absent}: {turn}");
    }
    let pulled = c.ben.pull("r", json!({})).await;
    let mut keys: Vec<_> = pulled["messages"][1].as_object().unwrap().keys().collect();
    keys.sort_unstable();
    assert_eq!(keys, ["from", "id", "parts", "room", "seq", "ts"]);
    assert!(pulled.get("guard").is_none());
    // The same send again is answered with the same turn.
    let keyed = with(message(None), json!({"clientId": "k"}));
    let first = c.ann.ask(keyed.clone()).await;
    let again = c.ann.ask(keyed).await;
    assert_eq!(first["turn"]["message"], again["turn"]["message"]);
    let all = c.ann.ask(json!({"op": "turns", "state": "all"})).await;
    assert_eq!(all["turns"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn refusals_come_in_their_order() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    let plain = c.ann.say("r", "x").await["id"].as_str().unwrap().to_owned();
    let turn = offer(&mut c.ann, Some("ben")).await;
    c.ann.open_channel("other").await;
    let acts = ["claim", "complete", "release", "decline", "cancel"];
    let frame = |op: &str, message: &str| with(act(op, message), json!({"status": "done"}));
    for op in acts {
        let outside = c.eve.ask(frame(op, &turn)).await;
        assert_eq!(outside["code"], "not_member", "{op}");
        for message in [&plain, "none"] {
            let unknown = c.dan.ask(frame(op, message)).await;
            assert_eq!(unknown["code"], "unknown_turn", "{op} {message}");
        }
        let elsewhere = with(frame(op, &turn), json!({"room": "other"}));
        assert_eq!(c.ann.ask(elsewhere).await["code"], "unknown_turn", "{op}");
    }
    assert_eq!(claim(&mut c.ann, &turn).await["code"], "not_eligible");
    assert_eq!(claim(&mut c.dan, &turn).await["code"], "not_eligible");
    assert_eq!(c.dan.ask(frame("cancel", &turn)).await["code"], "not_owner");
    for (op, answer) in [
        ("complete", "completed"),
        ("release", "released"),
        ("decline", "declined"),
    ] {
        let nothing = c.dan.ask(frame(op, &turn)).await;
        assert_eq!(
            nothing,
            json!({"type": answer, "room": "r", "message": turn, answer: false})
        );
    }
    let working = with(frame("complete", &turn), json!({"status": "working"}));
    assert_eq!(c.ben.ask(working).await["code"], "not_authorized");
    let long = with(frame("release", &turn), json!({"note": "x".repeat(5000)}));
    assert_eq!(c.ben.ask(long).await["code"], "too_large");
    assert_eq!(
        row(&mut c.ben, &turn).await["state"],
        "open",
        "nothing changed"
    );
}

#[tokio::test]
async fn a_claim_wins_or_names_the_holder() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    let turn = offer(&mut c.ann, None).await;
    let before = now_ms();
    let won = claim(&mut c.ben, &turn).await;
    assert_eq!((&won["claimed"], &won["take"]), (&json!(true), &json!(1)));
    let until = won["leaseUntil"].as_i64().unwrap();
    assert!((before + 300_000..=now_ms() + 300_000).contains(&until));
    let lost = claim(&mut c.cat, &turn).await;
    assert_eq!(lost["claimed"], false);
    assert_eq!(
        lost["holder"],
        json!({"id": id(2), "name": "ben", "role": "webdev"})
    );
    assert!(lost.get("leaseUntil").is_none() && lost.get("take").is_none());
    for (secs, span) in [(1, 30_000), (99_999, 3_600_000)] {
        let renew = with(act("claim", &turn), json!({"leaseSecs": secs, "take": 1}));
        let before = now_ms();
        let renewed = c.ben.ask(renew).await;
        assert_eq!(
            (&renewed["claimed"], &renewed["take"]),
            (&json!(true), &json!(1))
        );
        let until = renewed["leaseUntil"].as_i64().unwrap();
        assert!((before + span..=now_ms() + span).contains(&until), "{secs}");
    }
    for take in [0, 2] {
        let wrong = c
            .ben
            .ask(with(act("claim", &turn), json!({"take": take})))
            .await;
        assert_eq!(wrong["claimed"], false, "{take}");
    }
    let taken = row(&mut c.dan, &turn).await;
    assert_eq!(
        (&taken["state"], &taken["take"]),
        (&json!("taken"), &json!(1))
    );
    assert_eq!(taken["takenBy"]["id"], id(2));
    let open = offer(&mut c.ann, None).await;
    let renewal = with(act("claim", &open), json!({"take": 0}));
    let renewal = c.ben.ask(renewal).await;
    assert_eq!(renewal["claimed"], false, "there is nothing to renew");
    assert!(renewal.get("holder").is_none());
}

#[tokio::test]
async fn only_the_present_take_ends_a_turn() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    let turn = offer(&mut c.ann, None).await;
    claim(&mut c.ben, &turn).await;
    assert_eq!(
        complete(&mut c.cat, &turn, json!({})).await["completed"],
        false
    );
    for take in [0, 2] {
        let late = complete(&mut c.ben, &turn, json!({"take": take})).await;
        assert_eq!(late["completed"], false);
    }
    let result = "a".repeat(64);
    let fields = json!({"take": 1, "note": "all green", "result": result});
    let done = complete(&mut c.ben, &turn, fields).await;
    assert_eq!(
        done,
        json!({"type": "completed", "room": "r", "message": turn, "completed": true})
    );
    let ended = row(&mut c.ann, &turn).await;
    assert_eq!(
        (&ended["state"], &ended["note"], &ended["result"]),
        (&json!("done"), &json!("all green"), &json!(result))
    );
    assert!(ended["finishedAt"].is_i64() && ended.get("leaseUntil").is_none());
    let history = ended["history"].as_array().unwrap();
    let steps: Vec<_> = history
        .iter()
        .map(|t| (t["by"]["name"].clone(), t["from"].clone(), t["to"].clone()))
        .collect();
    assert_eq!(
        steps,
        [
            (json!("ben"), json!("open"), json!("taken")),
            (json!("ben"), json!("taken"), json!("done"))
        ]
    );
    assert_eq!(claim(&mut c.ben, &turn).await["claimed"], false);
    assert_eq!(
        complete(&mut c.ben, &turn, json!({})).await["completed"],
        false
    );
    for (status, state) in [("failed", "failed"), ("cancelled", "cancelled")] {
        let turn = offer(&mut c.ann, None).await;
        claim(&mut c.ben, &turn).await;
        // An old client sends no token: it is judged by its id.
        let ended = complete(&mut c.ben, &turn, json!({"status": status})).await;
        assert_eq!(ended["completed"], true);
        assert_eq!(row(&mut c.ann, &turn).await["state"], state);
    }
}

#[tokio::test]
async fn a_turn_is_given_back_refused_and_withdrawn() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    let turn = offer(&mut c.ann, Some("ben")).await;
    claim(&mut c.ben, &turn).await;
    let wrong = with(act("release", &turn), json!({"take": 0}));
    assert_eq!(c.ben.ask(wrong).await["released"], false);
    let back = with(
        act("release", &turn),
        json!({"take": 1, "note": "not today"}),
    );
    assert_eq!(
        c.ben.ask(back).await,
        json!({"type": "released", "room": "r", "message": turn, "released": true})
    );
    let again = claim(&mut c.ben, &turn).await;
    assert_eq!(again["take"], 2);
    assert_eq!(c.ben.ask(act("decline", &turn)).await["declined"], false);
    c.ben.ask(act("release", &turn)).await;
    assert_eq!(
        c.ben.ask(act("decline", &turn)).await,
        json!({"type": "declined", "room": "r", "message": turn, "declined": true})
    );
    for to in [None, Some("webdev")] {
        let turn = offer(&mut c.ann, to).await;
        assert_eq!(c.ben.ask(act("decline", &turn)).await["declined"], false);
    }
    // The offerer's, or the owner's, and a claim does not stop it.
    let turn = offer(&mut c.cat, None).await;
    claim(&mut c.ben, &turn).await;
    assert_eq!(c.ben.ask(act("cancel", &turn)).await["code"], "not_owner");
    assert_eq!(
        c.ann.ask(act("cancel", &turn)).await,
        json!({"type": "cancelled", "room": "r", "message": turn, "cancelled": true})
    );
    assert_eq!(c.cat.ask(act("cancel", &turn)).await["cancelled"], false);
    let turn = offer(&mut c.cat, None).await;
    assert_eq!(c.cat.ask(act("cancel", &turn)).await["cancelled"], true);
}

#[tokio::test]
async fn a_deadline_is_bounded_and_ends_an_open_turn() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    for secs in [json!(0), json!(31_536_001), json!(-1), json!("1")] {
        let refused = c
            .ann
            .ask(with(message(None), json!({"deadlineSecs": secs})))
            .await;
        assert_eq!(refused["code"], "bad_frame", "{secs}");
    }
    let short = with(message(None), json!({"deadlineSecs": 1}));
    let sent = c.ann.ask(short.clone()).await;
    let turn = sent["id"].as_str().unwrap().to_owned();
    let (offered, ends) = (&sent["turn"]["offeredAt"], &sent["turn"]["deadline"]);
    assert_eq!(ends.as_i64().unwrap() - offered.as_i64().unwrap(), 1000);
    let sent = c.ann.ask(short).await;
    let taken = sent["id"].as_str().unwrap().to_owned();
    assert_eq!(claim(&mut c.ben, &taken).await["claimed"], true);
    let mut rev = json!(0);
    loop {
        let query = json!({"op": "turns", "message": turn, "waitSecs": 60, "after": rev});
        let found = c.cat.ask(query).await;
        rev = found["rev"].clone();
        if found["turns"][0]["state"] == "expired" {
            break;
        }
    }
    assert_eq!(claim(&mut c.ben, &turn).await["claimed"], false);
    let taken = row(&mut c.ben, &taken).await;
    assert_eq!(taken["state"], "taken");
    assert!(taken.get("deadline").is_none(), "it ended with the take");
}

#[tokio::test]
async fn a_reply_of_a_client_without_the_ledger_counts() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    let reply = |turn: &str, part: Value| json!({"op": "send", "target": {"kind": "room", "room": "r"}, "replyTo": turn, "parts": [part]});
    let task =
        |status: &str| json!({"kind": "com.parler.task", "status": status, "note": "see log"});
    let turn = offer(&mut c.ann, Some("ben")).await;
    c.cat.ask(reply(&turn, task("done"))).await;
    c.ben.ask(reply(&turn, task("working"))).await;
    c.ben.ask(reply(&turn, task("cancelled"))).await;
    assert_eq!(row(&mut c.ann, &turn).await["state"], "open");
    c.ben.ask(reply(&turn, task("failed"))).await;
    let failed = row(&mut c.ann, &turn).await;
    assert_eq!(
        (&failed["state"], &failed["take"], &failed["note"]),
        (&json!("failed"), &json!(1), &json!("see log"))
    );
    assert_eq!(failed["history"].as_array().unwrap().len(), 2);
    // Passing it on ends it too.
    let turn = offer(&mut c.ann, None).await;
    let on = json!({"kind": "com.parler.handoff", "next": "more", "to": "cat"});
    assert_eq!(c.ben.ask(reply(&turn, on)).await["turn"]["state"], "open");
    let passed = row(&mut c.ann, &turn).await;
    assert_eq!(
        (
            &passed["state"],
            &passed["note"],
            &passed["takenBy"]["name"]
        ),
        (&json!("done"), &json!("passed on"), &json!("ben"))
    );
    // A report by somebody else leaves a taken turn alone; a plain reply of the holder is noted.
    let turn = offer(&mut c.ann, None).await;
    claim(&mut c.ben, &turn).await;
    c.cat.ask(reply(&turn, task("done"))).await;
    let text = json!({"kind": "text", "text": "here you are"});
    c.cat.ask(reply(&turn, text.clone())).await;
    assert!(row(&mut c.ann, &turn).await.get("answeredAt").is_none());
    c.ben.ask(reply(&turn, text)).await;
    let answered = row(&mut c.ann, &turn).await;
    assert_eq!(answered["state"], "taken");
    assert!(answered["answeredAt"].is_i64());
}

#[tokio::test]
async fn turns_are_filtered_and_bounded() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    c.ann.open_channel("other").await;
    let first = offer(&mut c.ann, Some("ben")).await;
    let second = offer(&mut c.ann, None).await;
    let third = offer(&mut c.ben, None).await;
    claim(&mut c.cat, &second).await;
    complete(&mut c.cat, &second, json!({})).await;
    let ids = |found: &Value| -> Vec<String> {
        let turns = found["turns"]
            .as_array()
            .unwrap_or_else(|| panic!("{found}"));
        let id = |t: &Value| t["message"].as_str().unwrap().to_owned();
        turns.iter().map(id).collect()
    };
    for (query, expected) in [
        (json!({}), vec![&third, &first]),
        (
            json!({"state": "active", "room": "r"}),
            vec![&third, &first],
        ),
        (json!({"state": "all"}), vec![&third, &second, &first]),
        (json!({"state": "done"}), vec![&second]),
        (json!({"mine": true}), vec![&first]),
        (json!({"state": "all", "limit": 1}), vec![&third]),
        (json!({"limit": 0}), vec![]),
    ] {
        let found = c.ben.ask(with(json!({"op": "turns"}), query.clone())).await;
        assert_eq!(ids(&found).iter().collect::<Vec<_>>(), expected, "{query}");
        let more = query.get("limit").is_some();
        assert_eq!(found.get("more"), more.then_some(&json!(true)), "{query}");
        assert!(found["rev"].is_i64());
    }
    let nonsense = json!({"op": "turns", "state": "lost"});
    assert_eq!(c.ben.ask(nonsense).await["code"], "bad_frame");
    let foreign = json!({"op": "turns", "room": "other"});
    assert_eq!(c.ben.ask(foreign).await["code"], "not_member");
    let outside = c.eve.ask(json!({"op": "turns", "message": first})).await;
    assert_eq!(ids(&outside), [""; 0], "no room of hers");
    // The cursor that is stored counts, not what was served.
    c.ben.pull("r", json!({"ack": 0})).await;
    assert_eq!(row(&mut c.ann, &first).await["seenBy"], json!([]));
    c.ben.pull("r", json!({})).await;
    let seen = row(&mut c.ann, &first).await["seenBy"].clone();
    assert_eq!(
        seen,
        json!([{"id": id(2), "name": "ben", "role": "webdev"}])
    );
}

#[tokio::test]
async fn a_name_means_who_used_it_first_unless_the_owner_says_otherwise() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    let mut twin = RawSocket::login(hub.addr(), &keys(6), "Ben", None).await;
    let code = c.ann.open_channel("r").await;
    twin.redeem(&code).await;
    let turn = offer(&mut c.ann, Some("ben")).await;
    assert_eq!(claim(&mut twin, &turn).await["code"], "not_eligible");
    assert_eq!(row(&mut c.ann, &turn).await["audience"]["eligible"], 1);
    let bind =
        |agent: u8| json!({"op": "bind_name", "room": "r", "name": " BEN ", "agent": id(agent)});
    assert_eq!(c.ben.ask(bind(2)).await["code"], "not_owner");
    assert_eq!(c.eve.ask(bind(2)).await["code"], "not_member");
    assert_eq!(c.ann.ask(bind(5)).await["code"], "not_member");
    let nobody = with(bind(6), json!({"agent": "nobody"}));
    assert_eq!(c.ann.ask(nobody).await["code"], "not_member");
    let reserved = with(bind(6), json!({"name": "system"}));
    assert_eq!(c.ann.ask(reserved).await["code"], "bad_frame");
    assert_eq!(
        c.ann.ask(bind(6)).await,
        json!({"type": "name_bound", "room": "r", "name": "BEN", "agent": id(6)})
    );
    assert_eq!(claim(&mut c.ben, &turn).await["code"], "not_eligible");
    assert_eq!(claim(&mut twin, &turn).await["claimed"], true);
    // Its turn is open again when it leaves, and the name means the other one.
    twin.ask(json!({"op": "leave", "room": "r"})).await;
    let left = row(&mut c.ann, &turn).await;
    assert_eq!(
        (&left["state"], &left["note"]),
        (&json!("open"), &json!("left"))
    );
    assert_eq!(claim(&mut c.ben, &turn).await["take"], 2);
    assert_eq!(claim(&mut c.ben, &turn).await["claimed"], true);
}

#[tokio::test]
async fn a_room_has_settings_that_its_owner_sets() {
    let hub = TestHub::start().await;
    let mut c = cast(&hub).await;
    let policy = |fields: Value| with(json!({"op": "room_policy", "room": "r"}), fields);
    let shown = |hop: u32, handoff: u32, gated: bool| {
        json!({"type": "room_policy", "room": "r", "hopLimit": hop, "handoffHopLimit": handoff,
            "requireApproval": gated})
    };
    assert_eq!(c.ben.ask(policy(json!({}))).await, shown(12, 100, false));
    assert_eq!(c.eve.ask(policy(json!({}))).await["code"], "not_member");
    for fields in [
        json!({"hopLimit": 1}),
        json!({"reset": true}),
        json!({"requireApproval": true}),
    ] {
        assert_eq!(c.ben.ask(policy(fields)).await["code"], "not_owner");
    }
    let code = c.ann.open_channel("r").await;
    let set = policy(json!({"hopLimit": 3, "requireApproval": true}));
    assert_eq!(c.ann.ask(set).await, shown(3, 100, true));
    assert_eq!(c.eve.redeem(&code).await["type"], "join_pending");
    let set = policy(json!({"handoffHopLimit": 9, "requireApproval": false}));
    assert_eq!(c.ann.ask(set).await, shown(3, 9, false));
    assert_eq!(c.eve.redeem(&code).await["type"], "joined");
}
