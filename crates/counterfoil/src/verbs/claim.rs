//! An application's own worker takes an operation: to send, which is itself the start and records the attempt in the same
//! commit, or to find out what became of what was sent, which grants no right to send.

use std::sync::Arc;
use std::time::Duration;

use super::draft::Draft;
use super::look_up::{HELD_FOR_SCOPE, investigate, look_up_due};
use super::pass::settle_on;
use super::start::{Begun, ByWorker, Offer, begin, spend};
use crate::caller::{Caller, Need};
use crate::decide::{Action, Context};
use crate::error::Refusal;
use crate::id::{FencingToken, OperationId, WorkerName};
use crate::operation::{Attempt, Claim, LookUpStart, Operation};
use crate::recovery::LookUpBy;
use crate::snapshot::{Actor, Changes, Decided, Declarations, Needs, Snapshot, Verb, View};
use crate::state::State;
use crate::stated::Stated;
use crate::time::Timestamp;

/// The shortest lease that a worker may ask for.
pub const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The longest one.
pub const LONGEST_LEASE: Duration = Duration::from_secs(60 * 60);

/// Claims one operation of a worker tool: to send where a send is due, to investigate where only a look-up is.
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
    /// What the worker's code says of the tool.
    pub stated: Stated,
    /// The vendor account that the stored declaration names, as last read.
    pub scope: Option<String>,
    /// The token bucket that it names, as last read.
    pub bucket: Option<String>,
    /// How many attempts this node has seen, and for how long it has seen the last of them, on its monotonic clock.
    pub seen: (usize, Duration),
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

/// What became of a claim.
#[derive(Clone, Debug)]
pub enum Claimed {
    /// It is in force.
    Granted(Box<Granted>),
    /// Not granted. What the look at the operation led to is kept all the same.
    Refused(Refusal),
    /// The operation is bound to another declaration than the one that was read: read it anew and ask again.
    Rebuild,
}

/// What a claim is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The attempt is recorded: send it.
    Send,
    /// Find out what became of the attempts. Nothing may be sent.
    Investigate,
}

impl Mode {
    /// The mode as it is shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Investigate => "investigate",
        }
    }
}

/// A claim in force.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The operation.
    pub view: View,
    /// What it is good for.
    pub mode: Mode,
    /// The attempt that is recorded; the last one for an investigation.
    pub attempt: u32,
    /// The claim.
    pub claim: Claim,
    /// No first byte after this: the end of the attempt's window, or of the approval where that is earlier. `None` where
    /// nothing may be sent at all.
    pub send_before: Option<Timestamp>,
}

impl Granted {
    /// The claim to send that `view` shows.
    ///
    /// # Errors
    /// [`Refusal::StaleClaim`] where there is none.
    pub fn now(view: View) -> Result<Self, Refusal> {
        let claim = view.operation.state.claim().cloned().ok_or(Refusal::StaleClaim)?;
        granted(view, Mode::Send, claim)
    }
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
        if let Some((mode, claim)) = operation.claim_in_force(snapshot.now) {
            if !self.is_mine(claim) {
                return Err(Refusal::InProgress);
            }
            let granted = granted(snapshot.view_of(operation.clone())?, mode, claim.clone())?;
            return Ok(Decided::reply(Claimed::Granted(Box::new(granted))));
        }
        let Some((_, current)) = context.current else { return Err(Refusal::UnknownTool) };
        let differs = self.stated.differs(current);
        if !differs.is_empty() {
            return Err(Refusal::DeclarationMismatch { differs });
        }
        if worker.scope != self.scope || worker.destination != self.bucket {
            return Ok(Decided::reply(Claimed::Rebuild));
        }
        self.start(snapshot, operation, &context)
    }
}

impl TakeClaim {
    fn is_mine(&self, claim: &Claim) -> bool {
        let same = self.claim_id.is_some() && claim.claim_id == self.claim_id && claim.worker == self.worker;
        same && claim.is_held_by(&self.caller.principal)
    }

