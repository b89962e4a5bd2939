//! Two agents in one session, each by `--as` from a plain shell.

use crate::env::{Machine, Running};

#[test]
fn a_fresh_machine_opens_a_session_and_prints_its_key() {
    let machine = Machine::new();
    let args = ["session", "open", "--as", "planner", "--topic", "auth"];
    let shown = machine.ok(&[&args[..], &["--context", "see docs/auth.md"]].concat());
    assert!(
        shown.starts_with("session 'auth' is open, you are planner in it\n"),
        "{shown}"
    );
    let key = shown
        .lines()
        .find_map(|line| line.strip_prefix("KEY: "))
        .unwrap();
    let (code, hub) = key.split_once('@').unwrap();
    assert_eq!(code.len(), 8);
    assert!(hub.starts_with("parler://127.0.0.1:"), "{hub}");
    assert!(shown.contains(&format!("parler session join {key} --as NAME --role ROLE")));
    assert!(machine.hub_pid().is_some());
}

#[test]
fn the_turn_reaches_a_watcher_with_the_banner_first() {
    let machine = Machine::new();
    machine.session("auth");
    let watcher = Running::start(machine.command(&["recv", "--as", "webdev", "--watch"]));
    let args = [
        "handoff",
        "--as",
        "planner",
        "--for",
        "webdev",
        "--summary",
        "API done",
    ];
    let said = machine.ok(&[&args[..], &["--next", "build the login page"]].concat());
    assert!(
        said.starts_with("handed off to webdev in session 'auth' ["),
        "{said}"
    );
    let lines = watcher.until("🤝 handoff → webdev");
    assert_eq!(lines[0], "🤝 HANDOFF TO YOU", "{lines:#?}");
    assert!(lines[1].contains("build the login page"), "{lines:#?}");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("planner") && line.contains("✓")),
        "{lines:#?}"
    );
}

