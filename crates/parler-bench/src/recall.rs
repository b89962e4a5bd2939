//! `recall`: finding facts among many, for rare and for common words, beside a bare FTS query of
//! SQLite over the same texts in the same run.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use fastrand::Rng;
use parler_identity::KeyPair;
use rusqlite::Connection;
use serde_json::json;
use tokio::task::JoinSet;

use crate::hub::HubProcess;
use crate::stats::{Row, Times, table};
use crate::wire::Socket;

/// Words of a fact; the first is the same in all.
const WORDS: usize = 25;
/// Different words, each doubling of the rank as likely as the one before.
const VOCABULARY: u32 = 50_000;
/// Connections that store facts, so that they share commits.
const WRITERS: usize = 16;
/// The word that stands in all facts.
const EVERYWHERE: &str = "everywhere";
/// Hits of a recall.
const LIMIT: u32 = 8;

/// What to measure.
#[derive(clap::Args)]
pub struct Args {
    /// Facts to store
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    facts: usize,
    /// Queries of each kind
    #[arg(long, default_value_t = 500, value_name = "N")]
    events: usize,
    /// Few of both: shows that everything runs
    #[arg(long)]
    short: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// Measures everything and prints it.
pub async fn run(binary: &Path, args: Args) -> anyhow::Result<()> {
    let (facts, events) = match args.short {
        true => (2000, 20),
        false => (args.facts, args.events.max(1)),
    };
    let mut rng = Rng::with_seed(7);
    let corpus = Corpus::of(facts, &mut rng);
    let bare = bare(&corpus)?;
    let hub = HubProcess::start(binary, "normal")?;
    let keys = KeyPair::generate()?;
    store(&hub, &keys, &corpus).await?;
    let mut socket = Socket::login(hub.addr, &keys, "reader").await?;
    let mut rows = Vec::new();
    for (what, queries) in corpus.queries(events, &mut rng) {
        let mut reference = Times::default();
        let mut times = Times::default();
        for query in &queries {
            let began = Instant::now();
            bare_query(&bare, query)?;
            reference.add(began.elapsed());
            let frame = json!({"op": "recall", "query": query.join(" "), "limit": LIMIT});
            let began = Instant::now();
            let reply = socket.ask(&frame).await?;
            times.add(began.elapsed());
            if reply["hits"].as_array().is_none_or(Vec::is_empty) {
                bail!("{frame}: {reply}");
            }
        }
        let reference = Row::of(format!("reference: bare FTS5, {what}"), &mut reference);
        let row = Row::of(format!("recall, {what}"), &mut times).beside(&reference);
        rows.extend([reference, row]);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        println!("{facts} facts of {WORDS} words");
        table(&rows);
    }
    Ok(())
}

/// Facts, and in how many of them each word stands.
struct Corpus {
    facts: Vec<String>,
    stands_in: Vec<usize>,
}

impl Corpus {
    fn of(facts: usize, rng: &mut Rng) -> Corpus {
        let mut stands_in = vec![0; VOCABULARY as usize];
        let mut fact = || {
            let mut words: Vec<u32> = (1..WORDS).map(|_| rank(rng)).collect();
            let text: Vec<String> = words.iter().map(|rank| spelled(*rank)).collect();
            words.sort_unstable();
            words.dedup();
            for word in words {
                stands_in[word as usize] += 1;
            }
            format!("{EVERYWHERE} {}", text.join(" "))
        };
        let facts = (0..facts).map(|_| fact()).collect();
        Corpus { facts, stands_in }
    }

    /// Kinds of queries, each with the words of so many.
    fn queries(&self, events: usize, rng: &mut Rng) -> Vec<(String, Vec<Vec<String>>)> {
        let most = self.facts.len() / 100;
        let rare: Vec<u32> = (0..VOCABULARY)
            .filter(|word| (1..=most).contains(&self.stands_in[*word as usize]))
            .collect();
        let mut kinds = Vec::new();
        for words in 1..=3 {
            let mut query = || -> Vec<String> {
                let pick = |_| spelled(rare[rng.usize(..rare.len())]);
                (0..words).map(pick).collect()
            };
            let queries = (0..events).map(|_| query()).collect();
            kinds.push((format!("{words} words in at most 1 %"), queries));
        }
        let common: Vec<String> = (0..3).map(spelled).collect();
        let everywhere = vec![EVERYWHERE.to_owned()];
        // They take long, and differ little.
        let few = events.div_ceil(10);
        kinds.push(("a word in all".into(), vec![everywhere; few]));
        kinds.push(("3 words in more than half".into(), vec![common; few]));
        kinds.push(("1 letter".into(), vec![vec!["e".to_owned()]; few]));
        kinds
    }
}

/// The rank of a word: low ones are frequent.
fn rank(rng: &mut Rng) -> u32 {
    let bits = rng.u32(..=VOCABULARY.ilog2());
    let least = 1 << bits;
    (least + rng.u32(..least)).min(VOCABULARY) - 1
}

/// Seven letters that begin in different ways for neighbouring ranks.
fn spelled(rank: u32) -> String {
    let mut n = u64::from(rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
    let mut letter = || {
        let letter = b'a' + u8::try_from(n % 26).unwrap_or_default();
        n /= 26;
        char::from(letter)
    };
    (0..7).map(|_| letter()).collect()
}

/// The same texts in a table of their own, as plain as it gets.
fn bare(corpus: &Corpus) -> anyhow::Result<Connection> {
    // Without a name SQLite keeps it in a file that goes with the connection.
    let conn = Connection::open("")?;
    conn.execute_batch("CREATE VIRTUAL TABLE facts USING fts5 (text)")?;
    let transaction = conn.unchecked_transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO facts (text) VALUES (?1)")?;
        for fact in &corpus.facts {
            insert.execute([fact])?;
        }
    }
    transaction.commit()?;
    Ok(conn)
}

fn bare_query(conn: &Connection, words: &[String]) -> anyhow::Result<()> {
    const FIND: &str = "SELECT text, rank FROM facts WHERE facts MATCH ?1 ORDER BY rank LIMIT 8";
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\" *")).collect();
    let mut find = conn.prepare_cached(FIND)?;
    let mut rows = find.query([words.join(" OR ")])?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        row.get_ref(0)?.as_str()?;
        found += 1;
    }
    if found == 0 {
        bail!("the bare query finds nothing for {words:?}");
    }
    Ok(())
}

/// Has one agent remember all facts.
async fn store(hub: &HubProcess, keys: &KeyPair, corpus: &Corpus) -> anyhow::Result<()> {
    let mut writers = JoinSet::new();
    let share = corpus.facts.len().div_ceil(WRITERS).max(1);
    for facts in corpus.facts.chunks(share) {
        let mut socket = Socket::login(hub.addr, keys, "writer").await?;
        let facts = facts.to_vec();
        writers.spawn(async move {
            for fact in facts {
                let frame = json!({"op": "remember", "fact": {"text": fact}});
                socket.done(&frame).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = writers.join_next().await {
        done.context("a writer panicked")??;
    }
    Ok(())
}
