//! What keeps a store small: retention, in steps that are small enough to be taken between two
//! requests. Whoever takes them decides when, and hands the time in.

use parler_protocol::{RoomName, Seq};

use crate::StoreFuture;

/// Which messages may go: those that are old *and* not among the newest of their room. The message
/// of an active turn stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRule {
    /// Milliseconds: what was received earlier is old.
    pub before: i64,
    /// So many of the newest messages of a room stay whatever their age.
    pub keep: u32,
}

/// How much one step may do. It always does one row at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSize {
    /// Rows that it looks at.
    pub rows: u32,
    /// Bytes of bodies that it deletes: one row more ends it.
    pub bytes: u64,
}

/// What one step over a room's messages did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Messages that are gone.
    pub deleted: u32,
    /// Where the next step goes on; `None`: nothing more may go in this room.
    pub next: Option<Seq>,
}

/// Where a run over the facts stands: what it means is the store's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FactPlace(pub i64, pub i64);

impl FactPlace {
    /// Where a run begins.
    pub const START: FactPlace = FactPlace(i64::MIN, i64::MIN);
}

/// What one step over the facts did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweptFacts {
    /// Facts that are gone.
    pub deleted: u32,
    /// Where the next step goes on; `None`: nothing more has to go.
    pub next: Option<FactPlace>,
}

/// Retention.
pub trait UpkeepStore: Send + Sync {
    /// Deletes invites that ended before `now`, at most `limit`; how many. An invite that somebody
    /// redeemed and still waits on stays until it ended before `asked_before`: who waits is told so
    /// by its code.
    fn sweep_invites(&self, now: i64, asked_before: i64, limit: u32) -> StoreFuture<'_, u32>;

    /// Rooms in which something may go, by name (as bytes), behind `after`, at most `limit`.
    fn rooms_to_prune<'a>(
        &'a self,
        after: Option<&'a RoomName>,
        rule: MessageRule,
        limit: u32,
    ) -> StoreFuture<'a, Vec<RoomName>>;

    /// Looks at a room's messages behind `after`, oldest first, and deletes those that may go, with
    /// everything that belongs to them. Ends at the first one that is not old enough. Cursors stay,
    /// unread counts are those of what is left, no `seq` is ever used again.
    fn prune_room<'a>(
        &'a self,
        room: &'a RoomName,
        after: Seq,
        rule: MessageRule,
        step: StepSize,
    ) -> StoreFuture<'a, Pruned>;

    /// Deletes facts without a key, the oldest first, of whoever has more than `keep` of them in
    /// one room or in private. Facts with a key stay.
    fn sweep_facts(
        &self,
        from: FactPlace,
        keep: u32,
        step: StepSize,
    ) -> StoreFuture<'_, SweptFacts>;
}
