//! What the sender of an attempt found: recorded in one commit with what follows from it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::draft::{Draft, cover, rejection, state_data};
use super::pass::{after_settled, replan};
use super::prepare::digest;
use crate::decide::{CREDENTIAL_REFUSALS, Context};
use crate::destination::Finding;
use crate::error::Refusal;
use crate::id::{Account, FencingToken, OperationId, WorkerName};
use crate::operation::{
    Attempt, AttemptOutcome, Claim, Marker, Operation, Receipt, ReceiptSource, Rejection, RejectionCode,
};
use crate::policy::{Meaning, Tool};
use crate::safeguard::Safeguard;
use crate::snapshot::{Actor, Decided, Declarations, Needs, PauseDraft, RefusalCount, Snapshot, Verb, View};
use crate::state::{Event, Open, State};
use crate::time::Timestamp;

/// The report of a sender.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whose operation.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// Which attempt.
    pub attempt: u32,
    /// The claim it was made under.
    pub fence: FencingToken,
    /// The scope that the attempt is recorded under: credential refusals are counted for it.
    pub scope: Option<String>,
    /// Who reports.
    pub worker: WorkerName,
    /// What was found.
    pub finding: Finding,
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

/// What became of a report.
#[derive(Clone, Debug)]
pub struct ReportReply {
    /// The operation afterwards.
    pub view: View,
    /// Whether the report came too late to move anything; it is kept as evidence.
    pub stale: bool,
}

impl Verb for Report {
    type Reply = ReportReply;

    fn needs(&self) -> Needs<'_> {
        Needs { scope: self.scope.as_deref(), ..Needs::of(&self.account, &self.id) }
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<ReportReply>, Refusal> {
        let operation = snapshot.kept_operation()?;
        let attempt = operation.attempts.iter().find(|attempt| attempt.number == self.attempt);
        let attempt = match attempt {
            Some(attempt) if attempt.fence == self.fence && attempt.worker == self.worker => attempt,
            Some(_) | None => return Err(Refusal::StaleClaim),
        };
        let context = snapshot.context(&operation.tool)?;
        let mut draft = Draft::of(operation, snapshot.now);
        let standing = self.standing(operation, attempt);
        let stale = standing == Standing::Late && !self.moves_late(attempt);
        if stale {
            // Kept, and moves nothing.
            let data = self.data(&draft);
            draft.note("late_report", self.by(), data);
        } else if standing != Standing::Repeat {
            self.record(&mut draft, &context, standing)?;
        }
        let scope = attempt.scope.clone();
        let (operation, mut changes) = draft.into_changes();
        if standing == Standing::Current {
            self.count_refusals(snapshot, &operation, scope, &mut changes);
        }
        Ok(Decided { changes, reply: ReportReply { view: snapshot.view_of(operation)?, stale } })
    }
}

/// How a report stands to the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// From the sender whose claim is the newest: as if in time.
    Current,
    /// From one that was outranked, or after the operation went on.
    Late,
    /// The same report came before.
    Repeat,
}

impl Report {
    fn standing(&self, operation: &Operation, attempt: &Attempt) -> Standing {
        let lingering = attempt.lingers_until.is_some() && attempt.ended_at.is_none();
        if self.repeats(operation, attempt) {
            return Standing::Repeat;
        }
        if !Safeguard::FenceOnReports.stands() {
            return Standing::Current;
        }
        // While no newer claim was granted, an answer that was read after callers were told that there was none is
        // classified as if it had come in time.
        let newest = operation.fence == self.fence;
        match &operation.state {
            State::InProgress(claim) if claim.fence == self.fence => Standing::Current,
            State::Unknown(open) if newest && lingering && open.closed.is_none() => Standing::Current,
            State::InProgress(_)
            | State::Unknown(_)
            | State::Prepared(_)
            | State::Succeeded(_)
            | State::Rejected(_) => Standing::Late,
        }
    }

    /// The same report came before. A second success that names something else is news.
    fn repeats(&self, operation: &Operation, attempt: &Attempt) -> bool {
        let known = operation.state.receipt().and_then(|receipt| receipt.reference.as_ref());
        let other = self.finding.reference.is_some() && self.finding.reference.as_ref() != known;
        // One that went silent was ended without a report of its sender: it has no marker yet.
        attempt.ended_at.is_some()
            && attempt.marker.is_some()
            && attempt.outcome == Some(self.finding.outcome())
            && !(self.finding.meaning == Meaning::Succeeded && other)
    }

