//! The threads of one store, and how they end: first the writer, which empties its queue, then the readers, and last
//! the watcher, which leaves the mark.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use tokio::sync::oneshot;

use super::readers::Readers;
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
    reads: Mutex<Option<Readers>>,
    reading: Mutex<Vec<Running>>,
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

    /// Starts one of the reading threads behind `readers`.
    pub(super) fn reader(
        &mut self,
        readers: &Readers,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), StoreError> {
        let running = start("counterfoil-reader", work)?;
        self.reading.get_mut().unwrap_or_else(PoisonError::into_inner).push(running);
        self.reads = Mutex::new(Some(readers.clone()));
        Ok(())
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

    /// The way to the reading threads, where there are any and the store takes calls.
    pub(super) fn reads(&self) -> Option<Readers> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the writer, the readers and the watcher, in this order; the last connection that closes moves the
    /// write-ahead log into the file.
    pub(super) async fn stop(&self) {
        drop(take(&self.queue));
        join(take(&self.writing)).await;
        drop(take(&self.reads));
        let reading = std::mem::take(&mut *self.reading.lock().unwrap_or_else(PoisonError::into_inner));
        for running in reading {
            join(Some(running)).await;
        }
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
