//! `serve`, `queue`, `claim`, `complete`: work for whoever serves a role.
//!
//! Who gets a piece is decided by the store, in one step. Here stand the caps, the words, and the
//! crossing to turns: a claim of a message that is no service work means a turn.

use parler_protocol::{
    Claim, Claimed, Complete, Completed, EndpointRef, ErrorCode, Joined, Queue, RoomKind, RoomName,
    Serve, ServerFrame, TaskStatus, limits, names,
};
use parler_store::{
    ClaimOutcome, CompleteOutcome, LogEntry, NewWorker, ServeOutcome, Work, WorkEnd,
};

use super::{Caller, cap_field, cap_optional, turns};
use crate::conn::Reply;
use crate::error::OpError;
use crate::now_ms;

/// Registers as a worker; opens the service if need be.
pub async fn serve(caller: Caller, op: Serve) -> Result<ServerFrame, OpError> {
    cap_field("service", &op.service)?;
    let room = RoomName::new(&names::service_room(&op.service));
    let outcome = caller
        .state
        .store()
        .serve(NewWorker {
            agent: caller.agent.id.clone(),
            room: room.clone(),
            role: op.service,
            max_owned_rooms: caller.state.config().limits.max_owned_rooms,
            now: now_ms(),
        })
        .await?;
    match outcome {
        ServeOutcome::Serving => Ok(ServerFrame::Joined(Joined {
            room: room.into(),
            kind: RoomKind::Service,
        })),
        ServeOutcome::TooManyRooms => Err(OpError::too_many_rooms()),
        ServeOutcome::Denied => Err(OpError::service_closed(room.as_str())),
    }
}

/// Work that waits for a role.
pub async fn queue(caller: Caller, op: Queue) -> Reply {
    match waiting(&caller, &op).await {
        Ok((room, entries)) => Reply::messages("queued", &room, &entries, None),
        Err(error) => error.into(),
    }
}

async fn waiting(caller: &Caller, op: &Queue) -> Result<(RoomName, Vec<LogEntry>), OpError> {
    cap_field("room", &op.room)?;
    cap_field("role", &op.role)?;
    let room = RoomName::new(&op.room);
    if kind(caller, &room).await? != RoomKind::Service {
        return Err(OpError::not_a_service(&op.room));
    }
    let limit = op
        .limit
        .unwrap_or(limits::DEFAULT_QUEUE_LIMIT)
        .min(limits::MAX_QUEUE_LIMIT);
    let (store, me) = (caller.state.store(), &caller.agent.id);
    let entries = store.queue(&room, me, &op.role, limit, now_ms()).await?;
    Ok((room, entries))
}

/// Takes a piece of work, or renews its lease.
pub async fn claim(caller: Caller, op: Claim) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    cap_field("message", &op.message)?;
    let room = RoomName::new(&op.room);
    let kind = kind(&caller, &room).await?;
    if kind != RoomKind::Service {
        return turns::claim(&caller, op).await;
    }
    let (shortest, longest) = limits::SERVICE_LEASE_SECS;
    let lease = op.lease_secs.unwrap_or(limits::DEFAULT_LEASE_SECS);
    let lease_ms = i64::try_from(lease.clamp(shortest, longest) * 1000).unwrap_or(i64::MAX);
    let work = work(&caller, room, &op.message, op.take);
    match caller.state.store().claim(work, lease_ms).await? {
        ClaimOutcome::Claimed { take, lease_until } => Ok(ServerFrame::Claimed(Claimed {
            claimed: true,
            lease_until: Some(lease_until),
            take: Some(take),
            ..not_claimed(op)
        })),
        ClaimOutcome::Refused { holder } => Ok(ServerFrame::Claimed(Claimed {
            holder: holder.map(|holder| EndpointRef {
                id: holder.agent.into(),
                name: holder.name,
                role: holder.role,
            }),
            ..not_claimed(op)
        })),
        ClaimOutcome::NotWork => turn_claim(&caller, op).await,
        ClaimOutcome::NotMember => Err(OpError::not_member(&op.room)),
    }
}

/// Ends a piece of work.
pub async fn complete(caller: Caller, op: Complete) -> Result<ServerFrame, OpError> {
    cap_field("room", &op.room)?;
    cap_field("message", &op.message)?;
    cap_optional("note", op.note.as_deref())?;
    cap_optional("result", op.result.as_deref())?;
    let room = RoomName::new(&op.room);
    let kind = kind(&caller, &room).await?;
    if kind != RoomKind::Service {
        return turns::complete(&caller, op).await;
    }
    let end = match op.status {
        TaskStatus::Done => WorkEnd::Done,
        TaskStatus::Failed => WorkEnd::Failed,
        TaskStatus::Cancelled => WorkEnd::Cancelled,
        TaskStatus::Accepted | TaskStatus::Working | TaskStatus::Awaiting => {
            return Err(OpError::new(
                ErrorCode::NotAuthorized,
                "work ends as `done`, `failed` or `cancelled`: a status in between is a task part of a message",
            ));
        }
    };
    let work = work(&caller, room, &op.message, op.take);
    match caller.state.store().complete(work, end).await? {
        CompleteOutcome::Completed => Ok(completed(op, true)),
        CompleteOutcome::Unchanged => Ok(completed(op, false)),
        CompleteOutcome::NotWork => turn_complete(&caller, op).await,
        CompleteOutcome::NotMember => Err(OpError::not_member(&op.room)),
    }
}

/// The kind of a room, for a member of it.
async fn kind(caller: &Caller, room: &RoomName) -> Result<RoomKind, OpError> {
    let (state, me) = (&caller.state, &caller.agent.id);
    state.members().require(state.store(), room, me).await
}

fn work(caller: &Caller, room: RoomName, message: &str, take: Option<i64>) -> Work {
    Work {
        agent: caller.agent.id.clone(),
        room,
        message: message.to_owned(),
        take,
        now: now_ms(),
    }
}

/// A claim of a message that is no service work: a turn, or in a service room nothing to claim.
async fn turn_claim(caller: &Caller, op: Claim) -> Result<ServerFrame, OpError> {
    let nothing = not_claimed(op.clone());
    match turns::claim(caller, op).await {
        Err(error) if error.is_unknown_turn() => Ok(ServerFrame::Claimed(nothing)),
        answer => answer,
    }
}

/// The same for the end of one.
async fn turn_complete(caller: &Caller, op: Complete) -> Result<ServerFrame, OpError> {
    let nothing = completed(op.clone(), false);
    match turns::complete(caller, op).await {
        Err(error) if error.is_unknown_turn() => Ok(nothing),
        answer => answer,
    }
}

fn not_claimed(op: Claim) -> Claimed {
    Claimed {
        room: op.room,
        message: op.message,
        claimed: false,
        lease_until: None,
        take: None,
        holder: None,
    }
}

fn completed(op: Complete, completed: bool) -> ServerFrame {
    ServerFrame::Completed(Completed {
        room: op.room,
        message: op.message,
        completed,
    })
}
