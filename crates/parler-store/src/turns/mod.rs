//! The turn ledger: what became of every handoff.
//!
//! A turn is born in the transaction that appends its message, and its identity is that message's
//! id. From then on it moves along the arrows of [`Standing`] and no others; each move is one
//! atomic step, gets a revision and a line of history. Who may claim is [`claim_basis`]. Leases and
//! deadlines are judged by the stored time at every step, and [`TurnStore::settle_turns`] makes
//! what time alone has done visible.

mod arrows;
mod eligible;
mod model;

use parler_protocol::{AgentId, RoomName};

pub use arrows::{Claiming, Lapse, Standing};
pub use eligible::{Basis, Candidate, addressee_id, claim_basis, folded_name};
pub use model::*;

use crate::StoreFuture;

/// Lines of history that are kept of one turn, the newest: claiming and releasing for ever must not
/// fill the disk.
pub const MAX_TURN_HISTORY: u32 = 256;
/// Names of one agent in one room that can be bound to it: logging in under name after name must
/// not take all of them.
pub const MAX_BOUND_NAMES: u32 = 8;
/// Members of [`TurnView::members`] at most: they are shown in one line.
pub const MAX_NAMED_MEMBERS: usize = 12;
/// Candidates of one [`TurnView`] at most: a room of thousands must not make a reply of megabytes.
pub const MAX_CANDIDATES: usize = 200;

/// The turn ledger. In all methods `not a member` covers unknown rooms, and is checked before
/// anything else; then whether there is such a turn; then who may; then the turn's state.
pub trait TurnStore: Send + Sync {
    /// Takes an open turn, or renews the caller's own take. Of any number that race, one wins.
    fn claim_turn(&self, claim: TurnClaim) -> StoreFuture<'_, TakeOutcome>;

    /// Ends the caller's take. `end` must be final.
    fn complete_turn(&self, end: TurnEnd) -> StoreFuture<'_, ActOutcome>;

    /// Gives the caller's take back: the turn is open again.
    fn release_turn(&self, act: TurnStep) -> StoreFuture<'_, ActOutcome>;

    /// Refuses an open turn that names the caller (its name or id, not its role).
    fn decline_turn(&self, act: TurnStep) -> StoreFuture<'_, ActOutcome>;

    /// Withdraws an active turn; the offerer's or the room owner's to do.
    fn cancel_turn(&self, act: TurnStep) -> StoreFuture<'_, ActOutcome>;

    /// Turns of the caller's rooms, newest first; `None` when it is not a member of the room that
    /// it names.
    fn turns(&self, find: TurnFind) -> StoreFuture<'_, Option<TurnsFound>>;

    /// Who could take a turn, by its place in the log, as the room is now; `None` when it is gone.
    fn turn_view(&self, message: String) -> StoreFuture<'_, Option<TurnView>>;

    /// When the next lease, deadline or stall is due, in milliseconds.
    fn turns_due(&self) -> StoreFuture<'_, Option<i64>>;

    /// Does what time alone has done by `now`: leases that ran out, deadlines that passed, stalls
    /// that were reached. Answers how many turns it touched. Doing it twice is doing it once.
    fn settle_turns(&self, now: i64) -> StoreFuture<'_, u32>;

    /// Counts a stall that depends on who is connected as news of these turns, once each: they get
    /// a new revision. Turns that are not open are left alone.
    fn note_stalled(&self, messages: Vec<String>) -> StoreFuture<'_, u32>;

    /// Says whom a name means in a room: the owner's to do; in a room without one any member's, for
    /// a name that means nobody.
    fn bind_name<'a>(
        &'a self,
        room: &'a RoomName,
        caller: &'a AgentId,
        name: &'a str,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, NameOutcome>;

    /// A room's settings, for a member.
    fn room_policy<'a>(
        &'a self,
        room: &'a RoomName,
        agent: &'a AgentId,
    ) -> StoreFuture<'a, Option<RoomPolicyRow>>;

    /// Changes a room's settings; the owner's to do.
    fn set_room_policy(&self, change: PolicyChange) -> StoreFuture<'_, PolicyOutcome>;
}
