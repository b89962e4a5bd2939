//! One connection, from the upgrade to its end: a single task that reads, starts ops, and writes.
//!
//! **Order.** Replies come in the order of the requests. Consecutive sends run at the same time,
//! so that they share commits; any other op starts when everything before it is answered, so that
//! it sees its effects. A parked pull therefore delays later requests, and nothing else: pings of
//! the socket are answered, pushes flow, and a closed socket is noticed, because the loop goes on
//! reading (up to bounded read-ahead).
//!
//! **Ends.** The socket's end drops what is in flight: a parked pull of a dead connection consumes
//! nothing. The hub's end is a Close frame that says whether to come back.

use std::collections::VecDeque;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::{FuturesOrdered, SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parler_protocol::ErrorCode;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::envelope::{self, Request};
use super::handshake::{Handshake, Step};
use super::pieces::{Marks, Pieces};
use super::{Reply, frame_text};
use crate::blobs::{Download, Framing, Piece, Upload};
use crate::defaults;
use crate::error::OpError;
use crate::fanout::{Outbox, Subscription};
use crate::live::{Present, What};
use crate::ops::{self, Caller, Queueing, Running, Started};
use crate::state::{Admission, Agent, HubState, NoPlace};

/// Close codes of RFC 6455 that this hub uses.
mod code {
    /// The connection was silent for too long.
    pub const AWAY: u16 = 1001;
    /// The client broke a rule; coming back will not help.
    pub const VIOLATION: u16 = 1008;
    /// A message larger than its cap.
    pub const TOO_BIG: u16 = 1009;
    /// Something of ours failed.
    pub const FAILED: u16 = 1011;
    /// The hub stops, and will be back.
    pub const RESTART: u16 = 1012;
    /// The hub is full: come back later.
    pub const LATER: u16 = 1013;
}

/// Why a connection ends.
enum End {
    /// The peer is gone.
    Gone,
    /// Say this and close.
    Close {
        code: u16,
        reason: &'static str,
        error: Option<OpError>,
    },
}

impl End {
    fn stray_bytes() -> End {
        End::Close {
            code: code::VIOLATION,
            reason: "binary message without put_blob",
            error: Some(OpError::new(
                ErrorCode::Protocol,
                "a binary message with no upload under way",
            )),
        }
    }

    fn restart() -> End {
        End::Close {
            code: code::RESTART,
            reason: "the hub is stopping",
            error: None,
        }
    }
}

type Ended = Result<(), End>;

/// The socket of a connection.
pub type Socket = WebSocketStream<Pieces<TokioIo<Upgraded>>>;

/// Runs a connection to its end.
pub async fn run(state: Arc<HubState>, socket: Socket, marks: Marks, address: IpAddr) {
    let (sink, stream) = socket.split();
    let mut writer = Writer { sink };
    let admission = match state.admit(address) {
        Ok(admission) => admission,
        Err(why) => {
            let why = match why {
                NoPlace::Hub => "this hub is full: try again later",
                NoPlace::Address => {
                    "too many connections from this address: close some, or try again later"
                }
            };
            let end = End::Close {
                code: code::LATER,
                reason: "at capacity",
                error: Some(OpError::new(ErrorCode::AtCapacity, why)),
            };
            writer.close(stream, end).await;
            return;
        }
    };
    let (outbox, pushes) = mpsc::channel(defaults::OUTBOX_DEPTH);
    let subscription = Subscription::new(Arc::clone(state.fanout()), admission.conn);
    let mut session = Session {
        stopping: state.stopping(),
        state,
        stream,
        marks,
        writer,
        upload: Arc::default(),
        outbox,
        pushes,
        handshake: Handshake::default(),
        agent: None,
        present: None,
        pending: VecDeque::new(),
        pending_bytes: 0,
        running: FuturesOrdered::new(),
        only_sends: true,
        queueing: None,
        strikes: 0,
        clock: Clock::new(),
        admission,
    };
    let end = match session.drive().await {
        Ok(()) => End::Gone,
        Err(end) => end,
    };
    // What is in flight ends here, before the goodbye: it could not be answered any more.
    let Session {
        mut writer,
        stream,
        running,
        queueing,
        admission,
        present,
        ..
    } = session;
    drop((running, queueing, subscription, present));
    writer.close(stream, end).await;
    drop(admission);
}

struct Session {
    state: Arc<HubState>,
    admission: Admission,
    stream: SplitStream<Socket>,
    marks: Marks,
    writer: Writer,
    /// The upload whose bytes are awaited.
    upload: Arc<Mutex<Option<Upload>>>,
    outbox: Outbox,
    pushes: mpsc::Receiver<Utf8Bytes>,
    stopping: watch::Receiver<bool>,
    handshake: Handshake,
    agent: Option<Agent>,
    /// Says that the agent is connected.
    present: Option<Present>,
    /// Read ahead, not started.
    pending: VecDeque<(Request, usize)>,
    pending_bytes: usize,
    running: FuturesOrdered<Running>,
    /// Whether everything that runs is a send.
    only_sends: bool,
    /// The send that is being queued: the next one starts when it is.
    queueing: Option<Queueing>,
    strikes: u32,
    clock: Clock,
}

impl Session {
    async fn drive(&mut self) -> Ended {
        loop {
            self.start_ready().await;
            let may_read = self.pending.len() < defaults::MAX_PENDING_FRAMES
                && self.pending_bytes < defaults::MAX_PENDING_BYTES;
            tokio::select! {
                biased;
                () = stopped(&mut self.stopping) => return self.say_goodbye().await,
                message = self.stream.next(), if may_read => self.on_message(message).await?,
                running = next_queued(&mut self.queueing) => self.queued(running),
                Some(reply) = self.running.next(), if !self.running.is_empty() => {
                    self.answer(reply).await?;
                }
                Some(push) = self.pushes.recv() => {
                    self.clock.heard();
                    self.writer.feed(push).await?;
                }
                () = self.clock.rings() => self.on_time()?,
            }
            self.drain().await?;
        }
    }

    /// Writes what else is ready, so that a burst goes out in one write.
    async fn drain(&mut self) -> Ended {
        for _ in 0..2 * defaults::OUTBOX_DEPTH {
            if let Ok(push) = self.pushes.try_recv() {
                self.writer.feed(push).await?;
                continue;
            }
            let ready = std::future::poll_fn(|cx| match self.running.poll_next_unpin(cx) {
                Poll::Ready(reply) => Poll::Ready(reply),
                Poll::Pending => Poll::Ready(None),
            });
            match ready.await {
                Some(reply) => self.answer(reply).await?,
                None => break,
            }
        }
        self.writer.flush().await
    }

    /// Starts what the order rule allows to start now.
    async fn start_ready(&mut self) {
        loop {
            if let Some(queueing) = &mut self.queueing {
                let first = std::future::poll_fn(|cx| Poll::Ready(queueing.as_mut().poll(cx)));
                let Poll::Ready(running) = first.await else {
                    return;
                };
                self.queued(running);
            }
            let Some((next, _)) = self.pending.front() else {
                return;
            };
            let is_send = matches!(next, Request::Send(_));
            let free = self.running.is_empty();
            let shares =
                is_send && self.only_sends && self.running.len() < defaults::MAX_SENDS_IN_FLIGHT;
            if !free && !shares {
                return;
            }
            let Some((request, bytes)) = self.pending.pop_front() else {
                return;
            };
            self.pending_bytes -= bytes;
            self.only_sends = is_send;
            let request = match request {
                Request::Refused(error) => {
                    let refused = std::future::ready(Reply::from(error));
                    self.running.push_back(Box::pin(refused));
                    continue;
                }
                request => request,
            };
            let Some(caller) = self.caller() else {
                return;
            };
            match ops::start(caller, request) {
                Started::Send(queueing) => self.queueing = Some(queueing),
                Started::Other(running) => self.running.push_back(running),
            }
        }
    }

    fn queued(&mut self, running: Running) {
        self.queueing = None;
        self.running.push_back(running);
    }

    fn caller(&self) -> Option<Caller> {
        Some(Caller {
            state: Arc::clone(&self.state),
            agent: self.agent.clone()?,
            conn: self.admission.conn,
            address: self.admission.address,
            outbox: self.outbox.clone(),
            stopping: self.stopping.clone(),
            upload: Arc::clone(&self.upload),
        })
    }

    async fn on_message(&mut self, message: Option<Result<Message, Error>>) -> Ended {
        self.clock.heard();
        match message {
            None => Err(End::Gone),
            Some(Err(error)) => Err(unreadable(&error)),
            Some(Ok(Message::Text(text))) => self.on_text(text.as_str()).await,
            Some(Ok(Message::Binary(_))) if self.agent.is_none() => Err(End::stray_bytes()),
            Some(Ok(Message::Binary(bytes))) => {
                let last = self.marks.next();
                self.pending_bytes += bytes.len();
                let size = bytes.len();
                let piece = Piece { bytes, last };
                self.pending.push_back((Request::Piece(piece), size));
                Ok(())
            }
            // The library answers the first, and a Close with the next read; it never reads the
            // last.
            Some(Ok(
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_),
            )) => Ok(()),
        }
    }

    async fn on_text(&mut self, text: &str) -> Ended {
        let cap = self.state.config().limits.max_text_frame_bytes;
        if text.len() > cap {
            return Err(End::Close {
                code: code::TOO_BIG,
                reason: "text frame too large",
                error: Some(OpError::too_large("text frame", cap)),
            });
        }
        match envelope::decode(text) {
            Err(error) => self.strike(error),
            Ok(Request::Hello(hello)) if self.agent.is_none() => {
                let address = self.admission.address;
                match self.handshake.hello(&self.state, hello, address).await {
                    Ok(Step::Reply(frame)) => self.writer.feed(frame_text(&frame)).await,
                    Ok(Step::In(frame, agent)) => {
                        tracing::debug!(
                            agent = agent.id.as_str(),
                            conn = self.admission.conn.0,
                            "in"
                        );
                        let live = self.state.live();
                        self.present = Some(live.enter(&agent.id, What::Connection));
                        self.agent = Some(agent);
                        self.clock.logged_in(self.state.config().idle_timeout);
                        self.writer.feed(frame_text(&frame)).await
                    }
                    Err(error) => self.writer.feed(frame_text(&error.into_frame())).await,
                }
            }
            Ok(_) if self.agent.is_none() => self.strike(OpError::unauthenticated()),
            Ok(request) => {
                self.pending_bytes += text.len();
                self.pending.push_back((request, text.len()));
                Ok(())
            }
        }
    }

    /// Answers a frame that costs us and gives nothing, in its turn; too many of them end the
    /// connection.
    fn strike(&mut self, error: OpError) -> Ended {
        self.strikes += 1;
        if self.strikes >= defaults::MAX_STRIKES {
            return Err(End::Close {
                code: code::VIOLATION,
                reason: "too many malformed frames",
                error: Some(error),
            });
        }
        self.pending.push_back((Request::Refused(error), 0));
        Ok(())
    }

    fn on_time(&mut self) -> Ended {
        match self.clock.expired() {
            Expired::Not => Ok(()),
            Expired::Handshake => Err(End::Close {
                code: code::VIOLATION,
                reason: "handshake timed out",
                error: Some(OpError::new(ErrorCode::Timeout, "handshake timed out")),
            }),
            Expired::Idle => Err(End::Close {
                code: code::AWAY,
                reason: "idle",
                error: None,
            }),
        }
    }

    /// The hub stops: parked pulls answer empty, other ops finish, then the Close frame.
    async fn say_goodbye(&mut self) -> Ended {
        let finish = async {
            if self.queueing.is_some() {
                let running = next_queued(&mut self.queueing).await;
                self.queued(running);
            }
            while let Some(reply) = self.running.next().await {
                // The bytes of a blob would take too long.
                if let Reply::Frame(text) = reply {
                    self.writer.feed(text).await?;
                }
            }
            self.writer.flush().await
        };
        if let Ok(result) = timeout(defaults::CLOSE_TIMEOUT, finish).await {
            result?;
        }
        Err(End::restart())
    }

    /// Writes an answer.
    async fn answer(&mut self, reply: Reply) -> Ended {
        match reply {
            Reply::Frame(text) => self.writer.feed(text).await,
            Reply::Nothing => Ok(()),
            Reply::Blob(text, download) => {
                self.writer.feed(text).await?;
                self.send_blob(*download).await
            }
            Reply::Stray => Err(End::stray_bytes()),
            Reply::TooBig => Err(End::Close {
                code: code::TOO_BIG,
                reason: "message too large",
                error: None,
            }),
        }
    }

    /// Writes the bytes of a blob, as fast as the peer takes them. Nothing else is written in
    /// between, and nothing is read: whoever downloads waits for nothing else. One message of any
    /// size goes out in fragments, so that it costs no more memory than a chunk.
    async fn send_blob(&mut self, download: Download) -> Ended {
        let Download { mut bytes, framing } = download;
        let mut opcode = Data::Binary;
        loop {
            let block = tokio::select! {
                () = stopped(&mut self.stopping) => return Err(End::restart()),
                block = bytes.next(defaults::PIECE_BYTES) => block,
            };
            let block = block.map_err(|error| {
                tracing::error!(%error, "the bytes of a blob cannot be read");
                End::Close {
                    code: code::FAILED,
                    reason: "blob bytes unavailable",
                    error: None,
                }
            })?;
            let last = bytes.left() == 0;
            let message = match framing {
                Framing::Chunks => Message::Binary(block),
                Framing::Whole => {
                    let opcode = std::mem::replace(&mut opcode, Data::Continue);
                    Message::Frame(Frame::message(block, OpCode::Data(opcode), last))
                }
            };
            self.writer.send(message).await?;
            self.clock.heard();
            if last {
                return Ok(());
            }
        }
    }
}

