//! Parler as an MCP server: the tools by which a model talks to a hub, over standard input and
//! output.
//!
//! [`serve_stdio`] is the whole of it for a program. Nothing waits for a hub at the start; the
//! first tool that needs one finds it. While a session is active the server listens, and rings the
//! doorbells it was given when something is for the agent and the model does not look by itself.
//!
//! It knows no agent host, prints nothing (standard output carries JSON-RPC alone, logs go through
//! `tracing`), and keeps every type of the protocol library to itself.
#![warn(missing_docs)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod activity;
mod agent;
mod args;
mod backlog;
mod card;
mod consumer;
mod delivery;
mod error;
mod heard;
mod holding;
mod inbox;
mod lead;
mod ledger;
mod listener;
mod presence;
mod ring;
mod rpc;
mod schema;
mod server;
mod session;
mod startup;
mod state;
mod stdio;
mod text;
mod tools;
mod turns;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parler_connector::ClientOptions;
use parler_connector::config::Config;
use parler_connector::context::Context;
use parler_connector::doorbell::{Doorbell, Ladder};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use agent::Locate;
pub use card::Card;
pub use error::McpError;

use activity::Activity;
use agent::{Agent, Remember};
use consumer::Consumer;
use delivery::Deliveries;
use ledger::Ledger;
use listener::Listener;
use server::Server;
use session::Session;
use state::Tools;
use stdio::LineTransport;
use turns::Turns;

/// How long what was shown may take to be told to the hub at the end.
const LAST_COMMITS: Duration = Duration::from_millis(400);
/// How long the connection may take to end in good order.
const LAST_GOODBYE: Duration = Duration::from_millis(300);

/// Told who the host is: at `initialize`, and again whenever it says more.
pub type OnHost = Arc<dyn Fn(&HostInfo) + Send + Sync>;

/// Who started this server, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInfo {
    /// `clientInfo.name`; empty before it was told.
    pub client_name: String,
    /// `clientInfo.version`.
    pub client_version: String,
    /// What `_meta` of its requests says about its session: `threadId`, `sessionId`.
    pub ids: Vec<(String, String)>,
}

impl HostInfo {
    /// The host's own id of the session, if it told one.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.ids.first().map(|(_, id)| id.as_str())
    }
}

/// Everything that a server is made of.
#[non_exhaustive]
pub struct McpOptions {
    /// The hub and the agent. With [`McpOptions::locate`] the endpoint in here is only a first
    /// guess.
    pub client: ClientOptions,
    /// What this process was started with.
    pub context: Context,
    /// Home of the agent: its config and the active session.
    pub home: PathBuf,
    /// The base home, where the once-ledger and the locks are.
    pub base: PathBuf,
    /// A session to join at the start (`PARLER_SESSION_KEY`).
    pub session_key: Option<String>,
    /// The host's id of the session that started this server, where the environment tells it.
    pub session_id: Option<String>,
    /// Ways to open a turn in that session, best first.
    pub doorbells: Vec<Arc<dyn Doorbell>>,
    /// Finds the hub, and starts it where it is one on demand: asked before the first use, and
    /// again when nothing answers. `None`: the hub is where `client` says.
    pub locate: Option<Locate>,
    /// Told who the host is.
    pub on_host: Option<OnHost>,
    /// The card to publish; `None`: none (`PARLER_NO_REGISTER`).
    pub card: Option<Card>,
    /// Somebody else says how this agent is (`PARLER_PRESENCE_MANAGED`).
    pub presence_managed: bool,
    /// A turn that names the agent is taken when its model is shown it (`PARLER_AUTO_TAKE`).
    pub auto_take: bool,
    /// Nothing that is shown is cut (`PARLER_MCP_VERBOSE`).
    pub verbose: bool,
    /// How people call the hub, for messages about it; for example `local hub`.
    pub hub_label: String,
    /// Which rule chose this identity, for messages about it.
    pub identity_rule: String,
}

impl McpOptions {
    /// Options of a server without doorbells, session or host.
    pub fn new(
        client: ClientOptions,
        context: Context,
        home: impl Into<PathBuf>,
        base: impl Into<PathBuf>,
    ) -> Self {
        McpOptions {
            client,
            context,
            home: home.into(),
            base: base.into(),
            session_key: None,
            session_id: None,
            doorbells: Vec::new(),
            locate: None,
            on_host: None,
            card: None,
            presence_managed: false,
            auto_take: true,
            verbose: false,
            hub_label: String::new(),
            identity_rule: String::new(),
        }
    }
}

