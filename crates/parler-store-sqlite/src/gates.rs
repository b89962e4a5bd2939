//! What an owner decides: admitting, removing, passing a room on, deleting it.

use parler_protocol::{AgentId, RoomName};
use parler_store::{
    Deleted, Event, JoinRequestRow, LeaveOutcome, MemberOutcome, ResolveOutcome, WhichInvites,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::cursors;
use crate::error::Failure;
use crate::memory;
use crate::mirror::Room;
use crate::writer::Tx;
use crate::{rooms, services, tokens, turns};

/// The room and the caller's row, if the caller owns it.
fn owned(
    tx: &mut Tx<'_>,
    name: &RoomName,
    owner: &AgentId,
) -> Result<Option<(Room, i64)>, Failure> {
    let Some(room) = tx.mirror.room(tx.conn, name)? else {
        return Ok(None);
    };
    let caller = tx.mirror.agent(tx.conn, owner)?;
    Ok(caller
        .filter(|caller| room.owner == Some(*caller))
        .map(|caller| (room, caller)))
}

/// Who waits, for the owner.
pub(crate) fn requests(
    conn: &Connection,
    name: &RoomName,
    owner: &AgentId,
) -> rusqlite::Result<Option<Vec<JoinRequestRow>>> {
    const ROOM: &str = "SELECT r.id FROM rooms r JOIN agents a ON a.id = r.owner
        WHERE r.name = ?1 AND a.agent = ?2";
    const LIST: &str = "SELECT a.agent, a.name, a.role, q.requested_at
        FROM join_requests q JOIN agents a ON a.id = q.agent_id
        WHERE q.room_id = ?1 AND q.state = 'pending'
        ORDER BY q.requested_at, a.agent";
    let room: Option<i64> = conn
        .prepare_cached(ROOM)?
        .query_row([name.as_str(), owner.as_str()], |row| row.get(0))
        .optional()?;
    let Some(room) = room else { return Ok(None) };
    let rows = conn
        .prepare_cached(LIST)?
        .query_map([room], |row| {
            Ok(JoinRequestRow {
                agent: AgentId::trusted(row.get_ref(0)?.as_str()?),
                name: row.get(1)?,
                role: row.get(2)?,
                requested_at: row.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(rows))
}

/// Admits or refuses.
pub(crate) fn resolve(
    tx: &mut Tx<'_>,
    name: &RoomName,
    owner: &AgentId,
    agent: &AgentId,
    approve: bool,
    now: i64,
) -> Result<ResolveOutcome, Failure> {
    const FIND: &str = "SELECT 1 FROM join_requests WHERE room_id = ?1 AND agent_id = ?2";
    const DENY: &str =
        "UPDATE join_requests SET state = 'denied' WHERE room_id = ?1 AND agent_id = ?2";
    const DROP: &str = "DELETE FROM join_requests WHERE room_id = ?1 AND agent_id = ?2";
    let Some((room, _)) = owned(tx, name, owner)? else {
        return Ok(ResolveOutcome::NotOwner);
    };
    let Some(id) = tx.mirror.agent(tx.conn, agent)? else {
        return Ok(ResolveOutcome::NoRequest);
    };
    let asked = tx
        .conn
        .prepare_cached(FIND)?
        .query_row([room.id, id], |_| Ok(()))
        .optional()?;
    if asked.is_none() {
        return Ok(ResolveOutcome::NoRequest);
    }
    if approve {
        tx.conn.prepare_cached(DROP)?.execute([room.id, id])?;
        if tx.mirror.member(tx.conn, room.id, id)?.is_none() {
            rooms::add_member(tx, name, room, (agent, id), now)?;
        }
    } else {
        tx.conn.prepare_cached(DENY)?.execute([room.id, id])?;
    }
    tx.events.push(Event::Asked {
        room: name.clone(),
        agent: agent.clone(),
    });
    Ok(ResolveOutcome::Resolved)
}

/// Leaves; the last member takes the room along.
pub(crate) fn leave(
    tx: &mut Tx<'_>,
    name: &RoomName,
    agent: &AgentId,
    now: i64,
) -> Result<LeaveOutcome, Failure> {
    let Some(room) = tx.mirror.room(tx.conn, name)? else {
        return Ok(LeaveOutcome::NotMember);
    };
    let Some(id) = tx.mirror.agent(tx.conn, agent)? else {
        return Ok(LeaveOutcome::NotMember);
    };
    if tx.mirror.member(tx.conn, room.id, id)?.is_none() {
        return Ok(LeaveOutcome::NotMember);
    }
    let others = members(tx.conn, room.id)? - 1;
    if room.owner == Some(id) && others > 0 {
        return Ok(LeaveOutcome::OwnerStays);
    }
    drop_member(tx, name, room, (agent, id), now)?;
    if others == 0 {
        erase(tx, name, room)?;
    }
    Ok(LeaveOutcome::Left)
}

/// Removes somebody else.
pub(crate) fn remove(
    tx: &mut Tx<'_>,
    name: &RoomName,
    owner: &AgentId,
    agent: &AgentId,
    ban: bool,
    now: i64,
) -> Result<MemberOutcome, Failure> {
    const BAN: &str = "INSERT INTO bans (room_id, agent_id, banned_at) VALUES (?1, ?2, ?3)
        ON CONFLICT (room_id, agent_id) DO UPDATE SET banned_at = excluded.banned_at";
    const FORGET: &str = "DELETE FROM join_requests WHERE room_id = ?1 AND agent_id = ?2";
    let Some((room, caller)) = owned(tx, name, owner)? else {
        return Ok(MemberOutcome::NotOwner);
    };
    let Some(id) = tx.mirror.agent(tx.conn, agent)? else {
        return Ok(MemberOutcome::NotMember);
    };
    if id == caller || tx.mirror.member(tx.conn, room.id, id)?.is_none() {
        return Ok(MemberOutcome::NotMember);
    }
    drop_member(tx, name, room, (agent, id), now)?;
    tx.conn.prepare_cached(FORGET)?.execute([room.id, id])?;
    if ban {
        // Ids cost nothing: a ban that left the member's own codes alive would be none.
        const CODES: &str = "DELETE FROM invites WHERE room_id = ?1 AND minted_by = ?2";
        tx.conn.prepare_cached(CODES)?.execute([room.id, id])?;
        tx.conn.prepare_cached(BAN)?.execute([room.id, id, now])?;
    }
    Ok(MemberOutcome::Done)
}

/// Passes a room on.
pub(crate) fn transfer(
    tx: &mut Tx<'_>,
    name: &RoomName,
    owner: &AgentId,
    agent: &AgentId,
) -> Result<MemberOutcome, Failure> {
    let Some((room, _)) = owned(tx, name, owner)? else {
        return Ok(MemberOutcome::NotOwner);
    };
    let Some(id) = tx.mirror.agent(tx.conn, agent)? else {
        return Ok(MemberOutcome::NotMember);
    };
    if tx.mirror.member(tx.conn, room.id, id)?.is_none() {
        return Ok(MemberOutcome::NotMember);
    }
    let after = Room {
        owner: Some(id),
        ..room
    };
    rooms::update(tx, name, after)?;
    tokens::end_admin(tx, room)?;
    Ok(MemberOutcome::Done)
}

/// Deletes a room.
pub(crate) fn delete(
    tx: &mut Tx<'_>,
    name: &RoomName,
    owner: &AgentId,
) -> Result<Option<Deleted>, Failure> {
    let Some((room, _)) = owned(tx, name, owner)? else {
        return Ok(None);
    };
    erase(tx, name, room)?;
    Ok(Some(Deleted { kind: room.kind }))
}

/// Whether an agent may not come back.
pub(crate) fn is_banned(conn: &Connection, room: i64, agent: i64) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM bans WHERE room_id = ?1 AND agent_id = ?2)")?
        .query_row([room, agent], |row| row.get(0))
}

/// Revokes invites.
pub(crate) fn revoke(
    tx: &mut Tx<'_>,
    agent: &AgentId,
    which: &WhichInvites,
) -> Result<u32, Failure> {
    const MINE: &str = "(minted_by = ?1
        OR room_id IN (SELECT id FROM rooms WHERE owner = ?1))";
    let Some(caller) = tx.mirror.agent(tx.conn, agent)? else {
        return Ok(0);
    };
    let count = match which {
        WhichInvites::Code(hash) => tx
            .conn
            .prepare_cached(&format!(
                "DELETE FROM invites WHERE {MINE} AND code_hash = ?2"
            ))?
            .execute(params![caller, hash])?,
        WhichInvites::Id(id) => tx
            .conn
            .prepare_cached(&format!("DELETE FROM invites WHERE {MINE} AND id = ?2"))?
            .execute(params![caller, id])?,
        WhichInvites::Room(room) => tx
            .conn
            .prepare_cached(&format!(
                "DELETE FROM invites WHERE {MINE}
                    AND room_id = (SELECT id FROM rooms WHERE name = ?2)"
            ))?
            .execute(params![caller, room.as_str()])?,
    };
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn members(conn: &Connection, room: i64) -> rusqlite::Result<i64> {
    conn.prepare_cached("SELECT member_count FROM rooms WHERE id = ?1")?
        .query_row([room], |row| row.get(0))
}

/// Ends a membership.
fn drop_member(
    tx: &mut Tx<'_>,
    name: &RoomName,
    room: Room,
    agent: (&AgentId, i64),
    now: i64,
) -> rusqlite::Result<()> {
    const MEMBER: &str = "DELETE FROM members WHERE room_id = ?1 AND agent_id = ?2";
    const COUNT: &str = "UPDATE rooms SET member_count = member_count - 1 WHERE id = ?1";
    const NOTHING: &str = "DELETE FROM departed WHERE room_id = ?1 AND agent_id = ?2";
    const WROTE: &str = "INSERT INTO departed (room_id, agent_id, own) VALUES (?1, ?2, ?3)
        ON CONFLICT (room_id, agent_id) DO UPDATE SET own = excluded.own";
    let own = cursors::own(tx.conn, room.id, agent.1, 0, i64::MAX)?;
    if own > 0 {
        tx.conn
            .prepare_cached(WROTE)?
            .execute([room.id, agent.1, own])?;
    } else {
        // It may have left before, when it had written something that is gone by now.
        tx.conn
            .prepare_cached(NOTHING)?
            .execute([room.id, agent.1])?;
    }
    services::left(tx.conn, room.id, agent.1)?;
    tokens::end_of_member(tx, room, agent.1)?;
    tx.mirror.forget_member(room.id, agent.1);
    tx.conn
        .prepare_cached(MEMBER)?
        .execute([room.id, agent.1])?;
    tx.conn.prepare_cached(COUNT)?.execute([room.id])?;
    tx.events.push(Event::Left {
        room: name.clone(),
        agent: agent.0.clone(),
    });
    turns::left(tx, (name, room.id), agent.1, now)
}

/// Erases a room and everything of it.
fn erase(tx: &mut Tx<'_>, name: &RoomName, room: Room) -> rusqlite::Result<()> {
    const FLOOR: &str = "UPDATE meta SET value = max(value,
            (SELECT coalesce(max(seq), 0) FROM messages)) WHERE key = 'seq_floor'";
    const TABLES: [&str; 8] = [
        "DELETE FROM blob_rooms WHERE room_id = ?1",
        "DELETE FROM departed WHERE room_id = ?1",
        "DELETE FROM join_requests WHERE room_id = ?1",
        "DELETE FROM bans WHERE room_id = ?1",
        "DELETE FROM invites WHERE room_id = ?1",
        "DELETE FROM tokens WHERE room_id = ?1",
        "DELETE FROM members WHERE room_id = ?1",
        "DELETE FROM messages WHERE room_id = ?1",
    ];
    tx.mirror.forget_room(name, room.id);
    tx.conn.prepare_cached(FLOOR)?.execute([])?;
    turns::erase(tx.conn, room.id)?;
    for table in TABLES.iter().chain(&services::TABLES) {
        tx.conn.prepare_cached(table)?.execute([room.id])?;
    }
    memory::erase(tx.conn, room.id)?;
    tx.conn
        .prepare_cached("DELETE FROM rooms WHERE id = ?1")?
        .execute([room.id])?;
    tx.events.push(Event::Deleted { room: name.clone() });
    Ok(())
}
