//! What the MCP server of an identity was started with.
//!
//! A host gives the MCP server an environment of its own (`PARLER_HUB`, `PARLER_NAME`, a join
//! secret); hooks and shell commands of the same session do not get it, and a hook's command line
//! is no place for it, since the host shows that line to the model. So the server leaves it in its
//! home, private, for as long as it runs.

use std::path::{Path, PathBuf};

use parler_connector::config::{Config, HubChoice};
use parler_connector::context::Context;
use parler_connector::local::is_for;
use parler_identity::keyfile;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

/// The note.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
    /// File of certificate authorities, when the environment named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The hub's join secret, when the environment gave one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "secret")]
    join_secret: Option<SecretString>,
    /// The hub that the server was configured for, and thus the only one that may get the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret_for: Option<String>,
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
    pub fn of(cx: &Context, config: &Config, hub: &HubChoice) -> Live {
        let var = |name: &str| cx.var(name).map(str::to_owned);
        Live {
            hub: var("PARLER_HUB"),
            name: var("PARLER_NAME"),
            role: var("PARLER_ROLE"),
            // Shell commands of the same session may stand elsewhere.
            ca: cx
                .path_var("PARLER_CA")
                .map(|path| path.display().to_string()),
            join_secret: var("PARLER_JOIN_SECRET").map(SecretString::from),
            secret_for: match hub {
                HubChoice::Named {
                    url,
                    carried: false,
                    ..
                } => Some(url.clone()),
                HubChoice::Named { .. } | HubChoice::Local => None,
            },
            configured: (config.name.clone(), config.role.clone()),
        }
    }

    /// The join secret for the hub at that address: there is one only for the hub that it was given
    /// for, whatever a flag or the environment of another command names.
    pub fn secret_at(&self, url: &str) -> Option<SecretString> {
        let meant = self.secret_for.as_deref();
        self.join_secret
            .clone()
            .filter(|_| meant.is_some_and(|meant| is_for(meant, url)))
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

/// A secret in the note, which is private; nowhere else it is written out.
mod secret {
    use secrecy::{ExposeSecret, SecretString};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(
        secret: &Option<SecretString>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => to.serialize_some(secret.expose_secret()),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<SecretString>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.map(SecretString::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn note(secret_for: Option<&str>) -> Live {
        Live {
            hub: Some("ws://h".into()),
            join_secret: Some("s3cret".into()),
            secret_for: secret_for.map(str::to_owned),
            ..Live::default()
        }
    }

    #[test]
    fn a_note_is_private_and_goes_with_the_server() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Live::read(dir.path()).is_none());
        note(Some("ws://h")).write(dir.path()).unwrap();
        let read = Live::read(dir.path()).unwrap();
        assert_eq!(read.hub.as_deref(), Some("ws://h"));
        assert_eq!(read.secret_at("ws://h").unwrap().expose_secret(), "s3cret");
        Live::remove(dir.path());
        assert!(Live::read(dir.path()).is_none());
    }

    #[test]
    fn the_secret_is_for_the_hub_that_it_was_given_for_and_is_not_printed() {
        let team = note(Some("wss://hub.example"));
        assert!(team.secret_at("https://HUB.example/").is_some());
        for evil in [
            "wss://evil.example",
            "wss://hub.example.evil",
            "ws://hub.example",
            "",
        ] {
            assert!(team.secret_at(evil).is_none(), "{evil}");
            assert!(note(None).secret_at(evil).is_none(), "{evil}");
        }
        assert!(!format!("{team:?}").contains("s3cret"));
    }
}
