//! Read-only and admin tokens for HTTP.

use parler_store::TokenStore;

use crate::SqliteStore;

impl TokenStore for SqliteStore {}
