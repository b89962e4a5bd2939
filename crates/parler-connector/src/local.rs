//! The local hub as its files in the base home describe it, and which secret goes to which hub.
//!
//! The hub itself writes the files (`hub.port`, `hub.secret`, `hub.key`); this module only reads
//! them, and starts nothing. The secret of the local hub goes to its address however that was
//! spelled, and only together with the hub's key: the client lets the hub prove that key first, so
//! that a stranger on the port gets nothing. Whatever the spelling was, what is dialled is the one
//! address that the hub binds: on `[::1]`, and wherever `localhost` leads, anybody on this machine
//! may listen and pass the hub's own proof on. A join secret from the environment goes to the hub
//! that was configured and to no other, whatever a pasted session key names.

use std::path::{Path, PathBuf};

use parler_identity::{KeyFileError, keyfile};
use parler_protocol::links::{is_encrypted, is_loopback, same_hub};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;

use crate::config::HubChoice;
use crate::context::Context;
use crate::options::Endpoint;

/// The local hub of one user, as it was started last. It need not run.
#[derive(Clone, Debug)]
pub struct LocalHub {
    port: u16,
    secret: SecretString,
    key: String,
}

/// Why the files of the local hub cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// A file could not be read, or holds no key.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// A file holds something else than it should.
    #[error("{} holds no {what}; remove it and start the hub again: it is written anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
    },
}

/// The port that the local hub of that base home chose at its first start, whether the rest of its
/// files are there or not.
#[must_use]
pub fn port_in(base: &Path) -> Option<u16> {
    let text = keyfile::read(&base.join("hub.port")).ok()??;
    port_of(&text)
}

fn port_of(text: &[u8]) -> Option<u16> {
    let port = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (port != 0).then_some(port)
}

/// The address of a local hub on that port, as agents write it.
#[must_use]
pub fn url_at(port: u16) -> String {
    format!("parler://127.0.0.1:{port}")
}

/// Whether that address, in any spelling, is a local hub on that port.
#[must_use]
pub fn is_at(port: u16, url: &str) -> bool {
    let by_name = |host: &str| same_hub(url, &format!("parler://{host}:{port}"));
    is_loopback(url) && (by_name("127.0.0.1") || by_name("localhost") || by_name("[::1]"))
}

impl LocalHub {
    /// Reads the hub's files in that base home; `None` when one of them is missing, as before its
    /// first start.
    ///
    /// # Errors
    /// See [`LocalError`].
    pub fn read(base: &Path) -> Result<Option<Self>, LocalError> {
        let Some(port) = keyfile::read(&base.join("hub.port"))? else {
            return Ok(None);
        };
        let damaged = |name: &str, what| LocalError::Damaged {
            path: base.join(name),
            what,
        };
        let port = port_of(&port).ok_or_else(|| damaged("hub.port", "port number"))?;
        let secret = keyfile::read_secret(&base.join("hub.secret"))?.map(Zeroizing::new);
        let key = keyfile::load_key(&base.join("hub.key"))?;
        let (Some(secret), Some(key)) = (secret, key) else {
            return Ok(None);
        };
        let secret = std::str::from_utf8(&secret)
            .map(str::trim)
            .unwrap_or_default();
        if secret.is_empty() {
            return Err(damaged("hub.secret", "join secret"));
        }
        Ok(Some(Self {
            port,
            secret: SecretString::from(secret),
            key: key.id().to_string(),
        }))
    }

    /// Its address as agents write it.
    #[must_use]
    pub fn url(&self) -> String {
        url_at(self.port)
    }

    /// The port that it has for ever.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether that address, in any spelling, is this hub.
    #[must_use]
    pub fn is_at(&self, url: &str) -> bool {
        is_at(self.port, url)
    }

    /// What a client needs to dial it.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            secret: Some(self.secret.clone()),
            hub_key: Some(self.key.clone()),
            ..Endpoint::new(self.url())
        }
    }
}

/// Whether a secret that was given for one address may go to another spelling of it: not where
/// that gives up the encryption.
#[must_use]
pub fn is_for(given: &str, url: &str) -> bool {
    same_hub(given, url) && (is_encrypted(url) || !is_encrypted(given))
}

