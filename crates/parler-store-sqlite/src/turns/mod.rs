//! The turn ledger: what became of every handoff.
//!
//! Every change of a row goes through [`Row::shift`] and [`commit`]: the first takes an arrow of
//! [`Standing`] and writes its line of history, the second stores the row under its new revision
//! and tells the others.

mod claim;
mod finish;
mod guard;
mod names;
mod offer;
mod query;
mod rows;
mod seen;
mod timers;

use parler_protocol::{AgentId, RoomName};
use parler_store::{
    ActOutcome, NameOutcome, PolicyChange, PolicyOutcome, RoomPolicyRow, StoreFuture, TakeOutcome,
    TurnClaim, TurnEnd, TurnFind, TurnStep, TurnStore, TurnView, TurnsFound,
};
use rusqlite::Connection;

use crate::SqliteStore;
use crate::writer::Tx;

pub(crate) use names::{used as name_used, used_everywhere as name_used_everywhere};
pub(crate) use offer::appended;
pub(crate) use seen::passed;

/// A member is none any more: what it holds is open again, and its names mean others.
pub(crate) fn left(
    tx: &mut Tx<'_>,
    room: (&RoomName, i64),
    agent: i64,
    now: i64,
) -> rusqlite::Result<()> {
    finish::release_all(tx, room, agent, now)?;
    names::pass_on(tx.conn, room.1, agent)?;
    seen::forget(tx.conn, room.1, agent)
}

/// Whether the message at a place offers a turn that is not over: then it must not be deleted.
/// The rest of a message's ledger goes with it, by a trigger.
pub(crate) fn is_active(conn: &Connection, seq: i64) -> rusqlite::Result<bool> {
    const ACTIVE: &str = "SELECT EXISTS (
        SELECT 1 FROM turns WHERE seq = ?1 AND state IN ('open', 'taken'))";
    conn.prepare_cached(ACTIVE)?
        .query_row([seq], |row| row.get(0))
}

/// A room goes, and all that the ledger has of it.
pub(crate) fn erase(conn: &Connection, room: i64) -> rusqlite::Result<()> {
    const TABLES: [&str; 7] = [
        "DELETE FROM turn_history WHERE turn IN (SELECT seq FROM turns WHERE room_id = ?1)",
        "DELETE FROM turn_seen WHERE turn IN (SELECT seq FROM turns WHERE room_id = ?1)",
        "DELETE FROM turns WHERE room_id = ?1",
        "DELETE FROM held WHERE room_id = ?1",
        "DELETE FROM room_names WHERE room_id = ?1",
        "DELETE FROM room_guard WHERE room_id = ?1",
        "DELETE FROM guard_chains WHERE room_id = ?1",
    ];
    for table in TABLES {
        conn.prepare_cached(table)?.execute([room])?;
    }
    Ok(())
}

impl TurnStore for SqliteStore {
    fn claim_turn(&self, claim: TurnClaim) -> StoreFuture<'_, TakeOutcome> {
        Box::pin(self.writer.run(0, move |tx| claim::claim(tx, &claim)))
    }

    fn complete_turn(&self, end: TurnEnd) -> StoreFuture<'_, ActOutcome> {
        Box::pin(self.writer.run(0, move |tx| finish::complete(tx, &end)))
    }

    fn release_turn(&self, act: TurnStep) -> StoreFuture<'_, ActOutcome> {
        Box::pin(self.writer.run(0, move |tx| finish::release(tx, &act)))
    }

    fn decline_turn(&self, act: TurnStep) -> StoreFuture<'_, ActOutcome> {
        Box::pin(self.writer.run(0, move |tx| finish::decline(tx, &act)))
    }

    fn cancel_turn(&self, act: TurnStep) -> StoreFuture<'_, ActOutcome> {
        Box::pin(self.writer.run(0, move |tx| finish::cancel(tx, &act)))
    }

    fn turns(&self, find: TurnFind) -> StoreFuture<'_, Option<TurnsFound>> {
        Box::pin(self.readers.run(move |conn| query::find(conn, &find)))
    }

    fn turn_view(&self, message: String) -> StoreFuture<'_, Option<TurnView>> {
        Box::pin(self.readers.run(move |conn| query::view(conn, &message)))
    }

    fn turns_due(&self) -> StoreFuture<'_, Option<i64>> {
        Box::pin(self.readers.run(timers::due))
    }

    fn settle_turns(&self, now: i64) -> StoreFuture<'_, u32> {
        Box::pin(self.writer.run(0, move |tx| timers::settle(tx, now)))
    }

    fn note_stalled(&self, messages: Vec<String>) -> StoreFuture<'_, u32> {
        Box::pin(
            self.writer
                .run(0, move |tx| timers::note_stalled(tx, &messages)),
        )
    }

    fn bind_name<'a>(
        &'a self,
        room: &'a RoomName,
        caller: &'a AgentId,
        name: &'a str,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, NameOutcome> {
        let (room, caller, agent) = (room.clone(), caller.clone(), agent.clone());
        let name = name.to_owned();
        Box::pin(
            self.writer
                .run(0, move |tx| names::bind(tx, &room, &caller, &name, &agent)),
        )
    }

    fn room_policy<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, Option<RoomPolicyRow>> {
        let (room, agent) = (room.clone(), agent.clone());
        Box::pin(
            self.readers
                .run(move |conn| guard::policy(conn, &room, &agent)),
        )
    }

    fn set_room_policy(&self, change: PolicyChange) -> StoreFuture<'_, PolicyOutcome> {
        Box::pin(self.writer.run(0, move |tx| guard::set_policy(tx, &change)))
    }
}
