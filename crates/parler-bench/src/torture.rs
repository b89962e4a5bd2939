//! `torture`: the hub is killed (-9) at random moments under load.
//!
//! Authors send with idempotency keys and repeat a send until it is acknowledged; readers pull and
//! confirm. After the last kill everything is compared: each acknowledged message stands in the
//! log exactly once and under the acknowledged `seq`, each author's messages in its order, and
//! each reader has seen every message, none twice beyond what a kill cut off between reading and
//! confirming.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use parler_identity::KeyPair;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::hub::HubProcess;
use crate::wire::{Socket, client_id, send};

const AUTHORS: usize = 8;
const READERS: usize = 4;
const ROOM: &str = "torture";

/// How to torture.
#[derive(clap::Args)]
pub struct Args {
    /// Kills for each durability
    #[arg(long, default_value_t = 20, value_name = "N")]
    kills: u32,
    /// The longest time between two kills, in milliseconds
    #[arg(long, default_value_t = 600, value_name = "MS")]
    longest_ms: u64,
    /// Seed of the random moments [default: random; printed]
    #[arg(long)]
    seed: Option<u64>,
}

/// What all tasks of a run share.
struct Shared {
    addr: SocketAddr,
    stop: AtomicBool,
    repeats: AtomicU64,
}

struct Author {
    id: String,
    /// Acknowledged, in order: text and seq.
    acked: Vec<(String, i64)>,
}

struct Reader {
    seen: HashMap<i64, u32>,
    reconnects: u32,
}

/// Tortures both durabilities.
pub async fn run(binary: &Path, args: Args) -> anyhow::Result<()> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    fastrand::seed(seed);
    for durability in ["full", "normal"] {
        one(binary, durability, &args)
            .await
            .with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

async fn one(binary: &Path, durability: &str, args: &Args) -> anyhow::Result<()> {
    let mut hub = HubProcess::start(binary, durability)?;
    let shared = Arc::new(Shared {
        addr: hub.addr,
        stop: AtomicBool::new(false),
        repeats: AtomicU64::new(0),
    });
    let keys: Vec<KeyPair> = (0..AUTHORS + READERS)
        .map(|_| KeyPair::generate())
        .collect::<Result<_, _>>()?;
    let mut owner = Socket::login(hub.addr, &keys[0], "owner").await?;
    let mut members = Vec::new();
    for keys in &keys[1..] {
        members.push(Socket::login(hub.addr, keys, "member").await?);
    }
    owner
        .share(&mut members.iter_mut().collect::<Vec<_>>(), ROOM)
        .await?;
    drop((owner, members));

    let mut authors = JoinSet::new();
    for keys in keys[..AUTHORS].iter().cloned() {
        authors.spawn(author(Arc::clone(&shared), keys));
    }
    let mut readers = JoinSet::new();
    for keys in keys[AUTHORS..].iter().cloned() {
        readers.spawn(reader(Arc::clone(&shared), keys));
    }
    let began = Instant::now();
    for _ in 0..args.kills {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(20..args.longest_ms))).await;
        tokio::task::block_in_place(|| hub.kill_and_restart())?;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    shared.stop.store(true, Ordering::Release);
    let mut wrote = Vec::new();
    while let Some(done) = authors.join_next().await {
        wrote.push(done??);
    }
    let log = whole_log(hub.addr, &keys[0]).await?;
    // The readers end when they have read everything.
    let mut read = Vec::new();
    while let Some(done) = readers.join_next().await {
        read.push(done??);
    }
    let acked = check_authors(&wrote, &log)?;
    let twice = check_readers(&read, &log)?;
    println!(
        "{durability}: {} kills in {:.1} s; {acked} acknowledged, each stored once; {} in the log; \
         {} repeats after a cut; {READERS} readers saw all, {twice} of {} reads were repeats after a cut",
        args.kills,
        began.elapsed().as_secs_f64(),
        log.len(),
        shared.repeats.load(Ordering::Relaxed),
        log.len() * READERS,
    );
    Ok(())
}

/// Connects until it works; `None` when the run is over.
async fn connect(shared: &Shared, keys: &KeyPair) -> Option<Socket> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Ok(socket) = Socket::login(shared.addr, keys, "agent").await {
            return Some(socket);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    None
}

