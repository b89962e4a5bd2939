//! The flags and environment of `parler hub` and `parler-hub`.

use std::path::PathBuf;
use std::time::Duration;

use parler_identity::keyfile;
use parler_protocol::links::{SECRET_ALPHABET, SECRET_LEN};
use parler_protocol::{DEFAULT_IDLE_TIMEOUT_SECS, limits as wire};
use parler_store_sqlite::Durability;
use secrecy::SecretString;

use super::{Config, ConfigError, Limits, Retention};
use crate::tls::TlsFiles;
use crate::{defaults, random};

/// Run a hub: a relay with a durable log, for agents that take turns.
#[derive(clap::Args, Clone)]
pub struct HubArgs {
    /// Where to listen
    #[arg(long, env = "PARLER_HUB_ADDR", default_value = defaults::ADDR, value_name = "HOST:PORT")]
    pub addr: String,
    /// The database file; without it everything is forgotten at the end
    #[arg(long, env = "PARLER_HUB_DB", value_name = "FILE")]
    pub db: Option<PathBuf>,
    /// The address that links are made of [default: parler://ADDR]
    #[arg(long, env = "PARLER_HUB_URL", value_name = "URL")]
    pub url: Option<String>,
    /// Display name
    #[arg(long, env = "PARLER_HUB_NAME", default_value = defaults::NAME)]
    pub name: String,
    /// Let anybody in who can reach it
    #[arg(long, env = "PARLER_HUB_PUBLIC", value_parser = clap::builder::FalseyValueParser::new())]
    pub public: bool,
    /// Where blobs lie; by default beside the database, under its name and `.blobs`
    #[arg(long, env = "PARLER_HUB_BLOB_DIR", value_name = "DIR")]
    pub blob_dir: Option<PathBuf>,
    /// What a `sent` promises: `full` survives a power cut, `normal` a crash of the process
    #[arg(long, env = "PARLER_HUB_DURABILITY", default_value = "full", value_name = "full|normal",
          value_parser = parse_durability)]
    pub durability: Durability,
    /// Word that an agent must know to get in (better: --join-secret-file)
    #[arg(
        long,
        env = "PARLER_HUB_JOIN_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    pub join_secret: Option<String>,
    /// File with that word; made with a random one if missing or blank
    #[arg(long, env = "PARLER_HUB_JOIN_SECRET_FILE", value_name = "FILE")]
    pub join_secret_file: Option<PathBuf>,
    /// Close a logged-in connection after so many silent seconds; 0: never
    #[arg(long, env = "PARLER_HUB_IDLE_TIMEOUT_SECS", default_value_t = DEFAULT_IDLE_TIMEOUT_SECS, value_name = "SECS")]
    pub idle_timeout_secs: u64,
    /// Take the client's address from the headers of a proxy in front
    #[arg(long, env = "PARLER_HUB_TRUST_PROXY_HEADERS", value_parser = clap::builder::FalseyValueParser::new())]
    pub trust_proxy_headers: bool,
    /// Speak TLS: the certificate (PEM), followed by those that lead to a root
    #[arg(
        long,
        env = "PARLER_HUB_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM); both files are read again at SIGHUP
    #[arg(
        long,
        env = "PARLER_HUB_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    pub tls_key: Option<PathBuf>,
    /// Serve counters for Prometheus there, under /metrics; to whoever can reach it
    #[arg(long, env = "PARLER_HUB_METRICS_ADDR", value_name = "HOST:PORT")]
    pub metrics_addr: Option<String>,
    /// Link shown on the landing page
    #[arg(long, env = "PARLER_HUB_WEB", value_name = "URL")]
    pub web: Option<String>,
    /// Web origin that may open a socket (repeatable)
    #[arg(
        long = "allow-origin",
        env = "PARLER_HUB_ALLOW_ORIGINS",
        value_delimiter = ',',
        value_name = "ORIGIN"
    )]
    pub allowed_origins: Vec<String>,
    /// Be this user's hub on demand: everything in the base home, one hub a user
    #[arg(long, conflicts_with_all = ["db", "public", "join_secret", "join_secret_file", "tls_cert"])]
    pub local: bool,
    /// The base home for --local [default: ~/.parler]
    #[arg(long, env = "PARLER_BASE", value_name = "DIR")]
    pub base: Option<PathBuf>,

    /// Largest text frame in bytes
    #[arg(long, env = "PARLER_HUB_MAX_TEXT_FRAME_BYTES", default_value_t = wire::MAX_TEXT_FRAME_BYTES, help_heading = "Limits", value_name = "N")]
    pub max_text_frame_bytes: usize,
    /// Largest message body in bytes
    #[arg(long, env = "PARLER_HUB_MAX_MESSAGE_BYTES", default_value_t = wire::MAX_MESSAGE_BYTES, help_heading = "Limits", value_name = "N")]
    pub max_message_bytes: usize,
    /// Largest blob in bytes
    #[arg(long, env = "PARLER_HUB_MAX_BLOB_BYTES", default_value_t = wire::MAX_BLOB_BYTES, help_heading = "Limits", value_name = "N")]
    pub max_blob_bytes: u64,
    /// Connections at once
    #[arg(long, env = "PARLER_HUB_MAX_CONNECTIONS", default_value_t = defaults::MAX_CONNECTIONS, help_heading = "Limits", value_name = "N")]
    pub max_connections: usize,
    /// Rooms that one agent may own
    #[arg(long, env = "PARLER_HUB_MAX_OWNED_ROOMS", default_value_t = wire::MAX_OWNED_ROOMS, help_heading = "Limits", value_name = "N")]
    pub max_owned_rooms: u32,
    /// HTTP requests of one address a minute; 0: no limit
    #[arg(long, env = "PARLER_HUB_MAX_HTTP_PER_MIN", default_value_t = wire::MAX_HTTP_PER_MIN, help_heading = "Limits", value_name = "N")]
    pub max_http_per_min: u32,
    /// Operations of one agent a minute; 0: no limit
    #[arg(long, env = "PARLER_HUB_MAX_OPS_PER_MIN", default_value_t = wire::MAX_OPS_PER_MIN, help_heading = "Limits", value_name = "N")]
    pub max_ops_per_min: u32,
    /// Sends of one agent a minute; 0: no limit
    #[arg(long, env = "PARLER_HUB_MAX_SENDS_PER_MIN", default_value_t = wire::MAX_SENDS_PER_MIN, help_heading = "Limits", value_name = "N")]
    pub max_sends_per_min: u32,
    /// Sends into one room a minute; 0: no limit
    #[arg(long, env = "PARLER_HUB_MAX_ROOM_SENDS_PER_MIN", default_value_t = wire::MAX_ROOM_SENDS_PER_MIN, help_heading = "Limits", value_name = "N")]
    pub max_room_sends_per_min: u32,
    /// All blobs on disk in bytes
    #[arg(long, env = "PARLER_HUB_MAX_BLOB_DIR_BYTES", default_value_t = wire::MAX_BLOB_DIR_BYTES, help_heading = "Limits", value_name = "N")]
    pub max_blob_dir_bytes: u64,
    /// All uploads in flight in bytes
    #[arg(long, env = "PARLER_HUB_MAX_INFLIGHT_BLOB_BYTES", default_value_t = wire::MAX_INFLIGHT_BLOB_BYTES, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits", value_name = "N")]
    pub max_inflight_blob_bytes: u64,
    /// Unexpired tokens of one agent
    #[arg(long, env = "PARLER_HUB_MAX_ACTIVE_TOKENS", default_value_t = wire::MAX_ACTIVE_TOKENS, help_heading = "Limits", value_name = "N")]
    pub max_active_tokens: u32,
    /// Keyed facts of one agent
    #[arg(long, env = "PARLER_HUB_MAX_KEYED_FACTS", default_value_t = wire::MAX_KEYED_FACTS, help_heading = "Limits", value_name = "N")]
    pub max_keyed_facts: u32,
    /// Uploads of one agent an hour; 0: no limit
    #[arg(long, env = "PARLER_HUB_MAX_BLOBS_PER_HOUR", default_value_t = wire::MAX_BLOBS_PER_HOUR, help_heading = "Limits", value_name = "N")]
    pub max_blobs_per_hour: u32,
    /// Uploads into one room an hour; 0: no limit
    #[arg(long, env = "PARLER_HUB_MAX_ROOM_BLOBS_PER_HOUR", default_value_t = wire::MAX_ROOM_BLOBS_PER_HOUR, help_heading = "Limits", value_name = "N")]
    pub max_room_blobs_per_hour: u32,

    /// Keep messages for so many days; 0: for ever
    #[arg(long, env = "PARLER_HUB_RETENTION_DAYS", default_value_t = wire::RETENTION_DAYS, help_heading = "Retention", value_name = "DAYS")]
    pub retention_days: u32,
    /// Keep the newest messages of a room whatever their age
    #[arg(long, env = "PARLER_HUB_KEEP_MESSAGES_PER_ROOM", default_value_t = wire::KEEP_MESSAGES_PER_ROOM, help_heading = "Retention", value_name = "N")]
    pub keep_messages_per_room: u32,
    /// Keep the newest facts without a key of an author in a room; negative: all
    #[arg(long, env = "PARLER_HUB_KEEP_FACTS", default_value_t = wire::KEEP_FACTS, allow_hyphen_values = true, help_heading = "Retention", value_name = "N")]
    pub keep_facts: i64,
    /// Delete a blob so many days after it was last fetched; 0: never
    #[arg(long, env = "PARLER_HUB_BLOB_TTL_DAYS", default_value_t = wire::BLOB_TTL_DAYS, help_heading = "Retention", value_name = "DAYS")]
    pub blob_ttl_days: u32,
    /// Look for what may go every so many seconds; 0: the default
    #[arg(long, env = "PARLER_HUB_JANITOR_INTERVAL_SECS", default_value_t = wire::JANITOR_INTERVAL_SECS, help_heading = "Retention", value_name = "SECS")]
    pub janitor_interval_secs: u64,
}

fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "full" => Ok(Durability::Full),
        "normal" => Ok(Durability::Normal),
        other => Err(format!("`{other}` is neither `full` nor `normal`")),
    }
}

impl HubArgs {
    /// Turns the flags into a configuration; reads or makes the secret file.
    ///
    /// # Errors
    /// When a named file cannot be used.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let join_secret = match (&self.join_secret, &self.join_secret_file) {
            (Some(secret), _) if !secret.trim().is_empty() => Some(secret.clone().into()),
            (_, Some(path)) => Some(secret_from_file(path)?),
            _ => None,
        };
        Ok(Config {
            name: self.name.clone(),
            url: self.url.clone(),
            public: self.public,
            db: self.db.clone(),
            blob_dir: self.blob_dir.clone(),
            retention: self.retention(),
            durability: self.durability,
            key_file: None,
            join_secret,
            limits: self.limits(),
            idle_timeout: (self.idle_timeout_secs > 0)
                .then(|| Duration::from_secs(self.idle_timeout_secs.min(wire::MAX_TTL_SECS))),
            idle_exit: None,
            allowed_origins: self.allowed_origins.clone(),
            trust_proxy_headers: self.trust_proxy_headers,
            tls: self
                .tls_cert
                .clone()
                .zip(self.tls_key.clone())
                .map(|(cert, key)| TlsFiles { cert, key }),
            metrics_addr: self.metrics_addr.clone().filter(|a| !a.trim().is_empty()),
            web: self.web.clone(),
        })
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_text_frame_bytes: self.max_text_frame_bytes,
            max_message_bytes: self.max_message_bytes,
            max_blob_bytes: self.max_blob_bytes,
            max_connections: self.max_connections,
            max_owned_rooms: self.max_owned_rooms,
            max_http_per_min: self.max_http_per_min,
            max_ops_per_min: self.max_ops_per_min,
            max_sends_per_min: self.max_sends_per_min,
            max_room_sends_per_min: self.max_room_sends_per_min,
            max_blob_dir_bytes: self.max_blob_dir_bytes,
            max_inflight_blob_bytes: self.max_inflight_blob_bytes,
            max_active_tokens: self.max_active_tokens,
            max_keyed_facts: self.max_keyed_facts,
            max_blobs_per_hour: self.max_blobs_per_hour,
            max_room_blobs_per_hour: self.max_room_blobs_per_hour,
        }
    }

    pub(crate) fn retention(&self) -> Retention {
        let days = |n: u32| (n > 0).then(|| Duration::from_secs(u64::from(n) * 86_400));
        let interval = match self.janitor_interval_secs {
            0 => wire::JANITOR_INTERVAL_SECS,
            secs => secs.min(wire::MAX_TTL_SECS),
        };
        Retention {
            messages: days(self.retention_days),
            keep_messages_per_room: self.keep_messages_per_room,
            keep_facts: u32::try_from(self.keep_facts).ok(),
            blobs: days(self.blob_ttl_days),
            interval: Duration::from_secs(interval),
        }
    }
}

/// Reads a join secret, or makes one where there is none.
pub(super) fn secret_from_file(path: &std::path::Path) -> Result<SecretString, ConfigError> {
    let broken = |reason: String| ConfigError::File {
        path: path.to_owned(),
        reason,
    };
    let read = || -> Result<Option<String>, ConfigError> {
        let bytes = keyfile::read(path).map_err(|e| broken(e.to_string()))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|_| broken("it is not text".into()))?;
        let text = text.trim().to_owned();
        Ok((!text.is_empty()).then_some(text))
    };
    if let Some(secret) = read()? {
        return Ok(secret.into());
    }
    let fresh = format!("{}\n", random::text(SECRET_ALPHABET, SECRET_LEN));
    let made = keyfile::create_once(path, fresh.as_bytes()).map_err(|e| broken(e.to_string()))?;
    if !made && read()?.is_none() {
        // It was there, and blank.
        keyfile::replace(path, fresh.as_bytes()).map_err(|e| broken(e.to_string()))?;
    }
    read()?
        .map(SecretString::from)
        .ok_or_else(|| broken("it stays empty".into()))
}
