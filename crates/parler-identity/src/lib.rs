//! Keys, signatures and key files of Parler agents and hubs.
//!
//! An identity is an Ed25519 key pair in nkey text form ([`KeyPair`]); the id is the public key.
//! This crate makes keys, keeps them in files that nobody else can read ([`keyfile`]), and signs
//! exactly four things with them: a login challenge and a hub's proof ([`challenge`]), a card
//! ([`card`]) and a message ([`message`]). What those signatures cover is decided in
//! [`parler_protocol::canonical`].
//!
//! It opens no connection, knows no clock, and trusts nothing that a peer says: whatever is
//! malformed simply does not verify.
//!
//! ```
//! use parler_identity::{KeyPair, verify};
//!
//! let keys = KeyPair::generate()?;
//! let signature = keys.sign(b"bytes of one's own making");
//! assert!(verify(keys.id().as_str(), b"bytes of one's own making", &signature));
//! assert!(!verify(keys.id().as_str(), b"other bytes", &signature));
//! # Ok::<(), parler_identity::IdentityError>(())
//! ```
#![warn(missing_docs)]

pub mod card;
pub mod challenge;
mod error;
pub mod keyfile;
pub mod keypair;
pub mod message;
mod nkey;
mod platform;

pub use card::{sign_card, verify_card};
pub use error::{IdentityError, KeyFileError};
pub use keyfile::load_or_create_key;
pub use keypair::{KeyPair, parse_id, verify};
pub use message::{Draft, SigState, bound_to_room, sign_message};
