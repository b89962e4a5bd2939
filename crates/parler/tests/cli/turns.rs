//! Turns on the command line: who has them, taking one, ending one, waiting for the end.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::env::{Done, Machine, PATIENCE};

/// A session of `planner`, `webdev` (frontend) and `tester`.
fn three(machine: &Machine) {
    let key = machine.open("auth");
    machine.ok(&[
        "session", "join", &key, "--as", "webdev", "--role", "frontend",
    ]);
    machine.ok(&["session", "join", &key, "--as", "tester"]);
}

/// Passes a turn to nobody in particular; its id.
fn offer(machine: &Machine, more: &[&str]) -> String {
    let args = ["handoff", "--as", "planner", "--next", "build the page"];
    let sent = machine.json(&[&args[..], more].concat());
    sent["id"].as_str().unwrap().to_owned()
}

fn listed(machine: &Machine, who: &str, more: &[&str]) -> Vec<Value> {
    let answer = machine.json(&[&["turns", "--as", who][..], more].concat());
    assert!(answer["rev"].is_i64(), "{answer}");
    answer["turns"].as_array().unwrap().clone()
}

#[test]
fn a_turn_is_taken_by_one_and_the_other_is_told_by_whom() {
    let machine = Machine::new();
    three(&machine);
    let id = offer(&machine, &[]);
    let table = machine.ok(&["turns", "--as", "webdev", "--mine"]);
    assert!(table.contains("open") && table.contains(&id), "{table}");
    assert!(!table.contains("build the page"), "{table}");
    let taken = machine.ok(&["turn", "take", &id, "--as", "webdev", "--lease", "60"]);
    assert!(
        taken.contains("build the page") && taken.contains("is yours for"),
        "{taken}"
    );
    let lost = machine.run(&["turn", "take", &id, "--as", "tester"]);
    assert_eq!(lost.code, 4, "{lost:?}");
    assert!(lost.err.contains("webdev has this turn"), "{lost:?}");
    let own = machine.run(&["turn", "take", &id, "--as", "planner"]);
    assert_eq!(own.code, 4, "its own offerer: {own:?}");
    let not_its = machine.run(&["turn", "done", &id, "--as", "tester"]);
    assert_eq!(not_its.code, 4, "{not_its:?}");
    assert!(not_its.err.contains("held by webdev"), "{not_its:?}");
    machine.ok(&["turn", "done", &id, "--as", "webdev", "--note", "merged"]);
    assert_eq!(listed(&machine, "planner", &[]), [] as [Value; 0]);
    let all = listed(&machine, "planner", &["--all"]);
    assert_eq!(
        (&all[0]["state"], &all[0]["note"]),
        (&"done".into(), &"merged".into())
    );
    let late = machine.run(&["turn", "take", &id, "--as", "tester"]);
    assert_eq!(late.code, 4, "{late:?}");
    assert!(late.err.contains("not open: done"), "{late:?}");
}

#[test]
fn a_turn_is_given_back_refused_and_withdrawn() {
    let machine = Machine::new();
    three(&machine);
    let id = offer(&machine, &["--for", "webdev"]);
    machine.ok(&["turn", "take", &id, "--as", "webdev"]);
    let lease = &listed(&machine, "webdev", &["--mine"])[0];
    let span = lease["leaseUntil"].as_i64().unwrap() - lease["takenAt"].as_i64().unwrap();
    assert_eq!(span, 3_600_000, "nothing renews it");
    machine.ok(&[
        "turn", "release", &id, "--as", "webdev", "--note", "no time",
    ]);
    let other = machine.run(&["turn", "decline", &id, "--as", "tester"]);
    assert_eq!(other.code, 4, "{other:?}");
    machine.ok(&["turn", "decline", &id, "--as", "webdev"]);
    let second = offer(&machine, &[]);
    let stranger = machine.run(&["turn", "cancel", &second, "--as", "tester"]);
    assert_eq!(stranger.code, 4, "{stranger:?}");
    machine.ok(&["turn", "cancel", &second, "--as", "planner"]);
    let states: Vec<Value> = listed(&machine, "planner", &["--all"])
        .into_iter()
        .map(|turn| turn["state"].clone())
        .collect();
    assert_eq!(states, ["cancelled", "declined"]);
    let unknown = machine.run(&["turn", "take", "none", "--as", "webdev"]);
    assert_eq!(unknown.code, 5, "{unknown:?}");
    let mut bad = machine.command(&["turn", "take", &second, "--as", "webdev"]);
    bad.env("PARLER_TURN_LEASE_SECS", "soon");
    let bad = Done::of(bad);
    assert_eq!(bad.code, 2, "{bad:?}");
}

