//! "Room R grew": from the store's commits to everybody who waits for them, in commit order.
//!
//! The store's thread hands each commit's events to [`BusSender`]; one task takes them off and
//! offers them to subscribers ([`crate::fanout`]) and parked pulls ([`crate::waiters`]). Commit
//! order in, commit order out: that is why pushes of one room arrive by rising `seq`.

use std::sync::Arc;

use parler_protocol::{JoinRequest, JoinRequestNotice, RoomName, ServerFrame};
use parler_store::{CommitSink, Event, JoinRequestRow};
use tokio::sync::mpsc;

use crate::defaults;
use crate::fanout::Fanout;
use crate::turns::TurnNews;
use crate::waiters::Waiters;

/// The store's end.
#[derive(Debug)]
pub struct BusSender(mpsc::Sender<Vec<Event>>);

/// The hub's end.
#[derive(Debug)]
pub struct BusReceiver(mpsc::Receiver<Vec<Event>>);

/// A bus of bounded depth: when the hub falls behind, the store's thread waits for it.
#[must_use]
pub fn bus() -> (BusSender, BusReceiver) {
    let (tx, rx) = mpsc::channel(defaults::BUS_DEPTH);
    (BusSender(tx), BusReceiver(rx))
}

impl CommitSink for BusSender {
    fn committed(&self, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        // Fails only when the hub is gone; then nobody waits.
        let _ = self.0.blocking_send(events.to_vec());
    }
}

impl BusReceiver {
    /// Hands on until the store is closed.
    pub async fn run(mut self, listeners: Listeners) {
        while let Some(events) = self.0.recv().await {
            for event in &events {
                listeners.push(event);
            }
            for event in &events {
                listeners.wake(event);
            }
        }
    }
}

/// Who hears of commits.
#[derive(Clone, Debug, Default)]
pub struct Listeners {
    /// Live subscribers.
    pub fanout: Arc<Fanout>,
    /// Parked pulls.
    pub waiters: Arc<Waiters>,
    /// Parked redeems.
    pub askers: Arc<Waiters>,
    /// Parked `turns`, and who is told of turns.
    pub turns: Arc<TurnNews>,
}

/// The frame that tells an owner who waits.
fn waiting(room: &RoomName, request: &JoinRequestRow) -> ServerFrame {
    ServerFrame::JoinRequest(JoinRequestNotice {
        room: room.to_string(),
        request: JoinRequest {
            agent: request.agent.to_string(),
            name: request.name.clone(),
            role: request.role.clone(),
            requested_at: request.requested_at,
        },
    })
}

impl Listeners {
    fn push(&self, event: &Event) {
        match event {
            Event::Appended(entry) => self.fanout.deliver(entry),
            Event::Joined { room, agent, .. } => self.fanout.joined(room, agent),
            Event::Left { room, agent } => self.fanout.left(room, agent),
            Event::Deleted { room } => self.fanout.deleted(room),
            Event::Requested {
                room,
                owner,
                request,
            } => self.fanout.tell(owner, &waiting(room, request)),
            Event::Turn(change) => self.turns.changed(change),
            Event::TurnDue(at) => self.turns.due(*at),
            _ => {}
        }
    }

    fn wake(&self, event: &Event) {
        match event {
            Event::Appended(entry) => self.waiters.grew(&entry.room, entry.seq),
            // A parked pull of who has to go ends with a refusal: it looks again.
            Event::Left { room, .. } => {
                self.waiters.stirred(room);
                self.turns.stirred(room);
            }
            Event::Turn(change) => self.turns.stirred(&RoomName::new(&change.row.turn.room)),
            Event::Asked { room, .. } | Event::Joined { room, .. } => self.askers.stirred(room),
            Event::Deleted { room } => {
                self.waiters.stirred(room);
                self.askers.stirred(room);
                self.turns.stirred(room);
            }
            _ => {}
        }
    }
}
