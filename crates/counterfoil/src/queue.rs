//! The two queues of an operation that an application's own worker carries out: when time alone does something to it,
//! which any node sees to, and when a worker may take it. They are apart so that neither work that nobody takes nor work
//! that goes on elsewhere stands in the way of the other. Pure.

use std::time::Duration;

use crate::backoff::Spent;
use crate::decide::asks;
use crate::operation::Operation;
use crate::policy::Tool;
use crate::reconcile::FIRST_ANSWER;
use crate::state::{Open, State};
use crate::time::Timestamp;

/// When a worker may take the operation: to send what is wished and due, or to send again or look up what is unknown.
/// `None` for tools that no worker carries out. The claim itself asks every guard.
#[must_use]
pub fn work_at(operation: &Operation, facts: &Tool) -> Option<Timestamp> {
    facts.worker()?;
    let at = match &operation.state {
        State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => None,
        State::Prepared(_) if operation.duplicate_suspected || operation.released.is_some() => None,
        State::Prepared(waiting) => {
            let undecided = asks(operation, facts) && operation.approval.is_none();
            let runs = operation.wish && !undecided && waiting.hold.is_none();
            runs.then(|| waiting.not_before.unwrap_or(operation.updated_at))
        }
        State::Unknown(open) if open.closed.is_some() => None,
        State::Unknown(open) => open.not_before,
    }?;
    // Whoever investigates is left alone while its claim lasts.
    let taken = operation.investigation.as_ref().map(|claim| claim.lease_expires_at);
    Some(taken.map_or(at, |until| at.max(until)))
}

/// When time alone may move an unknown operation of a worker: never later than it does, so that a pass at that instant
/// finds what there is to find.
#[must_use]
pub(crate) fn unknown_due_at(operation: &Operation, open: &Open, facts: &Tool) -> Option<Timestamp> {
    let planned = match (&open.closed, open.hold, open.not_before) {
        (Some(_), _, _) | (None, Some(_), None) => return None,
        (None, _, Some(at)) => at,
        // Not planned yet: the next pass does it.
        (None, None, None) => return Some(operation.updated_at),
    };
    let last = operation.attempts.last()?;
    let ended = last.ended_at.unwrap_or(last.started_at);
    let spent = Spent::by(&operation.attempts, Duration::ZERO);
    let window = facts.recovery.send_allowed_until(operation.attempts_under_key());
    let over = facts.recovery.lookup().map(|_| last.started_at.plus(facts.recovery.lookup_for()));
    let ends = match open.hold {
        None => [
            // Until then nobody had to ask a person without a look-up.
            Some(ended.plus(FIRST_ANSWER)),
            over,
            spent.ends_at(&facts.budget),
            window.map(|until| until.minus(facts.send_window())),
        ],
        // A person is asked already: what is left is the end of the look-ups.
        Some(_) => [over, None, None, None],
    };
    // What lies before the last plan was looked at when that was made. Other evidence (a renewed claim, a note, a
    // webhook) plans nothing and must not hide an end that nobody has looked at.
    let looked = operation.look_ups.last().map(|look| look.ended_at);
    let asked = operation.investigation.as_ref().and_then(|claim| claim.look_up).map(|begun| begun.at);
    let seen = [Some(ended), looked, asked].into_iter().flatten().max();
    ends.into_iter().flatten().filter(|end| Some(*end) >= seen).map(|end| end.max(planned)).min()
}
