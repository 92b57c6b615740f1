//! Callers that ask again as soon as they are answered.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use counterfoil::{Clock as _, SystemClock};

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// After so long.
    For(Duration),
    /// After so many calls in all.
    Calls(u64),
}

/// What a load came to.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Calls that were answered.
    pub(super) calls: u64,
    /// From the first call to the last answer.
    pub(super) took: Duration,
    /// How long each call took, sorted, in microseconds.
    latencies: Vec<u32>,
}

impl Load {
    /// Calls each second.
    pub(super) fn rate(&self) -> f64 {
        self.calls as f64 / self.took.as_secs_f64()
    }

    /// The latency that so many of a hundred calls do not exceed, in milliseconds.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let place = (self.latencies.len() * percent / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(place).map_or(0.0, |micros| f64::from(*micros) / 1_000.0)
    }
}

/// Runs `callers` tasks that call one after the other.
pub(super) async fn run<F>(
    callers: usize,
    pace: Pace,
    call: impl Fn() -> F + Clone + Send + 'static,
) -> Result<Load>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    run_with(callers, pace, |_| std::future::ready(Ok(call.clone()))).await
}

/// As [`run`], for callers that have something of their own, such as a connection.
pub(super) async fn run_with<M, C, F>(callers: usize, pace: Pace, make: impl Fn(usize) -> M) -> Result<Load>
where
    M: Future<Output = Result<C>>,
    C: FnMut() -> F + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut ready = Vec::with_capacity(callers);
    for caller in 0..callers {
        ready.push(make(caller).await?);
    }
    let clock = Arc::new(SystemClock::default());
    let started = clock.monotonic();
    let mut tasks = Vec::with_capacity(callers);
    for (caller, mut call) in ready.into_iter().enumerate() {
        let clock = clock.clone();
        let share = match pace {
            Pace::Calls(calls) => {
                let (each, left) = (calls / callers as u64, calls % callers as u64);
                each + u64::from((caller as u64) < left)
            }
            Pace::For(_) => u64::MAX,
        };
        tasks.push(tokio::spawn(async move {
            let mut latencies = Vec::new();
            let mut now = clock.monotonic();
            while (latencies.len() as u64) < share {
                if let Pace::For(duration) = pace
                    && now.saturating_sub(started) >= duration
                {
                    break;
                }
                call().await?;
                let after = clock.monotonic();
                latencies.push(u32::try_from((after - now).as_micros()).unwrap_or(u32::MAX));
                now = after;
            }
            anyhow::Ok(latencies)
        }));
    }
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let took = clock.monotonic().saturating_sub(started);
    latencies.sort_unstable();
    Ok(Load { calls: latencies.len() as u64, took, latencies })
}

/// What this process has used of its processors, all threads together. It says what a call costs also where other
/// programs run beside.
pub(super) fn processor_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("a line without a name")?;
    let ticks = |place: usize| -> Result<u64> {
        Ok(fields.split_whitespace().nth(place).context("a short line")?.parse()?)
    };
    // In user and system mode, in hundredths of a second.
    Ok(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}

/// The middle of some measurements.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.get(middle.wrapping_sub(1))) {
        (Some(upper), Some(lower)) if sorted.len().is_multiple_of(2) => f64::midpoint(*lower, *upper),
        (Some(value), _) => *value,
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[tokio::test]
    async fn every_call_is_counted_once() {
        let load = run(7, Pace::Calls(50), || async { Ok(()) }).await.unwrap();
        assert_eq!(load.calls, 50);
    }
}
