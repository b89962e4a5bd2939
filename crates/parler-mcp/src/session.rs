//! The session that tools mean when they name no room.
//!
//! Held in memory and mirrored into the agent's home, where the command line and the hooks of the
//! same agent find it. A new process starts without one: what an earlier process left in the file
//! is only offered in words.

use std::path::PathBuf;

use tokio::sync::watch;

use crate::error::ToolError;

/// The active session.
pub(crate) struct Session {
    home: PathBuf,
    active: watch::Sender<Option<String>>,
}

impl Session {
    pub(crate) fn new(home: PathBuf) -> Self {
        Session {
            home,
            active: watch::Sender::new(None),
        }
    }

    /// The active room.
    pub(crate) fn active(&self) -> Option<String> {
        self.active.borrow().clone()
    }

    /// Fires at every change.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<String>> {
        self.active.subscribe()
    }

    /// Makes a room the active one, or none.
    pub(crate) fn set(&self, room: Option<&str>) {
        self.active.send_replace(room.map(str::to_owned));
        if let Err(error) = parler_connector::session::set_active_session(&self.home, room) {
            tracing::warn!(%error, "the active session is not kept for the next process");
        }
    }

    /// The room that was named, else the active one.
    ///
    /// # Errors
    /// Neither is there.
    pub(crate) fn room(&self, named: Option<&str>) -> Result<String, ToolError> {
        if let Some(named) = named.map(|room| room.trim().trim_start_matches('#')) {
            return Ok(named.to_owned());
        }
        if let Some(active) = self.active() {
            return Ok(active);
        }
        let text = "No session is active. Open one with parler_open_session, join one with \
                    parler_join_session {\"key\": \"CODE@HUB\"}, or name a room";
        Err(ToolError::Refused(
            match parler_connector::session::active_session(&self.home) {
                Some(last) => format!("{text}. The last session here was {{\"room\": \"{last}\"}}"),
                None => text.to_owned(),
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_active_session_is_the_default_and_a_named_room_wins() {
        let home = tempfile::tempdir().unwrap();
        let session = Session::new(home.path().to_owned());
        let error = session.room(None).unwrap_err().to_string();
        assert!(error.contains("parler_join_session"), "{error}");
        session.set(Some("auth"));
        assert_eq!(session.room(None).unwrap(), "auth");
        assert_eq!(session.room(Some(" #other ")).unwrap(), "other");

        let next = Session::new(home.path().to_owned());
        assert_eq!(next.active(), None);
        assert!(
            next.room(None)
                .unwrap_err()
                .to_string()
                .contains("\"auth\"")
        );
        session.set(None);
        assert!(!next.room(None).unwrap_err().to_string().contains("auth"));
    }
}
