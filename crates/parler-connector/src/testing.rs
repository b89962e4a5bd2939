//! A small world for tests: a temporary home, a workspace, and processes that can be moved.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use parler_identity::{Draft, KeyPair, sign_message};
use parler_protocol::ids::short_id;
use parler_protocol::{EndpointRef, Part, StoredMessage, Target};

use crate::context::Context;
use crate::platform::{Proc, Processes};

#[derive(Clone, Debug)]
struct Row {
    parent: u32,
    session: u32,
    tty: Option<String>,
    start: String,
}

/// Processes as a test wants them.
#[derive(Debug, Default)]
pub(crate) struct FakeProcesses {
    rows: Mutex<(u64, HashMap<u32, Row>)>,
}

impl FakeProcesses {
    fn row<T>(&self, pid: u32, ask: impl FnOnce(&Row) -> T) -> Option<T> {
        self.rows.lock().unwrap().1.get(&pid).map(ask)
    }
}

impl Processes for FakeProcesses {
    fn can_tell(&self) -> bool {
        true
    }
    fn start_of(&self, pid: u32) -> Option<String> {
        self.row(pid, |row| row.start.clone())
    }
    fn parent_of(&self, pid: u32) -> Option<u32> {
        self.row(pid, |row| row.parent)
    }
    fn session_leader(&self, pid: u32) -> Option<Proc> {
        self.look_up(self.row(pid, |row| row.session)?)
    }
    fn tty(&self, pid: u32) -> Option<String> {
        self.row(pid, |row| row.tty.clone())?
    }
}

/// A temporary home with `.parler` below it, a workspace, and processes.
pub(crate) struct World {
    dir: tempfile::TempDir,
    base: PathBuf,
    pub(crate) processes: Arc<FakeProcesses>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("work")).unwrap();
        Self {
            base: root.join(".parler"),
            dir,
            processes: Arc::default(),
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// A process below `parent` in no terminal.
    pub(crate) fn spawn(&self, pid: u32, parent: u32) -> Proc {
        self.spawn_in(pid, parent, pid, None)
    }

    /// A process below `parent`, in the session led by `session`, on a terminal.
    pub(crate) fn spawn_in(&self, pid: u32, parent: u32, session: u32, tty: Option<&str>) -> Proc {
        let mut rows = self.processes.rows.lock().unwrap();
        rows.0 += 1;
        let start = rows.0.to_string();
        let row = Row {
            parent,
            session,
            tty: tty.map(Into::into),
            start: start.clone(),
        };
        rows.1.insert(pid, row);
        Proc { pid, start }
    }

    pub(crate) fn end(&self, pid: u32) {
        self.processes.rows.lock().unwrap().1.remove(&pid);
    }

    /// A context in the workspace with that environment, `HOME` added, as the process 1000.
    pub(crate) fn context<const N: usize>(&self, env: [(&str, &str); N]) -> Context {
        self.context_of(1000, env)
    }

    pub(crate) fn context_of<const N: usize>(&self, pid: u32, env: [(&str, &str); N]) -> Context {
        let home = self.root().to_string_lossy().into_owned();
        let env = env.into_iter().chain([("HOME", home.as_str())]);
        Context::new(env.map(|(k, v)| (k.to_owned(), v.to_owned())), self.work())
            .with_processes(self.processes.clone(), pid)
    }
}

/// A blob id of the right shape.
pub(crate) const BLOB: &str = "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf";

/// An agent that writes signed messages.
pub(crate) struct Author {
    keys: KeyPair,
    name: String,
    role: Option<String>,
}

impl Author {
    pub(crate) fn new(name: &str, role: Option<&str>) -> Self {
        Self {
            keys: KeyPair::generate().unwrap(),
            name: name.into(),
            role: role.map(Into::into),
        }
    }

    pub(crate) fn id(&self) -> &str {
        self.keys.id().as_str()
    }

    pub(crate) fn short(&self) -> &str {
        short_id(self.id())
    }

    pub(crate) fn says(&self, seq: i64, room: &str, text: &str) -> StoredMessage {
        self.sends(seq, room, vec![Part::text(text)])
    }

    pub(crate) fn sends(&self, seq: i64, room: &str, parts: Vec<Part>) -> StoredMessage {
        let target = Target::Room { room: room.into() };
        self.addresses(seq, &target, room, parts)
    }

    /// A message that answers another one.
    pub(crate) fn answers(&self, room: &str, reply_to: &str, parts: Vec<Part>) -> StoredMessage {
        let target = Target::Room { room: room.into() };
        self.writes(1, &target, room, Some(reply_to), parts)
    }

    /// A message signed for `target` that stands in `room`.
    pub(crate) fn addresses(
        &self,
        seq: i64,
        target: &Target,
        room: &str,
        parts: Vec<Part>,
    ) -> StoredMessage {
        self.writes(seq, target, room, None, parts)
    }

    fn writes(
        &self,
        seq: i64,
        target: &Target,
        room: &str,
        reply_to: Option<&str>,
        parts: Vec<Part>,
    ) -> StoredMessage {
        let draft = Draft {
            target,
            parts,
            reply_to,
            ts: 1_760_000_000_000,
            uid: uuid::Uuid::new_v4().to_string(),
            hop: None,
        };
        StoredMessage {
            seq,
            id: uuid::Uuid::now_v7().to_string(),
            room: room.into(),
            from: EndpointRef {
                id: self.id().into(),
                name: self.name.clone(),
                role: self.role.clone(),
            },
            parts: sign_message(&self.keys, draft),
            mentions: None,
            reply_to: reply_to.map(Into::into),
            ts: 1_760_000_000_123,
        }
    }
}
