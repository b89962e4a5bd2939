//! The writer through an open store: what a batch shares, and what happens when it fails.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use parler_protocol::{AgentId, RoomKind, RoomName, Seq};
use parler_store::{Append, Appended, Committing, NewInvite, ReadFrom, Store};

use super::*;
use crate::{Durability, OpenOptions, SqliteStore};

const DEADLINE: Duration = Duration::from_secs(20);

fn agent(n: char) -> AgentId {
    AgentId::trusted(&format!("U{n}"))
}

fn open(sink: Arc<dyn CommitSink>) -> SqliteStore {
    SqliteStore::open(OpenOptions {
        path: None,
        durability: Durability::Normal,
        sink,
        lock_note: "a test".into(),
    })
    .unwrap()
}

fn invite(room: &str, gated: bool, code: u8) -> NewInvite {
    NewInvite {
        agent: agent('A'),
        kind: RoomKind::Channel,
        room: RoomName::new(room),
        verbatim: None,
        code: [code; 32],
        id: format!("invite-{code}"),
        expires_at: 100,
        max_uses: 10,
        gated,
        max_owned_rooms: 10,
        now: 0,
    }
}

fn message(id: &str, bytes: usize) -> Append {
    Append {
        agent: agent('A'),
        name: "ann".into(),
        role: None,
        room: RoomName::new("r"),
        id: id.into(),
        parts: format!("[\"{}\"]", "x".repeat(bytes)).into(),
        mentions: None,
        reply_to: None,
        client_id: Some(id.into()),
        digest: Some([1; 32]),
        ledger: None,
        dispatch: Vec::new(),
        join: false,
        now: 0,
    }
}

async fn ids(store: &SqliteStore) -> Vec<String> {
    let (room, from) = (RoomName::new("r"), ReadFrom::Since(Seq(0)));
    let page = store.read(&room, &agent('A'), from, 1000).await;
    let entries = page.unwrap().unwrap().entries;
    entries.iter().map(|entry| entry.id.to_string()).collect()
}

/// Keeps the writer busy with a step until the sender says go: what is queued meanwhile is the
/// next batch.
async fn hold(store: &SqliteStore) -> (Sender<()>, Answer<()>) {
    let (go, wait) = channel::<()>();
    let (busy, started) = oneshot::channel();
    let step = move |_: &mut Tx<'_>| {
        let _ = busy.send(());
        wait.recv_timeout(DEADLINE)
            .map_err(|_| Failure::Refused(StoreError::Closed))
    };
    let held = store.writer.enqueue(0, step).await.unwrap();
    started.await.unwrap();
    (go, held)
}

/// Queues appends so that they are one batch.
async fn batch(store: &SqliteStore, messages: Vec<Append>) -> Vec<Committing> {
    let (go, held) = hold(store).await;
    let mut committing = Vec::new();
    for message in messages {
        committing.push(store.submit(message).await.unwrap());
    }
    go.send(()).unwrap();
    held.await.unwrap().unwrap();
    committing
}

#[derive(Default)]
struct Heard(Mutex<Vec<usize>>);

impl CommitSink for Heard {
    fn committed(&self, events: &[Event]) {
        self.0.lock().unwrap().push(events.len());
    }
}

#[tokio::test]
async fn what_waits_shares_a_transaction() {
    let heard = Arc::new(Heard::default());
    let store = open(heard.clone());
    store.invite(invite("r", false, 1)).await.unwrap();
    let before = store.stats();
    let messages = (0..64).map(|n| message(&n.to_string(), 10)).collect();
    for append in batch(&store, messages).await {
        assert!(matches!(append.await, Ok(Appended::New(_))));
    }
    let after = store.stats();
    assert_eq!(after.commits - before.commits, 1);
    // 64 messages, and once each the room's head and the author's count.
    assert_eq!(after.rows - before.rows, 66);
    assert_eq!(*heard.0.lock().unwrap(), [1, 64]);
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let store = open(Arc::new(()));
    store.invite(invite("r", false, 1)).await.unwrap();
    let before = store.stats().commits;
    let messages = (0..2 * BATCH_STEPS).map(|n| message(&n.to_string(), 10));
    for append in batch(&store, messages.collect()).await {
        append.await.unwrap();
    }
    assert!(store.stats().commits - before >= 2);
    let before = store.stats().commits;
    let large = (0..10).map(|n| message(&format!("large-{n}"), BATCH_BYTES / 8));
    for append in batch(&store, large.collect()).await {
        append.await.unwrap();
    }
    assert!(store.stats().commits - before >= 2);
}

