//! The whole machine: five states, what can happen, and one total function from (what is known) and (what happened)
//! to what is then known.
//!
//! A pair that the function does not list is a typed refusal, never a panic and never a silent no-op. Workers, API,
//! command line and recovery all go through it. The table in `docs/reference/states.md` is made from it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::Principal;
use crate::operation::{Claim, Receipt, Rejection, RejectionCode};
use crate::recovery::HoldReason;
use crate::safeguard::Safeguard;
use crate::time::Timestamp;

/// What is known of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Action and arguments are stored; no attempt is running, and every earlier one is settled without effect.
    /// A crash here loses nothing.
    Prepared(Waiting),
    /// A worker holds a claim, and something may have been sent. A crash here makes it `unknown` once the lease has
    /// run out, which proves nothing.
    InProgress(Claim),
    /// A receipt names what was created. Final.
    Succeeded(Receipt),
    /// Nothing happened, and that is certain. Final, unless proof of success turns up.
    Rejected(Rejection),
    /// An attempt began and its outcome cannot be confirmed. Never ends by itself: a rule, a late proof or a person
    /// settles it.
    Unknown(Open),
}

/// What a prepared operation waits for, apart from approval and guards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waiting {
    /// No attempt before this instant.
    pub not_before: Option<Timestamp>,
    /// A person must look at it first.
    pub hold: Option<HoldReason>,
}

/// What an operation with an unconfirmed attempt waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Open {
    /// When the next look-up, repeat or pass is due.
    pub not_before: Option<Timestamp>,
    /// No rule can settle it: a person decides.
    pub hold: Option<HoldReason>,
    /// A person closed it and accepted the risk.
    pub closed: Option<Closed>,
}

/// How a person closed what nobody could settle.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Closed {
    /// Who.
    pub by: Principal,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub note: String,
}

/// What happened to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The commit that records an attempt under a fresh claim.
    Started(Claim),
    /// A worker took a claim to investigate. It grants no right to send.
    Investigated,
    /// The holder renewed its lease.
    Renewed(Claim),
    /// The lease ran out.
    LeaseExpired,
    /// The running attempt ended without effect, for certain.
    EndedWithoutEffect(AfterSettled),
    /// The destination refused the running attempt as such.
    Refused(Rejection),
    /// The running attempt ended, or is waited for no longer, and nothing is proved.
    Unconfirmed(Open),
    /// Effect and receipt are part of the commit that this event is part of.
    CommittedTogether(Receipt),
    /// Proof of success from anyone, under any fencing token.
    Proved(Receipt),
    /// The last unsettled attempt became settled, and a fresh pass decides.
    AllSettled(AfterSettled),
    /// A pass over an open operation found when to go on, or that a person must.
    Replanned(Open),
    /// A pass over a prepared operation found when to go on, or that a person must.
    Deferred(Waiting),
    /// An approver said yes.
    Approved,
    /// An approver said no.
    Denied(Rejection),
    /// The application took it back.
    Withdrawn(Rejection),
    /// Its time ran out before an attempt, or between settled attempts.
    Lapsed(Rejection),
    /// A changed proposal took its place.
    Replaced(Rejection),
    /// A person says that it happened, with what shows it.
    Vouched(Receipt),
    /// A person established that nothing happened.
    ConfirmedAbsent(Rejection),
    /// A person established that nothing happened and allowed one more attempt.
    AnotherAllowed(Waiting),
    /// A person closed it and accepted the risk.
    Abandoned(Closed),
    /// An approver looked at a suspected duplicate and kept the state.
    Acknowledged,
    /// An approver let later operations pass.
    Released,
}

/// What follows when every attempt is settled without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterSettled {
    /// The budget allows another attempt.
    Again(Waiting),
    /// It ends here.
    Over(Rejection),
}

/// The facts beside the state that the machine looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// How many attempts were recorded.
    pub attempts: usize,
    /// How many of them may have had an effect, apart from the one that the event is about.
    pub others_unsettled: usize,
    /// More than one effect may exist, or an effect contradicts the state.
    pub duplicate_suspected: bool,
    /// Another operation with this action, subject or a replacement was started past this one.
    pub overtaken: bool,
}

