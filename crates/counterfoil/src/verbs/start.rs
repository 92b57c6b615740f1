//! The start of an attempt: the one commit after which something may be sent.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::draft::{Draft, state_data};
use super::look_up::look_up_due;
use super::pass::{may_send_now, pass, replan};
use crate::backoff;
use crate::caller::{Caller, Need};
use crate::decide::{self, ApprovalNeed, Context};
use crate::error::Refusal;
use crate::guard::{self, Peer};
use crate::id::{Account, OperationId, Principal, WorkerName};
use crate::operation::{Attempt, AttemptOutcome, Claim};
use crate::policy::Tool;
use crate::recovery::HoldReason;
use crate::safeguard::Safeguard;
use crate::snapshot::{
    Actor, Decided, Declarations, EvidenceDraft, Link, Needs, Noted, Snapshot, Verb, View,
};
use crate::state::{Event, Open, State, Waiting};
use crate::stated::Stated;
use crate::waits::Wait;

/// A sender that stands ready: what it would send, fixed before the attempt is recorded.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Who would send.
    pub worker: WorkerName,
    /// The declaration that the request was made from.
    pub policy_version: u32,
    /// Digest of the request.
    pub request_digest: String,
    /// The vendor account that the credential belongs to.
    pub scope: Option<String>,
    /// The bucket that sends share.
    pub bucket: Option<String>,
    /// How long the claim lasts; `None` means the lease of the tool.
    pub lease: Option<Duration>,
    /// The call of an application's own worker that this is made for.
    pub claim: Option<ByWorker>,
}

/// The call with which an application's own worker claims.
#[derive(Clone, Debug)]
pub struct ByWorker {
    /// Minted for this one call: a repeat gets the same claim while it lasts.
    pub claim_id: Option<String>,
    /// Who calls, and holds the claim.
    pub held_by: Principal,
    /// What the worker's code says of the tool.
    pub stated: Stated,
}

/// Starts an operation, or says what stands in the way.
#[derive(Clone, Debug)]
pub struct Start {
    /// Whoever asks for it, whose wish it becomes; `None` when a standing wish is carried out.
    pub caller: Option<Caller>,
    /// Whose.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// The sender; `None` only sets the wish.
    pub offer: Option<Offer>,
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

/// What became of a start.
#[derive(Clone, Debug)]
pub struct StartReply {
    /// The operation afterwards.
    pub view: View,
    /// Whether an attempt was recorded, or why not.
    pub begun: Begun,
}

/// Whether an attempt was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The attempt of this number is recorded: send it.
    Started(u32),
    /// Not now; the operation's `next` says what it waits for.
    NotNow,
    /// The task guard held it back, or it waits for a former proposal or for a subject.
    Blocked(Vec<Peer>),
    /// The request was made from another declaration than the stored one: make it anew.
    Rebuild,
}

impl Verb for Start {
    type Reply = StartReply;

    fn needs(&self) -> Needs<'_> {
        Needs {
            peers: true,
            scope: self.offer.as_ref().and_then(|offer| offer.scope.as_deref()),
            bucket: self.offer.as_ref().and_then(|offer| offer.bucket.as_deref()),
            ..Needs::of(&self.account, &self.id)
        }
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<StartReply>, Refusal> {
        if let Some(caller) = &self.caller {
            caller.needs(Need::Agent)?;
        }
        let operation = match &self.caller {
            Some(caller) => snapshot.operation_for(caller)?,
            None => snapshot.operation()?,
        };
        let replayed = operation.state.is_final();
        let mut draft = Draft::of(operation, snapshot.now);
        let context = snapshot.context(&operation.tool)?;
        if let Some(caller) = &self.caller {
            self.asked(caller, &mut draft, &context)?;
        }
        let begun = match &self.offer {
            Some(offer) => begin(&mut draft, snapshot, &context, offer, self.random)?,
            None => {
                pass(&mut draft, &context, self.random)?;
                Begun::NotNow
            }
        };
        let (operation, mut changes) = draft.into_changes();
        if let (Begun::Started(_), Some(offer)) = (&begun, &self.offer) {
            changes.bucket = spend(offer, snapshot, &context.facts());
        }
        let mut view = snapshot.view_of(operation)?;
        view.replayed = replayed;
        Ok(Decided { changes, reply: StartReply { view, begun } })
    }
}

