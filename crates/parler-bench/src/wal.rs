//! `wal`: how long the database's write-ahead log gets while many messages are written, with parked
//! pulls and with readers that go through everything again and again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use parler_identity::KeyPair;
use serde_json::json;
use tokio::task::JoinSet;

use crate::hub::HubProcess;
use crate::wire::{Socket, client_id, send};

/// Authors, each with a room of its own.
const AUTHORS: usize = 8;
/// Sends of one author that wait for their acknowledgement.
const IN_FLIGHT: usize = 64;
/// Parked pulls: they wait in a room where nothing is said.
const PARKED: usize = 50;
/// Readers that page through the rooms for as long as it takes.
const READERS: usize = 8;
/// Characters of a body.
const BODY: usize = 256;
/// How often the log's length is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What to write.
#[derive(clap::Args)]
pub struct Args {
    /// Messages in all
    #[arg(long, default_value_t = 300_000, value_name = "N")]
    messages: usize,
    /// `full` or `normal`
    #[arg(long, default_value = "full")]
    durability: String,
    /// Fail when the log was ever longer than so many MiB
    #[arg(long, default_value_t = 192, value_name = "MIB")]
    at_most_mib: u64,
}

/// Writes, and prints the longest log.
pub async fn run(binary: &Path, args: Args) -> anyhow::Result<()> {
    let hub = HubProcess::start(binary, &args.durability)?;
    let mut owner = Socket::login(hub.addr, &KeyPair::generate()?, "owner").await?;
    let mut parked = Vec::new();
    for _ in 0..PARKED {
        parked.push(Socket::login(hub.addr, &KeyPair::generate()?, "parked").await?);
    }
    owner
        .share(&mut parked.iter_mut().collect::<Vec<_>>(), "quiet")
        .await?;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(Socket::login(hub.addr, &KeyPair::generate()?, "reader").await?);
    }
    let mut authors = Vec::new();
    for n in 0..AUTHORS {
        let mut author = Socket::login(hub.addr, &KeyPair::generate()?, "author").await?;
        author
            .share(&mut readers.iter_mut().collect::<Vec<_>>(), &room(n))
            .await?;
        authors.push(author);
    }
    let done = Arc::new(AtomicBool::new(false));
    let pages = Arc::new(AtomicU64::new(0));
    let mut others = JoinSet::new();
    for socket in parked {
        others.spawn(wait(socket, Arc::clone(&done)));
    }
    for (n, socket) in readers.into_iter().enumerate() {
        others.spawn(read(socket, n, Arc::clone(&done), Arc::clone(&pages)));
    }
    let watched = tokio::spawn(watch(hub.database(), Arc::clone(&done)));

    let began = Instant::now();
    let mut writing = JoinSet::new();
    for (n, author) in authors.into_iter().enumerate() {
        writing.spawn(write(author, room(n), args.messages / AUTHORS));
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    let took = began.elapsed();
    done.store(true, Ordering::Relaxed);
    let longest = watched.await?;
    owner
        .done(&json!({"op": "send", "target": {"kind": "room", "room": "quiet"}, "parts": []}))
        .await?;
    while let Some(other) = others.join_next().await {
        other??;
    }
    let mib = |bytes: u64| bytes / (1024 * 1024);
    println!(
        "{} messages in {:.1} s ({}), {PARKED} parked pulls, {READERS} readers ({} pages): \
         database {} MiB, longest log {} MiB",
        args.messages,
        took.as_secs_f64(),
        args.durability,
        pages.load(Ordering::Relaxed),
        mib(std::fs::metadata(hub.database())?.len()),
        mib(longest),
    );
    ensure!(
        mib(longest) <= args.at_most_mib,
        "the log was longer than {} MiB",
        args.at_most_mib
    );
    Ok(())
}

fn room(n: usize) -> String {
    format!("r{n}")
}

async fn write(mut author: Socket, room: String, messages: usize) -> anyhow::Result<()> {
    let body = "x".repeat(BODY);
    let (mut sent, mut acknowledged) = (0, 0);
    while acknowledged < messages {
        while sent < messages && sent - acknowledged < IN_FLIGHT {
            author.post(send(&room, &body, &client_id())).await?;
            sent += 1;
        }
        let reply = author.text().await?;
        ensure!(reply.starts_with(r#"{"type":"sent""#), "{reply}");
        acknowledged += 1;
    }
    Ok(())
}

/// Parks, again and again; the message at the end wakes it for good.
async fn wait(mut socket: Socket, done: Arc<AtomicBool>) -> anyhow::Result<()> {
    let pull = json!({"op": "pull", "room": "quiet", "waitSecs": 60});
    loop {
        let pulled = socket.done(&pull).await?;
        let woken = pulled["messages"].as_array().is_some_and(|m| !m.is_empty());
        if woken || done.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

async fn read(
    mut socket: Socket,
    n: usize,
    done: Arc<AtomicBool>,
    pages: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let room = room(n % AUTHORS);
    let mut since = 0;
    while !done.load(Ordering::Relaxed) {
        let pull = json!({"op": "pull", "room": room, "since": since, "limit": 1000});
        let pulled = socket.done(&pull).await?;
        let some = pulled["messages"].as_array().is_some_and(|m| !m.is_empty());
        since = if some {
            pulled["cursor"].as_i64().unwrap_or(0)
        } else {
            0
        };
        pages.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The greatest length of the log.
async fn watch(database: PathBuf, done: Arc<AtomicBool>) -> u64 {
    let mut log = database.into_os_string();
    log.push("-wal");
    let mut longest = 0;
    while !done.load(Ordering::Relaxed) {
        longest = longest.max(std::fs::metadata(&log).map_or(0, |m| m.len()));
        tokio::time::sleep(LOOK).await;
    }
    longest
}
