//! Read-only and admin tokens for HTTP.

/// See the module.
pub trait TokenStore: Send + Sync {}