impl Start {
    /// A caller's execute: what is answered with an error sets no wish.
    fn asked(&self, caller: &Caller, draft: &mut Draft, context: &Context<'_>) -> Result<(), Refusal> {
        let operation = &draft.operation;
        if operation.state.is_final() {
            return Ok(());
        }
        if let State::Prepared(_) = operation.state {
            let holder = decide::holder_to_acknowledge(operation, context.holders);
            let facts = context.facts();
            let current = context.current.map_or(&*facts, |(_, current)| current);
            let needed = decide::approval_need(operation, &facts, current, context.now) != ApprovalNeed::No;
            // An approval that ran out ends the operation in the pass below; then there is nothing to ask for.
            let over = operation.approval.as_ref().is_some_and(|given| context.now >= given.expires_at);
            let word = holder.is_some() || context.unacknowledged(operation).is_some();
            if word || (needed && !over) {
                return Err(Refusal::ApprovalRequired);
            }
            // A wish that stands already goes on waiting.
            let waits = context.unsettled(operation);
            if !waits.is_empty() {
                return Err(Refusal::BlockedByOperation { blockers: peers(&waits) });
            }
        }
        if !operation.wish {
            draft.operation.wish = true;
            draft.note("wished", Actor::Caller(caller.principal.clone()), json!({}));
        }
        Ok(())
    }
}

/// The bucket after this send, where the destination has one.
pub(super) fn spend(
    offer: &Offer,
    snapshot: &Snapshot,
    facts: &Tool,
) -> Option<(String, backoff::BucketLevel)> {
    let bucket = facts.bucket()?;
    let level = backoff::take(&bucket, snapshot.bucket, snapshot.now).ok()?;
    Some((offer.bucket.clone()?, level))
}

/// Records the next attempt if everything allows it. Every guard is asked here, inside the commit that it protects:
/// state, declaration, pause, clock, scope, request, approval, task guard, destination, budget, and bucket.
pub(super) fn begin(
    draft: &mut Draft,
    snapshot: &Snapshot,
    context: &Context<'_>,
    offer: &Offer,
    random: u64,
) -> Result<Begun, Refusal> {
    pass(draft, context, random)?;
    let facts = context.facts();
    // A longer lease leaves more time for the first byte: the guards must reckon with the one that is asked for.
    let asked = for_lease(&facts, offer);
    let (not_before, repeat) = match &draft.operation.state {
        State::Prepared(Waiting { hold: None, not_before }) => (*not_before, false),
        State::Unknown(Open { hold: None, closed: None, not_before }) => (*not_before, true),
        State::Prepared(_)
        | State::Unknown(_)
        | State::InProgress(_)
        | State::Succeeded(_)
        | State::Rejected(_) => return Ok(Begun::NotNow),
    };
    let Some((_, current)) = context.current else { return Ok(Begun::NotNow) };
    let operation = &draft.operation;
    if operation.policy_version != offer.policy_version || made_under_earlier_key(draft, offer) {
        return Ok(Begun::Rebuild);
    }
    // What the guard held back, or nobody asked for, waits until somebody asks.
    if !repeat && !operation.wish {
        return Ok(Begun::NotNow);
    }
    let due = not_before.is_none_or(|at| context.now >= at);
    let unpaused = Context { paused: None, ..context.clone() };
    let context = if Safeguard::PauseAtStart.stands() { context } else { &unpaused };
    let passed = operation.released.is_some() || context.replaced(operation);
    // What later ones were let past is planned anew here, and only looked up.
    if context.paused.is_some() || operation.duplicate_suspected || (passed && !repeat) || !due {
        return Ok(Begun::NotNow);
    }
    if repeat && look_up_due(draft, context, &facts, random) {
        return Ok(Begun::NotNow);
    }
    if let Some(reason) = changed_request(draft, context, offer) {
        return hold(draft, reason);
    }
    // The credential belongs to another vendor account than the one that the operation was prepared for. Sent now, it
    // would stand in the ledger as sent to the former one, and be looked up there once that is declared again.
    if context.scope_changed() && Safeguard::Scope.stands() {
        return Ok(Begun::NotNow);
    }
    match decide::approval_need(operation, &facts, current, context.now) {
        ApprovalNeed::No => {}
        ApprovalNeed::Expired if repeat => return hold(draft, HoldReason::ApprovalExpired),
        // Nobody can approve what may have worked already, so waiting for a yes would be waiting for ever.
        ApprovalNeed::Void | ApprovalNeed::Wanted if repeat => return hold(draft, HoldReason::ApprovalVoid),
        ApprovalNeed::Wanted | ApprovalNeed::Expired | ApprovalNeed::Void => return Ok(Begun::NotNow),
    }
    // A repeat collapses with the first copy at the destination and so cannot double another operation; a start can.
    if !repeat && let Some(begun) = held_back(draft, snapshot, context) {
        return Ok(begun);
    }
    if draft.operation.started() && !may_send_now(draft, context, &asked) {
        // What a shorter lease would still allow is not given up for the sake of a longer one.
        if !may_send_now(draft, context, &facts) {
            replan(draft, context, &facts, None, random)?;
        }
        return Ok(Begun::NotNow);
    }
    if let Some(bucket) = facts.bucket()
        && let Err(at) = backoff::take(&bucket, snapshot.bucket, snapshot.now)
    {
        return defer(draft, at, repeat);
    }
    if !repeat {
        overtake(draft, snapshot);
    }
    record(draft, context, &asked, offer)
}

