//! Asking the destination: the claim under which somebody investigates, and what was found. A claim to investigate
//! grants no right to send.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::draft::{Draft, cover, state_data};
use super::pass::{after_settled, pass, replan, settle_on};
use crate::decide::{self, Context, Plan};
use crate::destination::LookedUp;
use crate::error::Refusal;
use crate::fingerprint::Arguments;
use crate::id::{Account, FencingToken, OperationId, WorkerName};
use crate::operation::{Claim, LOOK_UPS_KEPT, LookUp, LookUpAnswer, Receipt, ReceiptSource};
use crate::policy::Tool;
use crate::recovery::HoldReason;
use crate::safeguard::Safeguard;
use crate::snapshot::{Actor, Decided, Declarations, Needs, Snapshot, Verb, View};
use crate::state::{Event, Open, State};
use crate::time::Timestamp;

/// Takes a claim to look an operation up, if that is what is due.
#[derive(Clone, Debug)]
pub struct Investigate {
    /// Whose.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// Who would ask.
    pub worker: WorkerName,
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

/// What became of a claim to investigate.
#[derive(Clone, Debug)]
pub enum Investigated {
    /// Ask this.
    Ask(Box<Question>),
    /// A look-up is what it waits for, and not now or not by us.
    Wait,
    /// No look-up is due.
    Nothing,
}

/// What is asked of the destination.
#[derive(Clone, Debug)]
pub struct Question {
    /// The declaration that the operation was prepared under.
    pub tool: Arc<Tool>,
    /// The exact arguments.
    pub arguments: Arguments,
    /// The key or reference of the last attempt.
    pub key: Option<String>,
    /// The vendor account that it was sent under.
    pub scope: Option<String>,
    /// The claim.
    pub fence: FencingToken,
    /// How many attempts there are.
    pub attempts: usize,
}

impl Verb for Investigate {
    type Reply = Investigated;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<Investigated>, Refusal> {
        let operation = snapshot.operation()?;
        let context = snapshot.context(&operation.tool)?;
        let mut draft = Draft::of(operation, snapshot.now);
        pass(&mut draft, &context, self.random)?;
        let reply = self.claim(&mut draft, &context, snapshot)?;
        Ok(Decided { changes: draft.into_changes().1, reply })
    }
}

impl Investigate {
    fn claim(
        &self,
        draft: &mut Draft,
        context: &Context<'_>,
        snapshot: &Snapshot,
    ) -> Result<Investigated, Refusal> {
        let facts = context.facts();
        if !look_up_due(draft, context, &facts, self.random) {
            return Ok(Investigated::Nothing);
        }
        let operation = &draft.operation;
        let taken =
            operation.investigation.as_ref().is_some_and(|claim| context.now < claim.lease_expires_at);
        // An older answer may still come from a sender that lingers.
        if taken || decide::lingers_until(operation, context.now).is_some() {
            return Ok(Investigated::Wait);
        }
        if context.scope_changed() {
            settle_on(draft, HELD_FOR_SCOPE)?;
            return Ok(Investigated::Wait);
        }
        let by = Actor::Worker(self.worker.as_str().to_owned());
        let question = take(draft, snapshot, &self.worker, facts.lease, by)?;
        Ok(question.map_or(Investigated::Wait, |question| Investigated::Ask(Box::new(question))))
    }
}

/// How long an answer may take to be recorded under the claim that it was asked for.
const RECORDED_WITHIN: Duration = Duration::from_secs(1);

/// Takes the claim under which the destination is asked, on behalf of `by`. It lasts as long as the answer may take:
/// were it shorter, a slow destination's misses would all come under a claim that somebody outranked meanwhile, and none
/// would ever count.
pub(super) fn take(
    draft: &mut Draft,
    snapshot: &Snapshot,
    worker: &WorkerName,
    lease: Duration,
    by: Actor,
) -> Result<Option<Question>, Refusal> {
    let last = draft.operation.attempts.last().cloned();
    let (Some(tool), Some(last)) = (snapshot.stored.clone(), last) else { return Ok(None) };
    let answered = tool.http().map(|http| http.timeout + RECORDED_WITHIN).unwrap_or_default();
    let claim = Claim {
        worker: worker.clone(),
        fence: draft.operation.fence.next(),
        lease_expires_at: snapshot.now.plus(lease.max(answered)),
        claim_id: None,
        lease_ms: None,
        held_by: None,
        look_up: None,
    };
    let fence = investigate(draft, claim, by)?;
    Ok(Some(Question {
        tool,
        arguments: draft.operation.arguments.clone(),
        key: last.key,
        scope: last.scope,
        fence,
        attempts: draft.operation.attempts.len(),
    }))
}

/// Grants a claim to investigate. It raises the fence, so that whoever investigated before can only bring proof of
/// success, and leaves the state unknown.
pub(super) fn investigate(draft: &mut Draft, claim: Claim, by: Actor) -> Result<FencingToken, Refusal> {
    draft.apply(&Event::Investigated, None)?;
    let fence = claim.fence;
    let data = json!({ "fencing_token": fence, "worker": claim.worker });
    // Kept apart from the claim, which the next one takes away: whoever looked may still come with proof.
    if let (Some(holder), Some(last)) = (&claim.held_by, draft.operation.attempts.last_mut())
        && !last.looked_up_by.contains(holder)
    {
        last.looked_up_by.push(holder.clone());
    }
    draft.operation.fence = fence;
    draft.operation.investigation = Some(claim);
    draft.note("investigation_started", by, data);
    Ok(fence)
}

/// Whether the next step of an open operation is a look-up, and its time has come.
pub(super) fn look_up_due(draft: &Draft, context: &Context<'_>, facts: &Tool, random: u64) -> bool {
    let operation = &draft.operation;
    let due = match &operation.state {
        State::Unknown(Open { closed: None, not_before: Some(at), .. }) => context.now >= *at,
        State::Unknown(_)
        | State::Prepared(_)
        | State::InProgress(_)
        | State::Succeeded(_)
        | State::Rejected(_) => false,
    };
    let planned = || match decide::plan(operation, facts, context, None, random) {
        Plan::LookUp { .. } => true,
        Plan::Send(_) | Plan::Hold(_) | Plan::Over => false,
    };
    due && context.current.is_some() && !operation.duplicate_suspected && planned()
}

/// The records of another vendor account say nothing about what was sent to this one.
pub(super) const HELD_FOR_SCOPE: Open =
    Open { hold: Some(HoldReason::ScopeChanged), not_before: None, closed: None };

/// What a look-up found.
#[derive(Clone, Debug)]
pub struct LookUpReport {
    /// Whose operation.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// The claim it was made under.
    pub fence: FencingToken,
    /// Who asked.
    pub worker: WorkerName,
    /// Store time, read after the claim was durable and before anything was asked.
    pub began_at: Timestamp,
    /// The monotonic time that this node had seen pass since it first saw the last attempt, when it began.
    pub waited: Duration,
    /// What the destination said.
    pub looked: LookedUp,
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for LookUpReport {
    type Reply = View;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        let operation = snapshot.kept_operation()?;
        let context = snapshot.context(&operation.tool)?;
        let mut draft = Draft::of(operation, snapshot.now);
        self.record(&mut draft, &context)?;
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: snapshot.view_of(operation)? })
    }
}

