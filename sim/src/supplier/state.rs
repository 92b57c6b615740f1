//! What all connections of one supplier share.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::fault::{Fault, Later};
use super::gate::{Gates, Point};
use super::options::SupplierOptions;
use super::request::SeenRequest;
use super::script::Script;
use super::store::{Accepted, Effect, Store, Write};
use crate::host::lock;

/// Requests seen, the latest of them kept.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) kept: VecDeque<SeenRequest>,
    pub(super) total: u64,
    pub(super) arrived: u64,
    pub(super) connections: u64,
    pub(super) faults: VecDeque<(u64, Fault)>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) options: SupplierOptions,
    store: Arc<Mutex<Store>>,
    pub(super) seen: Mutex<Seen>,
    pub(super) script: Mutex<Script>,
    pub(super) gates: Gates,
    /// Counts the releases of requests that hang and of accepted requests in the queue.
    pub(super) releases: watch::Sender<u64>,
    /// Effects to come. They end with the state.
    later: Mutex<JoinSet<()>>,
    started: Instant,
    /// Where the supplier's time stands apart from its start.
    offset: Mutex<Duration>,
}

impl State {
    /// Opens the database. Blocks.
    pub(super) fn open(options: SupplierOptions) -> io::Result<Arc<Self>> {
        let store = Store::open(options.database.as_deref())?;
        let offset = store.latest()?;
        Ok(Arc::new(Self {
            script: Mutex::new(Script::new(options.random.clone())),
            options,
            store: Arc::new(Mutex::new(store)),
            seen: Mutex::default(),
            gates: Gates::new(),
            releases: watch::Sender::new(0),
            later: Mutex::new(JoinSet::new()),
            started: Instant::now(),
            offset: Mutex::new(offset),
        }))
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed().saturating_add(*lock(&self.offset))
    }

    pub(super) fn advance(&self, by: Duration) {
        let mut offset = lock(&self.offset);
        *offset = offset.saturating_add(by);
    }

    /// Works on the store from code that may block.
    pub(super) fn with_store<T>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        work(&mut lock(&self.store))
    }

    /// Works on the store away from the threads that carry connections.
    pub(super) async fn on_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || work(&mut lock(&store))).await.map_err(io::Error::other)?
    }

    pub(super) fn record(&self, request: SeenRequest) {
        let mut seen = lock(&self.seen);
        seen.total += 1;
        seen.kept.push_back(request);
        while seen.kept.len() > self.options.requests_kept {
            seen.kept.pop_front();
        }
    }

    pub(super) fn struck(&self, request: u64, fault: &Fault) {
        let mut seen = lock(&self.seen);
        seen.faults.push_back((request, fault.clone()));
        while seen.faults.len() > self.options.requests_kept {
            seen.faults.pop_front();
        }
    }

    pub(super) async fn accept(&self, write: Write) -> io::Result<Accepted> {
        let flavour = self.options.flavour.clone();
        self.on_store(move |store| store.accept(&flavour, &write)).await
    }

    pub(super) async fn search(&self, path: String, reference: String) -> io::Result<Vec<Effect>> {
        let until = self.now().checked_sub(self.options.search_lag);
        let Some(until) = until else { return Ok(Vec::new()) };
        self.on_store(move |store| store.search(&path, &reference, until)).await
    }

    pub(super) fn release(&self) {
        self.releases.send_modify(|releases| *releases += 1);
    }

    /// Puts an accepted write in the queue.
    pub(super) fn queue(self: &Arc<Self>, later: Later, order: String, write: Write) {
        if later == Later::Never {
            return;
        }
        let mut releases = self.releases.subscribe();
        let state = Arc::downgrade(self);
        let mut tasks = lock(&self.later);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            match later {
                Later::Never => return,
                Later::OnRelease if releases.changed().await.is_err() => return,
                Later::OnRelease => {}
                Later::After(time) => tokio::time::sleep(time).await,
            }
            let Some(state) = state.upgrade() else { return };
            let request = write.request.clone();
            let write = Write { now: state.now(), ..write };
            let flavour = state.options.flavour.clone();
            let applied = state.on_store(move |store| store.apply_later(&flavour, &order, &write)).await;
            if matches!(applied, Ok(true)) {
                state.gates.pass(Point::EffectCommitted, &request).await;
            }
        });
    }
}
