//! A host's side of `parler mcp`, in plain JSON lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::env::{Machine, PATIENCE, Running, eventually};

pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    calls: i64,
}

impl Server {
    pub fn start(machine: &Machine, env: &[(&str, &str)]) -> Server {
        let mut command = machine.command(&["mcp"]);
        command.envs(env.iter().copied()).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                let Ok(line) = line else { return };
                let value = serde_json::from_str(&line).expect("stdout carries only JSON-RPC");
                if told.send(value).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let mut server = Server {
            child,
            stdin,
            lines,
            calls: 0,
        };
        let hello = server.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "claude-code", "version": "2.1.332" },
            }),
        );
        assert_eq!(hello["result"]["serverInfo"]["name"], "parler");
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request; its id.
    pub fn request(&mut self, method: &str, params: Value) -> i64 {
        self.calls += 1;
        let id = self.calls;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The answer to a request.
    pub fn answer(&mut self, id: i64) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.lines.recv_timeout(left).expect("no answer came");
            if message["id"] == id {
                return message;
            }
        }
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// Calls a tool; its text.
    pub fn tool(&mut self, name: &str, arguments: Value) -> String {
        let answer = self.ask(
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        );
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{name}: {answer}"))
            .to_owned()
    }

    /// Closes standard input; how long the end took, and its exit code.
    pub fn close(&mut self) -> (Duration, i32) {
        let began = Instant::now();
        self.stdin = None;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (began.elapsed(), crate::env::code(status));
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_command_lines_and_a_host_share_a_session() {
    let machine = Machine::new();
    machine.session("auth");
    let key = machine.open("auth");
    let mut bee = Server::start(
        &machine,
        &[("PARLER_NAME", "bee"), ("PARLER_ROLE", "reviewer")],
    );
    let said = bee.tool("parler_join_session", json!({ "key": key }));
    assert!(
        said.contains("3 members") && said.contains("session context"),
        "{said}"
    );
    let watcher = Running::start(machine.command(&["recv", "--as", "webdev", "--watch"]));
    let wait = bee.request(
        "tools/call",
        json!({
            "name": "parler_recv", "arguments": { "wait_secs": 30 },
        }),
    );
    machine.ok(&[
        "handoff",
        "--as",
        "planner",
        "--for",
        "reviewer",
        "--next",
        "look at it",
    ]);
    let woken = bee.answer(wait);
    let text = woken["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("🤝 HANDOFF TO YOU"), "{text}");
    assert!(text.contains("look at it"), "{text}");
    bee.tool("parler_send", json!({ "text": "looks good" }));
    let lines = watcher.until("looks good");
    assert!(
        lines.iter().all(|line| !line.contains("HANDOFF TO YOU")),
        "not webdev's: {lines:?}"
    );
    assert!(
        lines.last().unwrap().contains("bee (reviewer)"),
        "{lines:?}"
    );
    let rooms = bee.tool("parler_rooms", json!({}));
    assert!(
        rooms.contains("auth") && rooms.contains("3 member"),
        "{rooms}"
    );
    let (took, code) = bee.close();
    assert_eq!(code, 0);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_shell_command_of_the_session_is_the_same_agent() {
    let machine = Machine::new();
    let session = [("CLAUDE_CODE_SESSION_ID", "s-1"), ("PARLER_NAME", "bee")];
    let mut server = Server::start(&machine, &session);
    let key = machine.open("auth");
    server.tool("parler_join_session", json!({ "key": key }));
    let mut command = machine.command(&["send", "from the shell"]);
    command.env("CLAUDE_CODE_SESSION_ID", "s-1");
    let done = crate::env::Done::of(command);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(machine.ok(&["recv", "--as", "planner"]).contains("] bee ·"));
}

#[test]
fn two_sessions_in_one_folder_are_two_agents() {
    let machine = Machine::new();
    let mut agents: Vec<Server> = ["s-1", "s-2"]
        .iter()
        .map(|id| Server::start(&machine, &[("CLAUDE_CODE_SESSION_ID", id)]))
        .collect();
    let key = machine.open("auth");
    for agent in &mut agents {
        agent.tool("parler_join_session", json!({ "key": key }));
    }
    let roster = machine.json(&["roster", "--as", "planner"]);
    assert_eq!(roster["entries"].as_array().unwrap().len(), 3);
    for agent in &mut agents {
        agent.close();
    }
    let left = std::fs::read_dir(machine.base().join("ws"))
        .unwrap()
        .flatten();
    let notes = left
        .filter(|home| home.path().join("mcp.json").exists())
        .count();
    assert_eq!(
        notes, 0,
        "a server that ended leaves no note of its environment"
    );
}

#[test]
fn it_answers_at_once_and_looks_for_a_hub_only_when_asked() {
    let machine = Machine::new();
    let began = Instant::now();
    let mut server = Server::start(&machine, &[]);
    let listed = server.ask("tools/list", json!({}));
    // Most of it is the start of the process.
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    for name in ["parler_open_session", "parler_recv", "parler_handoff"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(machine.hub_pid().is_none());
    let said = server.tool(
        "parler_open_session",
        json!({ "topic": "t", "name": "opener" }),
    );
    assert!(
        said.contains("KEY: ") && said.contains("@parler://127.0.0.1:"),
        "{said}"
    );
    assert!(machine.hub_pid().is_some());
}

#[cfg(unix)]
#[test]
fn the_inbox_of_an_idle_session_is_rung() {
    use std::os::unix::net::UnixListener;
    let machine = Machine::new();
    let key = machine.open("auth");
    let path = machine.home().join("inbox.sock");
    let inbox = UnixListener::bind(&path).unwrap();
    let mut server = Server::start(
        &machine,
        &[
            ("CLAUDE_CODE_SESSION_ID", "s-1"),
            ("PARLER_NAME", "bee"),
            ("CLAUDE_CODE_MESSAGING_SOCKET", path.to_str().unwrap()),
            ("CLAUDE_CODE_MESSAGING_TOKEN", "t0k"),
        ],
    );
    server.tool("parler_join_session", json!({ "key": key }));
    let (told, rung) = channel();
    std::thread::spawn(move || {
        for stream in inbox.incoming() {
            let lines: Vec<String> = BufReader::new(stream.unwrap())
                .lines()
                .map_while(Result::ok)
                .collect();
            if told.send(lines).is_err() {
                return;
            }
        }
    });
    machine.ok(&[
        "handoff", "--as", "planner", "--for", "bee", "--next", "wake up",
    ]);
    let lines = rung.recv_timeout(PATIENCE).expect("the inbox was not rung");
    let lines: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0], json!({ "type": "auth", "token": "t0k" }));
    let text = lines[1]["message"]["content"].as_str().unwrap();
    assert!(
        text.starts_with("🤝 HANDOFF TO YOU") && text.contains("wake up"),
        "{text}"
    );
    let read = server.tool("parler_recv", json!({}));
    assert!(read.starts_with("🤝 HANDOFF TO YOU"), "{read}");
    machine.ok(&[
        "handoff", "--as", "planner", "--for", "bee", "--next", "again",
    ]);
    let lines = rung
        .recv_timeout(PATIENCE)
        .expect("the inbox was not rung again");
    assert!(lines[1].contains("again"));
    eventually("nothing is rung twice", || rung.try_recv().is_err());
}

#[test]
fn the_servers_join_secret_goes_to_no_hub_that_a_flag_names() {
    let machine = Machine::new();
    // Both take the same secret: whoever is let in has sent it.
    let start = || {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap().to_string();
        drop(socket);
        let args = ["hub", "--addr", &addr, "--join-secret", "s3cret"];
        let hub = Running::start(machine.command(&args));
        eventually("it listens", || std::net::TcpStream::connect(&addr).is_ok());
        (hub, format!("ws://{addr}"))
    };
    let ((_team, team), (_other, other)) = (start(), start());
    let session = ("CLAUDE_CODE_SESSION_ID", "s-1");
    let env = [
        session,
        ("PARLER_HUB", team.as_str()),
        ("PARLER_JOIN_SECRET", "s3cret"),
    ];
    let _server = Server::start(&machine, &env);
    let run = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = machine.command(args);
        command.env(session.0, session.1).envs(env.iter().copied());
        crate::env::Done::of(command)
    };
    assert_eq!(run(&["rooms"], &[]).code, 0, "the server's own hub");
    for done in [
        run(&["--hub", &other, "rooms"], &[]),
        run(&["rooms"], &[("PARLER_HUB", &other)]),
    ] {
        assert_ne!(done.code, 0, "{done:?}");
        assert!(done.err.contains("join secret"), "{done:?}");
    }
}
