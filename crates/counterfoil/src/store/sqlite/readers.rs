//! A few threads that read, each with a connection of its own, behind one bounded queue.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::store::failure::Failure;
use crate::store::shared::Shared;

type Task = Box<dyn FnOnce(&Connection) + Send>;

/// The way to the reading threads.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    queue: SyncSender<Task>,
}

/// The threads' end of the queue.
#[derive(Clone, Debug)]
pub(super) struct Tasks(Arc<Mutex<Receiver<Task>>>);

impl Readers {
    /// A queue of at most `length` waiting reads.
    pub(super) fn new(length: usize) -> (Self, Tasks) {
        let (queue, tasks) = sync_channel(length);
        (Self { queue }, Tasks(Arc::new(Mutex::new(tasks))))
    }

    /// Reads; what takes more than one statement must ask for a view of its own ([`consistently`]).
    pub(super) async fn read<R: Send + 'static>(
        &self,
        shared: Arc<Shared>,
        work: impl FnOnce(&Connection) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (reply, answer) = oneshot::channel();
        let task: Task = Box::new(move |connection| {
            let outcome = work(connection);
            if let Err(Failure::Fatal(error)) = &outcome {
                shared.poison(error.clone());
            }
            // What was read while the writer failed may be less than what is durable: nobody is told.
            let outcome = match shared.fatal() {
                Some(error) => Err(error),
                None => outcome.map_err(Failure::into_store_error),
            };
            drop(reply.send(outcome));
        });
        self.queue.try_send(task).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Unavailable("too many reads are waiting".to_owned()),
            TrySendError::Disconnected(_) => super::closed(),
        })?;
        answer.await.map_err(|_| super::closed())?
    }
}

impl Tasks {
    /// Works until every sender is gone and the queue is empty.
    pub(super) fn work(&self, connection: Connection, shared: &Shared) {
        while let Some(task) = self.next() {
            task(&connection);
        }
        super::file::close(connection, shared.fatal().is_some());
    }

    fn next(&self) -> Option<Task> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}

/// Reads with one consistent view of the file.
pub(super) fn consistently<R>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // Prepared once: a read is so short that reading these two words anew each time would be felt.
    connection.prepare_cached("BEGIN")?.execute([])?;
    let outcome = work(connection);
    connection.prepare_cached("ROLLBACK")?.execute([])?;
    outcome
}
