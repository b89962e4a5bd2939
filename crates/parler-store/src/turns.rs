//! The turn ledger: what became of every handoff.

/// See the module.
pub trait TurnStore: Send + Sync {}
