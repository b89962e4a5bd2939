//! Reading without losing and without showing twice: one reader a room.
//!
//! 1. A read takes the room's lock, so that two calls never show the same message.
//! 2. What was read counts as read only when the answer that shows it was written to the host;
//!    the batch then commits and lets go of the lock. A batch that is dropped consumed nothing.
//! 3. When the commit fails (the hub went away in between) the messages were seen all the same:
//!    the next read makes up for it first.
//! 4. When the hub calls unread what it took as read before, its log was set back (an old copy, an
//!    empty database): what is known of it is forgotten, or nothing would be committed any more.
//!
//! Renders nothing, waits for nothing, knows no host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use parler_connector::{Client, ClientError, Read};
use parler_protocol::{Pulled, StoredMessage};
use tokio::sync::{Mutex as Turnstile, OwnedMutexGuard};

/// Rooms that are remembered at most; beyond that, rooms where nothing is owed are forgotten.
const MAX_ROOMS: usize = 1024;

/// How far a room was shown and how far the hub knows it.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    shown: i64,
    committed: i64,
}

impl Reader {
    fn owes(&self) -> bool {
        self.shown > self.committed
    }

    /// Whether the hub's log was set back, by what it calls unread. Starts anew from there then.
    fn set_back_by(&mut self, page: &Pulled) -> bool {
        let Some(first) = page.messages.iter().map(|message| message.seq).min() else {
            return false;
        };
        let set_back = first <= self.committed;
        if set_back {
            self.shown = first.saturating_sub(1);
            self.committed = self.shown;
        }
        set_back
    }
}

/// All readers of this process.
#[derive(Default)]
pub(crate) struct Inbox {
    rooms: Mutex<HashMap<String, Arc<Turnstile<Reader>>>>,
}

/// Messages that were read and not yet shown. Holds the room's lock.
pub(crate) struct Batch {
    reader: OwnedMutexGuard<Reader>,
    client: Client,
    /// What there is to show, own messages included.
    pub(crate) pulled: Pulled,
    /// The hub's log was set back since the last reading.
    pub(crate) set_back: bool,
}

impl Inbox {
    /// Reads what is unread in a room, `limit` messages at most.
    ///
    /// The lock is a queue of readers, not a guard of data: it is meant to be held over awaits.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub(crate) async fn unread(
        &self,
        client: &Client,
        room: &str,
        limit: u32,
    ) -> Result<Batch, ClientError> {
        let mut reader = self.reader(room).lock_owned().await;
        if reader.owes() {
            let seq = reader.shown;
            client.commit(room, seq).await?;
            reader.committed = seq;
        }
        let pulled = client.pull(room, Read::Unread { limit }).await?;
        let set_back = reader.set_back_by(&pulled);
        Ok(Batch {
            reader,
            client: client.clone(),
            pulled,
            set_back,
        })
    }

    fn reader(&self, room: &str) -> Arc<Turnstile<Reader>> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if rooms.len() >= MAX_ROOMS && !rooms.contains_key(room) {
            rooms.retain(|_, reader| {
                Arc::strong_count(reader) > 1 || reader.try_lock().is_ok_and(|r| r.owes())
            });
        }
        Arc::clone(rooms.entry(room.to_owned()).or_default())
    }
}

