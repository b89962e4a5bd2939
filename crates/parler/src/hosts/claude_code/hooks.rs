//! What the hooks of one host session know of each other: small files in the base home.
//!
//! How often in a row a Stop hook has kept the session from stopping: a hook that always finds
//! something to say would keep it going for ever. So blocks are counted here, whatever the host
//! says about itself: five in a row at most, and a row ends ten minutes after its last block.
//!
//! Whether a Stop hook waits right now: what comes then is its to tell. And which background hook
//! is the newest: every turn's end starts one, and one is enough.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use parler_identity::keyfile;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Blocks in a row: below the eight at which the host itself gives up on a hook.
pub const MAX_BLOCKS: u32 = 5;
/// A row is over this long after its last block.
const ROW_MS: i64 = 10 * 60 * 1000;
/// Files that are kept, a few for each session; beyond it the ones not touched for longest go.
const MAX_FILES: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    blocks: u32,
    last_ms: i64,
}

impl Row {
    /// The row after one more block at that time; `None` when it is full.
    fn after_block(self, now_ms: i64) -> Option<Row> {
        let over = now_ms.saturating_sub(self.last_ms) >= ROW_MS || now_ms < self.last_ms;
        let blocks = if over { 0 } else { self.blocks };
        (blocks < MAX_BLOCKS).then_some(Row {
            blocks: blocks + 1,
            last_ms: now_ms,
        })
    }
}

/// The hooks of one host session.
pub struct Hooks {
    path: PathBuf,
    now_ms: i64,
}

impl Hooks {
    /// The hooks of that session.
    pub fn of(base: &Path, session_id: &str, now_ms: i64) -> Hooks {
        let digest = Sha256::digest(session_id.as_bytes());
        let name: String = digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Hooks {
            path: base.join("hooks").join(format!("{name}.json")),
            now_ms,
        }
    }

    /// Says that a Stop hook waits, for as long as the file is open.
    pub fn waiting(&self) -> Option<File> {
        let file = self.lock_file("stop")?;
        file.try_lock().ok()?;
        Some(file)
    }

    /// Whether a Stop hook waits.
    pub fn is_waited(&self) -> bool {
        let file = self.lock_file("stop");
        file.is_some_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Makes the caller the newest background hook; the answer is its mark.
    pub fn arrive(&self) -> Option<String> {
        let mark = format!("{} {}", std::process::id(), self.now_ms);
        keyfile::replace(&self.path.with_extension("newest"), mark.as_bytes()).ok()?;
        Some(mark)
    }

    /// Whether the background hook of that mark is still the newest.
    pub fn is_newest(&self, mark: &str) -> bool {
        let newest = keyfile::read(&self.path.with_extension("newest"));
        newest
            .ok()
            .flatten()
            .is_some_and(|newest| newest == mark.as_bytes())
    }

    fn lock_file(&self, what: &str) -> Option<File> {
        let path = self.path.with_extension(what);
        keyfile::create_once(&path, b"").ok()?;
        File::options().write(true).open(path).ok()
    }

    /// Whether one more block is allowed.
    pub fn allowed(&self) -> bool {
        self.read().after_block(self.now_ms).is_some()
    }

    /// Counts one more block; `false` when the row is full, or another hook of this session is
    /// counting right now, or it cannot be written down: then nothing may be blocked.
    pub fn count(&self) -> bool {
        let Some(held) = self.lock_file("lock") else {
            return false;
        };
        if held.try_lock().is_err() {
            return false;
        }
        let Some(row) = self.read().after_block(self.now_ms) else {
            return false;
        };
        let text = serde_json::to_vec(&row).unwrap_or_default();
        let written = keyfile::replace(&self.path, &text).is_ok();
        self.prune();
        written
    }

    fn read(&self) -> Row {
        let bytes = keyfile::read(&self.path).ok().flatten().unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn prune(&self) {
        let Some(Ok(listing)) = self.path.parent().map(std::fs::read_dir) else {
            return;
        };
        let mut files: Vec<_> = listing
            .flatten()
            .filter_map(|item| Some((item.metadata().ok()?.modified().ok()?, item.path())))
            .collect();
        files.sort();
        let surplus = files.len().saturating_sub(MAX_FILES);
        for (_, path) in files.into_iter().take(surplus) {
            let _ = std::fs::remove_file(path); // another hook may have been quicker
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_an_end_and_a_new_one_begins_later() {
        let dir = tempfile::tempdir().unwrap();
        let at = |session: &str, now_ms| Hooks::of(dir.path(), session, now_ms);
        for n in 0..MAX_BLOCKS {
            assert!(at("s", i64::from(n)).count(), "{n}");
        }
        assert!(!at("s", 10).allowed() && !at("s", 10).count());
        assert!(at("other", 10).count(), "each session by itself");
        let later = i64::from(MAX_BLOCKS) - 1 + ROW_MS;
        assert!(!at("s", later - 1).count());
        assert!(at("s", later).count());
    }

    #[test]
    fn a_clock_that_went_back_begins_a_new_row() {
        let row = Row {
            blocks: MAX_BLOCKS,
            last_ms: 1_000,
        };
        assert_eq!(
            row.after_block(500),
            Some(Row {
                blocks: 1,
                last_ms: 500
            })
        );
    }

    #[test]
    fn what_cannot_be_counted_is_not_allowed() {
        let blocks = Hooks::of(Path::new("/dev/null"), "s", 0);
        assert!(!blocks.count());
    }

    #[test]
    fn a_waiting_hook_is_seen_for_as_long_as_it_waits() {
        let dir = tempfile::tempdir().unwrap();
        let hooks = Hooks::of(dir.path(), "s", 0);
        assert!(!hooks.is_waited());
        let waits = hooks.waiting().unwrap();
        assert!(hooks.is_waited());
        drop(waits);
        assert!(!hooks.is_waited());
    }

    #[test]
    fn the_newest_background_hook_replaces_the_older_one() {
        let dir = tempfile::tempdir().unwrap();
        let first = Hooks::of(dir.path(), "s", 1).arrive().unwrap();
        let hooks = Hooks::of(dir.path(), "s", 2);
        assert!(hooks.is_newest(&first));
        let second = hooks.arrive().unwrap();
        assert!(!hooks.is_newest(&first) && hooks.is_newest(&second));
    }
}
