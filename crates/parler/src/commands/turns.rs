//! `parler turns`, `parler turn`: what became of handoffs, and acting on one.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parler_connector::{Client, ClientError, Read};
use parler_protocol::turn::{TurnAct, TurnFilter, TurnsQuery};
use parler_protocol::{Complete, ErrorCode, TaskStatus, Turn, TurnState, Turns, limits};
use serde_json::json;

use crate::app::{Agent, App};
use crate::connect_hub;
use crate::error::{CliError, CliResult, Kind};
use crate::os::{self, Stop};
use crate::output::human::{line, name, place};
use crate::output::message::line as message_line;
use crate::output::turn::{end, row, span};
use crate::output::{self};

/// A wait for news of turns; after it the next begins.
const WAIT_SECS: u64 = 50;
/// After a call that failed because the hub is away.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// The lease of a turn that is taken on the command line: nothing renews it.
const LEASE_SECS: u64 = limits::TURN_LEASE_SECS.1;
/// Sets another one.
const LEASE_VARIABLE: &str = "PARLER_TURN_LEASE_SECS";

/// List turns that were passed, and who has them.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  parler turns\n  parler turns --mine\n  parler turns --room auth --all --json"
)]
pub struct ListArgs {
    /// One room [default: all of yours]
    #[arg(long)]
    pub room: Option<String>,
    /// Only those that you may take, or hold
    #[arg(long)]
    pub mine: bool,
    /// Also those that are over
    #[arg(long)]
    pub all: bool,
    /// Go on: print what changes, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
}

/// Take a turn, finish it, or give it back.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  parler turn take 0199c2f0-5b3c-7d11-9f02-1c8e4a6b7d90")]
pub struct Args {
    #[command(subcommand)]
    pub act: Act,
}

/// Which turn, and words.
#[derive(clap::Args)]
pub struct Which {
    /// The id of its message (`parler turns` lists them)
    pub id: String,
    /// A line of words that stays with it
    #[arg(long)]
    pub note: Option<String>,
}

/// What is done with it.
#[derive(clap::Subcommand)]
pub enum Act {
    /// Take it: of any number that try, one gets it
    Take {
        /// The id of its message (`parler turns` lists them)
        id: String,
        /// How long it is yours [default: PARLER_TURN_LEASE_SECS, else an hour]
        #[arg(long, value_name = "SECS")]
        lease: Option<u64>,
    },
    /// Say that it is done
    Done {
        #[command(flatten)]
        which: Which,
        /// Blob id of a result
        #[arg(long, value_name = "BLOB")]
        result: Option<String>,
    },
    /// Say that it cannot be done
    Fail {
        #[command(flatten)]
        which: Which,
        /// Blob id of what there is
        #[arg(long, value_name = "BLOB")]
        result: Option<String>,
    },
    /// Refuse it, when it names you
    Decline(Which),
    /// Give it back, for somebody else
    Release(Which),
    /// Withdraw it: one that you offered, or that stands in a room of yours
    Cancel(Which),
}

/// Lists them.
pub async fn list(app: &App, args: ListArgs) -> CliResult {
    let agent = app.agent(None)?;
    let client = connect_hub::client(app, &agent).await?;
    let query = TurnsQuery {
        room: args.room,
        state: args.all.then_some(TurnFilter::All),
        mine: args.mine.then_some(true),
        ..TurnsQuery::default()
    };
    let turns = client.turns(query.clone()).await.map_err(no_ledger)?;
    if args.watch {
        return watch(app, &client, query, turns).await;
    }
    client.close().await;
    let text = match turns.turns.as_slice() {
        [] if args.all => "no turns".to_owned(),
        [] => "no turns are open or taken".to_owned(),
        rows => {
            let now = now_ms();
            let rows: Vec<String> = rows.iter().map(|t| row(t, now, app.out.paint)).collect();
            let more = turns.more == Some(true);
            rows.join("\n") + if more { "\n(there are more)" } else { "" }
        }
    };
    app.out
        .both(&text, &json!({ "turns": turns.turns, "rev": turns.rev }))
}

/// Prints what there is, then what changes.
async fn watch(app: &App, client: &Client, query: TurnsQuery, first: Turns) -> CliResult {
    output::remark("watching turns; Ctrl-C ends it");
    let follow = async {
        let mut known: HashMap<String, Turn> = HashMap::new();
        let mut turns = first;
        loop {
            print_news(app, &mut known, &turns)?;
            turns = news(client, &query, turns.rev, WAIT_SECS).await?;
        }
    };
    tokio::select! {
        done = follow => done,
        stop = os::stop_signal() => stopped(stop),
    }
}

fn stopped(stop: Stop) -> CliResult {
    match stop {
        Stop::Interrupt => Err(CliError::new(Kind::Interrupted, "interrupted")),
        Stop::Terminate => Ok(()),
    }
}

