//! When each agent was last heard of, kept in memory and written in batches.
//!
//! Any authenticated op refreshes the presence. Writing each would be a write for every read; so
//! the times are noted here, laid over what the store says, and written every
//! [`crate::defaults::PRESENCE_FLUSH`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use parler_protocol::AgentId;
use parler_protocol::limits::PRESENCE_FRESH_MS;
use parler_store::{PresenceRow, Store};

use crate::defaults;

/// Times not yet written.
#[derive(Debug, Default)]
pub struct Heard {
    times: Mutex<HashMap<AgentId, i64>>,
}

impl Heard {
    /// An agent did something.
    pub fn note(&self, agent: &AgentId, now: i64) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let room = times.len() < defaults::MAX_HEARD;
        match times.get_mut(agent) {
            Some(at) => *at = now.max(*at),
            None if room => {
                times.insert(agent.clone(), now);
            }
            None => {}
        }
    }

    /// The presence as it is now: the stored row, as fresh as we know.
    #[must_use]
    pub fn lay_over(&self, agent: &AgentId, row: Option<PresenceRow>) -> Option<PresenceRow> {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        match (row, times.get(agent)) {
            (Some(row), Some(&at)) => Some(PresenceRow {
                at: at.max(row.at),
                ..row
            }),
            (row, _) => row,
        }
    }

    /// When an agent was heard of, as far as that is not written yet; 0: not since then.
    #[must_use]
    pub fn last(&self, agent: &str) -> i64 {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.get(agent).copied().unwrap_or(0)
    }

    /// Writes what was noted.
    pub async fn flush(&self, store: &dyn Store) {
        let times = std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner));
        if times.is_empty() {
            return;
        }
        if let Err(error) = store.touch(times.into_iter().collect()).await {
            tracing::warn!(%error, "presence times were not written");
        }
    }
}

/// The status that others see: `offline` when the presence is stale or was never set.
#[must_use]
pub fn derived_status(row: Option<&PresenceRow>, now: i64) -> &str {
    match row {
        Some(row) if is_fresh(row, now) => &row.status,
        _ => "offline",
    }
}

/// Whether a presence still counts.
#[must_use]
pub fn is_fresh(row: &PresenceRow, now: i64) -> bool {
    now - row.at <= PRESENCE_FRESH_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_presence_decays_unless_the_agent_does_something() {
        let agent = AgentId::trusted("UA");
        let row = PresenceRow {
            status: "working".into(),
            activity: None,
            attention: None,
            at: 0,
        };
        assert_eq!(derived_status(Some(&row), PRESENCE_FRESH_MS), "working");
        assert_eq!(derived_status(Some(&row), PRESENCE_FRESH_MS + 1), "offline");
        assert_eq!(derived_status(None, 0), "offline");
        let heard = Heard::default();
        heard.note(&agent, 1000);
        heard.note(&agent, 900);
        let laid = heard.lay_over(&agent, Some(row));
        assert_eq!(
            derived_status(laid.as_ref(), PRESENCE_FRESH_MS + 1000),
            "working"
        );
        assert_eq!(heard.lay_over(&agent, None), None);
    }
}
