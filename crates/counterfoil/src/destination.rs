//! What the ledger learns from a destination, whoever carries the request: the outcome of one attempt and what it
//! proves.

use std::sync::Arc;
use std::time::Duration;

use crate::fingerprint::Arguments;
use crate::id::Account;
use crate::operation::{Attempt, AttemptOutcome, LookUpAnswer, Marker, Operation, ResultBody};
use crate::policy::{Meaning, Tool};
use crate::safeguard::Safeguard;
use crate::time::Timestamp;

/// What the sender of one attempt found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it proves.
    pub meaning: Meaning,
    /// Whether it is certain that no byte of the request reached a peer (then `meaning` is `NotProcessed`).
    pub not_sent: bool,
    /// How far the sender got.
    pub marker: Marker,
    /// The status of the answer, where one was read.
    pub status: Option<u16>,
    /// What went wrong, in our own fixed words: no text of a destination, no secret.
    pub error: Option<String>,
    /// Why the destination refused, in the words of an application's own worker: hostile wherever it is shown.
    pub reason: Option<String>,
    /// What the destination calls the thing that was created.
    pub reference: Option<String>,
    /// What it answered, for a receipt.
    pub result: Option<ResultBody>,
    /// The destination's lower bound for the next attempt.
    pub retry_after: Option<Duration>,
    /// The destination refused the credential (401, 407, 511).
    pub credential_refused: bool,
    /// The sender stopped by itself before the first byte (paused, too late, shutting down): it uses up no attempt.
    pub stopped: bool,
    /// Callers are told that there is no answer yet; the sender reads on until then.
    pub lingers_until: Option<Timestamp>,
}

impl Finding {
    /// A finding that proves nothing yet.
    #[must_use]
    pub fn unknown(marker: Marker, error: &str) -> Self {
        Self {
            meaning: Meaning::Unknown,
            not_sent: false,
            marker,
            status: None,
            error: Some(error.to_owned()),
            reason: None,
            reference: None,
            result: None,
            retry_after: None,
            credential_refused: false,
            stopped: false,
            lingers_until: None,
        }
    }

    /// No byte of the request reached a peer.
    #[must_use]
    pub fn not_sent(marker: Marker, error: &str) -> Self {
        Self { meaning: Meaning::NotProcessed, not_sent: true, ..Self::unknown(marker, error) }
    }

    /// The sender stopped by itself before the first byte.
    #[must_use]
    pub fn stopped(marker: Marker, error: &str) -> Self {
        Self { stopped: true, ..Self::not_sent(marker, error) }
    }

    /// The outcome that is recorded for the attempt.
    #[must_use]
    pub fn outcome(&self) -> AttemptOutcome {
        match self.meaning {
            Meaning::Succeeded => AttemptOutcome::Succeeded,
            Meaning::Rejected => AttemptOutcome::Rejected,
            Meaning::NotProcessed if self.not_sent => AttemptOutcome::NotSent,
            Meaning::NotProcessed => AttemptOutcome::NotProcessed,
            Meaning::Throttled => AttemptOutcome::Throttled,
            Meaning::Pending => AttemptOutcome::Pending,
            Meaning::DuplicateOfOurs | Meaning::Unknown => AttemptOutcome::Unknown,
        }
    }
}

/// What a look-up learned. It never sends a copy of the request; it asks whether there is a record of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// What the destination said. `Found` only where the record repeats what the declaration wants it to repeat.
    pub answer: LookUpAnswer,
    /// What the destination calls the record.
    pub reference: Option<String>,
    /// The record, for a receipt.
    pub result: Option<ResultBody>,
    /// What went wrong, in our own fixed words: no text of a destination, no secret.
    pub error: Option<String>,
    /// The credential belongs to another vendor account now, whose records say nothing: nothing was asked.
    pub scope_changed: bool,
}

