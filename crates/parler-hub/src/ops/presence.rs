//! `presence`, `set_attention`: how an agent is, and what may wake it.

use parler_protocol::{Presence, ServerFrame, SetAttention, clean};

use super::{Caller, cap_field, cap_optional};
use crate::error::OpError;
use crate::now_ms;

/// Sets status and activity. Control characters never enter either.
pub async fn presence(caller: Caller, op: Presence) -> Result<ServerFrame, OpError> {
    cap_field("status", &op.status)?;
    cap_optional("activity", op.activity.as_deref())?;
    let status = clean::name(&op.status);
    let activity = op.activity.as_deref().map(clean::name);
    let store = caller.state.store();
    store
        .set_presence(
            &caller.agent.id,
            &status,
            activity.as_deref(),
            op.attention,
            now_ms(),
        )
        .await?;
    Ok(ServerFrame::PresenceOk)
}

/// Sets the attention.
pub async fn set_attention(caller: Caller, op: SetAttention) -> Result<ServerFrame, OpError> {
    caller
        .state
        .store()
        .set_attention(&caller.agent.id, op.attention, now_ms())
        .await?;
    Ok(ServerFrame::AttentionOk)
}
