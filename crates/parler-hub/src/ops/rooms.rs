//! `rooms`, `roster`: what an agent is in, and who is with it.

use parler_protocol::{RoomInfo, RoomName, RoomOp, Rooms, Roster, RosterEntry, ServerFrame};

use parler_store::MemberRow;

use super::{Caller, cap_field};
use crate::error::OpError;
use crate::now_ms;
use crate::presence::{derived_status, is_fresh};
use crate::state::HubState;

/// The caller's rooms, by name.
pub async fn rooms(caller: Caller) -> Result<ServerFrame, OpError> {
    let rows = caller.state.store().rooms(&caller.agent.id).await?;
    let rooms = rows
        .into_iter()
        .map(|row| RoomInfo {
            name: row.name.into(),
            kind: row.kind,
            members: row.members,
            unread: row.unread,
            unread_others: Some(row.unread_others),
        })
        .collect();
    Ok(ServerFrame::Rooms(Rooms { rooms }))
}

/// The members of a room, by name.
pub async fn roster(caller: Caller, op: RoomOp) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    let room = RoomName::new(&op.room);
    let state = &caller.state;
    let rows = state.store().roster(&room, &caller.agent.id).await?;
    let rows = rows.ok_or_else(|| OpError::not_member(&op.room))?;
    let now = now_ms();
    let entries = rows.into_iter().map(|row| entry(state, row, now)).collect();
    Ok(ServerFrame::Roster(Roster {
        room: op.room,
        entries,
    }))
}

/// A member as others see it.
pub fn entry(state: &HubState, row: MemberRow, now: i64) -> RosterEntry {
    let presence = state.heard().lay_over(&row.agent, row.presence);
    RosterEntry {
        id: row.agent.into(),
        name: row.name,
        role: row.role,
        status: derived_status(presence.as_ref(), now).to_owned(),
        attention: presence
            .as_ref()
            .filter(|p| is_fresh(p, now))
            .and_then(|p| p.attention),
        last_seen: presence.as_ref().map_or(row.last_hello, |p| p.at),
        activity: presence.and_then(|p| p.activity),
        service_role: row.service_role,
    }
}
