//! The one place where SQLite's errors become the store's.

use parler_store::StoreError;
use rusqlite::ErrorCode;

/// Why a step on the writer did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// SQL failed: the whole transaction is rolled back, everybody in it gets the error.
    Sql(rusqlite::Error),
    /// Refused before anything was written: only this caller gets the error.
    Refused(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sql(error)
    }
}

/// Says in the store's terms what SQLite said.
///
/// Whatever is not known to mean damage is [`StoreError::Unavailable`]: nothing was stored, and
/// trying again may help.
pub(crate) fn store_error(error: &rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) => {
            return StoreError::Corrupt(format!("a stored value cannot be read: {error}"));
        }
        _ => {}
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt(error.to_string())
        }
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(format!("no space is left ({error})")),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unavailable(format!("another program holds the database ({error})"))
        }
        _ => StoreError::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn sqlite(code: std::ffi::c_int) -> StoreError {
        store_error(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn a_full_disk_can_be_retried_and_damage_cannot() {
        for code in [
            ffi::SQLITE_FULL,
            ffi::SQLITE_IOERR,
            ffi::SQLITE_BUSY,
            ffi::SQLITE_READONLY,
        ] {
            assert!(matches!(sqlite(code), StoreError::Unavailable(_)), "{code}");
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
            assert!(matches!(sqlite(code), StoreError::Corrupt(_)), "{code}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_is_damage() {
        let error =
            rusqlite::Error::InvalidColumnType(0, "kind".into(), rusqlite::types::Type::Null);
        assert!(matches!(store_error(&error), StoreError::Corrupt(_)));
    }
}
