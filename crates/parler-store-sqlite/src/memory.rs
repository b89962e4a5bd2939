//! Facts that agents remember and recall.

use parler_store::MemoryStore;

use crate::SqliteStore;

impl MemoryStore for SqliteStore {}
