//! What the MCP server of an identity was started with.
//!
//! A host gives the MCP server an environment of its own (`PARLER_HUB`, `PARLER_NAME`, a join
//! secret); hooks and shell commands of the same session do not get it, and a hook's command line
//! is no place for it, since the host shows that line to the model. So the server leaves it in its
//! home, private, for as long as it runs.

use std::path::{Path, PathBuf};

use parler_connector::config::Config;
use parler_connector::context::Context;
use parler_identity::keyfile;
use serde::{Deserialize, Serialize};

/// The note.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// The hub, when the environment named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<String>,
    /// The display name, when the environment gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The role, when the environment gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The hub's join secret, when the environment gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_secret: Option<String>,
    /// Name and role in the configuration when the server started: a model that took another name
    /// since has changed them there, and then the environment's no longer hold.
    #[serde(default)]
    pub configured: (String, Option<String>),
}

impl Live {
    fn path(home: &Path) -> PathBuf {
        home.join("mcp.json")
    }

    /// Reads the note of a home; a damaged one counts as none.
    pub fn read(home: &Path) -> Option<Live> {
        let bytes = keyfile::read_secret(&Live::path(home)).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Leaves the note.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, home: &Path) -> Result<(), parler_identity::KeyFileError> {
        keyfile::replace(
            &Live::path(home),
            &serde_json::to_vec(self).unwrap_or_default(),
        )
    }

    /// What the environment gave to the server that started with this configuration.
    pub fn of(cx: &Context, config: &Config) -> Live {
        let var = |name: &str| cx.var(name).map(str::to_owned);
        Live {
            hub: var("PARLER_HUB"),
            name: var("PARLER_NAME"),
            role: var("PARLER_ROLE"),
            join_secret: var("PARLER_JOIN_SECRET"),
            configured: (config.name.clone(), config.role.clone()),
        }
    }

    /// Whether the server's agent still goes by the name and role that it started with.
    pub fn is_unchanged(&self, config: &Config) -> bool {
        self.configured.0 == config.name && self.configured.1 == config.role
    }

    /// Takes the note away.
    pub fn remove(home: &Path) {
        // Gone already is as good.
        let _ = std::fs::remove_file(Live::path(home));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_private_and_goes_with_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let note = Live {
            hub: Some("ws://h".into()),
            join_secret: Some("s".into()),
            ..Live::default()
        };
        assert_eq!(Live::read(dir.path()), None);
        note.write(dir.path()).unwrap();
        assert_eq!(Live::read(dir.path()), Some(note));
        Live::remove(dir.path());
        assert_eq!(Live::read(dir.path()), None);
    }
}