/// Resolves when the send that is being queued is queued; never when there is none.
async fn next_queued(queueing: &mut Option<Queueing>) -> Running {
    match queueing {
        Some(queueing) => queueing.await,
        None => std::future::pending().await,
    }
}

/// Resolves when the hub stops.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// What an error of the socket means.
fn unreadable(error: &Error) -> End {
    match error {
        Error::Capacity(_) => End::Close {
            code: code::TOO_BIG,
            reason: "message too large",
            error: None,
        },
        _ => End::Gone,
    }
}

/// The sending half.
struct Writer {
    sink: SplitSink<Socket, Message>,
}

impl Writer {
    async fn feed(&mut self, text: Utf8Bytes) -> Ended {
        bounded(self.sink.feed(Message::Text(text))).await
    }

    async fn send(&mut self, message: Message) -> Ended {
        bounded(self.sink.send(message)).await
    }

    async fn flush(&mut self) -> Ended {
        bounded(self.sink.flush()).await
    }

    /// Says why, sends the Close frame, and waits a moment for the peer's.
    async fn close(&mut self, mut stream: SplitStream<Socket>, end: End) {
        let End::Close {
            code,
            reason,
            error,
        } = end
        else {
            let _ = timeout(defaults::CLOSE_TIMEOUT, self.sink.close()).await;
            return;
        };
        let goodbye = async {
            if let Some(error) = error {
                self.feed(frame_text(&error.into_frame())).await?;
            }
            let frame = CloseFrame {
                code: code.into(),
                reason: reason.into(),
            };
            bounded(self.sink.send(Message::Close(Some(frame)))).await?;
            while let Some(Ok(_)) = stream.next().await {}
            Ok::<(), End>(())
        };
        let _ = timeout(defaults::CLOSE_TIMEOUT, goodbye).await;
    }
}

