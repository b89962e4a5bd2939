//! What the writer knows without asking: rooms, agents and members that it met lately.
//!
//! The writer is the only one that changes the database, so what it remembers is true. Heads of
//! rooms and cursors of members are changed here and written back once a transaction, however
//! many appends it held; everything else is written through. After a rollback all of it is
//! forgotten and read again.

use std::collections::{HashMap, HashSet};

use parler_protocol::{AgentId, RoomKind, RoomName};
use rusqlite::{Connection, OptionalExtension, params};

/// Entries of each map before it is emptied between two transactions: some megabytes in all,
/// enough for all that is live on a large hub.
const MAX_ENTRIES: usize = 16_384;

/// A room as the writer needs it. `head_*` are written back, the rest is written through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub id: i64,
    pub kind: RoomKind,
    pub owner: Option<i64>,
    pub gated: bool,
    pub head_seq: i64,
    pub head_ord: i64,
}

/// A member of a room; all of it is written back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Member {
    pub cursor: i64,
    pub cursor_ord: i64,
    pub own_unread: i64,
}

struct Entry<T> {
    value: T,
    dirty: bool,
}

impl<T> Entry<T> {
    fn clean(value: T) -> Self {
        Self {
            value,
            dirty: false,
        }
    }
}

/// The writer's memory.
#[derive(Default)]
pub(crate) struct Mirror {
    next_seq: Option<i64>,
    /// The ledger's revision; written back.
    rev: Option<Entry<i64>>,
    /// Rooms that may have open turns; all that have are among them.
    open_turns: Option<HashSet<i64>>,
    rooms: HashMap<RoomName, Entry<Room>>,
    agents: HashMap<AgentId, i64>,
    members: HashMap<(i64, i64), Entry<Member>>,
    dirty_rooms: Vec<RoomName>,
    dirty_members: Vec<(i64, i64)>,
}

