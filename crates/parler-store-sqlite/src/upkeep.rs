//! Retention: what is old goes, in steps of one short transaction each.
//!
//! Messages go from the beginning of a room, so that an ordinal says up to where; the few that
//! stay behind it (an active turn's) are counted one by one. Whoever wrote a message that goes
//! has one unread message of its own less, if its cursor had not passed it.

use std::collections::BTreeMap;

use parler_protocol::{RoomName, Seq};
use parler_store::{
    FactPlace, MessageRule, Pruned, StepSize, StoreFuture, SweptFacts, UpkeepStore,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;
use crate::mirror::{Member, Room};
use crate::writer::Tx;
use crate::{SqliteStore, services, turns};

impl UpkeepStore for SqliteStore {
    fn sweep_invites(&self, now: i64, asked_before: i64, limit: u32) -> StoreFuture<'_, u32> {
        Box::pin(
            self.writer
                .run(0, move |tx| invites(tx.conn, now, asked_before, limit)),
        )
    }

    fn rooms_to_prune<'a>(
        &'a self,
        after: Option<&'a RoomName>,
        rule: MessageRule,
        limit: u32,
    ) -> StoreFuture<'a, Vec<RoomName>> {
        let after = after.map_or_else(String::new, |room| room.as_str().to_owned());
        Box::pin(
            self.readers
                .run(move |conn| rooms(conn, &after, rule, limit)),
        )
    }

    fn prune_room<'a>(
        &'a self,
        room: &'a RoomName,
        after: Seq,
        rule: MessageRule,
        step: StepSize,
    ) -> StoreFuture<'a, Pruned> {
        let room = room.clone();
        Box::pin(
            self.writer
                .run(0, move |tx| prune(tx, &room, after, rule, step, &stays)),
        )
    }

    fn sweep_facts(
        &self,
        from: FactPlace,
        keep: u32,
        step: StepSize,
    ) -> StoreFuture<'_, SweptFacts> {
        Box::pin(async move {
            // Looked for by a reader: the writer only deletes.
            let crowded = self.readers.run(move |conn| crowded(conn, from, keep));
            let Some(place) = crowded.await? else {
                return Ok(SweptFacts {
                    deleted: 0,
                    next: None,
                });
            };
            let deleted = self
                .writer
                .run(0, move |tx| facts(tx.conn, place, keep, step))
                .await?;
            Ok(SweptFacts {
                deleted,
                next: Some(place),
            })
        })
    }
}

fn invites(conn: &Connection, now: i64, asked_before: i64, limit: u32) -> Result<u32, Failure> {
    const DELETE: &str = "DELETE FROM invites WHERE code_hash IN (
        SELECT i.code_hash FROM invites i
        WHERE i.expires_at < ?1 AND (i.gated = 0 OR i.expires_at < ?2 OR NOT EXISTS (
            SELECT 1 FROM join_requests q WHERE q.room_id = i.room_id AND q.state = 'pending'))
        ORDER BY i.expires_at LIMIT ?3)";
    let gone = conn
        .prepare_cached(DELETE)?
        .execute(params![now, asked_before, limit])?;
    Ok(u32::try_from(gone).unwrap_or(u32::MAX))
}

/// Rooms whose oldest message may go.
fn rooms(
    conn: &Connection,
    after: &str,
    rule: MessageRule,
    limit: u32,
) -> rusqlite::Result<Vec<RoomName>> {
    const LIST: &str = "SELECT r.name FROM rooms r
        WHERE r.name > ?1 AND r.head_ord > ?2 AND (
            SELECT m.ts FROM messages m INDEXED BY messages_room
            WHERE m.room_id = r.id ORDER BY m.seq LIMIT 1) < ?3
        ORDER BY r.name LIMIT ?4";
    conn.prepare_cached(LIST)?
        .query_map(params![after, rule.keep, rule.before, limit], |row| {
            Ok(RoomName::new(row.get_ref(0)?.as_str()?))
        })?
        .collect()
}

/// The first author and scope at or behind a place with too many facts.
fn crowded(conn: &Connection, from: FactPlace, keep: u32) -> rusqlite::Result<Option<FactPlace>> {
    const FIND: &str = "SELECT author_id, scope FROM facts INDEXED BY facts_unkeyed
        WHERE key IS NULL AND (author_id, scope) >= (?1, ?2)
        GROUP BY author_id, scope HAVING count(*) > ?3 LIMIT 1";
    conn.prepare_cached(FIND)?
        .query_row(params![from.0, from.1, keep], |row| {
            Ok(FactPlace(row.get(0)?, row.get(1)?))
        })
        .optional()
}

