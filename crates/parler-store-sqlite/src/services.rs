//! Service queues: work that is dispatched to a role, and whoever serves it claims a piece.

use parler_store::ServiceStore;

use crate::SqliteStore;

impl ServiceStore for SqliteStore {}
