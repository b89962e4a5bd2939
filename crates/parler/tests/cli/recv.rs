//! Reading: shown, then counted as read; through kills, closed pipes and outages.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::env::{Done, Machine, Running, eventually, signal};

fn watch(machine: &Machine) -> Running {
    Running::start(machine.command(&["recv", "--as", "webdev", "--watch"]))
}

fn unread(machine: &Machine) -> i64 {
    machine.json(&["rooms", "--as", "webdev"])["rooms"][0]["unreadOthers"]
        .as_i64()
        .unwrap()
}

fn say(machine: &Machine, text: &str) {
    machine.ok(&["send", "--as", "planner", text]);
}

#[test]
fn a_killed_reader_goes_on_at_the_next_message() {
    let machine = Machine::new();
    machine.session("auth");
    let mut reader = watch(&machine);
    for n in 1..=3 {
        say(&machine, &format!("message {n}"));
        reader.until(&format!("message {n}"));
    }
    eventually("the hub knows what was shown", || unread(&machine) == 0);
    reader.signal("KILL");
    assert_eq!(reader.end(), 137);
    say(&machine, "message 4");
    say(&machine, "message 5");
    let again = watch(&machine);
    assert!(again.line().ends_with("message 4"));
    assert!(again.line().ends_with("message 5"));
}

#[test]
fn told_to_stop_it_ends_cleanly_and_nothing_is_shown_twice() {
    let machine = Machine::new();
    machine.session("auth");
    for (name, code) in [("TERM", 0), ("INT", 130), ("HUP", 0)] {
        let mut reader = watch(&machine);
        say(&machine, &format!("before {name}"));
        reader.until(&format!("before {name}"));
        let began = Instant::now();
        reader.signal(name);
        assert_eq!(reader.end(), code, "{name}");
        assert!(
            began.elapsed() < Duration::from_secs(4),
            "{name}: {:?}",
            began.elapsed()
        );
        assert_eq!(reader.complaints(), "");
    }
    assert_eq!(unread(&machine), 0);
}

#[test]
fn a_closed_pipe_ends_it_and_what_it_did_not_take_stays_unread() {
    let machine = Machine::new();
    machine.session("auth");
    // More than a pipe holds.
    let long = "x".repeat(20_000);
    for n in 0..8 {
        say(&machine, &format!("{n} {long}"));
    }
    let mut child = machine
        .command(&["recv", "--as", "webdev", "--watch"])
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = vec![0; 30_000];
    out.read_exact(&mut first).unwrap();
    drop(out);
    let done = Done::from(child);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
    let left = unread(&machine);
    assert!((1..=7).contains(&left), "{left} of 8 are unread");
    let again = machine.json(&["recv", "--as", "webdev"]);
    let texts = again["messages"].as_array().unwrap();
    assert_eq!(texts.len(), usize::try_from(left).unwrap());
    let first_left = texts[0]["parts"][0]["text"]
        .as_str()
        .unwrap()
        .chars()
        .next()
        .unwrap();
    assert_eq!(
        first_left,
        char::from_digit(8 - u32::try_from(left).unwrap(), 10).unwrap()
    );
}

#[test]
fn an_idle_watcher_ends_when_nobody_reads_it_any_more() {
    let machine = Machine::new();
    machine.session("auth");
    let mut child = machine
        .command(&["recv", "--as", "webdev", "--watch"])
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = Done::from(child);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.took < Duration::from_secs(10), "{done:?}");
}

#[test]
fn a_stop_hook_of_ones_own_works_as_documented() {
    let machine = Machine::new();
    machine.session("team");
    say(&machine, "hello");
    let parler = env!("CARGO_BIN_EXE_parler");
    let script = format!(
        "set -o pipefail; timeout 2 {parler} recv --as webdev --room team --watch | head -c 4000"
    );
    let mut command = machine.command(&[]);
    let home = machine.home().to_owned();
    command = {
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &script])
            .env_clear()
            .env("HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .current_dir(command.get_current_dir().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        bash
    };
    let done = Done::of(command);
    assert!(done.out.contains("hello"), "{done:?}");
    assert_eq!(
        done.code, 124,
        "what `timeout` says when it had to end the command: {done:?}"
    );
    assert_eq!(done.err, "");
    assert_eq!(unread(&machine), 0);
}

