//! Opens ledgers for the topics.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Store;
use super::verbs::tool;
use crate::error::StoreError;
use crate::faults::Faults;
use crate::id::Account;
use crate::snapshot::Declarations;
use crate::time::{Clock, ManualClock, Timestamp};

/// How a test wants its store.
#[derive(Clone)]
pub struct Setup {
    /// Time.
    pub clock: Arc<ManualClock>,
    /// Fail points.
    pub faults: Arc<Faults>,
    /// How many calls may wait.
    pub queue: usize,
    /// Whether the mark is kept.
    pub mark: bool,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("queue", &self.queue).field("mark", &self.mark).finish_non_exhaustive()
    }
}

impl Setup {
    /// The clock, as a store takes it.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}

/// When every test begins.
pub(super) const START: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// A folder of ledgers.
pub struct Bench<'a> {
    folder: PathBuf,
    make: &'a dyn Fn(&Path, &Setup) -> Result<Store, StoreError>,
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A store with what a test drives it by.
pub(super) struct Open {
    pub(super) store: Store,
    pub(super) setup: Setup,
    pub(super) declared: Arc<Declarations>,
    pub(super) path: PathBuf,
}

impl Open {
    /// Lets time pass.
    pub(super) fn pass(&self, duration: Duration) {
        self.setup.clock.advance(duration);
    }
}

impl<'a> Bench<'a> {
    /// A bench whose ledgers lie in `folder`.
    pub fn new(folder: &Path, make: &'a dyn Fn(&Path, &Setup) -> Result<Store, StoreError>) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        Self { folder: folder.to_owned(), make }
    }

    /// Where the ledger called `name` lies.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The usual set-up.
    pub(super) fn setup() -> Setup {
        Setup {
            clock: Arc::new(ManualClock::at(START)),
            faults: Arc::new(Faults::default()),
            queue: 4_096,
            mark: true,
        }
    }

    /// Opens the ledger called `name` and nothing more.
    pub(super) fn try_open(&self, name: &str, setup: &Setup) -> Result<Store, StoreError> {
        (self.make)(&self.path(name), setup)
    }

    /// Opens the ledger called `name` and declares the test's tools.
    pub(super) async fn open_with(&self, name: &str, setup: Setup) -> Open {
        let store = self.try_open(name, &setup).unwrap();
        let declared = Arc::new(store.register(vec![tool("t.one"), tool("t.two")]).await.unwrap());
        Open { store, setup, declared, path: self.path(name) }
    }

    /// Opens it with the usual set-up.
    pub(super) async fn open(&self, name: &str) -> Open {
        self.open_with(name, Self::setup()).await
    }
}

/// The account of most tests.
pub(super) fn account() -> Account {
    Account::parse("kitchen").unwrap()
}
