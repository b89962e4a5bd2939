//! Facts that agents remember and recall.

/// See the module.
pub trait MemoryStore: Send + Sync {}
