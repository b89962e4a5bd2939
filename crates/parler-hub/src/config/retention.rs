//! What is kept for how long.

use std::time::Duration;

use parler_protocol::limits as wire;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// What the janitor may delete. Invites and tokens go when they end, whatever is set here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Age after which a message may go; `None`: never.
    pub messages: Option<Duration>,
    /// Newest messages of a room that stay whatever their age.
    pub keep_messages_per_room: u32,
    /// Newest facts without a key that stay, of one author in one room or private; `None`: all.
    pub keep_facts: Option<u32>,
    /// How long a blob stays after it was last fetched; `None`: for ever.
    pub blobs: Option<Duration>,
    /// Between two runs.
    pub interval: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            messages: Some(Duration::from_secs(u64::from(wire::RETENTION_DAYS) * DAY)),
            keep_messages_per_room: wire::KEEP_MESSAGES_PER_ROOM,
            keep_facts: u32::try_from(wire::KEEP_FACTS).ok(),
            blobs: Some(Duration::from_secs(u64::from(wire::BLOB_TTL_DAYS) * DAY)),
            interval: Duration::from_secs(wire::JANITOR_INTERVAL_SECS),
        }
    }
}
