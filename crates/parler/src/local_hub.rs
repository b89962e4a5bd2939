//! The hub on demand: one a user, started by the first command that needs it.
//!
//! 1. `hub.lock` held and its address answers: it runs, use it.
//! 2. Else queue at `hub.start.lock`: of any number of commands that start together one goes on,
//!    the others find the hub running when it is their turn.
//! 3. Whoever goes on waits for a hub that is stopping (its lock is still held), makes sure that
//!    no stranger has the port, and starts `parler hub --local` in a session of its own.
//!
//! The hub itself chooses its port, makes its key and its secret, and stops after an hour without
//! connections. All its files lie in the base home. This file never ends a process but on request
//! ([`LocalHub::stop`]), and then only the one that holds the lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parler_connector::local::{self, LocalHub as Known};
use parler_identity::keyfile;
use serde::{Deserialize, Serialize};

use crate::error::{CliError, CliResult, Kind};
use crate::os;

/// How long a starter waits for a hub that holds the lock and does not answer: it is starting or
/// stopping.
const SETTLE: Duration = Duration::from_secs(5);
/// How long a hub may take to start; the first start makes a database.
const START: Duration = Duration::from_secs(10);
/// How long commands queue behind one that starts the hub: longer than that one may take.
const QUEUE: Duration = Duration::from_secs(18);
/// How long a hub may take to stop: parked calls are answered, the database is closed.
const STOP: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// A connection within this machine is made or refused at once.
const DIAL: Duration = Duration::from_millis(500);
/// How much of the log an error repeats.
const LOG_TAIL: u64 = 1000;

/// What stands in `hub.lock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The hub's process.
    pub pid: u32,
    /// Where it listens.
    pub addr: SocketAddr,
    /// Since when, milliseconds.
    pub started: i64,
}

/// How the local hub is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs and answers.
    Running(Holder),
    /// Its lock is held and nothing answers yet, or any more.
    Changing,
    /// It does not run.
    Stopped,
}

/// The hub's place in a base home.
#[derive(Clone, Debug)]
pub struct LocalHub {
    base: PathBuf,
}

impl LocalHub {
    /// The hub of that base home, whether it runs or not.
    pub fn of(base: &Path) -> LocalHub {
        LocalHub {
            base: base.to_owned(),
        }
    }

    /// A file of the hub.
    pub fn file(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// What the hub's files say; `None` before its first start.
    ///
    /// # Errors
    /// When one of them is damaged or readable by others.
    pub fn known(&self) -> CliResult<Option<Known>> {
        Known::read(&self.base).map_err(|e| CliError::new(Kind::Config, e.to_string()))
    }

    /// The port that the hub chose at its first start.
    pub fn port(&self) -> Option<u16> {
        local::port_in(&self.base)
    }

    /// The address, once a port was chosen.
    pub fn url(&self) -> Option<String> {
        self.port().map(local::url_at)
    }

    /// Whether an address means this hub, however it is spelled.
    pub fn is_at(&self, url: &str) -> bool {
        self.port().is_some_and(|port| local::is_at(port, url))
    }

    /// How it is now.
    ///
    /// # Errors
    /// When the lock cannot be looked at.
    pub fn state(&self) -> CliResult<State> {
        let Some(holder) = self.holder()? else {
            return Ok(State::Stopped);
        };
        match holder {
            // At its first start it listens a moment before it has made its key.
            Some(holder) if answers(holder.addr) && self.known()?.is_some() => {
                Ok(State::Running(holder))
            }
            _ => Ok(State::Changing),
        }
    }

    /// Makes sure that it runs: starts it when it does not. Blocks for as long as that takes.
    ///
    /// # Errors
    /// A stranger on the port, a hub that does not start, a folder that cannot be written.
    pub fn ensure(&self) -> CliResult<Known> {
        if !matches!(self.state()?, State::Running(_)) {
            self.start_in_turn()?;
        }
        self.known()?
            .ok_or_else(|| self.failed("runs without its files"))
    }

    /// Asks the hub to stop and waits until it has. `false`: it did not run.
    ///
    /// # Errors
    /// When the lock's holder is no hub, or does not stop.
    pub fn stop(&self) -> CliResult<bool> {
        let Some(holder) = self.holder()? else {
            return Ok(false);
        };
        let path = self.file("hub.lock");
        let holder = holder.ok_or_else(|| {
            CliError::new(
                Kind::Config,
                format!("{} does not say who holds it", path.display()),
            )
            .hint("the hub is just starting or stopping: try again")
        })?;
        let words = os::command_line(holder.pid).unwrap_or_default();
        if !is_hub(&words) {
            return Err(CliError::new(
                Kind::Config,
                format!(
                    "{} names process {}, which is no Parler hub",
                    path.display(),
                    holder.pid
                ),
            )
            .hint("nothing was ended; look with: parler hub status"));
        }
        os::terminate(holder.pid).map_err(|e| {
            CliError::new(
                Kind::Refused,
                format!("can't end process {}: {e}", holder.pid),
            )
        })?;
        let gone = wait(STOP, || Ok(self.holder()?.is_none().then_some(())))?;
        gone.map(|()| true).ok_or_else(|| {
            let pid = holder.pid;
            CliError::new(
                Kind::Internal,
                format!("the hub (process {pid}) does not stop"),
            )
            .hint(format!("its log: {}", self.file("hub.log").display()))
        })
    }

    fn start_in_turn(&self) -> CliResult {
        let path = self.file("hub.start.lock");
        keyfile::create_once(&path, b"").map_err(config)?;
        let lock = File::options().write(true).open(&path)?;
        let turn = wait(QUEUE, || match lock.try_lock() {
            Ok(()) => Ok(Some(())),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e.into()),
        })?;
        if turn.is_none() {
            return Err(CliError::new(
                Kind::Unreachable,
                "another command is starting the local hub, for too long",
            )
            .hint(format!("its log: {}", self.file("hub.log").display())));
        }
        // Released when the file is closed, at the end of this function.
        let settled = wait(SETTLE, || {
            let state = self.state()?;
            Ok((state != State::Changing).then_some(state))
        })?;
        match settled {
            Some(State::Running(_)) => Ok(()),
            Some(_) => self.start(),
            None => Err(self.stuck()),
        }
    }

