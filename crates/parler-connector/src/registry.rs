//! Which sessions of which agent hosts there are on this machine, and which identity each has.
//!
//! One small file a session in `<base>/sessions`. A host's session id is only looked up here: it
//! tells a shell command, a hook or a resumed session which identity the session's MCP server has.
//! An entry outlives its process, as the memory of that; only one whose process still runs is
//! *live*. Nothing here is a secret and nothing is trusted further than the user's own files are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parler_identity::{KeyFileError, keyfile};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::naming::{digest, path_bytes};
use crate::platform::{Alive, Proc, Processes};

/// Entries that are kept: far more sessions than one person resumes. Beyond it the oldest dead
/// ones go.
pub const MAX_ENTRIES: usize = 256;

/// Where a system cannot tell whether a process runs, an entry counts as live for this long after
/// its last update.
const ASSUMED_LIFE_MS: i64 = 24 * 60 * 60 * 1000;

/// One session of an agent host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The host's short name.
    pub host: String,
    /// The host's id of the session, once it told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The home of the session's identity.
    pub home: PathBuf,
    /// Where the session works.
    pub workspace: PathBuf,
    /// Its slot in that workspace; absent for a home found otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// The session's MCP server; absent when none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Proc>,
    /// What started the MCP server: the host, or something below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_process: Option<Proc>,
    /// The session can be woken through an inbox of its host.
    #[serde(default)]
    pub inbox_socket: bool,
    /// Last change, milliseconds since the epoch.
    pub updated_ms: i64,
}

/// The sessions of one base home.
#[derive(Clone, Debug)]
pub struct Registry {
    dir: PathBuf,
    processes: Arc<dyn Processes>,
    now_ms: i64,
}

impl Registry {
    /// Opens the registry of a base home; reads and creates nothing yet.
    #[must_use]
    pub fn open(cx: &Context, base: &Path) -> Self {
        Self {
            dir: base.join("sessions"),
            processes: Arc::clone(cx.processes()),
            now_ms: cx.now_ms(),
        }
    }

