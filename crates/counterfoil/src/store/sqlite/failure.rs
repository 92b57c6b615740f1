//! What a failure of SQLite reaches.

use rusqlite::ErrorCode;

use crate::error::{Error, StoreError};
use crate::store::failure::Failure;

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let Some(cause) = error.sqlite_error() else {
            return Self::damaged(&error.to_string());
        };
        let text = error.to_string();
        let code = cause.code;
        if code == ErrorCode::DiskFull {
            Self::Batch(StoreError::Full)
        } else if code == ErrorCode::DatabaseBusy || code == ErrorCode::DatabaseLocked {
            Self::Batch(StoreError::Unavailable("another process holds the ledger".to_owned()))
        } else if code == ErrorCode::DatabaseCorrupt || code == ErrorCode::NotADatabase {
            Self::Fatal(StoreError::Corrupt(text))
        } else if code == ErrorCode::SystemIoFailure
            || code == ErrorCode::ReadOnly
            || code == ErrorCode::CannotOpen
            || code == ErrorCode::PermissionDenied
        {
            // Also a file that was deleted, moved, or mounted read-only under us: what was acknowledged may be gone.
            Self::Fatal(StoreError::Poisoned(text))
        } else {
            Self::Job(Error::Store(StoreError::Unavailable(text)))
        }
    }
}