/// A peer that takes nothing is gone.
async fn bounded(write: impl Future<Output = Result<(), Error>>) -> Ended {
    let mut write = std::pin::pin!(write);
    // The usual write is done at once: no timer for it.
    let first = std::future::poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await;
    let result = match first {
        Poll::Ready(result) => result,
        Poll::Pending => timeout(defaults::WRITE_TIMEOUT, write)
            .await
            .map_err(|_| End::Gone)?,
    };
    result.map_err(|_| End::Gone)
}

enum Expired {
    Not,
    Handshake,
    Idle,
}

/// The connection's only timer. Activity moves a time stamp, not the timer: it is set anew when
/// it rings too early.
struct Clock {
    sleep: Pin<Box<Sleep>>,
    last: Instant,
    /// `None` after the login.
    handshake_until: Option<Instant>,
    idle: Option<Duration>,
}

impl Clock {
    fn new() -> Self {
        let now = Instant::now();
        Clock {
            sleep: Box::pin(tokio::time::sleep(defaults::HANDSHAKE_SILENCE)),
            last: now,
            handshake_until: Some(now + defaults::HANDSHAKE_DEADLINE),
            idle: None,
        }
    }

    fn heard(&mut self) {
        self.last = Instant::now();
    }

    fn logged_in(&mut self, idle: Option<Duration>) {
        self.handshake_until = None;
        self.idle = idle;
        self.arm();
    }

