//! The Stop hook and the background hook, as a host runs them.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::env::{Done, Machine, Running};
use crate::mcp::Server;

const SESSION: &str = "0b8f6b1e-3f0a-4b52-9d55-6a6f2f1c9a10";
/// A socket that is not there: enough to say that the host has an inbox.
const INBOX: (&str, &str) = ("CLAUDE_CODE_MESSAGING_SOCKET", "/nowhere/inbox.sock");

fn payload(machine: &Machine, session: &str) -> String {
    json!({
        "session_id": session, "cwd": machine.work(), "hook_event_name": "Stop",
        "stop_hook_active": false, "transcript_path": "/x",
    })
    .to_string()
}

fn hook(machine: &Machine, kind: &str, input: &str, env: &[(&str, &str)]) -> Done {
    let mut command = machine.command(&["hook", kind]);
    command
        .env("CLAUDE_CODE_SESSION_ID", SESSION)
        .envs(env.iter().copied());
    machine.feed(command, input.as_bytes())
}

fn stop(machine: &Machine, env: &[(&str, &str)]) -> Done {
    hook(machine, "stop", &payload(machine, SESSION), env)
}

fn silent(done: &Done) -> bool {
    (done.code, done.out.as_str(), done.err.as_str()) == (0, "", "")
}

fn reason(done: &Done) -> String {
    assert_eq!(done.code, 0, "{done:?}");
    let block: Value = serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    assert_eq!(block["decision"], "block");
    block["reason"].as_str().unwrap().to_owned()
}

/// A machine where a host's session has joined as `bee`, by its MCP server.
fn joined(topic: &str) -> (Machine, Server) {
    let machine = Machine::new();
    let key = machine.open(topic);
    let mut server = Server::start(
        &machine,
        &[("CLAUDE_CODE_SESSION_ID", SESSION), ("PARLER_NAME", "bee")],
    );
    let said = server.tool("parler_join_session", json!({ "key": key }));
    assert!(said.contains("bee"), "{said}");
    (machine, server)
}

fn hand_over(machine: &Machine, next: &str) {
    machine.ok(&["handoff", "--as", "planner", "--for", "bee", "--next", next]);
}

#[test]
fn a_turn_keeps_the_session_going_once() {
    let (machine, mut server) = joined("rig");
    assert!(silent(&stop(&machine, &[INBOX])));
    hand_over(&machine, "create file done.txt");
    let done = stop(&machine, &[INBOX]);
    assert!(done.took < Duration::from_secs(2), "{done:?}");
    let said = reason(&done);
    assert!(said.starts_with("🤝 HANDOFF TO YOU\n"), "{said}");
    assert!(
        said.contains("create file done.txt") && said.contains("planner"),
        "{said}"
    );
    assert!(silent(&stop(&machine, &[INBOX])), "once per thing");
    // It moved no cursor: the model reads it by its own call.
    let read = server.tool("parler_recv", json!({}));
    assert!(read.starts_with("🤝 HANDOFF TO YOU"), "{read}");
}

#[test]
fn it_waits_where_the_host_has_no_inbox() {
    let (machine, _server) = joined("rig");
    let child = {
        let mut command = machine.command(&["hook", "stop"]);
        command
            .env("CLAUDE_CODE_SESSION_ID", SESSION)
            .env("PARLER_WAKE_WAIT_SECS", "20");
        command.stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        use std::io::Write;
        child
            .stdin
            .take()
            .unwrap()
            .write_all(payload(&machine, SESSION).as_bytes())
            .unwrap();
        child
    };
    hand_over(&machine, "late work");
    let done = Done::from(child);
    assert!(reason(&done).contains("late work"));
    assert!(done.took < Duration::from_secs(15), "{done:?}");
    let idle = stop(&machine, &[("PARLER_WAKE_WAIT_SECS", "1")]);
    assert!(
        silent(&idle) && idle.took >= Duration::from_secs(1),
        "{idle:?}"
    );
    let no_wait = stop(&machine, &[("PARLER_WAKE_WAIT_SECS", "0")]);
    assert!(
        silent(&no_wait) && no_wait.took < Duration::from_secs(2),
        "{no_wait:?}"
    );
}

