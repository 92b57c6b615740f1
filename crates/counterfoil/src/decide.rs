//! What happens next to an operation: (operation, declaration, evidence, now) → send, look up, hold, wait, or an end.
//! Pure. Executor, API, command line and recovery ask here and never decide again.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::{self, Spent};
use crate::guard::{Candidate, Peer, Stage};
use crate::id::OperationId;
use crate::operation::{Approval, AttemptOutcome, Operation, RejectionCode};
use crate::policy::{ApprovalRule, Tool};
use crate::recovery::HoldReason;
use crate::safeguard::Safeguard;
use crate::state::{Open, State, Waiting};
use crate::time::Timestamp;
use crate::waits::{self, Wait};

/// How many credential refusals in a row pause a tool for their scope.
pub const CREDENTIAL_REFUSALS: u32 = 3;

/// What the surroundings of an operation look like.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// Store time.
    pub now: Timestamp,
    /// The declaration the operation was prepared under.
    pub stored: &'a Tool,
    /// The version and declaration in force now; `None` if the tool is no longer declared.
    pub current: Option<(u32, &'a Tool)>,
    /// Why sends stand still, if they do.
    pub paused: Option<PauseReason>,
    /// How long the tool was paused since the operation's first attempt.
    pub paused_for: Duration,
    /// The operations that this one names, or that held a start of it back, and those that take its place, as they are
    /// now.
    pub holders: &'a [Peer],
    /// The operations with its subject.
    pub about: &'a [Peer],
}

/// Why sends stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PauseReason {
    /// An operator, or three credential refusals in a row.
    Paused,
    /// The ledger is older than its mark, or has none: what it knows of sends may not be all.
    Restored,
    /// The two clocks disagree, or store time went back: nothing that waits for an instant may be trusted.
    Clock,
}

impl Context<'_> {
    /// Whether another operation takes the place of this one: then it is never sent again, only looked up.
    #[must_use]
    pub fn replaced(&self, operation: &Operation) -> bool {
        waits::live_replacement(operation.replaced_by.as_ref(), self.holders).is_some()
    }

    /// Whether absence can be believed at all. While the clocks disagree nobody can say how long was waited, and a restored
    /// ledger may not know of the last attempt: a hit settles then, a miss does not.
    #[must_use]
    pub fn believes_misses(&self) -> bool {
        match self.paused {
            Some(PauseReason::Clock | PauseReason::Restored) => false,
            Some(PauseReason::Paused) | None => true,
        }
    }

    /// What must be settled before `operation` may start, beside the task guard.
    #[must_use]
    pub fn unsettled(&self, operation: &Operation) -> Vec<Wait<'_>> {
        waits::unsettled(operation, self.holders, self.about)
    }

    /// The succeeded operation that an approval must name before `operation` may start.
    #[must_use]
    pub fn unacknowledged(&self, operation: &Operation) -> Option<Wait<'_>> {
        waits::unacknowledged(operation, self.holders, self.about)
    }

    /// Whether the declaration in force can establish what happened in another way than the stored one.
    fn kind_changed(&self) -> bool {
        self.current.is_some_and(|(_, current)| current.recovery.kind() != self.stored.recovery.kind())
    }

    /// Whether the declaration in force says that the credential belongs to another vendor account by now. Where the
    /// stored one names none, a digest of the credential tells it instead.
    pub(crate) fn scope_changed(&self) -> bool {
        let stored = self.stored.scope();
        stored.is_some() && self.current.is_some_and(|(_, current)| current.scope() != stored)
    }

    /// The facts that decide whether to send: the stricter of the stored and the current declaration.
    #[must_use]
    pub fn facts(&self) -> Cow<'_, Tool> {
        match self.current {
            Some((_, current)) if !std::ptr::eq(current, self.stored) && current != self.stored => {
                Cow::Owned(crate::policy::stricter(self.stored, current))
            }
            Some(_) | None => Cow::Borrowed(self.stored),
        }
    }
}

/// How an operation with attempts goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Send again, not before this instant.
    Send(Timestamp),
    /// Nothing may be sent: look up, not before this instant. A person may be asked as well.
    LookUp {
        /// When.
        at: Timestamp,
        /// Why a person is asked, if one is.
        hold: Option<HoldReason>,
    },
    /// No rule can settle it and nothing may be sent.
    Hold(HoldReason),
    /// Every attempt is settled without effect and nothing may be sent any more.
    Over,
}

