//! Callers that wait for an operation to change: bounded, and they hold no lock and no connection meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::id::{Account, OperationId};

/// How many callers may wait for one operation; further ones are answered at once.
pub(crate) const WAITERS_PER_OPERATION: usize = 1_000;

/// How many callers may wait at all.
pub(crate) const WAITERS: usize = 20_000;

type Key = (Account, OperationId);

/// Everybody who waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters {
    slots: Arc<Mutex<Slots>>,
}

#[derive(Debug, Default)]
struct Slots {
    by_operation: HashMap<Key, Slot>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Slot {
    notify: Arc<Notify>,
    waiting: usize,
}

/// One caller's place; giving it up frees it.
#[derive(Debug)]
pub(crate) struct Place {
    waiters: Waiters,
    key: Key,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Takes a place, or nothing where too many wait already. Take it before reading the operation, so that no change
    /// falls between the two.
    pub(crate) fn enter(&self, account: &Account, id: &OperationId) -> Option<Place> {
        let key = (account.clone(), id.clone());
        let mut slots = self.slots();
        if slots.waiting >= WAITERS {
            return None;
        }
        let slot = slots.by_operation.entry(key.clone()).or_default();
        if slot.waiting >= WAITERS_PER_OPERATION {
            return None;
        }
        slot.waiting += 1;
        let notify = slot.notify.clone();
        slots.waiting += 1;
        drop(slots);
        Some(Place { waiters: self.clone(), key, notify })
    }

    /// Wakes everybody who waits for the operation.
    pub(crate) fn wake(&self, account: &Account, id: &OperationId) {
        if let Some(slot) = self.slots().by_operation.get(&(account.clone(), id.clone())) {
            slot.notify.notify_waiters();
        }
    }

    /// Wakes everybody: some changes were missed.
    pub(crate) fn wake_all(&self) {
        for slot in self.slots().by_operation.values() {
            slot.notify.notify_waiters();
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // A panic elsewhere leaves counts at worst too high, which answers callers earlier.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The next wake-up; create it before reading the operation.
    pub(crate) fn woken(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut slots = self.waiters.slots();
        slots.waiting = slots.waiting.saturating_sub(1);
        if let Some(slot) = slots.by_operation.get_mut(&self.key) {
            slot.waiting -= 1;
            if slot.waiting == 0 {
                slots.by_operation.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_waiters_is_bounded_and_given_back() {
        let waiters = Waiters::default();
        let (account, id) = (Account::from_stored("a"), OperationId::from_stored("o"));
        let places: Vec<_> =
            (0..WAITERS_PER_OPERATION).map(|_| waiters.enter(&account, &id).unwrap()).collect();
        assert!(waiters.enter(&account, &id).is_none());
        assert!(waiters.enter(&account, &OperationId::from_stored("p")).is_some());
        drop(places);
        assert!(waiters.enter(&account, &id).is_some());
        assert!(waiters.slots().by_operation.is_empty());
    }
}
