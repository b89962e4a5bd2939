//! What a hub pushed and nobody has looked at yet.
//!
//! Bounded by count and by bytes; when it is full the oldest goes, because the log has it anyway
//! and a push is only a doorbell. It never waits and never blocks the socket.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::Notify;

/// Entries that wait at most: minutes of a lively room.
pub(crate) const CAPACITY: usize = 1024;
/// Bytes of all waiting entries, as they came over the wire: thirty of the largest messages, so
/// that no peer fills this process's memory by writing to a room.
pub(crate) const CAPACITY_BYTES: usize = 32 * 1024 * 1024;

/// A bounded queue of pushes for any number of takers.
pub(crate) struct Inbox<T> {
    queue: Mutex<Queue<T>>,
    filled: Notify,
}

struct Queue<T> {
    entries: VecDeque<(T, usize)>,
    bytes: usize,
    dropped: u64,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Inbox {
            queue: Mutex::new(Queue {
                entries: VecDeque::new(),
                bytes: 0,
                dropped: 0,
            }),
            filled: Notify::new(),
        }
    }

    /// Puts an entry in; the oldest ones make room.
    pub(crate) fn push(&self, entry: T, bytes: usize) {
        {
            let mut queue = self.lock();
            queue.entries.push_back((entry, bytes));
            queue.bytes += bytes;
            while queue.entries.len() > CAPACITY
                || (queue.bytes > CAPACITY_BYTES && queue.entries.len() > 1)
            {
                queue.take();
                queue.dropped += 1;
            }
        }
        self.filled.notify_one();
    }

    /// Takes the oldest entry, waiting for one if need be. Safe to cancel.
    pub(crate) async fn next(&self) -> T {
        loop {
            if let Some(entry) = self.try_next() {
                return entry;
            }
            self.filled.notified().await;
        }
    }

    /// Takes the oldest entry if there is one.
    pub(crate) fn try_next(&self) -> Option<T> {
        let (entry, more) = {
            let mut queue = self.lock();
            (queue.take(), !queue.entries.is_empty())
        };
        if more {
            // One permit may stand for several entries: pass it on to the next taker.
            self.filled.notify_one();
        }
        entry
    }

    /// How many entries were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue<T>> {
        // Nothing in here panics while it holds the lock, and a queue is in order at any time.
        self.queue
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T> Queue<T> {
    fn take(&mut self) -> Option<T> {
        let (entry, bytes) = self.entries.pop_front()?;
        self.bytes -= bytes;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_full_inbox_drops_the_oldest_and_counts_it() {
        let inbox = Inbox::new();
        for n in 0..CAPACITY + 3 {
            inbox.push(n, 1);
        }
        assert_eq!(inbox.dropped(), 3);
        assert_eq!(inbox.next().await, 3);
    }

    #[test]
    fn large_entries_make_room_by_their_bytes() {
        let inbox = Inbox::new();
        for n in 0..4 {
            inbox.push(n, CAPACITY_BYTES / 2);
        }
        assert_eq!((inbox.dropped(), inbox.try_next()), (2, Some(2)));
        inbox.push(9, CAPACITY_BYTES * 2);
        assert_eq!(
            (inbox.try_next(), inbox.try_next()),
            (Some(9), None),
            "one is kept whatever its size"
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn several_takers_share_and_none_is_left_behind() {
        let inbox = Arc::new(Inbox::new());
        let takers: Vec<_> = (0..8)
            .map(|_| {
                let inbox = inbox.clone();
                tokio::spawn(async move {
                    let mut taken = Vec::new();
                    for _ in 0..50 {
                        taken.push(inbox.next().await);
                    }
                    taken
                })
            })
            .collect();
        for n in 0..400 {
            inbox.push(n, 1);
        }
        let mut all = Vec::new();
        for taker in takers {
            let taken = tokio::time::timeout(Duration::from_secs(5), taker).await;
            all.extend(taken.expect("no taker waits for ever").unwrap());
        }
        all.sort_unstable();
        assert_eq!(all, (0..400).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_cancelled_taker_takes_nothing() {
        let inbox = Inbox::new();
        let waited = tokio::time::timeout(Duration::from_millis(5), inbox.next()).await;
        assert!(waited.is_err());
        inbox.push(1, 1);
        assert_eq!(inbox.next().await, 1);
    }
}