/// Prints the turns that are not as they were.
fn print_news(app: &App, known: &mut HashMap<String, Turn>, turns: &Turns) -> CliResult {
    let now = now_ms();
    let mut is = HashMap::with_capacity(turns.turns.len());
    for turn in turns.turns.iter().rev() {
        let before = known.get(&turn.message);
        if before.is_none_or(|before| differs(before, turn)) {
            app.out.both(&row(turn, now, app.out.paint), turn)?;
        }
        is.insert(turn.message.clone(), turn.clone());
    }
    *known = is;
    Ok(())
}

/// Whether there is something to tell: the words of a stall change by themselves.
fn differs(before: &Turn, now: &Turn) -> bool {
    let facts = |turn: &Turn| {
        (
            turn.state,
            turn.take,
            turn.answered_at,
            turn.stalled.is_some(),
            turn.seen_by.len(),
        )
    };
    facts(before) != facts(now)
}

/// What a query shows when it is not what it was at `after`, or when the time is over; outlives
/// outages of the hub.
async fn news(client: &Client, query: &TurnsQuery, after: i64, wait: u64) -> CliResult<Turns> {
    let query = TurnsQuery {
        after: Some(after),
        wait_secs: Some(wait),
        ..query.clone()
    };
    loop {
        let asked = Instant::now();
        match client.turns(query.clone()).await {
            // A hub that does not park must not be asked without end.
            Ok(turns) if turns.rev == after && asked.elapsed() < OUTAGE_PAUSE => {
                tokio::time::sleep(OUTAGE_PAUSE).await;
                return Ok(turns);
            }
            Ok(turns) => return Ok(turns),
            Err(error) if error.is_outage() || error.retryable() => {
                tokio::time::sleep(OUTAGE_PAUSE).await;
            }
            Err(error) => return Err(no_ledger(error)),
        }
    }
}

