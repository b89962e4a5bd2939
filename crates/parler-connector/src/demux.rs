//! The actor that owns a client's connection: it dials when need be, writes one request at a
//! time, gives the reply to its caller and puts pushes into the inbox.
//!
//! It repeats no request (its callers know what may be repeated) and waits for nothing without a
//! deadline. It lives until the last handle of its client is dropped, which aborts it.

use std::sync::Arc;
use std::time::Duration;

use parler_protocol::{ClientFrame, ServerFrame};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::error::ClientError;
use crate::link::{Answer, Link, Request, kind_of, refused};
use crate::reconnect::{Gate, is_final};
use crate::shared::{Bell, Shared};
use crate::transport::Heard;

/// Requests that wait for the connection at most; more callers wait for a place.
pub(crate) const QUEUE: usize = 64;

/// What a client asks of its actor.
pub(crate) enum Order {
    /// Exchange a request for a reply.
    Ask(Ask),
    /// End in good order.
    Close(oneshot::Sender<()>),
}

/// A request and how long there is for it.
pub(crate) struct Ask {
    /// `None`: see to it that there is a connection, nothing more.
    pub(crate) request: Option<Request>,
    /// When the caller gives up.
    pub(crate) deadline: Instant,
    /// How long the reply may take once the request is out.
    pub(crate) patience: Duration,
    /// Whether the caller tries this for the first time.
    pub(crate) first_try: bool,
    pub(crate) reply: oneshot::Sender<Result<Option<Answer>, Failure>>,
}

/// Why there is no reply.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ClientError,
    pub(crate) reached: Reached,
}

/// How far a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// It was not sent.
    Nothing,
    /// It was sent, perhaps.
    Hub,
    /// It was not sent, and there is no time to send it.
    Deadline,
}

/// See the module.
pub(crate) struct Actor {
    shared: Arc<Shared>,
    orders: mpsc::Receiver<Order>,
    link: Option<Link>,
    gate: Gate,
    heard_at: Instant,
    /// What turns pushes on after a reconnect, once they were turned on.
    subscription: Option<Request>,
}

impl Actor {
    pub(crate) fn new(shared: Arc<Shared>, orders: mpsc::Receiver<Order>) -> Self {
        Actor {
            shared,
            orders,
            link: None,
            gate: Gate::default(),
            heard_at: Instant::now(),
            subscription: None,
        }
    }