/// Notes on whatever this start passes, and what may still turn out to have worked, that there may then be two effects.
pub(super) fn overtake(draft: &mut Draft, snapshot: &Snapshot) {
    let operation = &draft.operation;
    let same = guard::overtaken(decide::candidate(operation), &snapshot.peers);
    let named = snapshot.named.iter().filter(|peer| {
        operation.replaces.as_ref() == Some(&peer.id) || operation.inherits.contains(&peer.id)
    });
    let mut passed: Vec<&OperationId> = same
        .into_iter()
        .chain(named)
        .chain(&snapshot.subject_peers)
        .filter(|peer| !peer.stage.is_final())
        .map(|peer| &peer.id)
        .collect();
    passed.sort();
    passed.dedup();
    for id in passed {
        let data = json!({ "operation": operation.id.as_str() });
        let evidence = EvidenceDraft { kind: "overtaken", by: Actor::Rule, data };
        draft.changes.links.push(Link { id: id.clone(), noted: Noted::Overtaken, evidence });
    }
}

/// The operations that are waited for.
pub(super) fn peers(waits: &[Wait<'_>]) -> Vec<Peer> {
    waits.iter().map(|wait| wait.peer.clone()).collect()
}

/// The facts with the lease that the sender asks for.
fn for_lease<'f>(facts: &'f Tool, offer: &Offer) -> Cow<'f, Tool> {
    match offer.lease {
        None => Cow::Borrowed(facts),
        Some(lease) => Cow::Owned(Tool { lease, ..facts.clone() }),
    }
}

/// A request that was made before a person allowed another attempt under a new key still carries the old one.
fn made_under_earlier_key(draft: &Draft, offer: &Offer) -> bool {
    let earlier = usize::try_from(draft.operation.earlier_keys).unwrap_or(usize::MAX);
    draft.operation.attempts.iter().take(earlier).any(|made| made.request_digest == offer.request_digest)
}

/// A credential of another vendor account, or a request that is no longer the first one, must not be sent.
fn changed_request(draft: &Draft, context: &Context<'_>, offer: &Offer) -> Option<HoldReason> {
    // A new key makes another request; what went before under another one is settled.
    let first = draft.operation.attempts_under_key().first();
    // An attempt that is proved unprocessed reached no vendor account: a credential that was mended may differ.
    let reached = draft.operation.attempts.iter().find(|attempt| match attempt.outcome {
        Some(AttemptOutcome::NotSent | AttemptOutcome::NotProcessed) => false,
        Some(
            AttemptOutcome::Succeeded
            | AttemptOutcome::Rejected
            | AttemptOutcome::Throttled
            | AttemptOutcome::Pending
            | AttemptOutcome::Unknown,
        )
        | None => true,
    });
    if !Safeguard::Scope.stands() {
        return None;
    }
    if reached.is_some_and(|reached| reached.scope != offer.scope || context.scope_changed()) {
        Some(HoldReason::ScopeChanged)
    } else if first.is_some_and(|first| first.request_digest != offer.request_digest) {
        Some(HoldReason::RequestChanged)
    } else {
        None
    }
}

