//! `parler mcp`: the MCP server of one session of an agent host.
//!
//! Chooses the identity and holds it, tells hooks and shell commands of the same session who they
//! are, and gives the server its doorbells. The hub is looked for (and started, when it is the
//! local one) at the first use: `initialize` never waits for it.

use std::sync::{Arc, Mutex, PoisonError};

use parler_connector::doorbell::Doorbell;
use parler_connector::home::Kind as Program;
use parler_connector::registry::{Entry, Registry};
use parler_connector::{ClientOptions, Endpoint};
use parler_mcp::{Card, HostInfo, Locate, McpOptions, OnHost};

use crate::app::{Agent, App};
use crate::connect_hub::{self, Place};
use crate::error::{CliError, CliResult, Kind};
use crate::hosts::claude_code::inbox::Inbox;
use crate::live::Live;
use crate::local_hub::LocalHub;

/// Serve the Model Context Protocol on standard input and output (for agent hosts).
#[derive(clap::Args)]
#[command(after_help = "In Claude Code, by hand:\n  claude mcp add parler -- parler mcp")]
pub struct Args {}

/// Serves until the host closes standard input.
pub async fn run(app: &App, _args: Args) -> CliResult {
    log_to_stderr();
    let identity = app.identity(Program::Mcp)?;
    // What an earlier server left behind, should it have been killed, says nothing any more.
    Live::remove(&identity.home);
    let agent = app.agent_of(identity, None)?;
    let seat = Seat::take(app, &agent)?;
    let options = options(app, &agent, &seat)?;
    let served = parler_mcp::serve_stdio(options).await;
    seat.leave();
    served.map_err(|e| CliError::new(Kind::Internal, e.to_string()))
}

fn options(app: &App, agent: &Agent, seat: &Arc<Seat>) -> CliResult<McpOptions> {
    let place = connect_hub::place(app, agent, None);
    let identity = &agent.identity;
    let guess = Endpoint::new(place.url.clone().unwrap_or_default());
    let mut client: ClientOptions = connect_hub::options(agent, guess)?;
    client.wakes = true;
    let mut options = McpOptions::new(client, app.cx.clone(), &identity.home, &identity.base);
    options.session_key = app.cx.var("PARLER_SESSION_KEY").map(str::to_owned);
    options.session_id = identity.session.as_ref().and_then(|s| s.session_id.clone());
    options.doorbells = doorbells(app);
    options.locate = Some(locate(app, agent, place.clone())?);
    let told = Arc::clone(seat);
    let on_host: OnHost = Arc::new(move |host| told.hear(host));
    options.on_host = Some(on_host);
    options.card = (!app.cx.truthy("PARLER_NO_REGISTER")).then(|| card(app));
    options.presence_managed = app.cx.truthy("PARLER_PRESENCE_MANAGED");
    options.auto_take = app.cx.var("PARLER_AUTO_TAKE") != Some("0");
    options.verbose = app.cx.truthy("PARLER_MCP_VERBOSE");
    options.hub_label = match place.local {
        true => "local hub".to_owned(),
        false => place.url.unwrap_or_default(),
    };
    options.identity_rule = identity.rule.to_string();
    Ok(options)
}

/// What the environment says that the agent's card is to say.
fn card(app: &App) -> Card {
    let list = |name: &str| {
        let words = app.cx.var(name).unwrap_or_default();
        words
            .split(|c: char| c == ',' || c.is_whitespace())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let mut card = Card::default();
    card.about.description = app.cx.var("PARLER_DESCRIBE").map(str::to_owned);
    card.about.tags = list("PARLER_TAGS");
    card.about.skills = list("PARLER_SKILLS");
    card.public = app.cx.truthy("PARLER_PUBLIC");
    card
}

/// The ways to open a turn in the session that started this server.
fn doorbells(app: &App) -> Vec<Arc<dyn Doorbell>> {
    let inbox = Inbox::of(&app.cx).map(|inbox| Arc::new(inbox) as Arc<dyn Doorbell>);
    inbox.into_iter().collect()
}

/// Finds the hub whenever the server asks: the local one may have stopped, and is started again.
fn locate(app: &App, agent: &Agent, place: Place) -> CliResult<Locate> {
    let local = LocalHub::of(&agent.identity.base);
    if !place.local {
        let endpoint = connect_hub::endpoint_to(app, agent, &place, None)?;
        return Ok(Arc::new(move || {
            let endpoint = endpoint.clone();
            Box::pin(async move { Ok(endpoint) })
        }));
    }
    let known = connect_hub::known_hubs(app, agent);
    Ok(Arc::new(move || {
        let (local, known) = (local.clone(), known.clone());
        Box::pin(async move {
            let started = tokio::task::spawn_blocking(move || local.ensure()).await;
            let found = started
                .map_err(|e| e.to_string())?
                .map_err(|e| match e.hint {
                    Some(hint) => format!("{} ({hint})", e.message),
                    None => e.message,
                })?;
            let mut endpoint = found.endpoint();
            endpoint.known_hubs = known;
            Ok(endpoint)
        })
    }))
}

/// This server's place among the sessions of the machine, for as long as it serves.
struct Seat {
    registry: Registry,
    home: std::path::PathBuf,
    entry: Mutex<Option<Entry>>,
}

impl Seat {
    fn take(app: &App, agent: &Agent) -> CliResult<Arc<Seat>> {
        let registry = Registry::open(&app.cx, &agent.identity.base);
        let mut entry = agent.identity.entry.clone();
        if let Some(entry) = &mut entry {
            entry.inbox_socket = Inbox::of(&app.cx).is_some();
            registry
                .put(entry)
                .map_err(|e| CliError::new(Kind::Config, e.to_string()))?;
        }
        Live::of(&app.cx, &agent.config, &agent.effective.hub)
            .write(&agent.identity.home)
            .map_err(|e| CliError::new(Kind::Config, e.to_string()))?;
        Ok(Arc::new(Seat {
            registry,
            home: agent.identity.home.clone(),
            entry: Mutex::new(entry),
        }))
    }

    /// The host told more about itself: its hooks will name that session. The identity stays: this
    /// server may have acted as it already.
    fn hear(&self, host: &HostInfo) {
        let mut held = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(entry), Some(id)) = (held.as_mut(), host.session_id()) else {
            return;
        };
        if let Err(error) = self.registry.name_session(entry, id) {
            tracing::warn!(%error, "hooks of this session will not find its identity");
        }
    }

    fn leave(&self) {
        Live::remove(&self.home);
        if let Some(entry) = &*self.entry.lock().unwrap_or_else(PoisonError::into_inner) {
            self.registry.retire(entry);
        }
    }
}

/// Standard output belongs to the protocol.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}
