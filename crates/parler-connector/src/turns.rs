//! The turn ledger: which turns there are, taking one, ending it, giving it back.
//!
//! What a hub answers is looked at before it goes on: ids and rooms of turns stand in command
//! lines that people copy.

use std::time::Duration;

use parler_protocol::turn::{TurnAct, TurnsQuery};
use parler_protocol::{
    BindName, Claim, Claimed, ClientFrame, Complete, RoomPolicy, ServerFrame, SetRoomPolicy, Turn,
    Turns,
};

use crate::call::unexpected;
use crate::{Client, ClientError, replies};

/// A frame that the hub sends unasked, other than a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A turn that this agent offered, holds or may take was born or moved.
    Turn(Box<Turn>),
    /// A message was held back from waking anybody, or let go: then `reason` is `released`.
    Guard(parler_protocol::Guard),
    /// Somebody waits to be admitted to a room that this agent owns.
    JoinRequest(parler_protocol::JoinRequestNotice),
}

impl Client {
    /// The next notice; they come to a client with [`crate::ClientOptions::turns`] that subscribed.
    /// Waits for ever when none comes. Safe to cancel; of several waiters each notice reaches one.
    ///
    /// A notice is a doorbell: those of an outage never come. Ask [`Client::turns`] to be complete.
    pub async fn next_event(&self) -> Notice {
        loop {
            match self.next_notice().await {
                ServerFrame::Turn(notice) if replies::is_turn(None, &notice.turn) => {
                    return Notice::Turn(Box::new(notice.turn));
                }
                ServerFrame::Guard(guard) if replies::is_room(&guard.room) => {
                    return Notice::Guard(guard);
                }
                ServerFrame::JoinRequest(request) if replies::is_room(&request.room) => {
                    return Notice::JoinRequest(request);
                }
                _ => tracing::debug!("a notice of a kind or room that is none"),
            }
        }
    }

    /// Turns, newest first: of one room, or of all rooms of this agent. With `wait_secs` and
    /// `after` (the `rev` of the last answer) it parks until the answer would differ, on a
    /// connection of its own; at the deadline `rev` is `after`.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::NotMember`] for a room that this agent is not
    /// in, [`parler_protocol::ErrorCode::Unsupported`] or `BadFrame` from a hub without a ledger.
    pub async fn turns(&self, query: TurnsQuery) -> Result<Turns, ClientError> {
        let room = query.room.clone();
        match self.request(ClientFrame::Turns(query)).await? {
            ServerFrame::Turns(turns) => Ok(replies::turns(room.as_deref(), turns)),
            other => Err(unexpected("turns", &other)),
        }
    }

    /// Takes an open turn, or renews this agent's own take of it. `claimed: false` is a normal
    /// answer: `holder` has it, or nobody does any more. `take` of the answer is the fencing token
    /// to show at [`Client::complete_turn`] and [`Client::release_turn`]. Without a lease: the
    /// hub's default of 300 s; hubs keep it within 30 s and an hour.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::NotEligible`] and
    /// [`parler_protocol::ErrorCode::UnknownTurn`].
    pub async fn claim_turn(
        &self,
        room: &str,
        message: &str,
        lease: Option<Duration>,
    ) -> Result<Claimed, ClientError> {
        self.claim(room, message, lease, None).await
    }

    /// Only renews: with a `take` that is over nothing is taken, and the answer is
    /// `claimed: false`.
    ///
    /// # Errors
    /// As [`Client::claim_turn`].
    pub async fn renew_turn(
        &self,
        room: &str,
        message: &str,
        take: i64,
        lease: Option<Duration>,
    ) -> Result<Claimed, ClientError> {
        self.claim(room, message, lease, Some(take)).await
    }

    async fn claim(
        &self,
        room: &str,
        message: &str,
        lease: Option<Duration>,
        take: Option<i64>,
    ) -> Result<Claimed, ClientError> {
        let claim = Claim {
            room: room.to_owned(),
            message: message.to_owned(),
            lease_secs: lease.map(|lease| lease.as_secs()),
            take,
        };
        match self.request(ClientFrame::Claim(claim)).await? {
            ServerFrame::Claimed(claimed) if claimed.message == message => Ok(claimed),
            other => Err(unexpected("claim", &other)),
        }
    }

    /// Ends this agent's take. `false`: nothing changed, the lease was lost or the turn is over.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::NotAuthorized`] for a status that is no end.
    pub async fn complete_turn(&self, end: Complete) -> Result<bool, ClientError> {
        match self.request(ClientFrame::Complete(end)).await? {
            ServerFrame::Completed(reply) => Ok(reply.completed),
            other => Err(unexpected("complete", &other)),
        }
    }

    /// Gives this agent's take back: the turn is open again. `false`: nothing changed.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::UnknownTurn`].
    pub async fn release_turn(&self, act: TurnAct) -> Result<bool, ClientError> {
        match self.request(ClientFrame::Release(act)).await? {
            ServerFrame::Released(reply) => Ok(reply.released),
            other => Err(unexpected("release", &other)),
        }
    }

    /// Refuses an open turn that names this agent by its name or id. `false`: nothing changed.
    ///
    /// # Errors
    /// As [`Client::release_turn`].
    pub async fn decline_turn(&self, act: TurnAct) -> Result<bool, ClientError> {
        match self.request(ClientFrame::Decline(act)).await? {
            ServerFrame::Declined(reply) => Ok(reply.declined),
            other => Err(unexpected("decline", &other)),
        }
    }

    /// Withdraws an active turn that this agent offered, or that stands in a room that it owns.
    /// `false`: it is over already.
    ///
    /// # Errors
    /// As [`Client::release_turn`]; [`parler_protocol::ErrorCode::NotOwner`].
    pub async fn cancel_turn(&self, act: TurnAct) -> Result<bool, ClientError> {
        match self.request(ClientFrame::Cancel(act)).await? {
            ServerFrame::Cancelled(reply) => Ok(reply.cancelled),
            other => Err(unexpected("cancel", &other)),
        }
    }

    /// Says whom a name means in a room: the owner's to do; in a room without one any member's, for
    /// a name whose bearer left.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::NotOwner`],
    /// [`parler_protocol::ErrorCode::NotMember`] also for an agent that is no member.
    pub async fn bind_name(&self, room: &str, name: &str, agent: &str) -> Result<(), ClientError> {
        let bind = BindName {
            room: room.to_owned(),
            name: name.to_owned(),
            agent: agent.to_owned(),
        };
        match self.request(ClientFrame::BindName(bind)).await? {
            ServerFrame::NameBound(_) => Ok(()),
            other => Err(unexpected("bind_name", &other)),
        }
    }

    /// A room's settings; with any field but `room` given they are changed first, which is the
    /// owner's to do.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::NotOwner`].
    pub async fn room_policy(&self, policy: SetRoomPolicy) -> Result<RoomPolicy, ClientError> {
        match self.request(ClientFrame::RoomPolicy(policy)).await? {
            ServerFrame::RoomPolicy(policy) => Ok(policy),
            other => Err(unexpected("room_policy", &other)),
        }
    }
}
