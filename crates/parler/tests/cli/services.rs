//! Services: serving, sending work, taking it and ending it.

use crate::env::{Machine, Running};

const REVIEW: &str = "svc.review";

/// `worker` serves `review`, and `planner` sent it a piece of work; its message.
fn work(machine: &Machine) -> String {
    let served = machine.ok(&["serve", "review", "--as", "worker"]);
    assert!(served.contains("no work waits"), "{served}");
    let sent = machine.json(&["send", "--role", "review", "branch auth", "--as", "planner"]);
    assert_eq!(sent["room"], REVIEW);
    sent["id"].as_str().unwrap().to_owned()
}

#[test]
fn work_is_listed_taken_and_ended_with_a_report() {
    let machine = Machine::new();
    let id = work(&machine);
    let listed = machine.ok(&["serve", "review", "--as", "worker"]);
    assert!(listed.contains("branch auth"), "{listed}");
    let take_it = format!("take it: parler task claim {REVIEW} {id}");
    assert!(listed.contains(&take_it), "{listed}");

    let claim = ["task", "claim", REVIEW, &id, "--as", "worker"];
    let claimed = machine.json(&claim);
    assert_eq!(
        (&claimed["claimed"], &claimed["take"]),
        (&true.into(), &1.into())
    );
    let none = machine.json(&["serve", "review", "--as", "worker"]);
    assert_eq!(none["messages"].as_array().unwrap().len(), 0);

    machine.ok(&["serve", "review", "--as", "other"]);
    let lost = machine.run(&["task", "claim", REVIEW, &id, "--as", "other"]);
    assert_eq!(lost.code, 4, "{lost:?}");
    assert!(lost.err.contains("worker has that work"), "{lost:?}");

    let renew = [
        "task", "renew", REVIEW, &id, "--lease", "900", "--as", "worker",
    ];
    assert!(
        machine
            .ok(&[&renew[..], &["--take", "1"]].concat())
            .contains("900 s")
    );
    let stale = machine.run(&[&renew[..], &["--take", "2"]].concat());
    assert_eq!(stale.code, 4, "{stale:?}");

    let done = [
        "task",
        "done",
        REVIEW,
        &id,
        "--note",
        "two remarks",
        "--as",
        "worker",
    ];
    let stale = machine.run(&[&done[..], &["--take", "2"]].concat());
    assert_eq!(stale.code, 4, "{stale:?}");
    let ended = machine.json(&[&done[..], &["--take", "1"]].concat());
    assert_eq!(
        (&ended["status"], &ended["task"]),
        (&"done".into(), &id.as_str().into())
    );
    let again = machine.run(&done);
    assert_eq!(again.code, 4, "{again:?}");

    let read = machine.json(&["recv", "--room", REVIEW, "--as", "planner"]);
    let messages = read["messages"].as_array().unwrap();
    assert_eq!(
        messages.len(),
        2,
        "one report, and none for what changed nothing: {read}"
    );
    let report = &messages[1];
    assert_eq!(
        (&report["replyTo"], &report["signature"]),
        (&id.as_str().into(), &"valid".into())
    );
    assert_eq!(report["parts"][0]["kind"], "com.parler.task");
    assert_eq!(report["parts"][0]["note"], "two remarks");
}

#[test]
fn who_waits_for_work_is_shown_it() {
    let machine = Machine::new();
    machine.ok(&["serve", "review", "--as", "worker"]);
    let mut waits =
        Running::start(machine.command(&["serve", "review", "--once", "--json", "--as", "worker"]));
    machine.ok(&[
        "send",
        "--service",
        "review",
        "just words",
        "--as",
        "planner",
    ]);
    machine.ok(&[
        "send",
        "--service",
        "review",
        "--role",
        "Review",
        "branch auth",
        "--as",
        "planner",
    ]);
    let line = waits.line();
    assert!(
        line.contains("branch auth") && !line.contains("just words"),
        "{line}"
    );
    assert!(waits.child.wait().unwrap().success());
}

#[test]
fn a_report_without_work_is_a_message_in_the_session() {
    let machine = Machine::new();
    machine.session("auth");
    let sent = machine.json(&[
        "task", "working", "--task", "login", "--tokens", "12", "--as", "planner",
    ]);
    assert_eq!(
        (&sent["room"], &sent["status"]),
        (&"auth".into(), &"working".into())
    );
    let nothing = machine.run(&["task", "claim", "--as", "planner"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
    let nobody = machine.run(&["send", "--service", "nobody", "hello", "--as", "planner"]);
    assert_eq!(nobody.code, 5, "{nobody:?}");
}
