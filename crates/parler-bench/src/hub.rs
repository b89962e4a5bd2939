//! A hub process of our own: temporary database, port of the kernel's choice, killed on drop.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// How long a hub may take to answer after its start.
const UP_WITHIN: Duration = Duration::from_secs(20);

/// A running hub.
pub struct HubProcess {
    child: Child,
    binary: PathBuf,
    /// Where it listens.
    pub addr: SocketAddr,
    durability: String,
    limits: Limits,
    folder: tempfile::TempDir,
}

/// Which rates the hub keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// None.
    Off,
    /// Those of any hub.
    Default,
}

/// The hub's binary: as given, or the one beside this program.
pub fn binary(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let path = match given {
        Some(path) => path,
        None => std::env::current_exe()?.with_file_name("parler-hub"),
    };
    let built = "build it with `cargo build -p parler-hub`";
    path.canonicalize()
        .with_context(|| format!("no hub at {}: {built}", path.display()))
}

impl HubProcess {
    /// Starts a hub without rate limits.
    pub fn start(binary: &Path, durability: &str) -> anyhow::Result<HubProcess> {
        HubProcess::start_with(binary, durability, Limits::Off)
    }

    /// Starts a hub.
    pub fn start_with(
        binary: &Path,
        durability: &str,
        limits: Limits,
    ) -> anyhow::Result<HubProcess> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let child = spawn(binary, &folder, addr, durability, limits)?;
        let mut hub = HubProcess {
            child,
            binary: binary.to_owned(),
            addr,
            durability: durability.to_owned(),
            limits,
            folder,
        };
        hub.wait_up()?;
        Ok(hub)
    }

    /// kill -9, then the same hub again.
    pub fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        let (durability, limits) = (&self.durability, self.limits);
        self.child = spawn(&self.binary, &self.folder, self.addr, durability, limits)?;
        self.wait_up()
    }

    /// Where the database lies.
    pub fn database(&self) -> PathBuf {
        self.folder.path().join("hub.sqlite")
    }

    /// User and system time that the hub has used so far, in microseconds.
    pub fn cpu_micros(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let after = stat.rsplit_once(')')?.1;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks: u64 =
            fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(ticks * 10_000)
    }

    fn wait_up(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + UP_WITHIN;
        loop {
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(self.folder.path().join("hub.log"))?;
                bail!("the hub ended with {status}: {log}");
            }
            if std::net::TcpStream::connect(self.addr).is_ok() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the hub did not come up within {UP_WITHIN:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn spawn(
    binary: &Path,
    folder: &tempfile::TempDir,
    addr: SocketAddr,
    durability: &str,
    limits: Limits,
) -> anyhow::Result<Child> {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(folder.path().join("hub.log"))?;
    let mut command = Command::new(binary);
    command.args([
        "--addr",
        &addr.to_string(),
        "--durability",
        durability,
        "--db",
    ]);
    command.arg(folder.path().join("hub.sqlite"));
    if limits == Limits::Off {
        for limit in ["http", "ops", "sends", "room-sends"] {
            command.args([&format!("--max-{limit}-per-min"), "0"]);
        }
    }
    command.args(["--max-connections", "4096"]);
    command.env("RUST_LOG", "warn");
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    command.spawn().context("the hub does not start")
}

impl Drop for HubProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
