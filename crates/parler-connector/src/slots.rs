//! The identities of agent hosts: one a session, found again by everything that the session runs.
//!
//! A slot is a home for one live session of a host in a workspace. The session's MCP server takes
//! it and holds its lock for life ([`take`]); shell commands and hooks of the session only look it
//! up ([`find`]). How the two meet, in this order:
//!
//! 1. the host's session id, as the registry remembers it;
//! 2. the process tree: a command below the process that started a live MCP server is its own;
//! 3. a home that an older client made for this workspace and session: it is adopted;
//! 4. the lowest slot that is free and, where the host tells its session ids at start, that no
//!    other session owns.
//!
//! Two processes never decide at the same time: the choice is made under a lock of the folder
//! that holds the slots. It mints no key and connects to nothing.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::context::Context;
use crate::home::HomeError;
use crate::lock;
use crate::naming::{digest, path_bytes, scoped_folder};
use crate::registry::{Entry, Registry};

/// Slots of one host in one workspace: more than the registry remembers sessions
/// ([`MAX_ENTRIES`](crate::registry::MAX_ENTRIES)), so that remembered ones never use them up.
pub const MAX_SLOTS: u32 = 1024;

/// How long to wait for another process to make its choice, which takes milliseconds.
const CHOICE_WAIT: Duration = Duration::from_secs(5);

/// Hosts whose every process is one session, so that a process tree tells the session even when
/// the host renamed it on the way.
const ONE_SESSION_A_PROCESS: &[&str] = &["claude-code"];

/// The hold on a slot: as long as it lives no other process can take that home.
#[derive(Debug)]
pub struct SlotLock {
    file: File,
    path: PathBuf,
}

impl SlotLock {
    fn try_take(home: &Path, wanted: &Wanted<'_>) -> Result<Option<Self>, HomeError> {
        let path = home.join("slot.lock");
        let taken = lock::try_exclusive(&path).map_err(HomeError::lock(&path))?;
        Ok(taken.map(|file| {
            let mut lock = Self { file, path };
            lock.say(wanted);
            lock
        }))
    }

    /// Writes who holds it: for a person who looks, nothing reads it back.
    fn say(&mut self, wanted: &Wanted<'_>) {
        let text = format!(
            "{{\"pid\":{},\"host\":{:?}}}\n",
            wanted.cx.pid(),
            wanted.host
        );
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .and_then(|_| self.file.write_all(text.as_bytes()));
        if let Err(error) = written {
            tracing::debug!(path = %self.path.display(), %error, "cannot note the holder of a slot");
        }
    }
}

/// What somebody wants a home for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub cx: &'a Context,
    pub registry: &'a Registry,
    /// The folder that holds `ws/`.
    pub parent: &'a Path,
    /// `parent` was named by the user: only homes below it will do.
    pub pinned: bool,
    pub host: &'a str,
    pub session_id: Option<&'a str>,
    pub workspace: &'a Path,
}

/// What a home is to the session that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// A slot of the workspace.
    Slot(u32),
    /// Made by an older client.
    Adopted,
    /// Whatever the session's MCP server has.
    Server,
}

impl How {
    fn remembered(slot: Option<u32>) -> Self {
        slot.map_or(How::Server, How::Slot)
    }
    fn slot(self) -> Option<u32> {
        match self {
            How::Slot(slot) => Some(slot),
            _ => None,
        }
    }
}

/// A home that was found or taken.
#[derive(Debug)]
pub(crate) struct Found {
    pub home: PathBuf,
    pub how: How,
    pub lock: Option<SlotLock>,
    pub entry: Option<Entry>,
    /// Something that the user should be told.
    pub note: Option<String>,
}

impl Wanted<'_> {
    fn folder(&self) -> PathBuf {
        self.parent.join("ws")
    }

    /// The home of a slot.
    pub fn home_of(&self, slot: u32) -> PathBuf {
        let name = digest(&[
            self.host.as_bytes(),
            path_bytes(self.workspace),
            &slot.to_be_bytes(),
        ]);
        self.folder().join(name)
    }

    /// The home that existing clients use here, if there is one.
    fn adopted(&self) -> Option<PathBuf> {
        let home = self
            .folder()
            .join(scoped_folder(self.workspace, self.session_id));
        home.join("config.json").is_file().then_some(home)
    }

    /// What the registry remembers of this session, best first.
    fn remembered(&self) -> Vec<Entry> {
        let Some(id) = self.session_id else {
            return Vec::new();
        };
        let mut found = self.registry.find_session(id);
        found.retain(|entry| self.may_use(&entry.home));
        found
    }

    fn may_use(&self, home: &Path) -> bool {
        !self.pinned || home.starts_with(self.folder())
    }

    /// What the registry is told of the home; `serves`: by the session's MCP server.
    pub fn entry(&self, home: &Path, slot: Option<u32>, serves: bool) -> Entry {
        let processes = self.cx.processes();
        let me = self.cx.pid();
        let parent = || processes.parent_of(me).filter(|&parent| parent > 1);
        Entry {
            host: self.host.to_owned(),
            session_id: self.session_id.map(str::to_owned),
            home: home.to_owned(),
            workspace: self.workspace.to_owned(),
            slot,
            process: serves.then(|| {
                let unknown = || crate::platform::Proc {
                    pid: me,
                    start: String::new(),
                };
                processes.look_up(me).unwrap_or_else(unknown)
            }),
            host_process: serves.then(|| processes.look_up(parent()?)).flatten(),
            inbox_socket: false,
            updated_ms: self.cx.now_ms(),
        }
    }

    fn choosing(&self) -> Result<File, HomeError> {
        let path = self.folder().join("choice.lock");
        lock::exclusive(&path, CHOICE_WAIT)
            .map_err(HomeError::lock(&path))?
            .ok_or(HomeError::Busy { path })
    }

    /// Homes of this host here that belong to other sessions.
    fn owned_by_others(&self) -> Vec<PathBuf> {
        if self.session_id.is_none() {
            return Vec::new();
        }
        let other = |entry: &Entry| {
            entry.session_id.is_some() && entry.session_id.as_deref() != self.session_id
        };
        let all = self.registry.all();
        all.into_iter()
            .filter(other)
            .map(|entry| entry.home)
            .collect()
    }

    fn note(&self, entry: &Entry) -> Result<(), HomeError> {
        self.registry.put(entry).map_err(HomeError::File)
    }
}

