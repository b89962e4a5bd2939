//! What a client needs to know before it dials: which hub, as whom, how patiently.

use std::time::Duration;

use parler_identity::KeyPair;
use secrecy::SecretString;

use crate::tls::Authorities;

/// How long dialling, TLS, upgrade and login may take together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one call may take in all, its connection and its repetitions included. With it every
/// command ends well within half a minute.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest time that anything is waited for; more is taken as this. Beyond any use, and far
/// from where adding it to the clock overflows.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A hub, and what is known of it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its address in any spelling: `parler://`, `ws://`, `wss://`, `http(s)://`, bare `host:port`.
    pub url: String,
    /// Its join secret. It goes to this endpoint and to no other.
    pub secret: Option<SecretString>,
    /// Id of the hub's own key. With it the hub must prove that key before anything secret is
    /// sent and before the login goes on; otherwise [`crate::ClientError::WrongHub`].
    pub hub_key: Option<String>,
    /// Addresses of the other hubs that this agent knows, in any spelling. A login that a hub
    /// passes on from one of them is not signed: [`crate::ClientError::AnothersLogin`].
    pub known_hubs: Vec<String>,
    /// Certificate authorities that are trusted beside the public ones, for TLS.
    pub authorities: Option<Authorities>,
}

impl Endpoint {
    /// An endpoint of which nothing but the address is known.
    pub fn new(url: impl Into<String>) -> Self {
        Endpoint {
            url: url.into(),
            secret: None,
            hub_key: None,
            known_hubs: Vec::new(),
            authorities: None,
        }
    }
}

/// How patiently a client talks. `Default` is [`CONNECT_TIMEOUT`] and [`REQUEST_TIMEOUT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Dialling, TLS, upgrade and login together.
    pub connect: Duration,
    /// One call in all: queueing, connecting, sending, waiting, and repeating it when the
    /// connection was lost.
    pub request: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: CONNECT_TIMEOUT,
            request: REQUEST_TIMEOUT,
        }
    }
}

/// Everything that a [`crate::Client`] is made of.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Which hub.
    pub endpoint: Endpoint,
    /// As whom.
    pub keys: KeyPair,
    /// Display name. Characters that no name may carry are removed before it is sent.
    pub name: String,
    /// Role, cleaned like the name.
    pub role: Option<String>,
    /// How patiently.
    pub timeouts: Timeouts,
    /// Whether a push to this client can start a turn of its host. Tells the hub who listens.
    pub wakes: bool,
    /// Whether pushes include notices of turns, of the loop guard and of join requests.
    pub turns: bool,
}

impl ClientOptions {
    /// Options with usual time-outs, no role, and pushes that wake: messages, no notices.
    pub fn new(endpoint: Endpoint, keys: KeyPair, name: impl Into<String>) -> Self {
        ClientOptions {
            endpoint,
            keys,
            name: name.into(),
            role: None,
            timeouts: Timeouts::default(),
            wakes: true,
            turns: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_secret_nor_seed() {
        let keys = KeyPair::from_seed_bytes([7; 32]);
        let endpoint = Endpoint {
            secret: Some("hunter2-hunter2".to_owned().into()),
            ..Endpoint::new("ws://h")
        };
        let shown = format!("{:?}", ClientOptions::new(endpoint, keys.clone(), "n"));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(!shown.contains(keys.seed_text().as_str()), "{shown}");
    }
}
