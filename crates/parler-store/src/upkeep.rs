//! What keeps a store small: retention, in small steps; and what a room's owner sets.

/// See the module.
pub trait UpkeepStore: Send + Sync {}
