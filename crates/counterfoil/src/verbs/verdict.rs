//! What a person says of an operation that no rule can settle: what became of it, that later ones may pass, or that
//! nobody can tell yet.

use std::sync::Arc;

use serde_json::{Value, json};

use super::draft::{Draft, rejection, state_data};
use crate::caller::{Caller, Need};
use crate::decide::{Context, lingers_until, send_rule};
use crate::error::Refusal;
use crate::id::OperationId;
use crate::operation::{Attempt, Decision, Operation, Receipt, ReceiptSource, RejectionCode};
use crate::policy::Tool;
use crate::recovery::{HoldReason, Recovery};
use crate::safeguard::Safeguard;
use crate::snapshot::{Actor, Decided, Declarations, Needs, Snapshot, Verb, View};
use crate::state::{Closed, Event, State, Waiting};
use crate::time::Timestamp;

/// A text of a person: never empty, at most [`Words::MOST`] bytes. It is shown escaped, like any text from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(String);

impl Words {
    /// The most bytes.
    pub const MOST: usize = 4096;

    /// The text, if it says something and is not too long.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (!text.trim().is_empty() && text.len() <= Self::MOST).then(|| Self(text.to_owned()))
    }

    /// The text as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a person established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It happened, and this is what the destination calls it.
    Succeeded {
        /// What was found.
        reference: Words,
    },
    /// Nothing happened, and nothing that was sent can still take effect.
    ConfirmedAbsent {
        /// Whether exactly one more attempt may be made, outside the budget.
        allow_another_attempt: bool,
    },
    /// Nobody can tell; the risk is accepted.
    Abandoned,
    /// A suspected duplicate was looked at: the state stays as it is.
    Acknowledged,
}

impl Verdict {
    /// The verdict as it is stored and shown.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Succeeded { .. } => "succeeded",
            Self::ConfirmedAbsent { .. } => "confirmed_absent",
            Self::Abandoned => "abandoned",
            Self::Acknowledged => "acknowledged",
        }
    }
}

/// A person settles an operation.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// Who decides.
    pub caller: Caller,
    /// About which operation.
    pub id: OperationId,
    /// What was established.
    pub verdict: Verdict,
    /// How it was established.
    pub note: Words,
    /// The version that was shown.
    pub if_version: Option<u64>,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Resolve {
    type Reply = View;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        self.caller.needs(Need::Approver)?;
        let operation = snapshot.operation_for(&self.caller)?;
        if self.repeats(operation) {
            return Ok(Decided::reply(snapshot.view()?));
        }
        if self.if_version.is_some_and(|version| version != operation.version) {
            return Err(Refusal::ChangedMeanwhile);
        }
        let context = snapshot.context(&operation.tool)?;
        let facts = context.facts();
        let mut draft = Draft::of(operation, snapshot.now);
        match &self.verdict {
            Verdict::Succeeded { reference } => self.succeeded(&mut draft, reference)?,
            Verdict::ConfirmedAbsent { allow_another_attempt: false } => {
                let ended = self.absent(&mut draft, &context, &facts)?;
                draft.apply(&Event::ConfirmedAbsent(ended), None)?;
            }
            Verdict::ConfirmedAbsent { allow_another_attempt: true } => {
                self.another(&mut draft, &context, &facts)?;
            }
            Verdict::Abandoned => {
                let (by, note) = (self.caller.principal.clone(), self.note.as_str().to_owned());
                draft.apply(&Event::Abandoned(Closed { by, at: snapshot.now, note }), None)?;
            }
            Verdict::Acknowledged => draft.apply(&Event::Acknowledged, None)?,
        }
        draft.finish(facts.retention);
        let data = self.data(&draft);
        draft.note("resolved", Actor::Caller(self.caller.principal.clone()), data);
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: snapshot.view_of(operation)? })
    }
}