#[test]
fn a_handoff_waits_for_the_end_of_its_turn() {
    let machine = Machine::new();
    three(&machine);
    for (act, code, outcome) in [("done", 0, "done"), ("fail", 1, "failed")] {
        let waiting = machine
            .command(&[
                "handoff", "--as", "planner", "--next", "go", "--wait", "--json",
            ])
            .spawn()
            .unwrap();
        let began = Instant::now();
        let id = loop {
            assert!(began.elapsed() < PATIENCE, "no turn came");
            match listed(&machine, "webdev", &["--mine"]).first() {
                Some(turn) => break turn["message"].as_str().unwrap().to_owned(),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        machine.ok(&["turn", "take", &id, "--as", "webdev"]);
        machine.ok(&["turn", act, &id, "--as", "webdev", "--note", "see log"]);
        let done = Done::from(waiting);
        assert_eq!(done.code, code, "{done:?}");
        let last: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
        assert_eq!(last["outcome"], outcome, "{last}");
        assert_eq!(last["turn"]["note"], "see log", "{last}");
    }
    let timed_out = machine.run(&["handoff", "--as", "planner", "--next", "go", "--wait", "1"]);
    assert_eq!(timed_out.code, 3, "{timed_out:?}");
    assert!(
        timed_out.out.contains("did not end in time"),
        "{timed_out:?}"
    );
    let expired = machine.run(&[
        "handoff",
        "--as",
        "planner",
        "--next",
        "go",
        "--wait",
        "--deadline",
        "1",
    ]);
    assert_eq!(expired.code, 1, "{expired:?}");
    assert!(expired.out.contains("expired"), "{expired:?}");
}

#[test]
fn who_hands_off_learns_at_once_whether_anybody_is_there() {
    let machine = Machine::new();
    three(&machine);
    let args = ["handoff", "--as", "planner", "--next", "go", "--for"];
    let to = |whom: &str| machine.ok(&[&args[..], &[whom, "--anyway"]].concat());
    let nobody = to("designer");
    assert!(
        nobody.contains("nobody can take it") && nobody.contains("designer"),
        "{nobody}"
    );
    assert!(to("webdev").contains("nobody who can take it is online"));
}

#[test]
fn a_room_has_settings_that_its_owner_changes() {
    let machine = Machine::new();
    three(&machine);
    let shown = machine.ok(&["room", "policy", "--as", "webdev"]);
    assert!(shown.contains("12 messages or 100 handoffs"), "{shown}");
    let set = [
        "room",
        "policy",
        "--hop-limit",
        "3",
        "--require-approval",
        "true",
    ];
    let refused = machine.run(&[&set[..], &["--as", "webdev"]].concat());
    assert_eq!(refused.code, 4, "{refused:?}");
    let policy = machine.json(&[&set[..], &["--as", "planner"]].concat());
    assert_eq!(
        (&policy["hopLimit"], &policy["requireApproval"]),
        (&3.into(), &true.into())
    );
    machine.ok(&["room", "guard", "reset", "--as", "planner"]);
    let id = machine.json(&["whoami", "--as", "tester"])["id"].clone();
    let id = id.as_str().unwrap();
    machine.ok(&["room", "bind-name", "webdev", id, "--as", "planner"]);
    let bad = machine.run(&["room", "bind-name", "webdev", "tester", "--as", "planner"]);
    assert_eq!(bad.code, 2, "{bad:?}");
    let turn = offer(&machine, &["--for", "webdev"]);
    let not_meant = machine.run(&["turn", "take", &turn, "--as", "webdev"]);
    assert_eq!(not_meant.code, 4, "{not_meant:?}");
}
