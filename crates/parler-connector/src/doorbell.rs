//! Ringing for a host's attention: a bell, and the ladder of bells of one session.
//!
//! A bell is a way to open a turn in a session of a host. It knows no message and moves no cursor:
//! when it is lost, the log still has everything and only time was lost. The bells of a session
//! are tried in order ([`Ladder::wake`]); what shows that one worked is the session itself, by a
//! call of one of our tools or a hook ([`Ladder::confirm`]).
//!
//! No host is known here: the bells are made where hosts are.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long a rung has to show that it worked before the next one is tried.
pub const CONFIRM_WITHIN: Duration = Duration::from_secs(30);
/// How long a bell may take to be rung: a line into a socket, a short command.
pub const RING_WITHIN: Duration = Duration::from_secs(15);

/// A boxed future, so that bells can be kept together whatever they are.
pub type Ringing<'a> = Pin<Box<dyn Future<Output = Result<Rung, DoorbellError>> + Send + 'a>>;

/// What a bell says after it was rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// The host took the text; whether it acts will show.
    Submitted,
    /// The host said that a turn began.
    Confirmed,
}

/// Why a bell did not ring.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorbellError {
    /// It is not there (any more): the socket is gone, the program is not installed.
    #[error("{bell} is not available: {why}")]
    Unavailable {
        /// Which bell.
        bell: String,
        /// Why.
        why: String,
    },
    /// It is there and ringing failed.
    #[error("{bell} could not be rung: {why}")]
    Failed {
        /// Which bell.
        bell: String,
        /// Why.
        why: String,
    },
}

/// A way to open a turn in one session of a host.
pub trait Doorbell: Send + Sync {
    /// Its name, for logs and `doctor`.
    fn name(&self) -> &str;
    /// Whether it could be rung now. Cheap: asked before every ring.
    fn available(&self) -> bool;
    /// Rings with a text for the model, framed already. Must be safe to drop.
    fn ring<'a>(&'a self, text: &'a str) -> Ringing<'a>;
}

/// How a call of [`Ladder::wake`] ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The session acted after this bell.
    Confirmed {
        /// The bell that was rung last.
        by: String,
    },
    /// A bell rings already: the session will see everything that waits when it acts.
    Coalesced,
    /// Every bell that is there was rung, and the session did not act in time.
    Unconfirmed {
        /// The bells that were rung, in order.
        rung: Vec<String>,
    },
    /// No bell is there, or none could be rung.
    NoBell,
}

/// The bells of one session, best first.
pub struct Ladder {
    bells: Vec<Arc<dyn Doorbell>>,
    state: Mutex<State>,
    acted: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// A call of `wake` is under way.
    outstanding: bool,
    /// The session acted since the last ring.
    confirmed: bool,
    /// Wakes that joined the outstanding one.
    coalesced: usize,
}

impl std::fmt::Debug for Ladder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.bells.iter().map(|bell| bell.name()).collect();
        f.debug_struct("Ladder")
            .field("bells", &names)
            .finish_non_exhaustive()
    }
}

/// Ends the outstanding wake also when its call is dropped.
struct Outstanding<'a>(&'a Ladder);

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        *self.0.state() = State::default();
    }
}

impl Ladder {
    /// A ladder of these bells, tried in this order.
    #[must_use]
    pub fn new(bells: Vec<Arc<dyn Doorbell>>) -> Self {
        Self {
            bells,
            state: Mutex::default(),
            acted: Notify::new(),
        }
    }

    /// Whether anything could be rung now: otherwise nothing is to be taken ahead.
    #[must_use]
    pub fn can_wake(&self) -> bool {
        self.bells.iter().any(|bell| bell.available())
    }

    /// Names of the bells that could be rung now.
    #[must_use]
    pub fn available(&self) -> Vec<&str> {
        let there = self.bells.iter().filter(|bell| bell.available());
        there.map(|bell| bell.name()).collect()
    }

