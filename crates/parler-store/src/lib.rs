//! What a hub stores, as a trait that any database can implement, and the conformance suite that
//! every implementation passes.
//!
//! Each method is one atomic step of the domain: whatever must hold together is decided inside it,
//! under the store's own transaction, never by two calls. A method's future resolves after the
//! step is committed with the store's durability; nothing of it is observable before.
//!
//! What others may observe of a commit (a message to push, a waiter to wake) goes to the
//! [`CommitSink`] in commit order, after the commit and before the caller's answer.
#![warn(missing_docs)]

pub mod blobs;
pub mod conformance;
pub mod directory;
pub mod error;
pub mod gate;
pub mod memory;
pub mod model;
pub mod services;
pub mod tokens;
pub mod turns;
pub mod upkeep;

use std::future::Future;
use std::pin::Pin;

use parler_protocol::{AgentId, Attention, RoomName, Seq};

pub use blobs::*;
pub use directory::*;
pub use error::StoreError;
pub use gate::*;
pub use memory::*;
pub use model::*;
pub use services::*;
pub use tokens::*;
pub use turns::*;
pub use upkeep::*;

/// Entries of one page at most.
pub const MAX_PAGE: u32 = parler_protocol::limits::MAX_PULL_LIMIT;
/// JSON of one page at most, in bytes, unless its first entry alone is larger: a thousand of the
/// largest messages would be a gigabyte. Half of what common client libraries take in one frame.
pub const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Cards of one [`Store::discover`] at most: the caller filters by a status that only it knows.
pub const MAX_CARDS: usize = 10_000;

/// What every method of a [`Store`] answers with.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A queued append: resolves when it is committed.
pub type Committing = Pin<Box<dyn Future<Output = Result<Appended, StoreError>> + Send>>;

/// Hears of commits, in commit order, on the store's own thread: it must only hand on.
pub trait CommitSink: Send + Sync + 'static {
    /// Called once a commit, after it is durable and before any caller is answered.
    fn committed(&self, events: &[Event]);
}

/// A sink that nobody listens to.
impl CommitSink for () {
    fn committed(&self, _events: &[Event]) {}
}