/// Plans how an operation goes on after its last attempt ended: `random` picks the point of the delay, `retry_after`
/// is the destination's lower bound.
#[must_use]
pub fn plan(
    operation: &Operation,
    facts: &Tool,
    context: &Context<'_>,
    retry_after: Option<Duration>,
    random: u64,
) -> Plan {
    let spent = Spent::by(&operation.attempts, context.paused_for);
    let settled = operation.unsettled() == 0;
    let at = backoff::next_attempt(&facts.budget, &spent, context.now, retry_after, random);
    let allowed = match at {
        None => Err(HoldReason::BudgetSpent),
        Some(at) => send_allowed(operation, facts, context, at).map(|()| at),
    };
    match allowed {
        Ok(at) => Plan::Send(at),
        Err(_) if settled => Plan::Over,
        Err(HoldReason::NoRecovery) if context.kind_changed() => Plan::Hold(HoldReason::RecoveryChanged),
        Err(reason) => {
            let outlook = crate::reconcile::outlook(operation, facts, reason, context.now, random);
            match outlook.map(|outlook| (outlook.next, outlook.hold)) {
                Some((Some(at), hold)) => Plan::LookUp { at, hold },
                Some((None, hold)) => Plan::Hold(hold.unwrap_or(reason)),
                None => Plan::Hold(reason),
            }
        }
    }
}

/// [`send_rule`], and the memory of both declarations: where the kind changed, the stricter facts have none, but what
/// went out under the stored one may still be forgotten at the destination. What later operations were let past is never
/// sent again.
///
/// # Errors
/// Why not.
pub fn send_allowed(
    operation: &Operation,
    facts: &Tool,
    context: &Context<'_>,
    at: Timestamp,
) -> Result<(), HoldReason> {
    if let Some((_, current)) = context.current
        && context.kind_changed()
    {
        let closed = [context.stored, current].into_iter().any(|tool| {
            let until = tool.recovery.send_allowed_until(operation.attempts_under_key());
            until.is_some_and(|until| at.plus(facts.send_window()) >= until) && Safeguard::KeyWindow.stands()
        });
        if closed {
            return Err(HoldReason::WindowClosed);
        }
    }
    send_rule(operation, facts, at)?;
    if operation.released.is_some() {
        return Err(HoldReason::Released);
    }
    if context.replaced(operation) && Safeguard::ReplacedIsNotSent.stands() {
        return Err(HoldReason::Replaced);
    }
    Ok(())
}

/// Whether one more copy may be committed at `at` without any chance of a second effect.
///
/// # Errors
/// Why not.
pub fn send_rule(operation: &Operation, facts: &Tool, at: Timestamp) -> Result<(), HoldReason> {
    facts.recovery.may_send_again(operation.attempts_under_key(), at, facts.send_window())
}

/// Whether an attempt's sender may still be reading the answer.
#[must_use]
pub fn lingers_until(operation: &Operation, now: Timestamp) -> Option<Timestamp> {
    operation
        .attempts
        .iter()
        .filter(|attempt| !attempt.settled)
        .filter_map(|attempt| attempt.lingers_until)
        .filter(|until| *until > now)
        .max()
}

/// The open state that a plan leads to. While a sender is still reading, nothing is held: the answer may come.
#[must_use]
pub fn open(plan: Plan, lingers_until: Option<Timestamp>) -> Open {
    match (plan, lingers_until) {
        (Plan::Send(at), _) => Open { not_before: Some(at), ..Open::default() },
        (Plan::LookUp { .. } | Plan::Hold(_) | Plan::Over, Some(until)) => {
            Open { not_before: Some(until), ..Open::default() }
        }
        (Plan::LookUp { at, hold }, None) => Open { not_before: Some(at), hold, closed: None },
        (Plan::Hold(reason), None) => Open { hold: Some(reason), ..Open::default() },
        // Every attempt is settled: the next pass ends it.
        (Plan::Over, None) => Open::default(),
    }
}

/// Whether an approval is wanted before the operation may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalNeed {
    /// None.
    No,
    /// None was given yet.
    Wanted,
    /// It ran out.
    Expired,
    /// The operation would go elsewhere now.
    Void,
}

/// Whether a person must say yes before the operation may start.
#[must_use]
pub fn asks(operation: &Operation, facts: &Tool) -> bool {
    match facts.approval {
        ApprovalRule::None => false,
        // Frozen when it was prepared; a declaration that asks for more since then is heard as well.
        ApprovalRule::When => operation.asks || facts.asks_for(&operation.arguments),
        ApprovalRule::Required => true,
    }
}

