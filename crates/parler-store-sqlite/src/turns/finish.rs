//! Ending a turn, giving it back, refusing it, withdrawing it.

use parler_protocol::RoomName;
use parler_store::{ActOutcome, Basis, Standing, TurnEnd, TurnStep};

use super::query;
use super::rows::{self, Mover, Row, commit};
use crate::error::Failure;
use crate::mirror::Room;
use crate::writer::Tx;

/// The room, the caller and the turn, after what time has done to it.
enum Found {
    Turn(Room, i64, Box<Row>),
    Refused(ActOutcome),
}

fn find(tx: &mut Tx<'_>, step: &TurnStep) -> rusqlite::Result<Found> {
    let Some((room, me)) = rows::member(tx, &step.room, &step.by.id)? else {
        return Ok(Found::Refused(ActOutcome::NotMember));
    };
    let Some(mut row) = rows::find(tx.conn, room.id, &step.message)? else {
        return Ok(Found::Refused(ActOutcome::UnknownTurn));
    };
    row.settle(tx, &step.room, step.now)?;
    Ok(Found::Turn(room, me, Box::new(row)))
}

/// Moves the turn if there is an arrow.
fn shift(
    tx: &mut Tx<'_>,
    step: &TurnStep,
    me: i64,
    mut row: Row,
    to: Option<Standing<i64>>,
) -> Result<ActOutcome, Failure> {
    let Some(to) = to else {
        return Ok(ActOutcome::Nothing);
    };
    let before = row.clone();
    let by = Mover {
        id: me,
        name: &step.by.name,
        role: step.by.role.as_deref(),
        note: step.note.as_deref(),
        at: step.now,
    };
    row.shift(tx, to, &by)?;
    commit(tx, &step.room, &row, Some(&before))?;
    Ok(ActOutcome::Done)
}

/// The holder ends it.
pub(super) fn complete(tx: &mut Tx<'_>, end: &TurnEnd) -> Result<ActOutcome, Failure> {
    let step = &end.step;
    match find(tx, step)? {
        Found::Refused(outcome) => Ok(outcome),
        Found::Turn(_, me, mut row) => {
            let to = row.standing.complete(&me, step.take, end.end);
            row.result.clone_from(&end.result);
            shift(tx, step, me, *row, to)
        }
    }
}

/// The holder gives it back.
pub(super) fn release(tx: &mut Tx<'_>, step: &TurnStep) -> Result<ActOutcome, Failure> {
    match find(tx, step)? {
        Found::Refused(outcome) => Ok(outcome),
        Found::Turn(_, me, row) => {
            let to = row.standing.release(&me, step.take);
            shift(tx, step, me, *row, to)
        }
    }
}

/// Whom it names refuses it. What a role or nobody in particular is asked, one alone cannot refuse.
pub(super) fn decline(tx: &mut Tx<'_>, step: &TurnStep) -> Result<ActOutcome, Failure> {
    match find(tx, step)? {
        Found::Refused(outcome) => Ok(outcome),
        Found::Turn(_, me, row) => {
            let named = matches!(
                row.basis(tx.conn, me, &step.by)?,
                Some(Basis::Name | Basis::Id)
            );
            let to = row.standing.decline().filter(|_| named);
            shift(tx, step, me, *row, to)
        }
    }
}

/// Who offered it, or the room's owner, withdraws it.
pub(super) fn cancel(tx: &mut Tx<'_>, step: &TurnStep) -> Result<ActOutcome, Failure> {
    match find(tx, step)? {
        Found::Refused(outcome) => Ok(outcome),
        Found::Turn(room, me, _) if room.owner != Some(me) && !offered(tx, &step.message, me)? => {
            Ok(ActOutcome::NotOwner)
        }
        Found::Turn(_, me, row) => {
            let to = row.standing.cancel();
            shift(tx, step, me, *row, to)
        }
    }
}

fn offered(tx: &Tx<'_>, message: &str, me: i64) -> rusqlite::Result<bool> {
    tx.conn
        .prepare_cached("SELECT offerer = ?2 FROM turns WHERE message = ?1")?
        .query_row(rusqlite::params![message, me], |row| row.get(0))
}

/// Gives back all that a member holds in a room that it leaves.
pub(super) fn release_all(
    tx: &mut Tx<'_>,
    (name, room): (&RoomName, i64),
    agent: i64,
    now: i64,
) -> rusqlite::Result<()> {
    const HELD: &str = "WHERE holder = ?1 AND room_id = ?2 AND state = 'taken'";
    for mut row in rows::list(tx.conn, HELD, [agent, room])? {
        if row.settle(tx, name, now)? {
            continue;
        }
        let Some(to) = row.standing.release(&agent, None) else {
            continue;
        };
        let before = row.clone();
        let (who, role) = query::holder_names(&row);
        let by = Mover {
            id: agent,
            name: &who,
            role: role.as_deref(),
            note: Some("left"),
            at: now,
        };
        row.shift(tx, to, &by)?;
        commit(tx, name, &row, Some(&before))?;
    }
    Ok(())
}
