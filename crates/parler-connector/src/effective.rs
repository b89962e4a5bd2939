//! What holds for one run: flag > environment > file > default.
//!
//! Nothing is written back; every thing that differs from the file is told in a line of its own.
//! Id and key are never overridden by anything.

use std::path::{Path, PathBuf};

use parler_identity::keyfile;
use parler_protocol::clean;
use parler_protocol::limits::MAX_HELLO_FIELD_BYTES;
use secrecy::zeroize::Zeroizing;
use serde::Deserialize;

use crate::config::{Config, ConfigError, new_name, path_in, usable_role};
use crate::context::Context;
use crate::handle::handle_for;
use crate::home::{Identity, Rule};

/// Which hub to use, and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubChoice {
    /// Somebody named it.
    Named {
        /// In any spelling.
        url: String,
        /// `--hub`, `PARLER_HUB`, `config`, or the file that it is inherited from.
        from: String,
        /// Only a pasted session key named it, once: it gets no secret from the environment.
        carried: bool,
    },
    /// Nobody named one: the local hub, started on demand.
    Local,
}

/// Settings given on the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--hub`.
    pub hub: Option<String>,
    /// `--name`.
    pub name: Option<String>,
    /// `--role`.
    pub role: Option<String>,
    /// `--ca`.
    pub ca: Option<String>,
}

/// What holds for one run: flag > environment > file > default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Which hub.
    pub hub: HubChoice,
    /// The display name.
    pub name: String,
    /// The role.
    pub role: Option<String>,
    /// File of certificate authorities that are trusted beside the public ones: `--ca`, else
    /// `PARLER_CA`, else the file's, else that of the configuration that the hub is inherited from.
    pub ca: Option<PathBuf>,
    /// One line for each thing that differs from the file, to be told on stderr.
    pub changed: Vec<String>,
}

/// Works out what holds for one run. Nothing is written back.
///
/// # Errors
/// [`ConfigError::Name`] when a flag or variable gives a name that no agent may have.
pub fn effective(
    config: &Config,
    cx: &Context,
    identity: &Identity,
    flags: &Flags,
) -> Result<Effective, ConfigError> {
    let mut changed = Vec::new();
    let mut differs = |what: &str, from: &str, now: &str, before: &str| {
        if now != before {
            let before = if before.is_empty() { "none" } else { before };
            changed.push(format!("{what} is '{now}' by {from} (config: {before})"));
        }
    };
    let hub = hub_choice(config, cx, identity, flags);
    if let HubChoice::Named { url, from, .. } = &hub
        && (flags.hub.is_some() || cx.var("PARLER_HUB").is_some())
    {
        differs("hub", from, url, config.hub_url.as_deref().unwrap_or(""));
    }
    let chosen = match &identity.rule {
        Rule::As { name, .. } => Some(("--as", name.as_str())),
        _ => None,
    };
    let named = (flags.name.as_deref().map(|name| ("--name", name)))
        .or(chosen)
        .or_else(|| Some(("PARLER_NAME", cx.var("PARLER_NAME")?)));
    let name = match named {
        Some((from, wanted)) => {
            let name = new_name(wanted).map_err(|source| ConfigError::Name { from, source })?;
            differs("name", from, &name, &config.name);
            name
        }
        None => shown_name(config),
    };
    let given = (flags.role.as_deref().map(|role| ("--role", role)))
        .or_else(|| Some(("PARLER_ROLE", cx.var("PARLER_ROLE")?)));
    let role = match given.and_then(|(from, role)| Some((from, usable_role(role)?))) {
        Some((from, role)) => {
            differs("role", from, &role, config.role.as_deref().unwrap_or(""));
            Some(role)
        }
        None => config.role.as_deref().and_then(usable_role),
    };
    Ok(Effective {
        hub,
        name,
        role,
        ca: authorities(config, cx, identity, flags),
        changed,
    })
}

/// The name in the file as it may go out; one that cannot gives way to a handle.
fn shown_name(config: &Config) -> String {
    let name = clean::name(&config.name);
    if name.is_empty() || name.len() > MAX_HELLO_FIELD_BYTES {
        handle_for(config.id.as_str())
    } else {
        name
    }
}

fn authorities(
    config: &Config,
    cx: &Context,
    identity: &Identity,
    flags: &Flags,
) -> Option<PathBuf> {
    let named = [
        flags.ca.as_deref(),
        cx.var("PARLER_CA"),
        config.ca.as_deref(),
    ];
    let named = named
        .into_iter()
        .flatten()
        .find(|path| !path.trim().is_empty());
    let inherited = || file_in(&path_in(identity.parent.as_deref()?))?.ca;
    let path = named.map(str::to_owned).or_else(inherited)?;
    Some(cx.path(&path))
}

fn hub_choice(config: &Config, cx: &Context, identity: &Identity, flags: &Flags) -> HubChoice {
    let kept = |url: &str, from: &str, carried| HubChoice::Named {
        url: url.trim().to_owned(),
        from: from.to_owned(),
        carried,
    };
    let named = |url, from| kept(url, from, false);
    let given = |url: &&str| !url.trim().is_empty();
    if let Some(url) = flags.hub.as_deref().filter(given) {
        return named(url, "--hub");
    }
    if let Some(url) = cx.var("PARLER_HUB").filter(given) {
        return named(url, "PARLER_HUB");
    }
    if let Some(url) = &config.hub_url {
        return kept(url, "config", config.hub_carried);
    }
    let inherited = identity.parent.as_deref().and_then(|parent| {
        let path = path_in(parent);
        Some((hub_in(&path)?, path))
    });
    match inherited {
        Some(((url, carried), path)) => kept(&url, &path.display().to_string(), carried),
        None => HubChoice::Local,
    }
}

/// What an identity inherits from a config file; the rest of it, the seed above all, is not looked
/// at.
#[derive(Deserialize)]
struct Inherited {
    hub_url: Option<String>,
    #[serde(default)]
    hub_carried: bool,
    #[serde(default)]
    ca: Option<String>,
}

fn file_in(path: &Path) -> Option<Inherited> {
    let bytes = Zeroizing::new(keyfile::read(path).ok()??);
    serde_json::from_slice(&bytes).ok()
}

/// The hub that a config file names, and whether a key brought it.
fn hub_in(path: &Path) -> Option<(String, bool)> {
    let file = file_in(path)?;
    let url = file.hub_url.filter(|url| !url.trim().is_empty())?;
    Some((url, file.hub_carried))
}
