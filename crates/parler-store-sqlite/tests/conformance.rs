//! The conformance suite over SQLite: a database file, and the temporary one.

use std::path::PathBuf;
use std::sync::Arc;

use parler_store::conformance::Harness;
use parler_store::{CommitSink, Store, StoreFuture};
use parler_store_sqlite::{Durability, OpenOptions, SqliteStore};
use tempfile::TempDir;

/// A database file in a folder of its own.
struct File(TempDir);

impl File {
    fn fresh() -> Arc<dyn Harness> {
        Arc::new(Self(tempfile::tempdir().expect("a folder")))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("hub.sqlite")
    }
}

impl Harness for File {
    fn open(&self, sink: Arc<dyn CommitSink>) -> StoreFuture<'_, Arc<dyn Store>> {
        // The suite is about what is stored; what survives a power cut is told elsewhere.
        let opened = SqliteStore::open(OpenOptions {
            path: Some(self.path()),
            durability: Durability::Normal,
            sink,
            lock_note: "the conformance suite".into(),
        });
        Box::pin(async move { Ok(Arc::new(opened?) as Arc<dyn Store>) })
    }
}

parler_store::conformance!(File::fresh());
