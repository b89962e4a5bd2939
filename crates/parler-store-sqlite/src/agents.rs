//! Agents and their presence.

use parler_protocol::{AgentId, Attention};
use rusqlite::params;

use crate::error::Failure;
use crate::turns;
use crate::writer::Tx;

/// The status of an agent that said nothing about itself.
const IDLE: &str = "idle";

/// The agent's row, made without a name if it is not known yet: a login names it.
pub(crate) fn ensure(tx: &mut Tx<'_>, agent: &AgentId, now: i64) -> rusqlite::Result<i64> {
    const INSERT: &str = "INSERT INTO agents (agent, name, role, first_seen, last_hello)
        VALUES (?1, '', NULL, ?2, 0)";
    if let Some(id) = tx.mirror.agent(tx.conn, agent)? {
        return Ok(id);
    }
    tx.conn
        .prepare_cached(INSERT)?
        .insert(params![agent.as_str(), now])
}

/// Notes a login.
pub(crate) fn hello(
    tx: &mut Tx<'_>,
    agent: &AgentId,
    name: &str,
    role: Option<&str>,
    now: i64,
) -> Result<(), Failure> {
    const AGENT: &str = "UPDATE agents SET name = ?2, role = ?3, last_hello = ?4 WHERE id = ?1";
    const PRESENCE: &str = "INSERT INTO presence (agent_id, status, at) VALUES (?1, ?2, ?3)
        ON CONFLICT (agent_id) DO UPDATE
        SET status = excluded.status, activity = NULL, at = excluded.at";
    let id = ensure(tx, agent, now)?;
    let was: String = tx
        .conn
        .prepare_cached("SELECT name FROM agents WHERE id = ?1")?
        .query_row([id], |row| row.get(0))?;
    tx.conn
        .prepare_cached(AGENT)?
        .execute(params![id, name, role, now])?;
    if was != name {
        turns::name_used_everywhere(tx.conn, id)?;
    }
    tx.conn
        .prepare_cached(PRESENCE)?
        .execute(params![id, IDLE, now])?;
    Ok(())
}

/// Sets status and activity; attention only when given.
pub(crate) fn set_presence(
    tx: &mut Tx<'_>,
    agent: &AgentId,
    status: &str,
    activity: Option<&str>,
    attention: Option<Attention>,
    now: i64,
) -> Result<(), Failure> {
    const SET: &str = "INSERT INTO presence (agent_id, status, activity, attention, at)
        VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (agent_id) DO UPDATE
        SET status = excluded.status, activity = excluded.activity,
            attention = coalesce(excluded.attention, attention), at = excluded.at";
    let id = ensure(tx, agent, now)?;
    let attention = attention.map(Attention::as_str);
    tx.conn
        .prepare_cached(SET)?
        .execute(params![id, status, activity, attention, now])?;
    Ok(())
}

/// Sets the attention and keeps the rest.
pub(crate) fn set_attention(
    tx: &mut Tx<'_>,
    agent: &AgentId,
    attention: Attention,
    now: i64,
) -> Result<(), Failure> {
    const SET: &str = "INSERT INTO presence (agent_id, status, attention, at)
        VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (agent_id) DO UPDATE SET attention = excluded.attention, at = excluded.at";
    let id = ensure(tx, agent, now)?;
    tx.conn
        .prepare_cached(SET)?
        .execute(params![id, IDLE, attention.as_str(), now])?;
    Ok(())
}

/// Refreshes presence times.
pub(crate) fn touch(tx: &mut Tx<'_>, seen: &[(AgentId, i64)]) -> Result<(), Failure> {
    const TOUCH: &str = "INSERT INTO presence (agent_id, status, at) VALUES (?1, ?2, ?3)
        ON CONFLICT (agent_id) DO UPDATE SET at = excluded.at WHERE excluded.at > at";
    for (agent, at) in seen {
        let id = ensure(tx, agent, *at)?;
        tx.conn
            .prepare_cached(TOUCH)?
            .execute(params![id, IDLE, at])?;
    }
    Ok(())
}
