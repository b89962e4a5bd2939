//! A small world for tests: a temporary home, a workspace, and processes that can be moved.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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
