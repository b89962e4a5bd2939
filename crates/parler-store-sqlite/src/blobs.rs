//! What the store knows of blobs: their size, type, and the rooms that they were posted to. The bytes
//! are files, kept by the hub.

use parler_store::BlobStore;

use crate::SqliteStore;

impl BlobStore for SqliteStore {}
