//! Identity, help, and machines where things are missing.

use std::os::unix::fs::PermissionsExt;

use crate::env::{Done, Machine};

#[test]
fn without_a_home_the_error_says_what_to_set() {
    let machine = Machine::new();
    for args in [
        &["whoami"][..],
        &["rooms"],
        &["session", "open", "--as", "x"],
        &["hub", "status"],
        &["connect", "claude-code"],
        &["mcp"],
        &["init"],
    ] {
        let mut command = machine.command(args);
        command.env_remove("HOME");
        let done = Done::of(command);
        assert_eq!(done.code, 6, "{args:?}: {done:?}");
        assert!(done.err.contains("HOME"), "{args:?}: {done:?}");
        assert!(!done.err.contains("panicked"), "{done:?}");
    }
    let mut command = machine.command(&["hook", "stop"]);
    command.env_remove("HOME");
    let done = machine.feed(command, b"{\"session_id\":\"s\"}");
    assert_eq!(
        (done.code, done.out.as_str(), done.err.as_str()),
        (0, "", ""),
        "{done:?}"
    );
}

#[test]
fn whoami_tells_identity_hub_and_why_and_starts_nothing() {
    let machine = Machine::new();
    let who = machine.json(&["whoami"]);
    assert_eq!(who["home"], machine.base().display().to_string());
    assert_eq!(who["hubIsLocal"], true);
    assert!(machine.hub_pid().is_none());
    let mut command = machine.command(&["whoami"]);
    command
        .env("PARLER_HUB", "wss://hub.example")
        .env("PARLER_HOME", machine.home().join("h"));
    let shown = Done::of(command).out;
    assert!(shown.contains("wss://hub.example (PARLER_HUB)"), "{shown}");
    assert!(shown.contains("because:  PARLER_HOME"), "{shown}");
}

#[test]
fn everything_under_the_home_is_private() {
    let machine = Machine::new();
    machine.session("auth");
    let mut folders = vec![machine.base()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).unwrap().flatten() {
            // The one file that the test itself made.
            if item.file_name() == "hub.port" {
                continue;
            }
            let meta = item.metadata().unwrap();
            let mode = meta.permissions().mode() & 0o777;
            let private = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, private, "{}: {mode:o}", item.path().display());
            if meta.is_dir() {
                folders.push(item.path());
            }
        }
    }
}

#[test]
fn a_damaged_identity_is_named_and_never_replaced() {
    let machine = Machine::new();
    machine.ok(&["whoami"]);
    let path = machine.base().join("config.json");
    std::fs::write(&path, "{ \"id\": ").unwrap();
    let done = machine.run(&["whoami"]);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(done.err.contains("config.json"), "{done:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{ \"id\": ");
}

#[test]
fn init_makes_an_identity_and_force_keeps_the_old_one() {
    let machine = Machine::new();
    let args = [
        "init",
        "--name",
        "planner",
        "--role",
        "architect",
        "--hub",
        "wss://hub.example",
    ];
    let made = machine.json(&args);
    assert_eq!(
        (&made["name"], &made["role"]),
        (&"planner".into(), &"architect".into())
    );
    assert_eq!(machine.json(&["whoami"])["hub"], "wss://hub.example");
    assert_eq!(machine.json(&["init", "--role", "lead"])["id"], made["id"]);
    let anew = machine.json(&["init", "--name", "planner", "--force"]);
    assert_ne!(anew["id"], made["id"]);
    let kept = std::fs::read_to_string(anew["kept"].as_str().unwrap()).unwrap();
    assert!(kept.contains(made["id"].as_str().unwrap()));
}

#[test]
fn names_that_cannot_be_are_refused_with_the_reason() {
    let machine = Machine::new();
    for name in ["", "hub", "\u{200b}"] {
        let done = machine.run(&["whoami", "--as", name]);
        assert_eq!(done.code, 2, "{name:?}: {done:?}");
        assert!(done.err.contains("name"), "{done:?}");
    }
}

#[test]
fn a_shell_gets_its_completions() {
    let machine = Machine::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = machine.ok(&["completions", shell]);
        assert!(
            script.contains("handoff") && script.contains("parler"),
            "{shell}"
        );
    }
    assert_eq!(machine.run(&["completions", "tcsh"]).code, 2);
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let machine = Machine::new();
    let help = machine.ok(&["--help"]);
    for words in [
        "parler session open --as planner",
        "Exit codes:",
        "  130  interrupted",
        "demo",
    ] {
        assert!(help.contains(words), "{words}: {help}");
    }
    for words in ["demo-agent", "until-stdin-closes", "detached"] {
        assert!(!help.contains(words), "{words}");
    }
    assert!(
        machine
            .ok(&["exit-codes"])
            .contains("  3    the hub cannot be reached")
    );
    assert!(
        machine
            .ok(&["help", "recv"])
            .contains("timeout 30 parler recv")
    );
    assert!(machine.ok(&["--version"]).starts_with("parler "));
    assert_eq!(machine.run(&["nonsense"]).code, 2);
    assert_eq!(machine.run(&[]).code, 2);
}

#[test]
fn text_can_come_from_standard_input() {
    let machine = Machine::new();
    machine.session("auth");
    let command = machine.command(&["send", "--as", "planner", "-"]);
    assert_eq!(
        machine.feed(command, "from a pipe\nsecond".as_bytes()).code,
        0
    );
    assert!(
        machine
            .ok(&["recv", "--as", "webdev"])
            .contains("from a pipe\n    second")
    );
    for (input, what) in [(&b"\xff\xfe"[..], "UTF-8"), (b"  \n", "nothing to send")] {
        let done = machine.feed(machine.command(&["send", "--as", "planner", "-"]), input);
        assert_eq!(done.code, 2);
        assert!(done.err.contains(what), "{done:?}");
    }
}

#[test]
fn a_message_beyond_the_limit_is_refused_in_words() {
    let machine = Machine::new();
    machine.session("auth");
    let large = vec![b'x'; 1_048_577];
    let done = machine.feed(machine.command(&["send", "--as", "planner", "-"]), &large);
    assert_eq!(done.code, 2, "{done:?}");
    let almost = vec![b'x'; 1_048_500];
    let done = machine.feed(machine.command(&["send", "--as", "planner", "-"]), &almost);
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.err.contains("large"), "{done:?}");
}
