//! What a person may say of an operation as it stands, and what that will cause.

use counterfoil::Timestamp;

use crate::cli::op::operation::Operation;

/// One thing that may be said or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It happened.
    Succeeded,
    /// It did not happen.
    Absent,
    /// Nobody can tell.
    Abandon,
    /// A suspected duplicate was looked at.
    Acknowledge,
    /// Later ones may pass.
    Release,
    /// Write something down.
    Note,
    /// Ask the destination.
    LookUp,
    /// Show everything.
    Whole,
}

/// When it can be established that nothing happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// Now.
    Now,
    /// Not before this instant.
    From(String),
    /// Never: nothing bounds how late the request may still take effect.
    Never,
    /// It is not the question.
    NoQuestion,
}

impl Absence {
    pub(super) fn of(operation: &Operation, now: Timestamp) -> Self {
        if operation.state != "unknown" || operation.duplicate_suspected {
            return Self::NoQuestion;
        }
        match &operation.next.not_before {
            None => Self::Never,
            Some(at) if Timestamp::parse(at).is_some_and(|at| at < now) => Self::Now,
            Some(at) => Self::From(at.clone()),
        }
    }

    pub(super) fn told(&self) -> Option<String> {
        match self {
            Self::Now => {
                Some("can be established now: nothing that was sent can still take effect".to_owned())
            }
            Self::From(at) => {
                Some(format!("not before {at}: until then what was sent may still take effect"))
            }
            Self::Never => {
                Some("never: nothing bounds how late what was sent may still take effect".to_owned())
            }
            Self::NoQuestion => None,
        }
    }
}

impl Step {
    /// The steps that the operation allows, in the order in which they are offered.
    pub(super) fn all(operation: &Operation, absence: &Absence) -> Vec<Self> {
        let mut steps = Vec::new();
        let flagged = operation.duplicate_suspected;
        match operation.state.as_str() {
            "unknown" => {
                steps.push(Self::Succeeded);
                if *absence == Absence::Now {
                    steps.push(Self::Absent);
                }
                if !flagged {
                    steps.push(Self::Abandon);
                }
                steps.push(Self::Release);
            }
            "rejected" if flagged => steps.extend([Self::Succeeded, Self::Acknowledge, Self::Release]),
            _ if flagged => steps.extend([Self::Acknowledge, Self::Release]),
            _ => {}
        }
        steps.push(Self::Note);
        if operation.state == "unknown" && !flagged {
            steps.push(Self::LookUp);
        }
        steps.push(Self::Whole);
        steps
    }

    /// The letter that stands for it.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Succeeded => 's',
            Self::Absent => 'a',
            Self::Abandon => 'x',
            Self::Acknowledge => 'k',
            Self::Release => 'r',
            Self::Note => 'n',
            Self::LookUp => 'l',
            Self::Whole => 'v',
        }
    }

    /// What it will cause.
    pub(super) fn causes(self, operation: &Operation) -> &'static str {
        match self {
            Self::Succeeded if operation.state == "rejected" => {
                "it happened after all: becomes succeeded with the reference of the proof"
            }
            Self::Succeeded => {
                "it happened: becomes succeeded with the reference that you give; nothing is sent"
            }
            Self::Absent => {
                "it did not happen: becomes rejected, or is allowed exactly one more attempt if you say so"
            }
            Self::Abandon => {
                "nobody can tell: stays unknown, leaves this list, nothing is sent any more; the same action stays \
                 held back until it is released"
            }
            Self::Acknowledge => "looked at: the suspicion is cleared and the state stays as it is",
            Self::Release => {
                "later operations with this action or subject may pass; this one is never sent again"
            }
            Self::Note => {
                "write down what you found so far, and be reminded if you like; nothing else changes"
            }
            Self::LookUp => "ask the destination now; what it has settles the operation, nothing is sent",
            Self::Whole => "show the whole arguments and every row of the evidence",
        }
    }

    /// The verdict as the API calls it.
    pub(super) fn verdict(self) -> Option<&'static str> {
        match self {
            Self::Succeeded => Some("succeeded"),
            Self::Absent => Some("confirmed_absent"),
            Self::Abandon => Some("abandoned"),
            Self::Acknowledge => Some("acknowledged"),
            Self::Release | Self::Note | Self::LookUp | Self::Whole => None,
        }
    }
}
