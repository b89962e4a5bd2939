//! A turn on the writer: found, moved along an arrow, stored.

use std::sync::Arc;

use parler_protocol::limits::TURN_STALL_SECS;
use parler_protocol::{AgentId, RoomName, TurnState};
use parler_store::{
    Actor, Candidate, Event, Lapse, MAX_TURN_HISTORY, Standing, TurnChange, claim_basis,
};
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};

use super::{names, query};
use crate::mirror::Room;
use crate::writer::Tx;

/// Milliseconds that an open turn may stand before somebody asks why.
pub(super) const STALL: i64 = (TURN_STALL_SECS * 1000) as i64;

/// What the writer needs of a turn; the long texts stay where they are.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub seq: i64,
    pub room: i64,
    pub offerer: i64,
    pub to: Option<String>,
    pub standing: Standing<i64>,
    pub holder_name: Option<String>,
    pub holder_role: Option<String>,
    pub taken_at: Option<i64>,
    pub opened_at: i64,
    pub finished_at: Option<i64>,
    pub answered_at: Option<i64>,
    pub stall_at: Option<i64>,
    pub run_outs: i64,
    pub last_holder: Option<String>,
    pub note: Option<String>,
    pub result: Option<String>,
}

/// Who moves a turn, when, and what it says.
pub(super) struct Mover<'a> {
    pub id: i64,
    pub name: &'a str,
    pub role: Option<&'a str>,
    pub note: Option<&'a str>,
    pub at: i64,
}

const COLUMNS: &str = "seq, room_id, offerer, addressee, state, holder, take, lease_until,
    deadline, holder_name, holder_role, taken_at, opened_at, finished_at, answered_at, stall_at,
    run_outs, last_holder, note, result";

/// Reads a state out of a column.
pub(super) fn state(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<TurnState> {
    let text = row.get_ref(column)?.as_str()?;
    TurnState::from_wire(text).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            format!("{text:?} is no state of a turn").into(),
        )
    })
}

fn read(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        seq: row.get(0)?,
        room: row.get(1)?,
        offerer: row.get(2)?,
        to: row.get(3)?,
        standing: Standing {
            state: state(row, 4)?,
            holder: row.get(5)?,
            take: row.get(6)?,
            lease_until: row.get(7)?,
            deadline: row.get(8)?,
        },
        holder_name: row.get(9)?,
        holder_role: row.get(10)?,
        taken_at: row.get(11)?,
        opened_at: row.get(12)?,
        finished_at: row.get(13)?,
        answered_at: row.get(14)?,
        stall_at: row.get(15)?,
        run_outs: row.get(16)?,
        last_holder: row.get(17)?,
        note: row.get(18)?,
        result: row.get(19)?,
    })
}

/// The turn of a message, if it stands in that room.
pub(super) fn find(conn: &Connection, room: i64, message: &str) -> rusqlite::Result<Option<Row>> {
    conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM turns WHERE message = ?1 AND room_id = ?2"
    ))?
    .query_row(params![message, room], read)
    .optional()
}

/// Turns that a condition on the table finds.
pub(super) fn list(
    conn: &Connection,
    condition: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Row>> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} FROM turns {condition}"))?
        .query_map(params, read)?
        .collect()
}

/// The room and the caller's row, if it is a member.
pub(super) fn member(
    tx: &mut Tx<'_>,
    name: &RoomName,
    agent: &AgentId,
) -> rusqlite::Result<Option<(Room, i64)>> {
    let Some(room) = tx.mirror.room(tx.conn, name)? else {
        return Ok(None);
    };
    let Some(agent) = tx.mirror.agent(tx.conn, agent)? else {
        return Ok(None);
    };
    let member = tx.mirror.member(tx.conn, room.id, agent)?;
    Ok(member.map(|_| (room, agent)))
}

impl Row {
    /// Whether an agent, as it logged in, may claim it.
    pub(super) fn claimable_by(
        &self,
        conn: &Connection,
        agent: i64,
        who: &Actor,
    ) -> rusqlite::Result<bool> {
        Ok(self.basis(conn, agent, who)?.is_some())
    }

    /// Why it may.
    pub(super) fn basis(
        &self,
        conn: &Connection,
        agent: i64,
        who: &Actor,
    ) -> rusqlite::Result<Option<parler_store::Basis>> {
        let bound = match &self.to {
            Some(to) => names::means(conn, self.room, to, (agent, &who.name))?,
            None => false,
        };
        let candidate = Candidate {
            id: &who.id,
            name: &who.name,
            role: who.role.as_deref(),
        };
        let (to, offered) = (self.to.as_deref(), agent == self.offerer);
        Ok(claim_basis(to, offered, candidate, bound))
    }

