//! What the cases share: an open store, who hears of its commits, and short ways to say things.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use parler_protocol::{AgentId, RoomKind, RoomName, Seq};

use super::Harness;
use crate::{
    Append, Appended, CodeHash, CommitSink, Event, InviteOutcome, LogEntry, MemberRow, NewInvite,
    Page, ReadFrom, RedeemOutcome, RoomRow, Store,
};

/// The time at which stories begin.
pub(super) const T0: i64 = 1_760_000_000_000;
/// Life of the codes that stories mint.
pub(super) const LIFE: i64 = 1000;
/// A limit that no story reaches.
pub(super) const ALL_OF_IT: u32 = 1000;

/// Remembers what it was told.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<Vec<Event>>);

impl CommitSink for Heard {
    fn committed(&self, events: &[Event]) {
        self.0.lock().unwrap().extend_from_slice(events);
    }
}

impl Heard {
    /// What was told since the last look, in short words.
    pub(super) fn take(&self) -> Vec<String> {
        let events = std::mem::take(&mut *self.0.lock().unwrap());
        events.iter().map(short).collect()
    }

    /// The entries among what was told since the last look.
    pub(super) fn take_entries(&self) -> Vec<LogEntry> {
        let events = std::mem::take(&mut *self.0.lock().unwrap());
        let entries = events.into_iter().filter_map(|event| match event {
            Event::Appended(entry) => Some(entry),
            _ => None,
        });
        entries.collect()
    }
}

fn short(event: &Event) -> String {
    match event {
        Event::Appended(entry) => format!("{} in {}", entry.id, entry.room),
        Event::Joined { room, kind, agent } => format!("{} joined {kind} {room}", agent.short()),
        Event::Left { room, agent } => format!("{} left {room}", agent.short()),
        Event::Asked { room, agent } => format!("{} asked {room}", agent.short()),
        Event::Requested {
            room,
            owner,
            request,
        } => format!(
            "{} waits for {} in {room}",
            request.agent.short(),
            owner.short()
        ),
        Event::Turn(change) => {
            let turn = &change.row.turn;
            format!("{} is {:?}", turn.message, turn.state).to_lowercase()
        }
        Event::TurnDue(at) => format!("due {}", at - T0),
        Event::Guard(guard) => format!("guard {}: {}", guard.seq, guard.reason),
        Event::Revoked { room } => format!("tokens of {room} revoked"),
        Event::Deleted { room } => format!("{room} deleted"),
    }
}

/// An open store and what is needed to tell a story with it.
pub struct Story {
    harness: Arc<dyn Harness>,
    pub(super) store: Arc<dyn Store>,
    pub(super) heard: Arc<Heard>,
    minted: AtomicU64,
}

impl Story {
    pub(super) async fn begin(harness: Arc<dyn Harness>) -> Self {
        let heard = Arc::new(Heard::default());
        let store = harness.open(heard.clone()).await.unwrap();
        Self {
            harness,
            store,
            heard,
            minted: AtomicU64::new(0),
        }
    }

    /// Closes the store and opens the same database again.
    pub(super) async fn reopen(&mut self) {
        self.reopen_with(self.heard.clone()).await;
    }

    /// The same with another sink.
    pub(super) async fn reopen_with(&mut self, sink: Arc<dyn CommitSink>) {
        self.store.close().await.unwrap();
        self.store = self.harness.open(sink).await.unwrap();
    }

    /// A number that no earlier call gave.
    pub(super) fn number(&self) -> u64 {
        self.minted.fetch_add(1, Ordering::Relaxed)
    }

    /// An invite of `agent` for a channel that nobody else minted, with fifty uses.
    pub(super) fn new_invite(&self, agent: &AgentId, room: &str) -> NewInvite {
        let number = self.number();
        let mut code = [0; 32];
        code[..8].copy_from_slice(&number.to_be_bytes());
        NewInvite {
            agent: agent.clone(),
            kind: RoomKind::Channel,
            room: RoomName::new(room),
            verbatim: None,
            code,
            id: format!("invite-{number}"),
            expires_at: T0 + LIFE,
            max_uses: 50,
            gated: false,
            max_owned_rooms: 1000,
            now: T0,
        }
    }

    /// Stores an invite and gives its code; it must be accepted.
    pub(super) async fn mint(&self, invite: NewInvite) -> CodeHash {
        let code = invite.code;
        let outcome = self.store.invite(invite).await.unwrap();
        assert!(
            matches!(outcome, InviteOutcome::Invited { .. }),
            "{outcome:?}"
        );
        code
    }

    /// Opens a channel, or mints one more invite for it.
    pub(super) async fn open(&self, room: &str, owner: &AgentId) -> CodeHash {
        self.mint(self.new_invite(owner, room)).await
    }

