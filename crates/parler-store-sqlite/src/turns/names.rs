//! Whom a name means in a room: who used it there first, unless the owner says otherwise.
//!
//! Names are claims, so that a second agent that logs in under a known name gets nothing by it.

use parler_protocol::{AgentId, RoomName};
use parler_store::{MAX_BOUND_NAMES, NameOutcome, folded_name};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows;
use crate::error::Failure;
use crate::writer::Tx;

/// The agent, that is a member, goes by this name in one room from now on.
pub(crate) fn used(conn: &Connection, room: i64, agent: i64) -> rusqlite::Result<()> {
    const USED: &str = "INSERT OR IGNORE INTO room_names (room_id, name, agent_id)
        SELECT ?1, lower(trim(name)), id FROM agents WHERE id = ?2 AND trim(name) <> ''
        AND (SELECT count(*) FROM room_names WHERE agent_id = ?2 AND room_id = ?1) < ?3";
    conn.prepare_cached(USED)?
        .execute(params![room, agent, MAX_BOUND_NAMES])?;
    Ok(())
}

/// The agent goes by a new name in all of its rooms.
pub(crate) fn used_everywhere(conn: &Connection, agent: i64) -> rusqlite::Result<()> {
    const USED: &str = "INSERT OR IGNORE INTO room_names (room_id, name, agent_id)
        SELECT m.room_id, lower(trim(a.name)), a.id
        FROM members m JOIN agents a ON a.id = m.agent_id
        WHERE m.agent_id = ?1 AND trim(a.name) <> ''
        AND (SELECT count(*) FROM room_names n
            WHERE n.agent_id = ?1 AND n.room_id = m.room_id) < ?2";
    conn.prepare_cached(USED)?
        .execute(params![agent, MAX_BOUND_NAMES])?;
    Ok(())
}

/// Whom a name means: who is bound to it, else the earliest member that goes by it.
pub(super) fn holder(conn: &Connection, room: i64, folded: &str) -> rusqlite::Result<Option<i64>> {
    const BOUND: &str = "SELECT agent_id FROM room_names WHERE room_id = ?1 AND name = ?2";
    let bound = conn
        .prepare_cached(BOUND)?
        .query_row(params![room, folded], |row| row.get(0))
        .optional()?;
    match bound {
        Some(agent) => Ok(Some(agent)),
        None => earliest(conn, room, folded),
    }
}

/// Whether an addressee, read as a name, means this agent, which logged in under `agent.1`.
pub(super) fn means(
    conn: &Connection,
    room: i64,
    to: &str,
    agent: (i64, &str),
) -> rusqlite::Result<bool> {
    let folded = folded_name(to);
    if folded.is_empty() || folded != folded_name(agent.1) {
        return Ok(false);
    }
    let holder = holder(conn, room, &folded)?;
    Ok(holder.is_none_or(|holder| holder == agent.0))
}

fn earliest(conn: &Connection, room: i64, folded: &str) -> rusqlite::Result<Option<i64>> {
    const EARLIEST: &str = "SELECT m.agent_id FROM members m JOIN agents a ON a.id = m.agent_id
        WHERE m.room_id = ?1 AND lower(trim(a.name)) = ?2
        ORDER BY m.joined_at, m.agent_id LIMIT 1";
    conn.prepare_cached(EARLIEST)?
        .query_row(params![room, folded], |row| row.get(0))
        .optional()
}

/// A member left: each of its names means the earliest of those who are left and go by it.
pub(super) fn pass_on(conn: &Connection, room: i64, agent: i64) -> rusqlite::Result<()> {
    const NAMES: &str = "SELECT name FROM room_names WHERE room_id = ?1 AND agent_id = ?2";
    const FREE: &str = "DELETE FROM room_names WHERE room_id = ?1 AND agent_id = ?2";
    let names: Vec<String> = conn
        .prepare_cached(NAMES)?
        .query_map([room, agent], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    conn.prepare_cached(FREE)?.execute([room, agent])?;
    for name in names {
        if let Some(next) = earliest(conn, room, &name)? {
            put(conn, room, &name, next)?;
        }
    }
    Ok(())
}

fn put(conn: &Connection, room: i64, folded: &str, agent: i64) -> rusqlite::Result<()> {
    const PUT: &str = "INSERT INTO room_names (room_id, name, agent_id) VALUES (?1, ?2, ?3)
        ON CONFLICT (room_id, name) DO UPDATE SET agent_id = excluded.agent_id";
    conn.prepare_cached(PUT)?
        .execute(params![room, folded, agent])?;
    Ok(())
}

/// Binds a name by decision.
pub(super) fn bind(
    tx: &mut Tx<'_>,
    name: &RoomName,
    caller: &AgentId,
    bound: &str,
    agent: &AgentId,
) -> Result<NameOutcome, Failure> {
    let Some((room, me)) = rows::member(tx, name, caller)? else {
        return Ok(NameOutcome::NotMember);
    };
    let folded = folded_name(bound);
    let may = match room.owner {
        Some(owner) => owner == me,
        None => holder(tx.conn, room.id, &folded)?.is_none(),
    };
    if !may {
        return Ok(NameOutcome::NotOwner);
    }
    let Some(agent) = tx.mirror.agent(tx.conn, agent)? else {
        return Ok(NameOutcome::Stranger);
    };
    if tx.mirror.member(tx.conn, room.id, agent)?.is_none() {
        return Ok(NameOutcome::Stranger);
    }
    put(tx.conn, room.id, &folded, agent)?;
    Ok(NameOutcome::Bound)
}
