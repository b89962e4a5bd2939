//! Wiring Claude Code, and taking the wires out again.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::env::{Done, Machine};

const STATE: &str = "{\n  \"numStartups\": 5,\n  \"zebra\": {\"b\": 1, \"a\": [1,2]},\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"}\n  }\n}\n";
const SETTINGS: &str = "{\"permissions\": {\"allow\": [\"Bash(ls)\"]}, // mine\n \"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]}}";

fn files(machine: &Machine) -> [std::path::PathBuf; 2] {
    [
        machine.home().join(".claude.json"),
        machine.home().join(".claude/settings.json"),
    ]
}

fn machine(state: Option<&str>, settings: Option<&str>) -> Machine {
    let machine = Machine::new();
    fs::create_dir(machine.home().join(".claude")).unwrap();
    for (path, text) in files(&machine).iter().zip([state, settings]) {
        if let Some(text) = text {
            fs::write(path, text).unwrap();
        }
    }
    machine
}

fn texts(machine: &Machine) -> [Option<String>; 2] {
    files(machine).map(|path| fs::read_to_string(path).ok())
}

#[test]
fn the_host_is_wired_and_unwired_byte_for_byte() {
    for (state, settings) in [
        (Some(STATE), Some(SETTINGS)),
        (None, None),
        (Some("{}"), Some("")),
    ] {
        let machine = machine(state, settings);
        let before = texts(&machine);
        let args = [
            "connect",
            "claude-code",
            "--hub",
            "ws://127.0.0.1:1",
            "--name",
            "bee",
        ];
        assert!(machine.ok(&args).contains("is connected"));
        let wired = texts(&machine);
        let value: Value = serde_json::from_str(wired[0].as_deref().unwrap()).unwrap();
        let entry = &value["mcpServers"]["parler"];
        assert_eq!(entry["args"], json!(["mcp"]));
        assert_eq!(
            entry["env"],
            json!({ "PARLER_HUB": "ws://127.0.0.1:1", "PARLER_NAME": "bee" })
        );
        let command = entry["command"].as_str().unwrap();
        assert!(
            command.starts_with('/') && command.ends_with("parler"),
            "{command}"
        );
        let hooks = wired[1].as_deref().unwrap();
        assert!(hooks.contains(&format!("{command} hook stop\"")), "{hooks}");
        assert!(
            hooks.contains("\"asyncRewake\": true") && hooks.contains("mcp__parler__*"),
            "{hooks}"
        );
        for again in [&args[..], &["connect", "claude-code"]] {
            assert!(machine.ok(again).contains("nothing was changed"));
            assert_eq!(texts(&machine), wired);
        }
        machine.ok(&["connect", "claude-code", "--remove"]);
        assert_eq!(texts(&machine), before);
        assert!(
            machine
                .ok(&["connect", "claude-code", "--remove"])
                .contains("nothing was changed")
        );
    }
}

#[test]
fn links_and_modes_are_kept_and_secrets_stay_out_of_the_hook() {
    let machine = machine(None, None);
    let real = machine.home().join("dotfiles.json");
    fs::write(&real, STATE).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let [state, settings] = files(&machine);
    symlink("dotfiles.json", &state).unwrap();
    let mut command = machine.command(&["connect", "claude-code"]);
    command
        .env("PARLER_HUB", "wss://hub.example")
        .env("PARLER_JOIN_SECRET", "s3cret");
    assert_eq!(Done::of(command).code, 0);
    assert!(fs::symlink_metadata(&state).unwrap().is_symlink());
    assert_eq!(
        fs::metadata(&real).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert_eq!(
        fs::metadata(&settings).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        fs::read_to_string(&real)
            .unwrap()
            .contains("wss://hub.example")
    );
    let hooks = fs::read_to_string(&settings).unwrap();
    assert!(
        !hooks.contains("s3cret") && !hooks.contains("PARLER_"),
        "{hooks}"
    );
    machine.ok(&["connect", "claude-code", "--remove"]);
    assert_eq!(fs::read_to_string(&real).unwrap(), STATE);
    assert!(!settings.exists());
}

#[test]
fn a_file_that_is_not_json_is_left_alone_with_a_message() {
    let machine = machine(Some("{\"a\": "), Some(SETTINGS));
    let before = texts(&machine);
    for args in [
        &["connect", "claude-code"][..],
        &["connect", "claude-code", "--remove"],
    ] {
        let done = machine.run(args);
        assert_eq!(done.code, 6, "{done:?}");
        assert!(
            done.err.contains(".claude.json") && done.err.contains("hint:"),
            "{done:?}"
        );
        assert_eq!(texts(&machine), before);
    }
}

#[test]
fn what_the_host_wrote_in_between_is_kept() {
    let machine = machine(Some(STATE), Some("{}"));
    machine.ok(&["connect", "claude-code"]);
    let [state, _] = files(&machine);
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&state).unwrap()).unwrap();
    value["numStartups"] = json!(6);
    fs::write(&state, value.to_string()).unwrap();
    machine.ok(&["connect", "claude-code", "--remove"]);
    let mut expected: Value = serde_json::from_str(STATE).unwrap();
    expected["numStartups"] = json!(6);
    let after: Value = serde_json::from_str(&fs::read_to_string(&state).unwrap()).unwrap();
    assert_eq!(after, expected);
}

#[test]
fn print_writes_nothing_and_no_hooks_installs_none() {
    let machine = machine(None, None);
    let printed = machine.ok(&["connect", "claude-code", "--print"]);
    assert!(
        printed.contains("mcpServers") && printed.contains("hook stop"),
        "{printed}"
    );
    assert_eq!(texts(&machine), [None, None]);
    machine.ok(&["connect", "claude-code", "--no-hooks"]);
    let [_, settings] = texts(&machine);
    let settings = settings.unwrap();
    assert!(
        settings.contains("mcp__parler__*") && !settings.contains("hook stop"),
        "{settings}"
    );
}
