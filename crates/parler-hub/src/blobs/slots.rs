//! Places for uploads: how many bytes may be on their way at once, one upload an agent, and what
//! broke off and waits for its sender.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parler_protocol::{AgentId, BlobId};
use tokio::time::Instant;

use super::files::Partial;
use crate::defaults;
use crate::fanout::ConnId;

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The agent uploads something on another connection.
    Busy,
    /// Too many bytes are on their way.
    Full,
}

/// What is written of an upload. Here, and not with the connection, so that a silent one can be
/// thrown away.
type Cell = Arc<Mutex<Option<Partial>>>;

#[derive(Debug)]
struct Active {
    agent: AgentId,
    conn: ConnId,
    blob: BlobId,
    size: u64,
    /// Whether its sender may come back for the rest.
    resumable: bool,
    /// When it ends unless bytes come.
    silent: Instant,
    /// When it ends whatever comes.
    end: Instant,
    cell: Cell,
}

/// An upload that broke off.
#[derive(Debug)]
struct Kept {
    blob: BlobId,
    size: u64,
    partial: Partial,
    until: Instant,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    active: HashMap<u64, Active>,
    kept: HashMap<AgentId, Kept>,
}

/// The places of a hub.
#[derive(Debug)]
pub struct Slots {
    pool: u64,
    inner: Mutex<Inner>,
}

/// A place; dropping it frees it.
#[derive(Debug)]
pub(super) struct Ticket {
    slots: Arc<Slots>,
    number: u64,
    cell: Cell,
}

impl Slots {
    /// Places for so many bytes.
    #[must_use]
    pub fn new(pool: u64) -> Self {
        Slots {
            pool,
            inner: Mutex::default(),
        }
    }

    /// Takes a place for an upload of this size. A place that the same connection has does not
    /// count: the new upload takes its place. A single upload always fits, however large blobs may
    /// be.
    pub(super) fn reserve(
        self: &Arc<Self>,
        who: (&AgentId, ConnId),
        what: (&BlobId, u64),
        resumable: bool,
        now: Instant,
    ) -> Result<Ticket, Refused> {
        let ((agent, conn), (blob, size)) = (who, what);
        let mut inner = self.lock();
        inner.sweep(now, self.pool);
        let mine = |a: &Active| a.conn != conn && a.agent == *agent;
        let elsewhere = inner.active.iter().find(|(_, active)| mine(active));
        if let Some((number, active)) = elsewhere {
            // The same upload again: its sender lost the other connection before we did.
            if !(resumable && active.resumable && active.blob == *blob && active.size == size) {
                return Err(Refused::Busy);
            }
            let number = *number;
            inner.end(number, now, self.pool);
        }
        let others = || inner.active.values().filter(|a| a.conn != conn);
        let used: u64 = others().map(|a| a.size).sum();
        if used > 0 && used.saturating_add(size) > self.pool {
            return Err(Refused::Full);
        }
        let number = inner.next;
        inner.next += 1;
        let slowest = Duration::from_secs(size / defaults::MIN_UPLOAD_BYTES_PER_SEC);
        let cell = Cell::default();
        let active = Active {
            agent: agent.clone(),
            conn,
            blob: blob.clone(),
            size,
            resumable,
            silent: now + defaults::UPLOAD_SILENCE,
            end: now + defaults::UPLOAD_SILENCE + slowest,
            cell: Arc::clone(&cell),
        };
        inner.active.insert(number, active);
        Ok(Ticket {
            slots: Arc::clone(self),
            number,
            cell,
        })
    }

    /// What this agent sent of this blob before it broke off.
    pub(super) fn resume(
        &self,
        agent: &AgentId,
        blob: &BlobId,
        size: u64,
        now: Instant,
    ) -> Option<Partial> {
        let mut inner = self.lock();
        inner.sweep(now, self.pool);
        let same = |kept: &Kept| kept.blob == *blob && kept.size == size;
        if !inner.kept.get(agent).is_some_and(same) {
            return None;
        }
        inner.kept.remove(agent).map(|kept| kept.partial)
    }

    /// Throws away what ran out of time.
    pub fn sweep(&self) {
        self.lock().sweep(Instant::now(), self.pool);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn sweep(&mut self, now: Instant, pool: u64) {
        self.kept.retain(|_, kept| kept.until > now);
        let over = |active: &Active| active.silent.min(active.end) <= now;
        let late: Vec<u64> = self
            .active
            .iter()
            .filter_map(|(number, active)| over(active).then_some(*number))
            .collect();
        for number in late {
            self.end(number, now, pool);
        }
    }

    /// Ends an upload; what was sent of it is kept if its sender may come back for the rest.
    fn end(&mut self, number: u64, now: Instant, pool: u64) {
        let Some(active) = self.active.remove(&number) else {
            return;
        };
        let partial = lock(&active.cell).take();
        let Some(partial) = partial.filter(|p| active.resumable && p.written() > 0) else {
            return;
        };
        let kept = Kept {
            blob: active.blob,
            size: active.size,
            partial,
            until: now + defaults::BROKEN_UPLOAD_KEPT,
        };
        self.kept.insert(active.agent, kept);
        // Never more than may be on its way: the oldest go first.
        while self.kept.values().map(|k| k.partial.written()).sum::<u64>() > pool
            && self.kept.len() > 1
        {
            let oldest = self.kept.iter().min_by_key(|(_, k)| k.until);
            let Some(agent) = oldest.map(|(agent, _)| agent.clone()) else {
                return;
            };
            self.kept.remove(&agent);
        }
    }
}

fn lock(cell: &Cell) -> MutexGuard<'_, Option<Partial>> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ticket {
    /// Bytes came; false when the place was given to others meanwhile.
    pub(super) fn renew(&self, now: Instant) -> bool {
        let mut inner = self.slots.lock();
        inner.sweep(now, self.slots.pool);
        match inner.active.get_mut(&self.number) {
            Some(active) => {
                active.silent = now + defaults::UPLOAD_SILENCE;
                true
            }
            None => false,
        }
    }

