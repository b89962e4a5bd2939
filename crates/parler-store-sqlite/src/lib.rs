//! The store over SQLite: one writer thread, group commit, a few read-only readers.
//!
//! A write waits in the writer's queue, shares a transaction with whatever else waits there, and
//! is answered after the commit (`writer.rs`). A read runs on a connection of its own, off the
//! async threads (`readers.rs`). The write-ahead log is folded outside of requests
//! (`checkpoint.rs`). One process a database: a lock beside it says who (`lock.rs`).
//!
//! This crate decides nothing about the protocol that the trait does not say, and nobody else
//! knows its SQL.
#![warn(missing_docs)]

mod agents;
mod blobs;
mod checkpoint;
mod connect;
mod cursors;
mod directory;
mod envelope;
mod error;
mod gates;
mod invites;
mod lock;
mod log;
mod memory;
mod migrate;
mod mirror;
mod readers;
mod rooms;
mod services;
mod stats;
mod tokens;
mod turns;
mod upkeep;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parler_protocol::{AgentId, Attention, RoomKind, RoomName, Seq};
use parler_store::{
    Append, CardFilter, CardRow, CodeHash, CommitSink, Committing, Deleted, InviteOutcome,
    JoinRequestRow, LeaveOutcome, MemberOutcome, MemberRow, NewCard, NewInvite, Page, ReadFrom,
    RedeemOutcome, ResolveOutcome, RoomRow, Store, StoreError, StoreFuture, WhichInvites,
};

use crate::checkpoint::Checkpoints;
use crate::lock::Lock;
use crate::log::Prepared;
use crate::readers::Readers;
use crate::stats::Counters;
use crate::writer::Writer;

pub use crate::stats::Stats;

/// What "stored" means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On stable storage before the answer: it survives a power cut.
    #[default]
    Full,
    /// Handed to the operating system: it survives a crash of the process; the last moments
    /// before a power cut may be lost, the database stays whole.
    Normal,
}

/// How to open a store.
pub struct OpenOptions {
    /// The database, created if missing; `None`: a private temporary one, gone when it is closed.
    pub path: Option<PathBuf>,
    /// What "stored" means.
    pub durability: Durability,
    /// Who hears of commits.
    pub sink: Arc<dyn CommitSink>,
    /// What the lock file says about this hub, to whoever finds it locked: one line.
    pub lock_note: String,
}

/// An open store. Dropping it commits what waits, like [`Store::close`], but blocks meanwhile.
pub struct SqliteStore {
    writer: Writer,
    readers: Arc<Readers>,
    counters: Arc<Counters>,
}

/// What lives as long as the writer's connection does: the lock, and the folder of a temporary
/// database, in the order of their release.
struct Held {
    _lock: Lock,
    _temporary: Option<tempfile::TempDir>,
}

impl SqliteStore {
    /// Opens the database: takes its lock, checks whose it is and how old, migrates it, starts the
    /// writer.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another hub has it, at once; [`StoreError::Newer`] when a newer
    /// program wrote it, in which case no byte of it was changed; [`StoreError::Open`] when it
    /// cannot be used; [`StoreError::Corrupt`] and [`StoreError::Unavailable`] as anywhere.
    pub fn open(options: OpenOptions) -> Result<Self, StoreError> {
        let (path, temporary) = place(options.path)?;
        // First of all, so that a file of somebody else gets no lock beside it either.
        migrate::check_file(&path)?;
        let lock = Lock::take(&path, &options.lock_note)?;
        let held = Held {
            _lock: lock,
            _temporary: temporary,
        };
        let open = |error: std::io::Error| StoreError::Open {
            path: path.clone(),
            reason: error.to_string(),
        };
        // Made here and not by SQLite, so that nobody else can read it; its log files follow it.
        lock::private(&path).map_err(open)?;
        let mut conn = connect::writer(&path)?;
        migrate::check(&conn, &path)?;
        migrate::check_history(&conn, &path)?;
        connect::prepare_writer(&conn, &path, options.durability)?;
        migrate::migrate(&mut conn)?;

        let counters = Arc::new(Counters::default());
        let checkpoints =
            Checkpoints::start(connect::folder(&path)?, Arc::clone(&counters)).map_err(open)?;
        let writer = Writer::start(
            conn,
            checkpoints,
            options.sink,
            Arc::clone(&counters),
            Box::new(held),
        )
        .map_err(open)?;
        Ok(Self {
            writer,
            readers: Arc::new(Readers::new(path)),
            counters,
        })
    }

    /// Where the database lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.readers.path()
    }

    /// What the store did since it was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counters.read()
    }
}

