//! `claim`, `complete`, `release`, `decline`, `cancel`, `turns`: acting on handoffs.
//!
//! Each act is one step of the store. Losing a race is an answer, not an error.

use std::time::Duration;

use parler_protocol::turn::{TurnAct, TurnFilter, TurnsQuery};
use parler_protocol::{
    Cancelled, Claim, Claimed, Complete, Completed, Declined, ErrorCode, Released, RoomName,
    ServerFrame, TaskStatus, TurnState, Turns, limits,
};
use parler_store::{
    ActOutcome, Actor, TakeOutcome, TurnClaim, TurnEnd, TurnFind, TurnStep, TurnsFound,
};
use tokio::time::{Instant, timeout_at};

use super::{Caller, cap, cap_field, cap_optional};
use crate::error::OpError;
use crate::{now_ms, turns};

fn actor(caller: &Caller) -> Actor {
    Actor {
        id: caller.agent.id.clone(),
        name: caller.agent.name.clone(),
        role: caller.agent.role.clone(),
    }
}

/// Takes a turn, or renews the lease of one's own take.
pub async fn claim(caller: &Caller, op: Claim) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    cap_field("message", &op.message)?;
    let (shortest, longest) = limits::TURN_LEASE_SECS;
    let lease = op.lease_secs.unwrap_or(limits::DEFAULT_LEASE_SECS);
    let claim = TurnClaim {
        by: actor(caller),
        room: RoomName::new(&op.room),
        message: op.message.clone(),
        renews: op.take,
        lease: i64::try_from(lease.clamp(shortest, longest) * 1000).unwrap_or(i64::MAX),
        now: now_ms(),
    };
    let outcome = caller.state.store().claim_turn(claim).await?;
    let lost = Claimed {
        room: op.room,
        message: op.message,
        claimed: false,
        lease_until: None,
        take: None,
        holder: None,
    };
    match outcome {
        TakeOutcome::Won { take, lease_until } => Ok(ServerFrame::Claimed(Claimed {
            claimed: true,
            lease_until: Some(lease_until),
            take: Some(take),
            ..lost
        })),
        TakeOutcome::Lost { holder } => Ok(ServerFrame::Claimed(Claimed { holder, ..lost })),
        TakeOutcome::NotMember => Err(OpError::not_member(&lost.room)),
        TakeOutcome::UnknownTurn => Err(OpError::unknown_turn(&lost.message, &lost.room)),
        TakeOutcome::NotEligible => Err(OpError::new(
            ErrorCode::NotEligible,
            "that turn is not yours to take: it is addressed to somebody else, or you offered it",
        )),
    }
}

/// Ends one's own take.
pub async fn complete(caller: &Caller, op: Complete) -> Result<ServerFrame, OpError> {
    cap_optional("result", op.result.as_deref())?;
    let end = match op.status {
        TaskStatus::Done => Some(TurnState::Done),
        TaskStatus::Failed => Some(TurnState::Failed),
        TaskStatus::Cancelled => Some(TurnState::Cancelled),
        TaskStatus::Accepted | TaskStatus::Working | TaskStatus::Awaiting => None,
    };
    let act = TurnAct {
        room: op.room,
        message: op.message,
        take: op.take,
        note: op.note,
    };
    let step = step(caller, &act)?;
    let (state, me) = (&caller.state, &caller.agent.id);
    state
        .members()
        .require(state.store(), &step.room, me)
        .await?;
    let end = end.ok_or_else(|| {
        OpError::new(
            ErrorCode::NotAuthorized,
            "a turn ends as `done`, `failed` or `cancelled`",
        )
    })?;
    let end = TurnEnd {
        step,
        end,
        result: op.result,
    };
    let completed = done(state.store().complete_turn(end).await?, &act)?;
    Ok(ServerFrame::Completed(Completed {
        room: act.room,
        message: act.message,
        completed,
    }))
}

/// Gives one's own take back.
pub async fn release(caller: Caller, op: TurnAct) -> Result<ServerFrame, OpError> {
    let step = step(&caller, &op)?;
    let released = done(caller.state.store().release_turn(step).await?, &op)?;
    Ok(ServerFrame::Released(Released {
        room: op.room,
        message: op.message,
        released,
    }))
}

