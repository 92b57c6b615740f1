//! What the threads of one store share.

use std::sync::Arc;

use tokio::sync::{broadcast, watch};

use super::load::Clocks;
use super::policies::Policies;
use super::writer::Counters;
use crate::error::StoreError;
use crate::faults::Faults;
use crate::store::Change;

/// Shared by the writer, the readers, the watcher and every handle.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) policies: Policies,
    pub(super) clocks: Clocks,
    pub(super) faults: Arc<Faults>,
    pub(super) counters: Counters,
    changes: broadcast::Sender<Change>,
    fatal: watch::Sender<Option<StoreError>>,
}

impl Shared {
    /// How many changes a slow listener may lag behind before it is told to read again.
    const CHANGES: usize = 4_096;

    /// Nothing has happened yet.
    pub(super) fn new(clocks: Clocks, faults: Arc<Faults>) -> Self {
        Self {
            policies: Policies::default(),
            clocks,
            faults,
            counters: Counters::default(),
            changes: broadcast::channel(Self::CHANGES).0,
            fatal: watch::channel(None).0,
        }
    }

    /// Tells whoever listens.
    pub(super) fn publish(&self, change: Change) {
        drop(self.changes.send(change));
    }

    /// Listens from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// The failure after which nothing is answered any more.
    pub(super) fn fatal(&self) -> Option<StoreError> {
        self.fatal.borrow().clone()
    }

    /// Ends everything; the first failure stays.
    pub(super) fn poison(&self, error: StoreError) {
        self.fatal.send_if_modified(|fatal| {
            let first = fatal.is_none();
            fatal.get_or_insert(error);
            first
        });
    }

    /// Watches for that failure.
    pub(super) fn watch_fatal(&self) -> watch::Receiver<Option<StoreError>> {
        self.fatal.subscribe()
    }
}
