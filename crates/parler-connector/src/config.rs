//! `config.json` of an identity: its key, its name, its settings. What the environment makes of
//! them for one run is [`effective`].
//!
//! The file is private from the first instant and minted once, however many processes start
//! together. Fields that this version does not know stay as they are. A damaged file is an error
//! that names it: an identity is never replaced behind its owner's back, and a file once written
//! is never deleted. The key itself is never overridden by anything.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parler_identity::{IdentityError, KeyFileError, KeyPair, keyfile};
use parler_protocol::limits::MAX_HELLO_FIELD_BYTES;
use parler_protocol::{AgentId, Attention, clean};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::context::Context;
pub use crate::effective::{Effective, Flags, HubChoice, effective};
use crate::handle::handle_for;
use crate::home::Identity;
use crate::lock;

/// How long [`Config::update`] waits for another process that changes the same file.
const UPDATE_WAIT: Duration = Duration::from_secs(2);

/// What the user set about being woken, for all rooms and for single ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionSettings {
    /// For all rooms; absent: never set, the default of each room applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Attention>,
    /// Rooms where only what is directed or shared wakes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub quiet_rooms: BTreeSet<String>,
    /// Rooms where nothing wakes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub muted_rooms: BTreeSet<String>,
}

impl AttentionSettings {
    /// Sets what holds in one room: `None` takes the override away.
    pub fn set_room(&mut self, room: &str, rule: Option<RoomAttention>) {
        self.quiet_rooms.remove(room);
        self.muted_rooms.remove(room);
        match rule {
            Some(RoomAttention::Quiet) => self.quiet_rooms.insert(room.to_owned()),
            Some(RoomAttention::Muted) => self.muted_rooms.insert(room.to_owned()),
            None => false,
        };
    }

    /// What holds in one room, if the user said so.
    #[must_use]
    pub fn room(&self, room: &str) -> Option<RoomAttention> {
        if self.muted_rooms.contains(room) {
            Some(RoomAttention::Muted)
        } else if self.quiet_rooms.contains(room) {
            Some(RoomAttention::Quiet)
        } else {
            None
        }
    }
}

/// An override for one room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomAttention {
    /// As `dnd`.
    Quiet,
    /// Nothing wakes; messages are consumed silently.
    Muted,
}

/// One identity and its settings, as they stand in the file.
#[derive(Clone)]
pub struct Config {
    /// The hub that the user chose, in any spelling; absent: the local one.
    pub hub_url: Option<String>,
    /// Nobody chose that hub: a pasted session key named it. No secret of the environment is for
    /// it. See [`Config::set_hub`].
    pub hub_carried: bool,
    /// The agent's id.
    pub id: AgentId,
    seed: SecretString,
    /// The display name.
    pub name: String,
    /// The role.
    pub role: Option<String>,
    /// When to be woken.
    pub attention: AttentionSettings,
    /// File of certificate authorities that are trusted beside the public ones.
    pub ca: Option<String>,
    /// A mode that this version does not know, as a newer one wrote it; kept until another is set.
    foreign_mode: Option<Value>,
    rest: Map<String, Value>,
}

/// Shows no seed.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("hub_url", &self.hub_url)
            .field("id", &self.id)
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// The JSON face.
#[derive(Serialize, Deserialize)]
struct ConfigFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hub_url: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hub_carried: bool,
    id: String,
    #[serde(with = "seed_text")]
    seed: Zeroizing<String>,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attention: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The seed as a plain string of the file, wiped from memory after use.
mod seed_text {
    use secrecy::zeroize::Zeroizing;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        seed: &Zeroizing<String>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        s.serialize_str(seed)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Zeroizing<String>, D::Error> {
        String::deserialize(d).map(Zeroizing::new)
    }
}

/// Whether an identity is a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minted {
    /// It was made just now.
    Yes,
    /// It was there.
    No,
}

