//! What time alone does to an operation: leases, approvals and budgets run out, and what is open is planned anew.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::draft::{Draft, rejection, state_data};
use crate::backoff::Spent;
use crate::decide::{self, Context, Plan};
use crate::error::Refusal;
use crate::id::{Account, OperationId};
use crate::operation::{AttemptOutcome, Operation, RejectionCode};
use crate::policy::Tool;
use crate::recovery::HoldReason;
use crate::safeguard::Safeguard;
use crate::snapshot::{Actor, Decided, Declarations, Needs, Snapshot, Verb, View};
use crate::state::{AfterSettled, Event, Open, State, Waiting};
use crate::time::Timestamp;

/// How long a standing wish that waits for another operation is left alone where nobody wakes it.
pub const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Lets the time that has passed take effect on one operation.
#[derive(Clone, Debug)]
pub struct Tick {
    /// Whose.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

/// What a pass led to.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The operation afterwards.
    pub view: View,
    /// Whether anything was written.
    pub changed: bool,
}

impl Verb for Tick {
    type Reply = Passed;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<Passed>, Refusal> {
        let operation = snapshot.operation()?;
        let mut draft = Draft::of(operation, snapshot.now);
        pass(&mut draft, &snapshot.context(&operation.tool)?, self.random)?;
        let changed = draft.changed();
        let context = snapshot.context(&operation.tool)?;
        let (operation, mut changes) = draft.into_changes();
        changes.look_again = look_again(&operation, &context);
        Ok(Decided { changes, reply: Passed { view: snapshot.view_of(operation)?, changed } })
    }
}

/// When a standing wish that waits for another operation is looked at again. Whoever ends that one wakes it: this is for
/// what nobody wakes.
pub(super) fn look_again(operation: &Operation, context: &Context<'_>) -> Option<Timestamp> {
    let stands = match operation.state {
        State::Prepared(_) => operation.wish,
        State::InProgress(_) | State::Unknown(_) | State::Succeeded(_) | State::Rejected(_) => false,
    };
    let waits = || !context.unsettled(operation).is_empty() || context.unacknowledged(operation).is_some();
    (stands && waits()).then(|| context.now.plus(LOOK_AGAIN))
}

/// One pass over the draft.
pub(super) fn pass(draft: &mut Draft, context: &Context<'_>, random: u64) -> Result<(), Refusal> {
    let facts = context.facts();
    remind(draft, context);
    match &draft.operation.state {
        State::Succeeded(_) | State::Rejected(_) => Ok(()),
        State::InProgress(claim) if context.now < claim.lease_expires_at => Ok(()),
        // The worker is silent. It may be dead, or frozen and about to send: nothing is proved, so the attempt stays
        // unsettled and the guards treat it as sent.
        State::InProgress(claim) => {
            let (fence, data) =
                (claim.fence, json!({ "worker": claim.worker, "fencing_token": claim.fence }));
            draft.apply(&Event::LeaseExpired, None)?;
            draft.attempt_went_silent(fence);
            if !Safeguard::LeaseProvesNothing.stands() {
                draft.settle_all();
            }
            draft.note("lease_expired", Actor::Rule, data);
            replan(draft, context, &facts, None, random)
        }
        State::Unknown(open) => {
            let (open, unsettled) = (open.clone(), draft.operation.unsettled());
            if unsettled == 0 {
                return all_settled(draft, context, &facts, random);
            }
            let due = open.not_before.is_none_or(|at| context.now >= at);
            // What is held waits for a person alone, unless look-ups go on.
            let held = open.hold.is_some() && open.not_before.is_none();
            let sends = open.hold.is_none() && may_send_now(draft, context, &facts);
            // What took its place came to nothing.
            let free = open.hold == Some(HoldReason::Replaced) && !context.replaced(&draft.operation);
            if open.closed.is_some() || ((held || !due || sends) && !free) {
                return Ok(());
            }
            // A look-up that is due stays due until it was made.
            if open.not_before.is_some()
                && let Plan::LookUp { hold, .. } =
                    decide::plan(&draft.operation, &facts, context, None, random)
            {
                return settle_on(draft, Open { hold, ..open });
            }
            replan(draft, context, &facts, None, random)
        }
        State::Prepared(_) if context.replaced(&draft.operation) => give_place(draft, context, &facts),
        State::Prepared(_) => lapse(draft, context, &facts),
    }
}

/// The reminder that a person asked for, while there is still something to find out.
fn remind(draft: &mut Draft, context: &Context<'_>) {
    let due = draft.operation.remind_at.is_some_and(|at| context.now >= at);
    if due && !draft.operation.state.is_final() {
        draft.operation.remind_at = None;
        draft.note("reminder", Actor::Rule, json!({}));
    }
}

/// Whether budget and destination allow another copy right now. An attempt that a person allowed lies outside the
/// budget, never outside what the destination can bear.
pub(super) fn may_send_now(draft: &Draft, context: &Context<'_>, facts: &Tool) -> bool {
    let spent = Spent::by(&draft.operation.attempts, context.paused_for);
    let budgeted = spent.allows(&facts.budget, context.now) || !Safeguard::Budget.stands();
    (draft.operation.another_allowed || budgeted)
        && decide::send_allowed(&draft.operation, facts, context, context.now).is_ok()
}

