//! Parked pulls: who waits for a room to grow.
//!
//! A room has an entry only while somebody waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use parler_protocol::{RoomName, Seq};
use tokio::sync::watch;

/// All rooms that somebody waits for.
#[derive(Debug, Default)]
pub struct Waiters {
    rooms: Mutex<HashMap<RoomName, watch::Sender<Seq>>>,
}

/// One parked pull. Dropping it is leaving.
#[derive(Debug)]
pub struct Parked {
    waiters: Arc<Waiters>,
    room: RoomName,
    /// `Some` until the drop.
    grew: Option<watch::Receiver<Seq>>,
}

impl Waiters {
    /// Parks: whatever is appended from here on ends the next [`Parked::grew`].
    #[must_use]
    pub fn park(self: &Arc<Self>, room: &RoomName) -> Parked {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let grew = match rooms.get(room) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, receiver) = watch::channel(Seq(0));
                rooms.insert(room.clone(), sender);
                receiver
            }
        };
        Parked {
            waiters: Arc::clone(self),
            room: room.clone(),
            grew: Some(grew),
        }
    }

    /// A room grew: wakes everybody who is parked there.
    pub fn grew(&self, room: &RoomName, seq: Seq) {
        let rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = rooms.get(room) {
            sender.send_replace(seq);
        }
    }

    /// Something about a room changed: whoever is parked there looks again.
    pub fn stirred(&self, room: &RoomName) {
        let rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = rooms.get(room) {
            sender.send_modify(|_| {});
        }
    }
}

impl Parked {
    /// Waits until the room grew since the last call (or since parking).
    pub async fn grew(&mut self) {
        // The sender lives in the map as long as this receiver is counted there.
        if let Some(grew) = &mut self.grew {
            let _ = grew.changed().await;
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let mut rooms = self
            .waiters
            .rooms
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that of two that leave at once the later one sees that it is the last.
        self.grew = None;
        if rooms
            .get(&self.room)
            .is_some_and(|sender| sender.receiver_count() == 0)
        {
            rooms.remove(&self.room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_parked_pull_is_woken_and_leaves_nothing_behind() {
        let waiters = Arc::new(Waiters::default());
        let room = RoomName::new("r");
        let (mut a, mut b) = (waiters.park(&room), waiters.park(&room));
        waiters.grew(&room, Seq(1));
        a.grew().await;
        drop(a);
        b.grew().await;
        assert_eq!(waiters.rooms.lock().unwrap().len(), 1);
        drop(b);
        assert!(waiters.rooms.lock().unwrap().is_empty());
    }
}
