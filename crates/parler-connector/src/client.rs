//! The public calls of a client.

use std::sync::Arc;
use std::time::Duration;

use parler_protocol::{
    AgentId, Attention, ClientFrame, Invite, Invited, Joined, Pulled, RoomInfo, RosterEntry, Sent,
    ServerFrame, StoredMessage,
};

use crate::error::ClientError;
use crate::options::ClientOptions;
use crate::outgoing::Outgoing;

/// Where a [`Client::pull`] starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// After this place in the log, wherever the cursor is. Moves nothing.
    Since {
        /// Place in the log.
        seq: i64,
        /// Messages at most (the hub caps it at 1000).
        limit: u32,
    },
    /// After the cursor. Moves nothing either: [`Client::commit`] does.
    Unread {
        /// Messages at most (the hub caps it at 1000).
        limit: u32,
    },
}

/// What became of an invite code.
#[derive(Clone, Debug, PartialEq)]
pub enum Redeemed {
    /// The caller is a member.
    Joined(Joined),
    /// The owner of the room has to decide first; redeem again to learn.
    Pending {
        /// Stored name.
        room: String,
    },
}

/// A cheap handle on one connection to a hub.
#[derive(Clone)]
pub struct Client {
    options: Arc<ClientOptions>,
}

impl Client {
    /// Makes a client. Dials nothing: the first call does.
    #[must_use]
    pub fn new(options: ClientOptions) -> Client {
        Client {
            options: Arc::new(options),
        }
    }

    /// Makes a client and logs in once, so that errors show at once.
    ///
    /// # Errors
    /// Whatever keeps the hub from being reached or from taking the login.
    pub async fn connect(options: ClientOptions) -> Result<Client, ClientError> {
        let client = Client::new(options);
        client.ping().await?;
        Ok(client)
    }

    /// This agent's id.
    #[must_use]
    pub fn id(&self) -> &AgentId {
        self.options.keys.id()
    }

    /// This agent's display name, cleaned.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// This agent's role, cleaned.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        self.options.role.as_deref()
    }

    /// The hub's address as it was given.
    #[must_use]
    pub fn hub_url(&self) -> &str {
        &self.options.endpoint.url
    }

    /// Asks whether the hub is there.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ping(&self) -> Result<(), ClientError> {
        Err(ClientError::Stopped)
    }

    /// Turns pushes on, for this connection and those that replace it.
    ///
    /// # Errors
    /// See [`ClientError`]; a refusal by the hub is `Ok(false)`.
    pub async fn subscribe(&self) -> Result<bool, ClientError> {
        Err(ClientError::Stopped)
    }

    /// Opens a room if need be and mints a code for it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invite(&self, invite: Invite) -> Result<Invited, ClientError> {
        let _ = invite;
        Err(ClientError::Stopped)
    }

    /// Joins by code.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn redeem(&self, code: &str) -> Result<Redeemed, ClientError> {
        let _ = code;
        Err(ClientError::Stopped)
    }

    /// This agent's rooms.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn rooms(&self) -> Result<Vec<RoomInfo>, ClientError> {
        Err(ClientError::Stopped)
    }

    /// The members of a room.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn roster(&self, room: &str) -> Result<Vec<RosterEntry>, ClientError> {
        let _ = room;
        Err(ClientError::Stopped)
    }

    /// Signs and sends a message.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn send(&self, message: Outgoing) -> Result<Sent, ClientError> {
        let _ = message;
        Err(ClientError::Stopped)
    }

    /// Reads a room. Moves nothing.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn pull(&self, room: &str, read: Read) -> Result<Pulled, ClientError> {
        let _ = (room, read);
        Err(ClientError::Stopped)
    }

    /// Says that everything up to `seq` was consumed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn commit(&self, room: &str, seq: i64) -> Result<(), ClientError> {
        let _ = (room, seq);
        Err(ClientError::Stopped)
    }

    /// Waits until something unread is in the room, or until the budget is spent.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn wait(
        &self,
        room: &str,
        limit: u32,
        budget: Duration,
    ) -> Result<Pulled, ClientError> {
        let _ = (room, limit, budget);
        Err(ClientError::Stopped)
    }

    /// The next pushed message.
    pub async fn next_push(&self) -> StoredMessage {
        std::future::pending().await
    }

    /// Says how this agent is.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn presence(
        &self,
        status: &str,
        activity: Option<&str>,
        attention: Option<Attention>,
    ) -> Result<(), ClientError> {
        let _ = (status, activity, attention);
        Err(ClientError::Stopped)
    }

    /// Says what may wake this agent.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn set_attention(&self, attention: Attention) -> Result<(), ClientError> {
        let _ = attention;
        Err(ClientError::Stopped)
    }

    /// Sends any frame and gives the reply as it is, for what has no method yet.
    ///
    /// # Errors
    /// See [`ClientError`]; an `error` frame is [`ClientError::Refused`].
    pub async fn request(&self, frame: ClientFrame) -> Result<ServerFrame, ClientError> {
        let _ = frame;
        Err(ClientError::Stopped)
    }

    /// Ends the connection in good order.
    pub async fn close(self) {}
}
