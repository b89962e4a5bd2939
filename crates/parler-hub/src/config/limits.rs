//! Sizes, counts and rates that an operator may change. Zero switches a rate off.

use parler_protocol::limits as wire;

use crate::defaults;

/// The limits of one hub.
#[derive(Clone, Debug)]
pub struct Limits {
    /// One text message (frame), bytes.
    pub max_text_frame_bytes: usize,
    /// The serialised parts of one message, bytes.
    pub max_message_bytes: usize,
    /// One blob, bytes. Also sets the largest WebSocket message.
    pub max_blob_bytes: u64,
    /// Connections at once.
    pub max_connections: usize,
    /// Rooms that one agent may own.
    pub max_owned_rooms: u32,
    /// HTTP requests of one address a minute.
    pub max_http_per_min: u32,
    /// Operations of one agent a minute.
    pub max_ops_per_min: u32,
    /// Sends of one agent a minute.
    pub max_sends_per_min: u32,
    /// Sends into one room a minute.
    pub max_room_sends_per_min: u32,
    /// All blobs on disk, bytes.
    pub max_blob_dir_bytes: u64,
    /// All uploads in flight, bytes.
    pub max_inflight_blob_bytes: u64,
    /// Unexpired tokens of one agent.
    pub max_active_tokens: u32,
    /// Keyed facts of one agent.
    pub max_keyed_facts: u32,
    /// Uploads of one agent an hour.
    pub max_blobs_per_hour: u32,
    /// Uploads into one room an hour.
    pub max_room_blobs_per_hour: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_text_frame_bytes: wire::MAX_TEXT_FRAME_BYTES,
            max_message_bytes: wire::MAX_MESSAGE_BYTES,
            max_blob_bytes: wire::MAX_BLOB_BYTES,
            max_connections: defaults::MAX_CONNECTIONS,
            max_owned_rooms: wire::MAX_OWNED_ROOMS,
            max_http_per_min: wire::MAX_HTTP_PER_MIN,
            max_ops_per_min: wire::MAX_OPS_PER_MIN,
            max_sends_per_min: wire::MAX_SENDS_PER_MIN,
            max_room_sends_per_min: wire::MAX_ROOM_SENDS_PER_MIN,
            max_blob_dir_bytes: wire::MAX_BLOB_DIR_BYTES,
            max_inflight_blob_bytes: wire::MAX_INFLIGHT_BLOB_BYTES,
            max_active_tokens: wire::MAX_ACTIVE_TOKENS,
            max_keyed_facts: wire::MAX_KEYED_FACTS,
            max_blobs_per_hour: wire::MAX_BLOBS_PER_HOUR,
            max_room_blobs_per_hour: wire::MAX_ROOM_BLOBS_PER_HOUR,
        }
    }
}

impl Limits {
    /// No rates at all, for measurements.
    #[must_use]
    pub fn unlimited() -> Self {
        Limits {
            max_http_per_min: 0,
            max_ops_per_min: 0,
            max_sends_per_min: 0,
            max_room_sends_per_min: 0,
            max_blobs_per_hour: 0,
            max_room_blobs_per_hour: 0,
            max_connections: 65_536,
            ..Limits::default()
        }
    }
}