/// Waits until a turn is over; `None` when the time is over first. Tells of what happens meanwhile.
///
/// # Errors
/// What waiting cannot heal: the room is gone, the hub keeps no ledger, Ctrl-C.
pub async fn until_over(
    client: &Client,
    turn: &Turn,
    patience: Option<Duration>,
) -> CliResult<Option<Turn>> {
    let query = TurnsQuery {
        room: Some(turn.room.clone()),
        message: Some(turn.message.clone()),
        state: Some(TurnFilter::All),
        ..TurnsQuery::default()
    };
    let follow = async {
        let mut known = turn.clone();
        let mut turns = client.turns(query.clone()).await.map_err(no_ledger)?;
        loop {
            let Some(turn) = turns.turns.into_iter().next() else {
                return Err(unknown(&known.message));
            };
            if turn.state.terminal() {
                return Ok(turn);
            }
            tell(&known, &turn);
            known = turn;
            turns = news(client, &query, turns.rev, WAIT_SECS).await?;
        }
    };
    let over = async {
        match patience {
            Some(patience) => tokio::time::sleep(patience).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        turn = follow => turn.map(Some),
        () = over => Ok(None),
        _ = os::stop_signal() => Err(CliError::new(Kind::Interrupted, "interrupted")),
    }
}

/// A remark on what changed while somebody waits.
fn tell(before: &Turn, now: &Turn) {
    if now.state == TurnState::Taken && before.take != now.take {
        let by = now
            .taken_by
            .as_ref()
            .map_or("somebody".to_owned(), |by| name(&by.name));
        output::remark(&format!("{by} took it"));
    } else if now.state == TurnState::Open && before.state == TurnState::Taken {
        output::remark("it is open again");
    }
    if before.stalled.is_none()
        && let Some(stalled) = &now.stalled
    {
        output::remark(&format!("stalled: {}", output::human::words(stalled)));
    }
}

/// Acts on one.
pub async fn run(app: &App, args: Args) -> CliResult {
    let agent = app.agent(None)?;
    let lease = match &args.act {
        Act::Take { lease, .. } => lease_secs(app, *lease)?,
        _ => 0,
    };
    let client = connect_hub::client(app, &agent).await?;
    let id = args.act.id().trim().to_owned();
    let turn = find(&client, &id).await?;
    match args.act {
        Act::Take { .. } => take(app, &agent, &client, &turn, lease).await?,
        Act::Done { which, result } => {
            finish(
                app,
                &agent,
                &client,
                &turn,
                TaskStatus::Done,
                which.note,
                result,
            )
            .await?;
        }
        Act::Fail { which, result } => {
            finish(
                app,
                &agent,
                &client,
                &turn,
                TaskStatus::Failed,
                which.note,
                result,
            )
            .await?;
        }
        Act::Decline(which) => {
            let done = client.decline_turn(act(&agent, &turn, which.note)).await?;
            report(app, &client, &turn, done, "declined").await?;
        }
        Act::Release(which) => {
            let done = client.release_turn(act(&agent, &turn, which.note)).await?;
            report(app, &client, &turn, done, "released").await?;
        }
        Act::Cancel(which) => {
            let done = client.cancel_turn(act(&agent, &turn, which.note)).await?;
            report(app, &client, &turn, done, "cancelled").await?;
        }
    }
    client.close().await;
    Ok(())
}

impl Act {
    fn id(&self) -> &str {
        match self {
            Act::Take { id, .. } => id,
            Act::Done { which, .. } | Act::Fail { which, .. } => &which.id,
            Act::Decline(which) | Act::Release(which) | Act::Cancel(which) => &which.id,
        }
    }
}

fn lease_secs(app: &App, flag: Option<u64>) -> CliResult<u64> {
    let Some(text) = app.cx.var(LEASE_VARIABLE).filter(|_| flag.is_none()) else {
        return Ok(flag.unwrap_or(LEASE_SECS));
    };
    text.trim().parse().map_err(|_| {
        CliError::usage(format!(
            "{LEASE_VARIABLE} is '{}', not a number of seconds",
            line(text)
        ))
    })
}

/// The turn of a message, wherever it stands.
async fn find(client: &Client, id: &str) -> CliResult<Turn> {
    let query = TurnsQuery {
        message: Some(id.to_owned()),
        state: Some(TurnFilter::All),
        ..TurnsQuery::default()
    };
    let found = client.turns(query).await.map_err(no_ledger)?;
    let turn = found.turns.into_iter().find(|turn| turn.message == id);
    turn.ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> CliError {
    CliError::new(
        Kind::NotFound,
        format!("there is no turn '{}' in your rooms", line(id)),
    )
    .hint("parler turns --all lists them")
}

/// A hub of an earlier version knows no turns.
fn no_ledger(error: ClientError) -> CliError {
    match error.code() {
        Some(ErrorCode::Unsupported | ErrorCode::BadFrame) => CliError::new(
            Kind::Refused,
            "this hub keeps no ledger of turns: it only delivers handoffs",
        ),
        _ => error.into(),
    }
}

async fn take(app: &App, agent: &Agent, client: &Client, turn: &Turn, lease: u64) -> CliResult {
    let lease = Some(Duration::from_secs(lease));
    let claimed = client.claim_turn(&turn.room, &turn.message, lease).await?;
    if !claimed.claimed {
        let message = match &claimed.holder {
            Some(holder) => format!("{} has this turn", name(&holder.name)),
            None => {
                let now = find(client, &turn.message).await?;
                format!("this turn is not open: {}", now.state.as_str())
            }
        };
        return Err(CliError::new(Kind::Refused, message).hint("parler turns --mine lists others"));
    }
    let until = claimed.lease_until.unwrap_or_default();
    let mut text = format!(
        "turn {} in {} is yours for {}; afterwards: parler turn done {}",
        line(&turn.message),
        place(&turn.room),
        span(until - now_ms()),
        line(&turn.message),
    );
    // What it asks for comes from the message itself, with its signature, never from the row.
    let at = Read::Since {
        seq: turn.seq - 1,
        limit: 1,
    };
    let read = client.pull(&turn.room, at).await?;
    if let Some(message) = read.messages.iter().find(|m| m.id == turn.message) {
        text.push('\n');
        text.push_str(&message_line(message, &agent.me(), app.out.paint));
    }
    app.out.both(&text, &claimed)
}

/// What a release or refusal says; the token is shown when the take is this agent's.
fn act(agent: &Agent, turn: &Turn, note: Option<String>) -> TurnAct {
    TurnAct {
        room: turn.room.clone(),
        message: turn.message.clone(),
        take: own_take(agent, turn),
        note,
    }
}

fn own_take(agent: &Agent, turn: &Turn) -> Option<i64> {
    let mine = turn
        .taken_by
        .as_ref()
        .is_some_and(|by| by.id == agent.config.id.as_str());
    mine.then_some(turn.take)
}

async fn finish(
    app: &App,
    agent: &Agent,
    client: &Client,
    turn: &Turn,
    status: TaskStatus,
    note: Option<String>,
    result: Option<String>,
) -> CliResult {
    let complete = Complete {
        room: turn.room.clone(),
        message: turn.message.clone(),
        status,
        take: own_take(agent, turn),
        note,
        result,
    };
    let done = client.complete_turn(complete).await?;
    let word = if status == TaskStatus::Done {
        "done"
    } else {
        "failed"
    };
    report(app, client, turn, done, word).await
}

/// Says that it is so; or, when nothing changed, how the turn stands.
async fn report(app: &App, client: &Client, turn: &Turn, done: bool, word: &str) -> CliResult {
    if done {
        let text = format!("turn {} is {word}", line(&turn.message));
        let answer = json!({ "room": turn.room, "message": turn.message, word: true });
        return app.out.both(&text, &answer);
    }
    let now = find(client, &turn.message).await?;
    let message = match (&now.taken_by, now.state) {
        (Some(by), TurnState::Taken) => {
            format!("nothing changed: the turn is held by {}", name(&by.name))
        }
        (_, TurnState::Open) => "nothing changed: the turn is open, and is not yours".to_owned(),
        _ => format!("nothing changed: {}", end(&now)),
    };
    Err(CliError::new(Kind::Refused, message))
}

/// Milliseconds since the epoch.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
