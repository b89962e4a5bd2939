//! Who is connected, and who would notice a message: what `online` and `listening` mean for a turn.
//!
//! Online is who has an authenticated connection. Listening is who has a pull parked, or subscribed
//! with a connection that can start a turn of its host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use parler_protocol::AgentId;

/// Everybody who is there.
#[derive(Debug, Default)]
pub struct Live {
    agents: Mutex<HashMap<AgentId, Counts>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    connections: u32,
    parked: u32,
}

impl Counts {
    fn of(&mut self, what: What) -> &mut u32 {
        match what {
            What::Connection => &mut self.connections,
            What::ParkedPull => &mut self.parked,
        }
    }
}

/// What somebody is there with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An authenticated connection.
    Connection,
    /// A pull that waits.
    ParkedPull,
}

/// Somebody is there, until this is dropped.
#[derive(Debug)]
pub struct Present {
    live: Arc<Live>,
    agent: AgentId,
    what: What,
}

impl Live {
    /// Notes that an agent is there.
    #[must_use]
    pub fn enter(self: &Arc<Self>, agent: &AgentId, what: What) -> Present {
        let mut agents = self.lock();
        *agents.entry(agent.clone()).or_default().of(what) += 1;
        drop(agents);
        Present {
            live: Arc::clone(self),
            agent: agent.clone(),
            what,
        }
    }

    /// Whether an agent has a connection, and whether it has a pull parked.
    #[must_use]
    pub fn look(&self, agent: &str) -> (bool, bool) {
        let agents = self.lock();
        let counts = agents.get(agent).copied().unwrap_or_default();
        (counts.connections > 0, counts.parked > 0)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<AgentId, Counts>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut agents = self.live.lock();
        if let Some(counts) = agents.get_mut(&self.agent) {
            let count = counts.of(self.what);
            *count = count.saturating_sub(1);
            if *counts == Counts::default() {
                agents.remove(&self.agent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_is_there_until_the_last_connection_ends() {
        let live = Arc::new(Live::default());
        let agent = AgentId::trusted("UA");
        let first = live.enter(&agent, What::Connection);
        let second = live.enter(&agent, What::Connection);
        let parked = live.enter(&agent, What::ParkedPull);
        assert_eq!(live.look("UA"), (true, true));
        drop((first, parked));
        assert_eq!(live.look("UA"), (true, false));
        drop(second);
        assert_eq!(live.look("UA"), (false, false));
        assert!(live.lock().is_empty());
    }
}
