//! The public calls of a client: what each one sends, and what its reply means.
//!
//! How a call reaches the hub and is repeated is in `call`, how one waits in `keepalive`.

use std::sync::Arc;
use std::time::Duration;

use parler_protocol::{
    AgentId, Attention, ClientFrame, ErrorCode, Invite, Invited, Joined, Presence, Pulled, Redeem,
    RoomInfo, RoomOp, RosterEntry, Sent, ServerFrame, SetAttention, StoredMessage, Subscribe,
};
use tokio::time::{Instant, sleep};

use crate::call::{Budget, Caller, unexpected};
use crate::error::ClientError;
use crate::keepalive::{Pace, Vigil, ask_aside};
use crate::options::ClientOptions;
use crate::outgoing::Outgoing;
use crate::reconnect::parks_for;
use crate::replies;
use crate::shared::Shared;

/// How long a send sits out a rate limit in all, when the hub says that this is enough.
const MAX_RATE_PAUSE: Duration = Duration::from_secs(5);
/// The least pause before a rate-limited send is repeated, whatever the hub says.
const MIN_RATE_PAUSE: Duration = Duration::from_millis(50);

/// Where a [`Client::pull`] starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// After this place in the log, wherever the cursor is.
    Since {
        /// Place in the log.
        seq: i64,
        /// Messages at most; hubs cap it at 1000.
        limit: u32,
    },
    /// After the cursor.
    Unread {
        /// Messages at most; hubs cap it at 1000.
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

/// A handle on one connection to one hub, as one agent.
///
/// Clones share the connection; it ends when the last of them is dropped. All calls may run at
/// the same time; each ends within [`crate::Timeouts::request`] whatever the hub does, waits
/// excepted. Every call must run inside a tokio runtime with I/O and time enabled.
///
/// A call that finds the connection lost repeats itself on a new one where that is safe: reads,
/// and sends, whose `clientId` makes the hub store them once. What cannot be repeated safely (an
/// invite, for example) ends with [`ClientError::Lost`] when nobody knows whether it arrived.
#[derive(Clone)]
pub struct Client {
    caller: Arc<Caller>,
}

impl Client {
    /// Makes a client. Dials nothing: the first call does.
    #[must_use]
    pub fn new(options: ClientOptions) -> Client {
        Self::with_pace(options, Pace::default())
    }

    pub(crate) fn with_pace(options: ClientOptions, pace: Pace) -> Client {
        Client {
            caller: Arc::new(Caller::new(Shared::new(options, pace))),
        }
    }

    /// Makes a client and logs in once, so that errors show at once.
    ///
    /// # Errors
    /// Whatever keeps the hub from being reached, from proving its key, or from taking the login.
    pub async fn connect(options: ClientOptions) -> Result<Client, ClientError> {
        let client = Client::new(options);
        let budget = Budget::of(client.shared().options.timeouts.connect);
        match client.caller.attempt(None, budget, true).await {
            Ok(_) => Ok(client),
            Err(failure) => Err(failure.error),
        }
    }

    /// This agent's id.
    #[must_use]
    pub fn id(&self) -> &AgentId {
        self.shared().options.keys.id()
    }

    /// This agent's display name, cleaned.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared().options.name
    }

    /// This agent's role, cleaned.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        self.shared().options.role.as_deref()
    }

    /// The hub's address as it was given.
    #[must_use]
    pub fn hub_url(&self) -> &str {
        &self.shared().options.endpoint.url
    }

    /// Asks whether the hub is there.
    ///
    /// # Errors
    /// As every call: the hub cannot be reached, refuses the login, or does not answer in time.
    pub async fn ping(&self) -> Result<(), ClientError> {
        self.request(ClientFrame::Ping).await.map(drop)
    }

    /// Turns pushes on, for this connection and for those that replace it. `false`: the hub
    /// refuses, and reading now and then has to do ([`Client::wait`] does that by itself).
    ///
    /// # Errors
    /// As every call; a refusal is one only when it may pass, like that of a rate limit.
    pub async fn subscribe(&self) -> Result<bool, ClientError> {
        let options = &self.shared().options;
        let subscribe = Subscribe {
            turns: options.turns.then_some(true),
            wakes: (!options.wakes).then_some(false),
        };
        match self.request(ClientFrame::Subscribe(subscribe)).await {
            Ok(_) => Ok(true),
            Err(error @ ClientError::Refused { .. }) if !error.retryable() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a room if need be and mints a code for it. Never repeated: each mints another code.
    ///
    /// # Errors
    /// As every call; [`ClientError::Refused`] for a room of others, or one too many.
    pub async fn invite(&self, invite: Invite) -> Result<Invited, ClientError> {
        match self.request(ClientFrame::Invite(invite)).await? {
            ServerFrame::Invited(invited) => replies::invited(invited),
            other => Err(unexpected("invite", &other)),
        }
    }

    /// Joins by code: a bare one, or any text with `/join/CODE` in it.
    ///
    /// # Errors
    /// As every call; [`ClientError::Refused`] for a code that is unknown, spent or expired, and
    /// when the owner denied.
    pub async fn redeem(&self, code: &str) -> Result<Redeemed, ClientError> {
        let redeem = Redeem {
            code: code.to_owned(),
            wait_secs: None,
        };
        match self.request(ClientFrame::Redeem(redeem)).await? {
            ServerFrame::Joined(joined) => {
                replies::room("redeem", &joined.room)?;
                Ok(Redeemed::Joined(joined))
            }
            ServerFrame::JoinPending(pending) => {
                replies::room("redeem", &pending.room)?;
                Ok(Redeemed::Pending { room: pending.room })
            }
            other => Err(unexpected("redeem", &other)),
        }
    }

    /// This agent's rooms, by name.
    ///
    /// # Errors
    /// As every call.
    pub async fn rooms(&self) -> Result<Vec<RoomInfo>, ClientError> {
        match self.request(ClientFrame::Rooms).await? {
            ServerFrame::Rooms(rooms) => Ok(replies::rooms(rooms.rooms)),
            other => Err(unexpected("rooms", &other)),
        }
    }

    /// The members of a room, by name.
    ///
    /// # Errors
    /// As every call; [`ErrorCode::NotMember`] also for a room that does not exist.
    pub async fn roster(&self, room: &str) -> Result<Vec<RosterEntry>, ClientError> {
        let roster = ClientFrame::Roster(RoomOp {
            room: room.to_owned(),
        });
        match self.request(roster).await? {
            ServerFrame::Roster(roster) => Ok(roster.entries),
            other => Err(unexpected("roster", &other)),
        }
    }

    /// Signs and sends a message. `Ok` means that the hub has stored it, once, however often the
    /// connection was lost on the way.
    ///
    /// A rate limit is sat out when the hub says that it passes within five seconds.
    ///
    /// # Errors
    /// As every call; [`ClientError::Refused`] with the hub's code for what it does not take.
    pub async fn send(&self, message: Outgoing) -> Result<Sent, ClientError> {
        let frame = ClientFrame::Send(message.into_send(&self.shared().options.keys));
        let budget = Budget::of(self.caller.budget());
        let mut paused = Duration::ZERO;
        loop {
            let refused = match self.caller.exchange(&frame, budget).await {
                Ok(ServerFrame::Sent(sent)) => return replies::sent(sent),
                Ok(other) => return Err(unexpected("send", &other)),
                Err(error) => error,
            };
            let Some(pause) = rate_pause(&refused) else {
                return Err(refused);
            };
            paused += pause;
            if paused > MAX_RATE_PAUSE || Instant::now() + pause >= budget.deadline() {
                return Err(refused);
            }
            sleep(pause).await;
        }
    }

    /// Reads a room; messages of other rooms in the reply are dropped. Moves nothing: the cursor stays until [`Client::commit`].
    ///
    /// A reply can hold fewer messages than asked for although there are more; read on from its
    /// `cursor` until one is empty.
    ///
    /// # Errors
    /// As every call; [`ErrorCode::NotMember`] also for a room that does not exist.
    pub async fn pull(&self, room: &str, read: Read) -> Result<Pulled, ClientError> {
        let budget = Budget::of(self.caller.budget());
        match read {
            Read::Unread { limit } => self.caller.unread(room, limit, budget).await,
            Read::Since { seq, limit } => {
                self.caller.read(room, Some(seq), None, limit, budget).await
            }
        }
    }

    /// Says that everything up to `seq` was consumed. A lower `seq` than before, and one beyond
    /// the room's head, change nothing.
    ///
    /// # Errors
    /// As every call.
    pub async fn commit(&self, room: &str, seq: i64) -> Result<(), ClientError> {
        let budget = Budget::of(self.caller.budget());
        let pulled = self.caller.read(room, None, Some(seq), 0, budget).await?;
        // A hub that did not take it would take it later, when the room has grown past it, and
        // swallow what nobody read: it is not repeated.
        if pulled.cursor >= seq {
            self.shared().note_commit(room, seq);
        }
        Ok(())
    }

    /// Waits until something unread is in the room, at most for `budget`; then `messages` is
    /// empty. What is unread at once is returned at once.
    ///
    /// Dropping the wait consumes nothing. An outage of the hub is outlived; when it lasts to the
    /// end of the budget it is the error.
    ///
    /// # Errors
    /// As every call. A refused login and a refusal such as [`ErrorCode::NotMember`] end the wait
    /// at once.
    pub async fn wait(
        &self,
        room: &str,
        limit: u32,
        budget: Duration,
    ) -> Result<Pulled, ClientError> {
        Vigil::new(&self.caller, room, limit).keep(budget).await
    }

    /// The next pushed message. Waits for ever when nothing is pushed, for example before
    /// [`Client::subscribe`]. Safe to cancel; of several waiters each message reaches one.
    ///
    /// A push is a doorbell: those of an outage never come, and of more than 1024 that wait the
    /// oldest go. Read the room to be complete.
    pub async fn next_push(&self) -> StoredMessage {
        self.shared().pushes.next().await
    }

    /// The next frame other than a message that was pushed: turns, guards, join requests. They
    /// come to a client with [`crate::ClientOptions::turns`] that subscribed. Like
    /// [`Client::next_push`] otherwise; [`Client::next_event`] gives the same as types.
    pub async fn next_notice(&self) -> ServerFrame {
        self.shared().notices.next().await
    }

    /// How many pushes were dropped because nobody took them.
    #[must_use]
    pub fn dropped_pushes(&self) -> u64 {
        self.shared().pushes.dropped()
    }

    /// Says how this agent is; said again by itself after every reconnect, which resets it on
    /// the hub. An absent activity clears the stored one, an absent attention keeps it.
    ///
    /// # Errors
    /// As every call.
    pub async fn presence(
        &self,
        status: &str,
        activity: Option<&str>,
        attention: Option<Attention>,
    ) -> Result<(), ClientError> {
        let presence = Presence {
            status: status.to_owned(),
            activity: activity.map(str::to_owned),
            attention,
        };
        self.request(ClientFrame::Presence(presence))
            .await
            .map(drop)
    }

    /// Says what may wake this agent.
    ///
    /// # Errors
    /// As every call.
    pub async fn set_attention(&self, attention: Attention) -> Result<(), ClientError> {
        let frame = ClientFrame::SetAttention(SetAttention { attention });
        self.request(frame).await.map(drop)
    }

    /// Sends any frame and gives the reply as it is, for what has no method yet. Messages sent
    /// this way are not signed.
    ///
    /// One that parks (`waitSecs`) gets a connection of its own, so that nothing waits behind it;
    /// dropping the call ends that.
    ///
    /// # Errors
    /// As every call; an `error` frame is [`ClientError::Refused`]. `hello` is the client's own
    /// business, and blobs need more than one frame: [`ClientError::NotASingleRequest`].
    pub async fn request(&self, frame: ClientFrame) -> Result<ServerFrame, ClientError> {
        let what = match &frame {
            ClientFrame::Hello(_) => Some("hello"),
            ClientFrame::PutBlob(_) => Some("put_blob"),
            ClientFrame::GetBlob(_) => Some("get_blob"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(ClientError::NotASingleRequest { what });
        }
        match parks_for(&frame) {
            0 => {
                self.caller
                    .exchange(&frame, Budget::of(self.caller.budget()))
                    .await
            }
            secs => ask_aside(self.shared(), &frame, Duration::from_secs(secs)).await,
        }
    }

    /// Ends the connection in good order, for all clones: later calls are
    /// [`ClientError::Stopped`].
    pub async fn close(self) {
        self.caller.close().await;
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.caller.shared
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("id", self.id())
            .field("hub", &self.shared().shown_url)
            .finish_non_exhaustive()
    }
}

/// How long to pause before a rate-limited send is repeated; `None`: not at all.
fn rate_pause(error: &ClientError) -> Option<Duration> {
    match error {
        ClientError::Refused {
            code: Some(ErrorCode::RateLimited),
            retry_after: Some(after),
            ..
        } => Some((*after).max(MIN_RATE_PAUSE)),
        _ => None,
    }
}
