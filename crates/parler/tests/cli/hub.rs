//! The hub on demand, and hubs that misbehave.

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use crate::env::{Done, Machine, Running, alive, eventually, signal};

#[test]
fn ten_commands_at_once_start_exactly_one_hub() {
    // The very first start: also the port is not chosen yet.
    let machine = Machine::without_port();
    let children: Vec<_> = (0..10)
        .map(|n| {
            machine
                .command(&["rooms", "--as", &format!("agent{n}")])
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let done = Done::from(child);
        assert_eq!(done.code, 0, "{done:?}");
    }
    let log = std::fs::read_to_string(machine.base().join("hub.log")).unwrap();
    assert_eq!(log.matches("hub is up").count(), 1, "{log}");
    let base = machine.base().display().to_string();
    let hubs = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|process| {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("--local") && line.contains(&base)
        });
    assert_eq!(hubs.count(), 1);
}

#[test]
fn it_has_a_session_of_its_own_and_stops_when_asked() {
    let machine = Machine::new();
    machine.ok(&["rooms"]);
    let pid = machine.hub_pid().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    assert_eq!(fields[3], pid.to_string(), "it leads its session");
    assert!(machine.ok(&["hub", "status"]).contains(&pid.to_string()));
    assert_eq!(machine.json(&["hub", "stop"])["stopped"], true);
    eventually("it is gone", || !alive(pid));
    assert_eq!(machine.json(&["hub", "status"])["state"], "stopped");
    assert_eq!(machine.json(&["hub", "stop"])["stopped"], false);
}

#[test]
fn a_restart_is_invisible() {
    let machine = Machine::new();
    machine.session("auth");
    let url = machine.json(&["hub", "status"])["url"].clone();
    for name in ["TERM", "KILL"] {
        let pid = machine.hub_pid().unwrap();
        signal(u32::try_from(pid).unwrap(), name);
        // At once: the old one may still be stopping.
        machine.ok(&["send", "--as", "planner", name]);
        assert_ne!(machine.hub_pid(), Some(pid));
    }
    assert_eq!(machine.json(&["hub", "status"])["url"], url);
    let shown = machine.ok(&["recv", "--as", "webdev"]);
    assert!(shown.contains("TERM") && shown.contains("KILL"), "{shown}");
}

#[test]
fn a_key_that_names_the_stopped_local_hub_starts_it() {
    let machine = Machine::new();
    let key = machine.open("auth");
    machine.ok(&["hub", "stop"]);
    machine.ok(&["session", "join", &key, "--as", "webdev"]);
}

#[test]
fn a_stranger_on_the_port_is_named_and_gets_nothing() {
    let machine = Machine::new();
    machine.open("auth");
    machine.ok(&["hub", "stop"]);
    let url = machine.json(&["hub", "status"])["url"]
        .as_str()
        .unwrap()
        .to_owned();
    let port: u16 = url.rsplit_once(':').unwrap().1.parse().unwrap();
    let stranger = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let done = machine.run(&["rooms", "--as", "planner"]);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(done.err.contains(&port.to_string()), "{done:?}");
    assert!(
        done.err.contains(&format!("(pid {})", std::process::id())),
        "{done:?}"
    );
    assert!(done.took < Duration::from_secs(6), "{done:?}");
    stranger.set_nonblocking(true).unwrap();
    while let Ok((mut peer, _)) = stranger.accept() {
        let mut said = Vec::new();
        peer.set_nonblocking(false).unwrap();
        peer.read_to_end(&mut said).unwrap();
        assert!(said.is_empty(), "nothing was said to it: {said:?}");
    }
}

#[test]
fn another_hub_on_the_local_port_does_not_get_the_secret() {
    let machine = Machine::new();
    machine.open("auth");
    machine.ok(&["hub", "stop"]);
    let url = machine.json(&["hub", "status"])["url"]
        .as_str()
        .unwrap()
        .to_owned();
    let port = url.rsplit_once(':').unwrap().1;
    let addr = format!("127.0.0.1:{port}");
    let mut stranger = Running::start(machine.command(&["hub", "--addr", &addr]));
    eventually("it listens", || std::net::TcpStream::connect(&addr).is_ok());
    let args = ["rooms", "--as", "planner", "--hub", &url];
    let done = machine.run(&args);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(
        done.err.contains(port) && done.err.contains("parler"),
        "{done:?}"
    );
    stranger.signal("TERM");
    stranger.end();
}

