//! The settings of one ledger.

use std::sync::Arc;
use std::time::Duration;

use crate::faults::Faults;
use crate::time::{Clock, SystemClock};

/// How a ledger is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// The name of this process's evidence chains: never used twice. Fresh by default.
    pub writer: String,
    /// How many threads read.
    pub readers: usize,
    /// How many calls may wait for the writer, and how many for the readers; a further one is refused at once.
    pub queue: usize,
    /// How many calls share one commit at the most.
    pub batch: usize,
    /// Whether the high-water mark is kept beside the file. Without it a restored ledger is not noticed.
    pub mark: bool,
    /// How far clocks may disagree before sends pause.
    pub skew: Duration,
    /// Fail points. Empty, and without effect, outside of tests.
    pub faults: Arc<Faults>,
    /// Sees every statement of the writer.
    #[cfg(feature = "testing")]
    pub trace: Option<super::Trace>,
}

impl std::fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("writer", &self.writer)
            .field("readers", &self.readers)
            .field("queue", &self.queue)
            .field("batch", &self.batch)
            .field("mark", &self.mark)
            .field("skew", &self.skew)
            .finish_non_exhaustive()
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::default()))
    }
}

impl SqliteOptions {
    /// The usual settings, with time from `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            writer: uuid::Uuid::now_v7().to_string(),
            readers: 2,
            queue: 4_096,
            batch: 256,
            mark: true,
            skew: crate::recovery::DEFAULT_SKEW,
            faults: Arc::new(Faults::of_process()),
            #[cfg(feature = "testing")]
            trace: None,
        }
    }
}
