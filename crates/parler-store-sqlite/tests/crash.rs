//! A process that is killed in the middle of its work: what it had answered is there, once.
#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod support;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parler_protocol::{RoomName, Seq};
use parler_store::{Appended, Store};
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
        "full" => Durability::Full,
        _ => Durability::Normal,
    };
    let (number, path) = path.split_once(' ').unwrap();
    let store = SqliteStore::open(options(Path::new(path), durability)).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let authors = (0..AUTHORS).map(|n| {
        let (store, number) = (Arc::clone(&store), number.to_owned());
        tokio::spawn(async move {
            let (author, room) = (agent(n), RoomName::new("r"));
            for m in 0.. {
                let key = format!("{number}-{n}-{m}");
                let entry = stored(store.append(draft("r", &author, &key)).await.unwrap());
                say(&format!("stored {key} {}", entry.seq));
                if m % 5 == 4 {
                    store.advance(&room, &author, entry.seq).await.unwrap();
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
            let cursor = store.advance(&room, &who, Seq(0)).await.unwrap();
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

#[tokio::test]
async fn what_a_killed_process_had_answered_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("hub.sqlite");
    let store = open(&path);
    open_room(&store, "r", &agent(0), [1; 32]).await;
    for n in 1..AUTHORS {
        store.redeem([1; 32], &agent(n), 0).await.unwrap();
    }
    store.close().await.unwrap();

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