/// Deletes the oldest facts of one author in one scope.
fn facts(conn: &Connection, place: FactPlace, keep: u32, step: StepSize) -> Result<u32, Failure> {
    const OVER: &str = "SELECT count(*) - ?3 FROM facts INDEXED BY facts_unkeyed
        WHERE key IS NULL AND author_id = ?1 AND scope = ?2";
    const OLDEST: &str = "SELECT id, octet_length(text) FROM facts INDEXED BY facts_unkeyed
        WHERE key IS NULL AND author_id = ?1 AND scope = ?2 ORDER BY id LIMIT ?3";
    const DELETE: &str = "DELETE FROM facts WHERE id = ?1";
    let over: i64 = conn
        .prepare_cached(OVER)?
        .query_row(params![place.0, place.1, keep], |row| row.get(0))?;
    let limit = over.clamp(0, i64::from(step.rows.max(1)));
    let oldest: Vec<(i64, i64)> = conn
        .prepare_cached(OLDEST)?
        .query_map([place.0, place.1, limit], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let (mut deleted, mut bytes) = (0, 0);
    for (id, size) in oldest {
        conn.prepare_cached(DELETE)?.execute([id])?;
        deleted += 1;
        bytes += u64::try_from(size).unwrap_or(0);
        if bytes >= step.bytes {
            break;
        }
    }
    Ok(deleted)
}

/// Whether a message stays although it is old: one that offers an active turn does.
fn stays(conn: &Connection, seq: i64) -> rusqlite::Result<bool> {
    turns::is_active(conn, seq)
}

/// A message that goes.
struct Old {
    seq: i64,
    author: i64,
}

/// What one step found.
#[derive(Default)]
struct Found {
    gone: Vec<Old>,
    /// Place and ordinal of the last message that was looked at and is old.
    last: Option<(i64, i64)>,
    more: bool,
}

fn prune(
    tx: &mut Tx<'_>,
    name: &RoomName,
    after: Seq,
    rule: MessageRule,
    step: StepSize,
    stays: &dyn Fn(&Connection, i64) -> rusqlite::Result<bool>,
) -> Result<Pruned, Failure> {
    const PASSED: &str = "UPDATE rooms SET pruned_seq = ?2, pruned_ord = ?3
        WHERE id = ?1 AND pruned_seq < ?2";
    const FLOOR: &str = "UPDATE meta SET value = max(value, ?1) WHERE key = 'seq_floor'";
    const DELETE: &str = "DELETE FROM messages WHERE seq = ?1";
    let done = Pruned {
        deleted: 0,
        next: None,
    };
    let Some(room) = tx.mirror.room(tx.conn, name)? else {
        return Ok(done);
    };
    let found = look(tx.conn, room, after, rule, step, stays)?;
    let Some((seq, ord)) = found.last else {
        return Ok(done);
    };
    uncount(tx, room, &found.gone)?;
    for old in &found.gone {
        tx.conn.prepare_cached(DELETE)?.execute([old.seq])?;
        services::pruned(tx.conn, old.seq)?;
    }
    if let Some(last) = found.gone.last() {
        tx.conn.prepare_cached(FLOOR)?.execute([last.seq])?;
    }
    tx.conn
        .prepare_cached(PASSED)?
        .execute([room.id, seq, ord])?;
    Ok(Pruned {
        deleted: u32::try_from(found.gone.len()).unwrap_or(u32::MAX),
        next: found.more.then_some(Seq(seq)),
    })
}

/// Looks at the messages behind a place, in their order, up to the first that is not old.
fn look(
    conn: &Connection,
    room: Room,
    after: Seq,
    rule: MessageRule,
    step: StepSize,
    stays: &dyn Fn(&Connection, i64) -> rusqlite::Result<bool>,
) -> rusqlite::Result<Found> {
    // The size of a body is in its row's head: it is not read for it.
    const LIST: &str = "SELECT seq, ord, author_id, ts, octet_length(parts)
        FROM messages INDEXED BY messages_room
        WHERE room_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    let newest_old = room.head_ord - i64::from(rule.keep);
    let rows_at_most = step.rows.max(1);
    let (mut looked_at, mut bytes) = (0, 0);
    let mut found = Found::default();
    let mut statement = conn.prepare_cached(LIST)?;
    let mut rows = statement.query(params![room.id, after.0, rows_at_most])?;
    while let Some(row) = rows.next()? {
        let (seq, ord, ts): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(3)?);
        if ord > newest_old || ts >= rule.before {
            return Ok(Found {
                more: false,
                ..found
            });
        }
        found.last = Some((seq, ord));
        looked_at += 1;
        if !stays(conn, seq)? {
            let author = row.get(2)?;
            found.gone.push(Old { seq, author });
            bytes += u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0);
        }
        if bytes >= step.bytes {
            break;
        }
    }
    found.more = looked_at == rows_at_most || bytes >= step.bytes;
    Ok(found)
}

