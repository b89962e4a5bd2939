//! `parler room`: settings of a room, the loop guard, whom a name means.

use parler_protocol::{AgentId, RoomPolicy, SetRoomPolicy};
use serde_json::json;

use super::members::RoomArgs;
use crate::app::App;
use crate::connect_hub;
use crate::error::{CliError, CliResult};
use crate::output::human::{line, name, place};

/// Look at or change the settings of a room.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler room policy\n  parler room policy --hop-limit 20\n  parler room guard reset"
)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

/// What of it.
#[derive(clap::Subcommand)]
pub enum What {
    /// Show the settings; with flags, change them (for the owner)
    Policy(PolicyArgs),
    /// The guard against agents that wake each other for ever
    Guard {
        #[command(subcommand)]
        act: Guard,
    },
    /// Say whom a name means in the room (for the owner)
    BindName {
        /// The name
        name: String,
        /// The id of the agent that it means
        agent: String,
        #[command(flatten)]
        room: RoomArgs,
    },
}

/// Settings.
#[derive(clap::Args)]
pub struct PolicyArgs {
    #[command(flatten)]
    pub room: RoomArgs,
    /// Messages in one chain before it wakes nobody any more
    #[arg(long, value_name = "N")]
    pub hop_limit: Option<u32>,
    /// Handoffs in one chain before it wakes nobody any more
    #[arg(long, value_name = "N")]
    pub handoff_hop_limit: Option<u32>,
    /// Whether the owner decides on each joiner
    #[arg(long, value_name = "true|false")]
    pub require_approval: Option<bool>,
}

/// What is done with the guard.
#[derive(clap::Subcommand)]
pub enum Guard {
    /// Let go what it held back, and count from here
    Reset(RoomArgs),
}

/// Does it.
pub async fn run(app: &App, args: Args) -> CliResult {
    match args.what {
        What::Policy(args) => {
            let set = SetRoomPolicy {
                room: String::new(),
                hop_limit: args.hop_limit,
                handoff_hop_limit: args.handoff_hop_limit,
                require_approval: args.require_approval,
                reset: None,
            };
            let policy = policy(app, &args.room, set).await?;
            app.out.both(&shown(&policy), &policy)
        }
        What::Guard {
            act: Guard::Reset(room),
        } => {
            let set = SetRoomPolicy {
                room: String::new(),
                hop_limit: None,
                handoff_hop_limit: None,
                require_approval: None,
                reset: Some(true),
            };
            let policy = policy(app, &room, set).await?;
            let text = format!("the guard of {} counts from here", place(&policy.room));
            app.out.both(&text, &policy)
        }
        What::BindName { name, agent, room } => bind(app, &name, &agent, &room).await,
    }
}

async fn policy(app: &App, room: &RoomArgs, set: SetRoomPolicy) -> CliResult<RoomPolicy> {
    let agent = app.agent(None)?;
    let room = agent.room(room.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    let policy = client.room_policy(SetRoomPolicy { room, ..set }).await?;
    client.close().await;
    Ok(policy)
}

fn shown(policy: &RoomPolicy) -> String {
    let approval = match policy.require_approval {
        true => "the owner decides on each joiner",
        false => "whoever has a code gets in",
    };
    format!(
        "{}: a chain wakes nobody after {} messages or {} handoffs; {approval}",
        place(&policy.room),
        policy.hop_limit,
        policy.handoff_hop_limit
    )
}

async fn bind(app: &App, bound: &str, agent_id: &str, room: &RoomArgs) -> CliResult {
    let id = AgentId::parse(agent_id.trim()).ok_or_else(|| {
        CliError::usage(format!("'{}' is not the id of an agent", line(agent_id)))
            .hint("ids are 56 characters and begin with U: see parler roster --json")
    })?;
    let agent = app.agent(None)?;
    let room = agent.room(room.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    client.bind_name(&room, bound, id.as_str()).await?;
    client.close().await;
    let text = format!("'{}' means {} in {}", name(bound), id, place(&room));
    app.out
        .both(&text, &json!({ "room": room, "name": bound, "agent": id }))
}
