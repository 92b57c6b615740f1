//! Places in the life of a request where a test can wait and hold, so that no test has to sleep.

use std::io;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::request::SeenRequest;
use super::script::Target;
use crate::host::{lock, wait};

/// A named place, in the order in which a request passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// The request was read to its end; nothing was done about it.
    RequestRead,
    /// The effect is durable; nobody has been told.
    EffectCommitted,
    /// The answer is about to be written.
    ReplyReady,
    /// The answer was written out, as far as this side can tell.
    ReplySent,
}

/// How many times each place was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Passed([u64; 4]);

impl Passed {
    pub(super) fn at(self, point: Point) -> u64 {
        let Self([read, committed, ready, sent]) = self;
        match point {
            Point::RequestRead => read,
            Point::EffectCommitted => committed,
            Point::ReplyReady => ready,
            Point::ReplySent => sent,
        }
    }

    fn count(&mut self, point: Point) {
        let Self([read, committed, ready, sent]) = self;
        match point {
            Point::RequestRead => *read += 1,
            Point::EffectCommitted => *committed += 1,
            Point::ReplyReady => *ready += 1,
            Point::ReplySent => *sent += 1,
        }
    }
}

#[derive(Debug)]
struct Waiting {
    point: Point,
    target: Target,
    reached: watch::Sender<Option<u64>>,
    released: watch::Receiver<bool>,
}

/// The gates of one supplier.
#[derive(Debug)]
pub(super) struct Gates {
    waiting: Mutex<Vec<Waiting>>,
    passed: watch::Sender<Passed>,
}

impl Gates {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::new(Vec::new()), passed: watch::Sender::new(Passed::default()) }
    }

    pub(super) fn passed(&self) -> watch::Receiver<Passed> {
        self.passed.subscribe()
    }

    pub(super) fn hold(&self, handle: &Handle, point: Point, target: Target) -> Gate {
        let (reached, reached_here) = watch::channel(None);
        let (release, released) = watch::channel(false);
        lock(&self.waiting).push(Waiting { point, target, reached, released });
        Gate { handle: handle.clone(), reached: reached_here, release }
    }

    /// Counts the passage, and stops at the first gate that is meant for this request.
    pub(super) async fn pass(&self, point: Point, request: &SeenRequest) {
        self.passed.send_modify(|passed| passed.count(point));
        let taken = {
            let mut waiting = lock(&self.waiting);
            // A gate whose handle is gone holds nothing up.
            waiting.retain(|gate| gate.released.has_changed().is_ok() && !*gate.released.borrow());
            let index = waiting.iter().position(|gate| gate.point == point && gate.target.matches(request));
            index.map(|index| waiting.remove(index))
        };
        if let Some(mut gate) = taken {
            gate.reached.send_replace(Some(request.number));
            // An error means that the handle is gone, which releases as well.
            drop(gate.released.wait_for(|released| *released).await);
        }
    }
}

/// Holds the next matching request at a place until released or dropped. It serves one request.
#[derive(Debug)]
pub struct Gate {
    handle: Handle,
    reached: watch::Receiver<Option<u64>>,
    release: watch::Sender<bool>,
}

impl Gate {
    /// Waits until a request stands at the gate, and returns its number.
    ///
    /// # Errors
    /// `TimedOut` after 30 seconds, `NotConnected` if the supplier stopped.
    pub async fn reached(&self) -> io::Result<u64> {
        let mut reached = self.reached.clone();
        let number = wait(&self.handle, "no request reached the gate", async move {
            reached.wait_for(Option::is_some).await.map(|number| *number).ok().flatten()
        })
        .await?;
        number.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the supplier has stopped"))
    }

    /// As [`Gate::reached`], from code that is not async.
    ///
    /// # Errors
    /// As [`Gate::reached`].
    pub fn reached_blocking(&self) -> io::Result<u64> {
        self.handle.block_on(self.reached())
    }

    /// Lets the request go on; or the next one pass, if none has come yet.
    pub fn release(self) {
        self.release.send_replace(true);
    }
}
