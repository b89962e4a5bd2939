//! What a host's files were before they were edited, so that `--remove` gives the same bytes back.
//!
//! Kept in the base home, private: a copy of each original beside a record of what was written in
//! its place. When the host has rewritten its file since, the copy is only a guide to what was
//! there before; it is then never put back whole, since that would undo the host's own changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::edit::{self, EditError};

/// The record of one host.
pub struct Undo {
    dir: PathBuf,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    existed: bool,
    written: String,
}

/// A file before it was edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Original {
    /// There was none.
    Absent,
    /// Its text.
    Text(String),
}

impl Original {
    /// The text, blank for a file that did not exist.
    pub fn text(&self) -> &str {
        match self {
            Original::Absent => "",
            Original::Text(text) => text,
        }
    }
}

impl Undo {
    /// Opens the record of a host; a damaged one counts as none.
    pub fn open(base_home: &Path, host: &str) -> Undo {
        let dir = base_home.join("connect").join(host);
        let entries = edit::read(&dir.join("record.json"))
            .ok()
            .flatten()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        Undo { dir, entries }
    }

    /// The original, when the file still is byte for byte what was written.
    pub fn exact(&self, path: &Path, current: &str) -> Option<Original> {
        let entry = self.entries.get(&key(path))?;
        (entry.written == digest(current)).then(|| self.before(path))?
    }

    /// The original, whatever became of the file since.
    pub fn before(&self, path: &Path) -> Option<Original> {
        let entry = self.entries.get(&key(path))?;
        if !entry.existed {
            return Some(Original::Absent);
        }
        edit::read(&self.copy_of(path))
            .ok()
            .flatten()
            .map(Original::Text)
    }

    /// Where the copy of a file lies.
    pub fn copy_of(&self, path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let tag = &digest(&key(path))[..8];
        self.dir
            .join(format!("{}.{tag}.original", name.trim_start_matches('.')))
    }

    /// Notes an original and what is about to be written in its place.
    ///
    /// # Errors
    /// [`EditError::Io`]; the file must then not be edited.
    pub fn note(&mut self, path: &Path, original: &Original, new: &str) -> Result<(), EditError> {
        if let Original::Text(text) = original {
            edit::write(&self.copy_of(path), text)?;
        }
        let entry = Entry {
            existed: matches!(original, Original::Text(_)),
            written: digest(new),
        };
        self.entries.insert(key(path), entry);
        self.save()
    }

    /// Forgets a file once it is as it was.
    ///
    /// # Errors
    /// [`EditError::Io`].
    pub fn forget(&mut self, path: &Path) -> Result<(), EditError> {
        if self.entries.remove(&key(path)).is_none() {
            return Ok(());
        }
        edit::delete(&self.copy_of(path))?;
        self.save()
    }

    fn save(&self) -> Result<(), EditError> {
        let text = serde_json::to_string_pretty(&self.entries).unwrap_or_default();
        edit::write(&self.dir.join("record.json"), &text)
    }
}

fn key(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_original_is_exact_only_while_nobody_else_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::new("/home/u/.claude.json");
        let original = Original::Text("{ }\n".into());
        Undo::open(dir.path(), "h")
            .note(path, &original, "new")
            .unwrap();
        let mut undo = Undo::open(dir.path(), "h");
        assert_eq!(undo.exact(path, "new"), Some(original.clone()));
        assert_eq!(undo.exact(path, "newer"), None);
        assert_eq!(undo.before(path), Some(original));
        undo.forget(path).unwrap();
        assert!(!undo.copy_of(path).exists());
        assert_eq!(Undo::open(dir.path(), "h").before(path), None);
    }

    #[test]
    fn a_damaged_record_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("connect/h/record.json");
        edit::write(&record, "{broken").unwrap();
        assert_eq!(Undo::open(dir.path(), "h").before(Path::new("/x")), None);
    }
}
