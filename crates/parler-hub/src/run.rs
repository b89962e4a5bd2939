//! `parler-hub` and `parler hub`: from flags to a running hub.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use parler_protocol::links;
use tokio::task::JoinHandle;

use crate::config::LocalHub;
use crate::state::HubState;
use crate::tls::Tls;
use crate::{Hub, HubArgs, HubError, listen};

/// Exit status when the hub could not start.
const CANNOT_START: u8 = 1;

/// Logs to standard error by `RUST_LOG`, default `info`. Harmless when somebody logs already.
pub fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}

/// Runs a hub until it is told to stop (interrupt, SIGTERM, or idle). Must be called inside a
/// multi-threaded tokio runtime.
pub async fn run_cli(args: HubArgs) -> ExitCode {
    start_logging();
    raise_descriptor_limit();
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A standard error that takes nothing (a full disk) must not turn this into a panic.
            let _ = writeln!(std::io::stderr(), "parler hub: {error}");
            ExitCode::from(CANNOT_START)
        }
    }
}

/// A connection is a descriptor, and the usual limit of 1024 is below what the hub is made for.
fn raise_descriptor_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let now = getrlimit(Resource::Nofile);
        let most = Rlimit {
            current: now.maximum,
            ..now
        };
        if let Err(error) = setrlimit(Resource::Nofile, most) {
            tracing::warn!(%error, limit = now.current, "the limit of open files stays");
        }
    }
}

async fn run(args: HubArgs) -> Result<(), HubError> {
    let stop = signalled().map_err(HubError::Signals)?;
    // Held for as long as the hub runs.
    let (_place, config, listener) = if args.local {
        let base = args
            .base
            .clone()
            .or_else(default_base)
            .ok_or(crate::ConfigError::NoHome)?;
        let mut place = LocalHub::take(&base)?;
        let config = place.config(&args)?;
        let listener = place.bind()?;
        (Some(place), config, listener)
    } else {
        let config = args.config()?;
        config.check(&args.addr)?;
        (None, config, listen::named(&args.addr)?)
    };
    let hub = Hub::open(config, listener)?;
    announce(&hub);
    let renewing = renew(Arc::clone(hub.state()))?;
    let served = hub.serve(stop).await;
    renewing.abort();
    served?;
    tracing::info!("stopped");
    Ok(())
}

fn default_base() -> Option<std::path::PathBuf> {
    std::env::home_dir()
        .filter(|home| !home.as_os_str().is_empty())
        .map(|h| h.join(".parler"))
}

fn announce(hub: &Hub) {
    let state = hub.state();
    let config = state.config();
    let door = match (&config.join_secret, config.public) {
        (Some(_), _) => "join secret",
        (None, true) => "open to all",
        (None, false) => "open on this machine",
    };
    tracing::info!(
        url = state.url(),
        dial = links::dial_url(state.url()),
        db = config.db.as_ref().map(|p| p.display().to_string()).as_deref().unwrap_or("none: forgets"),
        durability = ?config.durability,
        tls = config.tls.is_some(),
        hub = state.key().id().as_str(),
        door,
        metrics = state.metrics_addr().map(|a| a.to_string()).as_deref().unwrap_or("off"),
        "hub is up"
    );
}

/// Reads the certificate again at every SIGHUP, where there is one.
fn renew(state: Arc<HubState>) -> Result<JoinHandle<()>, HubError> {
    #[cfg(unix)]
    if state.tls().is_some() {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangup = signal(SignalKind::hangup()).map_err(HubError::Signals)?;
        return Ok(tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                match state.tls().map(Tls::reload) {
                    Some(Err(error)) => {
                        tracing::error!(%error, "the old TLS certificate stays in use");
                    }
                    _ => tracing::info!("the TLS certificate was read again"),
                }
            }
        }));
    }
    drop(state);
    Ok(tokio::spawn(std::future::ready(())))
}

/// Resolves at an interrupt or SIGTERM. Both are caught from here on, before anybody can reach the
/// hub: a stop right after the start ends as well as a later one.
fn signalled() -> std::io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    {
        Ok(async {
            let _ = tokio::signal::ctrl_c().await;
        })
    }
}
