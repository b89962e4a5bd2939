//! What an owner decides about a room: who may join, who has to go, who owns it, whether it
//! lives on.

use parler_protocol::{AgentId, RoomKind, RoomName};

use crate::model::CodeHash;

/// Somebody who waits to be admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequestRow {
    /// Agent id.
    pub agent: AgentId,
    /// Display name, empty when it never logged in.
    pub name: String,
    /// Role.
    pub role: Option<String>,
    /// Milliseconds.
    pub requested_at: i64,
}

/// What came of a decision on a join request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveOutcome {
    /// The request was admitted or refused, as asked.
    Resolved,
    /// The caller is not the owner; also for an unknown room.
    NotOwner,
    /// That agent does not wait there, and was not refused there.
    NoRequest,
}

/// What came of leaving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaveOutcome {
    /// Not a member any more.
    Left,
    /// The caller was no member; also for an unknown room.
    NotMember,
    /// An owner with others in the room has to pass it on or delete it first.
    OwnerStays,
}

/// What came of an owner's act on a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOutcome {
    /// Done.
    Done,
    /// The caller is not the owner; also for an unknown room.
    NotOwner,
    /// The other one is no member.
    NotMember,
}

/// Which invites to revoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichInvites {
    /// The one of this code.
    Code(CodeHash),
    /// The one of this public id.
    Id(String),
    /// All of a room.
    Room(RoomName),
}

/// A room that was deleted, or that its caller may not delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Kind of the room.
    pub kind: RoomKind,
}
