//! Service queues: work that is dispatched to a role, and whoever serves it claims a piece.
//!
//! Every decision about a piece of work is one step of the writer, so that of many claims exactly
//! one wins.

use parler_protocol::{AgentId, RoomKind, RoomName};
use parler_store::{
    ClaimOutcome, CompleteOutcome, Holder, LogEntry, MAX_PAGE, NewWorker, ServeOutcome,
    ServiceStore, StoreFuture, Work, WorkEnd,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;
use crate::mirror::Room;
use crate::writer::Tx;
use crate::{SqliteStore, agents, gates, log, rooms};

impl ServiceStore for SqliteStore {
    fn serve(&self, worker: NewWorker) -> StoreFuture<'_, ServeOutcome> {
        Box::pin(self.writer.run(0, move |tx| serve(tx, &worker)))
    }

    fn is_service<'a>(&'a self, room: &'a RoomName) -> StoreFuture<'a, bool> {
        let room = room.clone();
        Box::pin(self.readers.run(move |conn| is_service(conn, &room)))
    }

    fn queue<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
        role: &'a str,
        limit: u32,
        now: i64,
    ) -> StoreFuture<'a, Vec<LogEntry>> {
        let (room, agent, role) = (room.clone(), agent.clone(), role.to_owned());
        Box::pin(
            self.readers
                .run(move |conn| queue(conn, &room, &agent, &role, limit, now)),
        )
    }

    fn claim(&self, work: Work, lease_ms: i64) -> StoreFuture<'_, ClaimOutcome> {
        Box::pin(self.writer.run(0, move |tx| claim(tx, &work, lease_ms)))
    }

    fn complete(&self, work: Work, end: WorkEnd) -> StoreFuture<'_, CompleteOutcome> {
        Box::pin(self.writer.run(0, move |tx| complete(tx, &work, end)))
    }
}

/// A role as the index has it.
fn folded(role: &str) -> String {
    role.to_ascii_lowercase()
}

/// Registers a worker, and opens the room if need be.
fn serve(tx: &mut Tx<'_>, worker: &NewWorker) -> Result<ServeOutcome, Failure> {
    const REGISTER: &str = "INSERT INTO workers (room_id, agent_id, role) VALUES (?1, ?2, ?3)
        ON CONFLICT (room_id, agent_id) DO UPDATE SET role = excluded.role";
    let name = &worker.room;
    let caller = tx.mirror.agent(tx.conn, &worker.agent)?;
    let found = tx.mirror.room(tx.conn, name)?;
    let member = match (found, caller) {
        (Some(room), Some(caller)) => tx.mirror.member(tx.conn, room.id, caller)?.is_some(),
        _ => false,
    };
    match (found, caller) {
        (Some(room), _) if !member && !may_come(tx.conn, room, caller)? => {
            return Ok(ServeOutcome::Denied);
        }
        (None, Some(caller)) if rooms::owns_enough(tx.conn, caller, worker.max_owned_rooms)? => {
            return Ok(ServeOutcome::TooManyRooms);
        }
        (None, None) if worker.max_owned_rooms == 0 => return Ok(ServeOutcome::TooManyRooms),
        _ => {}
    }

    let caller = agents::ensure(tx, &worker.agent, worker.now)?;
    let room = match found {
        Some(room) => {
            if !member {
                rooms::add_member_at_head(tx, name, room, (&worker.agent, caller), worker.now)?;
            }
            room
        }
        None => {
            let room = rooms::create(tx, name, RoomKind::Service, worker.now)?;
            rooms::add_member(tx, name, room, (&worker.agent, caller), worker.now)?;
            let owned = Room {
                owner: Some(caller),
                ..room
            };
            rooms::update(tx, name, owned)?;
            owned
        }
    };
    tx.conn
        .prepare_cached(REGISTER)?
        .execute(params![room.id, caller, worker.role])?;
    Ok(ServeOutcome::Serving)
}

/// Whether an agent that is no member may become one by itself.
pub(crate) fn may_come(
    conn: &Connection,
    room: Room,
    agent: Option<i64>,
) -> rusqlite::Result<bool> {
    if room.kind != RoomKind::Service || room.gated {
        return Ok(false);
    }
    match agent {
        Some(agent) => Ok(!gates::is_banned(conn, room.id, agent)?),
        None => Ok(true),
    }
}

fn is_service(conn: &Connection, room: &RoomName) -> rusqlite::Result<bool> {
    const FIND: &str = "SELECT EXISTS (SELECT 1 FROM rooms WHERE name = ?1 AND kind = 'service')";
    conn.prepare_cached(FIND)?
        .query_row([room.as_str()], |row| row.get(0))
}

/// Notes whom a message that was just appended is dispatched to.
pub(crate) fn dispatched(
    conn: &Connection,
    room: i64,
    message: (i64, &str),
    roles: &[String],
) -> rusqlite::Result<()> {
    const NOTE: &str = "INSERT OR IGNORE INTO dispatches (room_id, role, seq, message)
        VALUES (?1, ?2, ?3, ?4)";
    for role in roles {
        conn.prepare_cached(NOTE)?
            .execute(params![room, folded(role), message.0, message.1])?;
    }
    Ok(())
}