#[test]
fn it_blocks_five_times_in_a_row_at_most() {
    let (machine, _server) = joined("rig");
    let mut blocks = 0;
    for n in 0..7 {
        hand_over(&machine, &format!("turn {n}"));
        let done = stop(&machine, &[INBOX]);
        blocks += usize::from(!silent(&done));
    }
    assert_eq!(blocks, 5);
}

#[test]
fn what_could_not_be_told_is_told_by_the_next_hook() {
    let (machine, _server) = joined("rig");
    hand_over(&machine, "first");
    assert!(reason(&stop(&machine, &[INBOX])).contains("first"));
    // Another hook of this session is counting: this one may not block.
    let files = std::fs::read_dir(machine.base().join("hooks")).unwrap();
    let counter = files
        .flatten()
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|e| e == "lock"));
    let held = std::fs::File::options()
        .write(true)
        .open(counter.unwrap())
        .unwrap();
    held.lock().unwrap();
    hand_over(&machine, "second");
    assert!(silent(&stop(&machine, &[INBOX])));
    held.unlock().unwrap();
    assert!(reason(&stop(&machine, &[INBOX])).contains("second"));
}

#[test]
fn it_does_not_wait_where_the_background_hook_is_installed() {
    let (machine, _server) = joined("rig");
    machine.ok(&["connect", "claude-code"]);
    let done = stop(&machine, &[]);
    assert!(silent(&done), "{done:?}");
    assert!(done.took < Duration::from_secs(10), "{done:?}");
    let asked = stop(&machine, &[("PARLER_WAKE_WAIT_SECS", "1")]);
    assert!(asked.took >= Duration::from_secs(1), "{asked:?}");
}

#[test]
fn what_is_no_hooks_input_is_met_with_silence() {
    let (machine, _server) = joined("rig");
    hand_over(&machine, "work");
    let deep = "[".repeat(100_000);
    for input in [
        "",
        "garbage",
        "null",
        "[]",
        "{\"session_id\":",
        "\u{0}\u{1}",
        &deep,
    ] {
        let done = hook(&machine, "stop", input, &[INBOX]);
        assert!(silent(&done), "{input:.20}: {done:?}");
    }
}

#[test]
fn a_hook_that_there_is_not_says_nothing_to_the_model() {
    let machine = Machine::new();
    let done = hook(&machine, "session-start", "{}", &[]);
    assert_eq!((done.code, done.out.as_str()), (0, ""), "{done:?}");
    assert!(done.err.contains("session-start"), "{done:?}");
    let done = machine.run(&["hook", "stop", "--nonsense"]);
    assert_eq!(done.code, 1, "two would be shown to the model: {done:?}");
}

#[test]
fn a_host_that_keeps_the_input_open_is_not_waited_for() {
    let (machine, _server) = joined("rig");
    hand_over(&machine, "work");
    let mut command = machine.command(&["hook", "stop"]);
    command
        .env("CLAUDE_CODE_SESSION_ID", SESSION)
        .env(INBOX.0, INBOX.1);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    use std::io::Write;
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(payload(&machine, SESSION).as_bytes())
        .unwrap();
    let done = Done::from(child);
    assert!(reason(&done).contains("work"));
    assert!(done.took < Duration::from_secs(2), "{done:?}");
    drop(stdin);
}

#[test]
fn a_session_that_never_used_parler_is_left_in_peace() {
    let machine = Machine::new();
    machine.session("auth");
    machine.ok(&["handoff", "--as", "planner", "--next", "anyone"]);
    for kind in ["stop", "rewake"] {
        let done = hook(&machine, kind, &payload(&machine, "unknown"), &[]);
        assert!(silent(&done), "{done:?}");
        assert!(done.took < Duration::from_secs(2), "{done:?}");
    }
    assert!(!machine.base().join("ws").join("config.json").exists());
}