/// Plans how an open operation goes on.
pub(super) fn replan(
    draft: &mut Draft,
    context: &Context<'_>,
    facts: &Tool,
    retry_after: Option<std::time::Duration>,
    random: u64,
) -> Result<(), Refusal> {
    let State::Unknown(known) = &draft.operation.state else { return Ok(()) };
    if known.closed.is_some() {
        return Ok(());
    }
    let plan = decide::plan(&draft.operation, facts, context, retry_after, random);
    let open = match draft.operation.duplicate_suspected {
        true => Open { hold: Some(HoldReason::DuplicateSuspected), ..Open::default() },
        false => decide::open(plan, decide::lingers_until(&draft.operation, context.now)),
    };
    settle_on(draft, open)
}

/// Lets an open operation go on so, where that is news.
pub(super) fn settle_on(draft: &mut Draft, open: Open) -> Result<(), Refusal> {
    let known = match &draft.operation.state {
        State::Unknown(known) => known,
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => return Ok(()),
    };
    if open != *known {
        draft.apply(&Event::Replanned(open), None)?;
        let data = state_data(&draft.operation);
        draft.note("planned", Actor::Rule, data);
    }
    Ok(())
}

/// What follows when every attempt is settled without effect.
pub(super) fn after_settled(
    draft: &Draft,
    context: &Context<'_>,
    facts: &Tool,
    retry_after: Option<std::time::Duration>,
    random: u64,
) -> AfterSettled {
    let over = || AfterSettled::Over(rejection(RejectionCode::BudgetExhausted, context.now));
    if context.replaced(&draft.operation) {
        return AfterSettled::Over(rejection(RejectionCode::Replaced, context.now));
    }
    let closed = match &draft.operation.state {
        State::Unknown(Open { closed, .. }) => closed.is_some(),
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => false,
    };
    // What a person closed or released is never sent again.
    if closed || draft.operation.released.is_some() {
        return over();
    }
    // A definite refusal counts as soon as nothing else may have worked: asking again cannot help.
    if draft.operation.attempts.iter().any(|attempt| attempt.outcome == Some(AttemptOutcome::Rejected)) {
        return AfterSettled::Over(rejection(RejectionCode::DestinationRejected, context.now));
    }
    match decide::plan(&draft.operation, facts, context, retry_after, random) {
        Plan::Send(at) => AfterSettled::Again(Waiting { not_before: Some(at), hold: None }),
        Plan::LookUp { .. } | Plan::Hold(_) | Plan::Over => over(),
    }
}

fn all_settled(draft: &mut Draft, context: &Context<'_>, facts: &Tool, random: u64) -> Result<(), Refusal> {
    let after = after_settled(draft, context, facts, None, random);
    draft.apply(&Event::AllSettled(after), None)?;
    draft.finish(facts.retention);
    let data = state_data(&draft.operation);
    draft.note("all_settled", Actor::Rule, data);
    Ok(())
}

/// A prepared operation that was flagged when its place was taken, and is no longer, ends as any other would have then.
fn give_place(draft: &mut Draft, context: &Context<'_>, facts: &Tool) -> Result<(), Refusal> {
    if draft.operation.duplicate_suspected {
        return Ok(());
    }
    draft.apply(&Event::Replaced(rejection(RejectionCode::Replaced, context.now)), None)?;
    draft.finish(facts.retention);
    draft.note("replaced", Actor::Rule, state_data(&draft.operation));
    Ok(())
}

/// What a prepared operation loses by waiting.
fn lapse(draft: &mut Draft, context: &Context<'_>, facts: &Tool) -> Result<(), Refusal> {
    let operation = &draft.operation;
    if operation.duplicate_suspected {
        return Ok(());
    }
    let now = context.now;
    let undecided = decide::asks(operation, facts)
        && operation.approval.is_none()
        && now >= operation.created_at.plus(facts.approval_expires);
    // Also one that is void by now: nothing can start under it either.
    let ran_out = decide::asks(operation, facts)
        && operation.approval.as_ref().is_some_and(|given| now >= given.expires_at);
    let over = decide::allowed_until(operation, facts).is_some_and(|until| now >= until);
    let code = if undecided || ran_out {
        RejectionCode::ApprovalExpired
    } else if !operation.started() && now >= operation.created_at.plus(facts.retention) {
        RejectionCode::NotStarted
    } else if over || operation.started() && context.paused.is_none() && !may_send_now(draft, context, facts)
    {
        RejectionCode::BudgetExhausted
    } else {
        return Ok(());
    };
    draft.apply(&Event::Lapsed(rejection(code, now)), None)?;
    draft.finish(facts.retention);
    draft.note("lapsed", Actor::Rule, json!({ "code": code.label() }));
    Ok(())
}