impl Resolve {
    /// The same decision, which still stands.
    fn repeats(&self, operation: &Operation) -> bool {
        if operation.duplicate_suspected {
            return false;
        }
        match (&self.verdict, &operation.state) {
            (Verdict::Succeeded { reference }, State::Succeeded(receipt)) => {
                receipt.source == ReceiptSource::Person
                    && receipt.reference.as_deref() == Some(reference.as_str())
            }
            (Verdict::ConfirmedAbsent { allow_another_attempt: false }, State::Rejected(ended)) => {
                ended.code == RejectionCode::ConfirmedAbsent
                    && ended.by.as_ref() == Some(&self.caller.principal)
            }
            (Verdict::ConfirmedAbsent { allow_another_attempt: true }, State::Prepared(_)) => {
                operation.another_allowed
            }
            (Verdict::Abandoned, State::Unknown(open)) => {
                open.closed.as_ref().is_some_and(|closed| closed.by == self.caller.principal)
            }
            (
                Verdict::Succeeded { .. }
                | Verdict::ConfirmedAbsent { .. }
                | Verdict::Abandoned
                | Verdict::Acknowledged,
                State::Prepared(_)
                | State::InProgress(_)
                | State::Succeeded(_)
                | State::Rejected(_)
                | State::Unknown(_),
            ) => false,
        }
    }

    /// Against a rejection stands a proof, and it is that proof's receipt that is kept: a person who names something
    /// else speaks of something else.
    fn succeeded(&self, draft: &mut Draft, reference: &Words) -> Result<(), Refusal> {
        let vouched = Receipt {
            reference: Some(reference.as_str().to_owned()),
            result: None,
            source: ReceiptSource::Person,
            recorded_at: draft.now(),
        };
        let receipt = match (&draft.operation.state, &draft.operation.contradiction) {
            (State::Rejected(_), Some(proof)) => match &proof.reference {
                Some(proved) if proved != reference.as_str() => {
                    return Err(Refusal::WrongState(draft.operation.state.label()));
                }
                // It succeeds now: whoever was prepared before must name it to act on the same subject.
                Some(_) => Receipt { recorded_at: vouched.recorded_at, ..proof.clone() },
                None => Receipt {
                    reference: vouched.reference,
                    recorded_at: vouched.recorded_at,
                    ..proof.clone()
                },
            },
            (
                State::Rejected(_)
                | State::Prepared(_)
                | State::InProgress(_)
                | State::Succeeded(_)
                | State::Unknown(_),
                Some(_) | None,
            ) => vouched,
        };
        draft.apply(&Event::Vouched(receipt), None)
    }

    /// Settles every attempt, once nothing that was sent can still take effect. A person's look is no better than a
    /// look-up: both must have waited, by a clock that can be trusted.
    fn absent(
        &self,
        draft: &mut Draft,
        context: &Context<'_>,
        facts: &Tool,
    ) -> Result<crate::operation::Rejection, Refusal> {
        let operation = &draft.operation;
        let open = match &operation.state {
            State::Unknown(open) => open.closed.is_none() && !operation.duplicate_suspected,
            State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => false,
        };
        if !open {
            return Err(Refusal::WrongState(operation.state.label()));
        }
        let Some(bound) = facts.recovery.absence_final_at(&operation.attempts) else {
            return Err(Refusal::TooEarly { not_before: None });
        };
        let lingers = lingers_until(operation, context.now);
        let in_doubt = !context.believes_misses();
        if (context.now <= bound || in_doubt || lingers.is_some()) && Safeguard::PersonWaits.stands() {
            return Err(Refusal::TooEarly {
                not_before: Some(lingers.map_or(bound, |until| until.max(bound))),
            });
        }
        draft.settle_all();
        let mut ended = rejection(RejectionCode::ConfirmedAbsent, context.now);
        ended.detail = Some(self.note.as_str().to_owned());
        ended.by = Some(self.caller.principal.clone());
        Ok(ended)
    }