#[test]
fn a_hub_that_says_nothing_ends_every_command_in_time() {
    let machine = Machine::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", silent.local_addr().unwrap());
    let children: Vec<_> = [
        &["rooms"][..],
        &["send", "--room", "x", "hi"],
        &["recv", "--room", "x", "--watch"],
        &["session", "open"],
        &["session", "join", "AAAAAAAA"],
    ]
    .iter()
    .map(|args| {
        machine
            .command(&[args, &["--hub", &url][..]].concat())
            .spawn()
            .unwrap()
    })
    .collect();
    for child in children {
        let done = Done::from(child);
        assert_eq!(done.code, 3, "{done:?}");
        assert!(done.took < Duration::from_secs(30), "{done:?}");
        assert!(done.err.contains(&url[5..]), "{done:?}");
    }
}

#[test]
fn a_hub_that_is_not_there_is_named_with_what_to_do() {
    let machine = Machine::new();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut command = machine.command(&["rooms"]);
    command.env("PARLER_HUB", format!("ws://{free}"));
    let done = Done::of(command);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(
        done.err.contains(&free.to_string()) && done.err.contains("hint:"),
        "{done:?}"
    );
}

#[test]
fn what_is_no_hub_is_called_that() {
    let machine = Machine::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = server.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::Write;
        for peer in server.incoming() {
            let mut peer = peer.unwrap();
            let _ = peer.read(&mut [0; 4096]);
            let _ = peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
        }
    });
    let done = machine.run(&["rooms", "--hub", &format!("http://{addr}")]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains("not a Parler hub"), "{done:?}");
}

#[test]
fn an_explicit_hub_with_a_secret_lets_in_who_has_it() {
    let machine = Machine::new();
    let addr = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let args = ["hub", "--addr", &addr, "--join-secret", "open-sesame"];
    let mut hub = Running::start(machine.command(&args));
    eventually("it listens", || std::net::TcpStream::connect(&addr).is_ok());
    let url = format!("ws://{addr}");
    let with = |secret: &str, args: &[&str]| {
        let mut command = machine.command(args);
        command
            .env("PARLER_HUB", &url)
            .env("PARLER_JOIN_SECRET", secret);
        Done::of(command)
    };
    let done = with("wrong", &["rooms"]);
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.err.contains("join secret"), "{done:?}");
    let opened = with(
        "open-sesame",
        &["session", "open", "--topic", "t", "--json"],
    );
    assert_eq!(opened.code, 0, "{opened:?}");
    assert!(!opened.out.contains("open-sesame") && !opened.err.contains("open-sesame"));

    // A key may name any hub: the secret is for the configured one only.
    let key = serde_json::from_str::<serde_json::Value>(&opened.out).unwrap();
    let key = key["key"].as_str().unwrap().to_owned();
    let mut command = machine.command(&["session", "join", &key, "--as", "webdev"]);
    command.env("PARLER_JOIN_SECRET", "open-sesame");
    let done = Done::of(command);
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.err.contains("PARLER_HUB="), "{done:?}");
    hub.signal("TERM");
    assert_eq!(hub.end(), 0);
}

#[test]
fn a_session_on_another_hub_is_followed_there() {
    let machine = Machine::new();
    let addr = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let _hub = Running::start(machine.command(&["hub", "--addr", &addr]));
    eventually("it listens", || std::net::TcpStream::connect(&addr).is_ok());
    let url = format!("ws://{addr}");
    let open = [
        "session", "open", "--as", "planner", "--topic", "far", "--hub", &url,
    ];
    let key = machine.json(&open)["key"].as_str().unwrap().to_owned();
    assert!(key.ends_with(&url));
    // An identity that is new, and one that has rooms on the local hub.
    machine.ok(&["rooms", "--as", "old"]);
    for name in ["fresh", "old"] {
        machine.ok(&["session", "join", &key, "--as", name]);
        machine.ok(&["send", "--as", name, "here I am"]);
        assert!(machine.ok(&["whoami", "--as", name]).contains(&addr));
    }
    machine.ok(&["session", "close", "--as", "old"]);
    assert_eq!(machine.json(&["whoami", "--as", "old"])["hubIsLocal"], true);
    assert_eq!(machine.json(&["whoami", "--as", "fresh"])["hub"], url);
}
