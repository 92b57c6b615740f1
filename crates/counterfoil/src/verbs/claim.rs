//! An application's own worker: it claims an operation, which is itself the start, keeps the claim with heartbeats, and
//! reports how its attempt ended.

use std::sync::Arc;
use std::time::Duration;

use super::draft::Draft;
use super::report::{Report, ReportReply, renewed};
use super::start::{Begun, Offer, begin, spend};
use crate::caller::{Caller, Need};
use crate::decide::Action;
use crate::destination::Finding;
use crate::error::Refusal;
use crate::id::{FencingToken, OperationId, WorkerName};
use crate::operation::{Attempt, Claim, Operation};
use crate::snapshot::{Changes, Decided, Declarations, Existing, Needs, Snapshot, Verb, View};
use crate::state::State;

/// The shortest lease that a worker may ask for.
pub const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The longest one.
pub const LONGEST_LEASE: Duration = Duration::from_secs(60 * 60);

/// Claims one operation of a worker tool in order to send, and records its attempt in the same commit.
#[derive(Clone, Debug)]
pub struct TakeClaim {
    /// Who asks.
    pub caller: Caller,
    /// Which operation.
    pub id: OperationId,
    /// The worker.
    pub worker: WorkerName,
    /// How long the claim lasts without a heartbeat, from [`SHORTEST_LEASE`] to [`LONGEST_LEASE`].
    pub lease: Duration,
    /// Minted per call: a repeat gets the same claim while it lasts.
    pub claim_id: Option<String>,
    /// The vendor account that the stored declaration names, as last read.
    pub scope: Option<String>,
    /// The token bucket that it names, as last read.
    pub bucket: Option<String>,
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

/// What became of a claim.
#[derive(Clone, Debug)]
pub enum Claimed {
    /// The attempt is recorded: send it.
    Granted(Box<Granted>),
    /// Not granted. What the look at the operation led to is kept all the same.
    Refused(Refusal),
    /// The operation is bound to another declaration than the one that was read: read it anew and ask again.
    Rebuild,
}

/// A claim in force.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The operation.
    pub view: View,
    /// The attempt that is recorded.
    pub attempt: u32,
    /// The claim.
    pub claim: Claim,
    /// No first byte after this: the end of the attempt's window, or of the approval where that is earlier.
    pub send_before: crate::time::Timestamp,
}

impl Verb for TakeClaim {
    type Reply = Claimed;

    fn needs(&self) -> Needs<'_> {
        Needs {
            peers: true,
            scope: self.scope.as_deref(),
            bucket: self.bucket.as_deref(),
            ..Needs::of(&self.caller.account, &self.id)
        }
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<Claimed>, Refusal> {
        self.caller.needs(Need::Worker)?;
        if self.lease < SHORTEST_LEASE || self.lease > LONGEST_LEASE {
            return Err(Refusal::InvalidArguments("a lease lasts from 1 second to 1 hour".to_owned()));
        }
        let operation = snapshot.operation_for(&self.caller)?;
        let context = snapshot.context(&operation.tool)?;
        let Some(worker) = context.stored.worker() else { return Err(Refusal::NotAWorkerTool) };
        if worker.scope != self.scope || worker.destination != self.bucket {
            return Ok(Decided::reply(Claimed::Rebuild));
        }
        if let Some(claim) = operation.state.claim().filter(|claim| snapshot.now < claim.lease_expires_at) {
            return match self.is_mine(claim) {
                true => {
                    let granted = granted(snapshot.view_of(operation.clone())?, claim.clone())?;
                    Ok(Decided::reply(Claimed::Granted(Box::new(granted))))
                }
                false => Err(Refusal::InProgress),
            };
        }
        if operation.investigation.as_ref().is_some_and(|other| snapshot.now < other.lease_expires_at) {
            return Err(Refusal::InProgress);
        }
        self.start(snapshot, operation)
    }
}

impl TakeClaim {
    fn is_mine(&self, claim: &Claim) -> bool {
        self.claim_id.is_some() && claim.claim_id == self.claim_id && claim.worker == self.worker
    }

