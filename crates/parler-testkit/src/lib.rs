//! Test helpers: a hub in this process, a raw socket that speaks literal JSON, named keys.
//!
//! Development only. Everything listens on loopback at a port that the kernel chooses, lives in a
//! temporary folder, and stops when it is dropped.

mod cert;
pub mod fuzz;
mod http;
mod hub;
mod raw;

pub use cert::TestCert;
pub use http::{Answer, Event, EventStream, get, http};
pub use hub::TestHub;
pub use raw::{RawSocket, Seen, texts};

use parler_identity::KeyPair;

/// The key pair number `n`: the same at every run.
#[must_use]
pub fn keys(n: u8) -> KeyPair {
    let mut seed = [n; 32];
    seed[0] = 0xA5;
    KeyPair::from_seed_bytes(seed)
}

/// How long a test waits for something that must happen.
pub const SOON: std::time::Duration = std::time::Duration::from_secs(10);