async fn author(shared: Arc<Shared>, keys: KeyPair) -> anyhow::Result<Author> {
    let mut out = Author {
        id: keys.id().to_string(),
        acked: Vec::new(),
    };
    let mut socket = connect(&shared, &keys).await.context("no hub")?;
    let mut n = 0_u32;
    while !shared.stop.load(Ordering::Acquire) {
        n += 1;
        let (text, frame) = {
            let text = format!("{}-{n}", &out.id[50..]);
            let frame = send(ROOM, &text, &client_id());
            (text, frame)
        };
        // The same frame until it is acknowledged.
        let seq = loop {
            match exchange(&mut socket, &frame).await {
                Ok(reply) => break reply["seq"].as_i64().with_context(|| reply.to_string())?,
                Err(_) => {
                    shared.repeats.fetch_add(1, Ordering::Relaxed);
                    socket = connect(&shared, &keys).await.context("no hub")?;
                }
            }
        };
        out.acked.push((text, seq));
    }
    Ok(out)
}

async fn exchange(socket: &mut Socket, frame: &str) -> anyhow::Result<Value> {
    socket.post(frame.to_owned()).await?;
    socket.frame().await
}

async fn reader(shared: Arc<Shared>, keys: KeyPair) -> anyhow::Result<Reader> {
    let mut out = Reader {
        seen: HashMap::new(),
        reconnects: 0,
    };
    let mut socket = connect(&shared, &keys).await.context("no hub")?;
    let mut cursor = 0_i64;
    let mut quiet = 0;
    loop {
        let pull = json!({"op": "pull", "room": ROOM, "ack": cursor, "waitSecs": 1});
        match exchange(&mut socket, &pull.to_string()).await {
            Ok(pulled) => {
                let messages = pulled["messages"]
                    .as_array()
                    .with_context(|| pulled.to_string())?;
                for message in messages {
                    let seq = message["seq"].as_i64().context("a seq")?;
                    *out.seen.entry(seq).or_default() += 1;
                }
                cursor = pulled["cursor"].as_i64().context("a cursor")?;
                quiet = if messages.is_empty() { quiet + 1 } else { 0 };
                if quiet >= 2 && shared.stop.load(Ordering::Acquire) {
                    return Ok(out);
                }
            }
            Err(_) => {
                out.reconnects += 1;
                // A reader that was cut off starts where the hub says that it is.
                cursor = 0;
                socket = connect(&shared, &keys).await.context("no hub")?;
            }
        }
    }
}

/// The room's log: seq, author, text.
async fn whole_log(addr: SocketAddr, keys: &KeyPair) -> anyhow::Result<Vec<(i64, String, String)>> {
    let mut socket = Socket::login(addr, keys, "auditor").await?;
    let mut log: Vec<(i64, String, String)> = Vec::new();
    loop {
        let since = log.last().map_or(0, |m| m.0);
        let pull = json!({"op": "pull", "room": ROOM, "since": since, "limit": 1000});
        let pulled = socket.done(&pull).await?;
        let messages = pulled["messages"].as_array().context("messages")?;
        if messages.is_empty() {
            return Ok(log);
        }
        for m in messages {
            log.push((
                m["seq"].as_i64().context("a seq")?,
                m["from"]["id"].as_str().context("an author")?.to_owned(),
                m["parts"][0]["text"].as_str().context("a text")?.to_owned(),
            ));
        }
    }
}

fn check_authors(authors: &[Author], log: &[(i64, String, String)]) -> anyhow::Result<usize> {
    ensure!(
        log.is_sorted_by(|a, b| a.0 < b.0),
        "the log is not in order"
    );
    let mut texts = HashSet::new();
    for (seq, _, text) in log {
        ensure!(
            texts.insert(text.as_str()),
            "`{text}` stands twice (again at {seq})"
        );
    }
    let mut acked = 0;
    for author in authors {
        let own: Vec<(&str, i64)> = log
            .iter()
            .filter(|m| m.1 == author.id)
            .map(|m| (m.2.as_str(), m.0))
            .collect();
        let wanted: Vec<(&str, i64)> = author.acked.iter().map(|(t, s)| (t.as_str(), *s)).collect();
        ensure!(
            own == wanted,
            "{}: acknowledged and stored differ",
            author.id
        );
        acked += wanted.len();
    }
    ensure!(acked > 0, "nothing was sent");
    Ok(acked)
}

fn check_readers(readers: &[Reader], log: &[(i64, String, String)]) -> anyhow::Result<u32> {
    let mut twice = 0;
    for reader in readers {
        ensure!(
            reader.seen.len() == log.len(),
            "a reader saw {} of {}",
            reader.seen.len(),
            log.len()
        );
        for (seq, ..) in log {
            let times = *reader
                .seen
                .get(seq)
                .with_context(|| format!("{seq} was never read"))?;
            ensure!(
                times <= 1 + reader.reconnects,
                "{seq} was read {times} times"
            );
            twice += times - 1;
        }
    }
    Ok(twice)
}
