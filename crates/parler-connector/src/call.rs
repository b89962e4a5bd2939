//! One call: how it reaches the actor that owns the connection, how long it may take, and how it
//! is repeated over lost connections.
//!
//! Knows requests and replies, not what they mean; that is for `client`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parler_protocol::{ClientFrame, Pull, Pulled, ServerFrame};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::demux::{Actor, Ask, CLOSE_TIMEOUT, Failure, Order, QUEUE, Reached};
use crate::error::ClientError;
use crate::link::{Answer, Request, kind_of};
use crate::reconnect::idempotent;
use crate::replies;
use crate::shared::Shared;

/// How much later than a call's deadline the actor's own, better error may come.
const GRACE: Duration = Duration::from_millis(100);
/// By what a read is made smaller whose reply was too large to take.
const SHRINK: u32 = 8;

/// Where calls of all clones of a client go. Dropping it ends the connection.
pub(crate) struct Caller {
    pub(crate) shared: Arc<Shared>,
    running: OnceLock<Running>,
}

/// The actor of a client that has been used.
struct Running {
    orders: mpsc::Sender<Order>,
    task: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The time that one call has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    deadline: Instant,
    /// For one reply: half of it all, so that a silent connection can be replaced in time.
    patience: Duration,
}

impl Budget {
    pub(crate) fn of(total: Duration) -> Self {
        Budget {
            deadline: Instant::now() + total,
            patience: total / 2,
        }
    }

    pub(crate) fn deadline(self) -> Instant {
        self.deadline
    }
}

impl Caller {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Caller {
            shared,
            running: OnceLock::new(),
        }
    }

    /// The time that a call has.
    pub(crate) fn budget(&self) -> Duration {
        self.shared.options.timeouts.request
    }

    /// Reads after the cursor.
    pub(crate) async fn unread(
        &self,
        room: &str,
        limit: u32,
        budget: Budget,
    ) -> Result<Pulled, ClientError> {
        let ack = self.shared.committed(room);
        let pulled = self.read(room, None, Some(ack), limit, budget).await?;
        self.shared.note_unread(room, &pulled);
        Ok(pulled)
    }

    /// Asks once whether the connection lives, dialling if there is none. A dead one is dropped.
    pub(crate) async fn heartbeat(&self, within: Duration) -> Result<(), ClientError> {
        let request = Request::new(&ClientFrame::Ping)?;
        let budget = Budget {
            patience: within,
            ..Budget::of(within)
        };
        match self.attempt(Some(&request), budget, true).await {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.error),
        }
    }

    /// One read; made smaller when its reply is too large to take, so that a room of large
    /// messages is read in several goes.
    pub(crate) async fn read(
        &self,
        room: &str,
        since: Option<i64>,
        ack: Option<i64>,
        mut limit: u32,
        budget: Budget,
    ) -> Result<Pulled, ClientError> {
        loop {
            let frame = ClientFrame::Pull(Pull {
                room: room.to_owned(),
                since,
                limit: Some(limit),
                wait_secs: None,
                ack,
            });
            match self.exchange(&frame, budget).await {
                Ok(ServerFrame::Pulled(pulled)) => return Ok(replies::page(room, pulled)),
                Ok(other) => return Err(unexpected("pull", &other)),
                Err(ClientError::ReplyTooLarge { .. }) if limit > 1 => {
                    limit = (limit / SHRINK).max(1);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Exchanges a frame for its reply, repeating it over lost connections while that is safe and
    /// there is time.
    pub(crate) async fn exchange(
        &self,
        frame: &ClientFrame,
        budget: Budget,
    ) -> Result<ServerFrame, ClientError> {
        let request = Request::new(frame)?;
        let mut cause = None;
        loop {
            let first_try = cause.is_none();
            let failure = match self.attempt(Some(&request), budget, first_try).await {
                Ok(Some(answer)) => return answer.into_frame(request.op),
                Ok(None) => return Err(ClientError::Stopped),
                Err(failure) => failure,
            };
            let safe = match failure.reached {
                Reached::Nothing => true,
                Reached::Hub => idempotent(frame),
                Reached::Deadline => false,
            };
            // Nobody there from the beginning is an error at once: most likely the address is
            // wrong or the hub was never started.
            let outage = failure.error.is_outage() && self.shared.known_good.is_set();
            if safe && outage && Instant::now() < budget.deadline {
                cause = Some(failure.error);
                continue;
            }
            // A last try that was cut off says less than what the one before came to.
            let cut_off = failure.reached == Reached::Nothing
                && matches!(failure.error, ClientError::TimedOut { .. });
            return Err(cause.filter(|_| cut_off).unwrap_or(failure.error));
        }
    }

    /// Hands one request to the actor, which is started if need be, and waits for what comes.
    pub(crate) async fn attempt(
        &self,
        request: Option<&Request>,
        budget: Budget,
        first_try: bool,
    ) -> Result<Option<Answer>, Failure> {
        let what = request.map_or("login", |request| request.op);
        let (reply, answer) = oneshot::channel();
        let ask = Order::Ask(Ask {
            request: request.cloned(),
            deadline: budget.deadline,
            patience: budget.patience,
            first_try,
            reply,
        });
        let orders = &self.running().orders;
        let exchange = async {
            orders.send(ask).await.map_err(|_| stopped())?;
            answer.await.map_err(|_| stopped())?
        };
        timeout_at(budget.deadline + GRACE, exchange)
            .await
            .unwrap_or_else(|_| {
                Err(Failure {
                    error: ClientError::TimedOut {
                        what,
                        url: self.shared.shown_url.clone(),
                    },
                    reached: Reached::Deadline,
                })
            })
    }

    fn running(&self) -> &Running {
        self.running.get_or_init(|| {
            let (orders, queue) = mpsc::channel(QUEUE);
            let actor = Actor::new(self.shared.clone(), queue);
            Running {
                orders,
                task: tokio::spawn(actor.run()).abort_handle(),
            }
        })
    }

    /// Ends the connection in good order, or at all events.
    pub(crate) async fn close(&self) {
        let Some(running) = self.running.get() else {
            return;
        };
        let (done, closed) = oneshot::channel();
        let goodbye = async {
            if running.orders.send(Order::Close(done)).await.is_ok() {
                // Either way it is over.
                let _ = closed.await;
            }
        };
        // What does not close in time is aborted.
        let _ = timeout(CLOSE_TIMEOUT, goodbye).await;
        running.task.abort();
    }
}

fn stopped() -> Failure {
    Failure {
        error: ClientError::Stopped,
        reached: Reached::Deadline,
    }
}

/// For a reply whose type fits the op and is none of those that the caller can use.
pub(crate) fn unexpected(what: &'static str, reply: &ServerFrame) -> ClientError {
    ClientError::Unexpected {
        what,
        got: format!("a {} frame", kind_of(reply)),
    }
}