    /// Moves along an arrow, with its line of history. The row is stored by [`commit`].
    pub(super) fn shift(
        &mut self,
        tx: &mut Tx<'_>,
        to: Standing<i64>,
        by: &Mover<'_>,
    ) -> rusqlite::Result<()> {
        let from = std::mem::replace(&mut self.standing, to);
        let state = self.standing.state;
        match state {
            TurnState::Taken => {
                self.holder_name = Some(by.name.to_owned());
                self.holder_role = by.role.map(str::to_owned);
                self.taken_at = Some(by.at);
                (self.answered_at, self.stall_at, self.note) = (None, None, None);
            }
            TurnState::Open => {
                self.last_holder = self.holder_name.take();
                (self.holder_role, self.taken_at, self.answered_at) = (None, None, None);
                self.opened_at = by.at;
                self.stall_at = Some(by.at + STALL);
                self.note = by.note.map(str::to_owned);
                tx.mirror.note_open_turn(self.room);
                tx.events.push(Event::TurnDue(by.at + STALL));
            }
            _ => {
                self.finished_at = Some(by.at);
                self.stall_at = None;
                self.note = by.note.map(str::to_owned);
                tx.conn
                    .prepare_cached("DELETE FROM turn_seen WHERE turn = ?1")?
                    .execute([self.seq])?;
            }
        }
        self.remember(tx, from.state, by)
    }

    /// Writes a line of history.
    fn remember(&self, tx: &mut Tx<'_>, from: TurnState, by: &Mover<'_>) -> rusqlite::Result<()> {
        const LINE: &str = "INSERT INTO turn_history
            (turn, rev, at, by_agent, by_name, by_role, from_state, to_state, note)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        const TRIM: &str = "DELETE FROM turn_history WHERE turn = ?1 AND rev <=
            (SELECT rev FROM turn_history WHERE turn = ?1 ORDER BY rev DESC LIMIT 1 OFFSET ?2)";
        let rev = tx.mirror.take_rev(tx.conn)?;
        tx.conn.prepare_cached(LINE)?.execute(params![
            self.seq,
            rev,
            by.at,
            by.id,
            by.name,
            by.role,
            from.as_str(),
            self.standing.state.as_str(),
            by.note,
        ])?;
        tx.conn
            .prepare_cached(TRIM)?
            .execute(params![self.seq, MAX_TURN_HISTORY])?;
        Ok(())
    }

    /// Does what time alone has done by now.
    pub(super) fn settle(
        &mut self,
        tx: &mut Tx<'_>,
        room: &RoomName,
        now: i64,
    ) -> rusqlite::Result<bool> {
        let Some(lapse) = self.standing.lapse(now) else {
            return Ok(false);
        };
        let before = self.clone();
        let after = self.standing.lapsed(lapse);
        let (id, name, role, note) = match lapse {
            Lapse::RanOut => {
                self.run_outs += 1;
                let holder = self.standing.holder.unwrap_or(self.offerer);
                let name = self.holder_name.clone().unwrap_or_default();
                (holder, name, self.holder_role.clone(), "the lease ran out")
            }
            Lapse::Expired => {
                let (name, role) = query::author(tx.conn, self.seq)?;
                (self.offerer, name, role, "the deadline passed")
            }
        };
        let by = Mover {
            id,
            name: &name,
            role: role.as_deref(),
            note: Some(note),
            at: now,
        };
        self.shift(tx, after, &by)?;
        commit(tx, room, self, Some(&before))?;
        Ok(true)
    }
}

/// Stores a row that changed under a new revision, and tells of it. `before` is the row as it was.
pub(super) fn commit(
    tx: &mut Tx<'_>,
    room: &RoomName,
    row: &Row,
    before: Option<&Row>,
) -> rusqlite::Result<()> {
    const SAVE: &str = "UPDATE turns SET state = ?2, holder = ?3, take = ?4, lease_until = ?5,
            deadline = ?6, holder_name = ?7, holder_role = ?8, taken_at = ?9, opened_at = ?10,
            finished_at = ?11, answered_at = ?12, stall_at = ?13, run_outs = ?14,
            last_holder = ?15, note = ?16, result = ?17, rev = ?18
        WHERE seq = ?1";
    let moved = before.is_none_or(|before| before.standing.state != row.standing.state);
    // A move's revision is that of its line of history, which was written last.
    let rev = if moved {
        tx.mirror.last_rev(tx.conn)?
    } else {
        tx.mirror.take_rev(tx.conn)?
    };
    tx.conn.prepare_cached(SAVE)?.execute(params![
        row.seq,
        row.standing.state.as_str(),
        row.standing.holder,
        row.standing.take,
        row.standing.lease_until,
        row.standing.deadline,
        row.holder_name,
        row.holder_role,
        row.taken_at,
        row.opened_at,
        row.finished_at,
        row.answered_at,
        row.stall_at,
        row.run_outs,
        row.last_holder,
        row.note,
        row.result,
        rev,
    ])?;
    tell(tx, room, row.seq, before)
}

/// Tells that a turn changed.
pub(super) fn tell(
    tx: &mut Tx<'_>,
    _room: &RoomName,
    seq: i64,
    before: Option<&Row>,
) -> rusqlite::Result<()> {
    let row = query::row(tx.conn, seq)?;
    let was_held_by = match before.and_then(|before| before.standing.holder) {
        Some(holder) => Some(query::agent_id(tx.conn, holder)?),
        None => None,
    };
    for due in [row.turn.lease_until, row.turn.deadline]
        .into_iter()
        .flatten()
    {
        tx.events.push(Event::TurnDue(due));
    }
    tx.events.push(Event::Turn(TurnChange {
        row: Arc::new(row),
        was: before.map(|before| before.standing.state),
        was_held_by,
    }));
    Ok(())
}
