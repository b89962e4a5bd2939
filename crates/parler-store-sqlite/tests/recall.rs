//! What the suite cannot see of recall, and rough figures of it on demand: `cargo test -p
//! parler-store-sqlite --test recall -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod support;

use std::time::{Duration, Instant};

use parler_protocol::RoomName;
use parler_store::{Find, MemoryStore, NewFact, Recall, RememberOutcome, Store};
use parler_store_sqlite::{Durability, SqliteStore};

use support::{agent, open_room, options};

/// Facts in one agent's private memory.
const FACTS: u64 = 100_000;
/// Words of a fact, one of them the same in all.
const WORDS: usize = 25;
/// Different words. The n-th most frequent one is about n times as rare as the first.
const VOCABULARY: u64 = 50_000;

/// A small generator of numbers: the same ones each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    /// The number of a word: small ones often, each doubling as likely as the one before.
    fn word(&mut self) -> u64 {
        let most = u64::from(VOCABULARY.ilog2()) + 1;
        let bits = self.below(most);
        ((1 << bits) + self.below(1 << bits)).min(VOCABULARY)
    }
}

/// Words that begin in different ways.
fn spelled(mut n: u64) -> String {
    let mut word = String::new();
    n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
    for _ in 0..7 {
        word.push(char::from(b'a' + u8::try_from(n % 26).unwrap()));
        n /= 26;
    }
    word
}

fn fact(text: String, embedding: Option<Vec<f32>>) -> NewFact {
    NewFact {
        author: agent(0),
        room: None,
        key: None,
        text,
        embedding,
        embedding_model: None,
        max_keyed: 0,
        now: 0,
    }
}

async fn recall(store: &SqliteStore, text: &str, embedding: Option<Vec<f32>>) -> Duration {
    let recall = Recall {
        agent: agent(0),
        room: None,
        find: Find::Like {
            text: text.to_owned(),
            embedding,
        },
        limit: 8,
    };
    let start = Instant::now();
    let hits = store.recall(recall).await.unwrap().unwrap();
    let took = start.elapsed();
    assert!(!hits.is_empty(), "{text}");
    took
}

async fn remember_all(store: &SqliteStore, facts: impl Iterator<Item = NewFact>) {
    let facts: Vec<NewFact> = facts.collect();
    for some in facts.chunks(500) {
        let all = some.iter().map(|fact| store.remember(fact.clone()));
        for one in futures(all).await {
            one.unwrap();
        }
    }
}

/// Drives all of them at once.
async fn futures<T>(
    all: impl Iterator<Item = parler_store::StoreFuture<'_, T>>,
) -> Vec<Result<T, parler_store::StoreError>> {
    let mut waiting: Vec<_> = all.map(Some).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|cx| {
        for slot in &mut waiting {
            if let Some(future) = slot
                && let std::task::Poll::Ready(value) = future.as_mut().poll(cx)
            {
                done.push(value);
                *slot = None;
            }
        }
        if waiting.iter().all(Option::is_none) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done
}

fn told(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!(
        "{what}: p50 {:?}, p99 {:?}, most {:?}",
        at(50),
        at(99),
        at(100)
    );
}

async fn texts(store: &SqliteStore, text: &str) -> Vec<String> {
    let recall = Recall {
        agent: agent(0),
        room: None,
        find: Find::Like {
            text: text.to_owned(),
            embedding: None,
        },
        limit: 50,
    };
    let hits = store.recall(recall).await.unwrap().unwrap();
    hits.into_iter().map(|hit| hit.text).collect()
}

#[tokio::test]
async fn a_search_goes_through_all_shelves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sqlite");
    for (n, written) in [(0, 32_767), (1, 65_536), (2, 1_000_000), (3, 0)] {
        let store = SqliteStore::open(options(&path, Durability::Normal)).unwrap();
        let keyed = NewFact {
            key: Some("k".into()),
            max_keyed: 1,
            ..fact(format!("tapir keyed {n}"), None)
        };
        store.remember(keyed).await.unwrap();
        let text = format!("tapir {n}");
        store.remember(fact(text.clone(), None)).await.unwrap();
        store.remember(fact(text, None)).await.unwrap();
        assert_eq!(texts(&store, "keyed").await, [format!("tapir keyed {n}")]);
        assert_eq!(texts(&store, "tapir").await.len(), 1 + 2 * (n + 1));
        store.close().await.unwrap();
        let database = rusqlite::Connection::open(&path).unwrap();
        let move_on = "UPDATE fact_scopes SET written = ?1";
        assert_eq!(database.execute(move_on, [written]).unwrap(), 1);
    }
    let database = rusqlite::Connection::open(&path).unwrap();
    let shelves = "SELECT count(DISTINCT shelf) FROM facts";
    let shelves: i64 = database.query_row(shelves, [], |row| row.get(0)).unwrap();
    assert_eq!(shelves, 4);
}