/// Why an identity could not be read, made or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The file is there and holds no usable identity. It is left as it is.
    #[error(
        "{} holds no usable identity ({why}); restore it from a backup, or move it away to start \
         with a new identity",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong; never repeats what the file says.
        why: String,
    },
    /// A name that no agent may have.
    #[error("{from}: {source}")]
    Name {
        /// Where the name comes from.
        from: &'static str,
        /// What is wrong with it.
        source: NameError,
    },
    /// No key could be made.
    #[error(transparent)]
    Key(#[from] IdentityError),
    /// Another process holds the file for too long.
    #[error("another process is changing {}; try again", .0.display())]
    Busy(PathBuf),
    /// The system refused a lock.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Why a text cannot be an agent's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing readable is in it.
    #[error("the name is empty, or holds nothing that can be shown; choose another one")]
    Empty,
    /// It means something else.
    #[error("the name '{0}' is reserved (all, any, me, system, hub are); choose another one")]
    Reserved(String),
    /// It looks like an agent's id.
    #[error("a name cannot be an agent's id; choose another one")]
    AnId,
    /// It is too long to be shown and stored with every message.
    #[error("the name is longer than {MAX_HELLO_FIELD_BYTES} bytes; choose a shorter one")]
    TooLong,
}

/// The name as it may be used by a new identity: characters that hide or drive are removed, blanks
/// folded.
///
/// # Errors
/// See [`NameError`].
pub fn new_name(wanted: &str) -> Result<String, NameError> {
    let name = clean::name(wanted);
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if !clean::usable_name(&name) {
        return Err(NameError::Reserved(name));
    }
    if AgentId::parse(&name).is_some() {
        return Err(NameError::AnId);
    }
    if name.len() > MAX_HELLO_FIELD_BYTES {
        return Err(NameError::TooLong);
    }
    Ok(name)
}

/// The file of an identity.
#[must_use]
pub fn path_in(home: &Path) -> PathBuf {
    home.join("config.json")
}

impl Config {
    /// Reads the identity of that home; `None` when there is none yet.
    ///
    /// # Errors
    /// [`ConfigError::File`], [`ConfigError::Damaged`].
    pub fn load(home: &Path) -> Result<Option<Self>, ConfigError> {
        let path = path_in(home);
        let Some(bytes) = keyfile::read_secret(&path)?.map(Zeroizing::new) else {
            return Ok(None);
        };
        let damaged = |why: String| ConfigError::Damaged {
            path: path.clone(),
            why,
        };
        // serde's own text may quote the file: only the place is told.
        let file: ConfigFile = serde_json::from_slice(&bytes).map_err(|e| {
            let kind = match e.classify() {
                serde_json::error::Category::Data => "a field is missing or has the wrong type",
                serde_json::error::Category::Eof => "it ends too early",
                _ => "it is not JSON",
            };
            damaged(format!("{kind}, line {} column {}", e.line(), e.column()))
        })?;
        let keys = KeyPair::from_seed_text(&file.seed).map_err(|e| damaged(e.to_string()))?;
        if keys.id().as_str() != file.id {
            return Err(damaged("its id is not that of its seed".to_owned()));
        }
        let (attention, foreign_mode) = attention_of(file.attention)
            .ok_or_else(|| damaged("its attention has the wrong type".to_owned()))?;
        if foreign_mode.is_some() {
            tracing::warn!(
                file = %path.display(),
                "the attention mode in it is one of a newer version; the default holds"
            );
        }
        Ok(Some(Self {
            hub_url: file.hub_url.filter(|url| !url.trim().is_empty()),
            hub_carried: file.hub_carried,
            id: keys.id().clone(),
            seed: SecretString::from(file.seed.as_str()),
            name: file.name,
            role: file.role,
            attention,
            ca: file.ca.filter(|path| !path.trim().is_empty()),
            foreign_mode,
            rest: file.rest,
        }))
    }

    /// Reads the identity of that home, or makes one: the given name or a generated handle, the
    /// given role, no hub.
    ///
    /// Of any number of processes that start together all get the same identity, and exactly one
    /// of them is told [`Minted::Yes`].
    ///
    /// # Errors
    /// As [`Config::load`]; [`ConfigError::Name`]; [`ConfigError::Key`] without randomness.
    pub fn load_or_mint(
        home: &Path,
        name: Option<&str>,
        role: Option<&str>,
    ) -> Result<(Self, Minted), ConfigError> {
        if let Some(found) = Self::load(home)? {
            return Ok((found, Minted::No));
        }
        let keys = KeyPair::generate()?;
        let name = match name {
            Some(wanted) => new_name(wanted).map_err(|source| ConfigError::Name {
                from: "the new identity's name",
                source,
            })?,
            None => handle_for(keys.id().as_str()),
        };
        let fresh = Self {
            hub_url: None,
            hub_carried: false,
            id: keys.id().clone(),
            seed: SecretString::from(keys.seed_text().as_str()),
            name,
            role: role.and_then(usable_role),
            attention: AttentionSettings::default(),
            ca: None,
            foreign_mode: None,
            rest: Map::new(),
        };
        let path = path_in(home);
        if keyfile::create_once(&path, &fresh.text())? {
            return Ok((fresh, Minted::Yes));
        }
        let found = Self::load(home)?.ok_or(KeyFileError::Unreachable(path))?;
        Ok((found, Minted::No))
    }

