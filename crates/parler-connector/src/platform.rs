//! What differs between operating systems for the local half, and nothing else: who leads this
//! terminal session, when a process started, whose child it is, private files to lock.
//!
//! Linux reads `/proc`. Other Unix systems ask `ps`, at most once in two seconds. Elsewhere
//! nothing can be told about processes; callers then get `None` and fall back to ages.
//! Signals nobody, starts nothing but `ps`, and needs no right that a plain user lacks.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One process, told from any later one that gets the same number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proc {
    /// Its number.
    pub pid: u32,
    /// When it started: opaque text, equal for the same process only.
    pub start: String,
}

/// Whether a process that was noted earlier still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alive {
    /// The very process runs.
    Yes,
    /// It ended, or its number belongs to another process now.
    No,
    /// This system does not tell.
    Unknown,
}

/// What can be asked about processes. A trait, so that tests can make their own world.
pub trait Processes: Send + Sync + Debug {
    /// Whether the other questions get an answer on this system.
    fn can_tell(&self) -> bool;
    /// When the process started; `None` when there is no such process.
    fn start_of(&self, pid: u32) -> Option<String>;
    /// The parent of the process.
    fn parent_of(&self, pid: u32) -> Option<u32>;
    /// The leader of the session that the process is in: for a command typed into a terminal the
    /// shell (or what started it) that owns the terminal.
    fn session_leader(&self, pid: u32) -> Option<Proc>;
    /// The controlling terminal of the process, as a path or another stable name.
    fn tty(&self, pid: u32) -> Option<String>;

    /// Whether that very process still runs.
    fn alive(&self, process: &Proc) -> Alive {
        if !self.can_tell() {
            return Alive::Unknown;
        }
        match self.start_of(process.pid) {
            Some(start) if start == process.start => Alive::Yes,
            _ => Alive::No,
        }
    }

    /// The process by its number, as it is now.
    fn look_up(&self, pid: u32) -> Option<Proc> {
        self.start_of(pid).map(|start| Proc { pid, start })
    }

    /// Parents of the process, nearest first; at most [`MAX_ANCESTORS`].
    fn ancestors(&self, pid: u32) -> Vec<Proc> {
        let mut found: Vec<Proc> = Vec::new();
        let mut at = pid;
        while found.len() < MAX_ANCESTORS {
            let Some(parent) = self.parent_of(at).filter(|&p| p > 1 && p != at) else {
                break;
            };
            let Some(process) = self.look_up(parent) else {
                break;
            };
            found.push(process);
            at = parent;
        }
        found
    }
}

/// How far up a process tree is followed: a host, its shells and wrappers are far fewer.
pub const MAX_ANCESTORS: usize = 32;

/// The processes of this machine.
#[must_use]
pub fn system() -> Arc<dyn Processes> {
    #[cfg(target_os = "linux")]
    return Arc::new(linux::ProcFs);
    #[cfg(all(unix, not(target_os = "linux")))]
    return Arc::new(ps::PsTable::default());
    #[cfg(not(unix))]
    return Arc::new(Untold);
}

/// A system that tells nothing about processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untold;

impl Processes for Untold {
    fn can_tell(&self) -> bool {
        false
    }
    fn start_of(&self, _pid: u32) -> Option<String> {
        None
    }
    fn parent_of(&self, _pid: u32) -> Option<u32> {
        None
    }
    fn session_leader(&self, _pid: u32) -> Option<Proc> {
        None
    }
    fn tty(&self, _pid: u32) -> Option<String> {
        None
    }
}

/// The variable that names the user's home.
#[cfg(not(windows))]
pub(crate) const HOME_VARIABLES: &[&str] = &["HOME"];
/// The variables that name the user's home, best first.
#[cfg(windows)]
pub(crate) const HOME_VARIABLES: &[&str] = &["HOME", "USERPROFILE"];

