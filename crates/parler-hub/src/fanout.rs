//! Live subscribers of rooms. Best effort by contract: what does not fit is dropped, the cursor
//! has it.
//!
//! A delivery is serialised once; every subscriber's outbox gets a reference to the same bytes.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use parler_protocol::{AgentId, RoomName, ServerFrame};
use parler_store::LogEntry;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::conn::frame_text;
use crate::defaults;

/// Names one connection of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId(pub u64);

/// Where a connection's pushes go.
pub type Outbox = mpsc::Sender<Utf8Bytes>;

/// All subscribers.
#[derive(Debug, Default)]
pub struct Fanout {
    inner: Mutex<Inner>,
    pushed: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    subscribers: HashMap<ConnId, Subscriber>,
    by_agent: HashMap<AgentId, Vec<ConnId>>,
    by_room: HashMap<RoomName, HashSet<ConnId>>,
}

#[derive(Debug)]
struct Subscriber {
    agent: AgentId,
    outbox: Outbox,
    /// Whether it takes frames about turns and requests too: older clients do not know them.
    turns: bool,
    /// Whether it can start a turn of its host.
    wakes: bool,
    rooms: HashSet<RoomName>,
    /// Rooms that ended for the agent between the registration and [`Fanout::add_rooms`], which
    /// brings a list that may be older.
    gone: Option<HashSet<RoomName>>,
}

impl Fanout {
    /// Registers a connection, of no room yet: from now on a room that its agent joins is added.
    /// Follow with [`Fanout::add_rooms`]. `turns`: also frames about turns and requests; `wakes`: it
    /// can start a turn of its host. Repeating it changes these two and nothing else.
    pub fn subscribe(
        &self,
        conn: ConnId,
        agent: &AgentId,
        outbox: Outbox,
        (turns, wakes): (bool, bool),
    ) {
        let mut inner = self.lock();
        if let Some(known) = inner.subscribers.get_mut(&conn) {
            (known.turns, known.wakes) = (turns, wakes);
            return;
        }
        let rooms = HashSet::new();
        inner.subscribers.insert(
            conn,
            Subscriber {
                agent: agent.clone(),
                outbox,
                turns,
                wakes,
                rooms,
                gone: Some(HashSet::new()),
            },
        );
        inner.by_agent.entry(agent.clone()).or_default().push(conn);
    }

    /// Adds the rooms that the agent already is in.
    pub fn add_rooms(&self, conn: ConnId, rooms: impl IntoIterator<Item = RoomName>) {
        let mut inner = self.lock();
        let subscriber = inner.subscribers.get_mut(&conn);
        let gone = subscriber.and_then(|s| s.gone.take()).unwrap_or_default();
        for room in rooms.into_iter().filter(|room| !gone.contains(room)) {
            inner.add(conn, room);
        }
    }

    /// An agent became a member: its subscribed connections follow the room from here.
    pub fn joined(&self, room: &RoomName, agent: &AgentId) {
        let mut inner = self.lock();
        for conn in inner.by_agent.get(agent).cloned().unwrap_or_default() {
            inner.add(conn, room.clone());
        }
    }

    /// An agent is no member any more: its connections do not follow the room from here.
    pub fn left(&self, room: &RoomName, agent: &AgentId) {
        let mut inner = self.lock();
        for conn in inner.by_agent.get(agent).cloned().unwrap_or_default() {
            inner.take(conn, room);
        }
    }

    /// A room is gone.
    pub fn deleted(&self, room: &RoomName) {
        let mut inner = self.lock();
        inner.by_room.remove(room);
        for subscriber in inner.subscribers.values_mut() {
            subscriber.forget(room);
        }
    }

    /// Forgets a connection.
    pub fn unsubscribe(&self, conn: ConnId) {
        let mut inner = self.lock();
        let Some(gone) = inner.subscribers.remove(&conn) else {
            return;
        };
        if let Some(conns) = inner.by_agent.get_mut(&gone.agent) {
            conns.retain(|c| *c != conn);
            if conns.is_empty() {
                inner.by_agent.remove(&gone.agent);
            }
        }
        for room in &gone.rooms {
            if let Some(conns) = inner.by_room.get_mut(room) {
                conns.remove(&conn);
                if conns.is_empty() {
                    inner.by_room.remove(room);
                }
            }
        }
    }

