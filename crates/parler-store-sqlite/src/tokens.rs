//! Tokens for HTTP, and what their holders read.

use parler_protocol::{AgentId, RoomName, Seq};
use parler_store::{
    CardRow, CodeHash, Event, LogEntry, MAX_PAGE, MintOutcome, NewToken, PAGE_BYTES, StoreFuture,
    TokenKind, TokenRow, TokenStore, WatchedMember, WatchedRoom, WhichTokens,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Failure;
use crate::mirror::{Room, kind};
use crate::writer::Tx;
use crate::{SqliteStore, agents, directory, log, rooms};

impl TokenStore for SqliteStore {
    fn mint_token(&self, token: NewToken) -> StoreFuture<'_, MintOutcome> {
        Box::pin(self.writer.run(0, move |tx| mint(tx, &token)))
    }

    fn token(&self, token: CodeHash, now: i64) -> StoreFuture<'_, Option<TokenRow>> {
        Box::pin(self.readers.run(move |conn| find(conn, &token, now)))
    }

    fn revoke_tokens<'a>(
        &'a self,
        agent: &'a AgentId,
        which: WhichTokens,
        now: i64,
    ) -> StoreFuture<'a, u32> {
        let agent = agent.clone();
        Box::pin(
            self.writer
                .run(0, move |tx| revoke(tx, &agent, &which, now)),
        )
    }

    fn watched_room(&self, token: CodeHash, now: i64) -> StoreFuture<'_, Option<WatchedRoom>> {
        Box::pin(self.readers.run(move |conn| room(conn, &token, now)))
    }

    fn watched_log(
        &self,
        token: CodeHash,
        now: i64,
        after: Seq,
        limit: u32,
    ) -> StoreFuture<'_, Option<Vec<LogEntry>>> {
        Box::pin(self.readers.run(move |conn| {
            let Some((name, room)) = opened(conn, &token, now)? else {
                return Ok(None);
            };
            log::entries(conn, (&name, room), after, limit.min(MAX_PAGE)).map(Some)
        }))
    }

    fn watched_cards(&self, token: CodeHash, now: i64) -> StoreFuture<'_, Option<Vec<CardRow>>> {
        Box::pin(self.readers.run(move |conn| {
            let Some((_, room)) = opened(conn, &token, now)? else {
                return Ok(None);
            };
            directory::of_members(conn, room).map(Some)
        }))
    }

    fn sweep_tokens(&self, now: i64, limit: u32) -> StoreFuture<'_, u32> {
        const DELETE: &str = "DELETE FROM tokens WHERE token_hash IN (
            SELECT token_hash FROM tokens WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)";
        Box::pin(self.writer.run(0, move |tx| {
            let gone = tx
                .conn
                .prepare_cached(DELETE)?
                .execute(params![now, limit])?;
            Ok(u32::try_from(gone).unwrap_or(u32::MAX))
        }))
    }

    fn count_cards(&self) -> StoreFuture<'_, (u64, u64)> {
        const COUNT: &str = "SELECT count(*), count(*) FILTER (WHERE visibility = 'public')
            FROM cards";
        Box::pin(self.readers.run(|conn| {
            conn.prepare_cached(COUNT)?.query_row([], |row| {
                let count = |n: i64| u64::try_from(n).unwrap_or(0);
                Ok((count(row.get(0)?), count(row.get(1)?)))
            })
        }))
    }

    fn last_seq(&self) -> StoreFuture<'_, Seq> {
        const LAST: &str = "SELECT coalesce(max(seq), 0) FROM messages";
        Box::pin(self.readers.run(|conn| {
            conn.prepare_cached(LAST)?
                .query_row([], |row| Ok(Seq(row.get(0)?)))
        }))
    }

    fn parts_after(&self, after: Seq) -> StoreFuture<'_, Vec<(Seq, String)>> {
        Box::pin(self.readers.run(move |conn| parts_after(conn, after)))
    }
}

