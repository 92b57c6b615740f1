//! How people are told of changes: the next notice for a listener, and how telling it ended.

use crate::notice::Notice;
use crate::time::Timestamp;

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The listener has it, or it is none of theirs.
    Done,
    /// It did not arrive; it is said again, not before this instant.
    Failed(Timestamp),
    /// It is not said any more; why, in fixed words.
    GivenUp(&'static str),
}

/// The next notice for a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What is said.
    pub notice: Notice,
    /// How often it failed.
    pub tries: u32,
    /// Not before this instant: a delay, or another process's lease.
    pub not_before: Timestamp,
}