#[test]
fn a_watcher_outlives_its_hub() {
    let machine = Machine::new();
    machine.session("auth");
    let reader = watch(&machine);
    say(&machine, "before");
    reader.until("before");
    for round in 0..2 {
        let pid = machine.hub_pid().unwrap();
        signal(
            u32::try_from(pid).unwrap(),
            if round == 0 { "KILL" } else { "TERM" },
        );
        eventually("the hub is gone", || machine.hub_pid().is_none());
        // The next command that needs it starts it again.
        say(&machine, &format!("after {round}"));
        let lines = reader.until(&format!("after {round}"));
        assert_eq!(lines.len(), 1, "nothing is repeated: {lines:?}");
    }
}

#[test]
fn a_watcher_follows_a_hub_that_was_put_back_to_an_earlier_state() {
    let machine = Machine::new();
    machine.session("auth");
    machine.ok(&["hub", "stop"]);
    let database = || {
        let files = std::fs::read_dir(machine.base()).unwrap().flatten();
        files
            .map(|file| file.path())
            .filter(|path| path.is_file() && path.to_string_lossy().contains("hub.sqlite"))
            .collect::<Vec<_>>()
    };
    let kept: Vec<_> = database()
        .into_iter()
        .map(|path| (std::fs::read(&path).unwrap(), path))
        .collect();
    say(&machine, "lost 0");
    let reader = watch(&machine);
    reader.until("lost 0");
    for n in 1..=3 {
        say(&machine, &format!("lost {n}"));
        reader.until(&format!("lost {n}"));
    }
    eventually("the hub knows what was shown", || unread(&machine) == 0);
    machine.ok(&["hub", "stop"]);
    for path in database() {
        std::fs::remove_file(path).unwrap();
    }
    for (bytes, path) in kept {
        std::fs::write(path, bytes).unwrap();
    }
    for n in 0..=5 {
        say(&machine, &format!("new {n}"));
        let lines = reader.until(&format!("new {n}"));
        assert_eq!(lines.len(), 1, "each once: {lines:?}");
    }
    eventually("the hub knows what was shown", || unread(&machine) == 0);
}

#[test]
fn since_and_all_read_again_and_move_nothing() {
    let machine = Machine::new();
    machine.session("auth");
    say(&machine, "one");
    say(&machine, "two");
    let all = machine.json(&["recv", "--as", "webdev", "--all", "--limit", "3"]);
    let seqs: Vec<i64> = all["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["seq"].as_i64().unwrap())
        .collect();
    assert_eq!(seqs.len(), 3);
    let since = machine.json(&["recv", "--as", "webdev", "--since", &seqs[2].to_string()]);
    assert_eq!(since["messages"][0]["parts"][0]["text"], "two");
    assert_eq!(unread(&machine), 2);
    let shown = machine.ok(&["recv", "--as", "webdev", "--limit", "1"]);
    assert!(
        shown.contains("one") && shown.contains("more is waiting"),
        "{shown}"
    );
    assert_eq!(unread(&machine), 1);
}

#[test]
fn watching_with_all_shows_what_was_and_goes_on() {
    let machine = Machine::new();
    machine.session("auth");
    let reader = Running::start(machine.command(&["recv", "--as", "webdev", "--watch", "--all"]));
    reader.until("session context");
    reader.until("webdev joined the session");
    say(&machine, "and on");
    let lines = reader.until("and on");
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn the_reader_of_another_session_is_named_and_left_alone() {
    let machine = Machine::new();
    machine.session("auth");
    say(&machine, "for the one who reads");
    let home = machine.named_home("webdev");
    let id = machine.json(&["whoami", "--as", "webdev"])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    // An agent host's session reads as webdev: its MCP server holds the room.
    let mut server = crate::mcp::Server::start(
        &machine,
        &[
            ("PARLER_HOME", home.to_str().unwrap()),
            ("PARLER_SHARED_IDENTITY", "1"),
            ("CLAUDE_CODE_SESSION_ID", "s-1"),
        ],
    );
    let joined = server.tool("parler_rooms", serde_json::json!({}));
    assert!(joined.contains("auth"), "{joined}");
    let key = machine.open("auth");
    server.tool("parler_join_session", serde_json::json!({ "key": key }));
    say(&machine, "and this");
    let done = machine.run(&["recv", "--as", "webdev"]);
    assert!(done.out.contains("and this"), "{done:?}");
    assert!(done.err.contains("this only shows"), "{done:?} {id}");
    assert_eq!(unread(&machine), 1);
}
