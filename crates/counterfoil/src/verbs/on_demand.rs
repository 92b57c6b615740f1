//! A look-up that somebody asks for. It comes earlier than planned and is otherwise like any other: it never allows a
//! send, and a miss counts by the same rule.

use std::sync::Arc;

use serde_json::json;

use super::draft::Draft;
use super::look_up::{HELD_FOR_SCOPE, Question, take};
use super::pass::{pass, settle_on};
use crate::caller::{Caller, Need};
use crate::decide::{self, Context, Plan};
use crate::error::Refusal;
use crate::id::{OperationId, WorkerName};
use crate::operation::Operation;
use crate::policy::Tool;
use crate::snapshot::{Actor, Decided, Declarations, Needs, Snapshot, Verb, View};
use crate::state::{Event, Open, State};
use crate::time::Timestamp;

/// Asks for a look-up now: at most one in the tool's `first_delay`, whoever asks.
#[derive(Clone, Debug)]
pub struct LookUpNow {
    /// Who asks.
    pub caller: Caller,
    /// About which operation.
    pub id: OperationId,
    /// Who would look it up.
    pub worker: WorkerName,
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

/// What became of the wish for a look-up.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The operation now.
    pub view: View,
    /// What is to be asked, under a durable claim; `None` where nothing is asked now.
    pub question: Option<Box<Question>>,
}

impl Verb for LookUpNow {
    type Reply = Asked;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<Asked>, Refusal> {
        self.caller.needs(Need::Reconcile)?;
        let operation = snapshot.operation_for(&self.caller)?;
        if operation.state.is_final() {
            let view = View { replayed: true, ..snapshot.view()? };
            return Ok(Decided::reply(Asked { view, question: None }));
        }
        let context = snapshot.context(&operation.tool)?;
        let mut draft = Draft::of(operation, snapshot.now);
        pass(&mut draft, &context, self.random)?;
        let question = self.ask(&mut draft, &context, snapshot)?;
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: Asked { view: snapshot.view_of(operation)?, question } })
    }
}

impl LookUpNow {
    fn ask(
        &self,
        draft: &mut Draft,
        context: &Context<'_>,
        snapshot: &Snapshot,
    ) -> Result<Option<Box<Question>>, Refusal> {
        let facts = context.facts();
        if !askable(&draft.operation, context, &facts, self.random) {
            return Ok(None);
        }
        if context.scope_changed() {
            if !closed(&draft.operation) {
                settle_on(draft, HELD_FOR_SCOPE)?;
            }
            return Ok(None);
        }
        let at = earliest(&draft.operation, &facts, context.now);
        // Somebody else's worker asks when it next takes a claim.
        if at > context.now || context.stored.http().is_none() {
            self.bring_forward(draft, at)?;
            return Ok(None);
        }
        let by = Actor::Caller(self.caller.principal.clone());
        let question = take(draft, snapshot, &self.worker, facts.lease, by)?;
        Ok(question.map(Box::new))
    }

    /// The planned look-up comes earlier, where there is one.
    fn bring_forward(&self, draft: &mut Draft, at: Timestamp) -> Result<(), Refusal> {
        let open = match &draft.operation.state {
            State::Unknown(open) => open.clone(),
            State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => {
                return Ok(());
            }
        };
        if open.closed.is_none() && open.not_before.is_some_and(|planned| planned > at) {
            draft.apply(&Event::Replanned(Open { not_before: Some(at), ..open }), None)?;
            let by = Actor::Caller(self.caller.principal.clone());
            draft.note("look_up_asked_for", by, json!({ "at": at.to_string() }));
        }
        Ok(())
    }
}

/// Whether the destination can be asked, and nothing but an answer of it is waited for: where another send is planned,
/// its own answer tells more, and asking first would only move it.
fn askable(operation: &Operation, context: &Context<'_>, facts: &Tool, random: u64) -> bool {
    let open = match &operation.state {
        State::Unknown(_) => operation.unsettled() > 0,
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => false,
    };
    let known = context.current.is_some() && !operation.duplicate_suspected;
    if !open || !known || facts.recovery.lookup().is_none() {
        return false;
    }
    match decide::plan(operation, facts, context, None, random) {
        Plan::LookUp { .. } | Plan::Hold(_) => true,
        Plan::Send(_) => closed(operation) || operation.released.is_some(),
        Plan::Over => false,
    }
}

fn closed(operation: &Operation) -> bool {
    match &operation.state {
        State::Unknown(Open { closed, .. }) => closed.is_some(),
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => false,
    }
}

/// When the destination may be asked next: not while its answer to the attempt may still be read, not while another
/// look-up runs, and not more often than the tool's first delay allows.
fn earliest(operation: &Operation, facts: &Tool, now: Timestamp) -> Timestamp {
    let lingers = decide::lingers_until(operation, now);
    let taken = operation.investigation.as_ref().map(|claim| claim.lease_expires_at);
    let last = operation.look_ups.last().map(|look_up| look_up.began_at.plus(facts.budget.first_delay));
    [lingers, taken, last].into_iter().flatten().fold(now, Timestamp::max)
}
