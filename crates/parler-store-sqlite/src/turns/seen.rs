//! When each member's cursor passed an open turn: what "read it and has not taken it" is judged by.

use parler_protocol::AgentId;
use parler_store::{Actor, Event};
use rusqlite::{Connection, params};

use super::rows::{self, STALL};
use crate::writer::Tx;

/// A cursor moved from `from` to `to`. Costs nothing in a room without open turns.
pub(crate) fn passed(
    tx: &mut Tx<'_>,
    room: i64,
    agent: (&AgentId, i64),
    (from, to): (i64, i64),
    now: i64,
) -> rusqlite::Result<()> {
    const PASSED: &str = "WHERE room_id = ?1 AND state IN ('open', 'taken')
        AND state = 'open' AND seq > ?2 AND seq <= ?3";
    const SEEN: &str = "INSERT OR IGNORE INTO turn_seen (turn, agent_id, at) VALUES (?1, ?2, ?3)";
    const STALLS: &str = "UPDATE turns SET stall_at = ?2 WHERE seq = ?1";
    if !tx.mirror.has_open_turns(tx.conn, room)? {
        return Ok(());
    }
    let passed = rows::list(tx.conn, PASSED, params![room, from, to])?;
    if passed.is_empty() {
        return Ok(());
    }
    let who = actor(tx.conn, agent)?;
    for row in passed {
        if !row.claimable_by(tx.conn, agent.1, &who)? {
            continue;
        }
        let first = !anybody_saw(tx.conn, row.seq)?;
        tx.conn
            .prepare_cached(SEEN)?
            .execute(params![row.seq, agent.1, now])?;
        if first {
            tx.conn
                .prepare_cached(STALLS)?
                .execute(params![row.seq, now + STALL])?;
            tx.events.push(Event::TurnDue(now + STALL));
        }
    }
    Ok(())
}

/// An agent as it logged in last.
fn actor(conn: &Connection, (id, row): (&AgentId, i64)) -> rusqlite::Result<Actor> {
    conn.prepare_cached("SELECT name, role FROM agents WHERE id = ?1")?
        .query_row([row], |row| {
            Ok(Actor {
                id: id.clone(),
                name: row.get_ref(0)?.as_str()?.into(),
                role: row.get_ref(1)?.as_str_or_null()?.map(Into::into),
            })
        })
}

fn anybody_saw(conn: &Connection, turn: i64) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM turn_seen WHERE turn = ?1)")?
        .query_row([turn], |row| row.get(0))
}

/// Forgets what a member saw in a room that it leaves.
pub(super) fn forget(conn: &Connection, room: i64, agent: i64) -> rusqlite::Result<()> {
    const FORGET: &str = "DELETE FROM turn_seen WHERE agent_id = ?2
        AND turn IN (SELECT seq FROM turns WHERE room_id = ?1 AND state IN ('open', 'taken'))";
    conn.prepare_cached(FORGET)?.execute([room, agent])?;
    Ok(())
}
