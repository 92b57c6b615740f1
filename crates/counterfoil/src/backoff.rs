//! When the next attempt may start: full jitter, caps, `Retry-After`, and the token bucket of a destination.
//! Arithmetic only; the randomness is handed in.

use std::time::Duration;

use crate::operation::Attempt;
use crate::policy::{Bucket, Budget};
use crate::safeguard::Safeguard;
use crate::time::Timestamp;

/// The part of a retry budget that is already used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Attempts that count.
    pub attempts: u32,
    /// All attempts: delays grow also where an attempt uses up nothing.
    pub tries: u32,
    /// When the first attempt started.
    pub since: Option<Timestamp>,
    /// How long the tool was paused since then; it does not count.
    pub paused: Duration,
}

impl Spent {
    /// What `attempts` used up.
    #[must_use]
    pub fn by(attempts: &[Attempt], paused: Duration) -> Self {
        Self {
            attempts: u32::try_from(attempts.iter().filter(|attempt| attempt.counts).count())
                .unwrap_or(u32::MAX),
            tries: u32::try_from(attempts.len()).unwrap_or(u32::MAX),
            since: attempts.first().map(|attempt| attempt.started_at),
            paused,
        }
    }

    /// The last instant at which an attempt may start.
    #[must_use]
    pub fn ends_at(&self, budget: &Budget) -> Option<Timestamp> {
        self.since.map(|since| since.plus(budget.elapsed).plus(self.paused))
    }

    /// Whether one more attempt may start at `at`.
    #[must_use]
    pub fn allows(&self, budget: &Budget, at: Timestamp) -> bool {
        self.attempts < budget.attempts && self.ends_at(budget).is_none_or(|end| at <= end)
    }
}

/// The delay before the attempt that follows `attempts` earlier ones: uniformly between nothing and the smaller of
/// `max_delay` and `first_delay` doubled for each earlier attempt ("full jitter"). `random` picks the point.
#[must_use]
pub fn delay(budget: &Budget, attempts: u32, random: u64) -> Duration {
    let doubled = budget.first_delay.as_millis().saturating_mul(1_u128 << attempts.saturating_sub(1).min(64));
    let ceiling = u64::try_from(doubled.min(budget.max_delay.as_millis())).unwrap_or(u64::MAX);
    // The high bits decide, so that the pick is uniform for any ceiling.
    let point = (u128::from(random) * (u128::from(ceiling) + 1)) >> 64;
    Duration::from_millis(u64::try_from(point).unwrap_or(ceiling))
}

/// When the next attempt may start, or nothing if the budget does not reach that far.
///
/// `retry_after` is a lower bound: it says when, never whether.
#[must_use]
pub fn next_attempt(
    budget: &Budget,
    spent: &Spent,
    now: Timestamp,
    retry_after: Option<Duration>,
    random: u64,
) -> Option<Timestamp> {
    let wait = delay(budget, spent.tries.max(1), random).max(retry_after.unwrap_or_default());
    let at = now.plus(wait);
    (spent.allows(budget, at) || !Safeguard::Budget.stands()).then_some(at)
}

/// How full a token bucket is. One unit is a thousandth of a send per second times one millisecond, so that no
/// rounding ever adds a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BucketLevel {
    /// Units that are left, in millionths of a send.
    pub level: u64,
    /// When that was so.
    pub at: Timestamp,
}

const SEND: u64 = 1_000_000;

/// Takes one send from the bucket at `now`, or says when one will be there. A bucket that was never used is full.
///
/// # Errors
/// The earliest instant at which a send is left.
pub fn take(bucket: &Bucket, level: Option<BucketLevel>, now: Timestamp) -> Result<BucketLevel, Timestamp> {
    let full = u64::from(bucket.burst.max(1)).saturating_mul(SEND);
    let level = level.unwrap_or(BucketLevel { level: full, at: now });
    let passed = u64::try_from(now.since(level.at).as_millis()).unwrap_or(u64::MAX);
    let filled = level.level.saturating_add(passed.saturating_mul(bucket.rate_milli)).min(full);
    match filled.checked_sub(SEND) {
        // A store clock that went back must not fill the bucket twice.
        Some(left) => Ok(BucketLevel { level: left, at: now.max(level.at) }),
        None => {
            let missing = (SEND - filled).div_ceil(bucket.rate_milli.max(1));
            Err(now.max(level.at).plus(Duration::from_millis(missing)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_spread_over_the_whole_range_and_capped() {
        let budget = Budget::default();
        assert_eq!(delay(&budget, 1, 0), Duration::ZERO);
        assert_eq!(delay(&budget, 1, u64::MAX), Duration::from_millis(500));
        assert_eq!(delay(&budget, 3, u64::MAX), Duration::from_millis(2_000));
        assert_eq!(delay(&budget, 200, u64::MAX), Duration::from_secs(60));
        assert_eq!(delay(&budget, 1, u64::MAX / 2), Duration::from_millis(250));
    }

    #[test]
    fn a_retry_after_beyond_the_elapsed_budget_ends_it() {
        let budget = Budget::default();
        let start = Timestamp::from_millis(1_000_000);
        let spent = Spent { attempts: 1, tries: 1, since: Some(start), paused: Duration::ZERO };
        assert!(next_attempt(&budget, &spent, start, Some(Duration::from_secs(901)), 0).is_none());
        assert_eq!(
            next_attempt(&budget, &spent, start, Some(Duration::from_secs(2)), 0),
            Some(start.plus(Duration::from_secs(2)))
        );
        let paused = Spent { paused: Duration::from_secs(60), ..spent };
        assert!(next_attempt(&budget, &paused, start, Some(Duration::from_secs(901)), 0).is_some());
    }

    #[test]
    fn a_bucket_never_gives_more_than_rate_and_burst() {
        let bucket = Bucket { rate_milli: 10_000, burst: 20 };
        let (mut level, mut now, mut sent) = (None, Timestamp::from_millis(0), 0);
        let end = now.plus(Duration::from_secs(10));
        while now < end {
            match take(&bucket, level, now) {
                Ok(left) => {
                    level = Some(left);
                    sent += 1;
                }
                Err(at) => {
                    assert!(at > now);
                    now = at;
                }
            }
        }
        assert_eq!(sent, 20 + 100 - 1);
    }

    #[test]
    fn a_store_clock_that_goes_back_gives_nothing_away() {
        let bucket = Bucket { rate_milli: 1_000, burst: 1 };
        let now = Timestamp::from_millis(10_000);
        let level = take(&bucket, None, now).unwrap();
        let back = now.minus(Duration::from_secs(5));
        assert_eq!(take(&bucket, Some(level), back), Err(now.plus(Duration::from_secs(1))));
    }
}
