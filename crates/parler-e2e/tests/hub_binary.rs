//! The command line against the hub's own binary, with a database, through kills.

#![allow(clippy::unwrap_used)] // a test that cannot go on should stop right there
#![cfg(unix)]

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parler_e2e::binary;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);
/// The hub is killed that often while messages are sent.
const KILLS: usize = 5;

struct Site {
    dir: tempfile::TempDir,
    addr: String,
    parler: PathBuf,
    hub: PathBuf,
}

/// A hub's process, ended with the test.
struct Hub(Child);

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Site {
    fn new() -> Site {
        let addr = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        Site {
            dir: tempfile::tempdir().unwrap(),
            addr: addr.to_string(),
            parler: binary("parler"),
            hub: binary("parler-hub"),
        }
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PARLER_HUB", format!("ws://{}", self.addr))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn start_hub(&self) -> Hub {
        let db = self.dir.path().join("hub.sqlite");
        let args = ["--addr", &self.addr, "--db", db.to_str().unwrap()];
        let mut command = self.command(&self.hub, &args);
        let hub = Hub(command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap());
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(&self.addr).is_err() {
            assert!(Instant::now() < deadline, "the hub does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        hub
    }

    fn cli(&self, args: &[&str]) -> Output {
        self.command(&self.parler, args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let done = self.cli(&[args, &["--json"]].concat());
        assert!(
            done.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        serde_json::from_slice(&done.stdout).unwrap()
    }
}

#[test]
fn what_was_acknowledged_survives_kills_once_and_in_order() {
    let site = Site::new();
    let hub = std::sync::Mutex::new(site.start_hub());
    let opened = site.json(&["session", "open", "--as", "planner", "--topic", "auth"]);
    let key = opened["key"].as_str().unwrap();
    site.json(&["session", "join", key, "--as", "webdev"]);
    let over = AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut acknowledged = Vec::new();
            for n in 0.. {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let text = format!("message {n}");
                if site
                    .cli(&["send", "--as", "planner", &text])
                    .status
                    .success()
                {
                    acknowledged.push(text);
                }
            }
            acknowledged
        });
        for _ in 0..KILLS {
            std::thread::sleep(Duration::from_millis(300));
            let mut hub = hub.lock().unwrap();
            hub.0.kill().unwrap();
            hub.0.wait().unwrap();
            *hub = site.start_hub();
        }
        over.store(true, Ordering::SeqCst);
        sender.join().unwrap()
    });
    assert!(
        acknowledged.len() > KILLS,
        "there was traffic: {}",
        acknowledged.len()
    );
    let read = site.json(&["recv", "--as", "webdev", "--all", "--limit", "1000"]);
    let texts: Vec<&str> = read["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["parts"][0]["text"].as_str())
        .filter(|text| text.starts_with("message "))
        .collect();
    for text in &acknowledged {
        let times = texts.iter().filter(|read| *read == text).count();
        assert_eq!(times, 1, "{text} is there {times} times");
    }
    let numbers: Vec<u32> = texts
        .iter()
        .map(|text| text[8..].parse().unwrap())
        .collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn a_second_hub_on_the_same_database_names_the_first() {
    let site = Site::new();
    let first = site.start_hub();
    let db = site.dir.path().join("hub.sqlite");
    let args = ["--addr", "127.0.0.1:0", "--db", db.to_str().unwrap()];
    let done = site.command(&site.hub, &args).output().unwrap();
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains(&first.0.id().to_string()), "{said}");
}