    /// Writes the entry in place of the one that it had, and forgets the oldest dead entries when
    /// there are too many.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put(&self, entry: &Entry) -> Result<(), KeyFileError> {
        let path = self.path_of(entry);
        let text = serde_json::to_vec(entry).unwrap_or_default();
        keyfile::replace(&path, &text)?;
        self.prune(&path);
        Ok(())
    }

    /// Gives an entry the session id that its host named only with a call. The session keeps the
    /// identity that its server has by then, also when it had another one before: that server has
    /// acted as somebody already. An entry that has an id keeps it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn name_session(&self, entry: &mut Entry, session_id: &str) -> Result<(), KeyFileError> {
        if entry.session_id.is_some() || session_id.is_empty() {
            return Ok(());
        }
        self.remove(entry);
        entry.session_id = Some(session_id.to_owned());
        self.put(entry)
    }

    /// Removes the entry.
    pub fn remove(&self, entry: &Entry) {
        // One that is gone already, or cannot be removed, is stale soon enough.
        let _ = fs::remove_file(self.path_of(entry));
    }

    /// Notes that the session's MCP server ended. An entry with a session id stays as the memory
    /// of that session's identity; one without is of no use to anybody.
    pub fn retire(&self, entry: &Entry) {
        if entry.session_id.is_none() {
            return self.remove(entry);
        }
        let mut ended = entry.clone();
        ended.process = None;
        ended.host_process = None;
        ended.inbox_socket = false;
        ended.updated_ms = self.now_ms.max(entry.updated_ms);
        if self.put(&ended).is_err() {
            self.remove(entry);
        }
    }

    /// All entries, newest first. A file that is no entry is passed over.
    #[must_use]
    pub fn all(&self) -> Vec<Entry> {
        let mut found: Vec<Entry> = self.read().into_iter().map(|(_, entry)| entry).collect();
        found.sort_by_key(|entry| std::cmp::Reverse(entry.updated_ms));
        found
    }

    /// The entries whose MCP server runs, newest first.
    #[must_use]
    pub fn live(&self) -> Vec<Entry> {
        let mut found = self.all();
        found.retain(|entry| self.is_live(entry));
        found
    }

    /// The entries of that session id: live ones first, then the newest.
    #[must_use]
    pub fn find_session(&self, session_id: &str) -> Vec<Entry> {
        let mut found = self.all();
        found.retain(|entry| entry.session_id.as_deref() == Some(session_id));
        found.sort_by_key(|entry| !self.is_live(entry));
        found
    }

    /// The live entries of the identity that has that home, newest first.
    #[must_use]
    pub fn by_home(&self, home: &Path) -> Vec<Entry> {
        let mut found = self.live();
        found.retain(|entry| entry.home == home);
        found
    }

    /// Whether the MCP server of the entry still runs.
    #[must_use]
    pub fn is_live(&self, entry: &Entry) -> bool {
        let Some(process) = &entry.process else {
            return false;
        };
        match self.processes.alive(process) {
            Alive::Yes => true,
            Alive::No => false,
            Alive::Unknown => self.now_ms - entry.updated_ms < ASSUMED_LIFE_MS,
        }
    }

    fn path_of(&self, entry: &Entry) -> PathBuf {
        let place = match entry.session_id {
            // The same session may have an identity below each of several homes.
            Some(_) => entry.home.parent().unwrap_or(&entry.home),
            None => &entry.home,
        };
        let session = entry.session_id.as_deref().unwrap_or_default();
        let name = digest(&[entry.host.as_bytes(), session.as_bytes(), path_bytes(place)]);
        self.dir.join(format!("{name}.json"))
    }

    fn read(&self) -> Vec<(PathBuf, Entry)> {
        let Ok(listing) = fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        listing
            .filter_map(|item| {
                let path = item.ok()?.path();
                if path.extension()? != "json" {
                    return None;
                }
                let bytes = keyfile::read(&path).ok()??;
                Some((path, serde_json::from_slice(&bytes).ok()?))
            })
            .collect()
    }

    /// Forgets the oldest entries beyond [`MAX_ENTRIES`], dead ones first; never `kept`.
    fn prune(&self, kept: &Path) {
        let mut found = self.read();
        if found.len() <= MAX_ENTRIES {
            return;
        }
        found.retain(|(path, _)| path != kept);
        found.sort_by_key(|(_, entry)| (self.is_live(entry), entry.updated_ms));
        let surplus = found.len() + 1 - MAX_ENTRIES;
        for (path, _) in found.into_iter().take(surplus) {
            let _ = fs::remove_file(path); // another process may have been quicker
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    fn entry(session: Option<&str>, home: &str, process: Option<Proc>, updated_ms: i64) -> Entry {
        Entry {
            host: "claude-code".into(),
            session_id: session.map(Into::into),
            home: home.into(),
            workspace: "/w".into(),
            slot: Some(0),
            process,
            host_process: None,
            inbox_socket: false,
            updated_ms,
        }
    }

    fn registry(world: &World) -> Registry {
        Registry::open(&world.context([]), world.base())
    }

    #[test]
    fn an_entry_is_found_by_session_and_by_home_while_its_process_runs() {
        let world = World::new();
        let registry = registry(&world);
        let server = world.spawn(100, 1);
        registry
            .put(&entry(Some("s"), "/h/ws/a", Some(server), 1))
            .unwrap();
        assert_eq!(registry.find_session("s").len(), 1);
        assert!(registry.find_session("t").is_empty());
        assert_eq!(registry.by_home(Path::new("/h/ws/a")).len(), 1);
        world.end(100);
        assert!(registry.live().is_empty());
        assert_eq!(
            registry.find_session("s").len(),
            1,
            "remembered all the same"
        );
        // Another process with the same number is not that process.
        world.spawn(100, 1);
        assert!(registry.live().is_empty());
    }

    #[test]
    fn the_live_entry_of_a_session_comes_first() {
        let world = World::new();
        let registry = registry(&world);
        let server = world.spawn(100, 1);
        registry
            .put(&entry(Some("s"), "/h/ws/a", Some(server), 1))
            .unwrap();
        registry.put(&entry(Some("s"), "/i/ws/b", None, 9)).unwrap();
        let found = registry.find_session("s");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].home, Path::new("/h/ws/a"));
    }

    #[test]
    fn a_retired_session_is_remembered_and_a_nameless_one_is_not() {
        let world = World::new();
        let registry = registry(&world);
        let server = world.spawn(100, 1);
        for id in [Some("s"), None] {
            let entry = entry(id, "/h/ws/a", Some(server.clone()), 1);
            registry.put(&entry).unwrap();
            registry.retire(&entry);
        }
        let left = registry.all();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].session_id.as_deref(), Some("s"));
        assert_eq!(left[0].process, None);
    }

    #[test]
    fn what_is_no_entry_is_passed_over() {
        let world = World::new();
        let registry = registry(&world);
        registry.put(&entry(Some("s"), "/h/a", None, 1)).unwrap();
        let dir = world.base().join("sessions");
        fs::write(dir.join("broken.json"), b"{").unwrap();
        fs::write(dir.join("other.txt"), b"x").unwrap();
        fs::create_dir(dir.join("folder.json")).unwrap();
        assert_eq!(registry.all().len(), 1);
    }

    #[test]
    fn the_oldest_dead_entries_go_when_there_are_too_many() {
        let world = World::new();
        let registry = registry(&world);
        let server = world.spawn(100, 1);
        let old_and_live = entry(Some("live"), "/h/ws/l", Some(server), 0);
        registry.put(&old_and_live).unwrap();
        for n in 1..=MAX_ENTRIES {
            let at = i64::try_from(n).unwrap();
            let entry = entry(Some(&format!("s{n}")), "/h/ws/x", None, at);
            // The slow way to the bound would sync the disk for each.
            let text = serde_json::to_vec(&entry).unwrap();
            fs::write(registry.path_of(&entry), text).unwrap();
        }
        registry
            .put(&entry(Some("new"), "/h/ws/n", None, 0))
            .unwrap();
        let left = registry.all();
        assert_eq!(left.len(), MAX_ENTRIES);
        let has = |id: &str| left.iter().any(|e| e.session_id.as_deref() == Some(id));
        assert!(has("live") && has("new") && has("s256") && !has("s1") && !has("s2"));
    }

    #[cfg(unix)]
    #[test]
    fn entries_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let world = World::new();
        let registry = registry(&world);
        let entry = entry(Some("s"), "/h/a", None, 1);
        registry.put(&entry).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&registry.path_of(&entry)), 0o600);
        assert_eq!(mode(&world.base().join("sessions")), 0o700);
    }
}
