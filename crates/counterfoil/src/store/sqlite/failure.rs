//! How far a failure reaches: one job, everybody in the same commit, or the whole store.

use rusqlite::ErrorCode;

use crate::error::{Error, Refusal, StoreError};
use crate::faults::Fault;

/// A failure, by its reach.
#[derive(Debug)]
pub(super) enum Failure {
    /// This job alone: its neighbours are replayed without it.
    Job(Error),
    /// Everybody in the commit; nothing was written, and a later one may work.
    Batch(StoreError),
    /// The store: nothing more is read or written through it.
    Fatal(StoreError),
}

impl Failure {
    /// A row that cannot be what was written.
    pub(super) fn damaged(what: &str) -> Self {
        Self::Job(Error::Store(StoreError::Corrupt(what.to_owned())))
    }

    /// The failure as whoever waits is told.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Job(error) => error,
            Self::Batch(error) | Self::Fatal(error) => Error::Store(error),
        }
    }

    /// The failure where only the store can be the reason.
    pub(super) fn into_store_error(self) -> StoreError {
        match self.into_error() {
            Error::Store(error) => error,
            Error::Refused(refusal) => StoreError::Unavailable(refusal.to_string()),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Job(Error::Refused(refusal))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Job(Error::Store(error))
    }
}

impl From<serde_json::Error> for Failure {
    /// The text of the error may quote what was stored; only its place is told.
    fn from(error: serde_json::Error) -> Self {
        Self::damaged(&format!("a stored document cannot be read (column {})", error.column()))
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Io | Fault::IoLate => Self::Fatal(StoreError::Poisoned("an injected fault".to_owned())),
            Fault::Full => Self::Batch(StoreError::Full),
            Fault::Busy => Self::Batch(StoreError::Unavailable("an injected fault".to_owned())),
            Fault::Job => Self::Job(Error::Store(StoreError::Unavailable("an injected fault".to_owned()))),
        }
    }
}

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

/// Unsigned numbers as SQLite keeps them. Nothing that the ledger counts reaches the end of the range.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The reverse of [`signed`].
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
