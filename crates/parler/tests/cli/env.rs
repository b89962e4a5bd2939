//! A machine of one test: a HOME of its own, a free port for its local hub, commands with nothing
//! else in their environment. Its hub is stopped at the end.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything in these tests may take: generous, since many run side by side.
pub const PATIENCE: Duration = Duration::from_secs(40);

pub struct Machine {
    pub dir: tempfile::TempDir,
}

impl Machine {
    /// A machine whose local hub will use a port of its own, so that tests run side by side.
    pub fn new() -> Machine {
        let machine = Machine::without_port();
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        std::fs::create_dir_all(machine.base()).unwrap();
        std::fs::write(machine.base().join("hub.port"), format!("{port}\n")).unwrap();
        machine
    }

    pub fn without_port() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        Machine { dir }
    }

    pub fn home(&self) -> &Path {
        self.dir.path()
    }

    pub fn work(&self) -> PathBuf {
        self.home().join("work")
    }

    pub fn base(&self) -> PathBuf {
        self.home().join(".parler")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parler"));
        command
            .args(args)
            .current_dir(self.work())
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Done {
        Done::of(self.command(args))
    }

    /// Runs it and expects success.
    pub fn ok(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.code, 0, "{args:?}: {}{}", done.out, done.err);
        done.out
    }

    /// Runs it with `--json` and expects success.
    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    /// Runs it with something on standard input.
    pub fn feed(&self, mut command: Command, input: &[u8]) -> Done {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that does not read all of it closes the pipe.
        let _ = stdin.write_all(input);
        drop(stdin);
        Done::from(child)
    }

    /// A session opened by `planner`; its key.
    pub fn open(&self, topic: &str) -> String {
        let args = ["session", "open", "--as", "planner", "--topic", topic];
        let opened = self.json(&[&args[..], &["--context", "build the login"]].concat());
        opened["key"].as_str().unwrap().to_owned()
    }

    /// A session `topic` with `planner` and `webdev` (frontend) in it.
    pub fn session(&self, topic: &str) {
        let key = self.open(topic);
        self.ok(&[
            "session", "join", &key, "--as", "webdev", "--role", "frontend",
        ]);
    }

    /// Process of the running local hub.
    pub fn hub_pid(&self) -> Option<u64> {
        self.json(&["hub", "status"])["pid"].as_u64()
    }

    /// The folder of the identity that `--as NAME` selects.
    pub fn named_home(&self, name: &str) -> PathBuf {
        PathBuf::from(
            self.json(&["whoami", "--as", name])["home"]
                .as_str()
                .unwrap(),
        )
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.command(&["hub", "stop"]).output();
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Done {
    pub fn of(mut command: Command) -> Done {
        Done::from(command.spawn().unwrap())
    }

    pub fn from(child: Child) -> Done {
        let began = Instant::now();
        let pid = child.id();
        let (told, done) = channel();
        std::thread::spawn(move || told.send(child.wait_with_output()));
        let Ok(output) = done.recv_timeout(PATIENCE) else {
            signal(pid, "KILL");
            panic!("a command did not end within {PATIENCE:?}");
        };
        Done::output(output.unwrap(), began.elapsed())
    }

    fn output(output: Output, took: Duration) -> Done {
        Done {
            code: code(output.status),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            took,
        }
    }
}

/// The exit code; of a killed process 128 and the signal, as shells say it.
pub fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap())
}

/// Sends a signal by the name that `kill` knows.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .output()
        .unwrap();
    assert!(sent.status.success(), "{sent:?}");
}

pub fn alive(pid: u64) -> bool {
    // A zombie is a process that has ended.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().next());
    !matches!(state, None | Some("Z"))
}

/// Looks again and again until it is so.
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A command that runs on, read line by line.
pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                let Ok(line) = line else { return };
                if told.send(line).is_err() {
                    return;
                }
            }
        });
        Running { child, lines }
    }

    /// The next line.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("no line came")
    }

    /// Lines up to and including the first that contains the text.
    pub fn until(&self, text: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            seen.push(
                self.lines
                    .recv_timeout(PATIENCE)
                    .unwrap_or_else(|_| panic!("{text:?} never came; there were {seen:#?}")),
            );
            if seen.last().unwrap().contains(text) {
                return seen;
            }
        }
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for the end; the exit code.
    pub fn end(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return code(status);
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn complaints(&mut self) -> String {
        let mut text = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
