//! Reading the ledger. A read runs in one transaction, so rows, members and revision are of one
//! moment.

use std::collections::HashMap;

use parler_protocol::turn::{Transition, Turn};
use parler_protocol::{AgentId, EndpointRef, RoomName, TurnState};
use parler_store::{
    Candidate, CandidateRow, MAX_CANDIDATES, MAX_NAMED_MEMBERS, PAGE_BYTES, TurnFind, TurnRow,
    TurnView, TurnsFound, claim_basis, folded_name,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{names, rows};

/// Changes since a revision that are looked through one by one; more are a change for sure.
const MAX_CHANGES: u32 = 1000;

const FULL: &str = "SELECT t.seq, t.message, r.name, ao.agent, m.author_name, m.author_role,
        t.addressee, t.next, t.summary, t.bundle, t.state, ah.agent, t.holder_name, t.holder_role,
        t.taken_at, t.lease_until, t.take, t.offered_at, t.opened_at, t.finished_at, t.deadline,
        t.answered_at, t.note, t.result, t.run_outs, t.last_holder, t.held, t.rev
    FROM turns t
    JOIN messages m ON m.seq = t.seq
    JOIN rooms r ON r.id = t.room_id
    JOIN agents ao ON ao.id = t.offerer
    LEFT JOIN agents ah ON ah.id = t.holder
    WHERE t.seq = ?1";

fn endpoint(row: &Row<'_>, at: usize) -> rusqlite::Result<EndpointRef> {
    Ok(EndpointRef {
        id: row.get(at)?,
        name: row.get::<_, Option<String>>(at + 1)?.unwrap_or_default(),
        role: row.get(at + 2)?,
    })
}

/// One row of the ledger, whole.
pub(super) fn row(conn: &Connection, seq: i64) -> rusqlite::Result<TurnRow> {
    conn.prepare_cached(FULL)?.query_row([seq], |row| {
        let held_by: Option<String> = row.get(11)?;
        let taken_by = match held_by {
            Some(_) => Some(endpoint(row, 11)?),
            None => None,
        };
        Ok(TurnRow {
            turn: Turn {
                message: row.get(1)?,
                room: row.get(2)?,
                seq: row.get(0)?,
                from: endpoint(row, 3)?,
                to: row.get(6)?,
                next: row.get(7)?,
                summary: row.get(8)?,
                bundle: row.get(9)?,
                state: rows::state(row, 10)?,
                taken_by,
                taken_at: row.get(14)?,
                lease_until: row.get(15)?,
                take: row.get(16)?,
                offered_at: row.get(17)?,
                finished_at: row.get(19)?,
                deadline: row.get(20)?,
                answered_at: row.get(21)?,
                note: row.get(22)?,
                result: row.get(23)?,
                seen_by: Vec::new(),
                stalled: None,
                audience: None,
                history: None,
            },
            opened_at: row.get(18)?,
            run_outs: row.get(24)?,
            last_holder: row.get(25)?,
            held: row.get(26)?,
            rev: row.get(27)?,
        })
    })
}

/// Name and role of a turn's author, as they stand in its message.
pub(super) fn author(conn: &Connection, seq: i64) -> rusqlite::Result<(String, Option<String>)> {
    conn.prepare_cached("SELECT author_name, author_role FROM messages WHERE seq = ?1")?
        .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Name and role of a turn's holder, as it took it.
pub(super) fn holder_names(row: &rows::Row) -> (String, Option<String>) {
    let name = row.holder_name.clone().unwrap_or_default();
    (name, row.holder_role.clone())
}

/// The id of an agent's row.
pub(super) fn agent_id(conn: &Connection, id: i64) -> rusqlite::Result<AgentId> {
    conn.prepare_cached("SELECT agent FROM agents WHERE id = ?1")?
        .query_row([id], |row| Ok(AgentId::trusted(row.get_ref(0)?.as_str()?)))
}

/// A member as the ledger sees it.
struct Member {
    id: i64,
    who: AgentId,
    name: String,
    role: Option<String>,
    cursor: i64,
    last_seen: i64,
}

/// What one read has looked up.
struct Look<'a> {
    conn: &'a Connection,
    members: HashMap<i64, Vec<Member>>,
    names: HashMap<(i64, String), Option<i64>>,
}

impl<'a> Look<'a> {
    fn new(conn: &'a Connection) -> Self {
        Look {
            conn,
            members: HashMap::new(),
            names: HashMap::new(),
        }
    }

    fn load(&mut self, room: i64) -> rusqlite::Result<()> {
        const LIST: &str = "SELECT a.id, a.agent, a.name, a.role, m.cursor,
                max(a.last_hello, coalesce(p.at, 0))
            FROM members m JOIN agents a ON a.id = m.agent_id
            LEFT JOIN presence p ON p.agent_id = a.id
            WHERE m.room_id = ?1 ORDER BY m.joined_at, a.id";
        if self.members.contains_key(&room) {
            return Ok(());
        }
        let members = self
            .conn
            .prepare_cached(LIST)?
            .query_map([room], |row| {
                Ok(Member {
                    id: row.get(0)?,
                    who: AgentId::trusted(row.get_ref(1)?.as_str()?),
                    name: row.get(2)?,
                    role: row.get(3)?,
                    cursor: row.get(4)?,
                    last_seen: row.get(5)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        self.members.insert(room, members);
        Ok(())
    }

    /// Whom an addressee means as a name.
    fn holder(&mut self, room: i64, to: &str) -> rusqlite::Result<Option<i64>> {
        let key = (room, folded_name(to));
        if let Some(known) = self.names.get(&key) {
            return Ok(*known);
        }
        let holder = names::holder(self.conn, room, &key.1)?;
        self.names.insert(key, holder);
        Ok(holder)
    }

    /// The whole view of a turn.
    fn view(&mut self, seq: i64) -> rusqlite::Result<TurnView> {
        const PLACE: &str = "SELECT room_id, offerer FROM turns WHERE seq = ?1";
        const SEEN: &str = "SELECT agent_id, at FROM turn_seen WHERE turn = ?1";
        let row = row(self.conn, seq)?;
        let (room, offerer): (i64, i64) = self
            .conn
            .prepare_cached(PLACE)?
            .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let seen: HashMap<i64, i64> = self
            .conn
            .prepare_cached(SEEN)?
            .query_map([seq], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        self.load(room)?;
        let to = row.turn.to.as_deref();
        let bound = match to {
            Some(to) => self.holder(room, to)?,
            None => None,
        };
        let members = self.members.get(&room).map_or(&[][..], Vec::as_slice);
        let (mut candidates, mut eligible) = (Vec::new(), 0_u32);
        for member in members {
            let candidate = Candidate {
                id: &member.who,
                name: &member.name,
                role: member.role.as_deref(),
            };
            let bound = bound == Some(member.id);
            if claim_basis(to, member.id == offerer, candidate, bound).is_none() {
                continue;
            }
            eligible += 1;
            if candidates.len() < MAX_CANDIDATES {
                candidates.push(CandidateRow {
                    who: EndpointRef {
                        id: member.who.to_string(),
                        name: member.name.clone(),
                        role: member.role.clone(),
                    },
                    seen: member.cursor >= seq,
                    seen_at: seen.get(&member.id).copied(),
                    last_seen: member.last_seen,
                });
            }
        }
        let named = members.iter().take(MAX_NAMED_MEMBERS);
        Ok(TurnView {
            candidates,
            eligible,
            members: named.map(|member| member.name.clone()).collect(),
            member_count: u32::try_from(members.len()).unwrap_or(u32::MAX),
            history: None,
            row,
        })
    }
}

/// The view of one turn.
pub(super) fn view(conn: &Connection, message: &str) -> rusqlite::Result<Option<TurnView>> {
    let seq = conn
        .prepare_cached("SELECT seq FROM turns WHERE message = ?1")?
        .query_row([message], |row| row.get(0))
        .optional()?;
    seq.map(|seq| Look::new(conn).view(seq)).transpose()
}

/// Transitions of a turn, oldest first.
fn history(conn: &Connection, seq: i64) -> rusqlite::Result<Vec<Transition>> {
    const LIST: &str =
        "SELECT a.agent, h.by_name, h.by_role, h.at, h.from_state, h.to_state, h.note
        FROM turn_history h JOIN agents a ON a.id = h.by_agent WHERE h.turn = ?1 ORDER BY h.rev";
    conn.prepare_cached(LIST)?
        .query_map([seq], |row| {
            Ok(Transition {
                by: endpoint(row, 0)?,
                at: row.get(3)?,
                from: rows::state(row, 4)?,
                to: rows::state(row, 5)?,
                note: row.get(6)?,
            })
        })?
        .collect()
}

/// The few columns that a filter looks at.
struct Glance {
    seq: i64,
    room: i64,
    offerer: i64,
    state: TurnState,
    holder: Option<i64>,
    to: Option<String>,
}

const GLANCE: &str = "SELECT seq, room_id, offerer, state, holder, addressee FROM turns";

fn glance(row: &Row<'_>) -> rusqlite::Result<Glance> {
    Ok(Glance {
        seq: row.get(0)?,
        room: row.get(1)?,
        offerer: row.get(2)?,
        state: rows::state(row, 3)?,
        holder: row.get(4)?,
        to: row.get(5)?,
    })
}

/// A question, with what it needs again and again.
struct Question<'a> {
    find: &'a TurnFind,
    me: i64,
    rooms: Vec<(i64, RoomName)>,
    look: Look<'a>,
}

/// Answers `turns`.
pub(super) fn find(conn: &Connection, find: &TurnFind) -> rusqlite::Result<Option<TurnsFound>> {
    const REV: &str = "SELECT value FROM meta WHERE key = 'turn_rev'";
    let rev: i64 = conn.prepare_cached(REV)?.query_row([], |row| row.get(0))?;
    let me: Option<i64> = conn
        .prepare_cached("SELECT id FROM agents WHERE agent = ?1")?
        .query_row([find.by.id.as_str()], |row| row.get(0))
        .optional()?;
    let rooms = match me {
        Some(me) => rooms(conn, me, find.room.as_ref())?,
        None => Vec::new(),
    };
    if find.room.is_some() && rooms.is_empty() {
        return Ok(None);
    }
    let mut question = Question {
        find,
        me: me.unwrap_or_default(),
        rooms,
        look: Look::new(conn),
    };
    let (turns, more) = question.turns()?;
    let changed = match find.after {
        Some(after) if after <= rev => question.changed(after)?,
        _ => true,
    };
    Ok(Some(TurnsFound {
        turns,
        rev,
        more,
        changed,
        rooms: question.rooms.into_iter().map(|(_, name)| name).collect(),
    }))
}

/// The rooms that are looked at: one, or all of a member's.
fn rooms(
    conn: &Connection,
    me: i64,
    one: Option<&RoomName>,
) -> rusqlite::Result<Vec<(i64, RoomName)>> {
    const LIST: &str = "SELECT r.id, r.name FROM members m JOIN rooms r ON r.id = m.room_id
        WHERE m.agent_id = ?1 AND (?2 IS NULL OR r.name = ?2)";
    conn.prepare_cached(LIST)?
        .query_map(params![me, one.map(RoomName::as_str)], |row| {
            Ok((row.get(0)?, RoomName::new(row.get_ref(1)?.as_str()?)))
        })?
        .collect()
}

impl Question<'_> {
    /// The rows, newest first.
    fn turns(&mut self) -> rusqlite::Result<(Vec<TurnView>, bool)> {
        let limit = self.find.limit as usize;
        let mut seqs = match &self.find.message {
            Some(message) => self.one(message)?,
            None => self.newest(limit + 1)?,
        };
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        let mut more = seqs.len() > limit;
        seqs.truncate(limit);
        let (mut views, mut bytes) = (Vec::new(), 0);
        for seq in seqs {
            let mut view = self.look.view(seq)?;
            let turn = &view.row.turn;
            bytes += turn.next.len() + turn.summary.as_ref().map_or(0, String::len);
            bytes += view.candidates.len() * 512;
            if bytes > PAGE_BYTES && !views.is_empty() {
                more = true;
                break;
            }
            if self.find.message.is_some() {
                view.history = Some(history(self.look.conn, seq)?);
            }
            views.push(view);
        }
        Ok((views, more))
    }

    fn one(&mut self, message: &str) -> rusqlite::Result<Vec<i64>> {
        let found = self
            .look
            .conn
            .prepare_cached(&format!("{GLANCE} WHERE message = ?1"))?
            .query_row([message], glance)
            .optional()?;
        match found {
            Some(turn) if self.rooms.iter().any(|(room, _)| *room == turn.room) => {
                let shown = self.shows(&turn, turn.state, turn.holder)?;
                Ok(if shown { vec![turn.seq] } else { Vec::new() })
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The newest places of all rooms, at most so many of each.
    fn newest(&mut self, each: usize) -> rusqlite::Result<Vec<i64>> {
        let active = self.find.states.iter().all(|state| !state.terminal());
        let condition = if active {
            "WHERE room_id = ?1 AND state IN ('open', 'taken') ORDER BY seq DESC"
        } else {
            "WHERE room_id = ?1 ORDER BY seq DESC"
        };
        let conn = self.look.conn;
        let mut statement = conn.prepare_cached(&format!("{GLANCE} {condition}"))?;
        let mut all = Vec::new();
        let rooms: Vec<i64> = self.rooms.iter().map(|(room, _)| *room).collect();
        for room in rooms {
            let mut found = statement.query([room])?;
            let mut count = 0;
            while count < each
                && let Some(row) = found.next()?
            {
                let turn = glance(row)?;
                if self.shows(&turn, turn.state, turn.holder)? {
                    all.push(turn.seq);
                    count += 1;
                }
            }
        }
        Ok(all)
    }

    /// Whether the question shows a turn that is in this state and held by this agent.
    fn shows(
        &mut self,
        turn: &Glance,
        state: TurnState,
        holder: Option<i64>,
    ) -> rusqlite::Result<bool> {
        if !self.find.states.contains(&state) {
            return Ok(false);
        }
        if !self.find.mine || holder == Some(self.me) {
            return Ok(true);
        }
        if state != TurnState::Open {
            return Ok(false);
        }
        let bound = match &turn.to {
            Some(to) => self.look.holder(turn.room, to)?,
            None => None,
        };
        let who = Candidate {
            id: &self.find.by.id,
            name: &self.find.by.name,
            role: self.find.by.role.as_deref(),
        };
        let (to, offered) = (turn.to.as_deref(), turn.offerer == self.me);
        // Of a name that nobody goes by, whoever asks under it is the first.
        let bound = bound.is_none_or(|bound| bound == self.me);
        Ok(claim_basis(to, offered, who, bound).is_some())
    }

    /// Whether the answer differs from the one at `after`.
    fn changed(&mut self, after: i64) -> rusqlite::Result<bool> {
        const ALL: &str = "WHERE room_id = ?1 AND rev > ?2 AND ?3 IS NULL LIMIT ?4";
        const ONE: &str = "WHERE room_id = ?1 AND rev > ?2 AND message = ?3 LIMIT ?4";
        let conn = self.look.conn;
        let rooms: Vec<i64> = self.rooms.iter().map(|(room, _)| *room).collect();
        let condition = match self.find.message {
            None => ALL,
            Some(_) => ONE,
        };
        for room in rooms {
            let moved: Vec<Glance> = conn
                .prepare_cached(&format!("{GLANCE} {condition}"))?
                .query_map(params![room, after, self.find.message, MAX_CHANGES], glance)?
                .collect::<rusqlite::Result<_>>()?;
            if moved.len() >= MAX_CHANGES as usize {
                return Ok(true);
            }
            for turn in moved {
                if self.shows(&turn, turn.state, turn.holder)? || self.showed(&turn, after)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether the question showed a turn at a revision before its last change.
    fn showed(&mut self, turn: &Glance, after: i64) -> rusqlite::Result<bool> {
        const THEN: &str = "SELECT to_state, by_agent FROM turn_history
            WHERE turn = ?1 AND rev <= ?2 ORDER BY rev DESC LIMIT 1";
        const NEXT: &str = "SELECT from_state FROM turn_history
            WHERE turn = ?1 AND rev > ?2 ORDER BY rev LIMIT 1";
        let conn = self.look.conn;
        let then = conn
            .prepare_cached(THEN)?
            .query_row([turn.seq, after], |row| {
                Ok((rows::state(row, 0)?, row.get(1)?))
            })
            .optional()?;
        let (state, holder) = match then {
            Some((TurnState::Taken, by)) => (TurnState::Taken, Some(by)),
            Some((state, _)) => (state, None),
            // Nothing before: it was open, if it was born by then. Where that is not known, a
            // change too many is told rather than one too few.
            None => {
                let next = conn
                    .prepare_cached(NEXT)?
                    .query_row([turn.seq, after], |row| rows::state(row, 0))
                    .optional()?;
                (next.unwrap_or(TurnState::Open), None)
            }
        };
        self.shows(turn, state, holder)
    }
}
