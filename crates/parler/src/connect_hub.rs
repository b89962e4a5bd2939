//! Which hub, why that one, and the connection to it.
//!
//! Flag, `PARLER_HUB`, configuration, local hub, in this order. A join secret goes only to the hub
//! that it is set for: the one that flag, environment or configuration names. A hub that only a
//! pasted key names never gets it, however long it has been used. The secret of the identity's MCP server goes to that server's
//! hub alone.

use parler_connector::config::HubChoice;
use parler_connector::local::{LocalHub as Known, endpoint_for};
use parler_connector::tls::Authorities;
use parler_connector::{Client, ClientError, ClientOptions, Endpoint};
use parler_protocol::links;
use tokio::time::{Duration, Instant};

use crate::app::{Agent, App};
use crate::error::{CliError, CliResult, Kind};
use crate::local_hub::{self, LocalHub};
use crate::output;
use crate::output::human::line;

/// How long a local hub that lets go of its connections may take to end.
const SETTLE: Duration = Duration::from_secs(5);
/// Between two tries in that time.
const RETRY: Duration = Duration::from_millis(50);

/// A hub, before anything was dialled or started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address; absent for a local hub that never ran.
    pub url: Option<String>,
    /// Who says so.
    pub why: String,
    /// It is this user's hub on demand.
    pub local: bool,
    /// Only a pasted key names it.
    pub carried: bool,
}

/// The hub that a command uses. `carried` is what a pasted key names; without one, a session that
/// was joined by such a key is followed to its hub for as long as it is the active one.
pub fn place(app: &App, agent: &Agent, carried: Option<&str>) -> Place {
    let local = LocalHub::of(&agent.identity.base);
    let chosen = app.globals.hub.is_some() || app.cx.var("PARLER_HUB").is_some();
    let active = agent.active_hub().filter(|_| !chosen);
    let (carried, says) = match carried {
        Some(url) => (Some(url.to_owned()), "the key names it"),
        None => (active, "the active session lives there"),
    };
    let own = match &agent.effective.hub {
        HubChoice::Named { url, from, carried } => Place {
            local: local.is_at(url),
            url: Some(url.clone()),
            why: from.clone(),
            carried: *carried,
        },
        HubChoice::Local => Place {
            local: true,
            url: local.url(),
            why: "nothing else is configured: the local hub".to_owned(),
            carried: false,
        },
    };
    match carried {
        Some(url)
            if !own
                .url
                .as_deref()
                .is_some_and(|own| links::same_hub(own, &url)) =>
        {
            Place {
                local: local.is_at(&url),
                url: Some(url.trim().to_owned()),
                why: says.to_owned(),
                carried: true,
            }
        }
        _ => own,
    }
}

/// The way to a hub; starts the local one when that is it and it does not run.
///
/// # Errors
/// When the local hub cannot be started.
pub async fn endpoint(app: &App, agent: &Agent, place: &Place) -> CliResult<Endpoint> {
    let local = LocalHub::of(&agent.identity.base);
    if place.local {
        let started = tokio::task::spawn_blocking(move || local.ensure()).await;
        let found = started.map_err(|e| CliError::new(Kind::Internal, e.to_string()))??;
        return endpoint_to(app, agent, place, Some(&found));
    }
    let endpoint = endpoint_to(app, agent, place, None)?;
    if is_open(&endpoint.url) && !app.quiet {
        let what = match endpoint.secret {
            Some(_) => "the join secret and all messages go",
            None => "all messages go",
        };
        output::note_once(&format!(
            "note: {what} to {} unencrypted; use wss:// beyond this machine",
            line(&endpoint.url)
        ));
    }
    Ok(endpoint)
}

