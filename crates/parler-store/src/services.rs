//! Service queues: work that is dispatched to a role, and whoever serves it claims a piece.

/// See the module.
pub trait ServiceStore: Send + Sync {}
