//! The settings of one node of a ledger in PostgreSQL.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::faults::Faults;
use crate::time::{Clock, SystemClock};

/// How a ledger is opened.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Where local time comes from; what decides is the database's.
    pub clock: Arc<dyn Clock>,
    /// Whether `clock` is store time too: tests drive it.
    pub clock_decides: bool,
    /// The name of this node's evidence chains: never used twice. Fresh by default.
    pub writer: String,
    /// How many connections read.
    pub readers: usize,
    /// How many calls may wait for the committer; a further one is refused at once.
    pub queue: usize,
    /// How many calls share one commit at the most.
    pub batch: usize,
    /// Where this node keeps its high-water mark; without one a restored ledger is not noticed after a restart.
    pub mark: Option<PathBuf>,
    /// How far clocks may disagree before sends pause.
    pub skew: Duration,
    /// Fail points. Empty, and without effect, outside of tests.
    pub faults: Arc<Faults>,
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("writer", &self.writer)
            .field("readers", &self.readers)
            .field("queue", &self.queue)
            .field("batch", &self.batch)
            .field("mark", &self.mark)
            .field("skew", &self.skew)
            .finish_non_exhaustive()
    }
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::default()),
            clock_decides: false,
            writer: uuid::Uuid::now_v7().to_string(),
            readers: 8,
            queue: 4_096,
            batch: 256,
            mark: None,
            skew: crate::recovery::DEFAULT_SKEW,
            faults: Arc::new(Faults::of_process()),
        }
    }
}
