//! When the write-ahead log is folded into the database, and by whom.
//!
//! SQLite's automatic checkpoint runs inside whichever commit passes its mark: some unlucky caller
//! waits for it. It is off. Instead:
//!
//! 1. After a commit that leaves [`FOLD_PAGES`] or more pages unfolded, the writer rings a thread
//!    with a connection of its own, which runs a `PASSIVE` checkpoint: it blocks neither the
//!    writer nor a reader. Once all is folded and no reader is in the log, SQLite itself starts
//!    the log over at its beginning.
//! 2. Under unbroken load that moment never comes: while the thread folds, the log grows. So when
//!    the log has [`RESTART_PAGES`] pages and the thread has left no more than [`REST_PAGES`], the
//!    writer folds that small rest between two transactions, and the log starts over. If the log
//!    has even [`FULL_PAGES`], the disk cannot follow: the writer waits for the thread and folds
//!    however much is left. So the log stays bounded (unless some other program keeps reading from
//!    it: SQLite never takes a log away from a reader).
//! 3. When a transaction failed, the writer folds at once: if the disk is full, the space of the log
//!    is the only one that there is, and a log that was folded starts over.
//! 4. A closing store folds everything and leaves no log behind.
//!
//! The folding connection never runs a statement that changes anything (`query_only`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::stats::Counters;

/// Unfolded pages that are worth a checkpoint: 16 MiB. The more at once, the more changes of one
/// page are written as one, and a log of this size is still read in a moment after a crash.
const FOLD_PAGES: i64 = 4096;
/// Pages at which the log should start over: 64 MiB.
const RESTART_PAGES: i64 = 16_384;
/// The rest that the writer folds by itself then: some milliseconds of writing.
const REST_PAGES: i64 = 1024;
/// Pages at which the log must start over, whatever it costs: 128 MiB.
const FULL_PAGES: i64 = 32_768;
/// What is left of the log's file after it started over, so that a burst does not keep its disk
/// space for ever: the normal size.
pub(crate) const LOG_FILE_BYTES: i64 = RESTART_PAGES * 4096;

/// The state of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Log {
    pages: i64,
    folded: i64,
}

/// The writer's side of the checkpoints.
pub(crate) struct Checkpoints {
    thread: Option<Folder>,
    /// The thread was rung and has not said that it is done: two cannot fold at once.
    folding: bool,
    counters: Arc<Counters>,
}

/// The folding thread: rung by one channel, heard by the other. Neither ever holds more than one.
struct Folder {
    bell: SyncSender<()>,
    done: Receiver<()>,
    handle: JoinHandle<()>,
}

impl Checkpoints {
    /// Starts the folding thread on a connection of its own.
    pub(crate) fn start(conn: Connection, counters: Arc<Counters>) -> std::io::Result<Self> {
        let (bell, rings) = sync_channel::<()>(1);
        let (says_done, done) = sync_channel::<()>(1);
        let counted = Arc::clone(&counters);
        let handle = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || {
                while rings.recv().is_ok() {
                    counted.checkpoints.fetch_add(1, Ordering::Relaxed);
                    checkpoint(&conn, "PRAGMA wal_checkpoint(PASSIVE)");
                    if says_done.send(()).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            thread: Some(Folder { bell, done, handle }),
            folding: false,
            counters,
        })
    }

    /// Looks at the log after a transaction, and has it folded when it is time.
    pub(crate) fn after_transaction(&mut self, conn: &Connection, failed: bool) {
        let Some(log) = checkpoint(conn, "PRAGMA wal_checkpoint(NOOP)") else {
            return;
        };
        if self.folding && !self.thread_is_done(log.pages >= FULL_PAGES) {
            return;
        }
        match what_to_do(log, failed) {
            Action::Nothing => {}
            // Refused: the thread is gone, and the writer folds once the log has its full length.
            Action::Ring => {
                let rung = self.thread.as_ref().map(|thread| thread.bell.try_send(()));
                self.folding = rung == Some(Ok(()));
            }
            Action::Fold => {
                self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
                checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)");
            }
        }
    }

    /// Whether the thread that was rung has finished; waits for it if told to.
    fn thread_is_done(&mut self, wait: bool) -> bool {
        let Some(thread) = &self.thread else {
            return true;
        };
        let still = !wait && thread.done.try_recv() == Err(TryRecvError::Empty);
        if wait {
            // An error means that it ended: done as well.
            let _ = thread.done.recv();
        }
        self.folding = still;
        !still
    }

    /// Ends the folding thread and folds all that is left.
    pub(crate) fn finish(&mut self, conn: &Connection) {
        if let Some(Folder { bell, done, handle }) = self.thread.take() {
            drop((bell, done));
            if handle.join().is_err() {
                tracing::error!("the checkpoint thread ended by a panic");
            }
        }
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        checkpoint(conn, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
}

/// What the state of the log asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Nothing,
    /// The thread folds.
    Ring,
    /// The writer folds, and the log starts over.
    Fold,
}

fn what_to_do(log: Log, failed: bool) -> Action {
    let rest = log.pages - log.folded;
    let long = log.pages >= RESTART_PAGES;
    if rest == 0 {
        // The next commit starts the log over by itself.
        Action::Nothing
    } else if failed || log.pages >= FULL_PAGES || (long && rest <= REST_PAGES) {
        Action::Fold
    } else if long || rest >= FOLD_PAGES {
        Action::Ring
    } else {
        Action::Nothing
    }
}

/// Runs a checkpoint pragma; `None` when it failed, which costs nothing but space: the log has it.
fn checkpoint(conn: &Connection, pragma: &str) -> Option<Log> {
    let ran = conn.prepare_cached(pragma).and_then(|mut statement| {
        statement.query_row([], |row| {
            Ok(Log {
                pages: row.get(1)?,
                folded: row.get(2)?,
            })
        })
    });
    ran.inspect_err(|error| tracing::warn!(%error, pragma, "a checkpoint failed"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_folded_aside_while_it_is_short_and_by_the_writer_when_it_is_long() {
        for (pages, folded, expected) in [
            (0, 0, Action::Nothing),
            (FOLD_PAGES - 1, 0, Action::Nothing),
            (FOLD_PAGES, 0, Action::Ring),
            (FOLD_PAGES, FOLD_PAGES, Action::Nothing),
            (RESTART_PAGES, RESTART_PAGES - REST_PAGES - 1, Action::Ring),
            (RESTART_PAGES, RESTART_PAGES - REST_PAGES, Action::Fold),
            (RESTART_PAGES, RESTART_PAGES, Action::Nothing),
            (FULL_PAGES, 0, Action::Fold),
        ] {
            let log = Log { pages, folded };
            assert_eq!(what_to_do(log, false), expected, "{log:?}");
        }
    }

    #[test]
    fn a_failure_has_whatever_there_is_folded() {
        for (folded, expected) in [(0, Action::Fold), (9, Action::Fold), (10, Action::Nothing)] {
            let log = Log { pages: 10, folded };
            assert_eq!(what_to_do(log, true), expected, "{log:?}");
        }
    }
}
