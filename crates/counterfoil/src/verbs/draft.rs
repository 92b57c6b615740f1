//! An operation while a verb works on it: every change goes through the machine and leaves evidence.

use serde_json::{Map, Value, json};

use super::prepare::digest;
use crate::error::Refusal;
use crate::id::FencingToken;
use crate::operation::{Attempt, AttemptOutcome, Operation, Rejection, RejectionCode, ResultBody};
use crate::snapshot::{Actor, Changes, EvidenceDraft, Write};
use crate::state::{Event, Facts, State, Suspicion, next};
use crate::time::Timestamp;

/// The operation and what is to be written of it.
pub(super) struct Draft {
    pub(super) operation: Operation,
    pub(super) changes: Changes,
    now: Timestamp,
    created: bool,
}

impl Draft {
    /// A new operation.
    pub(super) fn new(operation: Operation, now: Timestamp) -> Self {
        Self { operation, changes: Changes::default(), now, created: true }
    }

    /// A stored operation.
    pub(super) fn of(operation: &Operation, now: Timestamp) -> Self {
        Self { operation: operation.clone(), changes: Changes::default(), now, created: false }
    }

    /// When it is worked on.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Appends evidence; the operation's version grows with each row.
    pub(super) fn note(&mut self, kind: &'static str, by: Actor, data: Value) {
        self.operation.version += 1;
        self.operation.updated_at = self.now;
        self.changes.evidence.push(EvidenceDraft { kind, by, data });
    }

    /// Lets `event` happen. `attempt` is the attempt it is about, if any: the machine is told of the others.
    ///
    /// # Errors
    /// The machine does not list the pair; nothing is changed.
    pub(super) fn apply(&mut self, event: &Event, attempt: Option<u32>) -> Result<(), Refusal> {
        let operation = &mut self.operation;
        let others =
            operation.attempts.iter().filter(|other| Some(other.number) != attempt && !other.settled).count();
        let facts = Facts {
            attempts: operation.attempts.len(),
            others_unsettled: others,
            duplicate_suspected: operation.duplicate_suspected,
            // Whatever a released one held back may have been started past it.
            overtaken: operation.overtaken || operation.released.is_some(),
        };
        let next = next(&operation.state, facts, event)?;
        match next.suspect {
            Suspicion::AsBefore => {}
            Suspicion::Raised => {
                operation.duplicate_suspected = true;
                // A proof that moves nothing is kept for the person who looks.
                if let (Event::Proved(receipt), None) = (event, &next.state) {
                    operation.contradiction.get_or_insert_with(|| receipt.clone());
                }
            }
            Suspicion::Cleared => {
                operation.duplicate_suspected = false;
                operation.contradiction = None;
            }
        }
        if let Some(state) = next.state {
            operation.state = state;
        }
        Ok(())
    }

    /// Nobody reported the attempt made under `fence` in time. It stays unsettled: whatever its sender still says is
    /// heard.
    pub(super) fn attempt_went_silent(&mut self, fence: FencingToken) {
        let unreported = |attempt: &&mut Attempt| attempt.fence == fence && attempt.outcome.is_none();
        if let Some(attempt) = self.operation.attempts.iter_mut().find(unreported) {
            attempt.outcome = Some(AttemptOutcome::Unknown);
            attempt.ended_at = Some(self.now);
            attempt.error = Some("no report before the lease ran out".to_owned());
        }
    }

    /// Nothing that was sent can still take effect.
    pub(super) fn settle_all(&mut self) {
        for attempt in &mut self.operation.attempts {
            attempt.settled = true;
        }
    }

    /// Sets the end of retention for a state that has just become final.
    pub(super) fn finish(&mut self, retention: std::time::Duration) {
        let operation = &mut self.operation;
        // What a person closed counts as final once they have also let go of it.
        let over = match &operation.state {
            State::Succeeded(_) | State::Rejected(_) => true,
            State::Unknown(open) => open.closed.is_some() && operation.released.is_some(),
            State::Prepared(_) | State::InProgress(_) => false,
        };
        operation.receipt_expires_at = match over {
            // Counted from the first time it became final; a flagged one is kept until somebody has looked.
            true if operation.duplicate_suspected => None,
            true => operation.receipt_expires_at.or(Some(self.now.plus(retention))),
            false => None,
        };
        if operation.state.is_final() {
            operation.wish = false;
        }
    }

    /// What is to be written.
    pub(super) fn into_changes(mut self) -> (Operation, Changes) {
        if self.changes.evidence.is_empty() {
            return (self.operation, self.changes);
        }
        let row = Box::new(self.operation.clone());
        self.changes.operation = Some(if self.created { Write::Insert(row) } else { Write::Update(row) });
        (self.operation, self.changes)
    }

    /// Whether anything is to be written.
    pub(super) fn changed(&self) -> bool {
        !self.changes.evidence.is_empty()
    }
}

/// A rejection now.
pub(super) fn rejection(code: RejectionCode, at: Timestamp) -> Rejection {
    Rejection { code, detail: None, by: None, at }
}

/// The state in the words of the evidence.
pub(super) fn state_data(operation: &Operation) -> Value {
    json!({ "state": operation.state.label(), "hold": operation.state.hold().map(|reason| reason.label()) })
}

/// Covers what a destination said by digests, so that purging it leaves the evidence verifiable.
pub(super) fn cover(data: &mut Map<String, Value>, reference: Option<&str>, result: Option<&ResultBody>) {
    data.insert("reference_digest".to_owned(), json!(reference.map(digest)));
    data.insert("result_digest".to_owned(), json!(result.map(|result| &result.digest)));
}