    /// As [`Config::load_or_mint`], for a chosen identity: the name of `--as`, else `PARLER_NAME`;
    /// the role of `PARLER_ROLE`.
    ///
    /// # Errors
    /// As [`Config::load_or_mint`].
    pub fn open(cx: &Context, identity: &Identity) -> Result<(Self, Minted), ConfigError> {
        let (name, from) = match identity.name.as_deref() {
            Some(name) => (Some(name), "--as"),
            None => (cx.var("PARLER_NAME"), "PARLER_NAME"),
        };
        Self::load_or_mint(&identity.home, name, cx.var("PARLER_ROLE")).map_err(|error| match error
        {
            ConfigError::Name { source, .. } => ConfigError::Name { from, source },
            other => other,
        })
    }

    /// Changes the settings in the file: reads it anew under a lock, so that nobody's change is
    /// lost.
    ///
    /// # Errors
    /// As [`Config::load`]; [`ConfigError::Busy`] when another process holds it for two seconds.
    pub fn update(home: &Path, change: impl FnOnce(&mut Config)) -> Result<Self, ConfigError> {
        let path = home.join("config.lock");
        let _lock = lock::exclusive(&path, UPDATE_WAIT)
            .map_err(|source| ConfigError::Lock {
                path: path.clone(),
                source,
            })?
            .ok_or_else(|| ConfigError::Busy(path_in(home)))?;
        let (mut config, _) = Self::load_or_mint(home, None, None)?;
        change(&mut config);
        config.save(home)?;
        Ok(config)
    }

    /// Writes the whole identity in place of what the home holds. To change a setting use
    /// [`Config::update`].
    ///
    /// # Errors
    /// [`ConfigError::File`]; then the old file is untouched.
    pub fn save(&self, home: &Path) -> Result<(), ConfigError> {
        Ok(keyfile::replace(&path_in(home), &self.text())?)
    }

    /// Names the hub: the user's choice, or (`carried`) what a pasted key named.
    pub fn set_hub(&mut self, url: &str, carried: bool) {
        self.hub_url = Some(url.to_owned());
        self.hub_carried = carried;
    }

    /// The key pair.
    ///
    /// # Errors
    /// None in practice: the seed was checked when it was read.
    pub fn keys(&self) -> Result<KeyPair, IdentityError> {
        KeyPair::from_seed_text(self.seed.expose_secret())
    }

    fn text(&self) -> Zeroizing<Vec<u8>> {
        // Sets of strings and a word: it serialises.
        let mut attention = serde_json::to_value(&self.attention).unwrap_or_default();
        if let (None, Some(mode)) = (self.attention.mode, &self.foreign_mode) {
            attention["mode"] = mode.clone();
        }
        let file = ConfigFile {
            hub_url: self.hub_url.clone(),
            hub_carried: self.hub_carried && self.hub_url.is_some(),
            id: self.id.to_string(),
            seed: Zeroizing::new(self.seed.expose_secret().to_owned()),
            name: self.name.clone(),
            role: self.role.clone(),
            attention: Some(attention).filter(|a| a.as_object().is_some_and(|a| !a.is_empty())),
            ca: self.ca.clone(),
            rest: self.rest.clone(),
        };
        // Strings and a map with string keys: it serialises.
        let mut text = Zeroizing::new(serde_json::to_vec_pretty(&file).unwrap_or_default());
        text.push(b'\n');
        text
    }
}

/// The settings in the file, and apart from them a mode that only a newer version knows.
fn attention_of(file: Option<Value>) -> Option<(AttentionSettings, Option<Value>)> {
    let Some(mut file) = file.filter(|file| !file.is_null()) else {
        return Some((AttentionSettings::default(), None));
    };
    if let Ok(known) = AttentionSettings::deserialize(&file) {
        return Some((known, None));
    }
    let mode = file.as_object_mut()?.remove("mode")?;
    let known = AttentionSettings::deserialize(&file).ok()?;
    mode.is_string().then_some((known, Some(mode)))
}

pub(crate) fn usable_role(role: &str) -> Option<String> {
    let role = clean::name(role);
    (!role.is_empty() && role.len() <= MAX_HELLO_FIELD_BYTES).then_some(role)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
