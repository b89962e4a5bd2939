//! Keeping facts.

use parler_store::{NewFact, RememberOutcome};
use rusqlite::{Connection, OptionalExtension, params};

use super::words::{self, Words};
use super::{Scope, vectors};
use crate::agents;
use crate::error::Failure;
use crate::writer::Tx;

/// Facts of a shelf. A word that stands in all of them is gone through in some milliseconds; a word
/// that stands in none costs some microseconds a shelf.
const SHELF: i64 = 32_768;

/// Keeps a fact.
pub(super) fn remember(
    tx: &mut Tx<'_>,
    fact: &NewFact,
    words: &Words,
) -> Result<RememberOutcome, Failure> {
    let known = tx.mirror.agent(tx.conn, &fact.author)?;
    let room = match (&fact.room, known) {
        (None, _) => None,
        (Some(name), Some(author)) => match tx.mirror.room(tx.conn, name)? {
            Some(room) if tx.mirror.member(tx.conn, room.id, author)?.is_some() => Some(room.id),
            _ => return Ok(RememberOutcome::NotMember),
        },
        (Some(_), None) => return Ok(RememberOutcome::NotMember),
    };
    let mut earlier = None;
    if let Some(key) = &fact.key {
        if let Some(author) = known {
            earlier = find(tx.conn, room.unwrap_or(-author), key, author)?;
        }
        let has = match known {
            Some(author) if earlier.is_none() => keyed(tx.conn, author, fact.max_keyed)?,
            _ => 0,
        };
        if earlier.is_none() && has >= i64::from(fact.max_keyed) {
            return Ok(RememberOutcome::AtCapacity);
        }
    }
    let author = agents::ensure(tx, &fact.author, fact.now)?;
    let scope = room.unwrap_or(-author);
    let id = match earlier {
        Some((id, shelf)) => {
            replace(tx.conn, id, fact, &words.line(scope, shelf))?;
            id
        }
        None => insert(tx.conn, scope, author, fact, words)?,
    };
    if let Some(embedding) = &fact.embedding {
        vectors::put(tx.conn, id, scope, embedding)?;
    }
    Ok(RememberOutcome::Remembered)
}

/// The fact of a key, and its shelf.
fn find(
    conn: &Connection,
    scope: Scope,
    key: &str,
    author: i64,
) -> rusqlite::Result<Option<(i64, i64)>> {
    const FIND: &str = "SELECT id, shelf FROM facts
        WHERE scope = ?1 AND key = ?2 AND author_id = ?3";
    conn.prepare_cached(FIND)?
        .query_row(params![scope, key, author], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()
}

/// Facts of an author that have a key. Counts no further than `max`.
fn keyed(conn: &Connection, author: i64, max: u32) -> rusqlite::Result<i64> {
    const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM facts
        WHERE author_id = ?1 AND key IS NOT NULL LIMIT ?2)";
    conn.prepare_cached(COUNT)?
        .query_row(params![author, max], |row| row.get(0))
}

fn replace(conn: &Connection, id: i64, fact: &NewFact, line: &str) -> rusqlite::Result<()> {
    const FACT: &str = "UPDATE facts SET text = ?2, ts = ?3, model = ?4 WHERE id = ?1";
    const WORDS: &str = "UPDATE fact_words SET words = ?2 WHERE rowid = ?1";
    conn.prepare_cached(FACT)?
        .execute(params![id, fact.text, fact.now, fact.embedding_model])?;
    conn.prepare_cached(WORDS)?.execute(params![id, line])?;
    Ok(())
}

fn insert(
    conn: &Connection,
    scope: Scope,
    author: i64,
    fact: &NewFact,
    words: &words::Words,
) -> rusqlite::Result<i64> {
    const WRITTEN: &str = "SELECT written FROM fact_scopes WHERE scope = ?1";
    const FACT: &str = "INSERT INTO facts (scope, shelf, author_id, ts, model, key, text)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    const WORDS: &str = "INSERT INTO fact_words (rowid, words) VALUES (?1, ?2)";
    const COUNT: &str = "INSERT INTO fact_scopes (scope, written, newest) VALUES (?1, 1, ?2)
        ON CONFLICT (scope) DO UPDATE SET written = written + 1, newest = excluded.newest";
    let written: Option<i64> = conn
        .prepare_cached(WRITTEN)?
        .query_row([scope], |row| row.get(0))
        .optional()?;
    let shelf = written.unwrap_or(0) / SHELF;
    let id = conn.prepare_cached(FACT)?.insert(params![
        scope,
        shelf,
        author,
        fact.now,
        fact.embedding_model,
        fact.key,
        fact.text,
    ])?;
    conn.prepare_cached(WORDS)?
        .execute(params![id, words.line(scope, shelf)])?;
    conn.prepare_cached(COUNT)?.execute([scope, id])?;
    Ok(id)
}

/// Forgets all facts of a room that is erased.
pub(crate) fn erase(conn: &Connection, room: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM facts WHERE scope = ?1")?
        .execute([room])?;
    conn.prepare_cached("DELETE FROM fact_scopes WHERE scope = ?1")?
        .execute([room])?;
    Ok(())
}
