//! A process that is killed in the middle of its work, or whose disk is full: what it had answered is
//! there, once.
#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod support;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parler_protocol::{RoomName, Seq};
use parler_store::{Append, Appended, Store, StoreError};
use parler_store_sqlite::{Durability, SqliteStore};

use support::{agent, draft, log, open, open_room, options, stored};

/// Where the child finds its database and what it is to do.
const CHILD: &str = "PARLER_TEST_CRASH_CHILD";
const ROUNDS: usize = 8;
const AUTHORS: u8 = 16;

/// Says something on a line that the parent understands. All of it is written at once.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n#{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Not a test: what the child process runs until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test that kills it"]
async fn child() {
    let Ok(job) = std::env::var(CHILD) else {
        return;
    };
    let (durability, path) = job.split_once(' ').unwrap();
    let durability = match durability {
        "normal" => Durability::Normal,
        _ => Durability::Full,
    };
    let (number, path) = path.split_once(' ').unwrap();
    let store = SqliteStore::open(options(Path::new(path), durability)).unwrap();
    if job.starts_with("limited") {
        fill(&store).await;
    } else {
        work(Arc::new(store), number).await;
    }
}

/// Appends until the files may not grow any more, and some more then.
async fn fill(store: &SqliteStore) {
    let (mut stored_ids, mut refused) = (Vec::new(), 0);
    for n in 0.. {
        let message = Append {
            parts: format!("[\"{}\"]", "x".repeat(50_000)).into(),
            ..draft("r", &agent(0), &n.to_string())
        };
        match store.append(message).await {
            Ok(outcome) => {
                let entry = stored(outcome);
                say(&format!("stored {n} {}", entry.seq));
                stored_ids.push(entry.id);
            }
            Err(StoreError::Unavailable(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        if refused == 20 {
            break;
        }
    }
    // Reading goes on, and sees what was stored and nothing else.
    let read = log(store, "r", &agent(0)).await.into_iter().map(|e| e.id);
    assert_eq!(read.collect::<Vec<_>>(), stored_ids);
    let row = store.rooms(&agent(0)).await.unwrap().remove(0);
    assert_eq!(row.unread as usize, stored_ids.len());
    say("filled 0 0");
}

/// Appends and reads with many authors, for ever.
async fn work(store: Arc<dyn Store>, number: &str) {
    let authors = (0..AUTHORS).map(|n| {
        let (store, number) = (Arc::clone(&store), number.to_owned());
        tokio::spawn(async move {
            let (author, room) = (agent(n), RoomName::new("r"));
            for m in 0.. {
                let key = format!("{number}-{n}-{m}");
                let entry = stored(store.append(draft("r", &author, &key)).await.unwrap());
                say(&format!("stored {key} {}", entry.seq));
                if m % 5 == 4 {
                    store.advance(&room, &author, entry.seq, 0).await.unwrap();
                    say(&format!("read {n} {}", entry.seq));
                }
            }
        })
    });
    for author in authors.collect::<Vec<_>>() {
        author.await.unwrap();
    }
}

fn start(path: &Path, durability: &str, round: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD, format!("{durability} {round} {}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What all children were answered.
#[derive(Default)]
struct Answered {
    stored: HashMap<String, i64>,
    read: HashMap<u8, i64>,
}

impl Answered {
    /// Listens to a child, kills it after so many answers, and hears what it had said by then.
    fn listen(&mut self, mut child: Child, kill_after: usize) {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = 0;
        // The last line may be torn; then it has no number that parses, or was not said at all.
        for line in lines.map_while(Result::ok) {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("#stored"), Some(key), Some(seq)) => {
                    self.stored.insert(key.to_owned(), seq.parse().unwrap());
                }
                (Some("#read"), Some(who), Some(seq)) => {
                    self.read.insert(who.parse().unwrap(), seq.parse().unwrap());
                }
                _ => continue,
            }
            heard += 1;
            if heard == kill_after {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(heard >= kill_after, "the child ended by itself");
    }

    async fn check(&self, store: &dyn Store) {
        let room = RoomName::new("r");
        let log = log(store, "r", &agent(0)).await;
        let places: HashMap<&str, i64> = log.iter().map(|e| (&e.id[2..], e.seq.0)).collect();
        assert_eq!(places.len(), log.len(), "a message is stored twice");
        for (key, seq) in &self.stored {
            assert_eq!(places.get(key.as_str()), Some(seq), "{key}");
        }
        let distinct: HashSet<i64> = log.iter().map(|e| e.seq.0).collect();
        assert_eq!(distinct.len(), log.len());
        for n in 0..AUTHORS {
            let who = agent(n);
            let cursor = store.advance(&room, &who, Seq(0), 0).await.unwrap();
            let answered = self.read.get(&n).copied().unwrap_or(0);
            assert!(cursor.0 >= answered, "{n}: {cursor} < {answered}");
            let above = || log.iter().filter(|e| e.seq > cursor);
            let row = store.rooms(&who).await.unwrap().remove(0);
            assert_eq!(row.unread as usize, above().count());
            let others = above().filter(|e| e.author != who).count();
            assert_eq!(row.unread_others as usize, others);
        }
        self.check_repeats(store).await;
    }

    /// Whoever asks again gets the same answer.
    async fn check_repeats(&self, store: &dyn Store) {
        for (key, seq) in self.stored.iter().take(50) {
            let author = key.split('-').nth(1).unwrap().parse().unwrap();
            let again = store.append(draft("r", &agent(author), key)).await.unwrap();
            match again {
                Appended::Repeat { seq: same, .. } => assert_eq!(same.0, *seq),
                other => panic!("{key}: {other:?}"),
            }
        }
    }
}

/// A room with all authors in it.
async fn prepare(path: &Path) {
    let store = open(path);
    open_room(&store, "r", &agent(0), [1; 32]).await;
    for n in 1..AUTHORS {
        store.redeem([1; 32], &agent(n), 0).await.unwrap();
    }
    store.close().await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn what_was_answered_before_the_disk_was_full_is_there_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("hub.sqlite");
    prepare(&path).await;
    // A file may have 4 MiB; beyond that writes fail half-way, as on a full disk.
    let limited = r#"trap "" XFSZ; ulimit -f 8192; exec "$0" "$@""#;
    let child = Command::new("sh")
        .args(["-c", limited])
        .arg(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD, format!("limited 0 {}", path.display()))
        .output()
        .unwrap();
    let said = String::from_utf8(child.stdout).unwrap();
    let wrong = String::from_utf8_lossy(&child.stderr);
    assert!(said.contains("#filled"), "{wrong}");
    let answered = said.lines().filter_map(|l| l.strip_prefix("#stored "));
    let answered: Vec<(&str, &str)> = answered.map(|l| l.split_once(' ').unwrap()).collect();
    assert!(answered.len() > 20, "only {} were stored", answered.len());

    let store = open(&path);
    let log = log(&store, "r", &agent(0)).await;
    let log: Vec<_> = log
        .iter()
        .map(|e| (&e.id[2..], e.seq.to_string()))
        .collect();
    let log: Vec<(&str, &str)> = log.iter().map(|(id, seq)| (*id, seq.as_str())).collect();
    assert_eq!(log, answered);
    // With room again it goes on.
    stored(store.append(draft("r", &agent(0), "k")).await.unwrap());
}

#[tokio::test]
async fn what_a_killed_process_had_answered_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("hub.sqlite");
    prepare(&path).await;
    let mut answered = Answered::default();
    for round in 0..ROUNDS {
        let durability = ["full", "normal"][round % 2];
        let child = start(&path, durability, round);
        answered.listen(child, 37 + 271 * round);
        let store = open(&path);
        answered.check(&store).await;
        store.close().await.unwrap();
    }
}
