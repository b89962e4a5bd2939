//! The writer: one thread with the only connection that changes the database.
//!
//! Steps wait in a bounded queue, and run in the order in which they were queued. The thread takes
//! what waits, runs all of it in one transaction, commits, tells the sink, then answers every
//! caller. There is no timer: while one commit is on its way to the disk, the next batch gathers by
//! itself.
//!
//! A step decides a refusal before it writes anything, so that only a failure of SQL itself (or a
//! panic) undoes the batch. Then everybody in it gets an error, nothing of it is stored, and what
//! the writer remembered is forgotten.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use parler_store::{CommitSink, Event, StoreError};
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::checkpoint::Checkpoints;
use crate::error::{Failure, store_error};
use crate::mirror::Mirror;
use crate::stats::Counters;

/// Steps that may wait. Beyond them callers wait to be queued.
const QUEUE_STEPS: usize = 4096;
/// Bytes (in KiB) of messages that may wait: a queue full of the largest ones must not fill the
/// memory. Beyond them callers wait to be queued.
const QUEUE_KIB: u32 = 64 * 1024;
/// Steps of one transaction. Beyond some hundred rows a larger batch saves nothing more, and the
/// first caller waits for the last row.
const BATCH_STEPS: usize = 1024;
/// Bytes of messages in one transaction: more only makes the first caller wait.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// What a step works with: the connection inside the open transaction, the writer's memory, and
/// what others may observe once it is committed.
pub(crate) struct Tx<'a> {
    pub conn: &'a Connection,
    pub mirror: &'a mut Mirror,
    pub events: &'a mut Vec<Event>,
}

/// A call that waits for the writer.
trait Step: Send {
    /// Does the work inside the transaction.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), rusqlite::Error>;
    /// Answers the caller, after the commit or the rollback.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Call<T, F> {
    work: Option<F>,
    value: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Step for Call<T, F>
where
    T: Send,
    F: FnOnce(&mut Tx<'_>) -> Result<T, Failure> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), rusqlite::Error> {
        let work = self.work.take().expect("a step runs once");
        self.value = Some(match work(tx) {
            Ok(value) => Ok(value),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let answer = match (committed, self.value) {
            (Ok(()), Some(value)) => value,
            (Ok(()), None) => Err(StoreError::Unavailable("the step was not run".into())),
            (Err(error), _) => Err(error),
        };
        // A caller that went away has its answer in the database.
        let _ = self.reply.send(answer);
    }
}

/// Where a queued step's answer comes.
pub(crate) type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

/// A step in the queue, with its share of the bytes that may wait.
struct Queued {
    step: Box<dyn Step>,
    bytes: usize,
    _share: Option<OwnedSemaphorePermit>,
}

enum Order {
    Step(Queued),
    Close(oneshot::Sender<()>),
}

/// The callers' end of the writer.
pub(crate) struct Writer {
    /// `None` once it was stopped.
    queue: Option<mpsc::Sender<Order>>,
    share: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread on an opened and migrated connection. `held` lives as long as it does.
    pub(crate) fn start(
        conn: Connection,
        checkpoints: Checkpoints,
        sink: Arc<dyn CommitSink>,
        counters: Arc<Counters>,
        held: Box<dyn Any + Send>,
    ) -> std::io::Result<Self> {
        let (queue, orders) = mpsc::channel(QUEUE_STEPS);
        let thread = Thread {
            conn,
            orders,
            sink,
            counters,
            mirror: Mirror::default(),
            checkpoints,
            failed: 0,
            held,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || thread.run())?;
        Ok(Self {
            queue: Some(queue),
            share: Arc::new(Semaphore::new(QUEUE_KIB as usize)),
            thread: Some(thread),
        })
    }

    /// Runs a step on the writer and waits until it is committed. `bytes` is about what it stores.
    pub(crate) async fn run<T, F>(&self, bytes: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let answer = self.enqueue(bytes, work).await?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Queues a step: it runs after everything that was queued before it. What it answers with,
    /// once it is committed, comes through the receiver.
    pub(crate) async fn enqueue<T, F>(&self, bytes: usize, work: F) -> Result<Answer<T>, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let share = self.share(bytes).await?;
        let (reply, answer) = oneshot::channel();
        let step = Box::new(Call {
            work: Some(work),
            value: None,
            reply,
        });
        let queued = Queued {
            step,
            bytes,
            _share: share,
        };
        self.order(Order::Step(queued)).await?;
        Ok(answer)
    }

    /// Waits until so many bytes may be queued. A few are not worth counting.
    async fn share(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, StoreError> {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        if kib == 0 {
            return Ok(None);
        }
        let share = Arc::clone(&self.share).acquire_many_owned(kib.min(QUEUE_KIB));
        share.await.map(Some).map_err(|_| StoreError::Closed)
    }

    async fn order(&self, order: Order) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or(StoreError::Closed)?;
        queue.send(order).await.map_err(|_| StoreError::Closed)
    }

    /// Commits what waits, then ends the thread. Closing twice is closing once.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.order(Order::Close(done)).await.is_ok() {
            // An error means that somebody closed it before us.
            let _ = closed.await;
        }
    }

