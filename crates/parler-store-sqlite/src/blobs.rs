//! What the store knows of blobs: their size, type, and the rooms that they were posted to. The bytes
//! are files, kept by the hub.

use parler_protocol::{BlobId, RoomKind};
use parler_store::{BindOutcome, BlobFound, BlobReader, BlobRow, BlobStore, NewBlob, StoreFuture};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;
use crate::writer::Tx;
use crate::{SqliteStore, agents, rooms, services};

/// No room has it, or nobody asked for it since `?1` (NULL: age does not count).
const STALE: &str = "(used_at < ?1
    OR NOT EXISTS (SELECT 1 FROM blob_rooms WHERE blob_id = blobs.id))";

impl BlobStore for SqliteStore {
    fn bind_blob(&self, new: NewBlob) -> StoreFuture<'_, BindOutcome> {
        Box::pin(self.writer.run(0, move |tx| bind(tx, &new)))
    }

    fn find_blob<'a>(
        &'a self,
        blob: &'a BlobId,
        reader: &'a BlobReader,
    ) -> StoreFuture<'a, BlobFound> {
        let (blob, reader) = (blob.clone(), reader.clone());
        Box::pin(self.readers.run(move |conn| find(conn, &blob, &reader)))
    }

    fn known_blobs(&self, blobs: Vec<BlobId>) -> StoreFuture<'_, Vec<BlobId>> {
        Box::pin(self.readers.run(move |conn| {
            let mut known = blobs;
            let mut failed = None;
            known.retain(|blob| match id_of(conn, blob) {
                Ok(id) => id.is_some(),
                Err(error) => {
                    failed = Some(error);
                    true
                }
            });
            failed.map_or(Ok(known), Err)
        }))
    }

    fn blob_bytes(&self) -> StoreFuture<'_, u64> {
        Box::pin(self.readers.run(total))
    }

    fn touch_blob<'a>(&'a self, blob: &'a BlobId, now: i64) -> StoreFuture<'a, ()> {
        const TOUCH: &str = "UPDATE blobs
            SET fetched_at = max(coalesce(fetched_at, ?2), ?2), used_at = max(used_at, ?2)
            WHERE sha256 = ?1";
        let blob = blob.clone();
        Box::pin(self.writer.run(0, move |tx| {
            tx.conn
                .prepare_cached(TOUCH)?
                .execute(params![blob.as_str(), now])?;
            Ok(())
        }))
    }

    fn stale_blobs(&self, unused_since: Option<i64>, limit: u32) -> StoreFuture<'_, Vec<BlobId>> {
        Box::pin(
            self.readers
                .run(move |conn| stale(conn, unused_since, limit)),
        )
    }

    fn forget_blobs(
        &self,
        blobs: Vec<BlobId>,
        unused_since: Option<i64>,
    ) -> StoreFuture<'_, Vec<BlobId>> {
        Box::pin(
            self.writer
                .run(0, move |tx| forget(tx, blobs, unused_since)),
        )
    }
}

fn id_of(conn: &Connection, blob: &BlobId) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT id FROM blobs WHERE sha256 = ?1")?
        .query_row([blob.as_str()], |row| row.get(0))
        .optional()
}