/// The task guard at a start, and whatever else the operation waits for. What the guard holds back is recorded on the
/// operation and ends its wish; a wish that waits for a former proposal or for a subject stands on.
pub(super) fn held_back(draft: &mut Draft, snapshot: &Snapshot, context: &Context<'_>) -> Option<Begun> {
    let operation = &draft.operation;
    let blockers: Vec<Peer> =
        guard::blockers(decide::candidate(operation), &snapshot.peers).into_iter().cloned().collect();
    if !blockers.is_empty() && Safeguard::TaskGuardAtStart.stands() {
        let new: Vec<OperationId> = blockers
            .iter()
            .map(|peer| peer.id.clone())
            .filter(|id| !operation.blocked_by.contains(id))
            .collect();
        if operation.wish || !new.is_empty() {
            draft.operation.wish = false;
            draft.operation.blocked_by.extend(new);
            let by: Vec<&str> = blockers.iter().map(|peer| peer.id.as_str()).collect();
            draft.note("held_back", Actor::Rule, json!({ "operations": by }));
        }
        return Some(Begun::Blocked(blockers));
    }
    let waits = context.unsettled(operation);
    if !waits.is_empty() {
        return Some(Begun::Blocked(peers(&waits)));
    }
    let word = decide::holder_to_acknowledge(operation, context.holders).is_some()
        || context.unacknowledged(operation).is_some();
    word.then_some(Begun::NotNow)
}

fn hold(draft: &mut Draft, reason: HoldReason) -> Result<Begun, Refusal> {
    let event = match draft.operation.state {
        State::Unknown(_) => Event::Replanned(Open { hold: Some(reason), ..Open::default() }),
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => {
            Event::Deferred(Waiting { hold: Some(reason), not_before: None })
        }
    };
    draft.apply(&event, None)?;
    let data = state_data(&draft.operation);
    draft.note("held", Actor::Rule, data);
    Ok(Begun::NotNow)
}

fn defer(draft: &mut Draft, at: crate::time::Timestamp, repeat: bool) -> Result<Begun, Refusal> {
    let event = match repeat {
        true => Event::Replanned(Open { not_before: Some(at), ..Open::default() }),
        false => Event::Deferred(Waiting { not_before: Some(at), hold: None }),
    };
    draft.apply(&event, None)?;
    draft.note("deferred", Actor::Rule, json!({ "until": at.to_string(), "reason": "bucket" }));
    Ok(Begun::NotNow)
}

/// The attempt row. Once this is durable the request counts as sent: a crash right after it leaves an attempt whose
/// outcome nobody reported.
pub(super) fn record(
    draft: &mut Draft,
    context: &Context<'_>,
    facts: &Tool,
    offer: &Offer,
) -> Result<Begun, Refusal> {
    let operation = &mut draft.operation;
    let number = u32::try_from(operation.attempts.len()).unwrap_or(u32::MAX).saturating_add(1);
    let fence = operation.fence.next();
    let claim = Claim {
        worker: offer.worker.clone(),
        fence,
        lease_expires_at: context.now.plus(facts.lease),
        claim_id: offer.claim.as_ref().and_then(|claim| claim.claim_id.clone()),
        lease_ms: offer.lease.map(|lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
        held_by: offer.claim.as_ref().map(|claim| claim.held_by.clone()),
        look_up: None,
    };
    let key = context.stored.recovery.key_format().map(|(format, _)| {
        crate::keys::derive(
            operation.account.as_str(),
            operation.id.as_str(),
            operation.key_generation,
            format,
        )
    });
    draft.apply(&Event::Started(claim), None)?;
    let operation = &mut draft.operation;
    operation.fence = fence;
    // One attempt, whatever becomes of it.
    let outside_budget = std::mem::take(&mut operation.another_allowed);
    operation.investigation = None;
    let attempt = Attempt {
        number,
        worker: offer.worker.clone(),
        fence,
        held_by: offer.claim.as_ref().map(|claim| claim.held_by.clone()),
        looked_up_by: Vec::new(),
        started_at: context.now,
        send_before: context.now.plus(facts.send_window()),
        lingers_until: None,
        ended_at: None,
        outcome: None,
        settled: false,
        counts: !outside_budget,
        marker: None,
        status: None,
        error: None,
        duplicate_of_ours: false,
        key,
        scope: offer.scope.clone(),
        request_digest: offer.request_digest.clone(),
    };
    let data = json!({
        "number": number,
        "fencing_token": fence,
        "send_before": attempt.send_before.to_string(),
        "key": &attempt.key,
        "scope": &attempt.scope,
        "request_digest": &attempt.request_digest,
        "policy_version": operation.policy_version,
    });
    operation.attempts.push(attempt);
    draft.note("attempt_started", Actor::Worker(offer.worker.as_str().to_owned()), data);
    Ok(Begun::Started(number))
}