    /// Ends the thread and waits for it; what was queued is committed first.
    pub(crate) fn stop(&mut self) {
        // Without a sender the thread finds the end of its queue.
        self.queue = None;
        let Some(thread) = self.thread.take() else {
            return;
        };
        if thread.thread().id() == std::thread::current().id() {
            return; // The sink dropped the store: the thread ends after this very batch.
        }
        if thread.join().is_err() {
            tracing::error!("the store's writer ended by a panic");
        }
    }
}

/// The thread's own state.
struct Thread {
    conn: Connection,
    orders: mpsc::Receiver<Order>,
    sink: Arc<dyn CommitSink>,
    counters: Arc<Counters>,
    mirror: Mirror,
    checkpoints: Checkpoints,
    /// Transactions that failed since the last one that did not.
    failed: u64,
    held: Box<dyn Any + Send>,
}

impl Thread {
    fn run(mut self) {
        let mut closer = None;
        while closer.is_none() {
            let Some(order) = self.orders.blocking_recv() else {
                break;
            };
            let (batch, close) = self.gather(order);
            if !batch.is_empty() {
                self.work(batch);
                self.checkpoints
                    .after_transaction(&self.conn, self.failed > 0);
            }
            closer = close;
        }
        self.checkpoints.finish(&self.conn);
        if let Err((_, error)) = self.conn.close() {
            tracing::error!(%error, "cannot close the database");
        }
        // Who waits still is answered by the loss of its sender. And the lock is let go before the
        // closer hears of it: it may open the database again at once.
        drop(self.orders);
        drop(self.held);
        if let Some(closer) = closer {
            let _ = closer.send(());
        }
    }

    /// Takes what waits behind the first order, up to a bounded batch.
    fn gather(&mut self, first: Order) -> (Vec<Queued>, Option<oneshot::Sender<()>>) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Step(queued) => {
                    bytes += queued.bytes;
                    batch.push(queued);
                }
                Order::Close(closer) => return (batch, Some(closer)),
            }
            next = (batch.len() < BATCH_STEPS && bytes < BATCH_BYTES)
                .then(|| self.orders.try_recv().ok())
                .flatten();
        }
        (batch, None)
    }

    /// Runs a batch in one transaction and answers everybody in it.
    fn work(&mut self, mut batch: Vec<Queued>) {
        let mut events = Vec::new();
        let outcome = self.transact(&mut batch, &mut events);
        let committed = match outcome {
            Ok(()) => {
                self.recovered();
                self.tell(&events);
                Ok(())
            }
            Err(error) => {
                self.undo(&error);
                Err(error)
            }
        };
        for queued in batch {
            queued.step.finish(committed.clone());
        }
    }

    fn transact(
        &mut self,
        batch: &mut [Queued],
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        self.mirror.trim();
        let before = self.conn.total_changes();
        let ran = catch_unwind(AssertUnwindSafe(|| -> Result<(), rusqlite::Error> {
            self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut tx = Tx {
                conn: &self.conn,
                mirror: &mut self.mirror,
                events,
            };
            for queued in batch.iter_mut() {
                queued.step.run(&mut tx)?;
            }
            self.mirror.write_back(&self.conn)?;
            self.conn.prepare_cached("COMMIT")?.execute([])?;
            Ok(())
        }));
        match ran {
            Ok(Ok(())) => {
                let changes = self.conn.total_changes() - before;
                if changes > 0 {
                    self.counters.commits.fetch_add(1, Ordering::Relaxed);
                    self.counters.rows.fetch_add(changes, Ordering::Relaxed);
                }
                Ok(())
            }
            Ok(Err(error)) => Err(store_error(&error)),
            Err(panic) => Err(StoreError::Unavailable(format!(
                "a step panicked: {}",
                panic_text(panic.as_ref())
            ))),
        }
    }

    /// Hands the events on. A sink that panics loses its events, not the writer.
    fn tell(&self, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        let told = catch_unwind(AssertUnwindSafe(|| self.sink.committed(events)));
        if let Err(panic) = told {
            let panic = panic_text(panic.as_ref());
            tracing::error!(panic, events = events.len(), "the commit sink panicked");
        }
    }

    /// Undoes a transaction that failed. A disk that stays full is told of once, not each time.
    fn undo(&mut self, why: &StoreError) {
        self.mirror = Mirror::default();
        if self.failed == 0 {
            tracing::error!(error = %why, "a transaction failed, nothing of it is stored");
        }
        self.failed += 1;
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            // The next transaction cannot begin then, and this is tried again.
            tracing::error!(%error, "cannot roll back");
        }
    }

    fn recovered(&mut self) {
        if self.failed > 0 {
            tracing::info!(failed = self.failed, "transactions work again");
            self.failed = 0;
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

#[cfg(test)]
mod tests;