/// What is then known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The new state; `None` where the event is kept as evidence and moves nothing.
    pub state: Option<State>,
    /// Whether a duplicate is suspected from now on.
    pub suspect: Suspicion,
}

/// What an event does to the suspicion of a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// Nothing.
    AsBefore,
    /// It raises it: metric, event, banner, and a person looks.
    Raised,
    /// It clears it.
    Cleared,
}

/// The event cannot happen in this state: nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event} is not possible while the operation is {state}")]
pub struct IllegalEvent {
    /// Where the operation was.
    pub state: &'static str,
    /// What was to happen.
    pub event: &'static str,
}

impl State {
    /// The state as it is stored and shown.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Prepared(_) => "prepared",
            Self::InProgress(_) => "in_progress",
            Self::Succeeded(_) => "succeeded",
            Self::Rejected(_) => "rejected",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Whether nothing but proof of success can move it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Succeeded(_) | Self::Rejected(_) => true,
            Self::Prepared(_) | Self::InProgress(_) | Self::Unknown(_) => false,
        }
    }

    /// Why a person must look, if one must.
    #[must_use]
    pub fn hold(&self) -> Option<HoldReason> {
        match self {
            Self::Prepared(waiting) => waiting.hold,
            Self::Unknown(open) if open.closed.is_none() => open.hold,
            Self::Unknown(_) | Self::InProgress(_) | Self::Succeeded(_) | Self::Rejected(_) => None,
        }
    }

    /// The claim, while a worker holds one.
    #[must_use]
    pub fn claim(&self) -> Option<&Claim> {
        match self {
            Self::InProgress(claim) => Some(claim),
            Self::Prepared(_) | Self::Succeeded(_) | Self::Rejected(_) | Self::Unknown(_) => None,
        }
    }

    /// The receipt, where success is proved.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::Succeeded(receipt) => Some(receipt),
            Self::Prepared(_) | Self::InProgress(_) | Self::Rejected(_) | Self::Unknown(_) => None,
        }
    }
}

