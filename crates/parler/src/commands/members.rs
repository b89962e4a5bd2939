//! `parler session requests|approve|deny`, `parler remove`, `parler transfer`: what an owner
//! decides. Agents are named by id: names are claims.

use parler_connector::Client;
use parler_protocol::ids::short_id;
use parler_protocol::{AgentId, JoinRequest};
use serde_json::json;

use crate::app::App;
use crate::connect_hub;
use crate::error::{CliError, CliResult, Kind};
use crate::output::human::{line, name, place};

/// Which room.
#[derive(clap::Args)]
pub struct RoomArgs {
    /// The room [default: the active session]
    #[arg(long)]
    pub room: Option<String>,
}

/// An agent and a room.
#[derive(clap::Args)]
pub struct AgentArgs {
    /// The agent's id, whole (`parler session requests` and `parler roster --json` show it)
    pub agent: String,
    #[command(flatten)]
    pub room: RoomArgs,
}

/// Remove a member from a room that you own.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  parler remove UAB2… --room auth --ban")]
pub struct RemoveArgs {
    #[command(flatten)]
    pub who: AgentArgs,
    /// It may not come back
    #[arg(long)]
    pub ban: bool,
}

/// Lists who waits.
pub async fn requests(app: &App, args: RoomArgs) -> CliResult {
    let agent = app.agent(None)?;
    let room = agent.room(args.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    let requests = client.join_requests(&room).await?;
    client.close().await;
    let text = match requests.as_slice() {
        [] => format!("nobody waits to be let into {}", place(&room)),
        waiting => {
            let rows: Vec<String> = waiting.iter().map(row).collect();
            format!(
                "waiting to be let into {}:\n{}\nlet in with: parler session approve ID",
                place(&room),
                rows.join("\n")
            )
        }
    };
    app.out
        .both(&text, &json!({ "room": room, "requests": requests }))
}

/// The id first, where no name can push another one into its place.
fn row(request: &JoinRequest) -> String {
    let role = request.role.as_deref();
    let role = role.map(|role| format!(" ({})", name(role)));
    format!(
        "  {} {}{}",
        line(&request.agent),
        name(&request.name),
        role.unwrap_or_default()
    )
}

/// Lets in or refuses.
pub async fn resolve(app: &App, args: AgentArgs, approve: bool) -> CliResult {
    let (room, id) = on_member(app, &args, async |client: &Client, room: &str, id: &str| {
        client.resolve_join(room, id, approve).await
    })
    .await?;
    let done = if approve { "let into" } else { "refused in" };
    let text = format!("…{} is {done} {}", short_id(&id), place(&room));
    let answer = json!({ "room": room, "agent": id, "approved": approve });
    app.out.both(&text, &answer)
}

/// Removes.
pub async fn remove(app: &App, args: RemoveArgs) -> CliResult {
    let ban = args.ban;
    let (room, id) = on_member(
        app,
        &args.who,
        async |client: &Client, room: &str, id: &str| client.remove_member(room, id, ban).await,
    )
    .await?;
    let text = format!("…{} is out of {}", short_id(&id), place(&room));
    app.out
        .both(&text, &json!({ "room": room, "agent": id, "ban": ban }))
}

/// Passes the room on.
pub async fn transfer(app: &App, args: AgentArgs) -> CliResult {
    let (room, id) = on_member(app, &args, async |client: &Client, room: &str, id: &str| {
        client.transfer_owner(room, id).await
    })
    .await?;
    let text = format!("…{} owns {} now", short_id(&id), place(&room));
    app.out.both(&text, &json!({ "room": room, "agent": id }))
}

/// Does something to an agent in a room; both as they were meant.
async fn on_member(
    app: &App,
    args: &AgentArgs,
    act: impl AsyncFnOnce(&Client, &str, &str) -> Result<(), parler_connector::ClientError>,
) -> CliResult<(String, String)> {
    let id = AgentId::parse(args.agent.trim()).ok_or_else(|| {
        CliError::new(
            Kind::Usage,
            format!("'{}' is not the id of an agent", line(&args.agent)),
        )
        .hint("ids are 56 characters and begin with U: see parler session requests, parler roster --json")
    })?;
    let agent = app.agent(None)?;
    let room = agent.room(args.room.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    act(&client, &room, id.as_str()).await?;
    client.close().await;
    Ok((room, id.to_string()))
}
