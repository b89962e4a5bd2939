//! `parler session requests|approve|deny`, `parler remove`, `parler transfer`: what an owner
//! decides.
//!
//! Members may be called by a name that only one of them has. Who waits is named by its whole id:
//! anybody can ask to be let in under any name.

use parler_connector::Client;
use parler_connector::addressee::{Candidate, Scope};
use parler_protocol::ids::short_id;
use parler_protocol::{AgentId, JoinRequest};
use serde_json::json;

use super::target;
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

/// Who waits, and for which room.
#[derive(clap::Args)]
pub struct WaitingArgs {
    /// The agent's id, whole (`parler session requests` shows it)
    pub agent: String,
    #[command(flatten)]
    pub room: RoomArgs,
}

/// A member and a room.
#[derive(clap::Args)]
pub struct MemberArgs {
    /// The member: its id or the end of it, or its name when only one has it
    pub agent: String,
    #[command(flatten)]
    pub room: RoomArgs,
}

/// Remove a member from a room that you own.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  parler remove UAB2… --room auth --ban")]
pub struct RemoveArgs {
    #[command(flatten)]
    pub who: MemberArgs,
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
pub async fn resolve(app: &App, args: WaitingArgs, approve: bool) -> CliResult {
    let id = AgentId::parse(args.agent.trim()).ok_or_else(|| {
        CliError::new(
            Kind::Usage,
            format!("'{}' is not the id of an agent", line(&args.agent)),
        )
        .hint("ids are 56 characters and begin with U: see parler session requests")
    })?;
    let agent = app.agent(None)?;
    let room = agent.room(args.room.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    client.resolve_join(&room, id.as_str(), approve).await?;
    client.close().await;
    let done = if approve { "let into" } else { "refused in" };
    let text = format!("…{} is {done} {}", id.short(), place(&room));
    let answer = json!({ "room": room, "agent": id, "approved": approve });
    app.out.both(&text, &answer)
}

/// Removes.
pub async fn remove(app: &App, args: RemoveArgs) -> CliResult {
    let ban = args.ban;
    let (room, member) = on_member(
        app,
        &args.who,
        async |client: &Client, room: &str, id: &str| client.remove_member(room, id, ban).await,
    )
    .await?;
    let text = format!("{} is out of {}", called(&member), place(&room));
    app.out.both(
        &text,
        &json!({ "room": room, "agent": member.id, "ban": ban }),
    )
}

/// Passes the room on.
pub async fn transfer(app: &App, args: MemberArgs) -> CliResult {
    let (room, member) = on_member(app, &args, async |client: &Client, room: &str, id: &str| {
        client.transfer_owner(room, id).await
    })
    .await?;
    let text = format!("{} owns {} now", called(&member), place(&room));
    app.out
        .both(&text, &json!({ "room": room, "agent": member.id }))
}

/// Does something to a member of a room; both as they were meant.
async fn on_member(
    app: &App,
    args: &MemberArgs,
    act: impl AsyncFnOnce(&Client, &str, &str) -> Result<(), parler_connector::ClientError>,
) -> CliResult<(String, Candidate)> {
    let agent = app.agent(None)?;
    let room = agent.room(args.room.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    let member = target::find(&client, &args.agent, Scope::Room(&room)).await?;
    act(&client, &room, &member.id).await?;
    client.close().await;
    Ok((room, member))
}

/// `'name' …KEY6`, as far as it is known.
fn called(member: &Candidate) -> String {
    let id = format!("…{}", line(short_id(&member.id)));
    match member.name.as_str() {
        "" => id,
        claim => format!("{} {id}", name(claim)),
    }
}
