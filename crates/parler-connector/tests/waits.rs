//! Waiting for a room: by push, by a parked pull, by reading now and then; over outages; and
//! without ever consuming anything.
#![allow(clippy::unwrap_used)] // in a test's own functions too

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Conn, FakeHub, PATIENCE, error, keys, message, pulled, usual};
use parler_connector::{Client, ClientError, ClientOptions, Endpoint, Timeouts};
use parler_protocol::{ClientFrame, ErrorCode, Redeem, ServerFrame};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

fn options(url: &str) -> ClientOptions {
    let mut options = ClientOptions::new(Endpoint::new(url), keys(1), "planner");
    options.timeouts = Timeouts {
        connect: Duration::from_millis(1000),
        request: Duration::from_millis(2000),
    };
    options
}

/// What one room holds, and a bell that rings when it grows.
#[derive(Clone)]
struct Room {
    seqs: Arc<Mutex<Vec<i64>>>,
    head: watch::Sender<i64>,
}

impl Room {
    fn new() -> Self {
        Room {
            seqs: Arc::default(),
            head: watch::Sender::new(0),
        }
    }

    fn append(&self, seq: i64) {
        self.seqs.lock().unwrap().push(seq);
        self.head.send_replace(seq);
    }

    fn read(&self, pull: &Value) -> Value {
        let floor = pull["ack"].as_i64().unwrap();
        let seqs = self.seqs.lock().unwrap().clone();
        let messages: Vec<_> = seqs
            .into_iter()
            .filter(|s| *s > floor)
            .map(message)
            .collect();
        let cursor = messages
            .last()
            .map_or(floor, |m| m["seq"].as_i64().unwrap());
        pulled(&messages, cursor)
    }

    /// A hub with this one room. It parks, pushes, or does neither.
    async fn hub(&self, parks: bool, pushes: bool) -> FakeHub {
        FakeHub::start(self.script(parks, pushes)).await
    }

    fn script(
        &self,
        parks: bool,
        pushes: bool,
    ) -> impl Fn(Conn) -> futures_util::future::BoxFuture<'static, ()> + use<> {
        let room = self.clone();
        move |conn: Conn| Box::pin(room.clone().serve(conn, parks, pushes))
    }

    async fn serve(self, mut conn: Conn, parks: bool, pushes: bool) {
        conn.login().await;
        let mut head = self.head.subscribe();
        let mut subscribed = false;
        loop {
            let frame = tokio::select! {
                frame = conn.hear() => frame,
                _ = head.changed(), if subscribed => {
                    let seq = *head.borrow_and_update();
                    conn.say(common::delivery(seq)).await;
                    continue;
                }
            };
            let Some(frame) = frame else { return };
            let reply = match frame["op"].as_str().unwrap() {
                "subscribe" if !pushes => error(Some("unsupported"), "no push here"),
                "subscribe" => {
                    subscribed = true;
                    usual(&frame)
                }
                "pull" => {
                    let nothing_yet = self.read(&frame)["messages"] == json!([]);
                    if parks && nothing_yet && frame["waitSecs"].is_u64() {
                        let mut head = self.head.subscribe();
                        tokio::select! {
                            _ = head.changed() => {}
                            // A parked client that goes ends the parking.
                            heard = conn.hear() => assert!(heard.is_none(), "{heard:?}"),
                        }
                    }
                    self.read(&frame)
                }
                _ => usual(&frame),
            };
            conn.say(reply).await;
        }
    }
}

fn parked(hub: &FakeHub) -> usize {
    let waits = |pull: &Value| pull["waitSecs"].is_u64();
    hub.of("pull").iter().filter(|pull| waits(pull)).count()
}

async fn wait_in_background(
    client: &Client,
    budget: Duration,
) -> tokio::task::JoinHandle<Result<parler_protocol::Pulled, ClientError>> {
    let client = client.clone();
    tokio::spawn(async move { client.wait("r", 10, budget).await })
}

async fn seqs(
    wait: tokio::task::JoinHandle<Result<parler_protocol::Pulled, ClientError>>,
) -> Vec<i64> {
    let pulled = timeout(PATIENCE, wait).await.expect("in time").unwrap();
    pulled.unwrap().messages.iter().map(|m| m.seq).collect()
}

#[tokio::test]
async fn what_is_unread_ends_the_wait_at_once() {
    let room = Room::new();
    room.append(4);
    let hub = room.hub(true, true).await;
    let client = Client::new(options(&hub.url()));
    for budget in [Duration::ZERO, LONG] {
        let pulled = client.wait("r", 10, budget).await.unwrap();
        assert_eq!((pulled.messages.len(), pulled.cursor), (1, 4));
    }
    client.commit("r", 4).await.unwrap();
    let pulled = client.wait("r", 10, Duration::ZERO).await.unwrap();
    assert_eq!((pulled.messages.len(), pulled.cursor), (0, 4));
    assert_eq!(hub.connections(), 1);
}

