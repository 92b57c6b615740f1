//! Time as the ledger sees it.
//!
//! Store time (the database's clock on PostgreSQL, the host's on SQLite) decides leases, budgets and retention.
//! Monotonic time serves local deadlines only. Both come through [`Clock`], so that tests drive them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant of store time, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant that lies `millis` milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This instant plus `duration`, saturating at the end of time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This instant minus `duration`, saturating.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Parses an RFC 3339 instant, or the HTTP date of RFC 9110 section 5.6.7.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            return Some(Self(instant.as_millisecond()));
        }
        let http = text.strip_suffix("GMT").map(|head| format!("{head}+0000"));
        let date = jiff::fmt::rfc2822::parse(http.as_deref().unwrap_or(text)).ok()?;
        Some(Self(date.timestamp().as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with milliseconds, as every face of the product prints instants.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{instant:.3}")
    }
}

/// Where the product gets its time from.
pub trait Clock: Send + Sync + 'static {
    /// Store time, where the store has no clock of its own.
    fn now(&self) -> Timestamp;

    /// Time since some fixed point in this process; never goes back, also counts while nothing runs.
    fn monotonic(&self) -> Duration;
}

/// The host's clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl Default for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the seam")]
    fn default() -> Self {
        Self { origin: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the seam")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::default().plus(since)
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that moves only when a test says so.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug)]
pub struct ManualClock {
    now: std::sync::atomic::AtomicI64,
    monotonic: std::sync::atomic::AtomicU64,
}

#[cfg(any(test, feature = "testing"))]
impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now: now.0.into(), monotonic: 0.into() }
    }

    /// Lets `duration` pass on both clocks.
    pub fn advance(&self, duration: Duration) {
        self.jump(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX));
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.monotonic.fetch_add(millis, std::sync::atomic::Ordering::SeqCst);
    }

    /// Moves store time alone, as a clock that is set does.
    pub fn jump(&self, millis: i64) {
        self.now.fetch_add(millis, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(any(test, feature = "testing"))]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(std::sync::atomic::Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic.load(std::sync::atomic::Ordering::SeqCst))
    }
}

/// Durations are stored as whole milliseconds.
pub(crate) mod millis {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }

    /// The same for a duration that may be absent.
    pub(crate) mod option {
        use super::{Deserialize, Deserializer, Duration, Serializer};

        pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => super::serialize(value, s),
                None => s.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<u64>::deserialize(d)?.map(Duration::from_millis))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_the_instants_of_the_wire() {
        let at = Timestamp::from_millis(1_796_133_731_020);
        assert_eq!(at.to_string(), "2026-12-01T14:02:11.020Z");
        assert_eq!(Timestamp::parse("2026-12-01T14:02:11.020Z"), Some(at));
        assert_eq!(Timestamp::parse("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Timestamp(784_111_777_000)));
        assert_eq!(Timestamp::parse("next week"), None);
    }
}
