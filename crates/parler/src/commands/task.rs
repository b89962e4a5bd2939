//! `parler task`: takes a piece of service work, reports on it, ends it.
//!
//! A report is a signed part of a message. An end is a word to the hub, which gives the work to
//! nobody else then; it comes before the report, so that nobody reports on work that is another's
//! by now.

use parler_connector::services::{Claimed, Held};
use parler_connector::{Client, Outgoing};
use parler_protocol::{Target, Task, TaskStatus, TypedPart, limits};
use serde_json::json;

use super::target::TargetArgs;
use crate::app::App;
use crate::connect_hub;
use crate::error::{CliError, CliResult, Kind};
use crate::output::human::{line, name, place};

/// Take a piece of work, report on it, end it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler task claim svc.reviewer 0199c2f0-5b3c-7d11-9f02-1c8e4a6b7d90 --lease 900\n  parler task renew svc.reviewer 0199c2f0-5b3c-7d11-9f02-1c8e4a6b7d90 --take 1\n  parler task done svc.reviewer 0199c2f0-5b3c-7d11-9f02-1c8e4a6b7d90 --note \"two remarks\"\n  parler task working --room auth --task login-page"
)]
pub struct Args {
    /// Take or renew work, or report how it goes
    pub what: What,
    /// The work: its room and its message. With it, done, failed and cancelled end the work
    #[arg(num_args = 2, value_names = ["ROOM", "MESSAGE"], conflicts_with_all = ["room", "to", "service"])]
    pub work: Vec<String>,
    #[command(flatten)]
    pub target: TargetArgs,
    /// What the report is about [default: the message of the work]
    #[arg(long, value_name = "ID")]
    pub task: Option<String>,
    /// Words for a person
    #[arg(long)]
    pub note: Option<String>,
    /// Blob id of the result
    #[arg(long, value_name = "BLOB")]
    pub result: Option<String>,
    /// Model tokens spent
    #[arg(long, value_name = "N")]
    pub tokens: Option<u64>,
    /// Milliseconds spent
    #[arg(long, value_name = "MS")]
    pub elapsed_ms: Option<u64>,
    /// For how long to take or renew it, in seconds: 15 to 3600 [default: 300]
    #[arg(long, value_name = "SECS")]
    pub lease: Option<u64>,
    /// The take that is meant, as `claim` printed it: not a later one
    #[arg(long, value_name = "N")]
    pub take: Option<i64>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// Take it: exactly one worker gets it
    Claim,
    /// Keep it longer
    Renew,
    /// Report: taken on
    Accepted,
    /// Report: in work
    Working,
    /// Report: waits for something
    Awaiting,
    /// Finished well
    Done,
    /// Finished badly
    #[value(alias = "fail")]
    Failed,
    /// Given up
    #[value(alias = "cancel")]
    Cancelled,
}

impl What {
    fn status(self) -> Option<TaskStatus> {
        Some(match self {
            What::Claim | What::Renew => return None,
            What::Accepted => TaskStatus::Accepted,
            What::Working => TaskStatus::Working,
            What::Awaiting => TaskStatus::Awaiting,
            What::Done => TaskStatus::Done,
            What::Failed => TaskStatus::Failed,
            What::Cancelled => TaskStatus::Cancelled,
        })
    }
}

/// Does it.
pub async fn run(app: &App, args: Args) -> CliResult {
    let status = args.what.status();
    if status.is_none() && args.work.is_empty() {
        return Err(CliError::usage("which piece of work?")
            .hint("name its room and message; parler serve SERVICE lists both"));
    }
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let done = match (status, args.work.as_slice()) {
        (None, [room, message]) => hold(app, &client, &args, room, message).await,
        (Some(status), [room, message]) => {
            if status.terminal() {
                end(&client, room, message, status, args.take).await?;
            }
            let target = Target::Room { room: room.clone() };
            report(app, &client, &args, status, (target, Some(message))).await
        }
        (Some(status), _) => {
            let target = args.target.find(&agent, &client).await?;
            report(app, &client, &args, status, (target, None)).await
        }
        (None, _) => Err(CliError::usage("which piece of work?")),
    };
    client.close().await;
    done
}

/// Takes or renews.
async fn hold(app: &App, client: &Client, args: &Args, room: &str, message: &str) -> CliResult {
    let claimed = match args.what {
        What::Renew => {
            let held = Held {
                room: room.to_owned(),
                message: message.to_owned(),
                lease_until: 0,
                take: args.take,
            };
            client.renew_work(&held, args.lease).await?
        }
        _ => client.claim_work(room, message, args.lease).await?,
    };
    let held = match claimed {
        Claimed::Won(held) => held,
        Claimed::Lost { holder } => return Err(lost(holder.map(|holder| name(&holder.name)))),
    };
    let (shortest, longest) = limits::SERVICE_LEASE_SECS;
    let secs = args.lease.unwrap_or(limits::DEFAULT_LEASE_SECS);
    let by = held.take.map(|take| format!(" --take {take}"));
    let text = format!(
        "it is yours for {} s\nend it with: parler task done {} {}{}",
        secs.clamp(shortest, longest),
        line(room),
        line(message),
        by.unwrap_or_default()
    );
    let answer = json!({
        "room": room, "message": message, "claimed": true,
        "leaseUntil": held.lease_until, "take": held.take,
    });
    app.out.both(&text, &answer)
}

fn lost(holder: Option<String>) -> CliError {
    match holder {
        Some(holder) => CliError::new(Kind::Refused, format!("{holder} has that work"))
            .hint("parler serve SERVICE lists what waits"),
        None => CliError::new(Kind::Refused, "that work is not for you, or has ended").hint(
            "it goes to who serves its role and is idle or waiting: parler serve SERVICE registers and lists what waits",
        ),
    }
}

/// Ends the work.
async fn end(
    client: &Client,
    room: &str,
    message: &str,
    status: TaskStatus,
    take: Option<i64>,
) -> CliResult {
    if client.complete_work(room, message, status, take).await? {
        return Ok(());
    }
    Err(CliError::new(
        Kind::Refused,
        "you do not hold that work (any more): nothing was ended or reported",
    )
    .hint("parler task claim ROOM MESSAGE takes it, while nobody else has"))
}

/// Says how it goes.
async fn report(
    app: &App,
    client: &Client,
    args: &Args,
    status: TaskStatus,
    (target, about): (Target, Option<&String>),
) -> CliResult {
    let task = Task {
        status,
        task: args.task.clone().or_else(|| about.cloned()),
        note: args.note.clone(),
        result: args.result.clone(),
        tokens: args.tokens,
        elapsed_ms: args.elapsed_ms,
    };
    let mut message = Outgoing::new(target, vec![task.to_part()]);
    message.reply_to = about.cloned();
    let sent = client.send(message).await?;
    let word = json!(status);
    let text = format!(
        "reported '{}' [{}] to {}",
        word.as_str().unwrap_or_default(),
        sent.seq,
        place(&sent.room)
    );
    let answer = json!({
        "status": status, "task": task.task, "id": sent.id, "seq": sent.seq, "room": sent.room,
    });
    app.out.both(&text, &answer)
}
