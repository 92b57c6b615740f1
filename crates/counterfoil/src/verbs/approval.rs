//! Decisions before a start: an approver's yes or no, and the application's own withdrawal.

use std::sync::Arc;

use serde_json::json;

use super::draft::{Draft, rejection};
use super::pass::pass;
use super::prepare::digest;
use crate::caller::{Caller, Need};
use crate::decide::{self, ApprovalNeed};
use crate::error::Refusal;
use crate::fingerprint::Fingerprint;
use crate::guard::Stage;
use crate::id::OperationId;
use crate::operation::{Operation, RejectionCode};
use crate::snapshot::{Actor, Decided, Declarations, Needs, Snapshot, Verb, View};
use crate::state::{Event, State};

/// An approver says yes to one fingerprint.
#[derive(Clone, Debug)]
pub struct Approve {
    /// Who decides.
    pub caller: Caller,
    /// About which operation.
    pub id: OperationId,
    /// What was shown.
    pub fingerprint: Fingerprint,
    /// A succeeded operation that is no obstacle.
    pub acknowledges: Option<OperationId>,
    /// The version that was shown.
    pub if_version: Option<u64>,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Approve {
    type Reply = View;

    fn needs(&self) -> Needs<'_> {
        Needs { named: self.acknowledges.as_slice(), ..Needs::of(&self.caller.account, &self.id) }
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        self.caller.needs(Need::Approver)?;
        let operation = snapshot.operation_for(&self.caller)?;
        if operation.prepared_by == self.caller.principal {
            return Err(Refusal::SamePrincipal);
        }
        if operation.fingerprint != self.fingerprint {
            return Err(Refusal::FingerprintMismatch);
        }
        if self.repeats(operation, snapshot) {
            return Ok(Decided::reply(snapshot.view()?));
        }
        if self.if_version.is_some_and(|version| version != operation.version) {
            return Err(Refusal::ChangedMeanwhile);
        }
        let State::Prepared(_) = operation.state else {
            return Err(Refusal::WrongState(operation.state.label()));
        };
        still_undecided(operation, snapshot)?;
        let mut draft = Draft::of(operation, snapshot.now);
        if let Some(other) = &self.acknowledges {
            let peer =
                snapshot.named.iter().find(|peer| peer.id == *other).ok_or_else(|| snapshot.missing())?;
            if peer.stage != Stage::Succeeded {
                return Err(Refusal::WrongState(peer.stage.label()));
            }
            if !draft.operation.acknowledged.contains(other) {
                draft.operation.acknowledged.push(other.clone());
            }
        }
        self.approve(&mut draft, snapshot)?;
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: snapshot.view_of(operation)? })
    }
}

impl Approve {
    /// The same decision by the same principal, which still stands.
    fn repeats(&self, operation: &Operation, snapshot: &Snapshot) -> bool {
        let same = operation.approval.as_ref().is_some_and(|given| given.by == self.caller.principal);
        let acknowledged = self.acknowledges.as_ref().is_none_or(|id| operation.acknowledged.contains(id));
        let stands = match operation.state {
            State::Prepared(_) => snapshot.context(&operation.tool).is_ok_and(|context| {
                let facts = context.facts();
                let current = context.current.map_or(&*facts, |(_, current)| current);
                decide::approval_need(operation, &facts, current, context.now) == ApprovalNeed::No
            }),
            State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) | State::Unknown(_) => true,
        };
        same && acknowledged && stands
    }

    fn approve(&self, draft: &mut Draft, snapshot: &Snapshot) -> Result<(), Refusal> {
        let context = snapshot.context(&draft.operation.tool)?;
        let (version, current) = context.current.ok_or(Refusal::UnknownTool)?;
        let facts = context.facts();
        let valid = draft.operation.approval.is_some()
            && decide::approval_need(&draft.operation, &facts, current, context.now) == ApprovalNeed::No;
        // The first recorded decision wins; a second approver adds nothing but an acknowledgement.
        if valid && self.acknowledges.is_none() {
            return Err(Refusal::WrongState(draft.operation.state.label()));
        }
        draft.apply(&Event::Approved, None)?;
        // What never started goes where it is approved to go now; what did start goes where it went.
        let bound = match draft.operation.started() {
            true => &*facts,
            false => {
                draft.operation.policy_version = version;
                current
            }
        };
        draft.operation.approval =
            Some(decide::approval_by(&self.caller.principal, &draft.operation, bound, context.now));
        // What was sent stays bound to where it went. If that is no longer where the tool goes, a yes changes nothing,
        // and nobody is told that it did.
        if decide::approval_need(&draft.operation, &facts, current, context.now) == ApprovalNeed::Void
            && draft.operation.started()
        {
            return Err(Refusal::WrongState(draft.operation.state.label()));
        }
        let data = json!({
            "fingerprint": self.fingerprint.to_string(),
            "acknowledges": self.acknowledges.as_ref().map(OperationId::as_str),
            "policy_version": draft.operation.policy_version,
        });
        draft.note("approved", Actor::Caller(self.caller.principal.clone()), data);
        Ok(())
    }
}