    fn due(&self) -> Option<Instant> {
        match self.handshake_until {
            Some(end) => Some(end.min(self.last + defaults::HANDSHAKE_SILENCE)),
            None => self.idle.map(|idle| self.last + idle),
        }
    }

    fn arm(&mut self) {
        // Without a limit the timer is put far away.
        let far = Instant::now() + Duration::from_secs(86_400 * 365);
        let due = self.due().unwrap_or(far);
        self.sleep.as_mut().reset(due);
    }

    async fn rings(&mut self) {
        self.sleep.as_mut().await;
    }

    fn expired(&mut self) -> Expired {
        if self.due().is_some_and(|due| due <= Instant::now()) {
            return if self.handshake_until.is_some() {
                Expired::Handshake
            } else {
                Expired::Idle
            };
        }
        self.arm();
        Expired::Not
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn talking_does_not_put_off_the_end_of_a_login() {
        let mut clock = Clock::new();
        let (began, until) = (clock.last, clock.handshake_until.unwrap());
        assert_eq!(until - began, defaults::HANDSHAKE_DEADLINE);
        assert_eq!(clock.due(), Some(began + defaults::HANDSHAKE_SILENCE));
        clock.last = until - Duration::from_millis(1);
        assert_eq!(clock.due(), Some(until), "whatever was heard meanwhile");
        let idle = Duration::from_secs(7);
        clock.logged_in(Some(idle));
        assert_eq!(clock.due(), Some(clock.last + idle));
        clock.logged_in(None);
        assert_eq!(clock.due(), None);
    }
}