    /// What is written so far.
    pub(super) fn take(&self) -> Option<Partial> {
        lock(&self.cell).take()
    }

    /// Puts it back. Where the place is gone meanwhile, the file goes as well.
    pub(super) fn put(&self, partial: Partial) {
        let inner = self.slots.lock();
        if inner.active.contains_key(&self.number) {
            *lock(&self.cell) = Some(partial);
        }
    }

    /// Frees the place now; false when it was free.
    pub(super) fn end(&self) -> bool {
        let pool = self.slots.pool;
        let mut inner = self.slots.lock();
        let had = inner.active.contains_key(&self.number);
        inner.end(self.number, Instant::now(), pool);
        had
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blobs::Files;
    use bytes::Bytes;
    use parler_store_sqlite::Durability;

    fn agent(last: char) -> AgentId {
        AgentId::trusted(&format!("U{}{last}", "A".repeat(54)))
    }

    fn blob(number: u8) -> BlobId {
        BlobId::parse(&format!("{number:064x}")).unwrap()
    }

    fn reserve(slots: &Arc<Slots>, who: char, conn: u64, size: u64) -> Result<Ticket, Refused> {
        reserve_at(slots, who, conn, size, Instant::now())
    }

    fn reserve_at(
        slots: &Arc<Slots>,
        who: char,
        conn: u64,
        size: u64,
        now: Instant,
    ) -> Result<Ticket, Refused> {
        slots.reserve((&agent(who), ConnId(conn)), (&blob(1), size), true, now)
    }

    async fn partial(files: &Files, bytes: usize) -> Partial {
        let partial = files.create().await.unwrap();
        let block = Bytes::from(vec![1; bytes]);
        files.write(partial, vec![block]).await.unwrap()
    }

    #[tokio::test]
    async fn places_are_as_large_as_what_comes() {
        let slots = Arc::new(Slots::new(100));
        let a = reserve(&slots, 'A', 1, 60).unwrap();
        assert_eq!(reserve(&slots, 'B', 2, 41).unwrap_err(), Refused::Full);
        let b = reserve(&slots, 'B', 2, 40).unwrap();
        assert_eq!(reserve(&slots, 'C', 3, 1).unwrap_err(), Refused::Full);
        assert_eq!(reserve(&slots, 'A', 4, 1).unwrap_err(), Refused::Busy);
        let taken = reserve(&slots, 'A', 4, 60).expect("the same upload, taken over");
        assert!(!a.renew(Instant::now()));
        let again = reserve(&slots, 'B', 2, 30).unwrap();
        drop(b);
        let c = reserve(&slots, 'C', 3, 10).unwrap();
        drop((a, taken, again, c));
        reserve(&slots, 'A', 1, 1000).expect("a single one always fits");
    }

    #[test]
    fn a_silent_or_slow_upload_gives_its_place_away() {
        const MIB: u64 = 1 << 20;
        let slots = Arc::new(Slots::new(100 * MIB));
        let start = Instant::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let silence = defaults::UPLOAD_SILENCE.as_secs();
        let silent = reserve_at(&slots, 'A', 1, 60 * MIB, at(0)).unwrap();
        assert!(silent.renew(at(silence / 2)));
        let late = silence / 2 + silence;
        let refused = reserve_at(&slots, 'B', 2, 60 * MIB, at(late - 1));
        assert_eq!(refused.unwrap_err(), Refused::Full);
        let other = reserve_at(&slots, 'B', 2, 60 * MIB, at(late)).unwrap();
        assert!(!silent.renew(at(late)));
        drop(silent);
        assert!(
            other.renew(at(late + 1)),
            "a late drop frees its own place only"
        );
        let slowest = 60 * MIB / defaults::MIN_UPLOAD_BYTES_PER_SEC;
        for secs in late..late + silence + slowest {
            assert!(other.renew(at(secs)), "{secs}");
        }
        let end = at(late + silence + slowest);
        assert!(!other.renew(end), "a byte a second is too slow");
    }

    #[tokio::test]
    async fn what_broke_off_waits_for_its_sender_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::open(Some(folder.path().into()), Durability::Normal).unwrap();
        let slots = Arc::new(Slots::new(100));
        let now = Instant::now();
        let later = now + defaults::BROKEN_UPLOAD_KEPT + Duration::from_secs(1);
        let broken = async |who: char, bytes: usize| {
            let ticket = reserve(&slots, who, 1, 80).unwrap();
            ticket.put(partial(&files, bytes).await);
        };
        broken('A', 50).await;
        assert!(slots.resume(&agent('B'), &blob(1), 80, now).is_none());
        assert!(slots.resume(&agent('A'), &blob(2), 80, now).is_none());
        assert!(slots.resume(&agent('A'), &blob(1), 81, now).is_none());
        let found = slots.resume(&agent('A'), &blob(1), 80, now).unwrap();
        assert_eq!(found.written(), 50);
        assert!(slots.resume(&agent('A'), &blob(1), 80, now).is_none());
        broken('A', 50).await;
        assert!(slots.resume(&agent('A'), &blob(1), 80, later).is_none());
        broken('A', 60).await;
        broken('B', 60).await;
        assert!(
            slots.resume(&agent('A'), &blob(1), 80, now).is_none(),
            "the oldest goes when there is too much"
        );
        assert!(slots.resume(&agent('B'), &blob(1), 80, now).is_some());
    }
}