/// An approver says no.
#[derive(Clone, Debug)]
pub struct Deny {
    /// Who decides.
    pub caller: Caller,
    /// About which operation.
    pub id: OperationId,
    /// Why.
    pub reason: String,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Deny {
    type Reply = View;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        self.caller.needs(Need::Approver)?;
        let end = End { code: RejectionCode::ApprovalDenied, kind: "denied", reason: Some(&self.reason) };
        end.decide(&self.caller, snapshot)
    }
}

/// The application takes back what has not started.
#[derive(Clone, Debug)]
pub struct Withdraw {
    /// Who asks.
    pub caller: Caller,
    /// Which operation.
    pub id: OperationId,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Withdraw {
    type Reply = View;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        self.caller.needs(Need::Agent)?;
        let end = End { code: RejectionCode::Withdrawn, kind: "withdrawn", reason: None };
        end.decide(&self.caller, snapshot)
    }
}

/// Time may have ended it already, whether or not a pass has written that down.
fn still_undecided(operation: &Operation, snapshot: &Snapshot) -> Result<(), Refusal> {
    let mut passed = Draft::of(operation, snapshot.now);
    pass(&mut passed, &snapshot.context(&operation.tool)?, 0)?;
    match &passed.operation.state {
        State::Prepared(_) => Ok(()),
        State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) | State::Unknown(_) => {
            Err(Refusal::WrongState(passed.operation.state.label()))
        }
    }
}

/// A decision that ends a prepared operation.
struct End<'a> {
    code: RejectionCode,
    kind: &'static str,
    reason: Option<&'a str>,
}

impl End<'_> {
    fn decide(&self, caller: &Caller, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        let operation = snapshot.operation_for(caller)?;
        if let State::Rejected(rejection) = &operation.state
            && rejection.code == self.code
            && decided_by(operation, caller)
        {
            return Ok(Decided::reply(snapshot.view()?));
        }
        // The first recorded decision wins: a no after a yes that is in force is told so.
        if self.code == RejectionCode::ApprovalDenied && approved(operation, snapshot)? {
            return Err(Refusal::WrongState(operation.state.label()));
        }
        let mut draft = Draft::of(operation, snapshot.now);
        let mut ended = rejection(self.code, snapshot.now);
        ended.detail = self.reason.map(str::to_owned);
        ended.by = Some(caller.principal.clone());
        let event = match self.code {
            RejectionCode::ApprovalDenied => Event::Denied(ended),
            RejectionCode::DestinationRejected
            | RejectionCode::ApprovalExpired
            | RejectionCode::Withdrawn
            | RejectionCode::Replaced
            | RejectionCode::NotStarted
            | RejectionCode::BudgetExhausted
            | RejectionCode::ConfirmedAbsent => Event::Withdrawn(ended),
        };
        draft.apply(&event, None)?;
        draft.finish(snapshot.context(&draft.operation.tool)?.facts().retention);
        let by = Actor::Caller(caller.principal.clone());
        draft.note(self.kind, by, json!({ "reason_digest": self.reason.map(digest) }));
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: snapshot.view_of(operation)? })
    }
}

/// Whether somebody said yes, and it is still valid.
fn approved(operation: &Operation, snapshot: &Snapshot) -> Result<bool, Refusal> {
    let context = snapshot.context(&operation.tool)?;
    let Some((_, current)) = context.current else { return Ok(false) };
    let need = decide::approval_need(operation, &context.facts(), current, context.now);
    Ok(operation.approval.is_some() && need == ApprovalNeed::No)
}

fn decided_by(operation: &Operation, caller: &Caller) -> bool {
    match &operation.state {
        State::Rejected(rejection) => rejection.by.as_ref() == Some(&caller.principal),
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Unknown(_) => false,
    }
}
