//! The turns that a session holds when it stops: what was answered is done, what was not is told
//! once, and given back when the session stops again.
//!
//! On a hub without a ledger of turns nothing of this happens.

use parler_connector::safe;
use parler_connector::safe::model::label;
use parler_connector::wake::once::Thing;
use parler_connector::{Client, ClientError};
use parler_protocol::turn::{TurnAct, TurnFilter, TurnsQuery};
use parler_protocol::{Complete, ErrorCode, TaskStatus, Turn};

/// Turns that one look asks for: the most that a hub answers.
const LOOK: u32 = 500;
/// Turns that one text names.
const MAX_NAMED: usize = 5;

/// The active turns that this agent holds or may take; `None` where the hub keeps no ledger.
///
/// # Errors
/// The hub's.
pub async fn active(client: &Client) -> Result<Option<Vec<Turn>>, ClientError> {
    let query = TurnsQuery {
        state: Some(TurnFilter::Active),
        mine: Some(true),
        limit: Some(LOOK),
        ..TurnsQuery::default()
    };
    match client.turns(query).await {
        Ok(turns) => Ok(Some(turns.turns)),
        Err(error)
            if matches!(
                error.code(),
                Some(ErrorCode::Unsupported | ErrorCode::BadFrame)
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Ends a turn that its holder replied to.
///
/// # Errors
/// The hub's.
pub async fn complete_answered(client: &Client, turn: &Turn) -> Result<(), ClientError> {
    let end = Complete {
        room: turn.room.clone(),
        message: turn.message.clone(),
        status: TaskStatus::Done,
        take: Some(turn.take),
        note: Some("answered".to_owned()),
        result: None,
    };
    client.complete_turn(end).await.map(drop)
}

/// Gives a turn back that its holder says nothing about.
///
/// # Errors
/// The hub's.
pub async fn give_back(client: &Client, turn: &Turn) -> Result<(), ClientError> {
    let act = TurnAct {
        room: turn.room.clone(),
        message: turn.message.clone(),
        take: Some(turn.take),
        note: Some("stopped without a report".to_owned()),
    };
    client.release_turn(act).await.map(drop)
}

/// Under what it is noted that a session was told of a turn that it holds.
pub fn told_key(turn: &Turn) -> String {
    format!("held {}", turn.message)
}

/// The thing of that key.
pub fn told_thing<'a>(key: &'a str, turn: &Turn) -> Thing<'a> {
    Thing {
        message: key,
        take: turn.take,
    }
}

/// What a session is told that stops and holds turns. The instructions are not repeated.
pub fn held_text(turns: &[Turn]) -> String {
    let mut lines = vec![match turns.len() {
        1 => "You hold a turn that you have not answered:".to_owned(),
        n => format!("You hold {n} turns that you have not answered:"),
    }];
    lines.extend(turns.iter().take(MAX_NAMED).map(|turn| {
        let (id, room) = (safe::token(&turn.message), safe::token(&turn.room));
        format!(
            "- of {} in room '{room}' (message {id}): parler_turn {{\"action\": \"done\", \"id\": \
             \"{id}\"}}",
            label(&turn.from.name)
        )
    }));
    lines.push(
        "Finish, or report it now: done, fail, or release when somebody else should take it. When \
         you stop without a report it is open again for others."
            .to_owned(),
    );
    lines.join("\n")
}
