//! The turn ledger: what became of every handoff.

use parler_store::TurnStore;

use crate::SqliteStore;

impl TurnStore for SqliteStore {}
