//! `parler leave`, `parler delete-room`.

use serde_json::json;

use crate::app::{Agent, App};
use crate::connect_hub;
use crate::error::CliResult;
use crate::output::human::place;

/// Leave a room.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  parler leave --room auth")]
pub struct Args {
    /// The room [default: the active session]
    #[arg(long)]
    pub room: Option<String>,
}

/// Delete a room that you own, with everything in it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  parler delete-room --room auth")]
pub struct DeleteArgs {
    /// The room
    #[arg(long)]
    pub room: String,
}

/// Leaves.
pub async fn run(app: &App, args: Args) -> CliResult {
    let agent = app.agent(None)?;
    let room = agent.room(args.room.as_deref())?;
    let client = connect_hub::client(app, &agent).await?;
    client.leave(&room).await?;
    client.close().await;
    forget(&agent, &room)?;
    let text = format!("left {}; come back with a new key", place(&room));
    app.out.both(&text, &json!({ "room": room }))
}

/// Deletes.
pub async fn delete(app: &App, args: DeleteArgs) -> CliResult {
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    client.delete_room(&args.room).await?;
    client.close().await;
    forget(&agent, &args.room)?;
    let text = format!("{} is deleted, with everything in it", place(&args.room));
    app.out.both(&text, &json!({ "room": args.room }))
}

/// The room is no longer the active session.
fn forget(agent: &Agent, room: &str) -> CliResult {
    if agent.active().as_deref() == Some(room) {
        agent.set_active(None)?;
    }
    Ok(())
}
