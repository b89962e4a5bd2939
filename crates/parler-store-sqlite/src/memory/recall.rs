//! Finding facts: where to look, then by key, by words, by vectors, or by both.

use std::collections::HashMap;

use parler_protocol::{AgentId, RoomName};
use parler_store::{FactHit, Find, PAGE_BYTES, Recall};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Scope, vectors, words};

/// Rooms whose facts one recall looks at, those with the newest facts first; the caller's private
/// memory comes on top.
const MAX_ROOMS: i64 = 256;
/// Look-ups of one word on one shelf in one recall: each costs some 20 to 50 microseconds. With many
/// words in many rooms the rooms with the oldest facts are left out.
const MAX_LOOKUPS: usize = 2048;
/// Facts of one scope that are weighed for one word, the newest first: a word that stands in more
/// of them tells little about any. Other words of the query still find the older ones.
const MAX_WEIGHED: usize = 2000;
/// Facts that one recall weighs for all its words in all its scopes together.
const MAX_WEIGHED_IN_ALL: usize = 20_000;
/// How deep two lists are read that are made one, and at most.
const DEPTH: (usize, usize) = (5, 200);
/// What dampens the first ranks where two lists are made one.
const FUSION: f64 = 60.0;

/// A fact's row and its score.
type Scored = (i64, f64);

/// Finds facts; `None` for who is no member of the room.
pub(super) fn recall(conn: &Connection, recall: &Recall) -> rusqlite::Result<Option<Vec<FactHit>>> {
    let Some(scopes) = scopes(conn, &recall.agent, recall.room.as_ref())? else {
        return Ok(None);
    };
    let limit = recall.limit as usize;
    let found = match &recall.find {
        Find::Key(key) => by_key(conn, &scopes, key, limit)?,
        Find::Like { text, embedding } => {
            let depth = (limit * DEPTH.0).min(DEPTH.1).max(limit);
            let by_words = by_words(conn, &scopes, text, depth)?;
            let near = match embedding {
                Some(point) => vectors::nearest(conn, &scopes, point, depth)?,
                None => Vec::new(),
            };
            match (by_words.is_empty(), near.is_empty()) {
                (false, false) => fuse(&by_words, &near),
                (_, true) => by_words,
                (true, false) => near,
            }
        }
    };
    hits(conn, found.into_iter().take(limit)).map(Some)
}

/// Where to look.
fn scopes(
    conn: &Connection,
    agent: &AgentId,
    room: Option<&RoomName>,
) -> rusqlite::Result<Option<Vec<Scope>>> {
    const AGENT: &str = "SELECT id FROM agents WHERE agent = ?1";
    const MEMBER: &str = "SELECT r.id FROM rooms r
        JOIN members m ON m.room_id = r.id AND m.agent_id = ?2 WHERE r.name = ?1";
    const ROOMS: &str = "SELECT s.scope FROM members m JOIN fact_scopes s ON s.scope = m.room_id
        WHERE m.agent_id = ?1 ORDER BY s.newest DESC LIMIT ?2";
    let agent: Option<i64> = conn
        .prepare_cached(AGENT)?
        .query_row([agent.as_str()], |row| row.get(0))
        .optional()?;
    let Some(agent) = agent else {
        return Ok(room.is_none().then(Vec::new));
    };
    if let Some(room) = room {
        let scope: Option<Scope> = conn
            .prepare_cached(MEMBER)?
            .query_row(params![room.as_str(), agent], |row| row.get(0))
            .optional()?;
        return Ok(scope.map(|scope| vec![scope]));
    }
    let mut scopes = vec![-agent];
    let mut rooms = conn.prepare_cached(ROOMS)?;
    for room in rooms.query_map([agent, MAX_ROOMS], |row| row.get(0))? {
        scopes.push(room?);
    }
    Ok(Some(scopes))
}