/// Creates a directory and its missing parents, readable by nobody else (Unix: mode 0700). One
/// that exists stays as it is.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Opens a file to read, lock and write, private from the first instant when it is new (Unix: mode
/// 0600). Its directory is made as by [`private_dir`].
pub(crate) fn private_file(path: &Path, append: bool) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).create(true);
    if append {
        options.append(true);
    } else {
        options.write(true).truncate(false);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

/// Puts the content in place of whatever the file held: whole or not at all, private. For content
/// larger than [`parler_identity::keyfile`] takes.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    private_dir(dir)?;
    // Private by itself: temporary files have mode 0600 on Unix.
    let mut temp = tempfile::Builder::new()
        .prefix(".parler-")
        .suffix(".tmp")
        .tempfile_in(dir)?;
    temp.write_all(bytes)?;
    temp.as_file().sync_all()?;
    temp.persist(path)?;
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Proc, Processes};

    /// `/proc` of this machine.
    #[derive(Debug)]
    pub(super) struct ProcFs;

    struct Stat {
        parent: u32,
        session: u32,
        tty: u32,
        start: String,
        ended: bool,
    }

    /// Reads `/proc/PID/stat`. The second field is the command in brackets and may hold anything,
    /// closing brackets and blanks included, so the fields are counted behind the last bracket.
    fn parse(stat: &str) -> Option<Stat> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
        Some(Stat {
            ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: u32::try_from(number(1)?).ok()?,
            session: u32::try_from(number(3)?).ok()?,
            tty: u32::try_from(number(4)?).unwrap_or(0),
            start: (*fields.get(19)?).to_owned(),
        })
    }

    fn stat(pid: u32) -> Option<Stat> {
        let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        parse(&String::from_utf8_lossy(&bytes)).filter(|stat| !stat.ended)
    }

    /// Start times count from the boot: the boot's own mark keeps two boots apart.
    fn boot() -> String {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.chars().take(8).collect()
    }

    /// The name of a terminal by its device number.
    fn tty_name(device: u32) -> Option<String> {
        let major = (device >> 8) & 0xfff;
        let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
        match (major, minor) {
            (0, 0) => None,
            (136..=143, _) => Some(format!("/dev/pts/{}", (major - 136) * 256 + minor)),
            (4, ..=63) => Some(format!("/dev/tty{minor}")),
            _ => Some(format!("tty {major}:{minor}")),
        }
    }

    impl Processes for ProcFs {
        fn can_tell(&self) -> bool {
            true
        }
        fn start_of(&self, pid: u32) -> Option<String> {
            stat(pid).map(|stat| format!("{}:{}", boot(), stat.start))
        }
        fn parent_of(&self, pid: u32) -> Option<u32> {
            stat(pid).map(|stat| stat.parent)
        }
        fn session_leader(&self, pid: u32) -> Option<Proc> {
            let leader = stat(pid)?.session;
            (leader > 0).then(|| self.look_up(leader)).flatten()
        }
        fn tty(&self, pid: u32) -> Option<String> {
            tty_name(stat(pid)?.tty)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_command_with_brackets_does_not_shift_the_fields() {
            let line = "42 (a) Z (b)) S 7 42 41 34817 42 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987 0 0";
            let stat = parse(line).unwrap();
            assert_eq!((stat.parent, stat.session, stat.ended), (7, 41, false));
            assert_eq!(stat.start, "987");
            assert_eq!(tty_name(stat.tty).as_deref(), Some("/dev/pts/1"));
            for broken in ["", "42 (x", "42 (x)", "42 (x) S 1", "42 (x) S a b c d"] {
                assert!(parse(broken).is_none(), "{broken:?}");
            }
        }

        #[test]
        fn terminals_are_named_by_their_device() {
            assert_eq!(tty_name(0), None);
            assert_eq!(tty_name(137 << 8 | 2).as_deref(), Some("/dev/pts/258"));
            assert_eq!(tty_name(4 << 8 | 1).as_deref(), Some("/dev/tty1"));
            assert_eq!(tty_name(4 << 8 | 64).as_deref(), Some("tty 4:64"));
        }

        #[test]
        fn this_process_is_found_and_a_process_that_never_was_is_not() {
            let me = std::process::id();
            let found = ProcFs.look_up(me).unwrap();
            assert_eq!(ProcFs.alive(&found), super::super::Alive::Yes);
            let before = Proc {
                pid: me,
                start: "another start".into(),
            };
            assert_eq!(ProcFs.alive(&before), super::super::Alive::No);
            assert!(ProcFs.start_of(u32::MAX).is_none());
            let parent = ProcFs.parent_of(me).unwrap();
            assert_eq!(ProcFs.ancestors(me).first().map(|p| p.pid), Some(parent));
        }
    }
}