impl LookedUp {
    /// There was no answer.
    #[must_use]
    pub fn failed(error: &str) -> Self {
        Self {
            answer: LookUpAnswer::Failed,
            reference: None,
            result: None,
            error: Some(error.to_owned()),
            scope_changed: false,
        }
    }
}

/// A request that is fixed before its attempt is recorded. What it holds beside the public facts is the destination's
/// own business.
pub struct Made {
    /// Digest of method, URL, body, and every header without a secret.
    pub digest: String,
    /// The vendor account that the credential belongs to.
    pub scope: Option<String>,
    /// The token bucket that sends share.
    pub bucket: Option<String>,
    /// The request itself.
    pub request: Box<dyn std::any::Any + Send>,
}

/// What the last check before the first byte looks at: local facts only, so that nothing can come between it and the
/// write.
#[derive(Clone, Copy, Debug)]
pub struct LastLook {
    /// The process is shutting down.
    pub stopping: bool,
    /// The monotonic clock.
    pub monotonic: Duration,
    /// On that clock: no first byte from here on.
    pub deadline: Duration,
    /// Store time.
    pub now: Timestamp,
    /// The same in store time: a host that slept has a monotonic clock that did not count it.
    pub send_before: Timestamp,
    /// Sends are paused, as last read.
    pub paused: bool,
    /// The ledger failed.
    pub failed: bool,
}

impl LastLook {
    /// Whether the first byte may go out now.
    ///
    /// # Errors
    /// Why not, in fixed words.
    pub fn may_write(&self) -> Result<(), &'static str> {
        let late = self.monotonic >= self.deadline || self.now >= self.send_before;
        if self.stopping {
            Err("stopped before the first byte: shutting down")
        } else if late && Safeguard::SendBefore.stands() {
            Err("stopped before the first byte: too late for this attempt")
        } else if self.paused && Safeguard::PauseAtFirstByte.stands() {
            Err("stopped before the first byte: paused")
        } else if self.failed {
            Err("stopped before the first byte: the ledger failed")
        } else {
            Ok(())
        }
    }
}

/// How long after its commit an attempt may put off its first byte: as long as its window, and as its approval.
#[must_use]
pub fn first_byte_within(operation: &Operation, attempt: &Attempt) -> Duration {
    let window = attempt.send_before.since(attempt.started_at);
    let approved_for = operation.approval.as_ref().map(|given| given.expires_at.since(attempt.started_at));
    approved_for.map_or(window, |left| left.min(window))
}

/// The last check before the first byte is handed to a connection.
pub trait Gate: Send + Sync + 'static {
    /// Whether the first byte may go out now.
    ///
    /// # Errors
    /// Why not, in fixed words; the attempt then ends as not sent.
    fn may_write(&self) -> Result<(), &'static str>;
}

/// A boxed future, so that destinations can be chosen at run time.
pub type Boxed<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// The system that the effect happens in.
pub trait Destination: Send + Sync + 'static {
    /// Makes the request. Pure but for secrets, which are named and not looked at.
    ///
    /// # Errors
    /// Why the arguments cannot become a request of the tool, in words that repeat no value.
    fn make(
        &self,
        tool: &Tool,
        account: &Account,
        arguments: &Arguments,
        key: Option<&str>,
    ) -> Result<Made, String>;

    /// Connects, asks `gate`, and only then writes. At the tool's timeout it uses `late` once and reads on until the
    /// linger ends. `first` says that no earlier attempt of the operation exists.
    fn send(
        &self,
        made: Made,
        tool: Arc<Tool>,
        first: bool,
        gate: Arc<dyn Gate>,
        late: tokio::sync::oneshot::Sender<()>,
    ) -> Boxed<Finding>;

    /// Asks whether there is a record of what was sent with `key` under `scope`.
    fn look_up(
        &self,
        tool: Arc<Tool>,
        account: &Account,
        arguments: &Arguments,
        key: Option<&str>,
        scope: Option<&str>,
    ) -> Boxed<LookedUp>;
}
