//! The transaction door: the effect is rows in the ledger's own database, so operation, effect and receipt are one
//! commit. Nothing can be unknown, unless the effect itself ends the transaction that it was given.

use std::sync::Arc;

use serde_json::json;

use super::draft::Draft;
use super::prepare::Prepare;
use super::start::{Begun, Offer, held_back, overtake, record};
use crate::decide::{self, Action, ApprovalNeed, Context};
use crate::error::Refusal;
use crate::id::{OperationId, WorkerName};
use crate::operation::{AttemptOutcome, Receipt, ReceiptSource, ResultBody};
use crate::policy::Carrier;
use crate::snapshot::{Actor, Decided, Declarations, Existing, Needs, Snapshot, Verb, View};
use crate::state::{Event, State};

/// Enters the door: finds the receipt, or opens the way for the effect.
#[derive(Clone, Debug)]
pub struct Enter(pub Prepare);

/// What the application does next.
#[derive(Clone, Debug)]
pub enum Entered {
    /// The effect exists since an earlier commit: this is its receipt.
    Replay(View),
    /// Do the effect in this transaction, then finish.
    Go(View),
    /// Not now; the operation's `next` says what it waits for. It is kept if the transaction commits.
    NotNow(View),
}

impl Verb for Enter {
    type Reply = Entered;

    fn needs(&self) -> Needs<'_> {
        self.0.needs()
    }

    fn declared(&self) -> Arc<Declarations> {
        self.0.declared()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<Entered>, Refusal> {
        if let Some((_, tool)) = self.0.declared.get(&self.0.tool)
            && tool.carrier != Carrier::Transaction
        {
            return Err(Refusal::InvalidArguments(
                "this tool is not carried out in a transaction".to_owned(),
            ));
        }
        let (prepared, seen) = self.0.decide_and_see(snapshot)?;
        let snapshot = seen.as_ref().unwrap_or(snapshot);
        let view = prepared.reply.view;
        match &view.operation.state {
            State::Succeeded(_) => Ok(Decided { changes: prepared.changes, reply: Entered::Replay(view) }),
            State::Rejected(_) | State::InProgress(_) | State::Unknown(_) => {
                Ok(Decided { changes: prepared.changes, reply: Entered::NotNow(view) })
            }
            State::Prepared(_) => self.open(snapshot, prepared.changes, view),
        }
    }
}

impl Enter {
    /// Every guard of a start, but for what concerns sends.
    fn open(
        &self,
        snapshot: &Snapshot,
        changes: crate::snapshot::Changes,
        view: View,
    ) -> Result<Decided<Entered>, Refusal> {
        let context = snapshot.context(&view.operation.tool)?;
        let facts = context.facts();
        let Some((_, current)) = context.current else {
            return Ok(Decided { changes, reply: Entered::NotNow(view) });
        };
        let ready = decide::approval_need(&view.operation, &facts, current, context.now) == ApprovalNeed::No
            && context.paused.is_none()
            && !view.operation.duplicate_suspected
            && view.operation.state.hold().is_none();
        // A new operation met the task guard when it was prepared.
        let waits = match view.next.action {
            Action::WaitForOperation | Action::Approve => true,
            Action::Execute
            | Action::Retry
            | Action::Wait
            | Action::Reconcile
            | Action::Review
            | Action::Correct
            | Action::Report
            | Action::None => false,
        };
        if !ready || (waits && matches!(snapshot.existing, Existing::Nothing)) {
            return Ok(Decided { changes, reply: Entered::NotNow(view) });
        }
        if matches!(snapshot.existing, Existing::Operation(_)) {
            let mut draft = Draft::of(&view.operation, snapshot.now);
            match held_back(&mut draft, snapshot, &context) {
                Some(Begun::Blocked(blockers)) => return Err(Refusal::BlockedByOperation { blockers }),
                Some(Begun::NotNow | Begun::Started(_) | Begun::Rebuild) => {
                    return Ok(Decided { changes, reply: Entered::NotNow(view) });
                }
                None => {}
            }
        }
        self.enter(snapshot, &context, changes, view)
    }

    /// The attempt joins the application's transaction before its effect does. An effect that ends that transaction by
    /// itself leaves an attempt that nobody reports, and so no way for a second effect.
    fn enter(
        &self,
        snapshot: &Snapshot,
        context: &Context<'_>,
        changes: crate::snapshot::Changes,
        view: View,
    ) -> Result<Decided<Entered>, Refusal> {
        let mut draft = match snapshot.existing {
            Existing::Operation(_) => Draft::of(&view.operation, snapshot.now),
            Existing::Nothing | Existing::Tombstone(_) => Draft::new(view.operation, snapshot.now),
        };
        draft.changes = changes;
        let offer = Offer {
            worker: WorkerName::from_stored(DOOR),
            policy_version: draft.operation.policy_version,
            request_digest: draft.operation.fingerprint.to_string(),
            scope: None,
            bucket: None,
            lease: None,
            claim: None,
        };
        overtake(&mut draft, snapshot);
        record(&mut draft, context, &context.facts(), &offer)?;
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: Entered::Go(snapshot.view_of(operation)?) })
    }
}

/// Who carries out what is done in a transaction of the application.
const DOOR: &str = "transaction";

/// Leaves the door: the receipt joins the effect in the application's commit.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Who asks.
    pub caller: crate::caller::Caller,
    /// Which operation.
    pub id: OperationId,
    /// What the application calls the thing that was created.
    pub reference: Option<String>,
    /// What the application wants to be told again.
    pub result: Option<ResultBody>,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

impl Verb for Finish {
    type Reply = View;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<View>, Refusal> {
        let operation = snapshot.operation()?;
        let mut draft = Draft::of(operation, snapshot.now);
        let receipt = Receipt {
            reference: self.reference.clone(),
            result: self.result.clone(),
            source: ReceiptSource::Transaction,
            recorded_at: snapshot.now,
        };
        let attempt = draft.operation.attempts.last().map(|attempt| attempt.number);
        draft.apply(&Event::CommittedTogether(receipt), attempt)?;
        if let Some(attempt) = draft.operation.attempts.last_mut() {
            attempt.outcome = Some(AttemptOutcome::Succeeded);
            attempt.ended_at = Some(snapshot.now);
        }
        draft.finish(snapshot.context(&draft.operation.tool)?.facts().retention);
        let data = json!({
            "reference_digest": self.reference.as_deref().map(super::prepare::digest),
            "result_digest": self.result.as_ref().map(|result| &result.digest),
        });
        draft.note("committed", Actor::Caller(self.caller.principal.clone()), data);
        let (operation, changes) = draft.into_changes();
        Ok(Decided { changes, reply: snapshot.view_of(operation)? })
    }
}