/// The way to a hub as it is known now; starts nothing. `local` is the local hub, where that is it.
///
/// # Errors
/// When the file of certificate authorities cannot be used, for a hub with TLS.
pub fn endpoint_to(
    app: &App,
    agent: &Agent,
    place: &Place,
    local: Option<&Known>,
) -> CliResult<Endpoint> {
    let url = place
        .url
        .clone()
        .or_else(|| local.map(Known::url))
        .unwrap_or_default();
    let mut endpoint = endpoint_for(&app.cx, local, &agent.effective.hub, &url);
    if endpoint.secret.is_none() && !place.carried {
        let live = agent.live.as_ref();
        endpoint.secret = live.and_then(|live| live.secret_at(&url));
    }
    endpoint.known_hubs = known_hubs(app, agent);
    if let Some(file) = (agent.effective.ca.as_deref()).filter(|_| links::is_encrypted(&url)) {
        let read = Authorities::read(file)
            .map_err(|e| CliError::new(Kind::Config, e.to_string()))
            .map_err(|e| e.hint("it is named by --ca, PARLER_CA or `ca` in config.json"))?;
        endpoint.authorities = Some(read);
    }
    Ok(endpoint)
}

/// The hubs that this agent has to do with: no other hub may have it sign a login to one of them.
pub fn known_hubs(app: &App, agent: &Agent) -> Vec<String> {
    let chosen = match &agent.effective.hub {
        HubChoice::Named { url, .. } => Some(url.clone()),
        HubChoice::Local => None,
    };
    let live = agent.live.as_ref();
    [
        chosen,
        agent.config.hub_url.clone(),
        app.cx.var("PARLER_HUB").map(str::to_owned),
        LocalHub::of(&agent.identity.base).url(),
        live.and_then(|live| live.hub.clone()),
        agent.active_hub(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether others on the way can read what goes there.
fn is_open(url: &str) -> bool {
    !links::is_encrypted(url) && !links::is_loopback(url)
}

/// The options of a client of that agent.
///
/// # Errors
/// When the key cannot be read.
pub fn options(agent: &Agent, endpoint: Endpoint) -> CliResult<ClientOptions> {
    let keys = agent
        .config
        .keys()
        .map_err(|e| CliError::new(Kind::Config, e.to_string()))?;
    let mut options = ClientOptions::new(endpoint, keys, agent.effective.name.clone());
    options.role.clone_from(&agent.effective.role);
    options.wakes = false;
    Ok(options)
}

/// Logs in to the agent's hub.
///
/// # Errors
/// Whatever keeps the hub from being reached.
pub async fn client(app: &App, agent: &Agent) -> CliResult<Client> {
    client_at(app, agent, &place(app, agent, None)).await
}

/// Logs in to a hub.
///
/// # Errors
/// Whatever keeps the hub from being reached.
pub async fn client_at(app: &App, agent: &Agent, place: &Place) -> CliResult<Client> {
    let deadline = Instant::now() + SETTLE;
    loop {
        let endpoint = endpoint(app, agent, place).await?;
        match Client::connect(options(agent, endpoint)?).await {
            Ok(client) => return Ok(client),
            // A local hub that is just stopping still listens: the next try starts a new one.
            Err(error) if place.local && error.is_outage() && Instant::now() < deadline => {
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(explain(error, place)),
        }
    }
}

/// Adds what only this side knows: that the wrong hub sits on the local hub's port, or that a
/// secret was held back from a hub that a key names.
fn explain(error: ClientError, place: &Place) -> CliError {
    match &error {
        ClientError::WrongHub { .. } if place.local => {
            let port = place.url.as_deref().and_then(|url| url.rsplit_once(':'));
            let port = port.and_then(|(_, port)| port.trim_end_matches('/').parse().ok());
            port.map_or_else(|| error.clone().into(), local_hub::stranger)
        }
        ClientError::SecretRefused { sent: false, .. } if place.carried => {
            let url = place.url.as_deref().unwrap_or_default();
            CliError::from(error.clone()).hint(format!(
                "a join secret goes only to the hub that it is set for; if you trust this one: \
                 PARLER_HUB={url} PARLER_JOIN_SECRET=… parler …"
            ))
        }
        _ => error.into(),
    }
}
