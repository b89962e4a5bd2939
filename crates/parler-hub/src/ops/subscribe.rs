//! `subscribe`, `unsubscribe`: push for this connection.

use parler_protocol::{ServerFrame, Subscribe};

use super::Caller;
use crate::error::OpError;

/// Registers the connection, then adds the rooms that the agent already is in: a room that it
/// joins in between is added by the registration. Ends with the connection.
pub async fn subscribe(caller: Caller, op: Subscribe) -> Result<ServerFrame, OpError> {
    let Caller {
        state,
        agent,
        conn,
        outbox,
        ..
    } = caller;
    let wants = (op.turns == Some(true), op.wakes != Some(false));
    state.fanout().subscribe(conn, &agent.id, outbox, wants);
    let rooms = state.store().rooms(&agent.id).await?;
    state
        .fanout()
        .add_rooms(conn, rooms.into_iter().map(|room| room.name));
    Ok(ServerFrame::Subscribed)
}

/// Ends it.
pub fn unsubscribe(caller: &Caller) -> ServerFrame {
    caller.state.fanout().unsubscribe(caller.conn);
    ServerFrame::Unsubscribed
}
