//! The Parler hub: a relay with a durable log, for agents that take turns.
//!
//! [`Hub::open`] takes a configuration and a bound listener, [`Hub::serve`] runs until it is told
//! to stop; tests and the binaries use the same two. A request's path: `http` upgrades,
//! [`conn`] reads frames and keeps their order, [`ops`] does one op each, the store commits, the
//! [`bus`] tells [`fanout`] and [`waiters`].
#![warn(missing_docs)]

pub mod addresses;
pub mod authz;
pub mod blobs;
pub mod bus;
pub mod config;
pub mod conn;
pub mod counts;
pub mod defaults;
pub mod error;
pub mod fanout;
pub mod guesses;
pub mod http;
pub mod hubkey;
pub mod janitor;
pub mod listen;
pub mod live;
pub mod ops;
pub mod presence;
pub mod random;
pub mod rate;
mod run;
pub mod stall;
pub mod state;
pub mod tally;
pub mod tls;
pub mod turns;
pub mod waiters;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use parler_store::Store;
use parler_store_sqlite::{OpenOptions, SqliteStore};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use config::{Config, ConfigError, HubArgs, Limits, LocalHub};
pub use run::{run_cli, start_logging};
use state::HubState;

/// Why a hub could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store.
    #[error(transparent)]
    Store(#[from] parler_store::StoreError),
    /// The folder of blobs.
    #[error("cannot keep blobs in {dir}: {reason}")]
    Blobs {
        /// The folder.
        dir: std::path::PathBuf,
        /// Why.
        reason: String,
    },
    /// The hub's own key.
    #[error("the hub's key: {0}")]
    Key(String),
    /// The system's signals.
    #[error("cannot listen to signals: {0}")]
    Signals(std::io::Error),
    /// The listening socket.
    #[error("cannot listen on {addr}: {source} (another hub there? choose another --addr)")]
    Listen {
        /// The address.
        addr: String,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Milliseconds since the epoch.
#[must_use]
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// An opened hub that is not serving yet.
pub struct Hub {
    state: Arc<HubState>,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    store: Arc<SqliteStore>,
    bus: JoinHandle<()>,
}

impl Hub {
    /// Opens store and key; nothing is served yet. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When something of it cannot be used; the message names it and the next step.
    pub fn open(config: Config, listener: TcpListener) -> Result<Self, HubError> {
        let addr = listener.local_addr().map_err(|source| HubError::Listen {
            addr: "the listener".into(),
            source,
        })?;
        config.check(&addr.to_string())?;
        let tls = config.tls.clone().map(tls::Tls::load).transpose()?;
        let metrics = config.metrics_addr.as_deref().map(listen::named);
        let metrics = metrics.transpose()?;
        let metrics_addr = metrics.as_ref().and_then(|m| m.local_addr().ok());
        let (sender, receiver) = bus::bus();
        let note = serde_json::json!({
            "pid": std::process::id(), "addr": addr.to_string(), "started": now_ms(),
        });
        let store = Arc::new(SqliteStore::open(OpenOptions {
            path: config.db.clone(),
            durability: config.durability,
            sink: Arc::new(sender),
            lock_note: note.to_string(),
        })?);
        let key = hubkey::load(config.key_path().as_deref())?;
        let dyn_store: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
        let blobs = blobs::Blobs::open(&config, Arc::clone(&dyn_store))?;
        let listeners = bus::Listeners::default();
        let bus = tokio::spawn(receiver.run(listeners.clone()));
        let state = HubState::new(
            config,
            addr,
            key,
            dyn_store,
            blobs,
            listeners,
            tls,
            metrics_addr,
        );
        Ok(Hub {
            state: Arc::new(state),
            listener,
            metrics,
            store,
            bus,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The handle, for those who look in.
    #[must_use]
    pub fn state(&self) -> &Arc<HubState> {
        &self.state
    }

    /// Serves until `shutdown` resolves; then answers parked pulls, closes every connection with a
    /// Close frame, commits, and closes the listener last.
    ///
    /// # Errors
    /// When the store cannot be closed cleanly.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), HubError> {
        let Hub {
            state,
            listener,
            metrics,
            store,
            bus,
        } = self;
        // What ran out while the hub was away is so before anybody asks.
        turns::settle(&state).await;
        state.tallies().begin(&*store).await?;
        let measured = serve_metrics(metrics, &state, &store);
        let router = http::router(Arc::clone(&state));
        state.blobs().recover().await;
        let proxied = state.config().trust_proxy_headers;
        let serving = http::accept::serve(Some(Arc::clone(&state)), listener, router, proxied);
        let presence = flush_presence(Arc::clone(&state));
        let janitor = janitor::run(Arc::clone(&state));
        let alarm = turns::alarm(Arc::clone(&state));
        let announcer = turns::announce(Arc::clone(&state));
        let uploads = sweep_uploads(Arc::clone(&state));
        let stopped = async {
            tokio::select! {
                () = shutdown => {}
                () = idle(&state) => tracing::info!("no connections for a while: stopping"),
            }
            stop(&state).await;
            state.blobs().close();
            store.close().await
        };
        tokio::select! {
            result = stopped => {
                bus.abort();
                Ok(result?)
            }
            never = serving => match never {},
            never = measured => match never {},
            () = presence => unreachable!("the flush loop runs for ever"),
            () = janitor => unreachable!("the janitor runs for ever"),
            () = alarm => unreachable!("the alarm is set for ever"),
            () = announcer => unreachable!("turns are announced for ever"),
            () = uploads => unreachable!("the sweep runs for ever"),
        }
    }
}

async fn serve_metrics(
    listener: Option<TcpListener>,
    hub: &Arc<HubState>,
    store: &Arc<SqliteStore>,
) -> std::convert::Infallible {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let measured = http::metrics::Measured {
        hub: Arc::clone(hub),
        store: Arc::clone(store),
    };
    http::accept::serve(None, listener, http::metrics::router(measured), false).await
}

async fn stop(state: &Arc<HubState>) {
    state.stop();
    let ended = async {
        while state.live_connections() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(defaults::STOP_TIMEOUT, ended)
        .await
        .is_err()
    {
        tracing::warn!(
            left = state.live_connections(),
            "connections did not end in time"
        );
    }
    state.heard().flush(state.store()).await;
}

async fn flush_presence(state: Arc<HubState>) {
    let mut tick = tokio::time::interval(defaults::PRESENCE_FLUSH);
    loop {
        tick.tick().await;
        state.heard().flush(state.store()).await;
    }
}

/// Throws away what uploads left behind.
async fn sweep_uploads(state: Arc<HubState>) {
    let mut tick = tokio::time::interval(defaults::UPLOAD_SWEEP);
    loop {
        tick.tick().await;
        state.blobs().slots().sweep();
    }
}

/// Resolves when there were no connections for `idle_exit`.
async fn idle(state: &HubState) {
    let Some(limit) = state.config().idle_exit else {
        return std::future::pending().await;
    };
    let step = (limit / 60).max(std::time::Duration::from_millis(100));
    let mut quiet_since = tokio::time::Instant::now();
    let mut seen = state.connections_total();
    loop {
        tokio::time::sleep(step).await;
        let total = state.connections_total();
        if state.live_connections() > 0 || total != seen {
            seen = total;
            quiet_since = tokio::time::Instant::now();
        } else if quiet_since.elapsed() >= limit {
            return;
        }
    }
}