/// Where the database lies: the file itself, whatever link or spelling led to it, so that two
/// spellings have one lock.
fn place(path: Option<PathBuf>) -> Result<(PathBuf, Option<tempfile::TempDir>), StoreError> {
    let Some(path) = path else {
        let made = tempfile::Builder::new().prefix("parler-hub-").tempdir();
        let folder = made.map_err(|e| StoreError::Open {
            path: std::env::temp_dir(),
            reason: format!("no folder for a temporary database: {e}"),
        })?;
        return Ok((folder.path().join("hub.sqlite"), Some(folder)));
    };
    let open = |reason: String| StoreError::Open {
        path: path.clone(),
        reason,
    };
    if let Ok(found) = path.canonicalize() {
        if found.is_dir() {
            return Err(open("it is a folder; name a file in it".into()));
        }
        return Ok((found, None));
    }
    let name = path.file_name();
    let name = name.ok_or_else(|| open("it does not name a file".into()))?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder
        .canonicalize()
        .map_err(|e| open(format!("its folder: {e}")))?;
    Ok((folder.join(name), None))
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.readers.forget();
        self.writer.stop();
    }
}

impl Store for SqliteStore {
    fn hello<'a>(
        &'a self,
        agent: &'a AgentId,
        name: &'a str,
        role: Option<&'a str>,
        now: i64,
    ) -> StoreFuture<'a, ()> {
        let (agent, name, role) = (agent.clone(), name.to_owned(), role.map(str::to_owned));
        Box::pin(self.writer.run(0, move |tx| {
            agents::hello(tx, &agent, &name, role.as_deref(), now)
        }))
    }

    fn set_presence<'a>(
        &'a self,
        agent: &'a AgentId,
        status: &'a str,
        activity: Option<&'a str>,
        attention: Option<Attention>,
        now: i64,
    ) -> StoreFuture<'a, ()> {
        let (agent, status) = (agent.clone(), status.to_owned());
        let activity = activity.map(str::to_owned);
        Box::pin(self.writer.run(0, move |tx| {
            agents::set_presence(tx, &agent, &status, activity.as_deref(), attention, now)
        }))
    }

    fn set_attention<'a>(
        &'a self,
        agent: &'a AgentId,
        attention: Attention,
        now: i64,
    ) -> StoreFuture<'a, ()> {
        let agent = agent.clone();
        Box::pin(self.writer.run(0, move |tx| {
            agents::set_attention(tx, &agent, attention, now)
        }))
    }

    fn touch<'a>(&'a self, seen: Vec<(AgentId, i64)>) -> StoreFuture<'a, ()> {
        Box::pin(self.writer.run(0, move |tx| agents::touch(tx, &seen)))
    }

    fn invite(&self, invite: NewInvite) -> StoreFuture<'_, InviteOutcome> {
        Box::pin(self.writer.run(0, move |tx| invites::invite(tx, &invite)))
    }

    fn redeem<'a>(
        &'a self,
        code: CodeHash,
        agent: &'a AgentId,
        now: i64,
    ) -> StoreFuture<'a, RedeemOutcome> {
        let agent = agent.clone();
        Box::pin(
            self.writer
                .run(0, move |tx| invites::redeem(tx, &code, &agent, now)),
        )
    }

    fn membership<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, Option<RoomKind>> {
        let (room, agent) = (room.clone(), agent.clone());
        Box::pin(
            self.readers
                .run(move |conn| rooms::membership(conn, &room, &agent)),
        )
    }

    fn rooms<'a>(&'a self, agent: &'a AgentId) -> StoreFuture<'a, Vec<RoomRow>> {
        let agent = agent.clone();
        Box::pin(self.readers.run(move |conn| rooms::rooms(conn, &agent)))
    }

    fn roster<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, Option<Vec<MemberRow>>> {
        let (room, agent) = (room.clone(), agent.clone());
        Box::pin(
            self.readers
                .run(move |conn| rooms::roster(conn, &room, &agent)),
        )
    }

    fn dm_room<'a>(
        &'a self,
        agent: &'a AgentId,
        peer: &'a AgentId,
    ) -> StoreFuture<'a, Option<RoomName>> {
        let (agent, peer) = (agent.clone(), peer.clone());
        Box::pin(
            self.readers
                .run(move |conn| rooms::dm_room(conn, &agent, &peer)),
        )
    }

    fn open_dm<'a>(
        &'a self,
        agent: &'a AgentId,
        peer: &'a AgentId,
        candidate: RoomName,
        now: i64,
    ) -> StoreFuture<'a, Option<RoomName>> {
        let (agent, peer) = (agent.clone(), peer.clone());
        Box::pin(self.writer.run(0, move |tx| {
            rooms::open_dm(tx, &agent, &peer, &candidate, now)
        }))
    }

    fn join_requests<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
    ) -> StoreFuture<'a, Option<Vec<JoinRequestRow>>> {
        let (room, owner) = (room.clone(), owner.clone());
        Box::pin(
            self.readers
                .run(move |conn| gates::requests(conn, &room, &owner)),
        )
    }

    fn resolve_join<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
        agent: &'a AgentId,
        approve: bool,
        now: i64,
    ) -> StoreFuture<'a, ResolveOutcome> {
        let (room, owner, agent) = (room.clone(), owner.clone(), agent.clone());
        Box::pin(self.writer.run(0, move |tx| {
            gates::resolve(tx, &room, &owner, &agent, approve, now)
        }))
    }

    fn delete_room<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
    ) -> StoreFuture<'a, Option<Deleted>> {
        let (room, owner) = (room.clone(), owner.clone());
        Box::pin(
            self.writer
                .run(0, move |tx| gates::delete(tx, &room, &owner)),
        )
    }

    fn leave<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
        now: i64,
    ) -> StoreFuture<'a, LeaveOutcome> {
        let (room, agent) = (room.clone(), agent.clone());
        Box::pin(
            self.writer
                .run(0, move |tx| gates::leave(tx, &room, &agent, now)),
        )
    }

    fn remove_member<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
        agent: &'a AgentId,
        ban: bool,
        now: i64,
    ) -> StoreFuture<'a, MemberOutcome> {
        let (room, owner, agent) = (room.clone(), owner.clone(), agent.clone());
        Box::pin(self.writer.run(0, move |tx| {
            gates::remove(tx, &room, &owner, &agent, ban, now)
        }))
    }

    fn transfer_owner<'a>(
        &'a self,
        room: &'a RoomName,
        owner: &'a AgentId,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, MemberOutcome> {
        let (room, owner, agent) = (room.clone(), owner.clone(), agent.clone());
        Box::pin(
            self.writer
                .run(0, move |tx| gates::transfer(tx, &room, &owner, &agent)),
        )
    }

    fn revoke_invites<'a>(
        &'a self,
        agent: &'a AgentId,
        which: WhichInvites,
    ) -> StoreFuture<'a, u32> {
        let agent = agent.clone();
        Box::pin(
            self.writer
                .run(0, move |tx| gates::revoke(tx, &agent, &which)),
        )
    }

    fn register(&self, card: NewCard) -> StoreFuture<'_, ()> {
        Box::pin(
            self.writer
                .run(card.card.len(), move |tx| directory::register(tx, &card)),
        )
    }

    fn discover(&self, filter: CardFilter) -> StoreFuture<'_, Vec<CardRow>> {
        Box::pin(
            self.readers
                .run(move |conn| directory::discover(conn, &filter)),
        )
    }

    fn lookup<'a>(&'a self, agent: &'a AgentId) -> StoreFuture<'a, Option<CardRow>> {
        let agent = agent.clone();
        Box::pin(
            self.readers
                .run(move |conn| directory::lookup(conn, &agent)),
        )
    }

    fn submit(&self, append: Append) -> StoreFuture<'_, Committing> {
        Box::pin(async move {
            let prepared = Prepared::new(append);
            let bytes = prepared.bytes();
            let answer = self
                .writer
                .enqueue(bytes, move |tx| log::append(tx, prepared))
                .await?;
            let committing: Committing =
                Box::pin(async move { answer.await.unwrap_or(Err(StoreError::Closed)) });
            Ok(committing)
        })
    }

    fn read<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
        from: ReadFrom,
        limit: u32,
    ) -> StoreFuture<'a, Option<Page>> {
        let (room, agent) = (room.clone(), agent.clone());
        Box::pin(
            self.readers
                .run(move |conn| log::read(conn, &room, &agent, from, limit)),
        )
    }

    fn advance<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
        to: Seq,
        now: i64,
    ) -> StoreFuture<'a, Seq> {
        let (room, agent) = (room.clone(), agent.clone());
        Box::pin(
            self.writer
                .run(0, move |tx| cursors::advance(tx, &room, &agent, to, now)),
        )
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.run(0, |tx| {
            tx.conn
                .prepare_cached("SELECT 1")?
                .query_row([], |_| Ok(()))?;
            Ok(())
        }))
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.readers.close().await;
            self.writer.close().await;
            Ok(())
        })
    }
}