fn total(conn: &Connection) -> rusqlite::Result<u64> {
    let bytes: i64 = conn
        .prepare_cached("SELECT value FROM meta WHERE key = 'blob_bytes'")?
        .query_row([], |row| row.get(0))?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

fn bind(tx: &mut Tx<'_>, new: &NewBlob) -> Result<BindOutcome, Failure> {
    const INSERT: &str = "INSERT INTO blobs (sha256, size, media_type, created_at, used_at)
        VALUES (?1, ?2, ?3, ?4, ?4)";
    const AGAIN: &str = "UPDATE blobs SET used_at = max(used_at, ?2) WHERE id = ?1";
    const BIND: &str = "INSERT INTO blob_rooms (blob_id, room_id) VALUES (?1, ?2)
        ON CONFLICT (blob_id, room_id) DO NOTHING";
    let stranger = if new.join {
        BindOutcome::UnknownService
    } else {
        BindOutcome::NotMember
    };
    let Some(room) = tx.mirror.room(tx.conn, &new.room)? else {
        return Ok(stranger);
    };
    let known = tx.mirror.agent(tx.conn, &new.agent)?;
    let member = match known {
        Some(agent) => tx.mirror.member(tx.conn, room.id, agent)?,
        None => None,
    };
    if member.is_none() {
        if !new.join || room.kind != RoomKind::Service {
            return Ok(stranger);
        }
        if !services::may_come(tx.conn, room, known)? {
            return Ok(BindOutcome::Denied);
        }
    }
    let blob = id_of(tx.conn, &new.blob)?;
    // Everything that is refused is refused before anything is written.
    let after = total(tx.conn)?.saturating_add(new.size);
    // The total has to fit into a column as well.
    let fits = after <= new.max_total && i64::try_from(after).is_ok();
    let size = match (blob, i64::try_from(new.size)) {
        (Some(_), _) => 0,
        (None, Ok(size)) if fits => size,
        (None, _) => return Ok(BindOutcome::Full),
    };
    if member.is_none() {
        let agent = agents::ensure(tx, &new.agent, new.now)?;
        rooms::add_member_at_head(tx, &new.room, room, (&new.agent, agent), new.now)?;
    }
    let id = match blob {
        Some(id) => {
            tx.conn.prepare_cached(AGAIN)?.execute([id, new.now])?;
            id
        }
        None => {
            let row = params![new.blob.as_str(), size, new.media_type, new.now];
            tx.conn.prepare_cached(INSERT)?.insert(row)?
        }
    };
    tx.conn.prepare_cached(BIND)?.execute([id, room.id])?;
    Ok(BindOutcome::Bound)
}

fn find(conn: &Connection, blob: &BlobId, reader: &BlobReader) -> rusqlite::Result<BlobFound> {
    const FIND: &str = "SELECT id, size, media_type, created_at, fetched_at
        FROM blobs WHERE sha256 = ?1";
    const MEMBER: &str = "SELECT EXISTS (SELECT 1 FROM blob_rooms b
        JOIN members m ON m.room_id = b.room_id
        JOIN agents a ON a.id = m.agent_id
        WHERE b.blob_id = ?1 AND a.agent = ?2)";
    const ROOM: &str = "SELECT EXISTS (SELECT 1 FROM blob_rooms b
        JOIN rooms r ON r.id = b.room_id
        WHERE b.blob_id = ?1 AND r.name = ?2)";
    let found = conn
        .prepare_cached(FIND)?
        .query_row([blob.as_str()], |row| {
            let size: i64 = row.get(1)?;
            let known = BlobRow {
                blob: blob.clone(),
                size: u64::try_from(size).unwrap_or(0),
                media_type: row.get(2)?,
                created_at: row.get(3)?,
                fetched_at: row.get(4)?,
            };
            Ok((row.get::<_, i64>(0)?, known))
        })
        .optional()?;
    let Some((id, row)) = found else {
        return Ok(BlobFound::Unknown);
    };
    let (sql, who) = match reader {
        BlobReader::Agent(agent) => (MEMBER, agent.as_str()),
        BlobReader::Room(room) => (ROOM, room.as_str()),
    };
    let may: bool = conn
        .prepare_cached(sql)?
        .query_row(params![id, who], |row| row.get(0))?;
    Ok(if may {
        BlobFound::Readable(row)
    } else {
        BlobFound::Forbidden
    })
}

fn stale(
    conn: &Connection,
    unused_since: Option<i64>,
    limit: u32,
) -> rusqlite::Result<Vec<BlobId>> {
    let list = format!("SELECT sha256 FROM blobs WHERE {STALE} LIMIT ?2");
    let mut statement = conn.prepare_cached(&list)?;
    let mut rows = statement.query(params![unused_since, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(BlobId::parse(row.get_ref(0)?.as_str()?));
    }
    Ok(found)
}

fn forget(
    tx: &mut Tx<'_>,
    mut blobs: Vec<BlobId>,
    unused_since: Option<i64>,
) -> Result<Vec<BlobId>, Failure> {
    let still = format!("SELECT id FROM blobs WHERE {STALE} AND sha256 = ?2");
    let mut ids = Vec::new();
    let mut failed = None;
    blobs.retain(|blob| {
        let found = tx.conn.prepare_cached(&still).and_then(|mut select| {
            select
                .query_row(params![unused_since, blob.as_str()], |row| {
                    row.get::<_, i64>(0)
                })
                .optional()
        });
        match found {
            Ok(id) => {
                ids.extend(id);
                id.is_some()
            }
            Err(error) => {
                failed = Some(error);
                false
            }
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    for id in ids {
        for sql in [
            "DELETE FROM blob_rooms WHERE blob_id = ?1",
            "DELETE FROM blobs WHERE id = ?1",
        ] {
            tx.conn.prepare_cached(sql)?.execute([id])?;
        }
    }
    Ok(blobs)
}
