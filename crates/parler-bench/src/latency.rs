//! `latency`: from a send to its acknowledgement, to the push at a subscriber, to a returned
//! long-poll; one author and many; both durabilities. The references stand beside them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parler_identity::KeyPair;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::hub::HubProcess;
use crate::reference;
use crate::stats::{Row, Times, table};
use crate::wire::{Socket, client_id, send};

/// Authors of the busy scenario.
const AUTHORS: usize = 32;
/// Characters of a body.
const BODY: usize = 256;
/// Pause between two sends of the push scenario: 200 a second.
const PACE: Duration = Duration::from_millis(5);

/// What to measure.
#[derive(clap::Args)]
pub struct Args {
    /// Events of each scenario
    #[arg(long, default_value_t = 2000, value_name = "N")]
    events: usize,
    /// Few events: shows that everything runs
    #[arg(long)]
    short: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// Measures everything and prints it.
pub async fn run(binary: &Path, args: Args) -> anyhow::Result<()> {
    let events = if args.short { 100 } else { args.events };
    let mut rows = vec![
        reference::sync_of_a_page(events.min(1000))?,
        reference::echo(events).await?,
    ];
    for durability in ["full", "normal"] {
        rows.push(acknowledged(binary, durability, events).await?);
        rows.push(many(binary, durability, events).await?);
        rows.push(pushed(binary, durability, events).await?);
        rows.push(long_poll(binary, durability, events).await?);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        table(&rows);
    }
    Ok(())
}

/// Takes the reply to a send.
fn acknowledged_seq(reply: &str) -> anyhow::Result<i64> {
    let frame: Value = serde_json::from_str(reply)?;
    frame["seq"]
        .as_i64()
        .with_context(|| format!("an acknowledgement, not {reply}"))
}

async fn acknowledged(binary: &Path, durability: &str, events: usize) -> anyhow::Result<Row> {
    let hub = HubProcess::start(binary, durability)?;
    let mut author = Socket::login(hub.addr, &KeyPair::generate()?, "author").await?;
    author.share(&mut [], "r").await?;
    let (cpu, began) = (hub.cpu_micros(), Instant::now());
    let mut times = closed_loop(&mut author, "r", events).await?;
    let mut row = Row::of(format!("{durability}: send to ack, 1 author"), &mut times);
    rate(&mut row, &hub, cpu, began.elapsed());
    Ok(row)
}

async fn many(binary: &Path, durability: &str, events: usize) -> anyhow::Result<Row> {
    let hub = HubProcess::start(binary, durability)?;
    let mut authors = JoinSet::new();
    let mut sockets = Vec::new();
    for n in 0..AUTHORS {
        let mut socket = Socket::login(hub.addr, &KeyPair::generate()?, "author").await?;
        socket.share(&mut [], &format!("r{n}")).await?;
        sockets.push(socket);
    }
    let (cpu, began) = (hub.cpu_micros(), Instant::now());
    for (n, mut socket) in sockets.into_iter().enumerate() {
        authors.spawn(async move { closed_loop(&mut socket, &format!("r{n}"), events / 4).await });
    }
    let mut times = Times::default();
    while let Some(done) = authors.join_next().await {
        times.extend(done??);
    }
    let mut row = Row::of(
        format!("{durability}: send to ack, {AUTHORS} authors"),
        &mut times,
    );
    rate(&mut row, &hub, cpu, began.elapsed());
    Ok(row)
}

fn rate(row: &mut Row, hub: &HubProcess, cpu_before: Option<u64>, took: Duration) {
    let count = u64::try_from(row.events).unwrap_or(u64::MAX).max(1);
    row.per_second = Some(count * 1000 / u64::try_from(took.as_millis()).unwrap_or(1).max(1));
    row.cpu_us = hub
        .cpu_micros()
        .zip(cpu_before)
        .map(|(now, before)| (now - before) / count);
}

async fn closed_loop(author: &mut Socket, room: &str, events: usize) -> anyhow::Result<Times> {
    let body = "x".repeat(BODY);
    let mut times = Times::default();
    for _ in 0..events {
        let frame = send(room, &body, &client_id());
        let began = Instant::now();
        author.post(frame).await?;
        let reply = author.text().await?;
        times.add(began.elapsed());
        acknowledged_seq(&reply)?;
    }
    Ok(times)
}

async fn pushed(binary: &Path, durability: &str, events: usize) -> anyhow::Result<Row> {
    let hub = HubProcess::start(binary, durability)?;
    let mut author = Socket::login(hub.addr, &KeyPair::generate()?, "author").await?;
    let mut reader = Socket::login(hub.addr, &KeyPair::generate()?, "reader").await?;
    author.share(&mut [&mut reader], "r").await?;
    reader.done(&json!({"op": "subscribe"})).await?;
    let body = "x".repeat(BODY);
    let mut times = Times::default();
    for _ in 0..events {
        let frame = send("r", &body, &client_id());
        let began = Instant::now();
        author.post(frame).await?;
        let push = reader.text().await?;
        times.add(began.elapsed());
        anyhow::ensure!(
            push.starts_with(r#"{"type":"delivery""#),
            "a push, not {push}"
        );
        acknowledged_seq(&author.text().await?)?;
        tokio::time::sleep(PACE).await;
    }
    Ok(Row::of(
        format!("{durability}: send to push received, 200/s"),
        &mut times,
    ))
}

async fn long_poll(binary: &Path, durability: &str, events: usize) -> anyhow::Result<Row> {
    let hub = HubProcess::start(binary, durability)?;
    let mut author = Socket::login(hub.addr, &KeyPair::generate()?, "author").await?;
    let mut reader = Socket::login(hub.addr, &KeyPair::generate()?, "reader").await?;
    author.share(&mut [&mut reader], "r").await?;
    let body = "x".repeat(BODY);
    let mut cursor = 0;
    let mut times = Times::default();
    for _ in 0..events {
        let pull = json!({"op": "pull", "room": "r", "waitSecs": 60, "ack": cursor});
        reader.post(pull.to_string()).await?;
        // Parked by now: the pace is far above what parking takes.
        tokio::time::sleep(PACE).await;
        let frame = send("r", &body, &client_id());
        let began = Instant::now();
        author.post(frame).await?;
        let pulled = reader.frame().await?;
        times.add(began.elapsed());
        anyhow::ensure!(
            pulled["messages"].as_array().is_some_and(|m| m.len() == 1),
            "{pulled}"
        );
        cursor = pulled["cursor"].as_i64().context("a cursor")?;
        acknowledged_seq(&author.text().await?)?;
    }
    Ok(Row::of(
        format!("{durability}: send to long-poll returned"),
        &mut times,
    ))
}
