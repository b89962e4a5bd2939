//! How often in a row a Stop hook has kept a session from stopping.
//!
//! A hook that always finds something to say would keep a session going for ever. So the blocks of
//! a session are counted here, whatever the host says about itself: five in a row at most, and a
//! row ends ten minutes after its last block. One small file a host session in the base home.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use parler_identity::keyfile;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Blocks in a row: below the eight at which the host itself gives up on a hook.
pub const MAX_BLOCKS: u32 = 5;
/// A row is over this long after its last block.
const ROW_MS: i64 = 10 * 60 * 1000;
/// Files that are kept; beyond it the ones not touched for longest go.
const MAX_FILES: usize = 256;

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

/// The row of one host session.
pub struct Blocks {
    path: PathBuf,
    now_ms: i64,
}

impl Blocks {
    /// The row of that session.
    pub fn of(base: &Path, session_id: &str, now_ms: i64) -> Blocks {
        let digest = Sha256::digest(session_id.as_bytes());
        let name: String = digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Blocks {
            path: base.join("hooks").join(format!("{name}.json")),
            now_ms,
        }
    }

    /// Whether one more block is allowed.
    pub fn allowed(&self) -> bool {
        self.read().after_block(self.now_ms).is_some()
    }

    /// Counts one more block; `false` when the row is full, or another hook of this session is
    /// counting right now, or it cannot be written down: then nothing may be blocked.
    pub fn count(&self) -> bool {
        let lock = self.path.with_extension("lock");
        if keyfile::create_once(&lock, b"").is_err() {
            return false;
        }
        let Ok(held) = File::options().write(true).open(&lock) else {
            return false;
        };
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return false,
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
        let surplus = files.len().saturating_sub(2 * MAX_FILES);
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
        let at = |session: &str, now_ms| Blocks::of(dir.path(), session, now_ms);
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
        let blocks = Blocks::of(Path::new("/dev/null"), "s", 0);
        assert!(!blocks.count());
    }
}
