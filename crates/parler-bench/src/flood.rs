//! `flood`: one agent sends into room X as fast as its socket takes it, at the limits that any hub
//! has, and heeds no refusal. What an unrelated pair in room Y notices of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use parler_identity::KeyPair;
use serde_json::json;

use crate::hub::{HubProcess, Limits};
use crate::stats::{Row, Times, table};
use crate::wire::{Socket, client_id, send};

/// Sends of the flooder that wait for an answer.
const IN_FLIGHT: usize = 64;
/// Pause between two messages of the pair.
const PACE: Duration = Duration::from_millis(20);
/// Messages of one agent of the pair: fewer than its budget.
const EACH: usize = 200;
/// Characters of a body.
const BODY: usize = 256;

/// How often.
#[derive(clap::Args)]
pub struct Args {
    /// Rounds, each once quiet and once under the flood
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// `full` or `normal`
    #[arg(long, default_value = "full")]
    durability: String,
}

/// Measures both and prints them.
pub async fn run(binary: &Path, args: Args) -> anyhow::Result<()> {
    let (mut quiet, mut flooded) = (Times::default(), Times::default());
    let (mut stored, mut refused) = (0, 0);
    for _ in 0..args.rounds {
        // A new hub a round, and new agents: all budgets are whole.
        let hub = HubProcess::start_with(binary, &args.durability, Limits::Default)?;
        quiet.extend(talk(&hub).await?);
        let flooder = Socket::login(hub.addr, &KeyPair::generate()?, "flooder").await?;
        let counts = Arc::new(Counts::default());
        let flood = tokio::spawn(flood(flooder, Arc::clone(&counts)));
        flooded.extend(talk(&hub).await?);
        counts.done.store(true, Ordering::Relaxed);
        flood.await??;
        stored += counts.stored.load(Ordering::Relaxed);
        refused += counts.refused.load(Ordering::Relaxed);
    }
    let rows = [
        Row::of("send to push in room Y, quiet", &mut quiet),
        Row::of("send to push in room Y, flood in room X", &mut flooded),
    ];
    table(&rows);
    let ratio = |a: u64, b: u64| a * 100 / b.max(1);
    let p50 = ratio(rows[1].p50_us, rows[0].p50_us);
    let p99 = ratio(rows[1].p99_us, rows[0].p99_us);
    println!("flooder: {stored} stored, {refused} refused");
    println!("flood / quiet: p50 {p50} %, p99 {p99} %");
    Ok(())
}

#[derive(Default)]
struct Counts {
    done: AtomicBool,
    stored: AtomicU64,
    refused: AtomicU64,
}

async fn flood(mut flooder: Socket, counts: Arc<Counts>) -> anyhow::Result<()> {
    flooder.share(&mut [], "x").await?;
    let body = "x".repeat(BODY);
    let mut waiting = 0;
    while !counts.done.load(Ordering::Relaxed) {
        while waiting < IN_FLIGHT {
            flooder.post(send("x", &body, &client_id())).await?;
            waiting += 1;
        }
        let reply = flooder.text().await?;
        waiting -= 1;
        let count = match reply.starts_with(r#"{"type":"sent""#) {
            true => &counts.stored,
            false => &counts.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Two new agents in a new room: each says something in turn, the other one hears it by push.
async fn talk(hub: &HubProcess) -> anyhow::Result<Times> {
    let mut one = Socket::login(hub.addr, &KeyPair::generate()?, "one").await?;
    let mut two = Socket::login(hub.addr, &KeyPair::generate()?, "two").await?;
    let room = format!("y-{}", client_id());
    one.share(&mut [&mut two], &room).await?;
    for socket in [&mut one, &mut two] {
        socket.done(&json!({"op": "subscribe"})).await?;
    }
    let body = "x".repeat(BODY);
    let mut times = Times::default();
    for n in 0..2 * EACH {
        let frame = send(&room, &body, &client_id());
        let began = Instant::now();
        one.post(frame).await?;
        let push = two.text().await?;
        times.add(began.elapsed());
        ensure!(push.starts_with(r#"{"type":"delivery""#), "{push}");
        let sent = one.frame().await?;
        sent["seq"].as_i64().with_context(|| format!("{sent}"))?;
        if n % 2 == 1 {
            tokio::time::sleep(PACE).await;
        }
        std::mem::swap(&mut one, &mut two);
    }
    Ok(times)
}
