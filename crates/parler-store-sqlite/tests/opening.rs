//! Whose database it is, how old it is, and what stays behind.
#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod support;

use std::path::{Path, PathBuf};

use parler_store::{Store, StoreError};
use parler_store_sqlite::{Durability, SqliteStore};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use support::{agent, draft, log, open, open_room, options, stored};

fn refused(path: &Path) -> StoreError {
    match SqliteStore::open(options(path, Durability::Full)) {
        Err(error) => error,
        Ok(_) => panic!("{} was opened", path.display()),
    }
}

/// Names and bytes of everything in a folder, locks excepted.
fn bytes(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = paths
        .filter(|path| path.extension().is_none_or(|end| end != "lock"))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn a_second_hub_is_refused_and_told_who_has_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sqlite");
    let first = open(&path);
    let mut spellings = vec![path.clone(), folder.path().join("./x/../hub.sqlite")];
    std::fs::create_dir(folder.path().join("x")).unwrap();
    #[cfg(unix)]
    {
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        spellings.push(link);
    }
    for spelling in spellings {
        let error = refused(&spelling);
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        assert!(error.to_string().contains("127.0.0.1:7070"), "{error}");
    }
    first.ping().await.unwrap();
    first.close().await.unwrap();
    // Closed, though not dropped yet: it lets go at once.
    drop(open(&path));
    drop(open(&path));
}

#[tokio::test]
async fn everything_is_there_after_a_drop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sqlite");
    let a = agent(0);
    let store = open(&path);
    open_room(&store, "r", &a, [1; 32]).await;
    let entry = stored(store.append(draft("r", &a, "k")).await.unwrap());
    // Queued, and nobody waits for it.
    let committing = store.submit(draft("r", &a, "l")).await.unwrap();
    drop(store);
    let store = open(&path);
    let read = log(&store, "r", &a).await;
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].json, entry.json);
    assert_eq!(read[1].json, stored(committing.await.unwrap()).json);
}

#[tokio::test]
async fn a_closed_database_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sqlite");
    let a = agent(0);
    for close in [true, false] {
        let store = open(&path);
        open_room(&store, "r", &a, [u8::from(close); 32]).await;
        store.rooms(&a).await.unwrap();
        if close {
            store.close().await.unwrap();
        }
        drop(store);
        let left: Vec<_> = bytes(folder.path()).into_iter().map(|(p, _)| p).collect();
        assert_eq!(left, [path.canonicalize().unwrap()]);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_may_read_the_database_and_its_log() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sqlite");
    let store = open(&path);
    open_room(&store, "r", &agent(0), [1; 32]).await;
    let mut seen = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.path());
        seen += 1;
    }
    assert_eq!(seen, 4, "database, log, its index, lock");
}

#[test]
fn a_newer_database_is_refused_and_not_a_byte_of_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sqlite");
    drop(open(&path));
    let conn = Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let before = bytes(folder.path());
    let error = refused(&path);
    let newer = matches!(&error, StoreError::Newer { found: 99, .. });
    assert!(newer, "{error}");
    assert!(bytes(folder.path()) == before, "something was changed");
}

#[test]
fn a_newer_version_that_is_still_in_the_log_is_noticed_and_stays_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sqlite");
    drop(open(&path));
    // What a newer program leaves that was killed after its migration.
    let crashed = folder.path().join("crashed.sqlite");
    let conn = Connection::open(&path).unwrap();
    let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    conn.set_db_config(keep, true).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    for end in ["", "-wal"] {
        let from = format!("{}{end}", path.display());
        std::fs::copy(from, format!("{}{end}", crashed.display())).unwrap();
    }
    drop(conn);
    let log = PathBuf::from(format!("{}-wal", crashed.display()));
    let before = [std::fs::read(&crashed), std::fs::read(&log)].map(Result::unwrap);
    let error = refused(&crashed);
    let newer = matches!(&error, StoreError::Newer { found: 99, .. });
    assert!(newer, "{error}");
    let after = [std::fs::read(&crashed), std::fs::read(&log)].map(Result::unwrap);
    assert!(after == before, "something was changed");
}

#[test]
fn what_is_no_database_of_ours_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(
        &text,
        "not a database, but longer than the header of one: ".repeat(9),
    )
    .unwrap();
    let short = folder.path().join("short");
    std::fs::write(&short, "SQLite format 3\0").unwrap();
    let theirs = folder.path().join("theirs.sqlite");
    let conn = Connection::open(&theirs).unwrap();
    conn.execute_batch("CREATE TABLE t (x)").unwrap();
    drop(conn);
    let before = bytes(folder.path());
    for path in [&text, &short, &theirs] {
        let error = refused(path);
        assert!(matches!(error, StoreError::Open { .. }), "{error}");
        assert!(error.to_string().contains("--db"), "{error}");
    }
    assert!(bytes(folder.path()) == before, "something was changed");
    assert!(!folder.path().join("notes.txt.lock").exists());

    for path in [
        folder.path().to_owned(),
        folder.path().join("missing/hub.sqlite"),
        PathBuf::from("/"),
    ] {
        let error = refused(&path);
        assert!(matches!(error, StoreError::Open { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_damaged_database_is_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sqlite");
    let a = agent(0);
    let store = open(&path);
    open_room(&store, "r", &a, [1; 32]).await;
    store.append(draft("r", &a, "k")).await.unwrap();
    store.close().await.unwrap();
    let whole = std::fs::read(&path).unwrap();
    let roots = roots(&path, &["members", "messages"]);

    let mut damaged = whole.clone();
    damaged[4096..].fill(0xa5);
    std::fs::write(&path, &damaged).unwrap();
    let error = refused(&path);
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");

    let mut damaged = whole;
    for root in roots {
        damaged[(root - 1) * 4096..root * 4096].fill(0xa5);
    }
    std::fs::write(&path, &damaged).unwrap();
    let store = open(&path);
    let error = store.rooms(&a).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    let error = store.append(draft("r", &a, "l")).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
}

/// The first pages of some tables.
fn roots(path: &Path, tables: &[&str]) -> Vec<usize> {
    const FIND: &str = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let conn = Connection::open(path).unwrap();
    let root = |table| conn.query_row(FIND, [table], |row| row.get::<_, i64>(0));
    let roots = tables.iter().map(|table| root(table).unwrap());
    roots.map(|root| usize::try_from(root).unwrap()).collect()
}