impl Event {
    /// The event in words, for tables and refusals.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::Investigated => "investigated",
            Self::Renewed(_) => "renewed",
            Self::LeaseExpired => "lease expired",
            Self::EndedWithoutEffect(_) => "ended without effect",
            Self::Refused(_) => "refused",
            Self::Unconfirmed(_) => "unconfirmed",
            Self::CommittedTogether(_) => "committed together",
            Self::Proved(_) => "proved",
            Self::AllSettled(_) => "all settled",
            Self::Replanned(_) => "replanned",
            Self::Deferred(_) => "deferred",
            Self::Approved => "approved",
            Self::Denied(_) => "denied",
            Self::Withdrawn(_) => "withdrawn",
            Self::Lapsed(_) => "lapsed",
            Self::Replaced(_) => "replaced",
            Self::Vouched(_) => "vouched",
            Self::ConfirmedAbsent(_) => "confirmed absent",
            Self::AnotherAllowed(_) => "another allowed",
            Self::Abandoned(_) => "abandoned",
            Self::Acknowledged => "acknowledged",
            Self::Released => "released",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

fn becomes(state: State) -> Next {
    Next { state: Some(state), suspect: Suspicion::AsBefore }
}

const STAYS: Next = Next { state: None, suspect: Suspicion::AsBefore };
const SUSPECT: Next = Next { state: None, suspect: Suspicion::Raised };

fn settled(after: &AfterSettled) -> State {
    match after {
        AfterSettled::Again(waiting) => State::Prepared(waiting.clone()),
        AfterSettled::Over(rejection) => State::Rejected(rejection.clone()),
    }
}

/// The machine: what is known after `event` happened to an operation in `state` with these `facts`.
///
/// # Errors
/// The event cannot happen there; nothing changes.
#[allow(clippy::too_many_lines, reason = "one total function, to be read as a table")]
pub fn next(state: &State, facts: Facts, event: &Event) -> Result<Next, IllegalEvent> {
    let illegal = Err(IllegalEvent { state: state.label(), event: event.label() });
    match event {
        // Proof of success settles whatever is open, under any fencing token, also what a person closed. Where it
        // contradicts what is known, nothing is overwritten: a person looks.
        Event::Proved(receipt) => match state {
            State::InProgress(_) | State::Unknown(_) => Ok(succeeded(receipt, facts)),
            State::Prepared(_) if facts.attempts > 0 => Ok(succeeded(receipt, facts)),
            State::Prepared(_) | State::Rejected(_) => Ok(SUSPECT),
            State::Succeeded(known) => match (&known.reference, &receipt.reference) {
                (Some(known), Some(other)) if known != other => Ok(SUSPECT),
                (Some(_) | None, Some(_) | None) => Ok(STAYS),
            },
        },
        // Own database: attempt, effect and receipt are one commit; a crash leaves all of it or nothing. Only an effect
        // that commits by itself leaves the attempt alone, and then nobody can say what it did.
        Event::CommittedTogether(receipt) => match state {
            State::InProgress(_) if facts.others_unsettled == 0 && !facts.duplicate_suspected => {
                Ok(becomes(State::Succeeded(receipt.clone())))
            }
            State::InProgress(_)
            | State::Prepared(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        // An attempt begins only where none can have an effect any more, or where the recovery guards said that a
        // second copy collapses at the destination; a flagged or closed operation is never sent again.
        Event::Started(claim) => match state {
            State::Prepared(_) if facts.others_unsettled == 0 && !facts.duplicate_suspected => {
                Ok(becomes(State::InProgress(claim.clone())))
            }
            State::Unknown(Open { closed: None, .. }) if !facts.duplicate_suspected => {
                Ok(becomes(State::InProgress(claim.clone())))
            }
            State::Prepared(_)
            | State::Unknown(_)
            | State::InProgress(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        Event::Renewed(claim) => match state {
            State::InProgress(held) if held.fence == claim.fence => {
                Ok(becomes(State::InProgress(claim.clone())))
            }
            State::InProgress(_)
            | State::Prepared(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        // A lease that ran out proves nothing: what was sent may still take effect.
        Event::LeaseExpired => match state {
            State::InProgress(_) => Ok(becomes(State::Unknown(Open::default()))),
            State::Prepared(_) | State::Unknown(_) | State::Succeeded(_) | State::Rejected(_) => illegal,
        },
        Event::Investigated => match state {
            State::Unknown(_) => Ok(STAYS),
            State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => illegal,
        },
        // What the running attempt's own sender says. A negative answer is about this attempt alone: while another
        // one may have worked, the operation stays open.
        Event::EndedWithoutEffect(after) => match state {
            State::InProgress(_) | State::Unknown(_) if facts.others_unsettled == 0 => {
                Ok(becomes(settled(after)))
            }
            State::InProgress(_) => Ok(becomes(State::Unknown(Open::default()))),
            State::Unknown(_) => Ok(STAYS),
            State::Prepared(_) | State::Succeeded(_) | State::Rejected(_) => illegal,
        },
        Event::Refused(rejection) => match state {
            State::InProgress(_) | State::Unknown(_) if facts.others_unsettled == 0 => {
                Ok(becomes(State::Rejected(rejection.clone())))
            }
            State::InProgress(_) | State::Unknown(_) if !Safeguard::RefusalNeedsAllSettled.stands() => {
                Ok(becomes(State::Rejected(rejection.clone())))
            }
            State::InProgress(_) => Ok(becomes(State::Unknown(Open::default()))),
            State::Unknown(_) => Ok(STAYS),
            State::Prepared(_) | State::Succeeded(_) | State::Rejected(_) => illegal,
        },
        Event::Unconfirmed(open) => match state {
            State::InProgress(_) => Ok(becomes(State::Unknown(open.clone()))),
            State::Unknown(_) => Ok(STAYS),
            State::Prepared(_) | State::Succeeded(_) | State::Rejected(_) => illegal,
        },
        Event::AllSettled(after) => match state {
            State::Unknown(_) if facts.others_unsettled == 0 => Ok(becomes(settled(after))),
            State::Unknown(_)
            | State::Prepared(_)
            | State::InProgress(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        Event::Replanned(open) => match state {
            State::Unknown(known) if known.closed.is_none() => Ok(becomes(State::Unknown(open.clone()))),
            State::Unknown(_)
            | State::Prepared(_)
            | State::InProgress(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        Event::Deferred(waiting) => match state {
            State::Prepared(_) => Ok(becomes(State::Prepared(waiting.clone()))),
            State::Unknown(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => illegal,
        },
        Event::Approved => match state {
            // Between settled attempts too: an approval that a changed route voided is given anew.
            State::Prepared(_) => Ok(STAYS),
            State::InProgress(_) | State::Unknown(_) | State::Succeeded(_) | State::Rejected(_) => illegal,
        },
        // Decisions before a start: a no after an attempt would hide that something was tried, and would let the same
        // action begin anew with a fresh budget.
        Event::Denied(rejection) | Event::Withdrawn(rejection) => match state {
            State::Prepared(_) if facts.attempts == 0 && !facts.duplicate_suspected => {
                Ok(becomes(State::Rejected(rejection.clone())))
            }
            State::Prepared(_)
            | State::InProgress(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        Event::Replaced(rejection) => match state {
            State::Prepared(_) if facts.others_unsettled == 0 && !facts.duplicate_suspected => {
                Ok(becomes(State::Rejected(rejection.clone())))
            }
            State::Prepared(_)
            | State::InProgress(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        Event::Lapsed(rejection) => match state {
            State::Prepared(_) if facts.others_unsettled == 0 && !facts.duplicate_suspected => {
                Ok(becomes(State::Rejected(rejection.clone())))
            }
            State::Prepared(_)
            | State::InProgress(_)
            | State::Unknown(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        Event::Vouched(receipt) => match state {
            State::Unknown(_) => {
                Ok(Next { state: Some(State::Succeeded(receipt.clone())), suspect: Suspicion::Cleared })
            }
            // Only where proof of success stands against the rejection.
            State::Rejected(_) if facts.duplicate_suspected => {
                Ok(Next { state: Some(State::Succeeded(receipt.clone())), suspect: Suspicion::Cleared })
            }
            State::Rejected(_) | State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) => illegal,
        },
        // A person's word is a settled look-up: whoever decides has waited for quiescence (recovery guards).
        Event::ConfirmedAbsent(rejection) => match state {
            State::Unknown(_) if !facts.duplicate_suspected => {
                Ok(becomes(State::Rejected(rejection.clone())))
            }
            State::Unknown(_)
            | State::Prepared(_)
            | State::InProgress(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        Event::AnotherAllowed(waiting) => match state {
            State::Unknown(Open { closed: None, .. }) if !facts.duplicate_suspected => {
                Ok(becomes(State::Prepared(waiting.clone())))
            }
            State::Unknown(_)
            | State::Prepared(_)
            | State::InProgress(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        // More than one record is more than nobody can tell: a person names the one that is ours.
        Event::Abandoned(closed) => match state {
            State::Unknown(Open { closed: None, .. }) if !facts.duplicate_suspected => {
                Ok(becomes(State::Unknown(Open {
                    not_before: None,
                    hold: None,
                    closed: Some(closed.clone()),
                })))
            }
            State::Unknown(_)
            | State::Prepared(_)
            | State::InProgress(_)
            | State::Succeeded(_)
            | State::Rejected(_) => illegal,
        },
        Event::Acknowledged => match state {
            State::Succeeded(_) | State::Rejected(_) | State::Prepared(_) if facts.duplicate_suspected => {
                Ok(Next { state: None, suspect: Suspicion::Cleared })
            }
            State::Succeeded(_)
            | State::Rejected(_)
            | State::Prepared(_)
            | State::InProgress(_)
            | State::Unknown(_) => illegal,
        },
        Event::Released => match state {
            State::Unknown(_) => Ok(STAYS),
            State::Rejected(rejection) if rejection.code == RejectionCode::BudgetExhausted => Ok(STAYS),
            State::Prepared(_) | State::Succeeded(_) | State::Rejected(_) if facts.duplicate_suspected => {
                Ok(STAYS)
            }
            State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => illegal,
        },
    }
}

fn succeeded(receipt: &Receipt, facts: Facts) -> Next {
    let suspect = if facts.overtaken { Suspicion::Raised } else { Suspicion::AsBefore };
    Next { state: Some(State::Succeeded(receipt.clone())), suspect }
}
