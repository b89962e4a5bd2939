//! Whether this process may act for its agent in the active session.
//!
//! Two host sessions that share an identity would both be woken for the same message and both move
//! its cursor. One of them holds the room; the other shows what there is, says who holds it, and
//! moves nothing.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use parler_connector::context::Context;
use parler_connector::wake::consumer::{Claim, Holder, claim};

/// The claim on the active session's room.
pub(crate) struct Consumer {
    context: Context,
    base: PathBuf,
    identity: String,
    host: Mutex<(String, Option<String>)>,
    held: Mutex<Option<(String, Claim)>>,
}

impl Consumer {
    pub(crate) fn new(
        context: Context,
        base: PathBuf,
        identity: String,
        session: Option<String>,
    ) -> Self {
        Consumer {
            context,
            base,
            identity,
            host: Mutex::new(("mcp".to_owned(), session)),
            held: Mutex::new(None),
        }
    }

    /// The host told who it is.
    pub(crate) fn host(&self, name: &str, session: Option<&str>) {
        let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        host.0 = name.to_owned();
        if session.is_some() {
            host.1 = session.map(str::to_owned);
        }
    }

    /// The session of the host as the once-ledger knows it: its own id, else this process.
    pub(crate) fn session(&self) -> String {
        let host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        match &host.1 {
            Some(id) => id.clone(),
            None => format!("{}-process-{}", host.0, self.context.pid()),
        }
    }

    /// Claims a room in place of the one before.
    pub(crate) fn claim(&self, room: &str) {
        let mut held = self.lock();
        // Let go of the one before first: it may be the same room.
        *held = None;
        *held = self.try_claim(room).map(|claim| (room.to_owned(), claim));
    }

    /// Lets go.
    pub(crate) fn let_go(&self) {
        *self.lock() = None;
    }

    /// Who else acts for this agent in that room; tries again to take it over. `None`: nobody, or
    /// nobody can tell.
    pub(crate) fn other(&self, room: &str) -> Option<String> {
        let mut held = self.lock();
        let (claimed, claim) = held.as_mut()?;
        if claimed != room || claim.may_act() {
            return None;
        }
        if let Some(again) = self.try_claim(room) {
            *claim = again;
        }
        match claim {
            Claim::Held(Some(holder)) => Some(holder.to_string()),
            Claim::Held(None) => Some("another session".to_owned()),
            _ => None,
        }
    }

    /// Whether this process may act in that room, be it the active one or not.
    pub(crate) fn acts_in(&self, room: &str) -> bool {
        let active = self.lock().as_ref().is_some_and(|(own, _)| own == room);
        if active {
            return self.other(room).is_none();
        }
        self.try_claim(room).is_none_or(|claim| claim.may_act())
    }

    fn try_claim(&self, room: &str) -> Option<Claim> {
        let (host, session) = self
            .host
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let me = Holder::this(&self.context, &host, session.as_deref());
        match claim(&self.context, &self.base, &self.identity, room, &me) {
            Ok(claim) => Some(claim),
            Err(error) => {
                tracing::warn!(%error, "cannot tell whether another session reads this room");
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(String, Claim)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer(base: &std::path::Path, session: &str) -> Consumer {
        let context = Context::new(Vec::<(String, String)>::new(), base);
        Consumer::new(context, base.into(), "UME".into(), Some(session.into()))
    }

    #[test]
    fn the_second_session_of_an_agent_only_looks_until_the_first_lets_go() {
        let base = tempfile::tempdir().unwrap();
        let (first, second) = (consumer(base.path(), "s1"), consumer(base.path(), "s2"));
        first.claim("auth");
        second.claim("auth");
        assert_eq!(first.other("auth"), None);
        assert!(second.other("auth").unwrap().contains("s1"));
        assert_eq!(second.other("elsewhere"), None);
        assert!(first.acts_in("auth") && !second.acts_in("auth"));
        second.claim("elsewhere");
        assert!(!second.acts_in("auth") && !first.acts_in("elsewhere"));
        assert!(first.acts_in("a room of nobody") && second.acts_in("a room of nobody"));
        second.claim("auth");
        first.claim("auth");
        assert_eq!(first.other("auth"), None, "its own claim is no stranger's");
        first.let_go();
        assert_eq!(second.other("auth"), None);
    }

    #[test]
    fn the_hosts_own_id_of_a_session_counts_once_it_is_told() {
        let base = tempfile::tempdir().unwrap();
        let context = Context::new(Vec::<(String, String)>::new(), base.path());
        let consumer = Consumer::new(context, base.path().into(), "UME".into(), None);
        assert!(consumer.session().starts_with("mcp-process-"));
        consumer.host("codex", Some("thread-1"));
        assert_eq!(consumer.session(), "thread-1");
        consumer.host("codex", None);
        assert_eq!(consumer.session(), "thread-1");
    }
}