    /// Whether a wake is under way.
    #[must_use]
    pub fn is_ringing(&self) -> bool {
        self.state().outstanding
    }

    /// Wakes that joined the one under way.
    #[must_use]
    pub fn coalesced(&self) -> usize {
        self.state().coalesced
    }

    /// Notes that the session acted: a call of one of our tools, a hook, a prompt. Ends the wake
    /// under way; says whether there was one.
    pub fn confirm(&self) -> bool {
        let mut state = self.state();
        if !state.outstanding {
            return false;
        }
        state.confirmed = true;
        drop(state);
        self.acted.notify_waiters();
        true
    }

    /// Rings the bells one after the other until the session acts, each given
    /// [`CONFIRM_WITHIN`]. One wake at a time: a second call joins the first and returns at once.
    /// Dropping the call ends the wake.
    pub async fn wake(&self, text: &str) -> Woken {
        {
            let mut state = self.state();
            if state.outstanding {
                state.coalesced += 1;
                return Woken::Coalesced;
            }
            state.outstanding = true;
        }
        let _outstanding = Outstanding(self);
        let mut rung = Vec::new();
        for bell in self.bells.iter().filter(|bell| bell.available()) {
            let name = bell.name().to_owned();
            match self.ring(bell.as_ref(), text).await {
                Ok(Rung::Confirmed) => return Woken::Confirmed { by: name },
                Ok(Rung::Submitted) => {
                    rung.push(name.clone());
                    if self.acts_until(Instant::now() + CONFIRM_WITHIN).await {
                        return Woken::Confirmed { by: name };
                    }
                }
                Err(error) => tracing::info!(bell = %name, %error, "a doorbell did not ring"),
            }
        }
        if rung.is_empty() {
            Woken::NoBell
        } else {
            Woken::Unconfirmed { rung }
        }
    }

    async fn ring(&self, bell: &dyn Doorbell, text: &str) -> Result<Rung, DoorbellError> {
        match timeout_at(Instant::now() + RING_WITHIN, bell.ring(text)).await {
            Ok(rung) => rung,
            Err(_) => Err(DoorbellError::Failed {
                bell: bell.name().to_owned(),
                why: format!("it took more than {} s", RING_WITHIN.as_secs()),
            }),
        }
    }

