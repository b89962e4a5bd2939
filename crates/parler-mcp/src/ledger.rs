//! The once-ledger, asked from async code: what was rung for, and what is an old message offered
//! again.
//!
//! The ledger is a file that other processes of the same identity use too, so every question waits
//! for a lock, on a thread of its own. Nothing is decided here.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use parler_connector::render::Me;
use parler_connector::wake::once::{Freshness, Once, OnceError, Standing, Submit, Thing};
use parler_protocol::{HandoffRef, SigPart, StoredMessage, TypedPart};

/// The take under which the end of a turn is noted: no turn has it.
pub(crate) const AT_THE_END: i64 = -1;
/// A take that nothing is noted under.
const NO_TAKE: i64 = -2;

/// A handle on the ledger of one identity.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<Once>);

impl Ledger {
    pub(crate) fn open(base: &Path, identity: &str) -> Self {
        Ledger(Arc::new(Once::open(base, identity)))
    }

    /// Whether to ring for that take of a message in that session of the host, which then is noted.
    /// `None`: it is an old message offered again, or nobody signed it.
    ///
    /// # Errors
    /// The ledger cannot be used: do not ring.
    pub(crate) async fn submit(
        &self,
        message: &Arc<StoredMessage>,
        take: i64,
        session: String,
    ) -> Result<Option<Submit>, OnceError> {
        let message = Arc::clone(message);
        self.ask(move |once| match SigPart::find(&message.parts) {
            Some(sig) if once.admit(&message, &sig)? == Freshness::Fresh => {
                once.submit(thing(&message.id, take), &session).map(Some)
            }
            _ => Ok(None),
        })
        .await
        .unwrap_or(Ok(None))
    }

    /// What [`Ledger::submit`] would say; notes no ring.
    ///
    /// # Errors
    /// The ledger cannot be used: do not ring.
    pub(crate) async fn would_ring(
        &self,
        message: &Arc<StoredMessage>,
        take: i64,
        session: String,
    ) -> Result<Option<Submit>, OnceError> {
        let message = Arc::clone(message);
        self.ask(move |once| match SigPart::find(&message.parts) {
            Some(sig) if once.admit(&message, &sig)? == Freshness::Fresh => {
                once.ask(thing(&message.id, take), &session).map(Some)
            }
            _ => Ok(None),
        })
        .await
        .unwrap_or(Ok(None))
    }

    /// The host acted on that message.
    ///
    /// # Errors
    /// The ledger cannot be used.
    pub(crate) async fn confirm(&self, message: &str, take: i64) -> Result<(), OnceError> {
        let message = message.to_owned();
        self.ask(move |once| once.confirm(thing(&message, take)))
            .await
            .unwrap_or(Ok(()))
    }

    /// Whether to tell that session how a turn of its own ended, which then is noted.
    ///
    /// # Errors
    /// The ledger cannot be used: do not ring.
    pub(crate) async fn submit_end(
        &self,
        message: &str,
        session: String,
    ) -> Result<Submit, OnceError> {
        let message = message.to_owned();
        self.ask(move |once| once.submit(thing(&message, AT_THE_END), &session))
            .await
            .unwrap_or(Ok(Submit::Pending))
    }

    /// Whether the agent was not told yet how a turn of its own ended; it is now. When the ledger
    /// cannot be used it counts as news.
    pub(crate) async fn tell_end(&self, message: &str) -> bool {
        let message = message.to_owned();
        self.ask(move |once| {
            let end = thing(&message, AT_THE_END);
            let known = once.standing(end).is_ok_and(|s| s == Standing::Confirmed);
            if !known && let Err(error) = once.confirm(end) {
                tracing::warn!(%error, "the end of a turn may be told twice");
            }
            !known
        })
        .await
        .unwrap_or(false)
    }

    /// Whether that session gave the turn up, or did not wake for it.
    pub(crate) async fn gave_up(&self, message: &str, session: String) -> bool {
        let message = message.to_owned();
        self.ask(move |once| once.ask(thing(&message, NO_TAKE), &session))
            .await
            .is_none_or(|asked| matches!(asked, Ok(Submit::GivenUp) | Err(_)))
    }

    /// The session did not wake for a turn, or gave it up: it does not take it again.
    ///
    /// # Errors
    /// The ledger cannot be used.
    pub(crate) async fn give_up(&self, message: &str, session: String) -> Result<(), OnceError> {
        let message = message.to_owned();
        self.ask(move |once| once.give_up(&message, &session))
            .await
            .unwrap_or(Ok(()))
    }

    /// Those of the messages that hand this agent a turn and are old ones offered again, by their
    /// place. When the ledger cannot be used they count as new: they are only shown.
    pub(crate) async fn replays(&self, messages: &[StoredMessage], me: &Me<'_>) -> HashSet<i64> {
        let offers = |message: &&StoredMessage| {
            message.from.id != me.id
                && HandoffRef::find(&message.parts).is_some_and(|handoff| me.is_meant(&handoff))
        };
        let offered: Vec<_> = messages.iter().filter(offers).cloned().collect();
        if offered.is_empty() {
            return HashSet::new();
        }
        self.ask(move |once| {
            let old = |message: &StoredMessage| {
                let sig = SigPart::find(&message.parts)?;
                match once.admit(message, &sig) {
                    Ok(Freshness::Replay) => Some(message.seq),
                    Ok(Freshness::Fresh) => None,
                    Err(error) => {
                        tracing::warn!(%error, "an old message would not be known as one");
                        None
                    }
                }
            };
            offered.iter().filter_map(old).collect()
        })
        .await
        .unwrap_or_default()
    }

    /// `None` when the process is ending.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Once) -> T + Send + 'static,
    ) -> Option<T> {
        let once = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || question(&once))
            .await
            .ok()
    }
}

fn thing(message: &str, take: i64) -> Thing<'_> {
    Thing { message, take }
}