/// Takes a home for the MCP server of a session and holds it.
pub(crate) fn take(wanted: Wanted<'_>) -> Result<Found, HomeError> {
    let _choosing = wanted.choosing()?;
    let mut note = None;
    // What a server had for another reason than a slot (a variable, `--as`) is not for taking.
    let known = wanted
        .remembered()
        .into_iter()
        .filter(|entry| entry.slot.is_some())
        .map(|entry| (entry.home, How::remembered(entry.slot)))
        .chain(wanted.adopted().map(|home| (home, How::Adopted)));
    for (home, how) in known {
        match SlotLock::try_take(&home, &wanted)? {
            Some(lock) => return finish(&wanted, home, how, lock, None),
            None if note.is_none() => {
                note = Some(format!(
                    "the identity in {} is in use by another process; this session has another one",
                    home.display()
                ));
            }
            None => {}
        }
    }
    let owned = wanted.owned_by_others();
    for slot in 0..MAX_SLOTS {
        let home = wanted.home_of(slot);
        if owned.contains(&home) {
            continue;
        }
        if let Some(lock) = SlotLock::try_take(&home, &wanted)? {
            return finish(&wanted, home, How::Slot(slot), lock, note);
        }
    }
    Err(HomeError::Full {
        folder: wanted.folder(),
    })
}

fn finish(
    wanted: &Wanted<'_>,
    home: PathBuf,
    how: How,
    lock: SlotLock,
    note: Option<String>,
) -> Result<Found, HomeError> {
    let entry = wanted.entry(&home, how.slot(), true);
    wanted.note(&entry)?;
    Ok(Found {
        home,
        how,
        lock: Some(lock),
        entry: Some(entry),
        note,
    })
}

/// Finds the home of the session that a shell command or hook belongs to.
pub(crate) fn find(wanted: Wanted<'_>) -> Result<Found, HomeError> {
    let found = |home: PathBuf, how: How| Found {
        home,
        how,
        lock: None,
        entry: None,
        note: None,
    };
    if let Some(entry) = wanted.remembered().into_iter().next() {
        return Ok(found(entry.home, How::remembered(entry.slot)));
    }
    if let Some(entry) = by_process_tree(&wanted) {
        if wanted.session_id.is_some() {
            wanted.note(&wanted.entry(&entry.home, entry.slot, false))?;
        }
        return Ok(found(entry.home, How::remembered(entry.slot)));
    }
    if let Some(home) = wanted.adopted() {
        return Ok(found(home, How::Adopted));
    }
    if wanted.session_id.is_none() {
        let live = the_only_live(&wanted);
        return Ok(live.map_or_else(
            || found(wanted.home_of(0), How::Slot(0)),
            |entry| found(entry.home, How::remembered(entry.slot)),
        ));
    }
    let (home, how) = assign(&wanted)?;
    Ok(found(home, how))
}

/// The live session whose host process is above this process.
fn by_process_tree(wanted: &Wanted<'_>) -> Option<Entry> {
    let above = wanted.cx.processes().ancestors(wanted.cx.pid());
    let mut near = wanted.registry.live();
    near.retain(|entry| {
        entry.host == wanted.host
            && wanted.may_use(&entry.home)
            && entry
                .host_process
                .as_ref()
                .is_some_and(|process| above.contains(process))
    });
    // A process that serves several sessions tells only the one that nobody claimed yet.
    let unnamed: Vec<&Entry> = near.iter().filter(|e| e.session_id.is_none()).collect();
    match (unnamed.as_slice(), near.as_slice()) {
        ([one], _) => Some((*one).clone()),
        ([], [one]) if single_session(wanted) => Some(one.clone()),
        _ => None,
    }
}

fn single_session(wanted: &Wanted<'_>) -> bool {
    wanted.session_id.is_none() || ONE_SESSION_A_PROCESS.contains(&wanted.host)
}

fn the_only_live(wanted: &Wanted<'_>) -> Option<Entry> {
    let mut live = wanted.registry.live();
    live.retain(|entry| {
        entry.host == wanted.host
            && entry.workspace == wanted.workspace
            && wanted.may_use(&entry.home)
    });
    match live.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Gives a session that has no MCP server a slot of its own, and remembers it.
fn assign(wanted: &Wanted<'_>) -> Result<(PathBuf, How), HomeError> {
    let _choosing = wanted.choosing()?;
    // Another command of the same session may have been quicker.
    if let Some(entry) = wanted.remembered().into_iter().next() {
        return Ok((entry.home, How::remembered(entry.slot)));
    }
    let owned = wanted.owned_by_others();
    for slot in 0..MAX_SLOTS {
        let home = wanted.home_of(slot);
        if owned.contains(&home) || SlotLock::try_take(&home, wanted)?.is_none() {
            continue;
        }
        wanted.note(&wanted.entry(&home, Some(slot), false))?;
        return Ok((home, How::Slot(slot)));
    }
    Err(HomeError::Full {
        folder: wanted.folder(),
    })
}
