//! A clock that can be moved on, so that a day's wait is one call. Store time and the monotonic clock move together: nothing
//! may look as if the two disagreed.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use counterfoil::{Clock, SystemClock, Timestamp};

/// The host's clock, and how far it was moved on.
#[derive(Debug)]
pub struct Moved {
    real: SystemClock,
    by: Mutex<Duration>,
    /// Kept from one run to the next: a ledger whose newest instant lies ahead of its clock sends nothing.
    kept: PathBuf,
}

/// The furthest that the clock can be moved in all.
pub const FURTHEST: Duration = Duration::from_secs(20 * 365 * 24 * 60 * 60);

impl Moved {
    /// The clock as the last run left it.
    #[must_use]
    pub fn open(kept: PathBuf) -> Self {
        let last = std::fs::read_to_string(&kept).ok().and_then(|text| text.trim().parse().ok());
        let by = Duration::from_millis(last.unwrap_or(0)).min(FURTHEST);
        Self { real: SystemClock::default(), by: Mutex::new(by), kept }
    }

    /// Moves it on and says by how much it was moved in all.
    ///
    /// # Errors
    /// It would be moved too far, or that cannot be kept.
    pub fn advance(&self, by: Duration) -> std::io::Result<Duration> {
        let mut moved = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        let next = moved.saturating_add(by);
        if next > FURTHEST {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the clock is moved too far"));
        }
        std::fs::write(&self.kept, next.as_millis().to_string())?;
        *moved = next;
        Ok(next)
    }

    fn by(&self) -> Duration {
        *self.by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        self.real.now().plus(self.by())
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic() + self.by()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_move_together_and_never_back() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("clock");
        let clock = Moved::open(kept.clone());
        let (now, monotonic) = (clock.now(), clock.monotonic());
        let hour = Duration::from_secs(3_600);
        assert_eq!(clock.advance(hour).unwrap(), hour);
        assert!(clock.now() >= now.plus(hour) && clock.monotonic() >= monotonic + hour);
        assert_eq!(clock.advance(hour).unwrap(), 2 * hour);
        assert!(clock.advance(FURTHEST).is_err());
        assert!(Moved::open(kept).now() >= now.plus(2 * hour), "another run goes on from there");
    }
}
