//! The threads of one store, and how they end: first the writer, which empties its queue, then the readers, and last
//! the watcher, which leaves the mark.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use tokio::sync::oneshot;

use super::writer::Job;
use crate::error::StoreError;

/// The way to the writing thread.
type Queue = SyncSender<Box<dyn Job>>;

/// A running thread, and a signal that it ended.
#[derive(Debug)]
struct Running {
    handle: JoinHandle<()>,
    ended: oneshot::Receiver<()>,
}

/// What keeps the threads going.
#[derive(Debug, Default)]
pub(super) struct Threads {
    queue: Mutex<Option<Queue>>,
    stop: Mutex<Option<SyncSender<()>>>,
    writing: Mutex<Option<Running>>,
    watching: Mutex<Option<Running>>,
}

impl Threads {
    /// Starts the writing thread.
    pub(super) fn writer(
        &mut self,
        length: usize,
        work: impl FnOnce(&Receiver<Box<dyn Job>>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let (queue, jobs) = sync_channel(length);
        self.writing = Mutex::new(Some(start("counterfoil-writer", move || work(&jobs))?));
        self.queue = Mutex::new(Some(queue));
        Ok(())
    }

    /// Starts a reading thread. It ends when its queue's last sender is gone.
    pub(super) fn reader(
        &mut self,
        number: usize,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), StoreError> {
        start(&format!("counterfoil-reader-{number}"), work).map(drop)
    }

    /// Starts the watching thread.
    pub(super) fn watcher(
        &mut self,
        work: impl FnOnce(&Receiver<()>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let (stop, stopped) = sync_channel(1);
        self.watching = Mutex::new(Some(start("counterfoil-watcher", move || work(&stopped))?));
        self.stop = Mutex::new(Some(stop));
        Ok(())
    }

    /// The way to the writing thread, as long as the store takes calls.
    pub(super) fn queue(&self) -> Option<Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends writer and watcher, in this order.
    pub(super) async fn stop(&self) {
        drop(take(&self.queue));
        join(take(&self.writing)).await;
        drop(take(&self.stop));
        join(take(&self.watching)).await;
    }
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

async fn join(running: Option<Running>) {
    let Some(Running { handle, ended }) = running else { return };
    // The signal is the thread's last act, so that joining it afterwards does not block.
    drop(ended.await);
    drop(handle.join());
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<Running, StoreError> {
    let (signal, ended) = oneshot::channel();
    let handle = Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            work();
            let _nobody_listens = signal.send(());
        })
        .map_err(|error| StoreError::Unavailable(format!("a thread could not be started: {error}")))?;
    Ok(Running { handle, ended })
}