/// Refuses a turn that names the caller.
pub async fn decline(caller: Caller, op: TurnAct) -> Result<ServerFrame, OpError> {
    let step = step(&caller, &op)?;
    let declined = done(caller.state.store().decline_turn(step).await?, &op)?;
    Ok(ServerFrame::Declined(Declined {
        room: op.room,
        message: op.message,
        declined,
    }))
}

/// Withdraws a turn.
pub async fn cancel(caller: Caller, op: TurnAct) -> Result<ServerFrame, OpError> {
    let step = step(&caller, &op)?;
    let cancelled = done(caller.state.store().cancel_turn(step).await?, &op)?;
    Ok(ServerFrame::Cancelled(Cancelled {
        room: op.room,
        message: op.message,
        cancelled,
    }))
}

fn step(caller: &Caller, act: &TurnAct) -> Result<TurnStep, OpError> {
    cap_field("room", &act.room)?;
    cap_field("message", &act.message)?;
    if let Some(note) = &act.note {
        cap("note", note, limits::MAX_NOTE_BYTES)?;
    }
    Ok(TurnStep {
        by: actor(caller),
        room: RoomName::new(&act.room),
        message: act.message.clone(),
        take: act.take,
        note: act.note.clone(),
        now: now_ms(),
    })
}

fn done(outcome: ActOutcome, act: &TurnAct) -> Result<bool, OpError> {
    match outcome {
        ActOutcome::Done => Ok(true),
        ActOutcome::Nothing => Ok(false),
        ActOutcome::NotMember => Err(OpError::not_member(&act.room)),
        ActOutcome::UnknownTurn => Err(OpError::unknown_turn(&act.message, &act.room)),
        ActOutcome::NotOwner => Err(OpError::not_owner(format!(
            "only who offered that turn or the owner of '{}' can cancel it",
            act.room
        ))),
    }
}

/// The ledger, now or when the answer differs from an earlier one.
pub async fn turns(caller: Caller, op: TurnsQuery) -> Result<ServerFrame, OpError> {
    cap_optional("room", op.room.as_deref())?;
    cap_optional("message", op.message.as_deref())?;
    let wait = Duration::from_secs(op.wait_secs.unwrap_or(0).min(limits::MAX_WAIT_SECS));
    let deadline = Instant::now() + wait;
    // Whoever asks for one turn wants it whatever became of it.
    let usual = match op.message {
        Some(_) => TurnFilter::All,
        None => TurnFilter::Active,
    };
    let find = TurnFind {
        by: actor(&caller),
        room: op.room.as_deref().map(RoomName::new),
        message: op.message,
        states: op.state.unwrap_or(usual).states(),
        mine: op.mine.unwrap_or(false),
        limit: op
            .limit
            .unwrap_or(limits::DEFAULT_TURNS_LIMIT)
            .min(limits::MAX_TURNS_LIMIT),
        after: op.after,
    };
    let mut found = look(&caller, &find).await?;
    if !found.changed && !wait.is_zero() {
        found = park(&caller, &find, found, deadline).await?;
    }
    let rev = match find.after {
        Some(after) if !found.changed => after,
        _ => found.rev,
    };
    let state = &caller.state;
    let turns = found.turns.into_iter();
    Ok(ServerFrame::Turns(Turns {
        turns: turns.map(|view| turns::shown(state, view)).collect(),
        rev,
        more: found.more.then_some(true),
    }))
}

/// Waits for news; at the deadline, or when the hub stops, the last look is the answer.
async fn park(
    caller: &Caller,
    find: &TurnFind,
    found: TurnsFound,
    deadline: Instant,
) -> Result<TurnsFound, OpError> {
    let parked = caller.state.turn_news().park(found.rooms);
    let mut stopping = caller.stopping.clone();
    loop {
        // Looked at after parking: what changed in between is found here or wakes us.
        let found = look(caller, find).await?;
        if found.changed {
            return Ok(found);
        }
        tokio::select! {
            woken = timeout_at(deadline, parked.news()) => {
                if woken.is_err() {
                    return Ok(found);
                }
            }
            _ = stopping.wait_for(|stopping| *stopping) => return Ok(found),
        }
    }
}

async fn look(caller: &Caller, find: &TurnFind) -> Result<TurnsFound, OpError> {
    let found = caller.state.store().turns(find.clone()).await?;
    let room = find.room.as_ref().map_or("", |room| room.as_str());
    found.ok_or_else(|| OpError::not_member(room))
}
