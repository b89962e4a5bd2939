//! What fires without a request: leases, deadlines and stalls, by their stored times.

use parler_protocol::RoomName;
use rusqlite::{Connection, params};

use super::rows::{self, Row, commit};
use crate::error::Failure;
use crate::writer::Tx;

/// Turns of one step: a hub that was down for long must not hold up its first messages.
const AT_ONCE: u32 = 256;

/// When something is due next.
pub(super) fn due(conn: &Connection) -> rusqlite::Result<Option<i64>> {
    const NEXT: &str = "SELECT min(at) FROM (
        SELECT min(lease_until) AS at FROM turns WHERE state = 'taken'
        UNION ALL SELECT min(deadline) FROM turns WHERE state = 'open' AND deadline IS NOT NULL
        UNION ALL SELECT min(stall_at) FROM turns WHERE stall_at IS NOT NULL)";
    conn.prepare_cached(NEXT)?.query_row([], |row| row.get(0))
}

/// Does what is due.
pub(super) fn settle(tx: &mut Tx<'_>, now: i64) -> Result<u32, Failure> {
    const DUE: [&str; 3] = [
        "WHERE state = 'taken' AND lease_until <= ?1 LIMIT ?2",
        "WHERE state = 'open' AND deadline IS NOT NULL AND deadline <= ?1 LIMIT ?2",
        "WHERE stall_at IS NOT NULL AND stall_at <= ?1 LIMIT ?2",
    ];
    let mut touched = 0;
    for due in DUE {
        for mut row in rows::list(tx.conn, due, params![now, AT_ONCE])? {
            let room = room_name(tx.conn, row.room)?;
            if !row.settle(tx, &room, now)? {
                stalled(tx, &room, row)?;
            }
            touched += 1;
        }
    }
    Ok(touched)
}

/// A stall was reached: that is news, once.
fn stalled(tx: &mut Tx<'_>, room: &RoomName, mut row: Row) -> rusqlite::Result<()> {
    let before = row.clone();
    row.stall_at = None;
    commit(tx, room, &row, Some(&before))
}

/// Stalls that the store cannot see by itself.
pub(super) fn note_stalled(tx: &mut Tx<'_>, messages: &[String]) -> Result<u32, Failure> {
    const OPEN: &str = "WHERE message = ?1 AND state = 'open'";
    let mut noted = 0;
    for message in messages {
        for row in rows::list(tx.conn, OPEN, [message])? {
            let room = room_name(tx.conn, row.room)?;
            commit(tx, &room, &row, Some(&row.clone()))?;
            noted += 1;
        }
    }
    Ok(noted)
}

fn room_name(conn: &Connection, room: i64) -> rusqlite::Result<RoomName> {
    conn.prepare_cached("SELECT name FROM rooms WHERE id = ?1")?
        .query_row([room], |row| Ok(RoomName::new(row.get_ref(0)?.as_str()?)))
}