    fn start(&self) -> CliResult {
        if let Some(port) = self.port().filter(|port| answers(loopback(*port))) {
            return Err(stranger(port));
        }
        let mut child = self.spawn()?;
        let up = wait(START, || match self.state()? {
            State::Running(_) => Ok(Some(())),
            _ => match child.try_wait()? {
                Some(status) => Err(self.failed(&format!("ended at once ({status})"))),
                None => Ok(None),
            },
        })?;
        up.ok_or_else(|| self.failed("does not answer"))
    }

    fn spawn(&self) -> CliResult<Child> {
        let log = open_private_log(&self.file("hub.log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["hub", "--local", "--detached", "--base"])
            .arg(&self.base)
            .current_dir(&self.base)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        for (name, _) in std::env::vars_os() {
            if is_others_business(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        os::detach(&mut command);
        command
            .spawn()
            .map_err(|e| CliError::new(Kind::Internal, format!("can't start the local hub: {e}")))
    }

    /// Who holds the hub's lock: nobody, somebody, somebody who says who.
    fn holder(&self) -> CliResult<Option<Option<Holder>>> {
        let mut lock = match File::options().read(true).open(self.file("hub.lock")) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e.into()),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                lock.read_to_string(&mut text)?;
                Ok(Some(serde_json::from_str(&text).ok()))
            }
        }
    }

    fn stuck(&self) -> CliError {
        CliError::new(
            Kind::Unreachable,
            "the local hub holds its lock and does not answer",
        )
        .hint(format!(
            "parler hub stop, then try again; its log: {}",
            self.file("hub.log").display()
        ))
    }

    fn failed(&self, how: &str) -> CliError {
        let path = self.file("hub.log");
        let said = tail(&path);
        let last = said
            .lines()
            .rfind(|line| !line.trim().is_empty())
            .unwrap_or("its log is empty");
        CliError::new(Kind::Config, format!("the local hub {how}: {last}"))
            .hint(format!("its log: {}", path.display()))
    }
}

fn config(error: parler_identity::KeyFileError) -> CliError {
    CliError::new(Kind::Config, error.to_string())
}

/// Somebody else has the port that this user's session keys name.
pub fn stranger(port: u16) -> CliError {
    let who = os::listener(port).unwrap_or_else(|| "a program that is not this user's hub".into());
    CliError::new(
        Kind::Config,
        format!("port {port}, where the local hub belongs, is taken by {who}"),
    )
    .hint("stop that program, or use another hub: --hub URL or PARLER_HUB")
}

fn is_hub(words: &[String]) -> bool {
    let program = words
        .first()
        .map(|word| word.rsplit(['/', '\\']).next().unwrap_or(word));
    program.is_some_and(|name| name.starts_with("parler"))
        && words.iter().any(|word| word == "--local")
}

/// Whether a variable is not meant for the local hub: what a user set for another hub or for this
/// agent, and secrets, which have no place in a process that lives long.
fn is_others_business(variable: &str) -> bool {
    const PREFIXES: [&str; 6] = [
        "PARLER_",
        "CLAUDE",
        "CODEX_",
        "ANTHROPIC_",
        "OPENAI_",
        "GEMINI_",
    ];
    const SECRETS: [&str; 4] = ["TOKEN", "SECRET", "PASSWORD", "API_KEY"];
    let name = variable.to_ascii_uppercase();
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SECRETS.iter().any(|word| name.contains(word))
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn answers(addr: SocketAddr) -> bool {
    TcpStream::connect_timeout(&addr, DIAL).is_ok()
}

/// Looks again and again until there is something, `None` when the time is over.
fn wait<T>(
    patience: Duration,
    mut look: impl FnMut() -> CliResult<Option<T>>,
) -> CliResult<Option<T>> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

fn open_private_log(path: &Path) -> CliResult<File> {
    // The first line of a new file, so that it is private from the start.
    keyfile::create_once(path, b"").map_err(config)?;
    Ok(OpenOptions::new().append(true).open(path)?)
}

fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(LOG_TAIL);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn hub(port: Option<u16>) -> (tempfile::TempDir, LocalHub) {
        let dir = tempfile::tempdir().unwrap();
        let hub = LocalHub::of(dir.path());
        if let Some(port) = port {
            std::fs::write(hub.file("hub.port"), format!("{port}\n")).unwrap();
        }
        (dir, hub)
    }

    #[test]
    fn its_address_is_known_in_every_spelling() {
        let (_dir, hub) = hub(Some(7070));
        assert_eq!(hub.url().as_deref(), Some("parler://127.0.0.1:7070"));
        for (url, here) in [
            ("ws://127.0.0.1:7070/ws", true),
            (" parler://localhost:7070/ ", true),
            ("127.0.0.1:7070", true),
            ("ws://127.0.0.1:7071", false),
            ("ws://hub.example:7070", false),
            ("ws://127.0.0.1", false),
        ] {
            assert_eq!(hub.is_at(url), here, "{url}");
        }
        assert!(!LocalHub::of(Path::new("/nowhere")).is_at("ws://127.0.0.1:7070"));
    }

    #[test]
    fn a_held_lock_is_told_from_a_left_one() {
        let (_dir, hub) = hub(None);
        assert_eq!(hub.state().unwrap(), State::Stopped);
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = Holder {
            pid: 1,
            addr: socket.local_addr().unwrap(),
            started: 5,
        };
        let mut lock = File::create(hub.file("hub.lock")).unwrap();
        writeln!(lock, "{}", serde_json::to_string(&holder).unwrap()).unwrap();
        assert_eq!(hub.state().unwrap(), State::Stopped, "left by a dead hub");
        lock.lock().unwrap();
        assert_eq!(
            hub.state().unwrap(),
            State::Changing,
            "it has not made its key yet"
        );
        for (name, text) in [("hub.port", "7070"), ("hub.secret", "s")] {
            keyfile::replace(&hub.file(name), text.as_bytes()).unwrap();
        }
        keyfile::load_or_create_key(&hub.file("hub.key")).unwrap();
        assert_eq!(hub.state().unwrap(), State::Running(holder));
        drop(socket);
        assert_eq!(hub.state().unwrap(), State::Changing);
        assert_eq!(
            hub.stop().unwrap_err().kind,
            Kind::Config,
            "process 1 is no hub"
        );
    }

    #[test]
    fn a_stranger_on_the_port_is_named() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let (_dir, hub) = hub(Some(port));
        let error = hub.ensure().unwrap_err();
        assert_eq!(error.kind, Kind::Config);
        assert!(error.message.contains(&port.to_string()), "{error}");
        #[cfg(target_os = "linux")]
        assert!(
            error
                .message
                .contains(&format!("(pid {})", std::process::id())),
            "{error}"
        );
    }

    #[test]
    fn the_hub_inherits_no_secrets() {
        for name in [
            "PARLER_HUB",
            "CLAUDE_CODE_MESSAGING_TOKEN",
            "GH_TOKEN",
            "X_API_KEY",
        ] {
            assert!(is_others_business(name), "{name}");
        }
        for name in ["PATH", "HOME", "TMPDIR", "RUST_LOG"] {
            assert!(!is_others_business(name), "{name}");
        }
    }

    #[test]
    fn only_a_hub_counts_as_one() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(is_hub(&words("/usr/bin/parler hub --local --base /x")));
        assert!(!is_hub(&words("vim hub --local")));
        assert!(!is_hub(&words("parler hub --addr 127.0.0.1:7070")));
        assert!(!is_hub(&[]));
    }
}
