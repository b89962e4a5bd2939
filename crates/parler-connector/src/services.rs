//! Service work: serving a role, finding what waits for it, and holding a piece at a time.
//!
//! The hub gives work to a worker whose presence is `idle` or `waiting`; a login makes it `idle`.
//! A lease that runs out frees the work for others, so whoever works longer renews in time.

use parler_protocol::{
    Claim, ClientFrame, Complete, EndpointRef, Queue, Serve, ServerFrame, StoredMessage, TaskStatus,
};

use crate::call::unexpected;
use crate::{Client, ClientError, replies};

/// A piece of work that this agent holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Stored name of the room.
    pub room: String,
    /// Message id.
    pub message: String,
    /// Until when, in milliseconds by the hub's clock.
    pub lease_until: i64,
    /// The number of this take, by which the hub tells it from later ones; `None` from hubs that
    /// do not number them.
    pub take: Option<i64>,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is this agent's.
    Won(Held),
    /// It is not: somebody else was faster, or the hub does not give it to this agent.
    Lost {
        /// Who has it, where the hub says so. Its name was chosen by that agent.
        holder: Option<EndpointRef>,
    },
}

impl Client {
    /// Registers this agent as a worker of a service, and opens the service if nobody has; the
    /// room. The name is the worker's role there.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::NotAuthorized`] where the owner keeps this
    /// agent out, [`parler_protocol::ErrorCode::AtCapacity`] when the room would be one too many.
    pub async fn serve(&self, service: &str) -> Result<String, ClientError> {
        let serve = Serve {
            service: service.to_owned(),
        };
        match self.request(ClientFrame::Serve(serve)).await? {
            ServerFrame::Joined(joined) => {
                replies::room("serve", &joined.room)?;
                Ok(joined.room)
            }
            other => Err(unexpected("serve", &other)),
        }
    }

    /// Work that waits for a role which this agent serves in that room, oldest first; at most
    /// `limit` pieces, the hub's default when absent. Whoever sends to a service wrote it: check
    /// signatures before acting.
    ///
    /// # Errors
    /// As every call; [`parler_protocol::ErrorCode::NotMember`], and
    /// [`parler_protocol::ErrorCode::NotAuthorized`] for a room that is no service's.
    pub async fn queue(
        &self,
        room: &str,
        role: &str,
        limit: Option<u32>,
    ) -> Result<Vec<StoredMessage>, ClientError> {
        let queue = Queue {
            room: room.to_owned(),
            role: role.to_owned(),
            limit,
        };
        match self.request(ClientFrame::Queue(queue)).await? {
            ServerFrame::Queued(mut reply) => {
                reply.messages.retain(|message| message.room == room);
                Ok(reply.messages)
            }
            other => Err(unexpected("queue", &other)),
        }
    }

    /// Takes a piece of work for `lease_secs`, the hub's default when absent.
    ///
    /// # Errors
    /// As [`Client::queue`]. Losing it to somebody else is none.
    pub async fn claim_work(
        &self,
        room: &str,
        message: &str,
        lease_secs: Option<u64>,
    ) -> Result<Claimed, ClientError> {
        self.take_work(room, message, lease_secs, None).await
    }

    /// Renews a lease, from now on. Lost means that the work is not this take's any more: stop.
    ///
    /// # Errors
    /// As [`Client::claim_work`].
    pub async fn renew_work(
        &self,
        held: &Held,
        lease_secs: Option<u64>,
    ) -> Result<Claimed, ClientError> {
        self.take_work(&held.room, &held.message, lease_secs, held.take)
            .await
    }

    async fn take_work(
        &self,
        room: &str,
        message: &str,
        lease_secs: Option<u64>,
        take: Option<i64>,
    ) -> Result<Claimed, ClientError> {
        let claim = Claim {
            room: room.to_owned(),
            message: message.to_owned(),
            lease_secs,
            take,
        };
        match self.request(ClientFrame::Claim(claim)).await? {
            ServerFrame::Claimed(reply) => Ok(match (reply.claimed, reply.lease_until) {
                (true, Some(lease_until)) => Claimed::Won(Held {
                    room: room.to_owned(),
                    message: message.to_owned(),
                    lease_until,
                    take: reply.take,
                }),
                _ => Claimed::Lost {
                    holder: reply.holder,
                },
            }),
            other => Err(unexpected("claim", &other)),
        }
    }

    /// Ends a piece of work for good, as `done`, `failed` or `cancelled`. `false`: it is not this
    /// agent's by that take, and nothing changed. Without `take` the hub judges by the agent.
    ///
    /// # Errors
    /// As [`Client::queue`]. When the reply is lost with the connection it is an error, although
    /// the work may have ended.
    pub async fn complete_work(
        &self,
        room: &str,
        message: &str,
        status: TaskStatus,
        take: Option<i64>,
    ) -> Result<bool, ClientError> {
        let complete = Complete {
            room: room.to_owned(),
            message: message.to_owned(),
            status,
            take,
            note: None,
            result: None,
        };
        match self.request(ClientFrame::Complete(complete)).await? {
            ServerFrame::Completed(reply) => Ok(reply.completed),
            other => Err(unexpected("complete", &other)),
        }
    }
}
