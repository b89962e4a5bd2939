//! What keeps a store small: retention, in small steps; and what a room's owner sets.

use parler_store::UpkeepStore;

use crate::SqliteStore;

impl UpkeepStore for SqliteStore {}
