//! `send`: appends a message.
//!
//! Order: caps, the agent's send budget, the size, who may (membership), the room's budget, the
//! append. The reply is made of what the commit returned, so nothing is said before it.

use parler_protocol::parts::{Dispatch, TypedPart as _};
use parler_protocol::{
    AgentId, ErrorCode, Part, RoomName, Send, Sent, ServerFrame, Target, canonical, limits, names,
};
use parler_store::{Append, Appended, Committing};
use sha2::{Digest as _, Sha256};

use super::{Caller, Running, cap_optional};
use crate::conn::parts::{Checked, Kinds};
use crate::error::OpError;
use crate::{now_ms, random, turns};

/// Checks a message and queues it in the store. What it resolves to is the rest: it waits for the
/// commit and answers. The two are apart so that a connection queues its sends one by one, in
/// their order, and waits for many commits at once.
pub async fn queue(caller: Caller, op: Send<Checked<Box<str>>>) -> Running {
    match submit(&caller, op).await {
        Ok(queued) => Box::pin(async move { committed(&caller, queued).await.into() }),
        Err(error) if error.is_rate_limit() => super::refuse_send(error).await,
        Err(error) => Box::pin(std::future::ready(error.into())),
    }
}

/// A message in the store's queue.
struct Queued {
    room: RoomName,
    committing: Committing,
    /// It offers a turn: its author is told at once whether anybody is there.
    offers: bool,
}

async fn submit(caller: &Caller, op: Send<Checked<Box<str>>>) -> Result<Queued, OpError> {
    check_caps(&op)?;
    let (state, agent) = (&caller.state, &caller.agent);
    let now = now_ms();
    let budgets = state.budgets();
    budgets
        .sends
        .spend(&agent.id, now)
        .map_err(|r| OpError::rate_limited("messages", r))?;
    let max = state.config().limits.max_message_bytes;
    if op.parts.json.len() > max {
        return Err(OpError::too_large("parts", max));
    }
    let dispatch = if op.parts.kinds.any(Kinds::DISPATCH) {
        dispatched(&op.parts.json)?
    } else {
        Vec::new()
    };
    let (room, join) = resolve(caller, &op.target).await?;
    budgets
        .room_sends
        .spend(&room, now)
        .map_err(|r| OpError::rate_limited("messages in this room", r))?;
    let digest = match &op.client_id {
        Some(_) => Some(digest(&op.parts.json)?),
        None => None,
    };
    let ledger = super::ledger::notes(&op.parts, op.deadline_secs, now)?;
    let offers = ledger.as_ref().is_some_and(|notes| notes.offer.is_some());
    let append = Append {
        agent: agent.id.clone(),
        name: agent.name.clone(),
        role: agent.role.clone(),
        room: room.clone(),
        id: random::message_id(),
        parts: op.parts.json.into(),
        mentions: op.mentions.and_then(names::normalise_mentions),
        reply_to: op.reply_to,
        client_id: op.client_id,
        digest,
        ledger,
        dispatch,
        join,
        now,
    };
    Ok(Queued {
        room,
        committing: state.store().submit(append).await?,
        offers,
    })
}

async fn committed(caller: &Caller, queued: Queued) -> Result<ServerFrame, OpError> {
    let Queued {
        room,
        committing,
        offers,
    } = queued;
    match committing.await? {
        Appended::New(entry) => {
            caller.state.count_message();
            Ok(sent(caller, room, entry.id.to_string(), entry.seq.0, offers).await)
        }
        Appended::Repeat { id, seq } => Ok(sent(caller, room, id, seq.0, offers).await),
        Appended::KeyReused => Err(OpError::new(
            ErrorCode::Protocol,
            "this clientId was used for another message in this room: use a new one",
        )),
        Appended::NotMember => Err(OpError::not_member(room.as_str())),
        Appended::UnknownService => Err(OpError::unknown_service(room.as_str())),
        Appended::Denied => Err(OpError::service_closed(room.as_str())),
    }
}

/// The reply to a stored message.
async fn sent(caller: &Caller, room: RoomName, id: String, seq: i64, offers: bool) -> ServerFrame {
    let state = &caller.state;
    let view = match offers {
        // The message is stored: that its turn cannot be shown now must not read as a failure.
        true => state.store().turn_view(id.clone()).await.ok().flatten(),
        false => None,
    };
    ServerFrame::Sent(Sent {
        id,
        seq,
        room: room.to_string(),
        turn: view.map(|view| turns::shown(state, view)),
    })
}

