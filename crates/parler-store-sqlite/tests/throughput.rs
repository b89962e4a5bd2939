//! Rough figures, on demand: `cargo test -p parler-store-sqlite --test throughput -- --ignored
//! --nocapture`. What counts is the ratio of its lines on one machine.
#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parler_protocol::{RoomName, Seq};
use parler_store::{ReadFrom, Store};
use parler_store_sqlite::{Durability, SqliteStore};

use support::{agent, draft, log, open_room, options};

const RUN: Duration = Duration::from_secs(3);

/// Appends one message after the other and tells how long each took.
async fn author(store: Arc<SqliteStore>, n: u8, room: String, until: Instant) -> Vec<Duration> {
    let who = agent(n % 26);
    let mut took = Vec::new();
    while Instant::now() < until {
        let key = uuid::Uuid::now_v7().to_string();
        let start = Instant::now();
        store.append(draft(&room, &who, &key)).await.unwrap();
        took.push(start.elapsed());
    }
    took
}

/// Processor time of this process so far, where the system tells it (in ticks of 10 ms).
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(ticks.filter_map(|t| t.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// Bytes that this process handed to the disk so far, where the system counts them.
fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|l| l.strip_prefix("write_bytes: "));
    line.and_then(|n| n.parse().ok()).unwrap_or(0)
}

async fn measure(durability: Durability, authors: u8, rooms: u8) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("hub.sqlite");
    let store = Arc::new(SqliteStore::open(options(&path, durability)).unwrap());
    for n in 0..rooms {
        open_room(&*store, &format!("r{n}"), &agent(n % 26), [n; 32]).await;
    }
    for n in 0..authors {
        let code = [n % rooms; 32];
        store.redeem(code, &agent(n % 26), 0).await.unwrap();
    }
    let (before, disk, cpu) = (store.stats(), written(), busy());
    let until = Instant::now() + RUN;
    let tasks: Vec<_> = (0..authors)
        .map(|n| {
            tokio::spawn(author(
                Arc::clone(&store),
                n,
                format!("r{}", n % rooms),
                until,
            ))
        })
        .collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    let after = store.stats();
    let (disk, cpu) = (written() - disk, busy() - cpu);
    took.sort_unstable();
    let at = |per_mille: usize| took[(took.len() - 1) * per_mille / 1000];
    let (stored, commits) = (took.len() as u64, after.commits - before.commits);
    println!(
        "{durability:?}, {authors} appenders, {rooms} rooms: {}/s, {} a commit, {:?} of processor \
         and {} bytes to disk a message, p50 {:?}, p99 {:?}, p99.9 {:?}, longest {:?}, \
         {} checkpoints",
        stored / RUN.as_secs(),
        stored / commits.max(1),
        cpu / u32::try_from(stored).unwrap(),
        disk / stored,
        at(500),
        at(990),
        at(999),
        at(1000),
        after.checkpoints - before.checkpoints
    );
    read(&*store, &path).await;
}

/// Reads a whole room in pages, then its last ten messages, then the list of rooms.
async fn read(store: &dyn Store, path: &Path) {
    let (who, start, cpu) = (agent(0), Instant::now(), busy());
    let messages = u32::try_from(log(store, "r0", &who).await.len()).unwrap();
    let (whole, cpu) = (start.elapsed(), busy() - cpu);
    let last = store.rooms(&who).await.unwrap();
    let room = RoomName::new("r0");
    let mut took = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        let from = ReadFrom::Since(Seq(i64::MAX - 1));
        store.read(&room, &who, from, 10).await.unwrap();
        let read = start.elapsed();
        let start = Instant::now();
        store.rooms(&who).await.unwrap();
        took.push((read, start.elapsed()));
    }
    took.sort_unstable();
    println!(
        "    {messages} messages read in {:?} and {:?} of processor each, {} unread, an empty read \
         {:?}, the rooms {:?} (p50); {} MiB",
        whole / messages,
        cpu / messages,
        last[0].unread,
        took[took.len() / 2].0,
        took[took.len() / 2].1,
        std::fs::metadata(path).unwrap().len() >> 20
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a while and asserts nothing"]
async fn figures() {
    for durability in [Durability::Normal, Durability::Full] {
        for (authors, rooms) in [(1, 1), (16, 16), (32, 1), (250, 16)] {
            measure(durability, authors, rooms).await;
        }
    }
}
