//! Locks between processes: a lock on an open file, which the system takes back when its holder
//! dies. What is written into a lock file only says who holds it; the lock alone decides.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::platform::private_file;

/// How long to sleep between two tries: short against any work done under such a lock, long
/// against the cost of a try.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock if it is free. The file is made when missing and never removed: removing a
/// locked file lets two processes hold "the" lock.
pub(crate) fn try_exclusive(path: &Path) -> io::Result<Option<File>> {
    let file = private_file(path, false)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// Takes the lock, waiting for it at most that long. Blocks the thread.
pub(crate) fn exclusive(path: &Path, wait: Duration) -> io::Result<Option<File>> {
    let until = Instant::now() + wait;
    loop {
        if let Some(file) = try_exclusive(path)? {
            return Ok(Some(file));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_and_free_again_with_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep").join("x.lock");
        let held = try_exclusive(&path).unwrap().unwrap();
        assert!(try_exclusive(&path).unwrap().is_none());
        assert!(
            exclusive(&path, Duration::from_millis(20))
                .unwrap()
                .is_none()
        );
        drop(held);
        // A process that another test starts right now holds all our files until its program runs.
        let patience = Duration::from_secs(10);
        assert!(exclusive(&path, patience).unwrap().is_some());
    }
}