fn check_caps(op: &Send<Checked<Box<str>>>) -> Result<(), OpError> {
    cap_target(&op.target)?;
    cap_optional("replyTo", op.reply_to.as_deref())?;
    cap_optional("clientId", op.client_id.as_deref())?;
    let mentions = op.mentions.as_deref().unwrap_or_default();
    if mentions.len() > limits::MAX_MENTIONS {
        return Err(OpError::new(
            ErrorCode::TooLarge,
            format!("more than {} mentions", limits::MAX_MENTIONS),
        ));
    }
    mentions
        .iter()
        .try_for_each(|mention| super::cap_field("mentions", mention))
}

/// The roles that a message is dispatched to. A malformed part counts as unknown; a role that is
/// longer than one can serve is nobody's.
fn dispatched(parts: &str) -> Result<Vec<String>, OpError> {
    let parts: Vec<Part> = serde_json::from_str(parts).map_err(OpError::bad_frame)?;
    let roles: Vec<String> = parts
        .iter()
        .filter_map(Dispatch::from_part)
        .map(|dispatch| dispatch.role)
        .filter(|role| role.len() <= limits::MAX_FIELD_BYTES)
        .collect();
    if roles.len() > limits::MAX_DISPATCH_ROLES {
        return Err(OpError::new(
            ErrorCode::TooLarge,
            format!("more than {} dispatch parts", limits::MAX_DISPATCH_ROLES),
        ));
    }
    Ok(roles)
}

/// Refuses a target over its cap.
pub(super) fn cap_target(target: &Target) -> Result<(), OpError> {
    let (field, value) = match target {
        Target::Room { room } => ("room", room),
        Target::Dm { agent } => ("agent", agent),
        Target::Service { service } => ("service", service),
    };
    super::cap_field(field, value)
}

/// What [`resolve`] would answer, without opening or joining anything: the room, or `None` where
/// it would open one.
pub(super) async fn check(caller: &Caller, target: &Target) -> Result<Option<RoomName>, OpError> {
    match target {
        Target::Room { .. } | Target::Service { .. } => {
            resolve(caller, target).await.map(|(room, _)| Some(room))
        }
        Target::Dm { agent } => {
            let (store, me) = (caller.state.store(), &caller.agent.id);
            let peer = dm_peer(caller, agent)?;
            let room = store.dm_room(me, &peer).await?;
            if room.is_none() && store.lookup(&peer).await?.is_none() {
                return Err(OpError::not_discoverable(agent));
            }
            Ok(room)
        }
    }
}

/// The other one of a direct message.
fn dm_peer(caller: &Caller, agent: &str) -> Result<AgentId, OpError> {
    if caller.agent.id == *agent {
        return Err(OpError::new(
            ErrorCode::NotAuthorized,
            "a direct message goes to somebody else: name another agent",
        ));
    }
    AgentId::parse(agent).ok_or_else(|| OpError::not_discoverable(agent))
}

/// The room that a target means, for somebody who may write there; and whether the author becomes
/// a member with what it writes, and not before it, if it is none yet.
///
/// # Errors
/// When there is none for the caller.
pub async fn resolve(caller: &Caller, target: &Target) -> Result<(RoomName, bool), OpError> {
    let (state, me) = (&caller.state, &caller.agent.id);
    match target {
        Target::Room { room } => {
            let room = RoomName::new(room);
            state.members().require(state.store(), &room, me).await?;
            Ok((room, false))
        }
        Target::Dm { agent } => {
            let peer = dm_peer(caller, agent)?;
            let store = state.store();
            let room = match store.dm_room(me, &peer).await? {
                Some(room) => Some(room),
                None => {
                    let suffix = random::text(names::SUFFIX_ALPHABET, names::SUFFIX_LEN);
                    let name = RoomName::new(&format!("{}{suffix}", names::DM_PREFIX));
                    store.open_dm(me, &peer, name, now_ms()).await?
                }
            };
            room.map(|room| (room, false))
                .ok_or_else(|| OpError::not_discoverable(agent))
        }
        Target::Service { service } => {
            let room = RoomName::new(&names::service_room(service));
            // Before the room's budget is spent: names that nobody serves must not fill its memory.
            if state.store().is_service(&room).await? {
                Ok((room, true))
            } else {
                Err(OpError::unknown_service(service))
            }
        }
    }
}

/// Tells a repeat from a reused key: the same parts have the same canonical form.
fn digest(parts: &str) -> Result<[u8; 32], OpError> {
    let value: serde_json::Value = serde_json::from_str(parts).map_err(OpError::bad_frame)?;
    Ok(Sha256::digest(canonical::to_vec(&value)).into())
}
