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
//!    the log has [`RESTART_PAGES`] pages and the thread has folded nearly all of them, the writer
//!    folds the small rest between two transactions, and the log starts over. If it has even
//!    [`FULL_PAGES`], the writer folds however much there is: the log stays bounded.
//! 3. A closing store folds everything and leaves no log behind.
//!
//! The folding connection never runs a statement that changes anything (`query_only`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::stats::Counters;

/// Unfolded pages that are worth a checkpoint: 4 MiB, SQLite's own mark.
const FOLD_PAGES: i64 = 1000;
/// Pages at which the log should start over: 64 MiB. Recovery after a crash reads the whole log,
/// in well under a second at this size.
const RESTART_PAGES: i64 = 16_384;
/// The rest that the writer folds by itself then: a few milliseconds of writing.
const REST_PAGES: i64 = 2 * FOLD_PAGES;
/// Pages at which the log must start over, whatever it costs: 256 MiB.
const FULL_PAGES: i64 = 65_536;
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
    bell: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
}

impl Checkpoints {
    /// Starts the folding thread on a connection of its own.
    pub(crate) fn start(conn: Connection, counters: Arc<Counters>) -> std::io::Result<Self> {
        // One ring is as good as many.
        let (bell, rings) = sync_channel::<()>(1);
        let counted = Arc::clone(&counters);
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || {
                while rings.recv().is_ok() {
                    counted.checkpoints.fetch_add(1, Ordering::Relaxed);
                    checkpoint(&conn, "PRAGMA wal_checkpoint(PASSIVE)");
                }
            })?;
        Ok(Self {
            bell: Some(bell),
            thread: Some(thread),
            counters,
        })
    }

    /// Looks at the log after a commit, and has it folded when it is time.
    pub(crate) fn after_commit(&mut self, conn: &Connection) {
        let Some(log) = checkpoint(conn, "PRAGMA wal_checkpoint(NOOP)") else {
            return;
        };
        let rest = log.pages - log.folded;
        if log.pages >= FULL_PAGES || (log.pages >= RESTART_PAGES && rest <= REST_PAGES) {
            self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
            checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)");
        } else if rest >= FOLD_PAGES
            && let Some(bell) = &self.bell
        {
            // Full: it was rung already. Closed: the thread is gone, and rule 2 bounds the log.
            let _ = bell.try_send(());
        }
    }

    /// Ends the folding thread and folds all that is left.
    pub(crate) fn finish(&mut self, conn: &Connection) {
        self.bell = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread ended by a panic");
        }
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        checkpoint(conn, "PRAGMA wal_checkpoint(TRUNCATE)");
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
