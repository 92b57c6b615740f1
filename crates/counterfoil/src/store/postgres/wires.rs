//! A few connections that are used again.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Inner;
use super::wire::Wire;
use crate::error::StoreError;
use crate::store::failure::Failure;

/// Connections of one purpose.
#[derive(Debug)]
pub(super) struct Wires {
    idle: Mutex<Vec<Wire>>,
    places: Arc<Semaphore>,
}

/// A connection that nobody else uses meanwhile. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Held {
    wire: Wire,
    _place: OwnedSemaphorePermit,
}

impl Deref for Held {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl Wires {
    /// At most this many.
    pub(super) fn new(most: usize) -> Self {
        Self { idle: Mutex::default(), places: Arc::new(Semaphore::new(most.max(1))) }
    }

    /// One of them, as soon as one is free.
    pub(super) async fn take(&self, inner: &Inner) -> Result<Held, Failure> {
        let place = self.places.clone().acquire_owned().await;
        let place =
            place.map_err(|_| Failure::Batch(StoreError::Unavailable("the ledger is closed".to_owned())))?;
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(wire) if wire.closed() => {}
                Some(wire) => return Ok(Held { wire, _place: place }),
                None => return Ok(Held { wire: inner.connect().await?, _place: place }),
            }
        }
    }

    /// Gives one back; it is used again only if nothing is left of what it was used for.
    pub(super) fn give_back(&self, held: Held, clean: bool) {
        if clean && !held.wire.closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(held.wire);
        }
    }
}
