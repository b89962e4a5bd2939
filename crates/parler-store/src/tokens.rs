//! Tokens for HTTP, and what their holders read: nobody's membership, nobody's cursor.
//!
//! A token is stored as a hash. What it opens is read together with the token itself, in one step:
//! a token that was revoked, and one of a room that was deleted and opened again, reads nothing.

use parler_protocol::{AgentId, RoomKind, RoomName, Seq};

use crate::StoreFuture;
use crate::directory::CardRow;
use crate::model::{CodeHash, LogEntry, MemberRow};

/// What a token opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Every card of the directory.
    Directory,
    /// A room's summary.
    Watch,
    /// The same and the room as its members see it.
    WatchFull,
    /// What a room's owner decides.
    Admin,
}

impl TokenKind {
    /// The word that is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            TokenKind::Directory => "directory",
            TokenKind::Watch => "watch",
            TokenKind::WatchFull => "watch_full",
            TokenKind::Admin => "admin",
        }
    }

    /// Reads a stored word.
    #[must_use]
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Directory, Self::Watch, Self::WatchFull, Self::Admin]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// A token to be stored.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The caller.
    pub agent: AgentId,
    /// What it opens.
    pub kind: TokenKind,
    /// The room that the caller must own; `None` for a directory token.
    pub room: Option<RoomName>,
    /// Hash of the token.
    pub token: CodeHash,
    /// Public id of it.
    pub id: String,
    /// Its last millisecond.
    pub expires_at: i64,
    /// Unexpired tokens that one agent may have.
    pub max_active: u32,
    /// Milliseconds.
    pub now: i64,
}

/// What came of minting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MintOutcome {
    /// Stored.
    Minted,
    /// The caller does not own the room; also for an unknown room.
    NotOwner,
    /// The caller has as many unexpired tokens as it may.
    TooMany,
}

/// A token that is good at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// What it opens.
    pub kind: TokenKind,
    /// Its room; `None` for a directory token.
    pub room: Option<RoomName>,
    /// Who minted it.
    pub minted_by: AgentId,
    /// Its last millisecond.
    pub expires_at: i64,
}

/// Which tokens to revoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichTokens {
    /// This one.
    Token(CodeHash),
    /// The one of this public id.
    Id(String),
    /// All watch tokens of a room, full or not.
    Room(RoomName),
}

/// A member as a watcher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedMember {
    /// Who, and how it is.
    pub member: MemberRow,
    /// Messages above its cursor, its own included.
    pub unread: u32,
}

/// A room as a watcher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedRoom {
    /// Stored name.
    pub name: RoomName,
    /// Kind.
    pub kind: RoomKind,
    /// When it was opened: tells it from an earlier room of the same name.
    pub opened_at: i64,
    /// Place of its last message; 0 when there never was one.
    pub head: Seq,
    /// Messages that are gone: grows when old ones are deleted.
    pub pruned: i64,
    /// By name, then id.
    pub members: Vec<WatchedMember>,
}

/// Tokens and what they open.
pub trait TokenStore: Send + Sync {
    /// Stores a token, for an owner of the room where it is for one.
    fn mint_token(&self, token: NewToken) -> StoreFuture<'_, MintOutcome>;

    /// A token that is good at the moment; `None` for any other.
    fn token(&self, token: CodeHash, now: i64) -> StoreFuture<'_, Option<TokenRow>>;

    /// Revokes tokens that the caller minted, or that are for a room that it owns; how many were
    /// still good.
    fn revoke_tokens<'a>(
        &'a self,
        agent: &'a AgentId,
        which: WhichTokens,
        now: i64,
    ) -> StoreFuture<'a, u32>;

    /// The room of a token; `None` when the token is not good, or for no room.
    fn watched_room(&self, token: CodeHash, now: i64) -> StoreFuture<'_, Option<WatchedRoom>>;

    /// Messages of a token's room above a place, as [`crate::Store::read`] pages them; `None` as above.
    fn watched_log(
        &self,
        token: CodeHash,
        now: i64,
        after: Seq,
        limit: u32,
    ) -> StoreFuture<'_, Option<Vec<LogEntry>>>;

    /// Cards of the members of a token's room, private ones included; `None` as above.
    fn watched_cards(&self, token: CodeHash, now: i64) -> StoreFuture<'_, Option<Vec<CardRow>>>;

    /// Deletes tokens that ended before `now`, at most `limit`; how many.
    fn sweep_tokens(&self, now: i64, limit: u32) -> StoreFuture<'_, u32>;

    /// All cards, and how many of them are public.
    fn count_cards(&self) -> StoreFuture<'_, (u64, u64)>;

    /// Place of the last message of any room; 0 when there is none.
    fn last_seq(&self) -> StoreFuture<'_, Seq>;

    /// Parts of messages of any room above a place, for counting: a page as [`crate::Store::read`] has
    /// them.
    fn parts_after(&self, after: Seq) -> StoreFuture<'_, Vec<(Seq, String)>>;
}
