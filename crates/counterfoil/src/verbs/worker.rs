//! What a worker says of the claim that it holds: that it still works on it, and how it ended.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::claim::{Granted, Mode, granted, under};
use super::draft::{Draft, state_data};
use super::look_up::LookUpReport;
use super::report::{Report, ReportReply, renewed};
use crate::caller::{Caller, Need};
use crate::destination::{Finding, LookedUp};
use crate::error::Refusal;
use crate::id::{FencingToken, OperationId, WorkerName};
use crate::operation::{Attempt, Claim, LookUpAnswer, Operation, ResultBody};
use crate::policy::Meaning;
use crate::safeguard::Safeguard;
use crate::snapshot::{Actor, Decided, Declarations, Needs, Snapshot, Verb};
use crate::time::Timestamp;

/// Extends a claim by the lease that was asked for. It never moves the window for the first byte.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// Who asks.
    pub caller: Caller,
    /// Which operation.
    pub id: OperationId,
    /// Which attempt.
    pub attempt: u32,
    /// The claim.
    pub fence: FencingToken,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Heartbeat {
    type Reply = Granted;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<Granted>, Refusal> {
        self.caller.needs(Need::Worker)?;
        let operation = snapshot.operation_for(&self.caller)?;
        let context = snapshot.context(&operation.tool)?;
        if context.stored.worker().is_none() {
            return Err(Refusal::NotAWorkerTool);
        }
        // A lease that ran out is not revived, noticed yet or not: somebody else may be about to claim.
        let (mode, held) = operation
            .claim_in_force(snapshot.now)
            .filter(|(_, claim)| claim.fence == self.fence && claim.is_held_by(&self.caller.principal))
            .ok_or(Refusal::StaleClaim)?;
        let number = match mode {
            Mode::Send => Some(under(operation, self.fence)?.number),
            Mode::Investigate => operation.attempts.last().map(|attempt| attempt.number),
        };
        if number != Some(self.attempt) {
            return Err(Refusal::StaleClaim);
        }
        let lease = held.lease_ms.map_or(context.facts().lease, Duration::from_millis);
        let draft = match mode {
            Mode::Send => renewed(operation, held, lease, snapshot.now)?,
            Mode::Investigate => looks_on(operation, held, lease, snapshot.now),
        };
        let (operation, changes) = draft.into_changes();
        let claim = operation.claim_in_force(snapshot.now).map(|(_, claim)| claim.clone());
        let claim = claim.ok_or(Refusal::StaleClaim)?;
        Ok(Decided { changes, reply: granted(snapshot.view_of(operation)?, mode, claim)? })
    }
}

/// The investigation goes on. When its look-up began does not move.
fn looks_on(operation: &Operation, held: &Claim, lease: Duration, now: Timestamp) -> Draft {
    let claim = Claim { lease_expires_at: now.plus(lease), ..held.clone() };
    let data = json!({ "until": claim.lease_expires_at.to_string() });
    let mut draft = Draft::of(operation, now);
    draft.note("renewed", Actor::Worker(claim.worker.as_str().to_owned()), data);
    draft.operation.investigation = Some(claim);
    draft
}

/// What a worker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// How its attempt ended.
    Sent(Finding),
    /// Its look-up found this many records.
    Found {
        /// What the destination calls the record.
        reference: Option<String>,
        /// The record.
        result: Option<ResultBody>,
        /// How many there are.
        count: u64,
    },
    /// Its look-up found no record.
    Absent,
}

/// A worker's report: on its attempt, or on its investigation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Who reports.
    pub caller: Caller,
    /// Which operation.
    pub id: OperationId,
    /// Which attempt.
    pub attempt: u32,
    /// The claim that it was made under.
    pub fence: FencingToken,
    /// What was found.
    pub told: Told,
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Outcome {
    type Reply = ReportReply;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<ReportReply>, Refusal> {
        self.caller.needs(Need::Worker)?;
        let operation = snapshot.operation_for(&self.caller)?;
        if snapshot.context(&operation.tool)?.stored.worker().is_none() {
            return Err(Refusal::NotAWorkerTool);
        }
        match under(operation, self.fence) {
            // Names of workers and fencing tokens are easy to guess: what somebody else says of an attempt is nothing.
            Ok(attempt)
                if attempt.held_by.as_ref().is_some_and(|holder| *holder != self.caller.principal)
                    && Safeguard::HolderReports.stands() =>
            {
                Err(Refusal::StaleClaim)
            }
            Ok(attempt) => self.on_attempt(snapshot, operation, attempt),
            Err(_) => self.on_look_up(snapshot, operation),
        }
    }
}

impl Outcome {
    fn on_attempt(
        &self,
        snapshot: &Snapshot,
        operation: &Operation,
        attempt: &Attempt,
    ) -> Result<Decided<ReportReply>, Refusal> {
        let finding = match &self.told {
            Told::Sent(finding) => finding.clone(),
            // Whoever finds its own record has proof of success.
            Told::Found { reference, result, count: 1 } => Finding {
                meaning: Meaning::Succeeded,
                reference: reference.clone(),
                result: result.clone(),
                error: None,
                ..Finding::unknown(crate::operation::Marker::BytesWritten, "")
            },
            // A sender that looks around proves nothing with what it does not find.
            Told::Absent if !Safeguard::SenderProvesNoAbsence.stands() => Finding {
                meaning: Meaning::NotProcessed,
                ..Finding::unknown(crate::operation::Marker::BytesWritten, "")
            },
            Told::Found { .. } | Told::Absent => return self.too_late(snapshot, operation),
        };
        let report = Report {
            account: operation.account.clone(),
            id: self.id.clone(),
            attempt: self.attempt,
            fence: self.fence,
            scope: attempt.scope.clone(),
            worker: attempt.worker.clone(),
            finding,
            random: self.random,
            declared: self.declared.clone(),
        };
        report.decide(snapshot)
    }

