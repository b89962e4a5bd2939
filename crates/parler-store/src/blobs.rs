//! What the store knows of blobs: their size, type, and the rooms that they were posted to. The bytes
//! are files, kept by the hub.

/// See the module.
pub trait BlobStore: Send + Sync {}