    /// Whether the session acts before that time, or did since the wake began.
    async fn acts_until(&self, until: Instant) -> bool {
        loop {
            let acted = self.acted.notified();
            tokio::pin!(acted);
            // Listening before looking: no confirmation falls between the two.
            acted.as_mut().enable();
            if self.state().confirmed {
                return true;
            }
            if timeout_at(until, acted).await.is_err() {
                return self.state().confirmed;
            }
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[derive(Clone, Copy)]
    enum Does {
        Submit,
        Confirm,
        Fail,
        Hang,
    }

    struct Bell {
        name: &'static str,
        does: Does,
        there: AtomicBool,
        rings: AtomicUsize,
    }

    impl Bell {
        fn new(name: &'static str, does: Does) -> Arc<Self> {
            Arc::new(Self {
                name,
                does,
                there: AtomicBool::new(true),
                rings: AtomicUsize::new(0),
            })
        }
        fn rings(&self) -> usize {
            self.rings.load(Ordering::SeqCst)
        }
    }

    impl Doorbell for Bell {
        fn name(&self) -> &str {
            self.name
        }
        fn available(&self) -> bool {
            self.there.load(Ordering::SeqCst)
        }
        fn ring<'a>(&'a self, _text: &'a str) -> Ringing<'a> {
            Box::pin(async move {
                self.rings.fetch_add(1, Ordering::SeqCst);
                match self.does {
                    Does::Submit => Ok(Rung::Submitted),
                    Does::Confirm => Ok(Rung::Confirmed),
                    Does::Fail => Err(DoorbellError::Failed {
                        bell: self.name.into(),
                        why: "no".into(),
                    }),
                    Does::Hang => std::future::pending().await,
                }
            })
        }
    }

    fn ladder(bells: &[&Arc<Bell>]) -> Arc<Ladder> {
        let bells = bells
            .iter()
            .map(|bell| Arc::clone(bell) as Arc<dyn Doorbell>);
        Arc::new(Ladder::new(bells.collect()))
    }

    fn confirmed(by: &str) -> Woken {
        Woken::Confirmed { by: by.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_rung_is_tried_when_the_first_stays_unconfirmed() {
        let (first, second) = (
            Bell::new("inbox", Does::Submit),
            Bell::new("queue", Does::Submit),
        );
        let ladder = ladder(&[&first, &second]);
        let begun = Instant::now();
        let woken = ladder.wake("x").await;
        let rung = vec!["inbox".to_owned(), "queue".to_owned()];
        assert_eq!(woken, Woken::Unconfirmed { rung });
        assert_eq!(begun.elapsed(), CONFIRM_WITHIN * 2);
        assert_eq!((first.rings(), second.rings()), (1, 1));
        assert!(!ladder.is_ringing());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_acts_ends_the_wake() {
        let (first, second) = (
            Bell::new("inbox", Does::Submit),
            Bell::new("queue", Does::Submit),
        );
        let ladder = ladder(&[&first, &second]);
        let waking = tokio::spawn({
            let ladder = Arc::clone(&ladder);
            async move { ladder.wake("x").await }
        });
        tokio::time::sleep(CONFIRM_WITHIN / 2).await;
        assert_eq!(ladder.wake("y").await, Woken::Coalesced);
        assert_eq!(ladder.coalesced(), 1);
        assert!(ladder.confirm());
        assert_eq!(waking.await.unwrap(), confirmed("inbox"));
        assert_eq!((first.rings(), second.rings()), (1, 0));
        assert!(!ladder.confirm(), "nothing is outstanding any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_confirmation_during_the_second_rung_counts() {
        let (first, second) = (
            Bell::new("inbox", Does::Submit),
            Bell::new("queue", Does::Submit),
        );
        let ladder = ladder(&[&first, &second]);
        let waking = tokio::spawn({
            let ladder = Arc::clone(&ladder);
            async move { ladder.wake("x").await }
        });
        tokio::time::sleep(CONFIRM_WITHIN + Duration::from_secs(1)).await;
        assert!(ladder.confirm());
        assert_eq!(waking.await.unwrap(), confirmed("queue"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bell_that_fails_hangs_or_is_gone_is_passed_over() {
        let fails = Bell::new("fails", Does::Fail);
        let hangs = Bell::new("hangs", Does::Hang);
        let gone = Bell::new("gone", Does::Submit);
        gone.there.store(false, Ordering::SeqCst);
        let works = Bell::new("works", Does::Confirm);
        let ladder = ladder(&[&fails, &hangs, &gone, &works]);
        assert_eq!(ladder.available(), ["fails", "hangs", "works"]);
        let begun = Instant::now();
        assert_eq!(ladder.wake("x").await, confirmed("works"));
        assert_eq!(begun.elapsed(), RING_WITHIN);
        assert_eq!(gone.rings(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_bell_nothing_is_rung() {
        assert_eq!(ladder(&[]).wake("x").await, Woken::NoBell);
        let fails = Bell::new("fails", Does::Fail);
        let ladder = ladder(&[&fails]);
        assert!(ladder.can_wake());
        assert_eq!(ladder.wake("x").await, Woken::NoBell);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_that_is_dropped_leaves_the_ladder_free() {
        let bell = Bell::new("inbox", Does::Submit);
        let ladder = ladder(&[&bell]);
        let given_up = tokio::time::timeout(Duration::from_secs(1), ladder.wake("x")).await;
        assert!(given_up.is_err());
        assert!(!ladder.is_ringing());
        ladder.wake("x").await;
        assert_eq!(bell.rings(), 2);
    }
}