/// Takes the messages that go out of their authors' counts.
fn uncount(tx: &mut Tx<'_>, room: Room, gone: &[Old]) -> rusqlite::Result<()> {
    const LEFT: &str = "UPDATE departed SET own = own - ?3 WHERE room_id = ?1 AND agent_id = ?2";
    const NONE: &str = "DELETE FROM departed WHERE room_id = ?1 AND agent_id = ?2 AND own <= 0";
    let mut authors: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for old in gone {
        authors.entry(old.author).or_default().push(old.seq);
    }
    for (author, places) in authors {
        let count = |above: i64| places.iter().filter(|seq| **seq > above).count();
        let count = |above| i64::try_from(count(above)).unwrap_or(i64::MAX);
        match tx.mirror.member(tx.conn, room.id, author)? {
            Some(member) => {
                let unread = count(member.cursor);
                if unread > 0 {
                    let own_unread = member.own_unread - unread;
                    let member = Member {
                        own_unread,
                        ..member
                    };
                    tx.mirror.set_member(room.id, author, member);
                }
            }
            None => {
                let key = [room.id, author];
                tx.conn
                    .prepare_cached(LEFT)?
                    .execute([room.id, author, count(0)])?;
                tx.conn.prepare_cached(NONE)?.execute(key)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parler_protocol::{AgentId, RoomKind};
    use parler_store::{Append, NewInvite, ReadFrom, Store};

    use super::*;
    use crate::{Durability, OpenOptions};

    async fn room(store: &SqliteStore, name: &RoomName, who: &AgentId) {
        let invite = NewInvite {
            agent: who.clone(),
            kind: RoomKind::Channel,
            room: name.clone(),
            verbatim: None,
            code: [0; 32],
            id: "i".into(),
            expires_at: i64::MAX,
            max_uses: 1,
            gated: false,
            max_owned_rooms: 10,
            now: 0,
        };
        store.invite(invite).await.unwrap();
        for n in 0..10 {
            let append = Append {
                agent: who.clone(),
                name: "ann".into(),
                role: None,
                room: name.clone(),
                id: format!("m{n}"),
                parts: "[]".into(),
                mentions: None,
                reply_to: None,
                client_id: None,
                digest: None,
                ledger: None,
                dispatch: Vec::new(),
                join: false,
                now: n,
            };
            store.append(append).await.unwrap();
        }
    }

    /// What stays behind the end of what went is counted, and goes when it may.
    #[tokio::test]
    async fn messages_that_stay_are_unread_until_they_go() {
        let store = SqliteStore::open(OpenOptions {
            path: None,
            durability: Durability::Normal,
            sink: Arc::new(()),
            lock_note: String::new(),
        })
        .unwrap();
        let (name, who) = (RoomName::new("r"), AgentId::trusted("UA"));
        room(&store, &name, &who).await;
        let first = store
            .read(&name, &who, ReadFrom::Since(Seq(0)), 1)
            .await
            .unwrap()
            .unwrap()
            .entries[0]
            .seq;
        let prune_but = async |kept: &'static [i64]| {
            let (name, rule) = (
                name.clone(),
                MessageRule {
                    before: i64::MAX,
                    keep: 2,
                },
            );
            let step = StepSize {
                rows: 100,
                bytes: 1 << 20,
            };
            let stays = move |_: &Connection, seq: i64| Ok(kept.contains(&(seq - first.0)));
            let run = move |tx: &mut Tx<'_>| prune(tx, &name, Seq(0), rule, step, &stays);
            store.writer.run(0, run).await.unwrap().deleted
        };
        let unread = async || store.rooms(&who).await.unwrap()[0].unread;

        assert_eq!(prune_but(&[1, 5]).await, 6);
        assert_eq!(unread().await, 4);
        store
            .advance(&name, &who, Seq(first.0 + 1), 0)
            .await
            .unwrap();
        assert_eq!(unread().await, 3);
        store
            .advance(&name, &who, Seq(first.0 + 3), 0)
            .await
            .unwrap();
        assert_eq!(unread().await, 3, "a place where nothing is left");
        assert_eq!(prune_but(&[1]).await, 1);
        assert_eq!(unread().await, 2);
        store
            .advance(&name, &who, Seq(first.0 + 8), 0)
            .await
            .unwrap();
        assert_eq!(unread().await, 1);
        assert_eq!(prune_but(&[]).await, 1);
        assert_eq!(unread().await, 1);
        let others = store.rooms(&who).await.unwrap()[0].unread_others;
        assert_eq!(others, 0, "its own were taken out of its count");
        store.close().await.unwrap();
    }
}