#[tokio::test]
async fn an_erased_room_leaves_no_words_and_no_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sqlite");
    let store = SqliteStore::open(options(&path, Durability::Normal)).unwrap();
    open_room(&store, "r", &agent(0), [1; 32]).await;
    for _ in 0..3 {
        let fact = NewFact {
            room: Some(RoomName::new("r")),
            ..fact("numbat".into(), Some(vec![0.5; 768]))
        };
        let outcome = store.remember(fact).await.unwrap();
        assert_eq!(outcome, RememberOutcome::Remembered);
    }
    let deleted = store.delete_room(&RoomName::new("r"), &agent(0)).await;
    assert!(deleted.unwrap().is_some());
    store.close().await.unwrap();
    let database = rusqlite::Connection::open(&path).unwrap();
    let check = "INSERT INTO fact_words (fact_words) VALUES ('integrity-check')";
    database.execute(check, []).unwrap();
    for table in ["facts", "fact_scopes", "fact_vectors", "fact_words_docsize"] {
        let count = format!("SELECT count(*) FROM {table}");
        let left: i64 = database.query_row(&count, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn words() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("hub.sqlite");
    let store = SqliteStore::open(options(&path, Durability::Full)).unwrap();
    let mut numbers = Numbers(7);
    let mut stands_in = vec![0_u32; usize::try_from(VOCABULARY).unwrap() + 1];
    let facts: Vec<NewFact> = (0..FACTS)
        .map(|_| {
            let mut words: Vec<u64> = (1..WORDS).map(|_| numbers.word()).collect();
            let text: Vec<String> = words.iter().map(|n| spelled(*n)).collect();
            words.sort_unstable();
            words.dedup();
            for word in words {
                stands_in[usize::try_from(word).unwrap()] += 1;
            }
            fact(format!("everywhere {}", text.join(" ")), None)
        })
        .collect();
    let start = Instant::now();
    remember_all(&store, facts.into_iter()).await;
    let size = std::fs::metadata(&path).unwrap().len() / 1_000_000;
    println!("{FACTS} facts kept in {:?}, {size} MB", start.elapsed());
    let most = u32::try_from(FACTS / 100).unwrap();
    let rare: Vec<u64> = (1..=VOCABULARY)
        .filter(|n| (1..=most).contains(&stands_in[usize::try_from(*n).unwrap()]))
        .collect();
    for words in 1..=3 {
        let mut took = Vec::new();
        for _ in 0..500 {
            let pick = |_| {
                let at = numbers.below(rare.len() as u64);
                spelled(rare[usize::try_from(at).unwrap()])
            };
            let query: Vec<String> = (0..words).map(pick).collect();
            took.push(recall(&store, &query.join(" "), None).await);
        }
        told(&format!("{words} words that stand in at most {most}"), took);
    }
    let common: Vec<String> = (1..=31).map(spelled).collect();
    for (what, query) in [
        ("a word that stands in all", "everywhere".to_owned()),
        ("the most common other word", common[0].clone()),
        ("three common words", common[..3].join(" ")),
        ("one letter", "e".to_owned()),
        ("three letters", "e a s".to_owned()),
        (
            "32 words, all common",
            format!("everywhere {}", common.join(" ")),
        ),
    ] {
        let mut took = Vec::new();
        for _ in 0..20 {
            took.push(recall(&store, &query, None).await);
        }
        told(what, took);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn vectors() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("hub.sqlite");
    let store = SqliteStore::open(options(&path, Durability::Full)).unwrap();
    let mut numbers = Numbers(7);
    let mut point = || {
        let number = |_| f32::from(u16::try_from(numbers.below(1000)).unwrap()) / 1000.0;
        (0..768).map(number).collect::<Vec<f32>>()
    };
    let facts: Vec<NewFact> = (0..10_000)
        .map(|n| fact(format!("fact {n}"), Some(point())))
        .collect();
    let start = Instant::now();
    remember_all(&store, facts.into_iter()).await;
    println!("10000 facts with vectors kept in {:?}", start.elapsed());
    let mut took = Vec::new();
    for _ in 0..50 {
        took.push(recall(&store, "", Some(point())).await);
    }
    told("nearest of 10000 × 768", took);
}
