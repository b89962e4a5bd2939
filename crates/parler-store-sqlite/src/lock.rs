//! One hub a database: an exclusive lock on `<db>.lock`, held as long as the store is open.
//!
//! The lock is the operating system's and ends with its holder, however that ends; the file itself
//! stays, with what the last holder wrote about itself. Nobody ever waits for it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use parler_store::StoreError;

/// How much of a holder's note is shown: it is text that another process wrote.
const NOTE_BYTES: u64 = 1024;

/// The held lock; dropping it lets go.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Where the lock of a database lies.
pub(crate) fn lock_path(db: &Path) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

impl Lock {
    /// Takes the lock of `db` and writes `note` into it, or says who has it.
    pub(crate) fn take(db: &Path, note: &str) -> Result<Self, StoreError> {
        let path = lock_path(db);
        let open = |reason: String| StoreError::Open {
            path: path.clone(),
            reason,
        };
        let mut file = private(&path).map_err(|e| open(e.to_string()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked {
                    holder: holder(&mut file),
                    path,
                });
            }
            Err(TryLockError::Error(e)) => {
                return Err(open(format!(
                    "its folder cannot lock files ({e}); put the database on a local disk"
                )));
            }
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{note}"));
        if let Err(e) = written {
            // The note only serves a message; the lock is what counts.
            tracing::warn!(path = %path.display(), error = %e, "cannot write into the lock file");
        }
        Ok(Self { _file: file })
    }
}

/// Opens a file for reading and writing, made readable for its owner only.
pub(crate) fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// What the holder wrote, on one line.
fn holder(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.take(NOTE_BYTES).read_to_end(&mut bytes);
    let text: String = String::from_utf8_lossy(&bytes)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    match (read, text.trim()) {
        (Ok(_), text) if !text.is_empty() => text.to_owned(),
        _ => "it left no note".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_who_has_it_and_a_later_one_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("hub.sqlite");
        let first = Lock::take(&db, "{\"pid\":1}").unwrap();
        match Lock::take(&db, "second") {
            Err(StoreError::Locked { holder, path }) => {
                assert_eq!(holder, "{\"pid\":1}");
                assert_eq!(path, lock_path(&db));
            }
            other => panic!("{other:?}"),
        }
        drop(first);
        let _third = Lock::take(&db, "x").unwrap();
        assert_eq!(std::fs::read_to_string(lock_path(&db)).unwrap(), "x\n");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let refused = Lock::take(&dir.path().join("no/hub.sqlite"), "x").unwrap_err();
        assert!(matches!(refused, StoreError::Open { .. }), "{refused}");
    }
}