/// A hub's durable state, one trait a subject. Times are milliseconds since the epoch and come from
/// the caller.
pub trait Store:
    ServiceStore
    + TurnStore
    + MemoryStore
    + BlobStore
    + TokenStore
    + UpkeepStore
    + Send
    + Sync
    + 'static
{
    // ---- agents ------------------------------------------------------------------------------

    /// Notes a successful login: name and role overwritten, presence `idle`, activity cleared,
    /// attention kept.
    fn hello<'a>(
        &'a self,
        agent: &'a AgentId,
        name: &'a str,
        role: Option<&'a str>,
        now: i64,
    ) -> StoreFuture<'a, ()>;

    /// Sets status and activity (absent clears it); attention only when given.
    fn set_presence<'a>(
        &'a self,
        agent: &'a AgentId,
        status: &'a str,
        activity: Option<&'a str>,
        attention: Option<Attention>,
        now: i64,
    ) -> StoreFuture<'a, ()>;

    /// Sets the attention, keeps the status (a new row is `idle`).
    fn set_attention<'a>(
        &'a self,
        agent: &'a AgentId,
        attention: Attention,
        now: i64,
    ) -> StoreFuture<'a, ()>;

    /// Refreshes the presence time of many agents at once (a new row is `idle`); an older time
    /// than the stored one changes nothing.
    fn touch<'a>(&'a self, seen: Vec<(AgentId, i64)>) -> StoreFuture<'a, ()>;

    // ---- rooms -------------------------------------------------------------------------------

    /// Opens the room if it does not exist, makes the caller a member, makes it the owner when the
    /// room has none, and stores an invite. A code or id that is taken already is
    /// [`StoreError::Unavailable`], and nothing is stored.
    fn invite(&self, invite: NewInvite) -> StoreFuture<'_, InviteOutcome>;

    /// Redeems a code by its hash, step by step as the protocol says.
    fn redeem<'a>(
        &'a self,
        code: CodeHash,
        agent: &'a AgentId,
        now: i64,
    ) -> StoreFuture<'a, RedeemOutcome>;

    /// The room's kind if the agent is a member of it; `None` otherwise and for unknown rooms.
    fn membership<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, Option<parler_protocol::RoomKind>>;

    /// Rooms of an agent, by name (as bytes). The cost does not grow with the backlog.
    fn rooms<'a>(&'a self, agent: &'a AgentId) -> StoreFuture<'a, Vec<RoomRow>>;

    /// Members of a room, by name then id (as bytes); `None` if the agent is not one of them.
    fn roster<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, Option<Vec<MemberRow>>>;

    /// The two-member room of kind `dm` of two agents, the oldest if there are several. The two
    /// must differ.
    fn dm_room<'a>(
        &'a self,
        agent: &'a AgentId,
        peer: &'a AgentId,
    ) -> StoreFuture<'a, Option<RoomName>>;

    /// Like [`Store::dm_room`]; where there is none, and the peer has a card, opens one under the
    /// name `candidate` with both as members and without an owner. `None`: the peer has no card.
    fn open_dm<'a>(
        &'a self,
        agent: &'a AgentId,
        peer: &'a AgentId,
        candidate: RoomName,
        now: i64,
    ) -> StoreFuture<'a, Option<RoomName>>;

    // ---- gates: what an owner decides --------------------------------------------------------

    /// Who waits to be admitted, oldest first; `None` if the caller is not the owner.
    fn join_requests<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
    ) -> StoreFuture<'a, Option<Vec<JoinRequestRow>>>;

    /// Admits or refuses a request, one that was refused before included.
    fn resolve_join<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
        agent: &'a AgentId,
        approve: bool,
        now: i64,
    ) -> StoreFuture<'a, ResolveOutcome>;

    /// Deletes a room and everything of it; `None` if the caller is not the owner. No `seq` of it
    /// is ever used again.
    fn delete_room<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
    ) -> StoreFuture<'a, Option<Deleted>>;

    /// Ends the caller's membership, and gives back the turns that it holds there. The last member
    /// takes the room along.
    fn leave<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
        now: i64,
    ) -> StoreFuture<'a, LeaveOutcome>;

    /// Ends somebody else's membership; with `ban` any later redeem of it is denied, and the codes
    /// that it minted for the room are revoked.
    fn remove_member<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
        agent: &'a AgentId,
        ban: bool,
        now: i64,
    ) -> StoreFuture<'a, MemberOutcome>;

    /// Makes another member the owner.
    fn transfer_owner<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, MemberOutcome>;

    /// Revokes invites that the caller minted, or that open a room that it owns; how many.
    fn revoke_invites<'a>(
        &'a self,
        agent: &'a AgentId,
        which: WhichInvites,
    ) -> StoreFuture<'a, u32>;

    // ---- the directory -----------------------------------------------------------------------

    /// Stores a card in the place of an earlier one of the same agent.
    fn register(&self, card: NewCard) -> StoreFuture<'_, ()>;

    /// Cards that match, most recent login first, at most [`MAX_CARDS`] of them, and fewer when
    /// their texts would pass [`PAGE_BYTES`].
    fn discover(&self, filter: CardFilter) -> StoreFuture<'_, Vec<CardRow>>;

    /// One card, private or not.
    fn lookup<'a>(&'a self, agent: &'a AgentId) -> StoreFuture<'a, Option<CardRow>>;

    // ---- the log -----------------------------------------------------------------------------

    /// Queues a message to be appended, and resolves when it is queued: messages are stored in the
    /// order in which they were queued. What it answers with resolves when the message is
    /// committed: it checks membership, answers a repeat of the same idempotency key with the
    /// original, else stores the row under the next `seq`.
    fn submit(&self, append: Append) -> StoreFuture<'_, Committing>;

    /// [`Store::submit`], and waits for the commit.
    fn append(&self, append: Append) -> StoreFuture<'_, Appended> {
        Box::pin(async move { self.submit(append).await?.await })
    }

    /// Reads a room for a member; `None` if the agent is not one. Moves no cursor.
    ///
    /// `limit` is cut to [`MAX_PAGE`]. A page ends early when its JSON would pass [`PAGE_BYTES`],
    /// but never before its first entry.
    fn read<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
        from: ReadFrom,
        limit: u32,
    ) -> StoreFuture<'a, Option<Page>>;

    /// Moves the member's cursor forward to `to`; a lower value, one above the room's head or a
    /// stranger changes nothing. Answers the cursor that then stands (0 for a stranger). Open turns
    /// that it passes count as seen at `now`.
    fn advance<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
        to: Seq,
        now: i64,
    ) -> StoreFuture<'a, Seq>;

    // ---- the store itself --------------------------------------------------------------------

    /// Checks that the store answers (a health check).
    fn ping(&self) -> StoreFuture<'_, ()>;

    /// Commits what waits, checkpoints and closes. Later calls answer [`StoreError::Closed`].
    fn close(&self) -> StoreFuture<'_, ()>;
}