/// What a client needs to dial `url`, which may be another hub than the `configured` one: a pasted
/// session key names its own.
///
/// The local hub gets its own secret, at the address that it binds. Any other hub gets
/// `PARLER_JOIN_SECRET`, and only when it is the configured one and more than a key named it.
#[must_use]
pub fn endpoint_for(
    cx: &Context,
    local: Option<&LocalHub>,
    configured: &HubChoice,
    url: &str,
) -> Endpoint {
    if let Some(local) = local.filter(|local| local.is_at(url)) {
        return local.endpoint();
    }
    let meant = match configured {
        HubChoice::Named {
            url: named,
            carried: false,
            ..
        } => is_for(named, url),
        HubChoice::Named { .. } | HubChoice::Local => false,
    };
    // Where the environment names a hub beside it, the secret is for that one, whatever a flag says.
    let meant = meant && cx.var("PARLER_HUB").is_none_or(|hub| is_for(hub, url));
    let secret = cx.var("PARLER_JOIN_SECRET").filter(|_| meant);
    Endpoint {
        secret: secret.map(SecretString::from),
        ..Endpoint::new(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;
    use parler_identity::KeyPair;
    use secrecy::ExposeSecret;

    fn start(world: &World) -> String {
        let keys = KeyPair::generate().unwrap();
        let write = |name: &str, text: &str| {
            keyfile::replace(&world.base().join(name), text.as_bytes()).unwrap();
        };
        write("hub.port", "7071\n");
        write("hub.secret", "s3cret\n");
        write("hub.key", &keys.seed_text());
        keys.id().to_string()
    }

    fn named(url: &str) -> HubChoice {
        HubChoice::Named {
            url: url.into(),
            from: "config".into(),
            carried: false,
        }
    }

    fn secret(endpoint: &Endpoint) -> Option<&str> {
        endpoint.secret.as_ref().map(|s| s.expose_secret())
    }

    #[test]
    fn a_hub_that_never_started_is_none() {
        let world = World::new();
        assert!(LocalHub::read(world.base()).unwrap().is_none());
        start(&world);
        assert!(LocalHub::read(world.base()).unwrap().is_some());
        std::fs::remove_file(world.base().join("hub.key")).unwrap();
        assert!(
            LocalHub::read(world.base()).unwrap().is_none(),
            "without its key the secret goes nowhere"
        );
    }

    #[test]
    fn its_endpoint_has_secret_and_key() {
        let world = World::new();
        let id = start(&world);
        let hub = LocalHub::read(world.base()).unwrap().unwrap();
        let endpoint = hub.endpoint();
        assert_eq!(endpoint.url, "parler://127.0.0.1:7071");
        assert_eq!(secret(&endpoint), Some("s3cret"));
        assert_eq!(endpoint.hub_key, Some(id));
        assert!(!format!("{hub:?} {endpoint:?}").contains("s3cret"));
    }

    #[test]
    fn the_local_secret_goes_to_the_address_that_the_hub_binds_however_it_is_spelled() {
        let world = World::new();
        start(&world);
        let hub = LocalHub::read(world.base()).unwrap();
        let cx = world.context([("PARLER_JOIN_SECRET", "other")]);
        for url in [
            "ws://127.0.0.1:7071/ws",
            "localhost:7071",
            "parler://[::1]:7071/",
            "wss://LOCALHOST:7071",
        ] {
            let endpoint = endpoint_for(&cx, hub.as_ref(), &named("wss://elsewhere"), url);
            assert_eq!(secret(&endpoint), Some("s3cret"), "{url}");
            assert!(endpoint.hub_key.is_some());
            assert_eq!(endpoint.url, "parler://127.0.0.1:7071", "{url}");
        }
        for url in [
            "ws://127.0.0.1:7070",
            "ws://10.0.0.1:7071",
            "ws://localhost.evil:7071",
        ] {
            let endpoint = endpoint_for(&cx, hub.as_ref(), &HubChoice::Local, url);
            assert_eq!(secret(&endpoint), None, "{url}");
            assert_eq!(endpoint.hub_key, None);
        }
    }

    #[test]
    fn a_join_secret_goes_to_the_configured_hub_only() {
        let world = World::new();
        let cx = world.context([("PARLER_JOIN_SECRET", "team")]);
        let team = named("wss://hub.example");
        let to = |url: &str| {
            let endpoint = endpoint_for(&cx, None, &team, url);
            secret(&endpoint).map(str::to_owned)
        };
        assert_eq!(to("https://HUB.example/").as_deref(), Some("team"));
        assert_eq!(to("wss://evil.example"), None);
        assert_eq!(to("wss://hub.example.evil"), None);
        assert_eq!(to("ws://hub.example"), None, "not in clear");
        let flagged = named("wss://other.example");
        let cx = cx.with_var("PARLER_HUB", "wss://hub.example");
        let to =
            |configured, url| secret(&endpoint_for(&cx, None, configured, url)).map(str::to_owned);
        assert_eq!(
            to(&flagged, "wss://other.example"),
            None,
            "a flag names another hub"
        );
        assert_eq!(to(&team, "wss://hub.example").as_deref(), Some("team"));
        let keyed = HubChoice::Named {
            url: "wss://keyed.example".into(),
            from: "config".into(),
            carried: true,
        };
        let endpoint = endpoint_for(&cx, None, &keyed, "wss://keyed.example");
        assert_eq!(secret(&endpoint), None, "only a key named it");
    }

    #[test]
    fn damaged_files_are_named() {
        let world = World::new();
        start(&world);
        for (name, text) in [("hub.port", "x"), ("hub.port", "0"), ("hub.secret", " \n")] {
            let path = world.base().join(name);
            let before = std::fs::read(&path).unwrap();
            keyfile::replace(&path, text.as_bytes()).unwrap();
            let error = LocalHub::read(world.base()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            keyfile::replace(&path, &before).unwrap();
        }
    }
}
