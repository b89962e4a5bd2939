//! The schema's versions: numbered SQL files, applied in order, one transaction each.
//!
//! `PRAGMA user_version` holds the number of the last one applied, `application_id` says that the
//! file is ours, and the table `migrations` has a checksum of each: a migration that was released is
//! never edited, the next one is a new file, and a database that another text made is refused.
//! Refuses to touch a database that a newer program wrote, or that is not a Parler database.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use parler_store::StoreError;
use rusqlite::{Connection, TransactionBehavior, params};
use sha2::{Digest as _, Sha256};

use crate::error::store_error;

/// The migrations: the first brings an empty file to version 1, and so on.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_init.sql"),
    include_str!("../migrations/0002_directory.sql"),
    include_str!("../migrations/0003_services.sql"),
    include_str!("../migrations/0004_turns.sql"),
    include_str!("../migrations/0005_memory.sql"),
    include_str!("../migrations/0006_blobs.sql"),
    include_str!("../migrations/0007_tokens.sql"),
    include_str!("../migrations/0008_upkeep.sql"),
];

/// `application_id` in the header of our databases: "Prlr".
const APPLICATION_ID: i32 = 0x5072_6c72;

/// SQLite's header: its magic at 0, `user_version` at 60, `application_id` at 68, big-endian.
const HEADER_LEN: usize = 72;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The newest version that this program knows.
pub(crate) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("a handful of migrations")
}

/// Looks at the file itself, before SQLite opens it: opening already replays or folds its log.
///
/// A missing or empty file passes; so does one whose header cannot be judged yet.
pub(crate) fn check_file(path: &Path) -> Result<(), StoreError> {
    let open = |reason: String| StoreError::Open {
        path: path.to_owned(),
        reason,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(open(e.to_string())),
    };
    let mut header = Vec::with_capacity(HEADER_LEN);
    file.take(HEADER_LEN as u64)
        .read_to_end(&mut header)
        .map_err(|e| open(e.to_string()))?;
    if header.is_empty() {
        return Ok(());
    }
    if header.len() < HEADER_LEN || header[..16] != MAGIC[..] {
        return Err(open(
            "it is not an SQLite database; name another file with --db".into(),
        ));
    }
    let word = |at: usize| i32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
    judge(path, i64::from(word(60)), word(68))
}

/// Checks an opened database, without changing it: a log beside the file may hold newer marks than
/// the file itself.
pub(crate) fn check(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let found = mark(conn, "user_version")?;
    let application = i32::try_from(mark(conn, "application_id")?).unwrap_or_default();
    if (found, application) == (0, 0) {
        return refuse_foreign_tables(conn, path);
    }
    judge(path, found, application)
}

/// Checks that the migrations that made a database are those that this program knows.
pub(crate) fn check_history(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    const FIND: &str = "SELECT checksum FROM migrations WHERE version = ?1";
    for (version, migration) in (1..).zip(MIGRATIONS.iter().take(done(conn)?)) {
        let stored: Vec<u8> = conn
            .query_row(FIND, [version], |row| row.get(0))
            .map_err(|e| store_error(&e))?;
        if stored != checksum(migration) {
            return Err(StoreError::Open {
                path: path.to_owned(),
                reason: format!(
                    "another build made it (migration {version} differs): use that one, or another --db"
                ),
            });
        }
    }
    Ok(())
}

/// How many migrations were applied.
fn done(conn: &Connection) -> Result<usize, StoreError> {
    Ok(usize::try_from(mark(conn, "user_version")?).unwrap_or(0))
}

/// A checksum that does not depend on how the sources were checked out.
fn checksum(migration: &str) -> Vec<u8> {
    Sha256::digest(migration.replace('\r', "")).to_vec()
}

/// Brings a checked database to the newest version.
pub(crate) fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    for (number, migration) in MIGRATIONS.iter().enumerate().skip(done(conn)?) {
        let version = i64::try_from(number + 1).expect("a handful of migrations");
        apply(conn, migration, version).map_err(|e| store_error(&e))?;
        tracing::info!(version, "the database's schema is at a new version");
    }
    Ok(())
}

fn apply(conn: &mut Connection, migration: &str, version: i64) -> rusqlite::Result<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(migration)?;
    tx.execute(
        "INSERT INTO migrations (version, checksum) VALUES (?1, ?2)",
        params![version, checksum(migration)],
    )?;
    tx.pragma_update(None, "user_version", version)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.commit()
}

fn mark(conn: &Connection, pragma: &str) -> Result<i64, StoreError> {
    conn.pragma_query_value(None, pragma, |row| row.get(0))
        .map_err(|e| store_error(&e))
}

/// Whether a database with these marks is one that this program may write.
fn judge(path: &Path, found: i64, application: i32) -> Result<(), StoreError> {
    if application != APPLICATION_ID && (application, found) != (0, 0) {
        return Err(foreign(path));
    }
    if found > known() {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found,
            known: known(),
        });
    }
    Ok(())
}

/// A database without our marks may only be an empty one.
fn refuse_foreign_tables(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let tables: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|e| store_error(&e))?;
    if tables > 0 {
        return Err(foreign(path));
    }
    Ok(())
}

fn foreign(path: &Path) -> StoreError {
    StoreError::Open {
        path: path.to_owned(),
        reason: "it is a database of another program; name another file with --db".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> (tempfile::TempDir, std::path::PathBuf, Connection) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hub.sqlite");
        let mut conn = Connection::open(&path).unwrap();
        migrate(&mut conn).unwrap();
        (dir, path, conn)
    }

    #[test]
    fn an_empty_file_is_brought_to_the_newest_version_once() {
        let (_dir, path, mut conn) = opened();
        let version: i64 = conn
            .pragma_query_value(None, "user_version", |r| r.get(0))
            .unwrap();
        assert_eq!(version, known());
        migrate(&mut conn).unwrap();
        check(&conn, &path).unwrap();
        check_file(&path).unwrap();
    }

    #[test]
    fn a_newer_database_is_refused_by_its_bytes_and_by_its_pragma() {
        let (_dir, path, conn) = opened();
        conn.pragma_update(None, "user_version", 99).unwrap();
        for refused in [check_file(&path), check(&conn, &path)] {
            assert!(
                matches!(refused, Err(StoreError::Newer { found: 99, .. })),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_database_that_another_text_made_is_refused() {
        let (_dir, path, conn) = opened();
        check_history(&conn, &path).unwrap();
        conn.execute("UPDATE migrations SET checksum = zeroblob(32)", [])
            .unwrap();
        let refused = check_history(&conn, &path).unwrap_err();
        assert!(
            refused.to_string().contains("migration 1 differs"),
            "{refused}"
        );
    }

    #[test]
    fn what_is_not_a_parler_database_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("notes.txt");
        std::fs::write(&text, "hello").unwrap();
        assert!(matches!(check_file(&text), Err(StoreError::Open { .. })));

        let other = dir.path().join("other.sqlite");
        let conn = Connection::open(&other).unwrap();
        conn.execute_batch("CREATE TABLE t (x)").unwrap();
        let refused = check(&conn, &other);
        assert!(
            matches!(refused, Err(StoreError::Open { .. })),
            "{refused:?}"
        );
        conn.pragma_update(None, "user_version", 1).unwrap();
        assert!(matches!(check_file(&other), Err(StoreError::Open { .. })));
    }
}