/// Whether an attempt committed at `now` would have a valid approval behind it.
#[must_use]
pub fn approval_need(operation: &Operation, facts: &Tool, current: &Tool, now: Timestamp) -> ApprovalNeed {
    match (&operation.approval, asks(operation, facts)) {
        (_, false) => ApprovalNeed::No,
        (_, true) if !Safeguard::ApprovalAtStart.stands() => ApprovalNeed::No,
        (None, true) => ApprovalNeed::Wanted,
        (Some(approval), true) => {
            // What was approved is where the stored declaration sends to, as long as the one in force says the same.
            let elsewhere = approval.route != current.route() || approval.route != facts.route();
            if approval.fingerprint != operation.fingerprint || elsewhere {
                ApprovalNeed::Void
            } else if now >= approval.expires_at {
                ApprovalNeed::Expired
            } else {
                ApprovalNeed::No
            }
        }
    }
}

/// The approval that `by` gives now.
#[must_use]
pub fn approval_by(
    by: &crate::id::Principal,
    operation: &Operation,
    facts: &Tool,
    now: Timestamp,
) -> Approval {
    Approval {
        by: by.clone(),
        at: now,
        expires_at: now.plus(facts.approval_expires),
        fingerprint: operation.fingerprint,
        route: facts.route(),
    }
}

/// The holder that must be named by an approval before the operation may run: it held a start back and then succeeded.
#[must_use]
pub fn holder_to_acknowledge<'a>(operation: &Operation, holders: &'a [Peer]) -> Option<&'a Peer> {
    holders
        .iter()
        .filter(|holder| operation.blocked_by.contains(&holder.id))
        .find(|holder| holder.stage == Stage::Succeeded && !operation.acknowledged.contains(&holder.id))
}

/// The holder that still holds the operation back.
#[must_use]
pub fn holder_still_open<'a>(operation: &Operation, holders: &'a [Peer]) -> Option<&'a Peer> {
    let candidate = candidate(operation);
    let named: Vec<Peer> =
        holders.iter().filter(|holder| operation.blocked_by.contains(&holder.id)).cloned().collect();
    let first = crate::guard::blockers(candidate, &named).first().map(|peer| peer.id.clone())?;
    holders.iter().find(|holder| holder.id == first)
}

/// The operation as the guard sees it.
#[must_use]
pub fn candidate(operation: &Operation) -> Candidate<'_> {
    Candidate {
        id: &operation.id,
        task: operation.task.as_ref(),
        distinct_from: &operation.distinct_from,
        replaces: operation.replaces.as_ref(),
        inherits: &operation.inherits,
        settled_since: (operation.started() && operation.unsettled() == 0).then_some(operation.created_at),
    }
}

/// What happens now or must happen next, as every face shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextStep {
    /// The step.
    pub action: Action,
    /// When, if it happens by itself.
    pub at: Option<Timestamp>,
    /// Which other operation it is about.
    pub operation: Option<OperationId>,
    /// Why, as a stable word.
    pub reason: Option<&'static str>,
    /// The earliest instant at which a person may establish absence.
    pub not_before: Option<Timestamp>,
}

/// The steps of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// An approver decides.
    Approve,
    /// Somebody says that it shall run.
    Execute,
    /// Another operation is settled first.
    WaitForOperation,
    /// It is tried at an instant.
    Retry,
    /// A worker is at it.
    Wait,
    /// It is established what happened.
    Reconcile,
    /// A person decides.
    Review,
    /// The application corrects the proposal: a new operation.
    Correct,
    /// The application tells its user.
    Report,
    /// Nothing.
    None,
}

impl Action {
    /// The step as it is stored and shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Execute => "execute",
            Self::WaitForOperation => "wait_for_operation",
            Self::Retry => "retry",
            Self::Wait => "wait",
            Self::Reconcile => "reconcile",
            Self::Review => "review",
            Self::Correct => "correct",
            Self::Report => "report",
            Self::None => "none",
        }
    }

    /// Whether only a person, or the application, can move the operation on.
    #[must_use]
    pub fn waits_for_somebody(self) -> bool {
        match self {
            Self::Approve
            | Self::Execute
            | Self::WaitForOperation
            | Self::Review
            | Self::Correct
            | Self::Report
            | Self::None => true,
            Self::Retry | Self::Wait | Self::Reconcile => false,
        }
    }
}