    /// Offers a message to everybody who follows its room, but not to its author.
    pub fn deliver(&self, entry: &LogEntry) {
        let inner = self.lock();
        let Some(conns) = inner.by_room.get(&entry.room) else {
            return;
        };
        let mut bytes: Option<Utf8Bytes> = None;
        for subscriber in conns.iter().filter_map(|conn| inner.subscribers.get(conn)) {
            if subscriber.agent == entry.author {
                continue;
            }
            let bytes = bytes.get_or_insert_with(|| delivery(entry));
            self.offer(subscriber, bytes);
        }
    }

    /// Offers a frame to the connections of an agent that asked for more than messages.
    pub fn tell(&self, agent: &AgentId, frame: &ServerFrame) {
        let inner = self.lock();
        let Some(conns) = inner.by_agent.get(agent) else {
            return;
        };
        let mut bytes: Option<Utf8Bytes> = None;
        let subscribers = conns.iter().filter_map(|conn| inner.subscribers.get(conn));
        for subscriber in subscribers.filter(|s| s.turns) {
            let bytes = bytes.get_or_insert_with(|| frame_text(frame));
            self.offer(subscriber, bytes);
        }
    }

    /// Offers a frame to those of these agents that follow a room and asked for more than messages.
    pub fn tell_all(&self, room: &RoomName, agents: &HashSet<AgentId>, frame: &ServerFrame) {
        let inner = self.lock();
        let mut bytes: Option<Utf8Bytes> = None;
        for subscriber in inner.of_room(room) {
            if subscriber.turns && agents.contains(&subscriber.agent) {
                let bytes = bytes.get_or_insert_with(|| frame_text(frame));
                self.offer(subscriber, bytes);
            }
        }
    }

    /// Whether anybody in a room asked for more than messages.
    #[must_use]
    pub fn anybody_follows_turns(&self, room: &RoomName) -> bool {
        let inner = self.lock();
        inner.of_room(room).any(|subscriber| subscriber.turns)
    }

    /// Whether an agent has a subscribed connection that can start a turn of its host.
    #[must_use]
    pub fn wakes(&self, agent: &str) -> bool {
        let inner = self.lock();
        let conns = inner.by_agent.get(agent).into_iter().flatten();
        let mut subscribers = conns.filter_map(|conn| inner.subscribers.get(conn));
        subscribers.any(|subscriber| subscriber.wakes)
    }