/// Stores a token.
fn mint(tx: &mut Tx<'_>, token: &NewToken) -> Result<MintOutcome, Failure> {
    const ACTIVE: &str = "SELECT count(*) FROM (SELECT 1 FROM tokens
        WHERE minted_by = ?1 AND expires_at >= ?2 LIMIT ?3)";
    // So that the table stays small even where nobody else tidies it.
    const EXPIRED: &str = "DELETE FROM tokens WHERE minted_by = ?1 AND expires_at < ?2";
    const INSERT: &str = "INSERT INTO tokens
            (token_hash, id, kind, room_id, minted_by, expires_at, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let known = tx.mirror.agent(tx.conn, &token.agent)?;
    let room = match &token.room {
        None => None,
        Some(name) => match tx.mirror.room(tx.conn, name)? {
            Some(room) if known.is_some() && room.owner == known => Some(room.id),
            _ => return Ok(MintOutcome::NotOwner),
        },
    };
    if let Some(agent) = known {
        let active: i64 = tx
            .conn
            .prepare_cached(ACTIVE)?
            .query_row(params![agent, token.now, token.max_active], |row| {
                row.get(0)
            })?;
        if active >= i64::from(token.max_active) {
            return Ok(MintOutcome::TooMany);
        }
    }
    let agent = agents::ensure(tx, &token.agent, token.now)?;
    tx.conn
        .prepare_cached(EXPIRED)?
        .execute([agent, token.now])?;
    tx.conn.prepare_cached(INSERT)?.execute(params![
        token.token,
        token.id,
        token.kind.as_str(),
        room,
        agent,
        token.expires_at,
        token.now,
    ])?;
    Ok(MintOutcome::Minted)
}

/// A token that is good at the moment.
fn find(conn: &Connection, token: &CodeHash, now: i64) -> rusqlite::Result<Option<TokenRow>> {
    const FIND: &str = "SELECT t.kind, r.name, a.agent, t.expires_at FROM tokens t
        JOIN agents a ON a.id = t.minted_by
        LEFT JOIN rooms r ON r.id = t.room_id
        WHERE t.token_hash = ?1 AND t.expires_at >= ?2";
    conn.prepare_cached(FIND)?
        .query_row(params![token, now], |row| {
            // A word that a later version wrote opens nothing here.
            let Some(kind) = TokenKind::from_stored(row.get_ref(0)?.as_str()?) else {
                return Ok(None);
            };
            Ok(Some(TokenRow {
                kind,
                room: row.get_ref(1)?.as_str_or_null()?.map(RoomName::new),
                minted_by: AgentId::trusted(row.get_ref(2)?.as_str()?),
                expires_at: row.get(3)?,
            }))
        })
        .optional()
        .map(Option::flatten)
}

/// Revokes tokens of the caller, or of its rooms.
fn revoke(tx: &mut Tx<'_>, agent: &AgentId, which: &WhichTokens, now: i64) -> Result<u32, Failure> {
    const MINE: &str = "(minted_by = ?1 OR room_id IN (SELECT id FROM rooms WHERE owner = ?1))";
    let Some(caller) = tx.mirror.agent(tx.conn, agent)? else {
        return Ok(0);
    };
    let count = match which {
        WhichTokens::Token(hash) => delete(
            tx,
            &format!("{MINE} AND token_hash = ?2"),
            params![caller, hash],
            now,
        ),
        WhichTokens::Id(id) => delete(tx, &format!("{MINE} AND id = ?2"), params![caller, id], now),
        WhichTokens::Room(room) => delete(
            tx,
            &format!(
                "{MINE} AND kind IN ('watch', 'watch_full')
                    AND room_id = (SELECT id FROM rooms WHERE name = ?2)"
            ),
            params![caller, room.as_str()],
            now,
        ),
    };
    Ok(count?)
}

/// An owner is none any more: what acts for the owner ends.
pub(crate) fn end_admin(tx: &mut Tx<'_>, room: Room) -> rusqlite::Result<()> {
    delete(tx, "room_id = ?1 AND kind = 'admin'", [room.id], 0).map(|_| ())
}