#[test]
fn a_late_join_reads_the_backlog_in_order_and_is_caught_up() {
    let machine = Machine::new();
    let key = machine.open("auth");
    for n in 1..=20 {
        machine.ok(&["send", "--as", "planner", &format!("step {n}")]);
    }
    let shown = machine.ok(&["session", "join", &key, "--as", "webdev"]);
    let body: Vec<&str> = shown.lines().filter(|line| line.starts_with('[')).collect();
    assert!(
        body[0].contains("📋 session context (from planner):"),
        "{shown}"
    );
    let steps: Vec<&str> = body[1..]
        .iter()
        .filter_map(|line| line.split(": ").nth(1))
        .collect();
    let expected: Vec<String> = (6..=20).map(|n| format!("step {n}")).collect();
    assert_eq!(steps, expected, "{shown}");
    assert!(shown.contains("5 earlier messages left out"), "{shown}");
    assert!(
        machine
            .ok(&["recv", "--as", "webdev"])
            .contains("no new messages")
    );

    let full = machine.json(&["session", "join", &key, "--as", "reviewer", "--full"]);
    let seqs: Vec<i64> = full["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["seq"].as_i64().unwrap())
        .collect();
    assert!(seqs.len() >= 21 && seqs.is_sorted(), "{seqs:?}");
}

#[test]
fn a_backlog_beyond_a_page_is_read_to_its_end() {
    let machine = Machine::new();
    let key = machine.open("long");
    // More than a hub gives in one default read.
    for n in 1..=205 {
        machine.ok(&["send", "--as", "planner", &format!("line {n}")]);
    }
    let shown = machine.ok(&["session", "join", &key, "--as", "webdev"]);
    assert!(shown.contains("line 205"), "{shown}");
    assert_eq!(
        machine.json(&["rooms", "--as", "webdev"])["rooms"][0]["unreadOthers"],
        0
    );
}

#[test]
fn ones_own_messages_are_not_unread_for_their_author() {
    let machine = Machine::new();
    machine.session("auth");
    machine.ok(&["send", "--as", "planner", "one"]);
    machine.ok(&["send", "--as", "planner", "two"]);
    let unread = |name: &str| {
        machine
            .ok(&["rooms", "--as", name])
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(unread("webdev"), "* auth [channel] 2 members, 2 unread");
    // The other one's arrival is all that planner has not seen.
    assert_eq!(unread("planner"), "* auth [channel] 2 members, 1 unread");
    machine.ok(&["recv", "--as", "webdev"]);
    assert_eq!(unread("webdev"), "* auth [channel] 2 members, 0 unread");
}

#[test]
fn a_handoff_to_nobody_says_who_is_there_and_sends_nothing() {
    let machine = Machine::new();
    machine.session("auth");
    let before = machine.json(&["recv", "--as", "planner", "--all"])["messages"].clone();
    let done = machine.run(&[
        "handoff", "--as", "planner", "--for", "designer", "--next", "draw",
    ]);
    assert_eq!(done.code, 5, "{done:?}");
    assert!(
        done.err.contains("'designer'") && done.err.contains("nothing was sent"),
        "{done:?}"
    );
    assert!(done.err.contains("webdev (frontend)"), "{done:?}");
    let own = machine.run(&[
        "handoff", "--as", "planner", "--for", "planner", "--next", "x",
    ]);
    assert_eq!(own.code, 5);
    assert!(own.err.contains("'planner' is you"), "{own:?}");
    assert_eq!(
        machine.json(&["recv", "--as", "planner", "--all"])["messages"],
        before
    );
    for whom in ["frontend", "WebDev"] {
        machine.ok(&[
            "handoff", "--as", "planner", "--for", whom, "--next", "draw",
        ]);
    }
    machine.ok(&[
        "handoff", "--as", "planner", "--for", "designer", "--next", "x", "--anyway",
    ]);
}

#[test]
fn a_closed_session_says_so_and_is_no_longer_the_active_one() {
    let machine = Machine::new();
    machine.session("auth");
    machine.ok(&["session", "close", "--as", "webdev"]);
    assert!(
        machine
            .ok(&["recv", "--as", "planner"])
            .contains("webdev left the session")
    );
    let done = machine.run(&["send", "--as", "webdev", "still there?"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("no session is active"), "{done:?}");
    machine.ok(&["send", "--as", "webdev", "--room", "auth", "still there"]);
}

#[test]
fn a_key_is_forgiven_its_spelling_and_a_wrong_one_named() {
    let machine = Machine::new();
    let key = machine.open("auth");
    let code = key.split_once('@').unwrap().0;
    let typed = format!(" {}-{} ", code[..4].to_lowercase(), &code[4..]);
    machine.ok(&["session", "join", &typed, "--as", "webdev"]);
    let done = machine.run(&["session", "join", "AAAAAAAA", "--as", "reviewer"]);
    assert_eq!(done.code, 5, "{done:?}");
    assert!(
        done.err.contains("hint:") && done.err.contains("CODE@HUB"),
        "{done:?}"
    );
}

#[test]
fn two_speak_in_private_after_a_plain_invite() {
    let machine = Machine::new();
    let invited = machine.json(&["invite", "--as", "planner"]);
    assert_eq!(invited["kind"], "dm");
    let key = invited["key"].as_str().unwrap();
    machine.ok(&["join", key, "--as", "webdev"]);
    machine.ok(&["send", "--as", "planner", "--to", "webdev", "psst"]);
    let room = invited["room"].as_str().unwrap();
    assert!(
        machine
            .ok(&["recv", "--as", "webdev", "--room", room])
            .contains("psst")
    );
    let done = machine.run(&["send", "--as", "planner", "--to", "stranger", "hello?"]);
    assert_eq!(done.code, 5);
    assert!(
        done.err.contains("'stranger'") && done.err.contains("webdev"),
        "{done:?}"
    );
}

#[test]
fn a_role_that_is_given_is_kept() {
    let machine = Machine::new();
    machine.session("auth");
    assert_eq!(
        machine.json(&["whoami", "--as", "webdev"])["role"],
        "frontend"
    );
    let roster = machine.ok(&["roster", "--as", "planner"]);
    assert!(
        roster.contains("webdev (frontend)") && roster.contains("planner, you"),
        "{roster}"
    );
}

#[test]
fn a_backlog_of_large_messages_is_read_to_its_end() {
    let machine = Machine::new();
    let key = machine.open("auth");
    // More than a hub puts into one page, which ends by its size and far from its limit.
    let large = "x".repeat(900_000);
    for n in 0..10 {
        let mut command = machine.command(&["send", "--as", "planner", "-"]);
        command.stdin(std::process::Stdio::piped());
        let done = machine.feed(command, format!("{n} {large}").as_bytes());
        assert_eq!(done.code, 0, "{done:?}");
    }
    machine.ok(&["send", "--as", "planner", "the last one"]);
    let joined = machine.ok(&["session", "join", &key, "--as", "webdev"]);
    assert!(joined.contains("the last one"), "{}", joined.len());
}

#[test]
fn a_wait_beyond_all_time_is_taken() {
    let machine = Machine::new();
    let key = machine.open("auth");
    let wait = u64::MAX.to_string();
    machine.ok(&["session", "join", &key, "--as", "webdev", "--wait", &wait]);
}