    /// Whether a late report moves something: proof of success always does, and the maker of an attempt may say that
    /// it never sent it, unless it said before that it did.
    fn moves_late(&self, attempt: &Attempt) -> bool {
        match self.finding.outcome() {
            AttemptOutcome::Succeeded => Safeguard::LateProof.stands(),
            AttemptOutcome::NotSent => {
                attempt.marker != Some(Marker::BytesWritten)
                    && attempt.outcome != Some(AttemptOutcome::Succeeded)
            }
            AttemptOutcome::Rejected
            | AttemptOutcome::NotProcessed
            | AttemptOutcome::Throttled
            | AttemptOutcome::Pending
            | AttemptOutcome::Unknown => false,
        }
    }

    fn record(&self, draft: &mut Draft, context: &Context<'_>, standing: Standing) -> Result<(), Refusal> {
        let facts = context.facts();
        let in_time = matches!(&draft.operation.state, State::InProgress(_)) && standing == Standing::Current;
        self.write_attempt(draft, context);
        if let Some(until) = self.finding.lingers_until {
            return self.linger(draft, context, &facts, until);
        }
        let event = match self.finding.meaning {
            Meaning::Succeeded => {
                let source = if in_time { ReceiptSource::Response } else { ReceiptSource::LateReport };
                Event::Proved(Receipt {
                    reference: self.finding.reference.clone(),
                    result: self.finding.result.clone(),
                    source,
                    recorded_at: context.now,
                })
            }
            // The maker of an outranked attempt settles that attempt; what follows is for the next pass.
            Meaning::NotProcessed if standing == Standing::Late => {
                if let State::Unknown(Open { closed: None, .. }) = &draft.operation.state
                    && draft.operation.unsettled() == 0
                {
                    draft.apply(&Event::Replanned(Open::default()), Some(self.attempt))?;
                }
                let data = self.data(draft);
                draft.note("attempt_outcome", self.by(), data);
                return Ok(());
            }
            Meaning::NotProcessed | Meaning::Throttled => {
                let after = after_settled(draft, context, &facts, self.finding.retry_after, self.random);
                Event::EndedWithoutEffect(after)
            }
            Meaning::Rejected => {
                let code = match context.replaced(&draft.operation) {
                    true => RejectionCode::Replaced,
                    false => RejectionCode::DestinationRejected,
                };
                Event::Refused(Rejection {
                    detail: self.finding.reason.clone(),
                    ..rejection(code, context.now)
                })
            }
            Meaning::DuplicateOfOurs if !Safeguard::ConflictMeansLookUp.stands() => {
                Event::Refused(rejection(RejectionCode::DestinationRejected, context.now))
            }
            Meaning::Pending | Meaning::DuplicateOfOurs | Meaning::Unknown => {
                Event::Unconfirmed(Open::default())
            }
        };
        draft.apply(&event, Some(self.attempt))?;
        draft.finish(facts.retention);
        let data = self.data(draft);
        draft.note("attempt_outcome", self.by(), data);
        replan(draft, context, &facts, self.finding.retry_after, self.random)
    }

    /// Callers are answered; the sender reads on. Nothing is held meanwhile.
    fn linger(
        &self,
        draft: &mut Draft,
        context: &Context<'_>,
        facts: &Tool,
        until: Timestamp,
    ) -> Result<(), Refusal> {
        draft.apply(&Event::Unconfirmed(Open::default()), Some(self.attempt))?;
        draft.note(
            "no_answer_yet",
            self.by(),
            json!({ "attempt": self.attempt, "until": until.to_string() }),
        );
        replan(draft, context, facts, None, self.random)
    }

