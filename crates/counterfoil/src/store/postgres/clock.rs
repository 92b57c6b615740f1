//! Store time: the database's clock, as far as this process knows it without asking.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::time::{Clock, Timestamp};

/// A step back of the database's clock up to this is the time that an answer took.
const JITTER: Duration = Duration::from_secs(1);

/// The database's clock, never ahead of it: the last instant that it told, and what passed here since its answer came.
pub(super) struct DatabaseClock {
    local: Arc<dyn Clock>,
    told: Mutex<(Timestamp, Duration)>,
}

impl std::fmt::Debug for DatabaseClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseClock").finish_non_exhaustive()
    }
}

impl DatabaseClock {
    /// A clock that was just told `now`.
    pub(super) fn new(local: Arc<dyn Clock>, now: Timestamp) -> Self {
        let told = Mutex::new((now, local.monotonic()));
        Self { local, told }
    }

    /// The database told its time. Where it went back, so does this clock: whoever waits for an instant notices.
    pub(super) fn tell(&self, now: Timestamp) {
        let monotonic = self.local.monotonic();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = told.0.plus(monotonic.saturating_sub(told.1));
        let behind = expected.since(now);
        *told = (if behind <= JITTER { now.max(expected) } else { now }, monotonic);
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let (told, at) = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.plus(self.local.monotonic().saturating_sub(at))
    }

    fn monotonic(&self) -> Duration {
        self.local.monotonic()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ManualClock;

    #[test]
    fn it_follows_the_database_and_never_runs_ahead_of_what_passed_here() {
        let at = |seconds: i64| Timestamp::from_millis(1_000 * seconds);
        let local = Arc::new(ManualClock::at(at(0)));
        let clock = DatabaseClock::new(local.clone(), at(100));
        local.advance(Duration::from_secs(5));
        assert_eq!(clock.now(), at(105));
        // An answer that took a while tells an instant that has passed.
        clock.tell(Timestamp::from_millis(104_500));
        assert_eq!(clock.now(), at(105));
        clock.tell(at(107));
        assert_eq!(clock.now(), at(107));
        // A clock that was put back.
        clock.tell(at(50));
        assert_eq!(clock.now(), at(50));
    }
}
