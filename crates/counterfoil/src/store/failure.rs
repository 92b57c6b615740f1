//! How far a failure reaches: one job, everybody in the same commit, or the whole store.

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
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "other stores do not fail like this"))]
    /// Something that is not loaded yet: it will be, and the job runs again. Not every store knows this one.
    Missing,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "other stores do not fail like this"))]
    /// The transaction lost against another one; begun anew it may well work. Not every store knows this one.
    Race,
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
            Self::Race => {
                Error::Store(StoreError::Unavailable("other nodes were faster, again and again".to_owned()))
            }
            Self::Missing => Error::Store(StoreError::Corrupt("something was never loaded".to_owned())),
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

/// Unsigned numbers as databases keep them. Nothing that the ledger counts reaches the end of the range.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The reverse of [`signed`].
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
