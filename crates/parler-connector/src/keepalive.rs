//! Waiting for a room, for as long as a caller likes, over whatever the hub offers.
//!
//! 1. Read once; whatever is unread ends the wait.
//! 2. Subscribed: listen to the pushes for the room. Otherwise: park a pull on a connection of
//!    its own, so that nothing else has to wait behind it. A hub that does not park: read now and
//!    then.
//! 3. After each piece of the wait ask whether the hub is still there, and begin again.
//!
//! A wait never moves a cursor, so it can be dropped at any point and nothing is consumed. An
//! outage in it is outlived until its time is up.

use std::time::Duration;

use parler_protocol::{
    ClientFrame, HEARTBEAT_INTERVAL, HEARTBEAT_JITTER, HEARTBEAT_TIMEOUT, Pull, Pulled,
    ServerFrame, limits::MAX_PULL_LIMIT,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::call::{Budget, Caller, unexpected};
use crate::error::ClientError;
use crate::link::{Link, Request};
use crate::options::LONGEST;
use crate::reconnect::Backoff;
use crate::replies;
use crate::shared::{Bell, Shared};

/// How often a hub is read that neither pushes nor parks.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long a quiet connection of a subscriber goes unchecked: below the minute after which
/// common proxies drop it.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(50);
/// The least that the first read of a wait may take, however short the wait is.
const LEAST_FIRST_READ: Duration = Duration::from_secs(2);

/// The rhythm of waits and heartbeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Longest piece of a wait.
    pub(crate) piece: Duration,
    /// What is randomly taken off a piece at most.
    pub(crate) jitter: Duration,
    /// How long the reply to a ping may take.
    pub(crate) pong: Duration,
    /// See [`POLL_INTERVAL`].
    pub(crate) poll: Duration,
    /// See [`IDLE_HEARTBEAT`].
    pub(crate) idle_heartbeat: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            piece: HEARTBEAT_INTERVAL,
            jitter: HEARTBEAT_JITTER,
            pong: HEARTBEAT_TIMEOUT,
            poll: POLL_INTERVAL,
            idle_heartbeat: IDLE_HEARTBEAT,
        }
    }
}

impl Pace {
    fn piece(&self) -> Duration {
        self.piece
            .saturating_sub(self.jitter.mul_f64(fastrand::f64()))
    }
}

/// One wait under way.
pub(crate) struct Vigil<'a> {
    caller: &'a Caller,
    room: &'a str,
    limit: u32,
    /// Connection of its own, while pulls are parked.
    side: Option<Link>,
    /// What the last try came to, when the hub could not be asked.
    outage: Option<ClientError>,
}

impl<'a> Vigil<'a> {
    pub(crate) fn new(caller: &'a Caller, room: &'a str, limit: u32) -> Self {
        Vigil {
            caller,
            room,
            limit: limit.clamp(1, MAX_PULL_LIMIT),
            side: None,
            outage: None,
        }
    }

    /// Waits until something is unread or the budget is spent. Then: an empty `Pulled`, or the
    /// error, when the hub could not be asked at the end.
    pub(crate) async fn keep(mut self, budget: Duration) -> Result<Pulled, ClientError> {
        let budget = budget.min(LONGEST);
        let end = Instant::now() + budget;
        let mut bells = self.shared().bells();
        let first = self.read(budget.max(LEAST_FIRST_READ)).await;
        if let Some(pulled) = self.digest(first)? {
            return Ok(pulled);
        }
        // Past its end a wait would still begin something before it is cut off.
        if Instant::now() < end
            && let Ok(outcome) = timeout_at(end, self.watch(&mut bells)).await
        {
            return outcome;
        }
        match self.outage.take() {
            Some(error) => Err(error),
            None => Ok(self.nothing()),
        }
    }

    async fn watch(&mut self, bells: &mut Receiver<Bell>) -> Result<Pulled, ClientError> {
        let mut backoff = Backoff::default();
        loop {
            match self.outage {
                Some(_) => sleep(backoff.next()).await,
                None => backoff.reset(),
            }
            let outcome = self.piece(bells).await;
            if let Some(pulled) = self.digest(outcome)? {
                return Ok(pulled);
            }
        }
    }

