//! Taking a turn, ending it, and looking what became of turns.

use std::time::Duration;

use parler_connector::safe;
use parler_connector::safe::model::Frame;
use parler_protocol::turn::{TurnAct, TurnFilter, TurnsQuery};
use parler_protocol::{BlobId, TaskStatus, Turn, Turns};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::{CallContext, Effect, Reply, Tool};
use crate::args::{read, whole, words};
use crate::error::ToolError;
use crate::holding::Taken;
use crate::schema::plain;
use crate::state::Tools;
use crate::text;
use crate::turns::{Held, held, name, take_key, words as peer_words};

/// The longest wait of one call.
const MAX_WAIT: Duration = super::messages::MAX_WAIT;
/// One question to the hub while waiting: it parks that long.
const PARK_SECS: u64 = 20;
/// Between two of them.
const NO_FASTER: Duration = Duration::from_millis(100);
/// No hub makes longer ids; a longer one is no question for it.
const MAX_ID_BYTES: usize = 128;
/// Turns that one list shows.
const LISTED: u32 = 30;
/// Turns among which an id that was left out is looked for.
const LOOK: u32 = 100;

const EXAMPLE: &str = "{\"action\": \"done\", \"note\": \"merged\"}";

pub(super) const TURN: Tool = Tool {
    name: "parler_turn",
    title: "Take or end a turn",
    about: "Acts on a turn: take before you begin; done, fail or release (somebody else may) when \
            you stop; decline what names you; cancel what you offered; list; wait for its end. \
            Example: {\"action\": \"done\", \"note\": \"merged\"}",
    effect: Effect::Adds,
    schema: plain::<TurnArgs>,
    run: |tools, args, cx| {
        Box::pin(async move { turn(tools, read(TURN.name, EXAMPLE, args)?, cx).await })
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Take,
    Done,
    Fail,
    Release,
    Decline,
    Cancel,
    List,
    Wait,
}

#[derive(Deserialize, JsonSchema)]
struct TurnArgs {
    /// What to do.
    action: Action,
    /// Id of the message that offered it; absent: the only one.
    #[serde(default, deserialize_with = "words")]
    id: Option<String>,
    /// What came of it, for who offered it.
    #[serde(default, deserialize_with = "words")]
    note: Option<String>,
    /// Blob id of a result.
    #[serde(default, deserialize_with = "words")]
    result: Option<String>,
    /// Seconds to wait (at most 45).
    #[serde(default, deserialize_with = "whole")]
    wait_secs: Option<u64>,
}

async fn turn(tools: &Tools, args: TurnArgs, cx: &CallContext) -> Result<Reply, ToolError> {
    if args
        .result
        .as_deref()
        .is_some_and(|blob| BlobId::parse(blob).is_none())
    {
        return Err(ToolError::refused(
            "result must be a blob id: 64 hexadecimal digits",
        ));
    }
    match args.action {
        Action::List => list(tools).await,
        Action::Wait => wait(tools, &args, cx).await,
        Action::Take => take(tools, &args).await,
        Action::Done => finish(tools, args, TaskStatus::Done).await,
        Action::Fail => finish(tools, args, TaskStatus::Failed).await,
        Action::Release => release(tools, args).await,
        Action::Decline | Action::Cancel => withdraw(tools, args).await,
    }
}

/// Asks the ledger.
///
/// # Errors
/// The hub's, or that it keeps no ledger.
async fn ask(tools: &Tools, query: TurnsQuery) -> Result<Vec<Turn>, ToolError> {
    tools.ledger_turns(query).await?.ok_or_else(|| {
        ToolError::refused(
            "this hub keeps no ledger of turns: read with parler_recv and answer with parler_send",
        )
    })
}

async fn all(tools: &Tools, state: TurnFilter, limit: u32) -> Result<Vec<Turn>, ToolError> {
    let query = TurnsQuery {
        state: Some(state),
        limit: Some(limit),
        ..TurnsQuery::default()
    };
    ask(tools, query).await
}

/// The turn that is meant: that of the id, or the only one that fits.
async fn find(
    tools: &Tools,
    id: Option<&str>,
    what: &str,
    fits: impl Fn(&Turn, &str) -> bool,
) -> Result<Turn, ToolError> {
    let me = tools.agent.id();
    let Some(id) = id else {
        let turns = all(tools, TurnFilter::Active, LOOK).await?;
        let fitting: Vec<_> = turns.iter().filter(|turn| fits(turn, &me)).collect();
        return match fitting.as_slice() {
            [only] => Ok((*only).clone()),
            [] => Err(ToolError::Refused(format!("there is no turn {what}"))),
            many => Err(ToolError::Refused(format!(
                "there are {} turns {what}: say which, by id: {}",
                many.len(),
                many.iter()
                    .take(8)
                    .map(|turn| safe::token(&turn.message))
                    .collect::<Vec<_>>()
                    .join(", ")
            ))),
        };
    };
    let unknown = || {
        ToolError::Refused(format!(
            "there is no turn with the id {}; parler_turn {{\"action\": \"list\"}} shows them",
            safe::token(id)
        ))
    };
    if id.len() > MAX_ID_BYTES {
        return Err(unknown());
    }
    let query = TurnsQuery {
        message: Some(id.to_owned()),
        state: Some(TurnFilter::All),
        ..TurnsQuery::default()
    };
    let found = ask(tools, query).await?.into_iter().next();
    found.filter(|turn| turn.message == id).ok_or_else(unknown)
}

/// The turn that this agent holds, under the fencing token of its take.
async fn mine(tools: &Tools, id: Option<&str>) -> Result<Held, ToolError> {
    let known = tools.turns.held();
    let by_id = known.iter().find(|held| Some(held.message.as_str()) == id);
    if let Some(held) = by_id {
        return Ok(held.clone());
    }
    if let ([only], None) = (known.as_slice(), id) {
        return Ok(only.clone());
    }
    let holds = |turn: &Turn, me: &str| turn.taken_by.as_ref().is_some_and(|by| by.id == me);
    let turn = find(tools, id, "that you hold", holds).await?;
    if !holds(&turn, &tools.agent.id()) || turn.state.terminal() {
        return Err(ToolError::Refused(format!(
            "you do not hold that turn: it is {}{}",
            turn.state.as_str(),
            by(&turn)
        )));
    }
    Ok(held(&turn, turn.take))
}

async fn take(tools: &Tools, args: &TurnArgs) -> Result<Reply, ToolError> {
    let open = |turn: &Turn, _: &str| turn.taken_by.is_none() && tools.may_be_mine(turn);
    let turn = find(tools, args.id.as_deref(), "to take", open).await?;
    let id = safe::token(&turn.message);
    let taken = tools.take(&turn).await?;
    if let Taken::Yes(take) = taken {
        tools.turns.tell_once(take_key(&turn.message, take));
    }
    match taken {
        Taken::Yes(take) => Ok(Reply::text(format!(
            "You hold the turn of {} (message {id}, take {take}). Read it with parler_recv \
             {{\"room\": \"{}\", \"since\": {}, \"limit\": 1}}. When it is done: parler_turn \
             {{\"action\": \"done\", \"id\": \"{id}\"}}.",
            name(&turn.from.name),
            safe::token(&turn.room),
            turn.seq - 1
        ))),
        Taken::No(holder) => {
            let winner = holder.map_or("it is over".to_owned(), |holder| {
                format!("{} has it", name(&holder))
            });
            Ok(Reply::text(format!(
                "Not yours: {winner}. Leave that turn to whoever has it."
            )))
        }
    }
}

async fn finish(tools: &Tools, args: TurnArgs, status: TaskStatus) -> Result<Reply, ToolError> {
    let held = mine(tools, args.id.as_deref()).await?;
    let done = tools.finish(&held, status, args.note, args.result).await?;
    let id = safe::token(&held.message);
    Ok(Reply::text(if done {
        format!("Reported to {}: the turn {id} is over.", held.from)
    } else {
        format!(
            "Nothing changed: your lease of the turn {id} ran out, or it was over already. \
             parler_turn {{\"action\": \"list\"}} shows who has it"
        )
    }))
}

async fn release(tools: &Tools, args: TurnArgs) -> Result<Reply, ToolError> {
    let held = mine(tools, args.id.as_deref()).await?;
    let note = args.note.as_deref().unwrap_or("released");
    // Before it is open again: this session is neither rung for it nor takes it by itself.
    let session = tools.consumer.session();
    if let Err(error) = tools.ledger.give_up(&held.message, session).await {
        tracing::warn!(%error, "it may be taken by itself once more");
    }
    let released = tools.give_back(&held, note).await?;
    let id = safe::token(&held.message);
    Ok(Reply::text(if released {
        format!("The turn {id} is open again: somebody else may take it.")
    } else {
        format!("Nothing changed: you did not hold the turn {id} any more.")
    }))
}

async fn withdraw(tools: &Tools, args: TurnArgs) -> Result<Reply, ToolError> {
    let decline = args.action == Action::Decline;
    let turn = if decline {
        let names_me = |turn: &Turn, _: &str| {
            turn.taken_by.is_none() && turn.to.is_some() && tools.may_be_mine(turn)
        };
        find(tools, args.id.as_deref(), "to decline", names_me).await?
    } else {
        let own = |turn: &Turn, me: &str| turn.from.id == me;
        find(tools, args.id.as_deref(), "that you offered", own).await?
    };
    let act = TurnAct {
        room: turn.room.clone(),
        message: turn.message.clone(),
        take: None,
        note: args.note,
    };
    let done = tools
        .agent
        .call(|client| {
            let act = act.clone();
            async move {
                if decline {
                    client.decline_turn(act).await
                } else {
                    client.cancel_turn(act).await
                }
            }
        })
        .await?;
    if done && !decline {
        tools.knows_end(&turn.message).await;
    }
    let id = safe::token(&turn.message);
    Ok(Reply::text(match (done, decline) {
        (true, true) => format!("Declined: {} is told.", name(&turn.from.name)),
        (true, false) => format!("Cancelled: the turn {id} is over."),
        (false, true) => format!(
            "Nothing changed: the turn {id} does not name you, or somebody took it already."
        ),
        (false, false) => format!("Nothing changed: the turn {id} is over already."),
    }))
}

async fn list(tools: &Tools) -> Result<Reply, ToolError> {
    let turns = all(tools, TurnFilter::Active, LISTED).await?;
    if turns.is_empty() {
        return Ok(Reply::text("No turn is open or taken in your rooms."));
    }
    let frame = Frame::new();
    let mut lines = vec![frame.notice()];
    lines.extend(turns.iter().map(|turn| line(tools, turn, &frame)));
    Ok(Reply::text(lines.join("\n")))
}

/// Waits for the end of a turn.
async fn wait(tools: &Tools, args: &TurnArgs, cx: &CallContext) -> Result<Reply, ToolError> {
    let own = |turn: &Turn, me: &str| turn.from.id == me;
    let mut turn = find(tools, args.id.as_deref(), "that you offered", own).await?;
    let deadline = cx.started + Duration::from_secs(args.wait_secs.unwrap_or(45)).min(MAX_WAIT);
    let _wait = tools.activity.wait();
    let mut after = None;
    while !turn.state.terminal() {
        let left = deadline.saturating_duration_since(Instant::now()).as_secs();
        if left == 0 || cx.closing.is_cancelled() {
            break;
        }
        let query = TurnsQuery {
            message: Some(turn.message.clone()),
            state: Some(TurnFilter::All),
            wait_secs: after.map(|_| left.min(PARK_SECS)),
            after,
            ..TurnsQuery::default()
        };
        let asked = tools.agent.call(|client| {
            let query = query.clone();
            async move { client.turns(query).await }
        });
        let Turns { turns, rev, .. } = tokio::select! {
            asked = asked => asked?,
            () = cx.closing.cancelled() => break,
        };
        // A hub that does not park is not asked without end.
        sleep(NO_FASTER).await;
        after = Some(rev);
        if let Some(now) = turns.into_iter().next() {
            turn = now;
        }
    }
    if turn.state.terminal() {
        tools.knows_end(&turn.message).await;
    }
    let frame = Frame::new();
    Ok(Reply::text(format!(
        "{}\n{}",
        frame.notice(),
        line(tools, &turn, &frame)
    )))
}

fn by(turn: &Turn) -> String {
    let holder = turn.taken_by.as_ref();
    holder.map_or(String::new(), |by| format!(" by {}", name(&by.name)))
}

/// A turn as one line.
fn line(tools: &Tools, turn: &Turn, frame: &Frame) -> String {
    let from = if turn.from.id == tools.agent.id() {
        "you".to_owned()
    } else {
        name(&turn.from.name)
    };
    let to = turn.to.as_deref().map_or("anyone".to_owned(), name);
    let age = text::ago(text::now_ms().saturating_sub(turn.offered_at));
    let mut line = format!(
        "[{}] {} → {to}, {}{}, offered {age} ago (message {}): {}",
        turn.seq,
        from,
        turn.state.as_str(),
        by(turn),
        safe::token(&turn.message),
        peer_words(frame, &turn.next)
    );
    if let Some(note) = &turn.note {
        line.push_str(&format!(" — note: {}", peer_words(frame, note)));
    }
    if let Some(stalled) = &turn.stalled {
        line.push_str(&format!(" — stalls: {}", peer_words(frame, stalled)));
    }
    line
}