impl Batch {
    /// The messages by others than `me`.
    pub(crate) fn by_others<'a>(
        &'a self,
        me: &'a str,
    ) -> impl Iterator<Item = &'a StoredMessage> + 'a {
        self.pulled
            .messages
            .iter()
            .filter(move |message| message.from.id != me)
    }

    /// The last message of the batch; `None` when it is empty.
    pub(crate) fn last(&self) -> Option<i64> {
        self.pulled.messages.last().map(|message| message.seq)
    }

    /// The place up to which it counts as read once it was shown.
    pub(crate) fn end(&self) -> i64 {
        self.last().unwrap_or(0).max(self.pulled.cursor)
    }

    /// Leaves what is beyond that place for the next reading.
    pub(crate) fn end_at(&mut self, seq: i64) {
        self.pulled.messages.retain(|message| message.seq <= seq);
        self.pulled.cursor = seq;
    }

    /// Also counts as read what was read by other means up to there.
    pub(crate) fn extend_to(&mut self, seq: i64) {
        self.pulled.cursor = self.pulled.cursor.max(seq);
    }

    /// The messages were shown: tells the hub. A hub that is away is told at the next read.
    pub(crate) async fn consume(mut self) {
        let seq = self.end();
        if seq <= self.reader.committed {
            return;
        }
        self.reader.shown = self.reader.shown.max(seq);
        match self.client.commit(&self.pulled.room, seq).await {
            Ok(()) => self.reader.committed = seq,
            Err(error) => tracing::warn!(%error, seq, "read, and the hub does not know it yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_connector::{ClientOptions, Endpoint, Outgoing};
    use parler_protocol::{Invite, Part, RoomKind};
    use parler_testkit::{TestHub, keys};

    fn channel(name: &str) -> Invite {
        Invite {
            kind: RoomKind::Channel,
            room: Some(name.into()),
            ttl_secs: None,
            max_uses: None,
            require_approval: false,
        }
    }

    #[tokio::test]
    async fn what_was_shown_when_the_hub_went_away_is_not_shown_again() {
        let hub = TestHub::start().await;
        let client = |n, name: &str| {
            Client::new(ClientOptions::new(Endpoint::new(hub.url()), keys(n), name))
        };
        let (planner, webdev) = (client(1, "planner"), client(2, "webdev"));
        let invited = planner.invite(channel("auth")).await.unwrap();
        webdev.redeem(&invited.code).await.unwrap();
        planner.send(Outgoing::text("auth", "one")).await.unwrap();
        let inbox = Inbox::default();
        let mut batch = inbox.unread(&webdev, "auth", 10).await.unwrap();
        assert_eq!(batch.by_others(webdev.id().as_str()).count(), 1);
        // Shown, and the hub cannot be told: nothing answers there.
        batch.client = Client::new(ClientOptions::new(
            Endpoint::new("ws://127.0.0.1:1"),
            keys(2),
            "x",
        ));
        batch.consume().await;
        planner.send(Outgoing::text("auth", "two")).await.unwrap();
        let batch = inbox.unread(&webdev, "auth", 10).await.unwrap();
        let shown: Vec<_> = batch.pulled.messages.iter().map(|m| &m.parts[0]).collect();
        assert_eq!(shown, [&Part::text("two")]);
    }

    #[tokio::test]
    async fn a_hub_that_was_set_back_is_read_and_told_again() {
        let hub = TestHub::start().await;
        let client = |n, name: &str| {
            Client::new(ClientOptions::new(Endpoint::new(hub.url()), keys(n), name))
        };
        let (planner, webdev) = (client(1, "planner"), client(2, "webdev"));
        let invited = planner.invite(channel("auth")).await.unwrap();
        webdev.redeem(&invited.code).await.unwrap();
        planner.send(Outgoing::text("auth", "one")).await.unwrap();
        let inbox = Inbox::default();
        // As after a restore: this process read further than the hub knows.
        *inbox.reader("auth").try_lock().unwrap() = Reader {
            shown: 100,
            committed: 100,
        };
        let batch = inbox.unread(&webdev, "auth", 10).await.unwrap();
        assert!(batch.set_back);
        batch.consume().await;
        let batch = inbox.unread(&webdev, "auth", 10).await.unwrap();
        assert_eq!(batch.last(), None, "the hub knows that it was read");
        assert!(!batch.set_back);
    }

    #[test]
    fn idle_rooms_are_forgotten_when_there_are_too_many() {
        let inbox = Inbox::default();
        let held = inbox.reader("held");
        inbox.reader("owing").try_lock().unwrap().shown = 7;
        for n in 0..MAX_ROOMS {
            inbox.reader(&format!("r{n}"));
        }
        assert!(inbox.rooms.lock().unwrap().len() <= MAX_ROOMS);
        assert!(Arc::ptr_eq(&held, &inbox.reader("held")));
        assert_eq!(inbox.reader("owing").try_lock().unwrap().shown, 7);
    }
}
