//! The hub's own key pair, made at its first start beside the database.
//!
//! It is shown in the capability document and in every challenge, it proves to a client that it
//! reached the hub that it knows, and it authors the hub's own notices.

use std::path::Path;

use parler_identity::{KeyPair, keyfile};

use crate::HubError;

/// Loads the key, makes it at the first start; without a path it lives as long as the process.
///
/// # Errors
/// When the file cannot be read or made; a damaged file is an error, never a new key.
pub fn load(path: Option<&Path>) -> Result<KeyPair, HubError> {
    match path {
        Some(path) => keyfile::load_or_create_key(path).map_err(|e| HubError::Key(e.to_string())),
        None => KeyPair::generate().map_err(|e| HubError::Key(e.to_string())),
    }
}