    /// Lets agents join a channel that `owner` is a member of.
    pub(super) async fn join(&self, room: &str, owner: &AgentId, agents: &[&AgentId]) {
        let code = self.open(room, owner).await;
        for agent in agents {
            let outcome = self.redeem(code, agent).await;
            assert!(
                matches!(outcome, RedeemOutcome::Joined { .. }),
                "{outcome:?}"
            );
        }
    }

    pub(super) async fn redeem(&self, code: CodeHash, agent: &AgentId) -> RedeemOutcome {
        self.redeem_at(code, agent, T0).await
    }

    pub(super) async fn redeem_at(
        &self,
        code: CodeHash,
        agent: &AgentId,
        now: i64,
    ) -> RedeemOutcome {
        self.store.redeem(code, agent, now).await.unwrap()
    }

    /// A message that nobody else wrote, without a key.
    pub(super) fn draft(&self, room: &str, agent: &AgentId) -> Append {
        let number = self.number();
        Append {
            agent: agent.clone(),
            name: agent.short().into(),
            role: None,
            room: RoomName::new(room),
            id: format!("message-{number}"),
            parts: format!(r#"[{{"kind":"text","text":"number {number}"}}]"#).into(),
            mentions: None,
            reply_to: None,
            client_id: None,
            digest: None,
            ledger: None,
            dispatch: Vec::new(),
            join: false,
            now: T0 + i64::try_from(number).unwrap(),
        }
    }

    /// The same with a key, and a digest of what it stands for.
    pub(super) fn keyed(&self, room: &str, agent: &AgentId, key: &str, digest: u8) -> Append {
        Append {
            client_id: Some(key.to_owned()),
            digest: Some([digest; 32]),
            ..self.draft(room, agent)
        }
    }

    /// Appends a message that must be stored.
    pub(super) async fn append(&self, append: Append) -> LogEntry {
        match self.store.append(append).await.unwrap() {
            Appended::New(entry) => entry,
            other => panic!("not stored: {other:?}"),
        }
    }

    pub(super) async fn say(&self, room: &str, agent: &AgentId) -> LogEntry {
        self.append(self.draft(room, agent)).await
    }

    pub(super) async fn read(&self, room: &str, agent: &AgentId, from: ReadFrom) -> Page {
        let room = RoomName::new(room);
        let page = self.store.read(&room, agent, from, ALL_OF_IT).await;
        page.unwrap().expect("a member reads")
    }

    /// The whole log of a room.
    pub(super) async fn log(&self, room: &str, agent: &AgentId) -> Vec<LogEntry> {
        self.read(room, agent, ReadFrom::Since(Seq(0)))
            .await
            .entries
    }

    pub(super) async fn advance(&self, room: &str, agent: &AgentId, to: Seq) -> Seq {
        let room = RoomName::new(room);
        self.store.advance(&room, agent, to, T0).await.unwrap()
    }

    /// One of an agent's rooms.
    pub(super) async fn room(&self, room: &str, agent: &AgentId) -> RoomRow {
        let rooms = self.store.rooms(agent).await.unwrap();
        let found = rooms.into_iter().find(|row| row.name == *room);
        found.unwrap_or_else(|| panic!("{agent} is not in {room}"))
    }

    /// Unread messages of an agent in a room: all, and those of others.
    pub(super) async fn unread(&self, room: &str, agent: &AgentId) -> (u32, u32) {
        let row = self.room(room, agent).await;
        (row.unread, row.unread_others)
    }

    /// One member of a room, as `viewer` sees it.
    pub(super) async fn member(&self, room: &str, viewer: &AgentId, who: &AgentId) -> MemberRow {
        let roster = self.store.roster(&RoomName::new(room), viewer).await;
        let rows = roster.unwrap().expect("a member sees the roster");
        let found = rows.into_iter().find(|row| row.agent == *who);
        found.unwrap_or_else(|| panic!("{who} is not in the roster of {room}"))
    }
}

/// An agent's id, one a number; they sort like their numbers.
pub(super) fn agent(number: u8) -> AgentId {
    assert!(number < 26);
    let last = char::from(b'A' + number);
    AgentId::parse(&format!("U{}{last}", "A".repeat(AgentId::LEN - 2))).unwrap()
}

/// Polls all of them until all are done; the first poll is in their order.
pub(super) async fn together<'a, T: 'a>(
    futures: impl IntoIterator<Item = Pin<Box<dyn Future<Output = T> + Send + 'a>>>,
) -> Vec<T> {
    let mut waiting: Vec<_> = futures.into_iter().map(Some).collect();
    let mut done: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in waiting.iter_mut().zip(&mut done) {
            if let Some(running) = future
                && let Poll::Ready(value) = running.as_mut().poll(cx)
            {
                *done = Some(value);
                *future = None;
            }
        }
        if waiting.iter().all(Option::is_none) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
