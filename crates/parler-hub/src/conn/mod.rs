//! One WebSocket connection: reading frames, keeping their order, writing replies and pushes.

pub mod envelope;
pub mod handshake;
pub mod parts;
pub mod pieces;
mod reply;
pub mod session;

pub use reply::{Reply, text as frame_text};