#[test]
fn a_hub_that_is_down_or_silent_is_met_with_silence_in_time() {
    let (machine, server) = joined("rig");
    machine.ok(&["hub", "stop"]);
    for env in [&[INBOX][..], &[]] {
        let done = stop(&machine, env);
        assert!(silent(&done), "{done:?}");
        assert!(done.took < Duration::from_secs(15), "{done:?}");
    }
    assert!(machine.hub_pid().is_none(), "a hook starts no hub");
    drop(server);

    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", deaf.local_addr().unwrap());
    for env in [
        vec![INBOX, ("PARLER_HUB", &url)],
        vec![("PARLER_HUB", &url)],
    ] {
        let done = stop(&machine, &env);
        assert!(silent(&done), "{done:?}");
        assert!(done.took < Duration::from_secs(15), "{done:?}");
    }
}

#[test]
fn the_background_hook_wakes_an_idle_session_and_the_newest_is_enough() {
    let (machine, _server) = joined("rig");
    let wait = || {
        let mut command = machine.command(&["hook", "rewake"]);
        command
            .env("CLAUDE_CODE_SESSION_ID", SESSION)
            .stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        use std::io::Write;
        child
            .stdin
            .take()
            .unwrap()
            .write_all(payload(&machine, SESSION).as_bytes())
            .unwrap();
        child
    };
    let older = wait();
    let mark = |n: usize| {
        crate::env::eventually("a background hook has arrived", || {
            let files = std::fs::read_dir(machine.base().join("hooks"))
                .into_iter()
                .flatten();
            let newest = files
                .flatten()
                .find(|f| f.path().extension().is_some_and(|e| e == "newest"));
            let text = newest.and_then(|file| std::fs::read_to_string(file.path()).ok());
            text.is_some_and(|text| text.starts_with(&format!("{n} ")))
        });
    };
    mark(older.id() as usize);
    let newer = wait();
    mark(newer.id() as usize);
    hand_over(&machine, "wake up");
    let done = Done::from(newer);
    assert_eq!((done.code, done.out.as_str()), (2, ""), "{done:?}");
    assert!(done.err.starts_with("🤝 HANDOFF TO YOU\n"), "{done:?}");
    let done = Done::from(older);
    assert!(silent(&done), "{done:?}");
    let with_inbox = hook(&machine, "rewake", &payload(&machine, SESSION), &[INBOX]);
    assert!(
        silent(&with_inbox) && with_inbox.took < Duration::from_secs(2),
        "{with_inbox:?}"
    );
}

#[test]
fn the_hook_follows_the_hub_and_name_of_the_sessions_server() {
    let machine = Machine::new();
    let addr = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let _hub =
        Running::start(machine.command(&["hub", "--addr", &addr, "--join-secret", "s3cret"]));
    crate::env::eventually("it listens", || std::net::TcpStream::connect(&addr).is_ok());
    let url = format!("ws://{addr}");
    let planner = |args: &[&str]| {
        let mut command = machine.command(args);
        command
            .env("PARLER_HUB", &url)
            .env("PARLER_JOIN_SECRET", "s3cret");
        let done = Done::of(command);
        assert_eq!(done.code, 0, "{done:?}");
        done.out
    };
    let opened = planner(&["session", "open", "--as", "planner", "--json"]);
    let opened: Value = serde_json::from_str(&opened).unwrap();
    let mut server = Server::start(
        &machine,
        &[
            ("CLAUDE_CODE_SESSION_ID", SESSION),
            ("PARLER_NAME", "bee"),
            ("PARLER_HUB", &url),
            ("PARLER_JOIN_SECRET", "s3cret"),
        ],
    );
    server.tool("parler_join_session", json!({ "key": opened["key"] }));
    planner(&[
        "handoff",
        "--as",
        "planner",
        "--for",
        "bee",
        "--next",
        "over there",
    ]);
    // The host gives the hook none of the server's environment.
    assert!(reason(&stop(&machine, &[INBOX])).contains("over there"));
    // Nor a shell command of the session.
    let mut command = machine.command(&["whoami", "--json"]);
    command.env("CLAUDE_CODE_SESSION_ID", SESSION);
    let who: Value = serde_json::from_str(&Done::of(command).out).unwrap();
    assert_eq!((&who["name"], &who["hub"]), (&json!("bee"), &json!(url)));
}