    fn write_attempt(&self, draft: &mut Draft, context: &Context<'_>) {
        let finding = &self.finding;
        let Some(attempt) =
            draft.operation.attempts.iter_mut().find(|attempt| attempt.number == self.attempt)
        else {
            return;
        };
        attempt.marker = Some(finding.marker);
        attempt.error.clone_from(&finding.error);
        attempt.status = finding.status;
        attempt.outcome = Some(finding.outcome());
        attempt.lingers_until = finding.lingers_until;
        if finding.lingers_until.is_some() {
            return;
        }
        attempt.ended_at = Some(context.now);
        attempt.duplicate_of_ours = finding.meaning == Meaning::DuplicateOfOurs;
        attempt.counts = attempt.counts && !finding.stopped && !finding.credential_refused;
        attempt.settled = match finding.outcome() {
            AttemptOutcome::NotSent
            | AttemptOutcome::NotProcessed
            | AttemptOutcome::Throttled
            | AttemptOutcome::Rejected => true,
            AttemptOutcome::Succeeded | AttemptOutcome::Pending | AttemptOutcome::Unknown => false,
        };
    }

    /// Three credential refusals in a row under one scope pause the tool for it: an expired credential must not wear
    /// out a night's work.
    fn count_refusals(
        &self,
        snapshot: &Snapshot,
        operation: &Operation,
        scope: Option<String>,
        changes: &mut crate::snapshot::Changes,
    ) {
        let Some(scope) = scope else { return };
        let count = match (self.finding.credential_refused, self.finding.status) {
            (true, _) => snapshot.refusals.saturating_add(1),
            // Only an answer says that the credential works again.
            (false, Some(_)) => 0,
            (false, None) => return,
        };
        if count == snapshot.refusals {
            return;
        }
        changes.refusals = Some(RefusalCount { tool: operation.tool.clone(), scope: scope.clone(), count });
        if count >= CREDENTIAL_REFUSALS && snapshot.paused.is_none() {
            changes.pause = Some(PauseDraft {
                tool: Some(operation.tool.clone()),
                scope: Some(scope),
                by: "counterfoil".to_owned(),
                note: format!("{CREDENTIAL_REFUSALS} credential refusals in a row"),
            });
        }
    }

    fn by(&self) -> Actor {
        Actor::Worker(self.worker.as_str().to_owned())
    }

    /// The evidence: what was seen, payloads by digest, and the state that follows.
    fn data(&self, draft: &Draft) -> Value {
        let finding = &self.finding;
        let mut data = state_data(&draft.operation);
        if let Value::Object(data) = &mut data {
            data.insert("attempt".to_owned(), json!(self.attempt));
            data.insert("fencing_token".to_owned(), json!(self.fence));
            data.insert("outcome".to_owned(), json!(finding.outcome().label()));
            data.insert("marker".to_owned(), json!(finding.marker.label()));
            data.insert("status".to_owned(), json!(finding.status));
            data.insert("error".to_owned(), json!(finding.error));
            data.insert("reason_digest".to_owned(), json!(finding.reason.as_deref().map(digest)));
            cover(data, finding.reference.as_deref(), finding.result.as_ref());
        }
        data
    }
}

/// Renews the lease of a sender that is still at work.
#[derive(Clone, Debug)]
pub struct Renew {
    /// Whose operation.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// The claim.
    pub fence: FencingToken,
    /// Who holds it.
    pub worker: WorkerName,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Renew {
    type Reply = ();

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<()>, Refusal> {
        let operation = snapshot.operation()?;
        let mine = |claim: &&Claim| claim.fence == self.fence && claim.worker == self.worker;
        let held = operation.state.claim().filter(mine).ok_or(Refusal::StaleClaim)?;
        let lease = snapshot.context(&operation.tool)?.facts().lease;
        let draft = renewed(operation, held, lease, snapshot.now)?;
        Ok(Decided { changes: draft.into_changes().1, reply: () })
    }
}

/// The operation with the claim that its worker holds, which lasts for `lease` from `now` on.
pub(super) fn renewed(
    operation: &Operation,
    held: &Claim,
    lease: Duration,
    now: Timestamp,
) -> Result<Draft, Refusal> {
    let claim = Claim { lease_expires_at: now.plus(lease), ..held.clone() };
    let (by, until) = (Actor::Worker(claim.worker.as_str().to_owned()), claim.lease_expires_at);
    let mut draft = Draft::of(operation, now);
    draft.apply(&Event::Renewed(claim), None)?;
    draft.note("renewed", by, json!({ "until": until.to_string() }));
    Ok(draft)
}
