//! One identity, however many processes start at once on an empty home.
//!
//! The test binary starts itself: a child is this same test with [`KEY_FILE`] set. All children
//! wait on their standard input until the last of them is there.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use parler_identity::keyfile::load_key;
use parler_identity::load_or_create_key;

const KEY_FILE: &str = "PARLER_TEST_KEY_FILE";
const PROCESSES: usize = 20;
const THREADS: usize = 4;
const ROUNDS: usize = 5;

#[test]
fn twenty_processes_that_start_at_once_get_one_identity() {
    if let Some(path) = std::env::var_os(KEY_FILE) {
        return child(Path::new(&path));
    }
    let home = tempfile::tempdir().unwrap();
    for round in 0..ROUNDS {
        // The directory is missing too.
        let path = home.path().join(format!("home-{round}")).join("agent.key");
        let mut children: Vec<_> = (0..PROCESSES).map(|_| start(&path)).collect();
        for child in &mut children {
            child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        }
        let ids: Vec<_> = children.into_iter().flat_map(ids_of).collect();
        assert_eq!(ids.len(), PROCESSES * THREADS);
        let different: HashSet<_> = ids.into_iter().collect();
        assert_eq!(different.len(), 1, "{different:?}");
        let kept = load_key(&path).unwrap().unwrap();
        assert!(different.contains(kept.id().as_str()));
        let names = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(names, 1, "no temporary file is left");
    }
}

fn start(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("twenty_processes_that_start_at_once_get_one_identity")
        .env(KEY_FILE, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn ids_of(mut child: Child) -> Vec<String> {
    let output = BufReader::new(child.stdout.take().unwrap());
    let ids = output
        .lines()
        .filter_map(|line| Some(line.unwrap().split_once("id=")?.1.to_owned()))
        .collect();
    assert!(child.wait().unwrap().success());
    ids
}

/// What each process does: threads race inside it as well.
fn child(path: &Path) {
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let ids: Vec<_> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| load_or_create_key(path).unwrap().id().to_string()))
            .collect();
        racers.into_iter().map(|r| r.join().unwrap()).collect()
    });
    for id in ids {
        println!("\nid={id}");
    }
}
