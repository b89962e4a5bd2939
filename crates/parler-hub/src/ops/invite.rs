//! `invite`, `redeem`: how an agent gets into a room.

use parler_protocol::{
    ErrorCode, Invite, Invited, Joined, Redeem, RoomKind, RoomName, RoomReply, ServerFrame, limits,
    links, names,
};
use parler_store::{InviteOutcome, NewInvite, RedeemOutcome};
use sha2::{Digest as _, Sha256};

use super::{Caller, cap_field, cap_optional};
use crate::error::OpError;
use crate::{now_ms, random};

/// Codes are stored as hashes only: a copy of the database opens no room.
fn hash(code: &str) -> [u8; 32] {
    Sha256::digest(code.as_bytes()).into()
}

/// Opens a room if need be and mints a code for it.
pub async fn invite(caller: Caller, op: Invite) -> Result<ServerFrame, OpError> {
    cap_optional("room", op.room.as_deref())?;
    let ttl = op
        .ttl_secs
        .unwrap_or(limits::DEFAULT_INVITE_TTL_SECS)
        .min(limits::MAX_TTL_SECS);
    let uses = match op.kind {
        RoomKind::Dm => 1,
        _ => op.max_uses.unwrap_or(limits::DEFAULT_INVITE_USES),
    };
    let now = now_ms();
    let expires_at = now + i64::try_from(ttl * 1000).unwrap_or(i64::MAX - now);
    let code = random::text(links::CODE_ALPHABET, links::CODE_LEN);
    let id = random::text(names::SUFFIX_ALPHABET, 12);
    let outcome = caller
        .state
        .store()
        .invite(NewInvite {
            agent: caller.agent.id.clone(),
            kind: op.kind,
            room: room_name(&op),
            verbatim: op
                .room
                .as_deref()
                .filter(|_| op.kind != RoomKind::Dm)
                .map(RoomName::new),
            code: hash(&code),
            id: id.clone(),
            expires_at,
            max_uses: uses,
            gated: op.require_approval && op.kind == RoomKind::Channel,
            max_owned_rooms: caller.state.config().limits.max_owned_rooms,
            now,
        })
        .await?;
    match outcome {
        InviteOutcome::Invited { room, .. } => Ok(ServerFrame::Invited(Invited {
            url: format!("{}/join/{code}", caller.state.url()),
            code,
            room: room.into(),
            kind: op.kind,
            expires_at,
            id: Some(id),
        })),
        InviteOutcome::NotMember => Err(OpError::room_exists(room_name(&op).as_str())),
        InviteOutcome::TooManyRooms => Err(OpError::new(
            ErrorCode::AtCapacity,
            "you own as many rooms as this hub allows: delete one first",
        )),
    }
}

/// The stored name that an invite means; an automatic one where none was chosen.
fn room_name(op: &Invite) -> RoomName {
    let auto = |prefix: &str| {
        format!(
            "{prefix}{}",
            random::text(names::SUFFIX_ALPHABET, names::SUFFIX_LEN)
        )
    };
    let name = match (op.kind, &op.room) {
        (RoomKind::Channel, Some(room)) => names::token(room),
        (RoomKind::Channel, None) => auto(names::AUTO_PREFIX),
        (RoomKind::Service, Some(room)) => names::service_room(room),
        (RoomKind::Service, None) => auto(names::SERVICE_PREFIX),
        (RoomKind::Dm, _) => auto(names::DM_PREFIX),
    };
    RoomName::new(&name)
}

/// Joins by code. Wrong codes are a budget of their own: guessing is slow.
pub async fn redeem(caller: Caller, op: Redeem) -> Result<ServerFrame, OpError> {
    cap_field("code", &op.code)?;
    let (state, agent) = (&caller.state, &caller.agent.id);
    let now = now_ms();
    let throttled = |retry| OpError::rate_limited("wrong invite codes", retry);
    state
        .budgets()
        .bad_codes
        .check(agent, now)
        .map_err(throttled)?;
    let outcome = state
        .store()
        .redeem(hash(links::redeem_code(&op.code)), agent, now)
        .await?;
    match outcome {
        RedeemOutcome::Joined { room, kind } => Ok(ServerFrame::Joined(Joined {
            room: room.into(),
            kind,
        })),
        RedeemOutcome::Pending { room, .. } => {
            Ok(ServerFrame::JoinPending(RoomReply { room: room.into() }))
        }
        RedeemOutcome::Unknown => {
            state
                .budgets()
                .bad_codes
                .spend(agent, now)
                .map_err(throttled)?;
            Err(OpError::invalid_invite(
                "invalid or unknown invite code — check it, or ask for a new one",
            ))
        }
        RedeemOutcome::Expired => Err(OpError::invalid_invite(
            "this code has expired — ask a member of the room for a new one",
        )),
        RedeemOutcome::UsedUp => Err(OpError::invalid_invite(
            "invite has already been used up — ask a member of the room for a new one",
        )),
        RedeemOutcome::Denied => Err(OpError::new(
            ErrorCode::NotAuthorized,
            "your request to join was denied by the host",
        )),
    }
}
