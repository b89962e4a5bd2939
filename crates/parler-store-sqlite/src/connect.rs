//! How a connection is opened: flags and pragmas, nothing else.

use std::path::Path;
use std::time::Duration;

use parler_store::StoreError;
use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::Durability;
use crate::checkpoint::LOG_FILE_BYTES;
use crate::error::store_error;

/// How long a statement waits for another program (a backup, the `sqlite3` tool) that holds the
/// database. Our own connections never wait for each other.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Prepared statements that a connection keeps: all that this crate has.
const STATEMENTS: usize = 64;
/// Page cache of the writer in KiB: the tails of many rooms' indexes.
const WRITER_CACHE_KIB: i64 = 8192;
/// Page cache of a reader in KiB. It is dropped whenever the writer commits, so more is wasted.
const READER_CACHE_KIB: i64 = 1024;

/// Opens the connection that will write, without changing anything yet.
pub(crate) fn writer(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = open(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT).map_err(sql)?;
    // Until the schema was found to be ours, not even closing may fold the log into the file.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(sql)?;
    Ok(conn)
}

/// Makes the writer's connection ready, once the database is known to be ours.
pub(crate) fn prepare_writer(
    conn: &Connection,
    path: &Path,
    durability: Durability,
) -> Result<(), StoreError> {
    let mode: Result<String, _> =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
    let why = match mode {
        Ok(mode) if mode.eq_ignore_ascii_case("wal") => None,
        Ok(mode) => Some(format!("journal mode {mode}")),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why {
        return Err(StoreError::Open {
            path: path.to_owned(),
            reason: format!(
                "its folder does not support a write-ahead log ({why}): network folders do not; \
                 put the database on a local disk (--db)"
            ),
        });
    }
    // As numbers, because that is how SQLite tells them back.
    let synchronous = match durability {
        Durability::Full => 2,
        Durability::Normal => 1,
    };
    insist(conn, path, "synchronous", synchronous)?;
    insist(conn, path, "foreign_keys", 1)?;
    insist(conn, path, "wal_autocheckpoint", 0)?;
    set(conn, "journal_size_limit", LOG_FILE_BYTES)?;
    set(conn, "cache_size", -WRITER_CACHE_KIB)?;
    set(conn, "temp_store", "MEMORY")?;
    set(conn, "trusted_schema", "OFF")?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
        .map_err(sql)?;
    Ok(())
}

/// Opens the connection of the checkpoint thread.
pub(crate) fn folder(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = open(path, flags)?;
    set(&conn, "query_only", "ON")?;
    set(&conn, "wal_autocheckpoint", 0)?;
    // A checkpoint syncs the log before it copies and the database after, from NORMAL on.
    set(&conn, "synchronous", "NORMAL")?;
    Ok(conn)
}

/// Opens one of the readers' connections.
pub(crate) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = open(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT).map_err(sql)?;
    set(&conn, "cache_size", -READER_CACHE_KIB)?;
    set(&conn, "temp_store", "MEMORY")?;
    set(&conn, "trusted_schema", "OFF")?;
    Ok(conn)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let conn = Connection::open_with_flags(path, flags).map_err(|error| StoreError::Open {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(conn)
}

/// Sets a pragma that the store's promises rest on, and makes sure that it took.
fn insist(conn: &Connection, path: &Path, pragma: &str, value: i64) -> Result<(), StoreError> {
    set(conn, pragma, value)?;
    let now: i64 = conn
        .pragma_query_value(None, pragma, |row| row.get(0))
        .map_err(sql)?;
    if now != value {
        return Err(StoreError::Open {
            path: path.to_owned(),
            reason: format!("SQLite keeps {pragma} at {now} instead of {value}"),
        });
    }
    Ok(())
}

fn set(conn: &Connection, pragma: &str, value: impl rusqlite::ToSql) -> Result<(), StoreError> {
    // Some pragmas answer with the new value, some do not: ignore it either way.
    conn.pragma_update(None, pragma, value).map_err(sql)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as a function in map_err"
)]
fn sql(error: rusqlite::Error) -> StoreError {
    store_error(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_durability_is_its_own_setting() {
        let folder = tempfile::tempdir().unwrap();
        for (durability, expected) in [(Durability::Full, 2), (Durability::Normal, 1)] {
            let path = folder.path().join(format!("{expected}"));
            let conn = writer(&path).unwrap();
            prepare_writer(&conn, &path, durability).unwrap();
            let set: (String, i64, i64) = conn
                .query_row(
                    "SELECT journal_mode, synchronous, foreign_keys
                        FROM pragma_journal_mode, pragma_synchronous, pragma_foreign_keys",
                    [],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
                )
                .unwrap();
            assert_eq!(set, ("wal".to_owned(), expected, 1));
        }
    }

    #[test]
    fn a_reader_and_the_folder_cannot_write() {
        let folder_path = tempfile::tempdir().unwrap();
        let path = folder_path.path().join("hub.sqlite");
        let conn = writer(&path).unwrap();
        prepare_writer(&conn, &path, Durability::Full).unwrap();
        conn.execute_batch("CREATE TABLE t (x)").unwrap();
        for conn in [reader(&path).unwrap(), folder(&path).unwrap()] {
            assert!(conn.execute_batch("INSERT INTO t VALUES (1)").is_err());
        }
    }
}
