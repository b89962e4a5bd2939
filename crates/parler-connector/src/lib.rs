//! A client for Parler hubs.
//!
//! [`Client`] is a cheap handle on one connection that looks after itself: it dials on first use,
//! proves the agent's key, comes back after an outage and repeats what may be repeated. Messages
//! are signed on the way out; what a hub pushes waits in a bounded inbox.
//!
//! The log is the truth and a push is a doorbell: read with [`Client::pull`] or [`Client::wait`],
//! act, then say how far you got with [`Client::commit`]. Reading alone moves nothing.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use parler_connector::{Client, ClientOptions, Endpoint, Outgoing};
//! use parler_identity::KeyPair;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let hub = Endpoint::new("parler://127.0.0.1:7070");
//! let client = Client::connect(ClientOptions::new(hub, KeyPair::generate()?, "planner")).await?;
//!
//! client.send(Outgoing::text("release-train", "tests are green")).await?;
//! let unread = client.wait("release-train", 50, Duration::from_secs(60)).await?;
//! for message in &unread.messages {
//!     println!("{} wrote message {}", message.from.name, message.seq);
//! }
//! client.commit("release-train", unread.cursor).await?;
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

pub mod addressee;
mod blobs;
mod call;
pub mod cards;
mod client;
pub mod config;
pub mod context;
mod demux;
pub mod directory;
pub mod doorbell;
mod effective;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod handle;
pub mod home;
mod inbox;
mod keepalive;
mod link;
pub mod local;
mod lock;
mod login;
mod memory;
mod naming;
mod options;
mod outgoing;
mod owner;
pub mod platform;
mod reconnect;
pub mod registry;
mod relay;
pub mod render;
mod replies;
mod rule;
pub mod safe;
pub mod services;
pub mod session;
mod shared;
mod slots;
pub mod terminal;
#[cfg(test)]
mod testing;
pub mod tls;
mod tokens;
mod transport;
mod turns;
pub mod wake;

pub use blobs::Fetched;
pub use client::{Client, Read, Redeemed};
pub use error::ClientError;
pub use handle::handle_for;
pub use options::{CONNECT_TIMEOUT, ClientOptions, Endpoint, REQUEST_TIMEOUT, Timeouts};
pub use outgoing::Outgoing;
pub use turns::Notice;
