//! What the store knows of blobs: their size, type, and the rooms that they were posted to. The bytes
//! are files, kept by the hub.
//!
//! A blob is known by the hash of its bytes, once, however often and whereto it was posted. Who is a
//! member, now, of any of these rooms may read it.

use parler_protocol::{AgentId, BlobId, RoomName};

use crate::StoreFuture;

/// A blob whose bytes lie on the disk, to be bound to a room.
#[derive(Clone, Debug)]
pub struct NewBlob {
    /// Who posts it.
    pub agent: AgentId,
    /// The room that it is posted to.
    pub room: RoomName,
    /// The room is a service, and the caller becomes a member of it with this blob if it is none
    /// yet: at the head, so that it reads nothing that was said before.
    pub join: bool,
    /// The hash of its bytes.
    pub blob: BlobId,
    /// Bytes.
    pub size: u64,
    /// Media type; the first one that was given stays.
    pub media_type: Option<String>,
    /// Bytes that all blobs together may have.
    pub max_total: u64,
    /// Milliseconds.
    pub now: i64,
}

/// What came of posting a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// Members of the room may read it.
    Bound,
    /// The caller is no member; also for an unknown room.
    NotMember,
    /// There is no such service to join.
    UnknownService,
    /// The caller is no member, and the service's owner decides who becomes one; or it was banned.
    Denied,
    /// All blobs together would be larger than they may be.
    Full,
}

/// What the store knows of one blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRow {
    /// The hash of its bytes.
    pub blob: BlobId,
    /// Bytes.
    pub size: u64,
    /// Media type, as whoever posted it first wrote it.
    pub media_type: Option<String>,
    /// Milliseconds.
    pub created_at: i64,
    /// Milliseconds; `None`: never fetched.
    pub fetched_at: Option<i64>,
}

/// Who asks for a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobReader {
    /// An agent: any room counts that it is a member of.
    Agent(AgentId),
    /// The holder of a token for this room alone.
    Room(RoomName),
}

/// What came of asking for a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobFound {
    /// It may be read.
    Readable(BlobRow),
    /// It was posted to other rooms only.
    Forbidden,
    /// There is none.
    Unknown,
}

/// The part of a store that knows blobs.
pub trait BlobStore: Send + Sync {
    /// Binds a blob to a room that the caller is a member of; makes its row if it is not known.
    /// Known content adds nothing to the total. Posting again makes the blob young again.
    fn bind_blob(&self, new: NewBlob) -> StoreFuture<'_, BindOutcome>;

    /// One blob, for somebody.
    fn find_blob<'a>(
        &'a self,
        blob: &'a BlobId,
        reader: &'a BlobReader,
    ) -> StoreFuture<'a, BlobFound>;

    /// Which of these blobs are known. For the hub, that asks before it deletes a file.
    fn known_blobs(&self, blobs: Vec<BlobId>) -> StoreFuture<'_, Vec<BlobId>>;

    /// Bytes of all blobs, each content once.
    fn blob_bytes(&self) -> StoreFuture<'_, u64>;

    /// Notes that a blob was fetched. An unknown one, and a time before the noted one, change
    /// nothing.
    fn touch_blob<'a>(&'a self, blob: &'a BlobId, now: i64) -> StoreFuture<'a, ()>;

    /// Blobs that may go, at most `limit`: bound to no room, or neither posted nor fetched since
    /// `unused_since` (`None`: age does not count).
    fn stale_blobs(&self, unused_since: Option<i64>, limit: u32) -> StoreFuture<'_, Vec<BlobId>>;

    /// Forgets those of these blobs that still may go, with their bindings, and answers them.
    /// Their files are still there: whoever deletes one has to ask [`BlobStore::known_blobs`] once
    /// more, with uploads of it locked out, because the same content may have been posted again by
    /// then.
    fn forget_blobs(
        &self,
        blobs: Vec<BlobId>,
        unused_since: Option<i64>,
    ) -> StoreFuture<'_, Vec<BlobId>>;
}
