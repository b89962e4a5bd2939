//! `parler handoff`: passes the turn on.

use parler_connector::addressee::{Unclear, audience};
use parler_connector::{Client, Outgoing};
use parler_protocol::{HandoffRef, RosterEntry, Target, TypedPart};
use serde_json::json;

use super::target::{self, TargetArgs, people};
use crate::app::{Agent, App};
use crate::connect_hub;
use crate::error::{CliError, CliResult};
use crate::output::human::{line, place};

/// Pass the turn on and say what comes next.
///
/// Nothing is sent when nobody in the room has the name or role.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  parler handoff --for webdev --summary \"API is done\" --next \"build the login page\""
)]
pub struct Args {
    /// What the next agent should do
    #[arg(long)]
    pub next: String,
    /// How things stand
    #[arg(long)]
    pub summary: Option<String>,
    /// Who: a name, a role or an id [default: anyone in the room]
    #[arg(long = "for", value_name = "WHO")]
    pub addressee: Option<String>,
    /// Blob id of a bundle that belongs to it
    #[arg(long, value_name = "BLOB")]
    pub bundle: Option<String>,
    /// Send it even if nobody there has the name or role yet
    #[arg(long)]
    pub anyway: bool,
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Sends it.
pub async fn run(app: &App, args: Args) -> CliResult {
    if args.next.trim().is_empty() {
        return Err(CliError::usage(
            "--next is empty: say what the next agent should do",
        ));
    }
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let target = args.target.find(&agent, &client).await?;
    let to = match (&target, args.addressee, args.anyway) {
        (Target::Room { room }, Some(to), false) => addressee(&agent, &client, room, &to).await?,
        (_, to, _) => to,
    };
    let handoff = HandoffRef {
        next: args.next,
        summary: args.summary,
        to: to.clone(),
        bundle: args.bundle,
    };
    let mut message = Outgoing::new(target, vec![handoff.to_part()]);
    message.mentions = to.clone().map(|to| vec![to]);
    let sent = client.send(message).await?;
    client.close().await;
    let whom = to.as_deref().map_or("anyone".to_owned(), line);
    let text = format!(
        "handed off to {whom} in {} [{}] (message {})",
        place(&sent.room),
        sent.seq,
        line(&sent.id)
    );
    app.out.both(
        &text,
        &json!({
            "id": sent.id, "seq": sent.seq, "room": sent.room, "to": to, "turn": sent.turn,
        }),
    )
}

/// The addressee as it goes out; refuses a handoff that nobody in the room would take for theirs,
/// or two by one name.
async fn addressee(
    agent: &Agent,
    client: &Client,
    room: &str,
    to: &str,
) -> CliResult<Option<String>> {
    let entries = client.roster(room).await?;
    let me = agent.config.id.as_str();
    let why = match audience(Some(to), &entries, me) {
        Ok(audience) => return Ok(audience.to),
        Err(why) => why,
    };
    let mut error = target::unclear(to, &why);
    if matches!(why, Unclear::Nobody(_)) {
        error.message = format!(
            "nobody in {} has the name or role '{}'",
            place(room),
            line(to)
        );
    }
    error.message.push_str("; nothing was sent");
    let others: Vec<RosterEntry> = entries.into_iter().filter(|entry| entry.id != me).collect();
    Err(error.hint(format!(
        "{}; --anyway sends it all the same",
        people(&others, me)
    )))
}