    /// What is unread is the end of the wait; what may pass is noted; everything else is an error.
    fn digest(
        &mut self,
        outcome: Result<Option<Pulled>, ClientError>,
    ) -> Result<Option<Pulled>, ClientError> {
        match outcome {
            Ok(pulled) => {
                self.outage = None;
                Ok(pulled)
            }
            Err(error) if error.retryable() => {
                self.side = None;
                self.outage = Some(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// One piece of the wait, by the best means there is.
    async fn piece(&mut self, bells: &mut Receiver<Bell>) -> Result<Option<Pulled>, ClientError> {
        if self.outage.is_some() {
            // First see whether the hub is back: everything else hangs on that.
            return self.read(self.caller.budget()).await;
        }
        let shared = self.shared();
        // A hub counts a parked pull as listening; a subscriber that wakes nobody it does not.
        if shared.subscribed.is_set() && shared.options.wakes {
            self.listen(bells).await?;
            return self.read(self.caller.budget()).await;
        }
        if shared.hub_never_parks.is_set() {
            sleep(shared.pace.poll).await;
            return self.read(self.caller.budget()).await;
        }
        self.park().await
    }

    /// Reads on the connection of the client.
    async fn read(&self, budget: Duration) -> Result<Option<Pulled>, ClientError> {
        let budget = Budget::of(budget.min(self.caller.budget()));
        let pulled = self.caller.unread(self.room, self.limit, budget).await?;
        Ok((!pulled.messages.is_empty()).then_some(pulled))
    }

    /// Waits for a bell for the room, or checks the connection when there was none for a piece.
    async fn listen(&self, bells: &mut Receiver<Bell>) -> Result<(), ClientError> {
        let rung = timeout(self.shared().pace.piece(), async {
            loop {
                match bells.recv().await {
                    Ok(Bell::Room(room)) if *room != *self.room => {}
                    Ok(Bell::GaveUp(error)) => return Err(error),
                    // For this room, a new connection, or more bells than can be told apart. The
                    // client holds the sender: it does not close.
                    Ok(_) | Err(RecvError::Lagged(_) | RecvError::Closed) => return Ok(()),
                }
            }
        });
        match rung.await {
            // What rang before the read that follows is answered by it.
            Ok(outcome) => {
                while !matches!(
                    bells.try_recv(),
                    Err(TryRecvError::Empty | TryRecvError::Closed)
                ) {}
                outcome
            }
            Err(_) => self.caller.heartbeat(self.shared().pace.pong).await,
        }
    }

    /// Parks a pull on the side connection, which is opened if need be.
    async fn park(&mut self) -> Result<Option<Pulled>, ClientError> {
        let shared = self.shared();
        let mut link = match self.side.take() {
            Some(link) => link,
            None => open_aside(shared).await?,
        };
        let piece = shared.pace.piece();
        let secs = piece.as_secs().max(1);
        let request = Request::new(&self.parked_pull(secs))?;
        let started = Instant::now();
        let limit = started + Duration::from_secs(secs) + shared.pace.pong;
        let pulled = match ask(&mut link, shared, &request, limit).await {
            Ok(ServerFrame::Pulled(pulled)) => replies::page(self.room, pulled),
            Ok(other) => return Err(unexpected(request.op, &other)),
            // An ordinary read makes itself smaller.
            Err(ClientError::ReplyTooLarge { .. }) => {
                return self.read(self.caller.budget()).await;
            }
            Err(error) => return Err(error),
        };
        shared.note_unread(self.room, &pulled);
        if !pulled.messages.is_empty() {
            return Ok(Some(pulled));
        }
        if started.elapsed() < piece / 2 {
            tracing::debug!(hub = shared.shown_url, "the hub does not park pulls");
            shared.hub_never_parks.set(true);
            return Ok(None);
        }
        let ping = Request::new(&ClientFrame::Ping)?;
        ask(&mut link, shared, &ping, Instant::now() + shared.pace.pong).await?;
        self.side = Some(link);
        Ok(None)
    }

    fn parked_pull(&self, secs: u64) -> ClientFrame {
        ClientFrame::Pull(Pull {
            room: self.room.to_owned(),
            since: None,
            limit: Some(self.limit),
            wait_secs: Some(secs),
            ack: Some(self.shared().committed(self.room)),
        })
    }

    fn nothing(&self) -> Pulled {
        Pulled {
            room: self.room.to_owned(),
            messages: Vec::new(),
            cursor: self.shared().committed(self.room),
            guard: None,
        }
    }

    fn shared(&self) -> &'a Shared {
        &self.caller.shared
    }
}

/// Does one parked request on a connection of its own, for which it may park `parked`.
pub(crate) async fn ask_aside(
    shared: &Shared,
    frame: &ClientFrame,
    parked: Duration,
) -> Result<ServerFrame, ClientError> {
    let request = Request::new(frame)?;
    let mut link = open_aside(shared).await?;
    let limit = Instant::now() + parked.min(LONGEST) + shared.options.timeouts.request / 2;
    ask(&mut link, shared, &request, limit).await
}

/// Opens a connection beside that of the client. It ends when it is dropped.
pub(crate) async fn open_aside(shared: &Shared) -> Result<Link, ClientError> {
    let limit = Instant::now() + shared.options.timeouts.connect;
    let mut link = Link::open(shared, limit).await?;
    if let Some(presence) = shared.presence() {
        // A login resets it. A hub that refuses it now is no reason not to go on.
        let mut push = |_, _| {};
        link.ask(&presence, limit, &mut push)
            .await
            .map_err(|broken| broken.into_error(presence.op, &shared.shown_url))?;
    }
    Ok(link)
}

/// An exchange on a connection that is not subscribed.
async fn ask(
    link: &mut Link,
    shared: &Shared,
    request: &Request,
    limit: Instant,
) -> Result<ServerFrame, ClientError> {
    let mut push = |_, _| {};
    link.ask(request, limit, &mut push)
        .await
        .map_err(|broken| broken.into_error(request.op, &shared.shown_url))?
        .into_frame(request.op)
}

#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::common::{Conn, FakeHub, PATIENCE, keys, message, pulled, usual};
    use super::*;
    use crate::{Client, ClientOptions, Endpoint};

    /// Pieces of a second instead of half a minute.
    const QUICK: Pace = Pace {
        piece: Duration::from_millis(1200),
        jitter: Duration::from_millis(200),
        pong: Duration::from_millis(300),
        poll: Duration::from_millis(50),
        idle_heartbeat: Duration::from_millis(200),
    };

    fn quick(hub: &FakeHub) -> Client {
        let endpoint = Endpoint::new(hub.url());
        Client::with_pace(ClientOptions::new(endpoint, keys(1), "planner"), QUICK)
    }

    /// Parks pulls for their whole time, and answers a wait of the `nth` and later ones.
    async fn parking_hub(answers_from: usize) -> FakeHub {
        let waits = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        FakeHub::start(move |mut conn: Conn| {
            let waits = waits.clone();
            async move {
                conn.login().await;
                while let Some(frame) = conn.hear().await {
                    let Some(secs) = frame["waitSecs"].as_u64() else {
                        conn.say(usual(&frame)).await;
                        continue;
                    };
                    let n = waits.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    if n >= answers_from {
                        conn.say(pulled(&[message(3)], 3)).await;
                    } else {
                        sleep(Duration::from_secs(secs)).await;
                        conn.say(pulled(&[], 0)).await;
                    }
                }
            }
        })
        .await
    }

    #[test]
    fn a_piece_is_jittered_below_its_length() {
        let pace = Pace::default();
        for _ in 0..100 {
            let piece = pace.piece();
            assert!(piece <= HEARTBEAT_INTERVAL && piece >= HEARTBEAT_INTERVAL - HEARTBEAT_JITTER);
        }
    }

    #[tokio::test]
    async fn a_wait_without_end_and_endless_timeouts_are_taken() {
        let hub = FakeHub::answering(|_, frame| match frame["op"].as_str() {
            Some("pull") => vec![pulled(&[message(3)], 3)],
            _ => vec![usual(frame)],
        })
        .await;
        let mut options = ClientOptions::new(Endpoint::new(hub.url()), keys(1), "planner");
        options.timeouts = crate::Timeouts {
            connect: Duration::MAX,
            request: Duration::MAX,
        };
        let client = Client::with_pace(options, QUICK);
        let unread = client.wait("r", 10, Duration::MAX).await.unwrap();
        assert_eq!(unread.cursor, 3);
    }

    #[tokio::test]
    async fn a_long_wait_goes_in_pieces_on_one_connection_with_pings_between() {
        let hub = parking_hub(2).await;
        let client = quick(&hub);
        let unread = timeout(PATIENCE, client.wait("r", 10, PATIENCE)).await;
        assert_eq!(unread.unwrap().unwrap().cursor, 3);
        let aside: Vec<_> = hub
            .frames()
            .into_iter()
            .filter(|(n, frame)| *n == 1 && frame["op"] != "hello")
            .map(|(_, frame)| frame["op"].clone())
            .collect();
        assert_eq!(aside, ["pull", "ping", "pull", "ping", "pull"]);
        assert_eq!(hub.connections(), 2);
    }

    #[tokio::test]
    async fn a_parked_pull_on_a_dead_connection_is_parked_again_on_a_new_one() {
        let hub = FakeHub::start(|mut conn: Conn| async move {
            conn.login().await;
            while let Some(frame) = conn.hear().await {
                match (conn.n, frame["waitSecs"].is_u64()) {
                    (1, _) => return conn.hold().await,
                    (_, true) => conn.say(pulled(&[message(4)], 4)).await,
                    (_, false) => conn.say(usual(&frame)).await,
                }
            }
        })
        .await;
        let client = quick(&hub);
        let unread = timeout(PATIENCE, client.wait("r", 10, PATIENCE)).await;
        assert_eq!(unread.unwrap().unwrap().cursor, 4);
        assert_eq!(hub.connections(), 3);
    }

    #[tokio::test]
    async fn a_subscriber_that_hears_nothing_asks_whether_the_hub_is_there_and_reads() {
        let pulls = std::sync::atomic::AtomicUsize::new(0);
        let hub = FakeHub::answering(move |_, frame| match frame["op"].as_str() {
            Some("pull") => match pulls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => vec![usual(frame)],
                _ => vec![pulled(&[message(5)], 5)],
            },
            _ => vec![usual(frame)],
        })
        .await;
        let client = quick(&hub);
        client.subscribe().await.unwrap();
        let unread = timeout(PATIENCE, client.wait("r", 10, PATIENCE)).await;
        assert_eq!(
            unread.unwrap().unwrap().cursor,
            5,
            "a lost push is found by reading"
        );
        assert!(!hub.of("ping").is_empty());
    }

    #[tokio::test]
    async fn a_dead_connection_of_an_idle_subscriber_is_noticed_and_replaced() {
        let hub = FakeHub::start(|mut conn: Conn| async move {
            conn.login().await;
            let subscribe = conn.hear().await.unwrap_or(json!({"op":"ping"}));
            conn.say(usual(&subscribe)).await;
            if conn.n == 0 {
                return conn.hold().await;
            }
            conn.say(super::common::delivery(6)).await;
            conn.hold().await;
        })
        .await;
        let client = quick(&hub);
        client.subscribe().await.unwrap();
        let push = timeout(PATIENCE, client.next_push()).await;
        assert_eq!(push.expect("the new connection pushes").seq, 6);
        assert!(!hub.of("ping").is_empty());
    }

    #[tokio::test]
    async fn an_old_hub_is_read_at_the_polling_interval() {
        let hub = FakeHub::answering(|_, frame| vec![usual(frame)]).await;
        let client = quick(&hub);
        let budget = Duration::from_millis(1000);
        let nothing = client.wait("r", 10, budget).await.unwrap();
        assert!(nothing.messages.is_empty());
        let reads = hub.of("pull").len();
        assert!((5..=21).contains(&reads), "{reads}");
    }
}
