//! `parler session open|join|close`.

use parler_connector::{Client, Outgoing};
use parler_protocol::links::portable_key;
use parler_protocol::{Invite, Part, RoomKind};
use serde_json::json;

use super::join::{self, Entrance};
use super::members;
use super::token;
use crate::app::{Agent, App};
use crate::connect_hub;
use crate::error::CliResult;
use crate::output::human::{line, place, shell_word};
use crate::text;

/// Open, join or leave a session: a room where agents pass the turn.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Sub,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Open a session and print the key by which others join
    Open(OpenArgs),
    /// Join a session by its key; shows what was said so far
    Join(JoinArgs),
    /// Leave the active session: says so in the room; the room stays
    Close(CloseArgs),
    /// List who waits to be let into a session of yours
    Requests(members::RoomArgs),
    /// Let an agent in that waits
    Approve(members::WaitingArgs),
    /// Refuse an agent that waits
    Deny(members::WaitingArgs),
    /// Make a link by which a person watches a session of yours
    Watch(token::WatchArgs),
    /// Make a link by which a person decides for you, the owner
    Admin(token::AdminArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  parler session open --as planner --topic auth --context \"OAuth callback, see docs/auth.md\""
)]
struct OpenArgs {
    /// What it is about; becomes the room's name [default: a random one]
    #[arg(long)]
    topic: Option<String>,
    /// What everybody who joins should know; becomes the first message
    #[arg(long)]
    context: Option<String>,
    /// Your role
    #[arg(long)]
    role: Option<String>,
    /// Decide on everybody who wants in
    #[arg(long)]
    approval: bool,
    /// No approval (the default)
    #[arg(long, hide = true, conflicts_with = "approval")]
    no_approval: bool,
    /// Seconds that the key is good for
    #[arg(long, value_name = "SECS", default_value_t = parler_protocol::limits::DEFAULT_INVITE_TTL_SECS)]
    ttl: u64,
    /// How many may join by it
    #[arg(long, value_name = "N", default_value_t = parler_protocol::limits::DEFAULT_INVITE_USES)]
    max_uses: u32,
}

#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  parler session join A3KELDJR@parler://127.0.0.1:7070 --as webdev --role frontend"
)]
struct JoinArgs {
    /// The key that `session open` printed
    key: String,
    /// Your role
    #[arg(long)]
    role: Option<String>,
    #[command(flatten)]
    entrance: Entrance,
    /// Go on reading after the backlog, like recv --watch
    #[arg(long, conflicts_with = "once")]
    follow: bool,
    /// Show the backlog and return (the default)
    #[arg(long, hide = true)]
    once: bool,
    /// Accepted for older scripts; joining never starts a worker
    #[arg(long, hide = true)]
    passive: bool,
}

#[derive(clap::Args)]
struct CloseArgs {
    /// The room [default: the active session]
    #[arg(long)]
    room: Option<String>,
}

impl Args {
    /// Whether it may take as long as it takes.
    pub fn waits(&self) -> bool {
        match &self.command {
            Sub::Join(args) => args.follow || args.entrance.waits(),
            _ => false,
        }
    }
}

/// Runs it.
pub async fn run(app: &App, args: Args) -> CliResult {
    match args.command {
        Sub::Open(args) => open(app, args).await,
        Sub::Join(args) => {
            let role = args.role.as_deref();
            join::by_key(app, &args.key, role, &args.entrance, args.follow).await
        }
        Sub::Close(args) => close(app, args).await,
        Sub::Requests(args) => members::requests(app, args).await,
        Sub::Approve(args) => members::resolve(app, args, true).await,
        Sub::Deny(args) => members::resolve(app, args, false).await,
        Sub::Watch(args) => token::watch(app, args).await,
        Sub::Admin(args) => token::admin(app, args).await,
    }
}

async fn open(app: &App, args: OpenArgs) -> CliResult {
    let agent = app.agent(args.role.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    let invite = Invite {
        kind: RoomKind::Channel,
        room: args.topic,
        ttl_secs: Some(args.ttl),
        max_uses: Some(args.max_uses),
        require_approval: args.approval,
    };
    let invited = client.invite(invite).await?;
    if let Some(context) = args
        .context
        .as_deref()
        .filter(|text| !text.trim().is_empty())
    {
        say_context(&agent, &client, &invited.room, context).await?;
    }
    agent.set_active(Some(&invited.room))?;
    // Only shown to others: no reason to fail.
    let _ = client.presence("working", None, None).await;
    let key = portable_key(&invited.code, client.hub_url());
    client.close().await;
    let name = line(&agent.effective.name);
    let gate = if args.approval {
        "You decide on everybody who wants in: parler session requests\n"
    } else {
        ""
    };
    let text = format!(
        "{} is open, you are {} in it\n{gate}\n{}\n\n\
         The other agent joins with\n  parler session join {key} --as NAME --role ROLE\n\
         or, in Claude Code with parler connected, is told: join the Parler session {key}\n\n\
         Hand the turn over with\n  parler handoff --for NAME --summary \"…\" --next \"…\"",
        place(&invited.room),
        app.out.paint.strong(&name),
        app.out.paint.strong(&format!("KEY: {key}")),
    );
    app.out.both(
        &text,
        &json!({
            "room": invited.room, "code": invited.code, "key": key, "url": invited.url,
            "expiresAt": invited.expires_at, "id": agent.config.id, "name": agent.effective.name,
            "approval": args.approval,
        }),
    )
}

/// The session's seed, which everybody who joins sees first.
async fn say_context(agent: &Agent, client: &Client, room: &str, context: &str) -> CliResult {
    let seed = text::session_context(&agent.effective.name, context);
    client
        .send(Outgoing::to_room(room, vec![Part::text(seed)]))
        .await?;
    Ok(())
}

async fn close(app: &App, args: CloseArgs) -> CliResult {
    let agent = app.agent(None)?;
    let room = agent.room(args.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    let goodbye = text::left(&agent.effective.name);
    client.send(Outgoing::text(&room, goodbye)).await?;
    let _ = client.presence("idle", None, None).await;
    client.close().await;
    if agent.active().as_deref() == Some(room.as_str()) {
        agent.set_active(None)?;
    }
    let text = format!(
        "left {}; the room stays, and can be read with --room {}",
        place(&room),
        shell_word(&room)
    );
    app.out.both(&text, &json!({ "room": room }))
}
