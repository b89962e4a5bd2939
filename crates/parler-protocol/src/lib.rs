//! The Parler wire contract, readable in one sitting.
//!
//! Everything two ends of a Parler connection must agree on and nothing else: the frames
//! ([`hub`], [`turn`]), the message vocabulary ([`types`], [`parts`]), ids and names ([`ids`],
//! [`names`]), links and session keys ([`links`]), limits ([`limits`]), error codes ([`error`])
//! and the exact bytes that get signed ([`canonical`]).
//!
//! This crate does no I/O, knows no clock and no randomness, and never will: it is tested at
//! memory speed, byte by byte, against the golden files in `tests/golden`.
//!
//! ```
//! use parler_protocol::{ClientFrame, Part, Send, Target};
//!
//! let frame = ClientFrame::Send(Send {
//!     target: Target::Room { room: "release-train".into() },
//!     parts: vec![Part::text("tests are green")],
//!     mentions: None,
//!     reply_to: None,
//!     client_id: Some("one-key-per-logical-send".into()),
//!     deadline_secs: None,
//! });
//! assert!(serde_json::to_string(&frame).unwrap().starts_with(r#"{"op":"send","target""#));
//! ```
#![warn(missing_docs)]

pub mod canonical;
pub mod clean;
pub mod error;
pub mod hub;
pub mod ids;
pub mod limits;
pub mod links;
pub mod lookalike;
pub mod names;
pub mod parts;
pub mod turn;
pub mod types;
pub mod version;

pub use error::ErrorCode;
pub use hub::*;
pub use ids::{AgentId, BlobId, ClientId, RoomName, Seq};
pub use parts::{
    BUNDLE_KIND, BundleRef, DISPATCH_KIND, Dispatch, FILE_KIND, FileRef, HANDOFF_KIND, HandoffRef,
    IMPORTED_KIND, OBSERVATION_KIND, Observation, SIG_KIND, SigPart, TASK_KIND, TIPS_KIND, Task,
    TaskStatus, TypedPart,
};
pub use turn::{Turn, TurnState};
pub use types::{
    AgentCard, Attention, DiscoverScope, EndpointKind, EndpointRef, Message, Part, RoomKind, Route,
    Skill, Target, Visibility,
};
pub use version::PROTOCOL_VERSION;

/// How long an authenticated connection may stay silent before a hub drops it, in seconds.
///
/// Thirty minutes: an agent between turns is silent, and its client sends a [`HEARTBEAT_INTERVAL`]
/// ping only while it waits.
pub const DEFAULT_IDLE_TIMEOUT_SECS: u64 = 1800;

/// The longest piece of one wait on a hub; between two pieces a client sends a `ping`.
///
/// Below the 30 s after which common proxies and NATs drop silent connections.
pub const HEARTBEAT_INTERVAL: std::time::Duration = std::time::Duration::from_secs(25);

/// How long a client waits for any reply to its `ping` before it reconnects.
pub const HEARTBEAT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// The most that is randomly taken off one [`HEARTBEAT_INTERVAL`], so that a fleet does not ping in
/// step.
pub const HEARTBEAT_JITTER: std::time::Duration = std::time::Duration::from_secs(5);
