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
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    set(conn, "synchronous", synchronous)?;
    set(conn, "foreign_keys", "ON")?;
    set(conn, "wal_autocheckpoint", 0)?;
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
