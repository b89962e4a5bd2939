//! `parler handoff`: passes the turn on, and waits for its end if told to.

use std::process::ExitCode;
use std::time::Duration;

use parler_connector::{Client, Outgoing};
use parler_protocol::names::addressed;
use parler_protocol::{HandoffRef, RosterEntry, Sent, Target, Turn, TurnState, TypedPart};
use serde_json::json;

use super::target::{TargetArgs, people};
use super::turns::until_over;
use crate::app::{Agent, App};
use crate::connect_hub;
use crate::error::{CliError, CliResult, Kind};
use crate::output::human::{line, place};
use crate::output::turn::{end, prospects};

/// Exit code of a turn that ended, and not well.
const ENDED_OTHERWISE: u8 = 1;
/// Exit code of a turn that did not end in time.
const TIMED_OUT: u8 = 3;

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
    /// Wait until the turn ends, at most so many seconds; exit code 0: done, 1: ended otherwise,
    /// 3: not yet
    #[arg(long, value_name = "SECS", num_args = 0..=1, require_equals = false)]
    pub wait: Option<Option<u64>>,
    /// It expires when nobody took it in so many seconds
    #[arg(long, value_name = "SECS")]
    pub deadline: Option<u64>,
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Sends it.
pub async fn run(app: &App, args: Args) -> CliResult<ExitCode> {
    if args.next.trim().is_empty() {
        return Err(CliError::usage(
            "--next is empty: say what the next agent should do",
        ));
    }
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let target = args.target.find(&agent, &client).await?;
    if let (Target::Room { room }, Some(to), false) = (&target, &args.addressee, args.anyway) {
        check_addressee(&agent, &client, room, to).await?;
    }
    let handoff = HandoffRef {
        next: args.next,
        summary: args.summary,
        to: args.addressee.clone(),
        bundle: args.bundle,
    };
    let mut message = Outgoing::new(target, vec![handoff.to_part()]);
    message.mentions = args.addressee.clone().map(|to| vec![to]);
    message.deadline_secs = args.deadline;
    let sent = client.send(message).await?;
    tell(app, &args.addressee, &sent)?;
    let code = match args.wait {
        Some(patience) => wait(app, &client, &sent, patience).await?,
        None => ExitCode::SUCCESS,
    };
    client.close().await;
    Ok(code)
}

/// Says that it is sent, and whether anybody is there.
fn tell(app: &App, addressee: &Option<String>, sent: &Sent) -> CliResult {
    let whom = addressee.as_deref().map_or("anyone".to_owned(), line);
    let mut text = format!(
        "handed off to {whom} in {} [{}] (message {})",
        place(&sent.room),
        sent.seq,
        line(&sent.id)
    );
    if let Some(prospects) = sent.turn.as_ref().and_then(prospects) {
        text.push_str(&format!("\n{prospects}"));
    }
    app.out.both(
        &text,
        &json!({
            "id": sent.id, "seq": sent.seq, "room": sent.room, "to": addressee, "turn": sent.turn,
        }),
    )
}

/// Waits for the end of the turn and says how it ended.
async fn wait(
    app: &App,
    client: &Client,
    sent: &Sent,
    patience: Option<u64>,
) -> CliResult<ExitCode> {
    let Some(turn) = &sent.turn else {
        return Err(CliError::new(
            Kind::Refused,
            "the handoff was sent; this hub keeps no ledger of turns, so its end cannot be waited for",
        ));
    };
    let over = until_over(client, turn, patience.map(Duration::from_secs)).await?;
    let (code, text): (_, String) = match &over {
        Some(turn) if turn.state == TurnState::Done => (ExitCode::SUCCESS, end(turn)),
        Some(turn) => (ExitCode::from(ENDED_OTHERWISE), end(turn)),
        None => (
            ExitCode::from(TIMED_OUT),
            format!("turn {} did not end in time", line(&turn.message)),
        ),
    };
    let turn: Option<&Turn> = over.as_ref();
    let outcome = turn.map_or("timed_out", |turn| turn.state.as_str());
    app.out
        .both(&text, &json!({ "outcome": outcome, "turn": turn }))?;
    Ok(code)
}

/// Refuses a handoff that nobody in the room would take for theirs.
async fn check_addressee(agent: &Agent, client: &Client, room: &str, to: &str) -> CliResult {
    let entries = client.roster(room).await?;
    let me = agent.config.id.as_str();
    let meant = |entry: &RosterEntry| {
        entry.id == to.trim() || addressed(to, &entry.name, entry.role.as_deref())
    };
    if entries.iter().any(|entry| entry.id != me && meant(entry)) {
        return Ok(());
    }
    let what = if entries.iter().any(meant) {
        format!("'{}' is you", line(to))
    } else {
        format!(
            "nobody in {} has the name or role '{}'",
            place(room),
            line(to)
        )
    };
    let others: Vec<RosterEntry> = entries.into_iter().filter(|entry| entry.id != me).collect();
    Err(
        CliError::new(Kind::NotFound, format!("{what}; nothing was sent")).hint(format!(
            "{}; --anyway sends it all the same",
            people(&others, me)
        )),
    )
}
