//! What a room's owner sets for the loop guard and the gate.

use parler_protocol::{AgentId, RoomKind, RoomName};
use parler_store::{PolicyChange, PolicyOutcome, RoomPolicyRow};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows;
use crate::error::Failure;
use crate::mirror::Room;
use crate::rooms;
use crate::writer::Tx;

/// A room's settings, for a member.
pub(super) fn policy(
    conn: &Connection,
    room: &RoomName,
    agent: &AgentId,
) -> rusqlite::Result<Option<RoomPolicyRow>> {
    const FIND: &str = "SELECT g.hop_limit, g.handoff_hop_limit, r.gated FROM rooms r
        JOIN agents a ON a.agent = ?2
        JOIN members m ON m.room_id = r.id AND m.agent_id = a.id
        LEFT JOIN room_guard g ON g.room_id = r.id
        WHERE r.name = ?1";
    conn.prepare_cached(FIND)?
        .query_row([room.as_str(), agent.as_str()], |row| {
            Ok(RoomPolicyRow {
                hop_limit: row.get(0)?,
                handoff_hop_limit: row.get(1)?,
                require_approval: row.get(2)?,
            })
        })
        .optional()
}

/// Changes them.
pub(super) fn set_policy(tx: &mut Tx<'_>, change: &PolicyChange) -> Result<PolicyOutcome, Failure> {
    const LIMITS: &str = "INSERT INTO room_guard (room_id, hop_limit, handoff_hop_limit)
        VALUES (?1, ?2, ?3)
        ON CONFLICT (room_id) DO UPDATE SET
            hop_limit = coalesce(excluded.hop_limit, hop_limit),
            handoff_hop_limit = coalesce(excluded.handoff_hop_limit, handoff_hop_limit)";
    let Some((room, me)) = rows::member(tx, &change.room, &change.by)? else {
        return Ok(PolicyOutcome::NotMember);
    };
    if room.owner != Some(me) {
        return Ok(PolicyOutcome::NotOwner);
    }
    if change.require_approval == Some(true) && room.kind != RoomKind::Channel {
        return Ok(PolicyOutcome::NoGate);
    }
    if change.hop_limit.is_some() || change.handoff_hop_limit.is_some() {
        tx.conn.prepare_cached(LIMITS)?.execute(params![
            room.id,
            change.hop_limit,
            change.handoff_hop_limit
        ])?;
    }
    if let Some(gated) = change.require_approval {
        gate(tx, &change.room, room, gated)?;
    }
    let now = policy(tx.conn, &change.room, &change.by)?;
    Ok(now.map_or(PolicyOutcome::NotMember, PolicyOutcome::Set))
}

/// Opens or closes the gate, for the codes that exist too.
fn gate(tx: &mut Tx<'_>, name: &RoomName, room: Room, gated: bool) -> rusqlite::Result<()> {
    const CODES: &str = "UPDATE invites SET gated = ?2 WHERE room_id = ?1";
    rooms::update(tx, name, Room { gated, ..room })?;
    tx.conn
        .prepare_cached(CODES)?
        .execute(params![room.id, gated])?;
    Ok(())
}
