//! Which answers reached the host.
//!
//! A message counts as read when the answer that shows it was written to the host, not when it
//! was made: the host may have given the call up in between. The transport sees requests,
//! cancellations and answers in one order, so the fate of an answer is decided here exactly once.
//! This module decides nothing about messages and does no I/O.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Says that the answer was written. Dropped unsent: it never will be.
pub(crate) type Written = oneshot::Receiver<()>;

/// The calls whose answers are not out yet, by request id.
///
/// Holds one small entry for a call in flight; there are never more than the host has open.
pub(crate) struct Deliveries<Id> {
    open: Mutex<HashMap<Id, Open>>,
}

struct Open {
    written: oneshot::Sender<()>,
    watch: Option<Written>,
}

impl<Id: std::hash::Hash + Eq> Deliveries<Id> {
    pub(crate) fn new() -> Self {
        Deliveries {
            open: Mutex::new(HashMap::new()),
        }
    }

    /// A call came in. An open one with the same id will not be told of any answer.
    pub(crate) fn begin(&self, id: Id) {
        let (written, watch) = oneshot::channel();
        let watch = Some(watch);
        self.lock().insert(id, Open { written, watch });
    }

    /// The means to learn that the answer was written; `None` when the call was given up already.
    pub(crate) fn watch(&self, id: &Id) -> Option<Written> {
        self.lock().get_mut(id)?.watch.take()
    }

    /// The host gave the call up: its answer will not be written.
    pub(crate) fn cancelled(&self, id: &Id) {
        self.lock().remove(id);
    }

    /// The answer is on its way; whoever writes it fires this afterwards.
    pub(crate) fn answering(&self, id: &Id) -> Option<oneshot::Sender<()>> {
        self.lock().remove(id).map(|open| open.written)
    }

    /// Nothing will be written any more.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_delivered_when_it_was_written_and_not_before() {
        let calls = Deliveries::new();
        calls.begin(1);
        let mut watch = calls.watch(&1).unwrap();
        let written = calls.answering(&1).unwrap();
        assert!(
            watch
                .try_recv()
                .is_err_and(|e| e == oneshot::error::TryRecvError::Empty)
        );
        written.send(()).unwrap();
        assert_eq!(watch.try_recv(), Ok(()));
    }

    #[test]
    fn a_cancelled_call_is_never_delivered_and_a_late_cancellation_changes_nothing() {
        let calls = Deliveries::new();
        calls.begin(1);
        let mut watch = calls.watch(&1).unwrap();
        calls.cancelled(&1);
        assert!(
            watch
                .try_recv()
                .is_err_and(|e| e == oneshot::error::TryRecvError::Closed)
        );
        assert!(calls.answering(&1).is_none());

        calls.begin(2);
        let mut watch = calls.watch(&2).unwrap();
        let written = calls.answering(&2).unwrap();
        calls.cancelled(&2);
        written.send(()).unwrap();
        assert_eq!(watch.try_recv(), Ok(()));
    }

    #[test]
    fn a_repeated_id_and_the_end_leave_nobody_waiting() {
        let calls = Deliveries::new();
        calls.begin(1);
        let mut first = calls.watch(&1).unwrap();
        calls.begin(1);
        let mut second = calls.watch(&1).unwrap();
        assert!(calls.watch(&1).is_none());
        calls.close();
        for watch in [&mut first, &mut second] {
            assert!(
                watch
                    .try_recv()
                    .is_err_and(|e| e == oneshot::error::TryRecvError::Closed)
            );
        }
    }
}
