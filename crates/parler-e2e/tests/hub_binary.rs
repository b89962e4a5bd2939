//! The command line against the hub's own binary, with a database, through kills.

#![allow(clippy::unwrap_used)] // a test that cannot go on should stop right there
#![cfg(unix)]

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parler_e2e::binary;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);
/// The hub is killed that often while messages are sent.
const KILLS: usize = 5;
/// Messages that are acknowledged at least before each kill.
const BETWEEN_KILLS: usize = 3;
/// Where the hub's port is looked for: below those that systems give out by themselves, so that
/// nobody gets it between two lives of the hub.
const PORTS: std::ops::Range<u32> = 20_000..30_000;

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

/// Ends the sender, however the test goes on.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Site {
    /// A place with a running hub.
    fn new() -> (Site, Hub) {
        let mut site = Site {
            dir: tempfile::tempdir().unwrap(),
            addr: String::new(),
            parler: binary("parler"),
            hub: binary("parler-hub"),
        };
        let span = PORTS.end - PORTS.start;
        for n in 0..50 {
            let port = PORTS.start + std::process::id().wrapping_mul(7).wrapping_add(n * 97) % span;
            site.addr = format!("127.0.0.1:{port}");
            if let Some(hub) = site.try_hub() {
                return (site, hub);
            }
        }
        panic!("no hub comes up: {}", site.log());
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

    /// Starts the hub again where it was.
    fn start_hub(&self) -> Hub {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(hub) = self.try_hub() {
                return hub;
            }
            assert!(Instant::now() < deadline, "no hub: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts the hub; `None` when it ends at once, as where it cannot have its port.
    fn try_hub(&self) -> Option<Hub> {
        let db = self.dir.path().join("hub.sqlite");
        let args = ["--addr", &self.addr, "--db", db.to_str().unwrap()];
        let mut log = std::fs::File::options();
        let log = log.create(true).append(true).open(self.log_file()).unwrap();
        let mut command = self.command(&self.hub, &args);
        let mut hub = Hub(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let there = TcpStream::connect(&self.addr).is_ok();
            if hub.0.try_wait().unwrap().is_some() {
                return None;
            }
            if there {
                return Some(hub);
            }
            assert!(Instant::now() < deadline, "it hangs: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("hub.log")
    }

    /// What all hubs of this place said.
    fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
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
    let (site, mut hub) = Site::new();
    let opened = site.json(&["session", "open", "--as", "planner", "--topic", "auth"]);
    let key = opened["key"].as_str().unwrap();
    site.json(&["session", "join", key, "--as", "webdev"]);
    let over = AtomicBool::new(false);
    let count = AtomicUsize::new(0);
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
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }
            acknowledged
        });
        // Also when an assertion fails: the sender is waited for.
        let _stops = Stops(&over);
        for _ in 0..KILLS {
            let enough = count.load(Ordering::SeqCst) + BETWEEN_KILLS;
            let deadline = Instant::now() + PATIENCE;
            while count.load(Ordering::SeqCst) < enough {
                assert!(Instant::now() < deadline, "no traffic: {}", site.log());
                std::thread::sleep(Duration::from_millis(5));
            }
            hub.0.kill().unwrap();
            hub.0.wait().unwrap();
            hub = site.start_hub();
        }
        over.store(true, Ordering::SeqCst);
        sender.join().unwrap()
    });
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
    let (site, first) = Site::new();
    let db = site.dir.path().join("hub.sqlite");
    let args = ["--addr", "127.0.0.1:0", "--db", db.to_str().unwrap()];
    let done = site.command(&site.hub, &args).output().unwrap();
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains(&first.0.id().to_string()), "{said}");
}
