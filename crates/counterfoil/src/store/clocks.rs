//! What time it is for the ledger, and when that is in doubt.

use std::sync::Arc;
use std::time::Duration;

use crate::time::{Clock, Timestamp};

/// The clocks of this process, and how they stood to each other when the ledger was opened.
pub(super) struct Clocks {
    clock: Arc<dyn Clock>,
    skew: Duration,
    opened: (Timestamp, Duration),
}

impl std::fmt::Debug for Clocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clocks")
            .field("skew", &self.skew)
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}

impl Clocks {
    /// The clocks from now on.
    pub(super) fn start(clock: Arc<dyn Clock>, skew: Duration) -> Self {
        let opened = (clock.now(), clock.monotonic());
        Self { clock, skew, opened }
    }

    /// Where they are read.
    #[cfg(feature = "postgres")]
    pub(super) fn source(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Store time.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time since some point in this process.
    pub(super) fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Whether nothing that waits for an instant may be trusted: store time lies too far below the newest instant of
    /// the ledger, or the two clocks of this process no longer agree.
    pub(super) fn in_doubt(&self, now: Timestamp, newest: Timestamp) -> bool {
        let (wall, monotonic) = self.opened;
        let wall = i128::from(now.as_millis()) - i128::from(wall.as_millis());
        let passed = self.clock.monotonic().saturating_sub(monotonic).as_millis();
        let apart = wall.abs_diff(i128::try_from(passed).unwrap_or(i128::MAX));
        apart > self.skew.as_millis() || now.plus(self.skew) < newest
    }
}
