//! `invite`, `redeem`: how an agent gets into a room.

use std::time::Duration;

use parler_protocol::{
    ErrorCode, Invite, Invited, Joined, Redeem, RoomKind, RoomName, RoomReply, ServerFrame, limits,
    links, names,
};
use parler_store::{InviteOutcome, NewInvite, RedeemOutcome};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout_at};

use super::{Caller, cap_field, cap_optional};
use crate::error::OpError;
use crate::{now_ms, random};

/// Codes are stored as hashes only: a copy of the database opens no room.
pub fn hash(code: &str) -> [u8; 32] {
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
        InviteOutcome::TooManyRooms => Err(OpError::too_many_rooms()),
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

/// Joins by code; with `waitSecs` it parks while the owner has not decided. Who guesses codes waits
/// longer and longer.
pub async fn redeem(caller: Caller, op: Redeem) -> Result<ServerFrame, OpError> {
    cap_field("code", &op.code)?;
    let throttled = |retry| OpError::rate_limited("wrong invite codes", retry);
    let budgets = caller.state.budgets();
    let (me, from) = (&caller.agent.id, caller.address);
    let now = now_ms();
    budgets.bad_codes.check(me, now).map_err(throttled)?;
    budgets.may_guess(from, now).map_err(throttled)?;
    let code = hash(links::redeem_code(&op.code));
    let wait = Duration::from_secs(op.wait_secs.unwrap_or(0).min(limits::MAX_WAIT_SECS));
    let outcome = match caller.state.store().redeem(code, me, now_ms()).await? {
        RedeemOutcome::Pending { room, .. } if !wait.is_zero() => {
            decided(&caller, code, &room, Instant::now() + wait).await?
        }
        RedeemOutcome::Unknown => {
            budgets.bad_codes.wrong(me, now_ms());
            budgets.guessed_wrong(from, now_ms());
            RedeemOutcome::Unknown
        }
        outcome => outcome,
    };
    answer(outcome)
}

/// Waits for the owner's decision; still pending at the deadline or when the hub stops.
async fn decided(
    caller: &Caller,
    code: [u8; 32],
    room: &RoomName,
    deadline: Instant,
) -> Result<RedeemOutcome, OpError> {
    let mut stopping = caller.stopping.clone();
    let mut parked = caller.state.askers().park(room);
    loop {
        let outcome = caller
            .state
            .store()
            .redeem(code, &caller.agent.id, now_ms())
            .await?;
        if !matches!(outcome, RedeemOutcome::Pending { .. }) {
            return Ok(outcome);
        }
        tokio::select! {
            woken = timeout_at(deadline, parked.grew()) => {
                if woken.is_err() {
                    return Ok(outcome);
                }
            }
            _ = stopping.wait_for(|stopping| *stopping) => return Ok(outcome),
        }
    }
}

fn answer(outcome: RedeemOutcome) -> Result<ServerFrame, OpError> {
    match outcome {
        RedeemOutcome::Joined { room, kind } => Ok(ServerFrame::Joined(Joined {
            room: room.into(),
            kind,
        })),
        RedeemOutcome::Pending { room, .. } => {
            Ok(ServerFrame::JoinPending(RoomReply { room: room.into() }))
        }
        RedeemOutcome::Unknown => Err(OpError::invalid_invite(
            "invalid or unknown invite code — check it, or ask for a new one",
        )),
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