/// Work that waits.
fn queue(
    conn: &Connection,
    room: &RoomName,
    agent: &AgentId,
    role: &str,
    limit: u32,
    now: i64,
) -> rusqlite::Result<Vec<LogEntry>> {
    const PLACE: &str = "SELECT r.id, w.agent_id, w.role FROM rooms r
        JOIN agents a ON a.agent = ?2
        JOIN workers w ON w.room_id = r.id AND w.agent_id = a.id
        WHERE r.name = ?1";
    const LIST: &str = "SELECT m.seq, m.author_id, m.ts, m.id, m.author_name, m.author_role,
            m.reply_to, m.mentions, m.parts
        FROM dispatches d INDEXED BY dispatches_role
        JOIN messages m ON m.seq = d.seq
        LEFT JOIN claims c ON c.seq = d.seq
        WHERE d.room_id = ?1 AND d.role = ?2
            AND (c.seq IS NULL OR (c.state = 'active' AND c.lease_until <= ?3))
        ORDER BY d.seq LIMIT ?4";
    let place: Option<(i64, i64, String)> = conn
        .prepare_cached(PLACE)?
        .query_row([room.as_str(), agent.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((room_id, worker, served)) = place else {
        return Ok(Vec::new());
    };
    if !served.eq_ignore_ascii_case(role) || !is_available(conn, worker)? {
        return Ok(Vec::new());
    }
    let mut statement = conn.prepare_cached(LIST)?;
    let rows = statement.query(params![room_id, folded(role), now, limit.min(MAX_PAGE)])?;
    log::page(conn, room, rows)
}

fn is_available(conn: &Connection, agent: i64) -> rusqlite::Result<bool> {
    const STATUS: &str = "SELECT status IN ('idle', 'waiting') FROM presence WHERE agent_id = ?1";
    let available: Option<bool> = conn
        .prepare_cached(STATUS)?
        .query_row([agent], |row| row.get(0))
        .optional()?;
    Ok(available.unwrap_or(false))
}

/// Where a piece of work stands.
struct Claim {
    agent: i64,
    active: bool,
    take: i64,
    lease_until: i64,
}

/// The place of a member and of a message among its room's work.
struct Place {
    room: i64,
    agent: i64,
    claim: Option<Claim>,
    /// Place in the log; `None`: it was dispatched to nobody, or ended long ago.
    open: Option<i64>,
}

/// Looks a piece of work up for a member; `None` for strangers.
fn place(tx: &mut Tx<'_>, work: &Work) -> rusqlite::Result<Option<Place>> {
    const CLAIM: &str = "SELECT agent_id, state = 'active', take, lease_until FROM claims
        WHERE message = ?1 AND room_id = ?2";
    const OPEN: &str = "SELECT seq FROM dispatches WHERE message = ?1 AND room_id = ?2 LIMIT 1";
    let Some(room) = tx.mirror.room(tx.conn, &work.room)? else {
        return Ok(None);
    };
    let Some(agent) = tx.mirror.agent(tx.conn, &work.agent)? else {
        return Ok(None);
    };
    if tx.mirror.member(tx.conn, room.id, agent)?.is_none() {
        return Ok(None);
    }
    let claim = tx
        .conn
        .prepare_cached(CLAIM)?
        .query_row(params![work.message, room.id], |row| {
            Ok(Claim {
                agent: row.get(0)?,
                active: row.get(1)?,
                take: row.get(2)?,
                lease_until: row.get(3)?,
            })
        })
        .optional()?;
    let open = tx
        .conn
        .prepare_cached(OPEN)?
        .query_row(params![work.message, room.id], |row| row.get(0))
        .optional()?;
    Ok(Some(Place {
        room: room.id,
        agent,
        claim,
        open,
    }))
}

/// Takes or renews.
fn claim(tx: &mut Tx<'_>, work: &Work, lease_ms: i64) -> Result<ClaimOutcome, Failure> {
    const RENEW: &str = "UPDATE claims SET lease_until = ?2 WHERE message = ?1";
    const TAKE: &str = "INSERT INTO claims
            (seq, room_id, message, agent_id, state, take, lease_until)
        VALUES (?1, ?2, ?3, ?4, 'active', ?5, ?6)
        ON CONFLICT (seq) DO UPDATE SET agent_id = excluded.agent_id, take = excluded.take,
            lease_until = excluded.lease_until";
    let refused = |holder| Ok(ClaimOutcome::Refused { holder });
    let Some(place) = place(tx, work)? else {
        return Ok(ClaimOutcome::NotMember);
    };
    let seq = match (place.open, &place.claim) {
        (None, None) => return Ok(ClaimOutcome::NotWork),
        (None, Some(_)) => return refused(None),
        (Some(seq), _) => seq,
    };
    if !is_dispatched_to(tx.conn, &place, &work.message)? {
        return refused(None);
    }
    let lease_until = work.now.saturating_add(lease_ms);
    match &place.claim {
        Some(claim) if !claim.active => return refused(None),
        Some(claim) if claim.lease_until > work.now && claim.agent == place.agent => {
            if work.take.is_some_and(|take| take != claim.take) {
                return refused(None);
            }
            tx.conn
                .prepare_cached(RENEW)?
                .execute(params![work.message, lease_until])?;
            return Ok(ClaimOutcome::Claimed {
                take: claim.take,
                lease_until,
            });
        }
        Some(claim) if claim.lease_until > work.now => {
            return refused(Some(holder(tx.conn, claim.agent)?));
        }
        _ => {}
    }
    // Nobody's now. Who names a take means that one, and it is over.
    if work.take.is_some() || !is_available(tx.conn, place.agent)? {
        return refused(None);
    }
    let take = place.claim.map_or(0, |claim| claim.take) + 1;
    tx.conn.prepare_cached(TAKE)?.execute(params![
        seq,
        place.room,
        work.message,
        place.agent,
        take,
        lease_until
    ])?;
    Ok(ClaimOutcome::Claimed { take, lease_until })
}

/// Whether the caller serves the room by a role that the message is dispatched to.
fn is_dispatched_to(conn: &Connection, place: &Place, message: &str) -> rusqlite::Result<bool> {
    const ROLE: &str = "SELECT role FROM workers WHERE room_id = ?1 AND agent_id = ?2";
    const MEANT: &str = "SELECT EXISTS (SELECT 1 FROM dispatches
        WHERE message = ?1 AND room_id = ?2 AND role = ?3)";
    let role: Option<String> = conn
        .prepare_cached(ROLE)?
        .query_row([place.room, place.agent], |row| row.get(0))
        .optional()?;
    match role {
        Some(role) => conn
            .prepare_cached(MEANT)?
            .query_row(params![message, place.room, folded(&role)], |row| {
                row.get(0)
            }),
        None => Ok(false),
    }
}

fn holder(conn: &Connection, agent: i64) -> rusqlite::Result<Holder> {
    conn.prepare_cached("SELECT agent, name, role FROM agents WHERE id = ?1")?
        .query_row([agent], |row| {
            Ok(Holder {
                agent: AgentId::trusted(row.get_ref(0)?.as_str()?),
                name: row.get(1)?,
                role: row.get(2)?,
            })
        })
}

/// Ends a piece of work.
fn complete(tx: &mut Tx<'_>, work: &Work, end: WorkEnd) -> Result<CompleteOutcome, Failure> {
    const END: &str = "UPDATE claims SET state = ?2 WHERE message = ?1";
    const LEAVES: &str = "DELETE FROM dispatches WHERE message = ?1 AND room_id = ?2";
    let Some(place) = place(tx, work)? else {
        return Ok(CompleteOutcome::NotMember);
    };
    let Some(claim) = place.claim else {
        return Ok(match place.open {
            Some(_) => CompleteOutcome::Unchanged,
            None => CompleteOutcome::NotWork,
        });
    };
    let holds = claim.active && claim.agent == place.agent && claim.lease_until >= work.now;
    if !holds || work.take.is_some_and(|take| take != claim.take) {
        return Ok(CompleteOutcome::Unchanged);
    }
    tx.conn
        .prepare_cached(END)?
        .execute(params![work.message, end.as_str()])?;
    tx.conn
        .prepare_cached(LEAVES)?
        .execute(params![work.message, place.room])?;
    Ok(CompleteOutcome::Completed)
}

/// A worker leaves: what it holds may be taken at once.
pub(crate) fn left(conn: &Connection, room: i64, agent: i64) -> rusqlite::Result<()> {
    const WORKER: &str = "DELETE FROM workers WHERE room_id = ?1 AND agent_id = ?2";
    const FREE: &str = "UPDATE claims SET lease_until = 0
        WHERE room_id = ?1 AND agent_id = ?2 AND state = 'active'";
    for statement in [WORKER, FREE] {
        conn.prepare_cached(statement)?.execute([room, agent])?;
    }
    Ok(())
}

/// A message is gone, and with it what became of it.
pub(crate) fn pruned(conn: &Connection, seq: i64) -> rusqlite::Result<()> {
    const GONE: [&str; 2] = [
        "DELETE FROM dispatches WHERE seq = ?1",
        "DELETE FROM claims WHERE seq = ?1",
    ];
    for statement in GONE {
        conn.prepare_cached(statement)?.execute([seq])?;
    }
    Ok(())
}

/// What goes with a room.
pub(crate) const TABLES: [&str; 3] = [
    "DELETE FROM workers WHERE room_id = ?1",
    "DELETE FROM dispatches WHERE room_id = ?1",
    "DELETE FROM claims WHERE room_id = ?1",
];
