//! Rooms and their members. Membership is granted by [`add_member`] and [`add_member_at_head`],
//! and nowhere else.

use parler_protocol::{AgentId, Attention, RoomKind, RoomName};
use parler_store::{Event, MemberRow, PresenceRow, RoomRow, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Failure;
use crate::mirror::{Room, kind};
use crate::writer::Tx;
use crate::{agents, directory, turns};

/// Makes a room without members.
pub(crate) fn create(
    tx: &mut Tx<'_>,
    name: &RoomName,
    kind: RoomKind,
    now: i64,
) -> rusqlite::Result<Room> {
    const INSERT: &str = "INSERT INTO rooms (name, kind, created_at) VALUES (?1, ?2, ?3)";
    let id = tx
        .conn
        .prepare_cached(INSERT)?
        .insert(params![name.as_str(), kind.as_str(), now])?;
    let room = Room {
        id,
        kind,
        owner: None,
        gated: false,
        head_seq: 0,
        head_ord: 0,
    };
    tx.mirror.learn_room(name, room);
    Ok(room)
}

/// Writes the owner and the gate of a room.
pub(crate) fn update(tx: &mut Tx<'_>, name: &RoomName, room: Room) -> rusqlite::Result<()> {
    const UPDATE: &str = "UPDATE rooms SET owner = ?2, gated = ?3 WHERE id = ?1";
    tx.conn
        .prepare_cached(UPDATE)?
        .execute(params![room.id, room.owner, room.gated])?;
    tx.mirror.learn_room(name, room);
    Ok(())
}

/// Makes an agent, that is not one yet, a member, from the beginning of the log.
pub(crate) fn add_member(
    tx: &mut Tx<'_>,
    name: &RoomName,
    room: Room,
    agent: (&AgentId, i64),
    now: i64,
) -> rusqlite::Result<()> {
    const MEMBER: &str = "INSERT INTO members (room_id, agent_id, joined_at, own_unread)
        VALUES (?1, ?2, ?3, coalesce(
            (SELECT own FROM departed WHERE room_id = ?1 AND agent_id = ?2), 0))";
    tx.conn
        .prepare_cached(MEMBER)?
        .execute(params![room.id, agent.1, now])?;
    admitted(tx, name, room, agent)
}

/// The same from the head of the log: for who comes by itself, and reads nothing of before.
pub(crate) fn add_member_at_head(
    tx: &mut Tx<'_>,
    name: &RoomName,
    room: Room,
    agent: (&AgentId, i64),
    now: i64,
) -> rusqlite::Result<()> {
    const MEMBER: &str = "INSERT INTO members
            (room_id, agent_id, joined_at, cursor, cursor_ord, visible_after)
        VALUES (?1, ?2, ?3, ?4, ?5, ?4)";
    tx.conn.prepare_cached(MEMBER)?.execute(params![
        room.id,
        agent.1,
        now,
        room.head_seq,
        room.head_ord
    ])?;
    admitted(tx, name, room, agent)
}

/// What goes with every new membership.
fn admitted(
    tx: &mut Tx<'_>,
    name: &RoomName,
    room: Room,
    agent: (&AgentId, i64),
) -> rusqlite::Result<()> {
    const COUNT: &str = "UPDATE rooms SET member_count = member_count + 1 WHERE id = ?1";
    // A request that waits has its answer now; a refusal stays, for the gated codes of later.
    const ANSWERED: &str = "DELETE FROM join_requests
        WHERE room_id = ?1 AND agent_id = ?2 AND state = 'pending'";
    let (agent, agent_id) = agent;
    tx.conn.prepare_cached(COUNT)?.execute([room.id])?;
    tx.conn
        .prepare_cached(ANSWERED)?
        .execute([room.id, agent_id])?;
    turns::name_used(tx.conn, room.id, agent_id)?;
    tx.events.push(Event::Joined {
        room: name.clone(),
        kind: room.kind,
        agent: agent.clone(),
    });
    Ok(())
}

/// Whether an agent owns as many rooms as it may. Counts no further than that.
pub(crate) fn owns_enough(conn: &Connection, agent: i64, max: u32) -> rusqlite::Result<bool> {
    const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM rooms WHERE owner = ?1 LIMIT ?2)";
    let owned: i64 = conn
        .prepare_cached(COUNT)?
        .query_row(params![agent, max], |row| row.get(0))?;
    Ok(owned >= i64::from(max))
}

/// The kind of a room that the agent is a member of.
pub(crate) fn membership(
    conn: &Connection,
    room: &RoomName,
    agent: &AgentId,
) -> rusqlite::Result<Option<RoomKind>> {
    const FIND: &str = "SELECT r.kind FROM rooms r
        JOIN agents a ON a.agent = ?2
        JOIN members m ON m.room_id = r.id AND m.agent_id = a.id
        WHERE r.name = ?1";
    conn.prepare_cached(FIND)?
        .query_row([room.as_str(), agent.as_str()], |row| kind(row, 0))
        .optional()
}

