//! The sentences that a model or a person reads: fixed texts with instants and IDs put in, never text that an agent or
//! a destination wrote.

use crate::decide::{Action, NextStep};
use crate::operation::{Attempt, Operation, RejectionCode};
use crate::state::State;
use crate::time::Timestamp;

/// The sentence for one step.
pub(crate) fn sentence(next: &NextStep, operation: &Operation) -> String {
    let id = &operation.id;
    match next.action {
        Action::None => match &operation.state {
            State::Succeeded(receipt) => match &receipt.reference {
                Some(reference) if printable(reference) => format!("Done: {reference}."),
                Some(_) | None => "Done.".to_owned(),
            },
            State::Prepared(_) | State::InProgress(_) | State::Rejected(_) | State::Unknown(_) => {
                format!(
                    "Closed by a person without proof either way. Do not send it again; ask about operation {id}."
                )
            }
        },
        Action::Wait => format!("In progress. Do not send it again; ask for operation {id}."),
        Action::Approve => match &next.operation {
            Some(holder) => {
                let what = match next.reason {
                    Some("predecessor-succeeded") => "which was to be replaced, succeeded",
                    Some("subject-succeeded") => "about the same subject succeeded meanwhile",
                    Some(_) | None => "did the same thing and succeeded",
                };
                format!(
                    "Nothing was sent: operation {holder} {what}. An approver must say that {id} is wanted as well."
                )
            }
            None => format!("Nothing was sent. Operation {id} waits for a person's approval."),
        },
        Action::Execute => format!("Prepared, nothing was sent. Execute operation {id} to run it."),
        Action::WaitForOperation => match &next.operation {
            Some(holder) => {
                let what = match next.reason {
                    Some("predecessor-unresolved") => "which is to be replaced",
                    Some("subject-held") => "about the same subject",
                    Some(_) | None => "with the same action",
                };
                format!("Nothing was sent: operation {holder} {what} is not settled. Ask for {holder} first.")
            }
            None => format!("Nothing was sent. Operation {id} waits for another one."),
        },
        Action::Retry if next.reason == Some("paused") => {
            format!("Sends are paused. Operation {id} runs after they resume; do not make a new one.")
        }
        Action::Retry => format!("Operation {id} is tried by itself{}; do not make a new one.", at(next.at)),
        Action::Reconcile => format!(
            "Not confirmed: {}. Do not send it again; ask for operation {id}.",
            sent_when(operation.attempts.last())
        ),
        Action::Review => match &operation.state {
            State::Succeeded(_) => {
                format!("Done, but a second effect is suspected. A person looks at operation {id}.")
            }
            State::Rejected(_) => {
                format!(
                    "Recorded as not done, but proof of the opposite came. A person looks at operation {id}."
                )
            }
            State::Prepared(_) => {
                format!("Nothing more is sent. A person must look at operation {id} first.")
            }
            State::Unknown(_) | State::InProgress(_) => format!(
                "Not confirmed: {}, and no rule can tell what became of it. A person looks at operation {id}. Do not \
                 send it again.",
                sent_when(operation.attempts.last())
            ),
        },
        Action::Correct | Action::Report => rejected(operation),
    }
}

fn rejected(operation: &Operation) -> String {
    let State::Rejected(rejection) = &operation.state else {
        return "Nothing happened.".to_owned();
    };
    let why = match rejection.code {
        RejectionCode::DestinationRejected => {
            "the destination refused it. A corrected action is a new operation with a new ID"
        }
        RejectionCode::ApprovalDenied => "a person said no",
        RejectionCode::ApprovalExpired => "nobody approved it in time",
        RejectionCode::Withdrawn => "it was withdrawn before it started",
        RejectionCode::Replaced => "a changed proposal took its place",
        RejectionCode::NotStarted => "it was never started",
        RejectionCode::BudgetExhausted => {
            "every attempt failed without effect. Tell the user; do not make a new one"
        }
        RejectionCode::ConfirmedAbsent => "a person established that it did not happen",
    };
    format!("Nothing happened: {why}.")
}

fn sent_when(attempt: Option<&Attempt>) -> String {
    match attempt {
        Some(attempt) => format!("it was sent at {} and no answer settled it", clock(attempt.started_at)),
        None => "nothing is known of an attempt".to_owned(),
    }
}

fn at(instant: Option<Timestamp>) -> String {
    instant.map(|instant| format!(" at {}", clock(instant))).unwrap_or_default()
}

fn clock(instant: Timestamp) -> String {
    let text = instant.to_string();
    match text.get(11..19) {
        Some(time) => format!("{time} UTC"),
        None => text,
    }
}

/// A destination's reference is shown to a model only where it cannot carry a message of its own.
fn printable(reference: &str) -> bool {
    reference.len() <= 64
        && reference.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/#-".contains(&byte))
}