    /// The claim is itself the start, under every guard of one. It is nobody's standing wish. Where nothing may be sent
    /// and a look-up is due, it is a claim to investigate.
    fn start(
        &self,
        snapshot: &Snapshot,
        operation: &Operation,
        context: &Context<'_>,
    ) -> Result<Decided<Claimed>, Refusal> {
        let offer = Offer {
            worker: self.worker.clone(),
            policy_version: operation.policy_version,
            request_digest: operation.fingerprint.to_string(),
            scope: self.scope.clone(),
            bucket: self.bucket.clone(),
            lease: Some(self.lease),
            claim: Some(ByWorker {
                claim_id: self.claim_id.clone(),
                held_by: self.caller.principal.clone(),
                stated: Stated::default(),
            }),
        };
        let mut draft = Draft::of(operation, snapshot.now);
        let wished = operation.wish;
        draft.operation.wish = true;
        let begun = begin(&mut draft, snapshot, context, &offer, self.random)?;
        match &begun {
            // Held back: the guard may have ended the wish.
            Begun::Blocked(_) => draft.operation.wish = draft.operation.wish && wished,
            Begun::Started(_) | Begun::NotNow | Begun::Rebuild => {
                draft.operation.wish = wished && !draft.operation.state.is_final();
            }
        }
        let looks = begun == Begun::NotNow && self.look_up(&mut draft, context)?;
        let (operation, mut changes) = draft.into_changes();
        changes.look_again = super::pass::look_again(&operation, context);
        match begun {
            Begun::Started(_) => {
                changes.bucket = spend(&offer, snapshot, &context.facts());
                let claim = operation.state.claim().cloned().ok_or(Refusal::StaleClaim)?;
                let granted = granted(snapshot.view_of(operation)?, Mode::Send, claim)?;
                Ok(Decided { changes, reply: Claimed::Granted(Box::new(granted)) })
            }
            Begun::NotNow if looks => {
                let claim = operation.investigation.clone().ok_or(Refusal::StaleClaim)?;
                let granted = granted(snapshot.view_of(operation)?, Mode::Investigate, claim)?;
                Ok(Decided { changes, reply: Claimed::Granted(Box::new(granted)) })
            }
            Begun::Blocked(blockers) => Ok(refused(changes, Refusal::BlockedByOperation { blockers })),
            Begun::Rebuild => Ok(Decided::reply(Claimed::Rebuild)),
            Begun::NotNow => {
                let refusal = not_now(&snapshot.view_of(operation)?, context);
                Ok(refused(changes, refusal))
            }
        }
    }

    /// Takes a claim to investigate where a look-up by a worker is what the operation waits for.
    fn look_up(&self, draft: &mut Draft, context: &Context<'_>) -> Result<bool, Refusal> {
        let facts = context.facts();
        if facts.recovery.lookup() != Some(&LookUpBy::Worker)
            || !look_up_due(draft, context, &facts, self.random)
        {
            return Ok(false);
        }
        // The records of another vendor account say nothing.
        if context.scope_changed() {
            settle_on(draft, HELD_FOR_SCOPE)?;
            return Ok(false);
        }
        let (attempts, waited) = self.seen;
        // A node that did not see the last attempt has not waited for it.
        let waited = if attempts == draft.operation.attempts.len() { waited } else { Duration::ZERO };
        let claim = Claim {
            worker: self.worker.clone(),
            fence: draft.operation.fence.next(),
            lease_expires_at: context.now.plus(self.lease),
            claim_id: self.claim_id.clone(),
            lease_ms: Some(whole_millis(self.lease)),
            held_by: Some(self.caller.principal.clone()),
            look_up: Some(LookUpStart { at: context.now, waited_ms: whole_millis(waited) }),
        };
        investigate(draft, claim, Actor::Worker(self.worker.as_str().to_owned()))?;
        Ok(true)
    }
}

fn whole_millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn refused(changes: Changes, refusal: Refusal) -> Decided<Claimed> {
    Decided { changes, reply: Claimed::Refused(refusal) }
}

/// Why nothing was granted.
fn not_now(view: &View, context: &Context<'_>) -> Refusal {
    let state = &view.operation.state;
    let only_paused = context.paused.is_some()
        && match state {
            State::Prepared(_) => true,
            State::Unknown(_) => view.next.action == Action::Reconcile,
            State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => false,
        };
    if view.next.action == Action::Approve {
        Refusal::ApprovalRequired
    } else if only_paused {
        Refusal::Paused
    } else {
        Refusal::WrongState(state.label())
    }
}

/// The claim with what its holder needs.
pub(super) fn granted(view: View, mode: Mode, claim: Claim) -> Result<Granted, Refusal> {
    let attempt = match mode {
        Mode::Send => under(&view.operation, claim.fence)?,
        Mode::Investigate => view.operation.attempts.last().ok_or(Refusal::StaleClaim)?,
    };
    let number = attempt.number;
    let approved = view.operation.approval.as_ref().filter(|_| view.approval_required);
    let send_before = match mode {
        Mode::Send => {
            Some(approved.map_or(attempt.send_before, |given| attempt.send_before.min(given.expires_at)))
        }
        Mode::Investigate => None,
    };
    Ok(Granted { view, mode, attempt: number, claim, send_before })
}

/// The attempt that was made under a claim.
pub(super) fn under(operation: &Operation, fence: FencingToken) -> Result<&Attempt, Refusal> {
    operation.attempts.iter().find(|attempt| attempt.fence == fence).ok_or(Refusal::StaleClaim)
}

impl Operation {
    /// The claim that lasts at `now`, and what it is good for.
    #[must_use]
    pub fn claim_in_force(&self, now: Timestamp) -> Option<(Mode, &Claim)> {
        let sends = self.state.claim().map(|claim| (Mode::Send, claim));
        let looks = self.investigation.as_ref().map(|claim| (Mode::Investigate, claim));
        sends.or(looks).filter(|(_, claim)| now < claim.lease_expires_at)
    }
}