/// Processes as `ps` lists them. Built on every Unix, so that it is tested where it is not used.
#[cfg(unix)]
#[cfg_attr(target_os = "linux", allow(dead_code))]
mod ps {
    use std::collections::HashMap;
    use std::process::{Command, Stdio};
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use super::{MAX_ANCESTORS, Proc, Processes};

    /// How old a listing may be: one command asks several questions at once.
    const FRESH: Duration = Duration::from_secs(2);

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Row {
        parent: u32,
        tty: Option<String>,
        start: String,
    }

    type Table = HashMap<u32, Row>;

    #[derive(Debug, Default)]
    pub(super) struct PsTable {
        last: Mutex<Option<(Instant, Table)>>,
    }

    /// Reads lines of number, parent, terminal and start time (which holds blanks).
    fn parse(listing: &str) -> Table {
        let row = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let pid = words.next()?.parse().ok()?;
            let parent = words.next()?.parse().ok()?;
            let tty = words.next().filter(|tty| !tty.starts_with(['?', '-']));
            let start = words.collect::<Vec<_>>().join(" ");
            let row = Row {
                parent,
                tty: tty.map(str::to_owned),
                start,
            };
            (!row.start.is_empty()).then_some((pid, row))
        };
        listing.lines().filter_map(row).collect()
    }

    fn list() -> Table {
        let listed = Command::new("ps")
            .args(["-A", "-o", "pid=,ppid=,tty=,lstart="])
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        match listed {
            Ok(output) => parse(&String::from_utf8_lossy(&output.stdout)),
            Err(_) => Table::new(),
        }
    }

    impl PsTable {
        fn with<T>(&self, ask: impl FnOnce(&Table) -> T) -> T {
            let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
            match &*last {
                Some((at, table)) if at.elapsed() < FRESH => ask(table),
                _ => ask(&last.insert((Instant::now(), list())).1),
            }
        }
    }

    impl Processes for PsTable {
        fn can_tell(&self) -> bool {
            self.with(|table| !table.is_empty())
        }
        fn start_of(&self, pid: u32) -> Option<String> {
            self.with(|table| table.get(&pid).map(|row| row.start.clone()))
        }
        fn parent_of(&self, pid: u32) -> Option<u32> {
            self.with(|table| table.get(&pid).map(|row| row.parent))
        }
        /// `ps` names no session leader everywhere: the topmost ancestor on the same terminal.
        fn session_leader(&self, pid: u32) -> Option<Proc> {
            self.with(|table| {
                let tty = table.get(&pid)?.tty.as_ref()?;
                let (mut at, mut leader) = (pid, None);
                for _ in 0..MAX_ANCESTORS {
                    let Some(row) = table.get(&at).filter(|row| row.tty.as_ref() == Some(tty))
                    else {
                        break;
                    };
                    leader = Some(Proc {
                        pid: at,
                        start: row.start.clone(),
                    });
                    at = row.parent;
                }
                leader
            })
        }
        fn tty(&self, pid: u32) -> Option<String> {
            self.with(|table| table.get(&pid)?.tty.clone())
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_listing_is_read_and_the_leader_is_the_topmost_on_the_terminal() {
            let table = parse(
                "  1     0 ??       Sat Nov 30 08:00:00 2026\n\
                 10     1 ttys001  Sat Nov 30 09:00:00 2026\n\
                 11    10 ttys001  Sat Nov 30 09:00:01 2026\n\
                 12    11 ttys001  Sat Nov 30 09:05:00 2026\nnonsense\n13 1\n",
            );
            assert_eq!(table.len(), 4);
            assert_eq!(table[&1].tty, None);
            let ps = PsTable {
                last: Mutex::new(Some((Instant::now() + Duration::from_secs(600), table))),
            };
            let leader = ps.session_leader(12).unwrap();
            assert_eq!(leader.pid, 10);
            assert_eq!(leader.start, "Sat Nov 30 09:00:00 2026");
            assert_eq!(ps.tty(12).as_deref(), Some("ttys001"));
            assert_eq!(ps.session_leader(1), None);
            assert_eq!(
                ps.ancestors(12).iter().map(|p| p.pid).collect::<Vec<_>>(),
                [11, 10]
            );
        }

        #[test]
        fn ps_lists_this_process() {
            let ps = PsTable::default();
            if ps.can_tell() {
                assert!(ps.look_up(std::process::id()).is_some());
            }
        }
    }
}
