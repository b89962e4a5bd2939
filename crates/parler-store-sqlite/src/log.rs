//! The log: appending a message once, and reading a page of it.

use std::collections::HashMap;
use std::sync::Arc;

use parler_protocol::{AgentId, RoomKind, RoomName, Seq};
use parler_store::{Append, Appended, Event, LogEntry, MAX_PAGE, PAGE_BYTES, Page, ReadFrom};
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};

use crate::envelope::{Envelope, whole};
use crate::error::Failure;
use crate::mirror::{Member, Room};
use crate::writer::Tx;
use crate::{agents, rooms, services, turns};

/// An append with all that can be prepared outside the writer.
pub(crate) struct Prepared {
    append: Append,
    mentions: Option<String>,
    tail: String,
}

impl Prepared {
    pub(crate) fn new(append: Append) -> Self {
        let mentions = append
            .mentions
            .as_ref()
            .map(|m| serde_json::Value::from(m.as_slice()).to_string());
        let tail = Envelope {
            id: &append.id,
            room: append.room.as_str(),
            author: append.agent.as_str(),
            name: &append.name,
            role: append.role.as_deref(),
            parts: &append.parts,
            mentions: mentions.as_deref(),
            reply_to: append.reply_to.as_deref(),
            ts: append.now,
        }
        .tail();
        Self {
            append,
            mentions,
            tail,
        }
    }

    /// About what it keeps in memory while it waits.
    pub(crate) fn bytes(&self) -> usize {
        self.tail.len() + self.append.parts.len()
    }
}

/// Appends a message, or says why not.
pub(crate) fn append(tx: &mut Tx<'_>, prepared: Prepared) -> Result<Appended, Failure> {
    let Prepared {
        append,
        mentions,
        tail,
    } = prepared;
    let Some(room) = tx.mirror.room(tx.conn, &append.room)? else {
        return Ok(refused(&append));
    };
    let known = tx.mirror.agent(tx.conn, &append.agent)?;
    let member = match known {
        Some(author) => tx.mirror.member(tx.conn, room.id, author)?,
        None => None,
    };
    if member.is_none() && !append.join {
        return Ok(Appended::NotMember);
    }
    if let Some(author) = known
        && let Some(earlier) = repeated(tx.conn, room.id, author, &append)?
    {
        return Ok(earlier);
    }
    let (author, member) = match (known, member) {
        (Some(author), Some(member)) => (author, member),
        _ if room.kind != RoomKind::Service => return Ok(refused(&append)),
        _ if !services::may_come(tx.conn, room, known)? => return Ok(Appended::Denied),
        _ => join(tx, room, &append)?,
    };
    let seq = tx.mirror.take_seq(tx.conn)?;
    let ord = room.head_ord + 1;
    insert(
        tx.conn,
        (seq, room.id, ord, author),
        &append,
        mentions.as_deref(),
    )?;
    services::dispatched(tx.conn, room.id, (seq, &append.id), &append.dispatch)?;
    tx.mirror.move_head(&append.room, seq, ord);
    let member = Member {
        own_unread: member.own_unread + 1,
        ..member
    };
    tx.mirror.set_member(room.id, author, member);
    let entry = LogEntry {
        seq: Seq(seq),
        id: append.id.as_str().into(),
        room: append.room.clone(),
        author: append.agent.clone(),
        json: whole(seq, &tail),
    };
    tx.events.push(Event::Appended(entry.clone()));
    turns::appended(tx, room.id, author, seq, &append)?;
    Ok(Appended::New(entry))
}

/// The answer to who is no member of the room that it means, or means none that exists.
fn refused(append: &Append) -> Appended {
    if append.join {
        Appended::UnknownService
    } else {
        Appended::NotMember
    }
}

/// Makes the author a member of a service, at its head.
fn join(tx: &mut Tx<'_>, room: Room, append: &Append) -> rusqlite::Result<(i64, Member)> {
    let author = agents::ensure(tx, &append.agent, append.now)?;
    rooms::add_member_at_head(tx, &append.room, room, (&append.agent, author), append.now)?;
    let member = tx.mirror.member(tx.conn, room.id, author)?;
    Ok((author, member.unwrap_or_default()))
}

/// Looks for an earlier message with the same key.
fn repeated(
    conn: &Connection,
    room: i64,
    author: i64,
    append: &Append,
) -> rusqlite::Result<Option<Appended>> {
    const FIND: &str = "SELECT seq, id, digest FROM messages INDEXED BY messages_key
        WHERE client_id = ?3 AND room_id = ?1 AND author_id = ?2";
    let Some(key) = &append.client_id else {
        return Ok(None);
    };
    conn.prepare_cached(FIND)?
        .query_row(params![room, author, key], |row| {
            let digest: Option<[u8; 32]> = row.get(2)?;
            Ok(if digest == append.digest {
                Appended::Repeat {
                    id: row.get(1)?,
                    seq: Seq(row.get(0)?),
                }
            } else {
                Appended::KeyReused
            })
        })
        .optional()
}