#[tokio::test]
async fn a_push_for_the_room_ends_the_wait() {
    let room = Room::new();
    let hub = room.hub(true, true).await;
    let client = Client::connect(options(&hub.url())).await.unwrap();
    assert!(client.subscribe().await.unwrap());
    let wait = wait_in_background(&client, LONG).await;
    hub.until("the first read", |hub| hub.of("pull").len() == 1)
        .await;
    client.ping().await.unwrap();
    room.append(5);
    assert_eq!(seqs(wait).await, [5]);
    assert_eq!((parked(&hub), hub.connections()), (0, 1));
    // The push is still there for whoever takes pushes.
    assert_eq!(client.next_push().await.seq, 5);
}

#[tokio::test]
async fn without_pushes_the_pull_is_parked_beside_the_other_calls() {
    let room = Room::new();
    let hub = room.hub(true, false).await;
    let client = Client::connect(options(&hub.url())).await.unwrap();
    assert!(!client.subscribe().await.unwrap());
    client.presence("waiting", None, None).await.unwrap();
    let wait = wait_in_background(&client, LONG).await;
    hub.until("a parked pull", |hub| parked(hub) == 1).await;
    let started = Instant::now();
    client.rooms().await.unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "nothing waits behind it"
    );
    room.append(6);
    assert_eq!(seqs(wait).await, [6]);
    assert_eq!(hub.connections(), 2);
    assert_eq!(hub.of("presence").len(), 2, "a login resets it");
    for pull in hub.of("pull").iter().filter(|p| p["waitSecs"].is_u64()) {
        let secs = pull["waitSecs"].as_u64().unwrap();
        assert!((20..=25).contains(&secs), "{secs}");
        assert_eq!(pull["ack"], 0);
    }
}

#[tokio::test]
async fn a_subscriber_that_wakes_nobody_parks_so_that_the_hub_knows_who_listens() {
    let room = Room::new();
    let hub = room.hub(true, true).await;
    let mut options = options(&hub.url());
    options.wakes = false;
    let client = Client::connect(options).await.unwrap();
    assert!(client.subscribe().await.unwrap());
    let wait = wait_in_background(&client, LONG).await;
    hub.until("a parked pull", |hub| parked(hub) == 1).await;
    room.append(6);
    assert_eq!(seqs(wait).await, [6]);
}

#[tokio::test]
async fn an_old_hub_that_does_not_park_is_read_now_and_then() {
    let room = Room::new();
    let hub = room.hub(false, false).await;
    let client = Client::connect(options(&hub.url())).await.unwrap();
    let wait = wait_in_background(&client, LONG).await;
    hub.until("the answer of a hub that parks nothing", |hub| {
        parked(hub) == 1
    })
    .await;
    room.append(7);
    assert_eq!(seqs(wait).await, [7]);
    assert!(hub.of("pull").len() <= 4, "{:?}", hub.of("pull"));

    client.commit("r", 7).await.unwrap();
    let wait = wait_in_background(&client, LONG).await;
    hub.until("the first read", |hub| hub.of("pull").len() >= 5)
        .await;
    room.append(8);
    assert_eq!(seqs(wait).await, [8]);
    assert_eq!(parked(&hub), 1, "it is known by now");
}

#[tokio::test]
async fn an_empty_wait_ends_with_its_budget() {
    for (parks, subscribe) in [(true, true), (true, false), (false, false)] {
        let hub = Room::new().hub(parks, true).await;
        let client = Client::connect(options(&hub.url())).await.unwrap();
        if subscribe {
            client.subscribe().await.unwrap();
        }
        let started = Instant::now();
        let budget = Duration::from_millis(300);
        let pulled = client.wait("r", 10, budget).await.unwrap();
        assert!(pulled.messages.is_empty());
        let took = started.elapsed();
        assert!(took >= budget && took < budget * 3, "{took:?}");
    }
}

#[tokio::test]
async fn a_cancelled_wait_consumes_nothing_and_leaves_no_connection() {
    let room = Room::new();
    let hub = room.hub(true, true).await;
    let client = Client::connect(options(&hub.url())).await.unwrap();
    room.append(1);
    client.commit("r", 1).await.unwrap();
    for subscribe in [false, true] {
        if subscribe {
            client.subscribe().await.unwrap();
        }
        let wait = wait_in_background(&client, LONG).await;
        if subscribe {
            let before = hub.of("pull").len();
            hub.until("the read", |hub| hub.of("pull").len() > before)
                .await;
        } else {
            hub.until("a parked pull", |hub| parked(hub) == 1).await;
        }
        wait.abort();
        assert!(wait.await.unwrap_err().is_cancelled());
    }
    room.append(2);
    let pulled = client.wait("r", 10, LONG).await.unwrap();
    assert_eq!(pulled.messages[0].seq, 2);
    let acks = hub.of("pull");
    assert!(acks.iter().all(|pull| pull["ack"] == 1), "{acks:?}");
    client.ping().await.unwrap();
}