#[tokio::test]
async fn a_write_that_fails_is_an_error_for_its_batch_and_nothing_of_it_is_stored() {
    let heard = Arc::new(Heard::default());
    let store = open(heard.clone());
    store.invite(invite("r", false, 1)).await.unwrap();
    let Ok(Appended::New(first)) = store.append(message("first", 10)).await else {
        panic!("not stored");
    };
    let limit = |pages: i64| {
        store.writer.run(0, move |tx| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            Ok(tx.conn.query_row(&sql, [], |_| Ok(()))?)
        })
    };
    limit(1).await.unwrap(); // No more than it has.
    heard.0.lock().unwrap().clear();
    let fails = ["small", "large", "behind"].map(|id| {
        let bytes = if id == "large" { 500_000 } else { 10 };
        message(id, bytes)
    });
    for append in batch(&store, fails.to_vec()).await {
        let error = append.await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(error.to_string().contains("no space"), "{error}");
    }
    assert_eq!(ids(&store).await, ["first"]);
    assert!(heard.0.lock().unwrap().is_empty());
    let rooms = store.rooms(&agent('A')).await.unwrap();
    assert_eq!((rooms[0].unread, rooms[0].unread_others), (1, 0));

    limit(1_000_000).await.unwrap();
    let again = store.append(message("large", 500_000)).await;
    let Ok(Appended::New(again)) = again else {
        panic!("not stored: {again:?}");
    };
    assert!(again.seq > first.seq);
    assert_eq!(ids(&store).await, ["first", "large"]);
    assert_eq!(store.rooms(&agent('A')).await.unwrap()[0].unread, 2);
}

#[tokio::test]
async fn a_panic_in_a_step_is_an_error_for_its_batch_and_the_writer_lives() {
    let store = open(Arc::new(()));
    store.invite(invite("r", false, 1)).await.unwrap();
    let (go, held) = hold(&store).await;
    let before = store.submit(message("before", 10)).await.unwrap();
    let panics = |_: &mut Tx<'_>| -> Result<(), Failure> { panic!("on purpose") };
    let panics = store.writer.enqueue(0, panics).await.unwrap();
    let behind = store.submit(message("behind", 10)).await.unwrap();
    go.send(()).unwrap();
    held.await.unwrap().unwrap();
    let errors = [
        before.await.err(),
        panics.await.unwrap().err(),
        behind.await.err(),
    ];
    for error in errors {
        let error = error.expect("nothing of the batch is stored");
        assert!(error.to_string().contains("on purpose"), "{error}");
    }
    assert!(ids(&store).await.is_empty());
    store.append(message("after", 10)).await.unwrap();
    assert_eq!(ids(&store).await, ["after"]);
}

#[tokio::test]
async fn a_refused_step_leaves_its_batch_alone() {
    let store = open(Arc::new(()));
    store.invite(invite("r", false, 1)).await.unwrap();
    let (go, held) = hold(&store).await;
    let taken = invite("other", false, 1);
    let taken = store
        .writer
        .enqueue(0, move |tx| crate::invites::invite(tx, &taken))
        .await
        .unwrap();
    let append = store.submit(message("m", 10)).await.unwrap();
    go.send(()).unwrap();
    held.await.unwrap().unwrap();
    let refused = taken.await.unwrap();
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    append.await.unwrap();
    assert_eq!(ids(&store).await, ["m"]);
}

#[tokio::test]
async fn a_caller_that_goes_away_is_served_all_the_same() {
    let store = open(Arc::new(()));
    store.invite(invite("r", false, 1)).await.unwrap();
    drop(batch(&store, vec![message("m", 10)]).await);
    store.ping().await.unwrap();
    assert_eq!(ids(&store).await, ["m"]);
}

