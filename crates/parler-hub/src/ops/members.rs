//! What an owner decides about a room, and leaving it.
//!
//! A removal bites at once: the membership is forgotten here before the reply, and the bus ends
//! parked pulls and pushes of whoever has to go.

use parler_protocol::{
    AgentId, ErrorCode, JoinRequest, JoinRequests, JoinResolved, MemberOp, MemberReply,
    RemoveMember, ResolveJoin, RevokeInvite, Revoked, RoomName, RoomOp, RoomReply, ServerFrame,
    links,
};
use parler_store::{LeaveOutcome, MemberOutcome, ResolveOutcome, WhichInvites};

use super::{Caller, cap_field, cap_optional};
use crate::error::OpError;
use crate::now_ms;
use crate::state::HubState;

/// An agent that an op names. Text that is no id is nobody's.
fn agent(field: &str, id: &str) -> Result<Option<AgentId>, OpError> {
    cap_field(field, id)?;
    Ok(AgentId::parse(id))
}

/// Who waits to be admitted.
pub async fn join_requests(caller: Caller, op: RoomOp) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let room = RoomName::new(&op.room);
    let rows = caller
        .state
        .store()
        .join_requests(&room, &caller.agent.id)
        .await?;
    let rows = rows.ok_or_else(|| {
        OpError::not_owner(format!(
            "only the session owner can view join requests for '{room}'"
        ))
    })?;
    let requests = rows
        .into_iter()
        .map(|row| JoinRequest {
            agent: row.agent.into(),
            name: row.name,
            role: row.role,
            requested_at: row.requested_at,
        })
        .collect();
    Ok(ServerFrame::JoinRequests(JoinRequests {
        room: op.room,
        requests,
    }))
}

/// Admits or refuses.
pub async fn resolve_join(caller: Caller, op: ResolveJoin) -> Result<ServerFrame, OpError> {
    resolve_join_as(&caller.state, &caller.agent.id, op).await
}

/// The same for whoever acts for `owner`.
pub async fn resolve_join_as(
    state: &HubState,
    owner: &AgentId,
    op: ResolveJoin,
) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let room = RoomName::new(&op.room);
    let nobody = || {
        OpError::uncoded(format!(
            "no pending join request from '{}' for '{room}'",
            op.agent
        ))
    };
    let store = state.store();
    let outcome = match agent("agent", &op.agent)? {
        Some(agent) => {
            store
                .resolve_join(&room, owner, &agent, op.approve, now_ms())
                .await?
        }
        // Who is not the owner does not learn that it is nobody's id.
        None if store.join_requests(&room, owner).await?.is_none() => ResolveOutcome::NotOwner,
        None => ResolveOutcome::NoRequest,
    };
    match outcome {
        ResolveOutcome::Resolved => Ok(ServerFrame::JoinResolved(JoinResolved {
            room: op.room,
            agent: op.agent,
            approved: op.approve,
        })),
        ResolveOutcome::NoRequest => Err(nobody()),
        ResolveOutcome::NotOwner => Err(OpError::not_owner(format!(
            "only the session owner can approve or deny join requests for '{room}'"
        ))),
    }
}

/// Deletes a room and everything of it.
pub async fn delete_room(caller: Caller, op: RoomOp) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let room = RoomName::new(&op.room);
    match caller
        .state
        .store()
        .delete_room(&room, &caller.agent.id)
        .await?
    {
        Some(_) => {
            caller.state.members().forget_room(&room);
            Ok(ServerFrame::RoomDeleted(RoomReply { room: op.room }))
        }
        None => Err(OpError::not_owner(format!(
            "only the room owner can delete '{room}'"
        ))),
    }
}

/// Leaves a room.
pub async fn leave(caller: Caller, op: RoomOp) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let room = RoomName::new(&op.room);
    let me = &caller.agent.id;
    match caller.state.store().leave(&room, me, now_ms()).await? {
        LeaveOutcome::Left => {
            caller.state.members().forget(&room, me);
            Ok(ServerFrame::Left(RoomReply { room: op.room }))
        }
        LeaveOutcome::NotMember => Err(OpError::not_member(&op.room)),
        LeaveOutcome::OwnerStays => Err(OpError::new(
            ErrorCode::NotAuthorized,
            format!("you own '{room}' and others are in it: transfer_owner or delete_room first"),
        )),
    }
}

/// Removes somebody else.
pub async fn remove_member(caller: Caller, op: RemoveMember) -> Result<ServerFrame, OpError> {
    remove_member_as(&caller.state, &caller.agent.id, op).await
}

/// The same for whoever acts for `owner`.
pub async fn remove_member_as(
    state: &HubState,
    owner: &AgentId,
    op: RemoveMember,
) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let room = RoomName::new(&op.room);
    let (ban, store) = (op.ban.unwrap_or(false), state.store());
    let outcome = match agent("agent", &op.agent)? {
        Some(agent) => {
            let outcome = store
                .remove_member(&room, owner, &agent, ban, now_ms())
                .await?;
            state.members().forget(&room, &agent);
            outcome
        }
        None => MemberOutcome::NotMember,
    };
    let reply = MemberReply {
        room: op.room,
        agent: op.agent,
    };
    member_outcome(outcome, &reply, "remove a member of").map(|()| ServerFrame::Removed(reply))
}

/// Makes another member the owner.
pub async fn transfer_owner(caller: Caller, op: MemberOp) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let room = RoomName::new(&op.room);
    let outcome = match agent("agent", &op.agent)? {
        Some(agent) => {
            caller
                .state
                .store()
                .transfer_owner(&room, &caller.agent.id, &agent)
                .await?
        }
        None => MemberOutcome::NotMember,
    };
    let reply = MemberReply {
        room: op.room,
        agent: op.agent,
    };
    member_outcome(outcome, &reply, "pass on").map(|()| ServerFrame::Owner(reply))
}

fn member_outcome(outcome: MemberOutcome, about: &MemberReply, act: &str) -> Result<(), OpError> {
    match outcome {
        MemberOutcome::Done => Ok(()),
        MemberOutcome::NotOwner => Err(OpError::not_owner(format!(
            "only the room owner can {act} '{}'",
            about.room
        ))),
        MemberOutcome::NotMember => Err(OpError::new(
            ErrorCode::NotMember,
            format!("'{}' is no other member of '{}'", about.agent, about.room),
        )),
    }
}

/// Revokes invites: exactly one way of naming them.
pub async fn revoke_invite(caller: Caller, op: RevokeInvite) -> Result<ServerFrame, OpError> {
    for (field, value) in [("code", &op.code), ("id", &op.id), ("room", &op.room)] {
        cap_optional(field, value.as_deref())?;
    }
    let which = match (op.code, op.id, op.room) {
        (Some(code), None, None) => {
            WhichInvites::Code(super::invite::hash(links::redeem_code(&code)))
        }
        (None, Some(id), None) => WhichInvites::Id(id),
        (None, None, Some(room)) => WhichInvites::Room(RoomName::new(&room)),
        _ => return Err(OpError::bad_frame("name one of `code`, `id`, `room`")),
    };
    let count = caller
        .state
        .store()
        .revoke_invites(&caller.agent.id, which)
        .await?;
    Ok(ServerFrame::Revoked(Revoked { count }))
}