/// The facts of a key, the newest first.
fn by_key(
    conn: &Connection,
    scopes: &[Scope],
    key: &str,
    limit: usize,
) -> rusqlite::Result<Vec<Scored>> {
    const FIND: &str = "SELECT ts, id FROM facts WHERE scope = ?1 AND key = ?2
        ORDER BY ts DESC, id DESC LIMIT ?3";
    let mut find = conn.prepare_cached(FIND)?;
    let mut found: Vec<(i64, i64)> = Vec::new();
    for scope in scopes {
        let rows = find.query_map(params![scope, key, int(limit)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        for row in rows {
            found.push(row?);
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, id)| (id, 0.0)).collect())
}

/// The facts with these words, the best first. A word's weight is its rarity where the fact is.
fn by_words(
    conn: &Connection,
    scopes: &[Scope],
    text: &str,
    depth: usize,
) -> rusqlite::Result<Vec<Scored>> {
    // The order of rowids is that of the index, so that the limit stops the weighing.
    const FIND: &str = "SELECT rowid, bm25(fact_words) FROM fact_words
        WHERE fact_words MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
    let words = words::of_query(text);
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let shelves = shelves(conn, scopes, MAX_LOOKUPS / words.len())?;
    let mut find = conn.prepare_cached(FIND)?;
    let mut scores: HashMap<i64, f64> = HashMap::new();
    let mut weighed_in_all = 0;
    for word in &words {
        let (mut here, mut weighed) = (0, 0);
        for (scope, shelf) in &shelves {
            if *scope != here {
                (here, weighed) = (*scope, 0);
            }
            let left = (MAX_WEIGHED - weighed).min(MAX_WEIGHED_IN_ALL - weighed_in_all);
            if left == 0 {
                continue;
            }
            let query = words::query(*scope, *shelf, word);
            let mut rows = find.query(params![query, int(left)])?;
            while let Some(row) = rows.next()? {
                *scores.entry(row.get(0)?).or_default() += row.get::<_, f64>(1)?;
                weighed += 1;
                weighed_in_all += 1;
            }
        }
    }
    let mut found: Vec<Scored> = scores.into_iter().collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    found.truncate(depth);
    Ok(found)
}

/// The shelves of these scopes that have facts, the newest first within each scope.
fn shelves(
    conn: &Connection,
    scopes: &[Scope],
    most: usize,
) -> rusqlite::Result<Vec<(Scope, i64)>> {
    const BELOW: &str = "SELECT max(shelf) FROM facts WHERE scope = ?1 AND shelf < ?2";
    let mut below = conn.prepare_cached(BELOW)?;
    let mut found = Vec::new();
    for scope in scopes {
        let mut last = i64::MAX;
        while found.len() < most {
            let shelf: Option<i64> = below.query_row([*scope, last], |row| row.get(0))?;
            let Some(shelf) = shelf else { break };
            found.push((*scope, shelf));
            last = shelf;
        }
    }
    Ok(found)
}

/// Makes one list of two by the places in each: the scores cannot be compared.
fn fuse(one: &[Scored], other: &[Scored]) -> Vec<Scored> {
    let mut scores: HashMap<i64, f64> = HashMap::new();
    for list in [one, other] {
        for (rank, (fact, _)) in (1_u32..).zip(list) {
            *scores.entry(*fact).or_default() += 1.0 / (FUSION + f64::from(rank));
        }
    }
    let mut fused: Vec<Scored> = scores.into_iter().collect();
    fused.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    fused
}

/// The facts themselves, until their texts fill a page.
fn hits(conn: &Connection, found: impl Iterator<Item = Scored>) -> rusqlite::Result<Vec<FactHit>> {
    const READ: &str = "SELECT f.text, f.key, r.name, a.agent, f.ts
        FROM facts f JOIN agents a ON a.id = f.author_id LEFT JOIN rooms r ON r.id = f.scope
        WHERE f.id = ?1";
    let mut read = conn.prepare_cached(READ)?;
    let (mut hits, mut bytes) = (Vec::new(), 0);
    for (fact, score) in found {
        let hit = read.query_row([fact], |row| {
            Ok(FactHit {
                text: row.get(0)?,
                key: row.get(1)?,
                room: row.get_ref(2)?.as_str_or_null()?.map(RoomName::new),
                author: AgentId::trusted(row.get_ref(3)?.as_str()?),
                ts: row.get(4)?,
                score,
            })
        })?;
        bytes += hit.text.len();
        if bytes > PAGE_BYTES && !hits.is_empty() {
            break;
        }
        hits.push(hit);
    }
    Ok(hits)
}

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_lists_have_comes_first() {
        let fused = fuse(&[(1, -3.0), (2, -1.0)], &[(3, 0.1), (2, 0.5)]);
        assert_eq!(fused.iter().map(|f| f.0).collect::<Vec<_>>(), [2, 3, 1]);
        assert!((fused[0].1 - 2.0 / 62.0).abs() < 1e-12);
        assert!((fused[1].1 - 1.0 / 61.0).abs() < 1e-12);
    }
}
