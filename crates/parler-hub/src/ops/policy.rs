//! `bind_name`, `room_policy`: what a room's owner sets.

use parler_protocol::{
    AgentId, BindName, ErrorCode, NameBound, RoomName, RoomPolicy, ServerFrame, SetRoomPolicy,
    clean, limits,
};
use parler_store::{NameOutcome, PolicyChange, PolicyOutcome, RoomPolicyRow};

use super::{Caller, cap_field};
use crate::error::OpError;
use crate::now_ms;

/// Says whom a name means in a room.
pub async fn bind_name(caller: Caller, op: BindName) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    cap_field("name", &op.name)?;
    cap_field("agent", &op.agent)?;
    let room = RoomName::new(&op.room);
    let name = clean::name(&op.name);
    if !clean::usable_name(&name) {
        return Err(OpError::bad_frame("that name is empty or reserved"));
    }
    let (state, me) = (&caller.state, &caller.agent.id);
    let outcome = match AgentId::parse(&op.agent) {
        Some(agent) => state.store().bind_name(&room, me, &name, &agent).await?,
        None => {
            state.members().require(state.store(), &room, me).await?;
            NameOutcome::Stranger
        }
    };
    match outcome {
        NameOutcome::Bound => Ok(ServerFrame::NameBound(NameBound {
            room: op.room,
            name,
            agent: op.agent,
        })),
        NameOutcome::NotMember => Err(OpError::not_member(&op.room)),
        NameOutcome::NotOwner => Err(OpError::not_owner(format!(
            "only the room owner can say whom a name means in '{room}'; in a room without an owner \
             any member can, for a name that nobody has any more"
        ))),
        NameOutcome::Stranger => Err(OpError::new(
            ErrorCode::NotMember,
            format!("'{}' is no member of '{}'", op.agent, op.room),
        )),
    }
}

/// Reads a room's settings, or changes them.
pub async fn room_policy(caller: Caller, op: SetRoomPolicy) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let room = RoomName::new(&op.room);
    let (store, me) = (caller.state.store(), &caller.agent.id);
    let change = PolicyChange {
        room: room.clone(),
        by: me.clone(),
        hop_limit: op.hop_limit,
        handoff_hop_limit: op.handoff_hop_limit,
        require_approval: op.require_approval,
        reset: op.reset.unwrap_or(false),
        now: now_ms(),
    };
    let writes = change.hop_limit.is_some()
        || change.handoff_hop_limit.is_some()
        || change.require_approval.is_some()
        || change.reset;
    let outcome = if writes {
        store.set_room_policy(change).await?
    } else {
        let read = store.room_policy(&room, me).await?;
        read.map_or(PolicyOutcome::NotMember, PolicyOutcome::Set)
    };
    match outcome {
        PolicyOutcome::Set(row) => Ok(shown(op.room, row)),
        PolicyOutcome::NotMember => Err(OpError::not_member(&op.room)),
        PolicyOutcome::NotOwner => Err(OpError::not_owner(format!(
            "only the room owner can change the settings of '{room}'"
        ))),
        PolicyOutcome::NoGate => Err(OpError::new(
            ErrorCode::NotAuthorized,
            "only a channel can ask its owner about each joiner",
        )),
    }
}

fn shown(room: String, row: RoomPolicyRow) -> ServerFrame {
    ServerFrame::RoomPolicy(RoomPolicy {
        room,
        hop_limit: row.hop_limit.unwrap_or(limits::HOP_LIMIT),
        handoff_hop_limit: row.handoff_hop_limit.unwrap_or(limits::HANDOFF_HOP_LIMIT),
        require_approval: row.require_approval,
    })
}