    /// One more attempt, outside the budget. What was released, or has a live replacement, is never sent again.
    fn another(&self, draft: &mut Draft, context: &Context<'_>, facts: &Tool) -> Result<(), Refusal> {
        let operation = &draft.operation;
        if operation.released.is_some() || context.replaced(operation) {
            return Err(Refusal::WrongState(operation.state.label()));
        }
        self.absent(draft, context, facts)?;
        if needs_new_key(&draft.operation, facts, context.now) {
            draft.operation.key_generation = draft.operation.key_generation.saturating_add(1);
            draft.operation.earlier_keys = u32::try_from(draft.operation.attempts.len()).unwrap_or(u32::MAX);
        }
        draft.operation.another_allowed = true;
        draft.apply(&Event::AnotherAllowed(Waiting::default()), None)
    }

    fn data(&self, draft: &Draft) -> Value {
        let mut data = state_data(&draft.operation);
        if let Value::Object(data) = &mut data {
            data.insert("verdict".to_owned(), json!(self.verdict.label()));
            data.insert("note".to_owned(), json!(self.note.as_str()));
            data.insert("another_allowed".to_owned(), json!(draft.operation.another_allowed));
            data.insert("key_generation".to_owned(), json!(draft.operation.key_generation));
        }
        data
    }
}

/// Whether the key that was sent can no longer carry another attempt: the destination may have forgotten it, or would
/// replay a failure that it stored under it. A reference never changes.
fn needs_new_key(operation: &Operation, facts: &Tool, now: Timestamp) -> bool {
    match &facts.recovery {
        Recovery::IdempotencyKey(_) => {
            let closed = send_rule(operation, facts, now) == Err(HoldReason::WindowClosed);
            let failed = |attempt: &Attempt| attempt.status.is_some_and(|status| status >= 500);
            closed || operation.attempts_under_key().iter().any(failed)
        }
        Recovery::Transaction | Recovery::UniqueReference(_) | Recovery::LookUp(_) | Recovery::None(_) => {
            false
        }
    }
}

/// An approver lets later operations with this action or subject pass. What was released is never sent again.
#[derive(Clone, Debug)]
pub struct Release {
    /// Who decides.
    pub caller: Caller,
    /// About which operation.
    pub id: OperationId,
    /// Why.
    pub note: Words,
    /// The version that was shown.
    pub if_version: Option<u64>,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Release {
    type Reply = View;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        self.caller.needs(Need::Approver)?;
        let operation = snapshot.operation_for(&self.caller)?;
        if let Some(given) = &operation.released {
            return match given.by == self.caller.principal {
                true => Ok(Decided::reply(snapshot.view()?)),
                false => Err(Refusal::WrongState(operation.state.label())),
            };
        }
        if self.if_version.is_some_and(|version| version != operation.version) {
            return Err(Refusal::ChangedMeanwhile);
        }
        let mut draft = Draft::of(operation, snapshot.now);
        draft.apply(&Event::Released, None)?;
        let (by, note) = (self.caller.principal.clone(), self.note.as_str().to_owned());
        draft.operation.released = Some(Decision { by: by.clone(), at: snapshot.now, note });
        draft.finish(snapshot.context(&operation.tool)?.facts().retention);
        draft.note("released", Actor::Caller(by), json!({ "note": self.note.as_str() }));
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: snapshot.view_of(operation)? })
    }
}

/// A person writes down what they found so far, without a verdict.
#[derive(Clone, Debug)]
pub struct AddNote {
    /// Who.
    pub caller: Caller,
    /// About which operation.
    pub id: OperationId,
    /// What.
    pub text: Words,
    /// When they want to be reminded.
    pub remind_at: Option<Timestamp>,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for AddNote {
    type Reply = View;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        self.caller.needs(Need::Approver)?;
        let operation = snapshot.operation_for(&self.caller)?;
        let mut draft = Draft::of(operation, snapshot.now);
        if self.remind_at.is_some() {
            draft.operation.remind_at = self.remind_at;
        }
        let remind_at = self.remind_at.map(|at| at.to_string());
        let data = json!({ "text": self.text.as_str(), "remind_at": remind_at });
        draft.note("note", Actor::Caller(self.caller.principal.clone()), data);
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: snapshot.view_of(operation)? })
    }
}
