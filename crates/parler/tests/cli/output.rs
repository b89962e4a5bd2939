//! What reaches a terminal, a pipe and a program.

use std::process::Command;

use crate::env::{Done, Machine};

const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}gnp.exe\u{200b}\r\nsecond line";

/// Runs a command with standard output on a pseudo terminal.
fn on_a_terminal(machine: &Machine, line: &str, env: &[(&str, &str)]) -> String {
    let mut script = Command::new("script");
    script
        .args([
            "-qec",
            &format!("{} {line}", env!("CARGO_BIN_EXE_parler")),
            "/dev/null",
        ])
        .env_clear()
        .env("HOME", machine.home())
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm-256color")
        .envs(env.iter().copied())
        .current_dir(machine.work())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    Done::of(script).out
}

/// Runs several commands in one shell on a pseudo terminal: one terminal.
fn in_one_terminal(machine: &Machine, lines: &[&str]) -> String {
    let parler = env!("CARGO_BIN_EXE_parler");
    let shell = lines
        .iter()
        .map(|line| format!("{parler} {line}; "))
        .collect::<String>();
    let mut script = Command::new("script");
    script
        .args(["-qec", &shell, "/dev/null"])
        .env_clear()
        .env("HOME", machine.home())
        .env("PATH", "/usr/bin:/bin")
        .env("SHELL", "/bin/sh")
        .current_dir(machine.work())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    Done::of(script).out
}

fn has_script() -> bool {
    Command::new("script")
        .arg("--version")
        .output()
        .is_ok_and(|done| done.status.success())
}

#[test]
fn no_text_of_a_peer_drives_the_terminal() {
    let machine = Machine::new();
    machine.session("auth");
    machine.ok(&["send", "--as", "planner", HOSTILE]);
    machine.ok(&[
        "handoff",
        "--as",
        "planner",
        "--next",
        HOSTILE,
        "--summary",
        HOSTILE,
    ]);
    machine.ok(&[
        "presence",
        "--as",
        "planner",
        HOSTILE,
        "--activity",
        HOSTILE,
    ]);
    for args in [
        &["recv", "--as", "webdev", "--all"][..],
        &["recv", "--as", "webdev", "--all", "--json"],
        &["roster", "--as", "webdev"],
        &["roster", "--as", "webdev", "--json"],
        &["rooms", "--as", "webdev"],
        &["recv", "--as", "webdev"],
    ] {
        let shown = machine.ok(args);
        for c in shown.chars() {
            let hides = matches!(c, '\u{202e}' | '\u{200b}');
            assert!(
                c == '\n' || !(c.is_control() || hides),
                "{c:?} in {args:?}: {shown:?}"
            );
        }
    }
    let program = machine.json(&["recv", "--as", "webdev", "--all"]);
    let told = program["messages"]
        .as_array()
        .unwrap()
        .iter()
        .any(|message| message["parts"][0]["text"] == HOSTILE);
    assert!(told, "a program gets every character: {program}");
}

#[test]
fn colours_follow_the_usual_conventions() {
    let machine = Machine::new();
    machine.session("auth");
    machine.ok(&[
        "handoff", "--as", "planner", "--for", "webdev", "--next", "go on",
    ]);
    let piped = machine.ok(&["recv", "--as", "webdev", "--all"]);
    assert!(!piped.contains('\u{1b}'), "{piped:?}");
    if !has_script() {
        return;
    }
    let line = "session open --as planner --topic colours";
    let coloured = on_a_terminal(&machine, line, &[]);
    assert!(coloured.contains("\u{1b}[1m"), "{coloured:?}");
    for env in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = on_a_terminal(&machine, line, &[env]);
        assert!(
            plain.contains("KEY: ") && !plain.contains('\u{1b}'),
            "{env:?}: {plain:?}"
        );
    }
    let plain = on_a_terminal(&machine, &format!("{line} --json"), &[]);
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
}

#[test]
fn a_terminal_stays_the_agent_that_it_was_told_to_be() {
    if !has_script() {
        return;
    }
    let machine = Machine::new();
    let key = machine.open("auth");
    let join = format!("session join {key} --as webdev");
    let shown = in_one_terminal(&machine, &[&join, "whoami", "recv"]);
    assert!(shown.contains("name:     webdev"), "{shown}");
    assert!(
        shown.contains("this terminal is bound to 'webdev'"),
        "{shown}"
    );
    assert!(
        shown.contains("no new messages in session 'auth'"),
        "{shown}"
    );
    let other = in_one_terminal(&machine, &["whoami"]);
    assert!(
        other.contains("the default identity of this user"),
        "{other}"
    );
}

#[test]
fn every_command_takes_a_closed_pipe() {
    let machine = Machine::new();
    machine.session("auth");
    for args in [
        &["--help"][..],
        &["completions", "zsh"],
        &["exit-codes"],
        &["whoami"],
        &["rooms", "--as", "webdev"],
        &["roster", "--as", "webdev"],
        &["recv", "--as", "webdev", "--all"],
        &["hub", "status"],
    ] {
        let mut child = machine.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let done = Done::from(child);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn errors_are_objects_for_programs() {
    let machine = Machine::new();
    let done = machine.run(&["recv", "--json"]);
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    let error: serde_json::Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!(error["error"]["kind"], "usage");
    assert!(
        error["error"]["hint"]
            .as_str()
            .unwrap()
            .contains("parler session join")
    );
}
