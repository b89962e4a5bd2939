//! A few read-only connections, used off the async threads.
//!
//! A read takes one of them, runs in one transaction (so that everything it sees is of one
//! moment), and gives it back. Who finds none waits for one; nobody waits for the writer.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parler_store::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::error::store_error;

/// Reads at the same time. They are short and mostly from memory; more threads than this only
/// compete for the same disk and each costs a page cache.
const READERS: u32 = 4;

/// The connections; opened when they are first needed.
pub(crate) struct Readers {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            free: Mutex::new(Vec::new()),
            turns: Arc::new(Semaphore::new(READERS as usize)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a read. It runs to its end even if the caller goes away.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|_| StoreError::Closed)?;
        let readers = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let result = readers.read(read);
            drop(turn);
            result
        });
        match done.await {
            Ok(result) => result,
            Err(error) if error.is_panic() => {
                tracing::error!("a read panicked");
                Err(StoreError::Unavailable("a read panicked".into()))
            }
            // The runtime is shutting down.
            Err(_) => Err(StoreError::Closed),
        }
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let conn = match self.pool().pop() {
            Some(conn) => conn,
            None => crate::connect::reader(&self.path)?,
        };
        let result = conn.unchecked_transaction().and_then(|_moment| read(&conn));
        if let Err(error) = &result {
            // Opened anew next time: whatever was wrong with this one goes with it.
            tracing::warn!(%error, "a read failed");
        } else {
            self.pool().push(conn);
        }
        result.map_err(|error| store_error(&error))
    }

    /// Waits for the reads that run, refuses new ones and closes the connections.
    pub(crate) async fn close(&self) {
        let all = self.turns.acquire_many(READERS).await;
        self.turns.close();
        drop(all);
        self.forget();
    }

    /// Closes the connections that no read uses.
    pub(crate) fn forget(&self) {
        self.pool().clear();
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