struct Panics;

impl CommitSink for Panics {
    fn committed(&self, _events: &[Event]) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_sink_that_panics_does_not_undo_what_is_stored() {
    let store = open(Arc::new(Panics));
    store.invite(invite("r", false, 1)).await.unwrap();
    store.append(message("m", 10)).await.unwrap();
    assert_eq!(ids(&store).await, ["m"]);
}

/// Drops the store when it is told of a message: what it holds may be the last handle.
#[derive(Default)]
struct Drops(Mutex<Option<Arc<SqliteStore>>>);

impl CommitSink for Drops {
    fn committed(&self, events: &[Event]) {
        if matches!(events, [Event::Appended(_)]) {
            drop(self.0.lock().unwrap().take());
        }
    }
}

#[tokio::test]
async fn a_sink_may_drop_the_store() {
    let sink = Arc::new(Drops::default());
    let store = Arc::new(open(sink.clone()));
    let folder = store.path().parent().unwrap().to_owned();
    store.invite(invite("r", false, 1)).await.unwrap();
    let (go, held) = hold(&store).await;
    let append = store.submit(message("m", 10)).await.unwrap();
    *sink.0.lock().unwrap() = Some(store);
    go.send(()).unwrap();
    held.await.unwrap().unwrap();
    append.await.unwrap();
    // The thread is nobody's now and ends by itself; the folder is the last that it drops.
    let end = Instant::now() + DEADLINE;
    while folder.exists() {
        assert!(Instant::now() < end, "the writer did not end");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn callers_wait_for_room_in_the_queue() {
    let store = Arc::new(open(Arc::new(())));
    store.invite(invite("r", false, 1)).await.unwrap();
    let (go, held) = hold(&store).await;
    let mut queued = Vec::new();
    let mib = 1024 * 1024;
    let queue = async {
        for n in 0.. {
            let message = message(&format!("m{n}"), mib);
            queued.push(store.submit(message).await.unwrap());
        }
    };
    let filled = tokio::time::timeout(Duration::from_millis(500), queue).await;
    assert!(filled.is_err());
    let limit = usize::try_from(QUEUE_KIB).unwrap() / 1024;
    assert!(queued.len() <= limit, "{} MiB are queued", queued.len());
    go.send(()).unwrap();
    held.await.unwrap().unwrap();
    for append in queued {
        append.await.unwrap();
    }
    store.append(message("next", mib)).await.unwrap();
}

#[tokio::test]
async fn what_waits_at_a_close_is_committed_and_what_comes_later_is_refused() {
    let store = open(Arc::new(()));
    store.invite(invite("r", false, 1)).await.unwrap();
    let (go, held) = hold(&store).await;
    let append = store.submit(message("m", 10)).await.unwrap();
    let close = store.close();
    tokio::pin!(close);
    let early = tokio::select! {
        biased;
        _ = &mut close => true,
        () = tokio::task::yield_now() => false,
    };
    assert!(!early);
    let late = store.submit(message("late", 10)).await;
    go.send(()).unwrap();
    close.await.unwrap();
    held.await.unwrap().unwrap();
    append.await.unwrap();
    if let Ok(late) = late {
        assert!(matches!(late.await, Err(StoreError::Closed)));
    }
    assert!(!store.path().exists(), "the temporary database is gone");
}

#[tokio::test]
async fn the_log_is_folded_and_stays_short() {
    let store = open(Arc::new(()));
    store.invite(invite("r", false, 1)).await.unwrap();
    // Three times what the log may have, in batches.
    for round in 0..48 {
        let messages = (0..8).map(|n| message(&format!("{round}-{n}"), 1_000_000));
        for append in batch(&store, messages.collect()).await {
            append.await.unwrap();
        }
    }
    let log = format!("{}-wal", store.path().display());
    let bytes = std::fs::metadata(log).unwrap().len();
    assert!(bytes < 160 * 1024 * 1024, "the log has {bytes} bytes");
    assert!(store.stats().checkpoints > 0);
}