    /// Works until it is told to close, or nobody can tell it anything any more.
    pub(crate) async fn run(mut self) {
        while let Some(order) = self.next_order().await {
            match order {
                Order::Ask(ask) => self.serve(ask).await,
                Order::Close(done) => {
                    if let Some(link) = self.link.take() {
                        link.close(Instant::now() + CLOSE_TIMEOUT).await;
                    }
                    // The caller may have stopped waiting.
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    /// Looks after the connection until there is something to do.
    async fn next_order(&mut self) -> Option<Order> {
        loop {
            let now = Instant::now();
            let Some(link) = &mut self.link else {
                // Only a subscriber needs a connection that nobody asked for.
                match self.gate.opens(now).filter(|_| self.subscription.is_some()) {
                    None => return self.orders.recv().await,
                    Some(opens) => tokio::select! {
                        order = self.orders.recv() => return order,
                        () = sleep_until(opens) => {
                            let limit = Instant::now() + self.shared.options.timeouts.connect;
                            // A failure is in the gate; the next try follows from it.
                            let _ = self.connect(limit).await;
                        }
                    },
                }
                continue;
            };
            let beat = self.heard_at + self.shared.pace.idle_heartbeat;
            let heard = tokio::select! {
                order = self.orders.recv() => return order,
                heard = link.hear() => Some(heard),
                () = sleep_until(beat), if self.subscription.is_some() => None,
            };
            match heard {
                Some(Ok(heard)) => self.idle_frame(heard),
                Some(Err(ending)) => {
                    let ended = crate::link::Broken::Ended(ending);
                    self.lost(ended.into_error("idle", &self.shared.shown_url));
                }
                None => self.heartbeat().await,
            }
        }
    }

    /// Takes what came while no request was open.
    fn idle_frame(&mut self, heard: Heard) {
        self.heard_at = Instant::now();
        match heard {
            Heard::Frame(frame, bytes) if frame.is_unsolicited() => {
                self.shared.take_push(*frame, bytes);
            }
            Heard::Frame(frame, _) => {
                // Nobody asked, so it is nobody's reply; most often the hub says why it is about
                // to end the connection.
                tracing::debug!(kind = kind_of(&frame), "ignoring a reply to nothing");
            }
            Heard::Bytes(bytes) => {
                tracing::debug!(bytes = bytes.len(), "ignoring bytes that nobody asked for");
            }
            Heard::Unreadable(_) | Heard::Nothing => {}
        }
    }

    /// Makes sure that a quiet connection of a subscriber still lives.
    async fn heartbeat(&mut self) {
        let Ok(ping) = Request::new(&ClientFrame::Ping) else {
            return;
        };
        // A failure is noted where it happens; the next turn of the loop dials again.
        let _ = self
            .exchange(&ping, Instant::now() + self.shared.pace.pong)
            .await;
    }

    async fn serve(&mut self, ask: Ask) {
        if ask.reply.is_closed() {
            return;
        }
        let outcome = self.perform(&ask).await;
        // A caller that went away meanwhile does not want it.
        let _ = ask.reply.send(outcome);
    }

    async fn perform(&mut self, ask: &Ask) -> Result<Option<Answer>, Failure> {
        let failure = |reached| move |error| Failure { error, reached };
        if self.link.is_none() {
            let opens = self
                .gate
                .opens_for(ask.first_try, Instant::now(), ask.deadline)
                .map_err(failure(Reached::Deadline))?;
            sleep_until(opens).await;
            let limit = Instant::now() + self.shared.options.timeouts.connect;
            self.connect(limit.min(ask.deadline))
                .await
                .map_err(failure(Reached::Nothing))?;
        }
        let Some(request) = &ask.request else {
            return Ok(None);
        };
        let limit = ask.deadline.min(Instant::now() + ask.patience);
        let answer = self
            .exchange(request, limit)
            .await
            .map_err(failure(Reached::Hub))?;
        self.note(request, &answer);
        Ok(Some(answer))
    }

    /// Dials, logs in and brings back what a connection loses when it ends.
    async fn connect(&mut self, limit: Instant) -> Result<(), ClientError> {
        match Link::open(&self.shared, limit).await {
            Ok(link) => self.link = Some(link),
            Err(error) => {
                self.lost(error.clone());
                return Err(error);
            }
        }
        let now = Instant::now();
        self.heard_at = now;
        self.gate.connected(now);
        if let Some(presence) = self.shared.presence() {
            self.exchange(&presence, limit).await?;
        }
        if let Some(subscription) = self.subscription.clone() {
            let answer = self.exchange(&subscription, limit).await?;
            self.note(&subscription, &answer);
            if let Some(passing) = passing_refusal(&answer) {
                // Without pushes a subscriber is deaf: better a new try than that.
                self.lost(passing.clone());
                return Err(passing);
            }
        }
        self.shared.ring(Bell::Reconnected);
        Ok(())
    }

    /// One exchange on the connection; when it breaks there is none afterwards.
    async fn exchange(&mut self, request: &Request, limit: Instant) -> Result<Answer, ClientError> {
        let Some(link) = &mut self.link else {
            return Err(ClientError::Stopped);
        };
        let shared = &self.shared;
        let mut push = |frame: ServerFrame, bytes: usize| shared.take_push(frame, bytes);
        let answer = link.ask(request, limit, &mut push).await;
        self.heard_at = Instant::now();
        answer.map_err(|broken| {
            let error = broken.into_error(request.op, &self.shared.shown_url);
            self.lost(error.clone());
            error
        })
    }

    fn lost(&mut self, error: ClientError) {
        tracing::debug!(%error, hub = self.shared.shown_url, "no connection");
        self.link = None;
        self.gate.failed(error.clone(), Instant::now());
        if is_final(&error) {
            self.shared.ring(Bell::GaveUp(error));
        }
    }

    /// Remembers what a new connection has to be told again.
    fn note(&mut self, request: &Request, answer: &Answer) {
        let Answer::Frame(frame) = answer else {
            return;
        };
        match (request.op, &**frame) {
            ("subscribe", ServerFrame::Subscribed) => {
                self.subscription = Some(request.clone());
                self.shared.subscribed.set(true);
            }
            ("subscribe", ServerFrame::Error(_)) if passing_refusal(answer).is_some() => {}
            ("subscribe", ServerFrame::Error(_)) | ("unsubscribe", ServerFrame::Unsubscribed) => {
                self.subscription = None;
                self.shared.subscribed.set(false);
            }
            ("presence", ServerFrame::PresenceOk) => self.shared.note_presence(request.clone()),
            _ => {}
        }
    }
}

/// The refusal that an answer is, when the same request may be taken a little later.
fn passing_refusal(answer: &Answer) -> Option<ClientError> {
    let Answer::Frame(frame) = answer else {
        return None;
    };
    match &**frame {
        ServerFrame::Error(error) => Some(refused(error.clone())).filter(ClientError::retryable),
        _ => None,
    }
}

/// How long saying good-bye may take.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