impl LookUpReport {
    fn record(&self, draft: &mut Draft, context: &Context<'_>) -> Result<(), Refusal> {
        let facts = context.facts();
        // Whoever was outranked meanwhile, by a new attempt or another look-up, can only bring proof of success.
        let open = matches!(&draft.operation.state, State::Unknown(_));
        let current = open && draft.operation.fence == self.fence;
        let (began_at, waited) = match Safeguard::BeganAfter.stands() {
            true => (self.began_at, self.waited),
            false => (context.now, self.waited + context.now.since(self.began_at)),
        };
        // The declaration may have changed since the claim, and with it the credential that was asked under.
        let scope_changed = self.looked.scope_changed
            || (self.looked.answer == LookUpAnswer::Absent
                && context.scope_changed()
                && Safeguard::ScopeOfMisses.stands());
        let counts = current
            && context.believes_misses()
            && self.looked.answer == LookUpAnswer::Absent
            && !scope_changed
            && !draft.operation.duplicate_suspected
            && facts.recovery.miss_counts(&draft.operation.attempts, began_at, waited);
        self.keep(draft, context, counts);
        if self.looked.answer == LookUpAnswer::Found && !self.looked.scope_changed {
            let receipt = Receipt {
                reference: self.looked.reference.clone(),
                result: self.looked.result.clone(),
                source: ReceiptSource::Lookup,
                recorded_at: context.now,
            };
            draft.apply(&Event::Proved(receipt), None)?;
            draft.finish(facts.retention);
        } else if counts {
            draft.settle_all();
            let after = after_settled(draft, context, &facts, None, self.random);
            draft.apply(&Event::AllSettled(after), None)?;
            draft.finish(facts.retention);
        } else if current {
            self.nothing_settled(draft, scope_changed)?;
        }
        self.note(draft, counts);
        if current && !scope_changed {
            replan(draft, context, &facts, None, self.random)?;
        }
        Ok(())
    }

    /// The look-up stays with the operation, and the claim ends.
    fn keep(&self, draft: &mut Draft, context: &Context<'_>, counts: bool) {
        let operation = &mut draft.operation;
        if operation.investigation.as_ref().is_some_and(|claim| claim.fence == self.fence) {
            operation.investigation = None;
        }
        operation.look_ups.push(LookUp {
            began_at: self.began_at,
            ended_at: context.now,
            answer: self.looked.answer,
            counts: counts || self.looked.answer == LookUpAnswer::Found,
            fence: self.fence,
        });
        let surplus = operation.look_ups.len().saturating_sub(LOOK_UPS_KEPT);
        operation.look_ups.drain(..surplus);
    }

    fn nothing_settled(&self, draft: &mut Draft, scope_changed: bool) -> Result<(), Refusal> {
        if scope_changed {
            let closed = matches!(&draft.operation.state, State::Unknown(Open { closed: Some(_), .. }));
            if !closed {
                draft.apply(&Event::Replanned(HELD_FOR_SCOPE), None)?;
            }
        } else if self.looked.answer == LookUpAnswer::Several {
            draft.operation.duplicate_suspected = true;
        }
        Ok(())
    }

    fn note(&self, draft: &mut Draft, counts: bool) {
        let mut data = state_data(&draft.operation);
        if let serde_json::Value::Object(data) = &mut data {
            data.insert("fencing_token".to_owned(), json!(self.fence));
            data.insert("began_at".to_owned(), json!(self.began_at.to_string()));
            data.insert("answer".to_owned(), json!(self.looked.answer.label()));
            data.insert("counts".to_owned(), json!(counts));
            data.insert("error".to_owned(), json!(self.looked.error));
            cover(data, self.looked.reference.as_deref(), self.looked.result.as_ref());
        }
        draft.note("looked_up", Actor::Worker(self.worker.as_str().to_owned()), data);
    }
}