fn insert(
    conn: &Connection,
    (seq, room, ord, author): (i64, i64, i64, i64),
    append: &Append,
    mentions: Option<&str>,
) -> rusqlite::Result<()> {
    const INSERT: &str = "INSERT INTO messages (seq, room_id, ord, author_id, ts, id, author_name,
            author_role, reply_to, client_id, digest, mentions, parts)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    conn.prepare_cached(INSERT)?.execute(params![
        seq,
        room,
        ord,
        author,
        append.now,
        append.id,
        &*append.name,
        append.role.as_deref(),
        append.reply_to,
        append.client_id,
        append.digest,
        mentions,
        &*append.parts,
    ])?;
    Ok(())
}

/// Reads a page for a member, inside one read transaction.
pub(crate) fn read(
    conn: &Connection,
    room: &RoomName,
    agent: &AgentId,
    from: ReadFrom,
    limit: u32,
) -> rusqlite::Result<Option<Page>> {
    const PLACE: &str = "SELECT r.id, r.head_seq, m.cursor, m.visible_after FROM rooms r
        JOIN agents a ON a.agent = ?2
        JOIN members m ON m.room_id = r.id AND m.agent_id = a.id
        WHERE r.name = ?1";
    let place = conn
        .prepare_cached(PLACE)?
        .query_row([room.as_str(), agent.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((room_id, head, cursor, visible_after)) = place else {
        return Ok(None);
    };
    let cursor = Seq(cursor);
    let floor = match from {
        ReadFrom::Since(since) => since,
        ReadFrom::Cursor { ack: Some(ack) } if ack <= Seq(head) => cursor.max(ack),
        ReadFrom::Cursor { .. } => cursor,
    };
    let above = floor.max(Seq(visible_after));
    let entries = entries(conn, (room, room_id), above, limit.min(MAX_PAGE))?;
    Ok(Some(Page {
        entries,
        floor,
        cursor,
    }))
}

/// Entries of a room above a place.
pub(crate) fn entries(
    conn: &Connection,
    room: (&RoomName, i64),
    floor: Seq,
    limit: u32,
) -> rusqlite::Result<Vec<LogEntry>> {
    const LIST: &str = "SELECT seq, author_id, ts, id, author_name, author_role, reply_to,
            mentions, parts
        FROM messages INDEXED BY messages_room
        WHERE room_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    let mut statement = conn.prepare_cached(LIST)?;
    let rows = statement.query(params![room.1, floor.0, limit])?;
    page(conn, room.0, rows)
}

/// Makes entries of rows with the columns of the log, as many as one page may have bytes.
pub(crate) fn page(
    conn: &Connection,
    room: &RoomName,
    mut rows: Rows<'_>,
) -> rusqlite::Result<Vec<LogEntry>> {
    let mut authors = HashMap::new();
    let mut entries = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let entry = entry(conn, room, row, &mut authors)?;
        bytes += entry.json.len();
        if bytes > PAGE_BYTES && !entries.is_empty() {
            break;
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn entry(
    conn: &Connection,
    room: &RoomName,
    row: &Row<'_>,
    authors: &mut HashMap<i64, AgentId>,
) -> rusqlite::Result<LogEntry> {
    let seq: i64 = row.get(0)?;
    let author = author(conn, row.get(1)?, authors)?;
    let id = row.get_ref(3)?.as_str()?;
    let json = Envelope {
        id,
        room: room.as_str(),
        author: author.as_str(),
        name: row.get_ref(4)?.as_str()?,
        role: row.get_ref(5)?.as_str_or_null()?,
        parts: row.get_ref(8)?.as_str()?,
        mentions: row.get_ref(7)?.as_str_or_null()?,
        reply_to: row.get_ref(6)?.as_str_or_null()?,
        ts: row.get(2)?,
    }
    .whole(seq);
    Ok(LogEntry {
        seq: Seq(seq),
        id: Arc::from(id),
        room: room.clone(),
        author,
        json,
    })
}

/// The id of an author; a page has few of them.
fn author(
    conn: &Connection,
    id: i64,
    known: &mut HashMap<i64, AgentId>,
) -> rusqlite::Result<AgentId> {
    if let Some(agent) = known.get(&id) {
        return Ok(agent.clone());
    }
    let agent = conn
        .prepare_cached("SELECT agent FROM agents WHERE id = ?1")?
        .query_row([id], |row| Ok(AgentId::trusted(row.get_ref(0)?.as_str()?)))?;
    known.insert(id, agent.clone());
    Ok(agent)
}