impl NextStep {
    fn of(action: Action) -> Self {
        Self { action, at: None, operation: None, reason: None, not_before: None }
    }

    fn because(action: Action, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..Self::of(action) }
    }

    /// One fixed sentence for a model or a person; never text that an agent or a destination wrote.
    #[must_use]
    pub fn message(&self, operation: &Operation) -> String {
        crate::message::sentence(self, operation)
    }
}

/// The `next` of an operation.
#[must_use]
pub fn next_step(operation: &Operation, context: &Context<'_>) -> NextStep {
    match &operation.state {
        State::InProgress(_) => NextStep::of(Action::Wait),
        State::Succeeded(_) | State::Rejected(_) if operation.duplicate_suspected => {
            NextStep::because(Action::Review, HoldReason::DuplicateSuspected.label())
        }
        State::Succeeded(_) => NextStep::of(Action::None),
        State::Rejected(rejection) => {
            let action = match rejection.code {
                RejectionCode::DestinationRejected | RejectionCode::ApprovalDenied => Action::Correct,
                RejectionCode::ApprovalExpired
                | RejectionCode::Withdrawn
                | RejectionCode::Replaced
                | RejectionCode::NotStarted
                | RejectionCode::BudgetExhausted
                | RejectionCode::ConfirmedAbsent => Action::Report,
            };
            NextStep::because(action, rejection.code.label())
        }
        State::Unknown(open) => unknown_step(operation, open, context),
        State::Prepared(waiting) => prepared_step(operation, waiting, context),
    }
}

fn unknown_step(operation: &Operation, open: &Open, context: &Context<'_>) -> NextStep {
    if open.closed.is_some() {
        return NextStep::because(Action::None, "closed");
    }
    let held = match (operation.duplicate_suspected, context.current) {
        (true, _) => Some(HoldReason::DuplicateSuspected),
        (false, None) => Some(HoldReason::ToolNotDeclared),
        (false, Some(_)) => open.hold,
    };
    if let Some(reason) = held {
        let not_before = context.facts().recovery.absence_final_at(&operation.attempts);
        return NextStep { not_before, ..NextStep::because(Action::Review, reason.label()) };
    }
    if context.paused.is_some() {
        return NextStep::because(Action::Reconcile, "paused");
    }
    let reason = match operation.attempts.last().and_then(|attempt| attempt.outcome) {
        Some(AttemptOutcome::Pending) => "pending",
        Some(AttemptOutcome::NotSent) => "not-sent",
        Some(AttemptOutcome::NotProcessed) => "not-processed",
        Some(AttemptOutcome::Throttled) => "throttled",
        Some(AttemptOutcome::Succeeded | AttemptOutcome::Rejected | AttemptOutcome::Unknown) => "reply-lost",
        None => "no-report",
    };
    NextStep { at: open.not_before.or(Some(context.now)), ..NextStep::because(Action::Reconcile, reason) }
}

fn prepared_step(operation: &Operation, waiting: &Waiting, context: &Context<'_>) -> NextStep {
    if operation.duplicate_suspected {
        return NextStep::because(Action::Review, HoldReason::DuplicateSuspected.label());
    }
    let Some((_, current)) = context.current else {
        return NextStep::because(Action::Review, HoldReason::ToolNotDeclared.label());
    };
    if let Some(reason) = waiting.hold {
        return NextStep::because(Action::Review, reason.label());
    }
    if let Some(holder) = holder_still_open(operation, context.holders) {
        let next = NextStep::because(Action::WaitForOperation, "action-unresolved");
        return NextStep { operation: Some(holder.id.clone()), ..next };
    }
    if let Some(wait) = context.unsettled(operation).first() {
        let next = NextStep::because(Action::WaitForOperation, wait.link.unsettled());
        return NextStep { operation: Some(wait.peer.id.clone()), ..next };
    }
    if let Some(holder) = holder_to_acknowledge(operation, context.holders) {
        let next = NextStep::because(Action::Approve, "holder-succeeded");
        return NextStep { operation: Some(holder.id.clone()), ..next };
    }
    if let Some(wait) = context.unacknowledged(operation) {
        let next = NextStep::because(Action::Approve, wait.link.succeeded());
        return NextStep { operation: Some(wait.peer.id.clone()), ..next };
    }
    match approval_need(operation, &context.facts(), current, context.now) {
        ApprovalNeed::No => {}
        ApprovalNeed::Wanted => return NextStep::because(Action::Approve, "approval-required"),
        ApprovalNeed::Expired => return NextStep::because(Action::Approve, "approval-expired"),
        // What was sent stays bound to where it went: no approval can send it there again.
        ApprovalNeed::Void if operation.started() => {
            return NextStep::because(Action::Review, HoldReason::ApprovalVoid.label());
        }
        ApprovalNeed::Void => return NextStep::because(Action::Approve, "destination-changed"),
    }
    if context.scope_changed() {
        return NextStep::because(Action::Review, HoldReason::ScopeChanged.label());
    }
    match (operation.wish, context.paused) {
        (false, _) => NextStep::of(Action::Execute),
        (true, Some(PauseReason::Paused | PauseReason::Restored)) => {
            NextStep::because(Action::Retry, "paused")
        }
        (true, Some(PauseReason::Clock)) => NextStep::because(Action::Retry, "clock-in-doubt"),
        (true, None) => {
            let reason = match operation.attempts.last().and_then(|attempt| attempt.outcome) {
                Some(outcome) => outcome.label(),
                None => "due",
            };
            let at = waiting.not_before.unwrap_or(context.now);
            NextStep { at: Some(at), ..NextStep::because(Action::Retry, reason) }
        }
    }
}

