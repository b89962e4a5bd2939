//! Why a store could not do what it was asked.

use std::path::PathBuf;

/// A store's failure. What a caller may show to a peer is decided by the hub, never this text.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The disk is full or a write failed; nothing of the request was stored.
    #[error("the store cannot write: {0}")]
    Unavailable(String),
    /// The database is damaged.
    #[error("the database is damaged: {0}")]
    Corrupt(String),
    /// The database was written by a newer version; it was not touched.
    #[error(
        "{path} has schema version {found}, this program knows {known}: use a newer parler, or another --db"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest known version.
        known: i64,
    },
    /// Another hub holds the data folder.
    #[error("{path} is in use by another hub ({holder}): stop it first, or use another --db")]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote about itself.
        holder: String,
    },
    /// The path cannot be used.
    #[error("cannot open {path}: {reason}")]
    Open {
        /// The path.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
}