/// Serves the host on standard input and output until it closes the input.
///
/// Returns within two seconds of that, whatever the hub does. A read of standard input may still
/// be parked when it returns for another reason: end the process, do not wait for its threads.
///
/// # Errors
/// See [`McpError`].
pub async fn serve_stdio(options: McpOptions) -> Result<(), McpError> {
    serve(options, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves a host over any two byte streams; see [`serve_stdio`].
///
/// # Errors
/// See [`McpError`].
pub async fn serve<R, W>(options: McpOptions, input: R, output: W) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let closing = CancellationToken::new();
    let deliveries = Arc::new(Deliveries::new());
    let outgoing = TaskTracker::new();
    let ladder = Arc::new(Ladder::new(options.doorbells.clone()));
    let tools = Arc::new(tools(&options));
    let mut background = background(&options, &tools, &ladder);
    let server = Server {
        tools: Arc::clone(&tools),
        ladder,
        deliveries: Arc::clone(&deliveries),
        outgoing: outgoing.clone(),
        closing: closing.clone(),
        on_host: options.on_host,
        host: Mutex::default(),
        listed: server::listed(),
    };
    let transport = LineTransport::new(input, output, deliveries, closing.clone());
    // The library's own handshake loop ends the process at the first unexpected message; this way
    // `initialize` is a request like any other.
    let running = rmcp::service::serve_directly(server, transport, None);
    let ended = running.waiting().await;
    closing.cancel();
    background.shutdown().await;
    outgoing.close();
    // Best effort: what is not committed in time is shown again, not lost.
    let _ = timeout(LAST_COMMITS, outgoing.wait()).await;
    tools.let_go_of_turns().await;
    let _ = timeout(LAST_GOODBYE, tools.agent.close()).await;
    ended
        .map(drop)
        .map_err(|error| McpError::Stopped(error.to_string()))
}

fn tools(options: &McpOptions) -> Tools {
    let mut client = options.client.clone();
    // The hub tells others whether this agent can be woken.
    client.wakes &= !options.doorbells.is_empty();
    client.turns = true;
    let agent = Agent::new(
        client,
        options.locate.clone(),
        Some(remember(options.home.clone())),
    );
    let consumer = Consumer::new(
        options.context.clone(),
        options.base.clone(),
        agent.id(),
        options.session_id.clone(),
    );
    let session = Session::new(options.home.clone());
    tracing::info!(
        agent = agent.id(),
        hub = options.hub_label,
        identity = options.identity_rule,
        "serving"
    );
    let ledger = Ledger::open(&options.base, &agent.id());
    Tools::new(
        agent,
        session,
        consumer,
        ledger,
        Activity::new(),
        Turns::new(options.auto_take),
        options.verbose,
    )
}

/// Keeps a name and a role in the agent's config, if it has one.
fn remember(home: PathBuf) -> Remember {
    Arc::new(move |name, role| {
        let failed = |error: parler_connector::config::ConfigError| {
            format!("the name cannot be kept: {error}")
        };
        if Config::load(&home).map_err(failed)?.is_none() {
            return Ok(());
        }
        let change = |config: &mut Config| {
            config.name = name.to_owned();
            config.role = role.map(str::to_owned);
        };
        Config::update(&home, change).map(drop).map_err(failed)
    })
}

/// What runs beside the calls, until the set is shut down.
fn background(options: &McpOptions, tools: &Arc<Tools>, ladder: &Arc<Ladder>) -> JoinSet<()> {
    let mut background = JoinSet::new();
    let listener = Listener {
        tools: Arc::clone(tools),
        ladder: Arc::clone(ladder),
        home: options.home.clone(),
    };
    background.spawn(listener.run());
    let renewed = Arc::clone(tools);
    background.spawn(async move { renewed.renew_leases().await });
    if !options.presence_managed {
        background.spawn(presence::publish(Arc::clone(tools)));
    }
    if let Some(card) = options.card.clone() {
        background.spawn(card::publish(Arc::clone(tools), card));
    }
    if let Some(key) = options.session_key.clone() {
        tools.starting(true);
        let tools = Arc::clone(tools);
        background.spawn(async move { startup::join(&tools, &key).await });
    }
    background
}