/// An agent's rooms. Unread messages come from ordinals; counted are only the few that retention
/// passed over.
pub(crate) fn rooms(conn: &Connection, agent: &AgentId) -> rusqlite::Result<Vec<RoomRow>> {
    const LIST: &str = "SELECT r.name, r.kind, r.member_count,
            r.head_ord - max(m.cursor_ord, r.pruned_ord) + (
                SELECT count(*) FROM messages x INDEXED BY messages_room
                WHERE x.room_id = r.id AND x.seq > m.cursor AND x.seq <= r.pruned_seq),
            m.own_unread
        FROM members m JOIN rooms r ON r.id = m.room_id
        WHERE m.agent_id = (SELECT id FROM agents WHERE agent = ?1)
        ORDER BY r.name";
    conn.prepare_cached(LIST)?
        .query_map([agent.as_str()], |row| {
            let unread: i64 = row.get(3)?;
            let own: i64 = row.get(4)?;
            Ok(RoomRow {
                name: RoomName::new(row.get_ref(0)?.as_str()?),
                kind: kind(row, 1)?,
                members: count(row.get(2)?),
                unread: count(unread),
                unread_others: count(unread - own),
            })
        })?
        .collect()
}

/// A count as the wire has it.
pub(crate) fn count(n: i64) -> u32 {
    u32::try_from(n.max(0)).unwrap_or(u32::MAX)
}

/// Members of a room, for one of them.
pub(crate) fn roster(
    conn: &Connection,
    room: &RoomName,
    agent: &AgentId,
) -> rusqlite::Result<Option<Vec<MemberRow>>> {
    const LIST: &str = "SELECT a.agent, a.name, a.role, a.last_hello,
            p.status, p.activity, p.attention, p.at, w.role
        FROM members m
        JOIN agents a ON a.id = m.agent_id
        LEFT JOIN workers w ON w.room_id = m.room_id AND w.agent_id = m.agent_id
        LEFT JOIN presence p ON p.agent_id = a.id
        WHERE m.room_id = (SELECT id FROM rooms WHERE name = ?1)
        ORDER BY a.name, a.agent";
    if membership(conn, room, agent)?.is_none() {
        return Ok(None);
    }
    let rows = conn
        .prepare_cached(LIST)?
        .query_map([room.as_str()], member_row)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(rows))
}

/// A member and its presence, out of the first nine columns.
pub(crate) fn member_row(row: &Row<'_>) -> rusqlite::Result<MemberRow> {
    let presence = match row.get::<_, Option<String>>(4)? {
        None => None,
        Some(status) => Some(PresenceRow {
            status,
            activity: row.get(5)?,
            attention: attention(row, 6)?,
            at: row.get(7)?,
        }),
    };
    Ok(MemberRow {
        agent: AgentId::trusted(row.get_ref(0)?.as_str()?),
        name: row.get(1)?,
        role: row.get(2)?,
        last_hello: row.get(3)?,
        presence,
        service_role: row.get(8)?,
    })
}

pub(crate) fn attention(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Attention>> {
    // A word that a later version wrote reads as "unknown", which peers treat as open.
    Ok(row
        .get_ref(column)?
        .as_str_or_null()?
        .and_then(Attention::from_wire))
}

/// The one-to-one room of two agents, opened for a peer that has a card.
pub(crate) fn open_dm(
    tx: &mut Tx<'_>,
    agent: &AgentId,
    peer: &AgentId,
    candidate: &RoomName,
    now: i64,
) -> Result<Option<RoomName>, Failure> {
    if let Some(room) = dm_room(tx.conn, agent, peer)? {
        return Ok(Some(room));
    }
    let Some(theirs) = tx.mirror.agent(tx.conn, peer)? else {
        return Ok(None);
    };
    if agent == peer || !directory::has_card(tx.conn, theirs)? {
        return Ok(None);
    }
    if tx.mirror.room(tx.conn, candidate)?.is_some() {
        let text = "the new room's name is taken; try again".to_owned();
        return Err(Failure::Refused(StoreError::Unavailable(text)));
    }
    let mine = agents::ensure(tx, agent, now)?;
    let room = create(tx, candidate, RoomKind::Dm, now)?;
    add_member(tx, candidate, room, (agent, mine), now)?;
    add_member(tx, candidate, room, (peer, theirs), now)?;
    Ok(Some(candidate.clone()))
}

/// The oldest room of kind `dm` with just these two members.
pub(crate) fn dm_room(
    conn: &Connection,
    agent: &AgentId,
    peer: &AgentId,
) -> rusqlite::Result<Option<RoomName>> {
    const FIND: &str = "SELECT r.name FROM members mine
        JOIN rooms r ON r.id = mine.room_id AND r.kind = 'dm' AND r.member_count = 2
        JOIN members theirs ON theirs.room_id = r.id
            AND theirs.agent_id = (SELECT id FROM agents WHERE agent = ?2)
        WHERE mine.agent_id = (SELECT id FROM agents WHERE agent = ?1)
            AND theirs.agent_id <> mine.agent_id
        ORDER BY r.id LIMIT 1";
    conn.prepare_cached(FIND)?
        .query_row([agent.as_str(), peer.as_str()], |row| {
            Ok(RoomName::new(row.get_ref(0)?.as_str()?))
        })
        .optional()
}
