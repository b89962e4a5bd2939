//! Who may do what in which room.
//!
//! Memberships are remembered here so that a send need not ask the store twice. Only positive
//! answers are: a "no" may be out of date a moment later, and is asked anew.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use parler_protocol::{AgentId, RoomKind, RoomName};
use parler_store::Store;

use crate::defaults;
use crate::error::OpError;

/// Memberships known to be true.
#[derive(Debug, Default)]
pub struct Members {
    known: Mutex<HashMap<(RoomName, AgentId), RoomKind>>,
}

impl Members {
    /// The room's kind, for a member.
    ///
    /// # Errors
    /// `not_member`, for unknown rooms too.
    pub async fn require(
        &self,
        store: &dyn Store,
        room: &RoomName,
        agent: &AgentId,
    ) -> Result<RoomKind, OpError> {
        let key = (room.clone(), agent.clone());
        if let Some(kind) = self.lock().get(&key) {
            return Ok(*kind);
        }
        match store.membership(room, agent).await? {
            Some(kind) => {
                let mut known = self.lock();
                if known.len() >= defaults::MAX_CACHED_MEMBERSHIPS {
                    // Cheap and rare: the store answers what was forgotten.
                    known.clear();
                }
                known.insert(key, kind);
                Ok(kind)
            }
            None => Err(OpError::not_member(room.as_str())),
        }
    }

    /// Forgets a membership that ended.
    pub fn forget(&self, room: &RoomName, agent: &AgentId) {
        self.lock().remove(&(room.clone(), agent.clone()));
    }

    /// Forgets a room that is gone.
    pub fn forget_room(&self, room: &RoomName) {
        self.lock().retain(|(known, _), _| known != room);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(RoomName, AgentId), RoomKind>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