    /// What does not fit into an outbox is dropped and counted.
    fn offer(&self, subscriber: &Subscriber, bytes: &Utf8Bytes) {
        let counter = match subscriber.outbox.try_send(bytes.clone()) {
            Ok(()) => &self.pushed,
            Err(_) => &self.dropped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Pushes queued, and pushes dropped because an outbox was full, since the start.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (
            self.pushed.load(Ordering::Relaxed),
            self.dropped.load(Ordering::Relaxed),
        )
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn of_room(&self, room: &RoomName) -> impl Iterator<Item = &Subscriber> {
        let conns = self.by_room.get(room).into_iter().flatten();
        conns.filter_map(|conn| self.subscribers.get(conn))
    }

    fn add(&mut self, conn: ConnId, room: RoomName) {
        if let Some(subscriber) = self.subscribers.get_mut(&conn) {
            if let Some(gone) = &mut subscriber.gone {
                gone.remove(&room);
            }
            if subscriber.rooms.len() >= defaults::MAX_FOLLOWED_ROOMS {
                return;
            }
            subscriber.rooms.insert(room.clone());
            self.by_room.entry(room).or_default().insert(conn);
        }
    }
}

impl Subscriber {
    fn forget(&mut self, room: &RoomName) {
        self.rooms.remove(room);
        if let Some(gone) = &mut self.gone {
            gone.insert(room.clone());
        }
    }
}

impl Inner {
    fn take(&mut self, conn: ConnId, room: &RoomName) {
        if let Some(subscriber) = self.subscribers.get_mut(&conn) {
            subscriber.forget(room);
        }
        if let Some(conns) = self.by_room.get_mut(room) {
            conns.remove(&conn);
            if conns.is_empty() {
                self.by_room.remove(room);
            }
        }
    }
}

/// The push frame of a message.
fn delivery(entry: &LogEntry) -> Utf8Bytes {
    format!(r#"{{"type":"delivery","message":{}}}"#, entry.json).into()
}

/// Unsubscribes a connection when it ends, however it ends; harmless if it never subscribed.
#[derive(Debug)]
pub struct Subscription {
    fanout: Arc<Fanout>,
    conn: ConnId,
}

impl Subscription {
    /// Guards the connection's entry.
    #[must_use]
    pub fn new(fanout: Arc<Fanout>, conn: ConnId) -> Self {
        Subscription { fanout, conn }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.fanout.unsubscribe(self.conn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::Seq;

    fn entry(seq: i64, author: &str) -> LogEntry {
        LogEntry {
            seq: Seq(seq),
            id: "m".into(),
            room: RoomName::new("r"),
            author: AgentId::trusted(author),
            json: format!(r#"{{"seq":{seq}}}"#).into(),
        }
    }

    #[test]
    fn a_follower_gets_others_messages_and_none_of_its_own() {
        let fanout = Fanout::default();
        let (tx, mut rx) = mpsc::channel(8);
        fanout.subscribe(ConnId(1), &AgentId::trusted("UA"), tx, (false, true));
        fanout.deliver(&entry(1, "UB"));
        assert!(rx.try_recv().is_err(), "not in the room yet");
        fanout.joined(&RoomName::new("r"), &AgentId::trusted("UA"));
        fanout.deliver(&entry(2, "UA"));
        fanout.deliver(&entry(3, "UB"));
        assert_eq!(
            rx.try_recv().unwrap().as_str(),
            r#"{"type":"delivery","message":{"seq":3}}"#
        );
        assert!(rx.try_recv().is_err());
        fanout.unsubscribe(ConnId(1));
        let inner = fanout.lock();
        assert!(inner.by_room.is_empty() && inner.by_agent.is_empty());
    }

    #[test]
    fn a_room_that_ended_while_subscribing_is_not_followed() {
        let fanout = Fanout::default();
        let (agent, room) = (AgentId::trusted("UA"), RoomName::new("r"));
        let (tx, mut rx) = mpsc::channel(8);
        fanout.subscribe(ConnId(1), &agent, tx, (false, true));
        fanout.left(&room, &agent);
        // The list was read before the agent had to go.
        fanout.add_rooms(ConnId(1), [room.clone(), RoomName::new("other")]);
        fanout.deliver(&entry(1, "UB"));
        assert!(rx.try_recv().is_err());
        fanout.joined(&room, &agent);
        fanout.deliver(&entry(2, "UB"));
        assert!(rx.try_recv().is_ok(), "in again");
    }

    #[test]
    fn only_who_asked_for_it_is_told_more_than_messages() {
        let fanout = Fanout::default();
        let owner = AgentId::trusted("UA");
        let connect = |conn, agent: &AgentId, turns| {
            let (tx, rx) = mpsc::channel(8);
            fanout.subscribe(ConnId(conn), agent, tx, (turns, true));
            rx
        };
        let mut with = connect(1, &owner, true);
        let mut without = connect(2, &owner, false);
        let mut stranger = connect(3, &AgentId::trusted("UB"), true);
        fanout.tell(&owner, &ServerFrame::Pong);
        assert_eq!(with.try_recv().unwrap().as_str(), r#"{"type":"pong"}"#);
        assert!(without.try_recv().is_err() && stranger.try_recv().is_err());
        // It may change its mind.
        let (tx, _) = mpsc::channel(8);
        fanout.subscribe(ConnId(2), &owner, tx, (true, true));
        fanout.tell(&owner, &ServerFrame::Pong);
        assert!(without.try_recv().is_ok());
    }

    #[test]
    fn a_connection_follows_no_more_rooms_than_it_may() {
        let fanout = Fanout::default();
        let (tx, _rx) = mpsc::channel(1);
        fanout.subscribe(ConnId(1), &AgentId::trusted("UA"), tx, (false, true));
        let rooms = (0..defaults::MAX_FOLLOWED_ROOMS + 5).map(|n| RoomName::new(&format!("r{n}")));
        fanout.add_rooms(ConnId(1), rooms);
        fanout.joined(&RoomName::new("one more"), &AgentId::trusted("UA"));
        assert_eq!(fanout.lock().by_room.len(), defaults::MAX_FOLLOWED_ROOMS);
        fanout.unsubscribe(ConnId(1));
        assert!(fanout.lock().by_room.is_empty());
    }

    #[test]
    fn a_full_outbox_drops_and_counts() {
        let fanout = Fanout::default();
        let (tx, _rx) = mpsc::channel(1);
        fanout.subscribe(ConnId(1), &AgentId::trusted("UA"), tx, (false, true));
        fanout.add_rooms(ConnId(1), [RoomName::new("r")]);
        fanout.deliver(&entry(1, "UB"));
        fanout.deliver(&entry(2, "UB"));
        assert_eq!(fanout.counts(), (1, 1));
    }
}
