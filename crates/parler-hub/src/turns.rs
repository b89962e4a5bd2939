//! The ledger's live side: who hears of a turn, who waits for news, and what is due.
//!
//! The store decides everything; this hands its news on. A `turn` frame is a doorbell: losing one
//! loses nothing, `turns` has it all.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parler_protocol::turn::{Audience, Turn};
use parler_protocol::{AgentId, EndpointRef, RoomName, ServerFrame, TurnNotice};
use parler_store::{TurnChange, TurnView};
use tokio::sync::Notify;

use crate::defaults;
use crate::now_ms;
use crate::stall::{self, Known};
use crate::state::HubState;

/// News of turns on their way.
#[derive(Debug)]
pub struct TurnNews {
    queue: Mutex<VecDeque<TurnChange>>,
    queued: Notify,
    /// When the alarm is set to.
    alarm: AtomicI64,
    earlier: Notify,
    parked: Mutex<HashMap<u64, Parked>>,
    next_parked: AtomicU64,
}

impl Default for TurnNews {
    fn default() -> Self {
        TurnNews {
            queue: Mutex::default(),
            queued: Notify::new(),
            alarm: AtomicI64::new(i64::MAX),
            earlier: Notify::new(),
            parked: Mutex::default(),
            next_parked: AtomicU64::new(0),
        }
    }
}

#[derive(Debug)]
struct Parked {
    rooms: HashSet<RoomName>,
    news: Arc<Notify>,
}

/// A parked `turns`. Dropping it is leaving.
#[derive(Debug)]
pub struct Waiting {
    all: Arc<TurnNews>,
    number: u64,
    news: Arc<Notify>,
}

impl TurnNews {
    /// A turn was born or moved. What does not fit is dropped.
    pub fn changed(&self, change: &TurnChange) {
        let mut queue = lock(&self.queue);
        if queue.len() < defaults::TURN_NEWS_DEPTH {
            queue.push_back(change.clone());
        }
        drop(queue);
        self.queued.notify_one();
    }

    /// Something is due at this time.
    pub fn due(&self, at: i64) {
        if at < self.alarm.load(Ordering::Acquire) {
            self.earlier.notify_one();
        }
    }

    /// Whoever waits for news of a room's turns looks again.
    pub fn stirred(&self, room: &RoomName) {
        for parked in lock(&self.parked).values() {
            if parked.rooms.contains(room) {
                parked.news.notify_one();
            }
        }
    }

    /// Parks: news of these rooms from here on end the next [`Waiting::news`].
    #[must_use]
    pub fn park(self: &Arc<Self>, rooms: impl IntoIterator<Item = RoomName>) -> Waiting {
        let number = self.next_parked.fetch_add(1, Ordering::Relaxed);
        let news = Arc::new(Notify::new());
        let parked = Parked {
            rooms: rooms.into_iter().collect(),
            news: Arc::clone(&news),
        };
        lock(&self.parked).insert(number, parked);
        Waiting {
            all: Arc::clone(self),
            number,
            news,
        }
    }
}

impl Waiting {
    /// Waits for news since the last call (or since parking).
    pub async fn news(&self) {
        self.news.notified().await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.all.parked).remove(&self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A turn as the wire has it now: with who has seen it, who could take it, and why nothing happens.
#[must_use]
pub fn shown(state: &HubState, view: TurnView) -> Turn {
    let known: Vec<Known> = view
        .candidates
        .iter()
        .map(|candidate| {
            let id = candidate.who.id.as_str();
            let (online, parked) = state.live().look(id);
            Known {
                name: candidate.who.name.clone(),
                online,
                listening: online && (parked || state.fanout().wakes(id)),
                seen: candidate.seen,
                seen_at: candidate.seen_at,
                last_seen: state.heard().last(id).max(candidate.last_seen),
            }
        })
        .collect();
    let stalled = stall::reason(stall::Snapshot {
        row: &view.row,
        known: &known,
        eligible: view.eligible,
        members: &view.members,
        member_count: view.member_count,
        now: now_ms(),
    });
    let many = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let audience = Audience {
        eligible: view.eligible,
        online: many(known.iter().filter(|k| k.online).count()),
        listening: many(known.iter().filter(|k| k.listening).count()),
    };
    let seen_by: Vec<EndpointRef> = view
        .candidates
        .into_iter()
        .filter(|candidate| candidate.seen)
        .map(|candidate| candidate.who)
        .collect();
    Turn {
        seen_by,
        stalled,
        audience: Some(audience),
        history: view.history,
        ..view.row.turn
    }
}

/// Tells subscribers of turns, in the order of the commits, for ever.
pub async fn announce(state: Arc<HubState>) {
    let news = Arc::clone(state.turn_news());
    loop {
        news.queued.notified().await;
        loop {
            let next = lock(&news.queue).pop_front();
            let Some(change) = next else { break };
            tell(&state, change).await;
        }
    }
}

async fn tell(state: &HubState, change: TurnChange) {
    let room = RoomName::new(&change.row.turn.room);
    if !state.fanout().anybody_follows_turns(&room) {
        return;
    }
    let message = change.row.turn.message.clone();
    let mut view = match state.store().turn_view(message).await {
        Ok(Some(view)) => view,
        Ok(None) => return,
        Err(error) => {
            tracing::warn!(%error, "a turn was not announced");
            return;
        }
    };
    // The row as it was after this very change, among the members as they are now.
    view.row = (*change.row).clone();
    let who = audience(&change, &view);
    let turn = shown(state, view);
    let frame = ServerFrame::Turn(TurnNotice { turn });
    state.fanout().tell_all(&room, &who, &frame);
}

/// Who is told of a change: its holder, before and after; who offered it; and of a move also
/// whoever may claim it. A birth is told to the offerer by the reply to its message.
fn audience(change: &TurnChange, view: &TurnView) -> HashSet<AgentId> {
    let turn = &change.row.turn;
    let mut who: HashSet<AgentId> = HashSet::new();
    who.extend(change.was_held_by.clone());
    who.extend(turn.taken_by.as_ref().map(|by| AgentId::trusted(&by.id)));
    if change.was.is_some() {
        who.insert(AgentId::trusted(&turn.from.id));
    }
    if change.was != Some(turn.state) {
        let may = view.candidates.iter();
        who.extend(may.map(|may| AgentId::trusted(&may.who.id)));
    }
    who
}

/// The one timer of leases, deadlines and stalls, for ever.
pub async fn alarm(state: Arc<HubState>) {
    let news = Arc::clone(state.turn_news());
    loop {
        // Whatever becomes due from here on rings.
        news.alarm.store(i64::MAX, Ordering::Release);
        settle(&state).await;
        let next = match state.store().turns_due().await {
            Ok(next) => next.unwrap_or(i64::MAX),
            Err(error) => {
                tracing::warn!(%error, "cannot see what is due");
                i64::MAX
            }
        };
        news.alarm.store(next, Ordering::Release);
        let ms = u64::try_from(next.saturating_sub(now_ms())).unwrap_or(0);
        let sleep = Duration::from_millis(ms).clamp(defaults::ALARM_PAUSE, defaults::ALARM_LONGEST);
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            () = news.earlier.notified() => {}
        }
    }
}

/// Does what time alone has done by now.
pub async fn settle(state: &HubState) {
    loop {
        match state.store().settle_turns(now_ms()).await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "leases and deadlines were not looked at");
                return;
            }
        }
    }
}