impl Mirror {
    /// Takes the next `seq`. Only a rollback gives one back, and nobody saw that one.
    pub(crate) fn take_seq(&mut self, conn: &Connection) -> rusqlite::Result<i64> {
        const LAST: &str = "SELECT max(
            (SELECT value FROM meta WHERE key = 'seq_floor'),
            coalesce((SELECT max(seq) FROM messages), 0))";
        let seq = match self.next_seq {
            Some(seq) => seq,
            None => conn.query_row(LAST, [], |row| row.get::<_, i64>(0))? + 1,
        };
        self.next_seq = Some(seq + 1);
        Ok(seq)
    }

    /// The revision that was given out last.
    pub(crate) fn last_rev(&mut self, conn: &Connection) -> rusqlite::Result<i64> {
        const LAST: &str = "SELECT value FROM meta WHERE key = 'turn_rev'";
        if let Some(rev) = &self.rev {
            return Ok(rev.value);
        }
        let value = conn.query_row(LAST, [], |row| row.get(0))?;
        self.rev = Some(Entry::clean(value));
        Ok(value)
    }

    /// Takes the next revision of the ledger.
    pub(crate) fn take_rev(&mut self, conn: &Connection) -> rusqlite::Result<i64> {
        let value = self.last_rev(conn)? + 1;
        self.rev = Some(Entry { value, dirty: true });
        Ok(value)
    }

    /// Whether a room may have open turns.
    pub(crate) fn has_open_turns(
        &mut self,
        conn: &Connection,
        room: i64,
    ) -> rusqlite::Result<bool> {
        const LIST: &str = "SELECT DISTINCT room_id FROM turns WHERE state IN ('open', 'taken')";
        if let Some(rooms) = &self.open_turns {
            return Ok(rooms.contains(&room));
        }
        let rooms: HashSet<i64> = conn
            .prepare_cached(LIST)?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let found = rooms.contains(&room);
        self.open_turns = Some(rooms);
        Ok(found)
    }

    /// A room has an open turn.
    pub(crate) fn note_open_turn(&mut self, room: i64) {
        if let Some(rooms) = &mut self.open_turns {
            rooms.insert(room);
        }
    }

    /// A room by its stored name.
    pub(crate) fn room(
        &mut self,
        conn: &Connection,
        name: &RoomName,
    ) -> rusqlite::Result<Option<Room>> {
        const FIND: &str =
            "SELECT id, kind, owner, gated, head_seq, head_ord FROM rooms WHERE name = ?1";
        if let Some(entry) = self.rooms.get(name) {
            return Ok(Some(entry.value));
        }
        let found = conn
            .prepare_cached(FIND)?
            .query_row([name.as_str()], |row| {
                Ok(Room {
                    id: row.get(0)?,
                    kind: kind(row, 1)?,
                    owner: row.get(2)?,
                    gated: row.get(3)?,
                    head_seq: row.get(4)?,
                    head_ord: row.get(5)?,
                })
            })
            .optional()?;
        if let Some(room) = found {
            self.rooms.insert(name.clone(), Entry::clean(room));
        }
        Ok(found)
    }

    /// Remembers a room as the database has it (its head excepted, which is written back).
    pub(crate) fn learn_room(&mut self, name: &RoomName, room: Room) {
        match self.rooms.get_mut(name) {
            Some(entry) => entry.value = room,
            None => {
                self.rooms.insert(name.clone(), Entry::clean(room));
            }
        }
    }

    /// Moves a room's head; the room is known.
    pub(crate) fn move_head(&mut self, name: &RoomName, seq: i64, ord: i64) {
        let entry = self.rooms.get_mut(name).expect("a room just looked up");
        entry.value.head_seq = seq;
        entry.value.head_ord = ord;
        if !std::mem::replace(&mut entry.dirty, true) {
            self.dirty_rooms.push(name.clone());
        }
    }

    /// An agent's row.
    pub(crate) fn agent(
        &mut self,
        conn: &Connection,
        agent: &AgentId,
    ) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.agents.get(agent) {
            return Ok(Some(*id));
        }
        let found = conn
            .prepare_cached("SELECT id FROM agents WHERE agent = ?1")?
            .query_row([agent.as_str()], |row| row.get(0))
            .optional()?;
        if let Some(id) = found {
            self.agents.insert(agent.clone(), id);
        }
        Ok(found)
    }

    /// A member's row; `None` for who is not one.
    pub(crate) fn member(
        &mut self,
        conn: &Connection,
        room: i64,
        agent: i64,
    ) -> rusqlite::Result<Option<Member>> {
        const FIND: &str = "SELECT cursor, cursor_ord, own_unread FROM members
            WHERE room_id = ?1 AND agent_id = ?2";
        if let Some(entry) = self.members.get(&(room, agent)) {
            return Ok(Some(entry.value));
        }
        let found = conn
            .prepare_cached(FIND)?
            .query_row([room, agent], |row| {
                Ok(Member {
                    cursor: row.get(0)?,
                    cursor_ord: row.get(1)?,
                    own_unread: row.get(2)?,
                })
            })
            .optional()?;
        if let Some(member) = found {
            self.members.insert((room, agent), Entry::clean(member));
        }
        Ok(found)
    }

    /// Changes a member that was just looked up.
    pub(crate) fn set_member(&mut self, room: i64, agent: i64, member: Member) {
        let entry = self
            .members
            .get_mut(&(room, agent))
            .expect("a member just looked up");
        entry.value = member;
        if !std::mem::replace(&mut entry.dirty, true) {
            self.dirty_members.push((room, agent));
        }
    }

    /// Forgets a member that is none any more.
    pub(crate) fn forget_member(&mut self, room: i64, agent: i64) {
        self.members.remove(&(room, agent));
        self.dirty_members.retain(|key| *key != (room, agent));
    }

    /// Forgets a room that is gone, and its members.
    pub(crate) fn forget_room(&mut self, name: &RoomName, room: i64) {
        self.rooms.remove(name);
        self.dirty_rooms.retain(|dirty| dirty != name);
        self.members.retain(|key, _| key.0 != room);
        self.dirty_members.retain(|key| key.0 != room);
    }

    /// Writes back what changed: the last act of a transaction.
    pub(crate) fn write_back(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        const ROOM: &str = "UPDATE rooms SET head_seq = ?2, head_ord = ?3 WHERE id = ?1";
        const MEMBER: &str = "UPDATE members SET cursor = ?3, cursor_ord = ?4, own_unread = ?5
            WHERE room_id = ?1 AND agent_id = ?2";
        if !self.dirty_rooms.is_empty() {
            let mut update = conn.prepare_cached(ROOM)?;
            for name in self.dirty_rooms.drain(..) {
                let entry = self.rooms.get_mut(&name).expect("a dirty room is known");
                entry.dirty = false;
                let room = entry.value;
                update.execute([room.id, room.head_seq, room.head_ord])?;
            }
        }
        if let Some(rev) = self.rev.as_mut().filter(|rev| rev.dirty) {
            const REV: &str = "UPDATE meta SET value = ?1 WHERE key = 'turn_rev'";
            conn.prepare_cached(REV)?.execute([rev.value])?;
            rev.dirty = false;
        }
        if !self.dirty_members.is_empty() {
            let mut update = conn.prepare_cached(MEMBER)?;
            // In the order of the table, so that each of its pages is met once.
            self.dirty_members.sort_unstable();
            for (room, agent) in self.dirty_members.drain(..) {
                let entry = self.members.get_mut(&(room, agent));
                let entry = entry.expect("a dirty member is known");
                entry.dirty = false;
                let m = entry.value;
                update.execute(params![room, agent, m.cursor, m.cursor_ord, m.own_unread])?;
            }
        }
        Ok(())
    }

    /// Keeps the memory bounded; called between two transactions, when nothing is dirty.
    pub(crate) fn trim(&mut self) {
        if self.rooms.len() > MAX_ENTRIES {
            self.rooms.clear();
        }
        if self.agents.len() > MAX_ENTRIES {
            self.agents.clear();
        }
        if self.members.len() > MAX_ENTRIES {
            self.members.clear();
        }
        // Read anew at the next cursor: rooms without open turns are gone from it then.
        let open = self.open_turns.as_ref().map_or(0, HashSet::len);
        if open > MAX_ENTRIES {
            self.open_turns = None;
        }
    }
}

/// Reads a room's kind out of a column.
pub(crate) fn kind(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<RoomKind> {
    let text = row.get_ref(column)?.as_str()?;
    RoomKind::from_wire(text).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            format!("{text:?} is no kind of room").into(),
        )
    })
}
