//! One op each: request in, reply or refusal out. This file only lists them.

mod blobs;
pub(crate) mod discover;
pub(crate) mod invite;
mod ledger;
pub(crate) mod members;
mod memory;
mod policy;
mod presence;
mod pull;
pub(crate) mod rooms;
mod send;
mod services;
mod subscribe;
mod tokens;
mod turns;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use parler_protocol::{ClientFrame, ErrorCode, ServerFrame, limits};

use crate::blobs::Upload;
use crate::conn::Reply;
use crate::conn::envelope::Request;
use crate::defaults;
use crate::error::OpError;
use crate::fanout::{ConnId, Outbox};
use crate::state::{Agent, HubState};

pub use send::resolve;

/// What an op knows of who asks.
#[derive(Clone)]
pub struct Caller {
    /// The hub.
    pub state: Arc<HubState>,
    /// The agent.
    pub agent: Agent,
    /// The connection.
    pub conn: ConnId,
    /// Where it comes from.
    pub address: IpAddr,
    /// Where its pushes go.
    pub outbox: Outbox,
    /// Becomes true when the hub stops: parked ops answer then.
    pub stopping: tokio::sync::watch::Receiver<bool>,
    /// The upload whose bytes the connection awaits.
    pub upload: Arc<Mutex<Option<Upload>>>,
}

/// An op that runs.
pub type Running = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A send that is on its way into the store's queue; resolves to what waits for its commit.
pub type Queueing = Pin<Box<dyn Future<Output = Running> + Send>>;

/// A started op.
pub enum Started {
    /// The next send may start when this one is queued.
    Send(Queueing),
    /// Anything else.
    Other(Running),
}

/// Starts an op of an authenticated agent: spends its budget, then does it.
pub fn start(caller: Caller, request: Request) -> Started {
    let request = match request {
        // Paid for by its `put_blob`.
        Request::Piece(piece) => return Started::Other(Box::pin(blobs::piece(caller, piece))),
        request => request,
    };
    let now = crate::now_ms();
    if let Err(retry) = caller.state.budgets().ops.spend(&caller.agent.id, now) {
        let refused = OpError::rate_limited("operations", retry);
        return match request {
            Request::Send(_) => Started::Send(Box::pin(refuse_send(refused))),
            _ => Started::Other(Box::pin(slowly(refused))),
        };
    }
    caller.state.heard().note(&caller.agent.id, now);
    caller.state.counts().op(match &request {
        Request::Send(_) => "send",
        Request::Pull(_) => "pull",
        Request::Other(frame) => frame.tag(),
        Request::Hello(_) | Request::Refused(_) | Request::Piece(_) => "",
    });
    match request {
        Request::Send(send) => Started::Send(Box::pin(send::queue(caller, send))),
        Request::Pull(pull) => Started::Other(Box::pin(pull::pull(caller, pull))),
        Request::Hello(_) => Started::Other(Box::pin(std::future::ready(already_in().into()))),
        Request::Refused(error) => Started::Other(Box::pin(std::future::ready(error.into()))),
        Request::Piece(_) => unreachable!("taken above"),
        Request::Other(frame) => Started::Other(Box::pin(other(caller, frame))),
    }
}

async fn other(caller: Caller, frame: ClientFrame) -> Reply {
    match frame {
        ClientFrame::Ping => ServerFrame::Pong.into(),
        ClientFrame::Subscribe(op) => subscribe::subscribe(caller, op).await.into(),
        ClientFrame::Invite(op) => invite::invite(caller, op).await.into(),
        ClientFrame::Redeem(op) => invite::redeem(caller, op).await.into(),
        ClientFrame::Rooms => rooms::rooms(caller).await.into(),
        ClientFrame::Roster(op) => rooms::roster(caller, op).await.into(),
        ClientFrame::Presence(op) => presence::presence(caller, op).await.into(),
        ClientFrame::SetAttention(op) => presence::set_attention(caller, op).await.into(),
        ClientFrame::JoinRequests(op) => members::join_requests(caller, op).await.into(),
        ClientFrame::ResolveJoin(op) => members::resolve_join(caller, op).await.into(),
        ClientFrame::DeleteRoom(op) => members::delete_room(caller, op).await.into(),
        ClientFrame::Leave(op) => members::leave(caller, op).await.into(),
        ClientFrame::RemoveMember(op) => members::remove_member(caller, op).await.into(),
        ClientFrame::TransferOwner(op) => members::transfer_owner(caller, op).await.into(),
        ClientFrame::RevokeInvite(op) => members::revoke_invite(caller, op).await.into(),
        ClientFrame::Serve(op) => services::serve(caller, op).await.into(),
        ClientFrame::Queue(op) => services::queue(caller, op).await,
        ClientFrame::Claim(op) => services::claim(caller, op).await.into(),
        ClientFrame::Complete(op) => services::complete(caller, op).await.into(),
        ClientFrame::Register(op) => discover::register(caller, op).await.into(),
        ClientFrame::Discover(op) => discover::discover(caller, op).await.into(),
        ClientFrame::Lookup(op) => discover::lookup(caller, op).await.into(),
        ClientFrame::Remember(op) => memory::remember(caller, op).await.into(),
        ClientFrame::Recall(op) => memory::recall(caller, op).await.into(),
        ClientFrame::Release(op) => turns::release(caller, op).await.into(),
        ClientFrame::Decline(op) => turns::decline(caller, op).await.into(),
        ClientFrame::Cancel(op) => turns::cancel(caller, op).await.into(),
        ClientFrame::Turns(op) => turns::turns(caller, op).await.into(),
        ClientFrame::BindName(op) => policy::bind_name(caller, op).await.into(),
        ClientFrame::RoomPolicy(op) => policy::room_policy(caller, op).await.into(),
        ClientFrame::MintDirectoryToken(op) => tokens::directory(caller, op).await.into(),
        ClientFrame::MintWatch(op) => tokens::watch(caller, op).await.into(),
        ClientFrame::MintAdmin(op) => tokens::admin(caller, op).await.into(),
        ClientFrame::RevokeToken(op) => tokens::revoke(caller, op).await.into(),
        ClientFrame::PutBlob(op) => blobs::put(caller, op).await.into(),
        ClientFrame::GetBlob(op) => blobs::get(caller, op).await.unwrap_or_else(Reply::from),
        ClientFrame::Unsubscribe => subscribe::unsubscribe(&caller).into(),
        later => OpError::unsupported(later.tag()).into(),
    }
}

/// A refusal for a spent budget: see [`defaults::REFUSAL_PAUSE`].
async fn slowly(refused: OpError) -> Reply {
    tokio::time::sleep(defaults::REFUSAL_PAUSE).await;
    refused.into()
}

/// The same for a send: no later one is looked at meanwhile.
async fn refuse_send(refused: OpError) -> Running {
    Box::pin(std::future::ready(slowly(refused).await))
}

fn already_in() -> OpError {
    OpError::new(ErrorCode::Protocol, "connection is already authenticated")
}

/// Refuses a field over its cap.
fn cap(field: &str, value: &str, bytes: usize) -> Result<(), OpError> {
    if value.len() > bytes {
        Err(OpError::too_large(field, bytes))
    } else {
        Ok(())
    }
}

/// Refuses an ordinary field over its cap.
fn cap_field(field: &str, value: &str) -> Result<(), OpError> {
    cap(field, value, limits::MAX_FIELD_BYTES)
}

/// Refuses an optional ordinary field over its cap.
fn cap_optional(field: &str, value: Option<&str>) -> Result<(), OpError> {
    value.map_or(Ok(()), |value| cap_field(field, value))
}