/// A member is none any more: what it minted for the room ends.
pub(crate) fn end_of_member(tx: &mut Tx<'_>, room: Room, agent: i64) -> rusqlite::Result<()> {
    delete(tx, "room_id = ?1 AND minted_by = ?2", [room.id, agent], 0).map(|_| ())
}

/// Deletes tokens, tells who watches, and counts those that were still good.
fn delete(
    tx: &mut Tx<'_>,
    which: &str,
    params: impl rusqlite::Params,
    now: i64,
) -> rusqlite::Result<u32> {
    let delete = format!(
        "DELETE FROM tokens WHERE {which}
        RETURNING expires_at, (SELECT name FROM rooms WHERE id = room_id)"
    );
    let mut statement = tx.conn.prepare_cached(&delete)?;
    let mut rows = statement.query(params)?;
    let (mut good, mut touched) = (0, Vec::<RoomName>::new());
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(0)? >= now {
            good += 1;
        }
        if let Some(room) = row.get_ref(1)?.as_str_or_null()?.map(RoomName::new)
            && !touched.contains(&room)
        {
            touched.push(room);
        }
    }
    tx.events
        .extend(touched.into_iter().map(|room| Event::Revoked { room }));
    Ok(good)
}

/// Name and row of the room that a token opens.
fn opened(
    conn: &Connection,
    token: &CodeHash,
    now: i64,
) -> rusqlite::Result<Option<(RoomName, i64)>> {
    const FIND: &str = "SELECT r.name, r.id FROM tokens t JOIN rooms r ON r.id = t.room_id
        WHERE t.token_hash = ?1 AND t.expires_at >= ?2";
    conn.prepare_cached(FIND)?
        .query_row(params![token, now], |row| {
            Ok((RoomName::new(row.get_ref(0)?.as_str()?), row.get(1)?))
        })
        .optional()
}

/// The room of a token, with its members.
fn room(conn: &Connection, token: &CodeHash, now: i64) -> rusqlite::Result<Option<WatchedRoom>> {
    const ROOM: &str = "SELECT kind, created_at, head_seq, pruned_ord, head_ord
        FROM rooms WHERE id = ?1";
    const MEMBERS: &str = "SELECT a.agent, a.name, a.role, a.last_hello,
            p.status, p.activity, p.attention, p.at, w.role, m.cursor_ord
        FROM members m
        JOIN agents a ON a.id = m.agent_id
        LEFT JOIN workers w ON w.room_id = m.room_id AND w.agent_id = m.agent_id
        LEFT JOIN presence p ON p.agent_id = a.id
        WHERE m.room_id = ?1
        ORDER BY a.name, a.agent";
    let Some((name, id)) = opened(conn, token, now)? else {
        return Ok(None);
    };
    let (mut watched, head_ord): (WatchedRoom, i64) =
        conn.prepare_cached(ROOM)?.query_row([id], |row| {
            let watched = WatchedRoom {
                name,
                kind: kind(row, 0)?,
                opened_at: row.get(1)?,
                head: Seq(row.get(2)?),
                pruned: row.get(3)?,
                members: Vec::new(),
            };
            Ok((watched, row.get(4)?))
        })?;
    let pruned = watched.pruned;
    let member = |row: &Row<'_>| {
        let unread = head_ord - row.get::<_, i64>(9)?.max(pruned);
        Ok(WatchedMember {
            member: rooms::member_row(row)?,
            unread: rooms::count(unread),
        })
    };
    watched.members = conn
        .prepare_cached(MEMBERS)?
        .query_map([id], member)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(watched))
}

fn parts_after(conn: &Connection, after: Seq) -> rusqlite::Result<Vec<(Seq, String)>> {
    const LIST: &str = "SELECT seq, parts FROM messages WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let mut statement = conn.prepare_cached(LIST)?;
    let mut rows = statement.query(params![after.0, MAX_PAGE])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let parts: String = row.get(1)?;
        bytes += parts.len();
        if bytes > PAGE_BYTES && !found.is_empty() {
            break;
        }
        found.push((Seq(row.get(0)?), parts));
    }
    Ok(found)
}