    /// The claim is itself the start, under every guard of one. It is nobody's standing wish.
    fn start(&self, snapshot: &Snapshot, operation: &Operation) -> Result<Decided<Claimed>, Refusal> {
        let context = snapshot.context(&operation.tool)?;
        let offer = Offer {
            worker: self.worker.clone(),
            policy_version: operation.policy_version,
            request_digest: operation.fingerprint.to_string(),
            scope: self.scope.clone(),
            bucket: self.bucket.clone(),
            lease: Some(self.lease),
            claim_id: self.claim_id.clone(),
        };
        let mut draft = Draft::of(operation, snapshot.now);
        let wished = operation.wish;
        draft.operation.wish = true;
        let begun = begin(&mut draft, snapshot, &context, &offer, self.random)?;
        match &begun {
            // Held back: the guard ended the wish.
            Begun::Blocked(_) => {}
            Begun::Started(_) | Begun::NotNow | Begun::Rebuild => {
                draft.operation.wish = wished && !draft.operation.state.is_final();
            }
        }
        let (operation, mut changes) = draft.into_changes();
        match begun {
            Begun::Started(_) => {
                changes.bucket = spend(&offer, snapshot, &context.facts());
                let claim = operation.state.claim().cloned().ok_or(Refusal::StaleClaim)?;
                let granted = granted(snapshot.view_of(operation)?, claim)?;
                Ok(Decided { changes, reply: Claimed::Granted(Box::new(granted)) })
            }
            Begun::Blocked(blockers) => Ok(refused(changes, Refusal::BlockedByOperation { blockers })),
            Begun::Rebuild => Ok(Decided::reply(Claimed::Rebuild)),
            Begun::NotNow => {
                let label = operation.state.label();
                let may_start = matches!(operation.state, State::Prepared(_));
                let next = snapshot.view_of(operation)?.next.action;
                let refusal = match (next, context.paused) {
                    (Action::Approve, _) => Refusal::ApprovalRequired,
                    (_, Some(_)) if may_start => Refusal::Paused,
                    (_, Some(_) | None) => Refusal::WrongState(label),
                };
                Ok(refused(changes, refusal))
            }
        }
    }
}

fn refused(changes: Changes, refusal: Refusal) -> Decided<Claimed> {
    Decided { changes, reply: Claimed::Refused(refusal) }
}

fn granted(view: View, claim: Claim) -> Result<Granted, Refusal> {
    let attempt = under(&view.operation, claim.fence)?;
    let (number, mut send_before) = (attempt.number, attempt.send_before);
    if let Some(approval) = view.operation.approval.as_ref().filter(|_| view.approval_required) {
        send_before = send_before.min(approval.expires_at);
    }
    Ok(Granted { view, attempt: number, claim, send_before })
}

/// The attempt that was made under a claim.
fn under(operation: &Operation, fence: FencingToken) -> Result<&Attempt, Refusal> {
    operation.attempts.iter().find(|attempt| attempt.fence == fence).ok_or(Refusal::StaleClaim)
}

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
    type Reply = View;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        self.caller.needs(Need::Worker)?;
        let operation = snapshot.operation_for(&self.caller)?;
        let context = snapshot.context(&operation.tool)?;
        if context.stored.worker().is_none() {
            return Err(Refusal::NotAWorkerTool);
        }
        // A lease that ran out is not revived, noticed yet or not: somebody else may be about to claim.
        let held = operation
            .state
            .claim()
            .filter(|claim| claim.fence == self.fence && snapshot.now < claim.lease_expires_at)
            .ok_or(Refusal::StaleClaim)?;
        if under(operation, self.fence)?.number != self.attempt {
            return Err(Refusal::StaleClaim);
        }
        let lease = held.lease_ms.map_or(context.facts().lease, Duration::from_millis);
        let (operation, changes) = renewed(operation, held, lease, snapshot.now)?.into_changes();
        Ok(Decided { changes, reply: snapshot.view_of(operation)? })
    }
}

/// A worker's report on its attempt.
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
    pub finding: Finding,
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
        // Also past its retention: what a sender knows is never thrown away.
        let operation = match &snapshot.existing {
            Existing::Operation(operation) => operation,
            Existing::Nothing | Existing::Tombstone(_) => snapshot.operation_for(&self.caller)?,
        };
        self.caller.may_use(&operation.tool)?;
        if snapshot.context(&operation.tool)?.stored.worker().is_none() {
            return Err(Refusal::NotAWorkerTool);
        }
        let attempt = under(operation, self.fence)?;
        let report = Report {
            account: operation.account.clone(),
            id: self.id.clone(),
            attempt: self.attempt,
            fence: self.fence,
            scope: attempt.scope.clone(),
            worker: attempt.worker.clone(),
            finding: self.finding.clone(),
            random: self.random,
            declared: self.declared.clone(),
        };
        report.decide(snapshot)
    }
}