    fn on_look_up(
        &self,
        snapshot: &Snapshot,
        operation: &Operation,
    ) -> Result<Decided<ReportReply>, Refusal> {
        let granted = self.fence > FencingToken::default() && self.fence <= operation.fence;
        if !granted || !operation.attempts.iter().any(|attempt| attempt.number == self.attempt) {
            return Err(Refusal::StaleClaim);
        }
        // Whoever holds no claim of this operation, and never did, has nothing to say of it.
        let caller = &self.caller.principal;
        let ever_held = |attempt: &Attempt| {
            attempt.held_by.as_ref() == Some(caller) || attempt.looked_up_by.contains(caller)
        };
        let looks = operation.investigation.iter().any(|claim| claim.held_by.as_ref() == Some(caller));
        if !looks && !operation.attempts.iter().any(ever_held) && Safeguard::HolderReports.stands() {
            return Err(Refusal::StaleClaim);
        }
        let looked = self.looked(snapshot.context(&operation.tool)?.scope_changed())?;
        if self.repeats(operation, &looked) {
            let view = snapshot.view_of(operation.clone())?;
            return Ok(Decided::reply(ReportReply { view, stale: false }));
        }
        let live = operation
            .claim_in_force(snapshot.now)
            .filter(|(mode, claim)| *mode == Mode::Investigate && claim.fence == self.fence)
            .filter(|(_, claim)| claim.is_held_by(caller));
        // An investigation that was outranked or ran out can only bring proof of success.
        if live.is_none() && looked.answer != LookUpAnswer::Found {
            return self.too_late(snapshot, operation);
        }
        let claim = live.map(|(_, claim)| claim);
        let begun = claim.and_then(|claim| claim.look_up);
        let report = LookUpReport {
            account: operation.account.clone(),
            id: self.id.clone(),
            fence: self.fence,
            worker: claim.map_or_else(|| self.name(), |claim| claim.worker.clone()),
            began_at: begun.map_or(snapshot.now, |begun| begun.at),
            waited: begun.map_or(Duration::ZERO, |begun| Duration::from_millis(begun.waited_ms)),
            looked,
            random: self.random,
            declared: self.declared.clone(),
        };
        let Decided { changes, reply } = report.decide(snapshot)?;
        Ok(Decided { changes, reply: ReportReply { view: reply, stale: false } })
    }

    /// The report as the answer to a look-up.
    fn looked(&self, scope_changed: bool) -> Result<LookedUp, Refusal> {
        let failed = LookedUp::failed("the worker could not tell");
        let found = |answer, reference: &Option<String>, result: &Option<ResultBody>| LookedUp {
            answer,
            reference: reference.clone(),
            result: result.clone(),
            error: None,
            scope_changed: false,
        };
        match &self.told {
            Told::Found { reference, result, count: 1 } => Ok(found(LookUpAnswer::Found, reference, result)),
            Told::Found { reference, result, count: _ } => {
                Ok(found(LookUpAnswer::Several, reference, result))
            }
            Told::Absent => {
                Ok(LookedUp { answer: LookUpAnswer::Absent, scope_changed, error: None, ..failed })
            }
            Told::Sent(finding) => match finding.meaning {
                Meaning::Succeeded => Ok(found(LookUpAnswer::Found, &finding.reference, &finding.result)),
                Meaning::Unknown => Ok(failed),
                Meaning::Rejected
                | Meaning::NotProcessed
                | Meaning::Throttled
                | Meaning::Pending
                | Meaning::DuplicateOfOurs => Err(Refusal::InvalidArguments(
                    "an investigation ends with found, absent or unknown".to_owned(),
                )),
            },
        }
    }

    /// The same answer came before. A record of another name is news.
    fn repeats(&self, operation: &Operation, looked: &LookedUp) -> bool {
        let known = operation.state.receipt().and_then(|receipt| receipt.reference.as_ref());
        let news = looked.answer == LookUpAnswer::Found
            && (operation.state.receipt().is_none()
                || looked.reference.is_some() && looked.reference.as_ref() != known);
        let same =
            |other: &crate::operation::LookUp| other.fence == self.fence && other.answer == looked.answer;
        !news && operation.look_ups.iter().any(same)
    }

    /// Kept, and moves nothing.
    fn too_late(&self, snapshot: &Snapshot, operation: &Operation) -> Result<Decided<ReportReply>, Refusal> {
        let mut draft = Draft::of(operation, snapshot.now);
        let mut data = state_data(&draft.operation);
        if let serde_json::Value::Object(data) = &mut data {
            data.insert("attempt".to_owned(), json!(self.attempt));
            data.insert("fencing_token".to_owned(), json!(self.fence));
            data.insert("answer".to_owned(), json!(self.label()));
        }
        draft.note("late_report", Actor::Worker(self.name().as_str().to_owned()), data);
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: ReportReply { view: snapshot.view_of(operation)?, stale: true } })
    }

    fn label(&self) -> &'static str {
        match &self.told {
            Told::Sent(finding) => finding.outcome().label(),
            Told::Found { .. } => "found",
            Told::Absent => "absent",
        }
    }

    /// Whoever reports without a claim is known by the token alone.
    fn name(&self) -> WorkerName {
        WorkerName::from_stored(self.caller.principal.as_str())
    }
}
