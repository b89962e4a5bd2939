//! What a hub can be told, one struct a concern. `Debug` never shows a secret.

mod args;
mod limits;
mod local;
mod retention;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use parler_protocol::links;
use secrecy::SecretString;

pub use args::HubArgs;
pub use limits::Limits;
pub use local::LocalHub;
pub use parler_store_sqlite::Durability;
pub use retention::Retention;

use crate::defaults;
use crate::tls::TlsFiles;

/// Everything a hub is told before it starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Display name.
    pub name: String,
    /// The address that links are made of; `None`: `parler://<bound address>`.
    pub url: Option<String>,
    /// A label and the boot rule, nothing else.
    pub public: bool,
    /// The database; `None`: a temporary one, gone at the end.
    pub db: Option<PathBuf>,
    /// Where blobs lie; `None`: beside the database, or in a temporary folder without one.
    pub blob_dir: Option<PathBuf>,
    /// What is kept for how long.
    pub retention: Retention,
    /// What `sent` promises.
    pub durability: Durability,
    /// Where the hub's own key is; `None`: beside the database, or a new one each time.
    pub key_file: Option<PathBuf>,
    /// What strangers do not know.
    pub join_secret: Option<SecretString>,
    /// Sizes, counts and rates.
    pub limits: Limits,
    /// Silence after which a logged-in connection is closed; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// Stop after so long without connections; `None`: never.
    pub idle_exit: Option<Duration>,
    /// Web origins that may open a socket, beside the hub's own.
    pub allowed_origins: Vec<String>,
    /// Take the client's address from the proxy's headers.
    pub trust_proxy_headers: bool,
    /// Certificate and key; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Where the metrics are served, on a listener of their own; `None`: nowhere.
    pub metrics_addr: Option<String>,
    /// Link shown on the landing page.
    pub web: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            name: defaults::NAME.to_owned(),
            url: None,
            public: false,
            db: None,
            blob_dir: None,
            retention: Retention::default(),
            durability: Durability::Full,
            key_file: None,
            join_secret: None,
            limits: Limits::default(),
            idle_timeout: Some(Duration::from_secs(
                parler_protocol::DEFAULT_IDLE_TIMEOUT_SECS,
            )),
            idle_exit: None,
            allowed_origins: Vec::new(),
            trust_proxy_headers: false,
            tls: None,
            metrics_addr: None,
            web: None,
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The boot rule.
    #[error(
        "a private hub without a join secret may only listen on this machine, not on {0}: \
         add --join-secret-file FILE, or --public, or listen on 127.0.0.1"
    )]
    OpenDoor(String),
    /// A file that was named.
    #[error("cannot use {path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The hub on demand has no place to live.
    #[error("no home folder: set HOME, or PARLER_BASE to the folder that --local should use")]
    NoHome,
    /// Another process has the hub's place.
    #[error("{0}")]
    InUse(String),
}

impl Config {
    /// Refuses what would leave the door open: private, no secret, reachable from elsewhere.
    ///
    /// # Errors
    /// [`ConfigError::OpenDoor`] then.
    pub fn check(&self, addr: &str) -> Result<(), ConfigError> {
        if !self.public && self.join_secret.is_none() && !links::is_loopback(addr) {
            return Err(ConfigError::OpenDoor(addr.to_owned()));
        }
        Ok(())
    }

    /// The address that links are made of.
    #[must_use]
    pub fn public_url(&self, bound: SocketAddr) -> String {
        match &self.url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None if self.tls.is_some() => format!("wss://{bound}"),
            None => format!("parler://{bound}"),
        }
    }

    /// Where the hub's own key is, if it is to be kept.
    #[must_use]
    pub fn key_path(&self) -> Option<PathBuf> {
        self.key_file.clone().or_else(|| {
            self.db.as_ref().map(|db| {
                let mut path = db.clone().into_os_string();
                path.push(".key");
                path.into()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_door_is_refused_only_where_strangers_can_reach_it() {
        let private = Config::default();
        assert!(private.check("127.0.0.1:7070").is_ok());
        assert!(private.check("localhost:7070").is_ok());
        assert!(private.check("[::1]:7070").is_ok());
        assert!(private.check("0.0.0.0:7070").is_err());
        let public = Config {
            public: true,
            ..Config::default()
        };
        assert!(public.check("0.0.0.0:7070").is_ok());
        let secret = Config {
            join_secret: Some("s3cret".into()),
            ..Config::default()
        };
        assert!(secret.check("0.0.0.0:7070").is_ok());
        assert!(
            !format!("{secret:?}").contains("s3cret"),
            "Debug shows no secret"
        );
    }
}