/// Until when an attempt that a person allowed outside the budget may be made: it waits as long as an operation that
/// never started, and not for ever.
#[must_use]
pub fn allowed_until(operation: &Operation, facts: &Tool) -> Option<Timestamp> {
    let last = operation.attempts.last().filter(|_| operation.another_allowed)?;
    Some(last.started_at.plus(facts.retention))
}

/// When the operation should be looked at next by whoever carries work on; `None` where only a caller, a person or a
/// destination can move it.
#[must_use]
pub fn due_at(operation: &Operation, facts: &Tool) -> Option<Timestamp> {
    due_or_looked_at(operation, facts, None)
}

/// [`due_at`], for an operation whose standing wish waits for another one: whoever ends that one wakes it, and it is
/// looked at again by itself at `look_again`.
#[must_use]
pub fn due_or_looked_at(
    operation: &Operation,
    facts: &Tool,
    look_again: Option<Timestamp>,
) -> Option<Timestamp> {
    let reminder = operation.remind_at.filter(|_| !operation.state.is_final());
    [step_due_at(operation, facts, look_again), reminder].into_iter().flatten().min()
}

fn step_due_at(operation: &Operation, facts: &Tool, look_again: Option<Timestamp>) -> Option<Timestamp> {
    match &operation.state {
        State::InProgress(claim) => Some(claim.lease_expires_at),
        State::Succeeded(_) | State::Rejected(_) => None,
        State::Unknown(_) if operation.unsettled() == 0 => Some(operation.updated_at),
        State::Unknown(open) if facts.worker().is_some() => {
            crate::queue::unknown_due_at(operation, open, facts)
        }
        State::Unknown(open) => match (&open.closed, open.hold) {
            (Some(_), _) => None,
            // Look-ups may go on while a person is asked.
            (None, Some(_)) => open.not_before,
            (None, None) => Some(open.not_before.unwrap_or(operation.updated_at)),
        },
        State::Prepared(_) if operation.duplicate_suspected => None,
        State::Prepared(waiting) => {
            let asks = asks(operation, facts);
            let expiry = match (&operation.approval, asks) {
                (_, false) => None,
                (Some(approval), true) => Some(approval.expires_at),
                (None, true) => Some(operation.created_at.plus(facts.approval_expires)),
            };
            let lapse = match operation.started() {
                false => Some(operation.created_at.plus(facts.retention)),
                true if operation.another_allowed => {
                    let forgotten = facts.recovery.send_allowed_until(operation.attempts_under_key());
                    [forgotten, allowed_until(operation, facts)].into_iter().flatten().min()
                }
                true => Spent::by(&operation.attempts, Duration::ZERO).ends_at(&facts.budget),
            };
            let undecided = asks && operation.approval.is_none();
            // What a worker carries out waits in a queue of its own.
            let run = (operation.wish && !undecided && waiting.hold.is_none() && facts.worker().is_none())
                .then(|| look_again.or(waiting.not_before).unwrap_or(operation.updated_at));
            [expiry, lapse, run].into_iter().flatten().min()
        }
    }
}
