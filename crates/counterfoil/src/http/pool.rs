//! Idle connections, for destinations that collapse two copies of one request by themselves: with a stale connection
//! an attempt may end as unknown although nothing arrived, and only there is that harmless.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::connect::Lane;
use super::target::Target;

/// The most idle connections of one host.
const MAX_PER_HOST: usize = 32;

/// How long a connection may be idle. Many servers close theirs after 30 s or more.
const MAX_IDLE: Duration = Duration::from_secs(15);

/// Target, and whether the connection was allowed to go to a private address.
type Place = (Target, bool);

#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<Place, Vec<(Lane, Instant)>>>,
}

impl Pool {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Place, Vec<(Lane, Instant)>>) -> T) -> T {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        idle.retain(|_, lanes| {
            lanes.retain(|(lane, since)| lane.sender.is_ready() && now.duration_since(*since) < MAX_IDLE);
            !lanes.is_empty()
        });
        act(&mut idle)
    }

    /// The connection that was used last, if one is still fit.
    pub(super) fn take(&self, place: &Place) -> Option<Lane> {
        self.with(|idle| idle.get_mut(place)?.pop()).map(|(lane, _)| lane)
    }

    /// Keeps a connection whose answer was read to its end. One that is not ready for another request goes.
    pub(super) fn put(&self, place: Place, lane: Lane) {
        if lane.sender.is_ready() {
            self.with(|idle| {
                let lanes = idle.entry(place).or_default();
                if lanes.len() < MAX_PER_HOST {
                    lanes.push((lane, Instant::now()));
                }
            });
        }
    }
}
