//! A thread with a runtime of its own, on which one double lives.

use std::future::Future;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How long a wait for an event of a double may take. A test that would hang fails instead.
const WAIT_LIMIT: Duration = Duration::from_secs(30);
/// How long blocking work (a commit in the supplier's database) may hold up a stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Runs tasks until dropped; dropping it closes every socket the tasks hold.
#[derive(Debug)]
pub(crate) struct Host {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // An error means that the sender is gone, which is a stop as well.
            runtime.block_on(async { stopped.await.unwrap_or(()) });
            runtime.shutdown_timeout(STOP_LIMIT);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic on the thread has been printed already; there is nobody to hand it to.
            drop(thread.join());
        }
    }
}

/// Waits for `event` on the double's own runtime, so that a caller with paused time still waits
/// for real, and for at most half a minute.
pub(crate) async fn wait<F>(handle: &Handle, what: &'static str, event: F) -> io::Result<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match handle.spawn(tokio::time::timeout(WAIT_LIMIT, event)).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(_elapsed)) => Err(io::Error::new(io::ErrorKind::TimedOut, what)),
        Err(_stopped) => Err(io::Error::new(io::ErrorKind::NotConnected, "the double has stopped")),
    }
}

/// Locks, whatever happened to the previous holder: the data here are counters and lists that are
/// never left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
