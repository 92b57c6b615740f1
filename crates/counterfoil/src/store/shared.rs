//! What the threads of one store share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{broadcast, watch};

use super::clocks::Clocks;
use super::commit::News;
use super::policies::Policies;
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
    pauses: watch::Sender<u64>,
    tokens: watch::Sender<u64>,
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
            pauses: watch::channel(0).0,
            tokens: watch::channel(0).0,
            fatal: watch::channel(None).0,
        }
    }

    /// Tells whoever listens of one operation.
    pub(super) fn publish(&self, change: Change) {
        let _nobody_listens = self.changes.send(change);
    }

    /// Tells whoever listens what became durable.
    pub(super) fn announce(&self, news: News) {
        if news.pauses {
            self.pauses_changed();
        }
        if news.tokens {
            self.tokens_changed();
        }
        for change in news.operations {
            self.publish(change);
        }
    }

    /// Tells whoever listens that pauses began or ended.
    pub(super) fn pauses_changed(&self) {
        self.pauses.send_modify(|count| *count += 1);
    }

    /// Tells whoever listens that tokens were made or revoked.
    pub(super) fn tokens_changed(&self) {
        self.tokens.send_modify(|count| *count += 1);
    }

    /// Listens to pauses.
    pub(super) fn watch_pauses(&self) -> watch::Receiver<u64> {
        self.pauses.subscribe()
    }

    /// Listens to tokens.
    pub(super) fn watch_tokens(&self) -> watch::Receiver<u64> {
        self.tokens.subscribe()
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

/// What was committed.
#[derive(Debug, Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    jobs: AtomicU64,
    largest: AtomicU64,
    purged: AtomicU64,
}

/// What this process committed since the ledger was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommitStats {
    /// Durable commits.
    pub commits: u64,
    /// Jobs that were part of them.
    pub jobs: u64,
    /// The most jobs in one.
    pub largest: u64,
    /// Operations whose retention was over and that became tombstones.
    pub purged: u64,
}

impl Counters {
    /// Notes a commit of this many jobs.
    pub(super) fn note(&self, jobs: usize) {
        let jobs = jobs as u64;
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.jobs.fetch_add(jobs, Ordering::Relaxed);
        self.largest.fetch_max(jobs, Ordering::Relaxed);
    }

    /// Notes that an operation was purged, or was found changed.
    pub(super) fn purged(&self, purged: bool) {
        self.purged.fetch_add(u64::from(purged), Ordering::Relaxed);
    }

    /// The counts so far.
    pub(super) fn read(&self) -> CommitStats {
        CommitStats {
            commits: self.commits.load(Ordering::Relaxed),
            jobs: self.jobs.load(Ordering::Relaxed),
            largest: self.largest.load(Ordering::Relaxed),
            purged: self.purged.load(Ordering::Relaxed),
        }
    }
}