#[tokio::test]
async fn a_wait_outlives_a_hub_restart() {
    for subscribe in [true, false] {
        let room = Room::new();
        let hub = room.hub(true, true).await;
        let client = Client::connect(options(&hub.url())).await.unwrap();
        if subscribe {
            client.subscribe().await.unwrap();
        }
        let wait = wait_in_background(&client, LONG).await;
        hub.until("a wait under way", |hub| {
            parked(hub) == usize::from(!subscribe) && !hub.of("pull").is_empty()
        })
        .await;
        let place = hub.stop().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let hub = FakeHub::start_at(place, room.script(true, true)).await;
        hub.until("a new login", |hub| hub.of("hello").len() >= 2)
            .await;
        room.append(8);
        assert_eq!(seqs(wait).await, [8], "subscribed: {subscribe}");
    }
}

#[tokio::test]
async fn a_wait_that_ends_in_an_outage_says_so() {
    let room = Room::new();
    let hub = room.hub(true, true).await;
    let client = Client::connect(options(&hub.url())).await.unwrap();
    let _place = hub.stop().await;
    let started = Instant::now();
    let failed = client
        .wait("r", 10, Duration::from_secs(3))
        .await
        .unwrap_err();
    assert!(failed.is_outage(), "{failed:?}");
    let took = started.elapsed();
    assert!(
        took >= Duration::from_secs(3) && took < Duration::from_secs(4),
        "{took:?}"
    );
}

#[tokio::test]
async fn what_does_not_pass_ends_the_wait_at_once() {
    let hub = FakeHub::answering(|_, frame| match frame["op"].as_str() {
        Some("pull") => vec![error(Some("not_member"), "not a member of 'r'")],
        _ => vec![usual(frame)],
    })
    .await;
    let client = Client::connect(options(&hub.url())).await.unwrap();
    let failed = client.wait("r", 10, LONG).await.unwrap_err();
    assert_eq!(failed.code(), Some(&ErrorCode::NotMember));
}

#[tokio::test]
async fn a_hub_that_sends_a_waiting_agent_away_ends_the_wait() {
    for subscribe in [true, false] {
        let hub = FakeHub::start(|mut conn: Conn| async move {
            conn.login().await;
            while let Some(frame) = conn.hear().await {
                if frame["waitSecs"].is_u64() || frame["op"] == "ping" {
                    conn.close(1008, "banned").await;
                    return conn.hold().await;
                }
                conn.say(usual(&frame)).await;
            }
        })
        .await;
        let client = Client::connect(options(&hub.url())).await.unwrap();
        if subscribe {
            client.subscribe().await.unwrap();
        }
        let wait = wait_in_background(&client, LONG).await;
        hub.until("the read", |hub| !hub.of("pull").is_empty())
            .await;
        if subscribe {
            // While the wait listens, another call has the hub send the agent away.
            assert!(client.ping().await.is_err());
        }
        let ended = timeout(PATIENCE, wait).await.expect("at once").unwrap();
        assert!(
            matches!(&ended, Err(ClientError::Expelled { .. })),
            "{subscribe}: {ended:?}"
        );
    }
}

#[tokio::test]
async fn a_raw_request_that_parks_holds_up_nothing() {
    let hub = FakeHub::start(|mut conn: Conn| async move {
        conn.login().await;
        while let Some(frame) = conn.hear().await {
            if frame["op"] == "redeem" {
                tokio::time::sleep(Duration::from_millis(300)).await;
                conn.say(json!({"type":"joined","room":"r","kind":"channel"}))
                    .await;
            } else {
                conn.say(usual(&frame)).await;
            }
        }
    })
    .await;
    let client = Client::connect(options(&hub.url())).await.unwrap();
    let redeem = ClientFrame::Redeem(Redeem {
        code: "A3KELDJR".into(),
        wait_secs: Some(5),
    });
    let started = Instant::now();
    let (joined, ping) = tokio::join!(client.request(redeem), async {
        client.ping().await.unwrap();
        started.elapsed()
    });
    assert!(matches!(joined.unwrap(), ServerFrame::Joined(_)));
    assert!(ping < Duration::from_millis(250), "{ping:?}");
}

#[test]
fn the_futures_of_a_client_can_be_spawned() {
    fn spawnable<T: Send>(_: T) {}
    let client = Client::new(options("h"));
    spawnable(client.wait("r", 1, LONG));
    spawnable(client.ping());
    spawnable(client.next_push());
    spawnable(client.clone().close());
}