/// `bee` as in [`joined`], and a server of `ant` in the same room; `ant` offers a turn to `bee`,
/// who has read it and so holds it. The id of the turn comes last.
fn holding(topic: &str) -> (Machine, Server, Server, String) {
    let machine = Machine::new();
    let key = machine.open(topic);
    let start = |session: &str, name: &str| {
        let env = [("CLAUDE_CODE_SESSION_ID", session), ("PARLER_NAME", name)];
        let mut server = Server::start(&machine, &env);
        server.tool("parler_join_session", json!({ "key": key }));
        server
    };
    let mut bee = start(SESSION, "bee");
    let mut ant = start("6e0c1a52-0d7e-4c9b-8f43-0a6c5d1f2b11", "ant");
    bee.tool("parler_recv", json!({}));
    let said = ant.tool(
        "parler_handoff",
        json!({"for": "bee", "next": "dig a hole"}),
    );
    let id = said.split("message ").nth(1).unwrap();
    let id = id.split([')', ',']).next().unwrap().to_owned();
    let read = bee.tool("parler_recv", json!({}));
    assert!(read.contains("You have taken this turn"), "{read}");
    (machine, bee, ant, id)
}

#[test]
fn who_stops_with_an_unanswered_turn_is_told_once_and_then_loses_it() {
    let (machine, mut bee, mut ant, id) = holding("rig");
    let done = stop(&machine, &[INBOX]);
    assert!(done.took < Duration::from_secs(2), "{done:?}");
    let said = reason(&done);
    assert!(said.starts_with("You hold a turn that you have not answered:"));
    assert!(
        said.contains("of ant in room") && said.contains(&id),
        "{said}"
    );
    assert!(said.contains("parler_turn {\"action\": \"done\""), "{said}");
    assert!(!said.contains("dig a hole"), "not the instruction again");
    let list = ant.tool("parler_turn", json!({"action": "list"}));
    assert!(list.contains("taken by bee"), "{list}");
    assert!(silent(&stop(&machine, &[INBOX])));
    let list = ant.tool("parler_turn", json!({"action": "list"}));
    assert!(
        list.contains("ant → bee, open") || list.contains("you → bee, open"),
        "{list}"
    );
    // It is shown again, and neither keeps the session going nor is taken by itself.
    assert!(silent(&stop(&machine, &[INBOX])));
    let read = bee.tool("parler_recv", json!({}));
    assert!(
        read.contains("dig a hole") && read.contains("To take it"),
        "{read}"
    );
}

#[test]
fn who_has_answered_and_stops_is_done() {
    let (machine, mut bee, mut ant, id) = holding("rig");
    bee.tool("parler_send", json!({"text": "it is dug"}));
    assert!(silent(&stop(&machine, &[INBOX])));
    let end = ant.tool(
        "parler_turn",
        json!({"action": "wait", "id": id, "wait_secs": 0}),
    );
    assert!(
        end.contains("done by bee") && end.contains("answered"),
        "{end}"
    );
    assert!(silent(&stop(&machine, &[INBOX])));
}

#[test]
fn a_turn_that_others_may_take_too_is_taken_before_it_keeps_the_session_going() {
    let (machine, mut bee, mut ant, _) = holding("rig");
    bee.tool("parler_turn", json!({"action": "done"}));
    machine.ok(&["handoff", "--as", "planner", "--next", "anyone may dig"]);
    let said = reason(&stop(&machine, &[INBOX]));
    assert!(
        said.contains("anyone may dig") && said.contains("You have taken this turn"),
        "{said}"
    );
    let list = ant.tool("parler_turn", json!({"action": "list"}));
    assert!(list.contains("taken by bee"), "{list}");
}
