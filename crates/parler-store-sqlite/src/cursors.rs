//! Moving a member's cursor, with the two numbers that make unread counts cheap.
//!
//! Beside its place in the log a cursor has an ordinal (how many messages of the room lie at or
//! below it), and the number of the member's own messages above it.

use parler_protocol::{AgentId, RoomName, Seq};
use rusqlite::{Connection, OptionalExtension};

use crate::error::Failure;
use crate::mirror::{Member, Room};
use crate::turns;
use crate::writer::Tx;

/// Moves a cursor forward and answers where it stands then.
pub(crate) fn advance(
    tx: &mut Tx<'_>,
    name: &RoomName,
    agent: &AgentId,
    to: Seq,
    now: i64,
) -> Result<Seq, Failure> {
    let Some(room) = tx.mirror.room(tx.conn, name)? else {
        return Ok(Seq(0));
    };
    let Some(id) = tx.mirror.agent(tx.conn, agent)? else {
        return Ok(Seq(0));
    };
    let Some(member) = tx.mirror.member(tx.conn, room.id, id)? else {
        return Ok(Seq(0));
    };
    if to.0 <= member.cursor || to.0 > room.head_seq {
        return Ok(Seq(member.cursor));
    }
    let moved = moved(tx.conn, room, id, member, to.0)?;
    tx.mirror.set_member(room.id, id, moved);
    turns::passed(tx, room.id, (agent, id), (member.cursor, to.0), now)?;
    Ok(to)
}

/// The member after its cursor moved up to `to`, which is not above the head.
fn moved(
    conn: &Connection,
    room: Room,
    agent: i64,
    member: Member,
    to: i64,
) -> rusqlite::Result<Member> {
    if to == room.head_seq {
        return Ok(Member {
            cursor: to,
            cursor_ord: room.head_ord,
            own_unread: 0,
        });
    }
    let cursor_ord = ord_at(conn, room.id, to)?.max(member.cursor_ord);
    let passed = cursor_ord - member.cursor_ord;
    let ahead = room.head_ord - cursor_ord;
    let own_unread = if member.own_unread == 0 || passed == 0 {
        member.own_unread
    } else if passed <= ahead {
        member.own_unread - own(conn, room.id, agent, member.cursor, to)?
    } else {
        own(conn, room.id, agent, to, i64::MAX)?
    };
    Ok(Member {
        cursor: to,
        cursor_ord,
        own_unread,
    })
}

/// The ordinal of the last message at or below a place; 0 when there is none (any more).
fn ord_at(conn: &Connection, room: i64, seq: i64) -> rusqlite::Result<i64> {
    const FIND: &str = "SELECT ord FROM messages INDEXED BY messages_room
        WHERE room_id = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1";
    let ord = conn
        .prepare_cached(FIND)?
        .query_row([room, seq], |row| row.get(0))
        .optional()?;
    Ok(ord.unwrap_or(0))
}

/// An agent's own messages in `(above, to]`: read from the index alone, and from whichever side of
/// the cursor is shorter, so that a member's moves cost no more than its backlog, once.
pub(crate) fn own(
    conn: &Connection,
    room: i64,
    agent: i64,
    above: i64,
    to: i64,
) -> rusqlite::Result<i64> {
    const COUNT: &str = "SELECT count(*) FROM messages INDEXED BY messages_room
        WHERE room_id = ?1 AND seq > ?2 AND seq <= ?3 AND author_id = ?4";
    conn.prepare_cached(COUNT)?
        .query_row([room, above, to, agent], |row| row.get(0))
}
