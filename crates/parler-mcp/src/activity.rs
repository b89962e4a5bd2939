//! What the host is doing with this server right now, as far as its calls tell.
//!
//! Counts calls and parked waits. Others decide by it: the doorbell stays silent while a call may
//! still bring the message, and the presence is made of it. Nothing here talks to anybody.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

/// The counts.
pub(crate) struct Activity {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    calls: usize,
    waits: usize,
    last: Option<Instant>,
}

/// A call in flight; ends when it is dropped.
pub(crate) struct Call(Arc<Activity>);

/// A call that waits; ends when it is dropped.
pub(crate) struct Wait(Arc<Activity>);

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Activity {
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        })
    }

    /// A call begins.
    pub(crate) fn call(self: &Arc<Self>) -> Call {
        self.change(|state| {
            state.calls += 1;
            state.last = Some(Instant::now());
        });
        Call(Arc::clone(self))
    }

    /// A call begins to wait for something.
    pub(crate) fn wait(self: &Arc<Self>) -> Wait {
        self.change(|state| state.waits += 1);
        Wait(Arc::clone(self))
    }

    /// Whether a call is in flight that is not just waiting.
    pub(crate) fn at_work(&self) -> bool {
        let state = self.lock();
        state.calls > state.waits
    }

    /// Whether any call waits.
    pub(crate) fn waiting(&self) -> bool {
        self.lock().waits > 0
    }

    /// When the last call began or ended.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.lock().last
    }

    /// Fires at every change.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.send_modify(|()| {});
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.calls -= 1;
            state.last = Some(Instant::now());
        });
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.0.change(|state| state.waits -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_call_is_not_at_work() {
        let activity = Activity::new();
        let call = activity.call();
        assert!(activity.at_work() && !activity.waiting());
        let wait = activity.wait();
        assert!(!activity.at_work() && activity.waiting());
        let other = activity.call();
        assert!(activity.at_work());
        drop((wait, other));
        assert!(activity.at_work() && !activity.waiting());
        drop(call);
        assert!(!activity.at_work());
    }

    #[test]
    fn every_change_is_told() {
        let activity = Activity::new();
        let mut changes = activity.changes();
        drop(activity.call());
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(!changes.has_changed().unwrap());
    }
}
