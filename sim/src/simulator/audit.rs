//! The auditor: what may be true of an operation, computed from what really happened and from what its destination
//! declared, never from the decisions under test.

use counterfoil::decide::Action;
use counterfoil::destination::Finding;
use counterfoil::error::Refusal;
use counterfoil::operation::{AttemptOutcome, Operation};
use counterfoil::policy::{ApprovalRule, Meaning, Tool};
use counterfoil::recovery::{HoldReason, Recovery, StoredErrors};
use counterfoil::state::State;
use counterfoil::time::Timestamp;
use counterfoil::verbs::{Entered, PrepareReply};

use super::agenda::{Act, Event, Op};
use super::episode::{Ended, Episode, account};
use super::node::counted;
use super::site::{Packet, store_time};
use super::tools::scope;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
/// Within what time a person is asked once nothing else can settle an operation.
const ASKED_WITHIN: i64 = 5 * SECOND;
/// The longest that a destination asks to be left alone.
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(200);
/// Within what time a pause is in effect.
const PAUSED_WITHIN: i64 = 250;

impl Episode {
    /// Every effect is judged when it happens.
    pub(super) fn judge_effect(&mut self, op: Op, reference: &str, body: &str) {
        self.truths[op].effects.push(reference.to_owned());
        let count = self.truths[op].effects.len();
        if count > 1 {
            return self.fail(op, format!("{count} effects: {:?}", self.truths[op].effects));
        }
        self.judge_line(op);
        if let Some(Ended::Rejected(code)) = self.truths[op].ended {
            return self.fail(op, format!("an effect although it ended rejected/{code}"));
        }
        let meant = self.stored(op).map(|row| row.arguments.as_str().to_owned());
        if meant.is_some_and(|meant| meant != body) {
            self.fail(op, "what took effect is not what was stored");
        }
    }

    /// The ledger's word about an operation, whenever it changes.
    pub(super) fn judge(&mut self, op: Op) {
        let Some(row) = self.stored(op) else { return };
        let state = row.state.clone();
        let flagged = row.duplicate_suspected;
        let effects = self.truths[op].effects.clone();
        match &state {
            State::Succeeded(receipt) => {
                let named = receipt.reference.as_ref().is_some_and(|named| effects.contains(named));
                if !named {
                    self.fail(op, format!("succeeded with {:?}, but made {effects:?}", receipt.reference));
                }
                self.ends(op, Ended::Succeeded(receipt.reference.clone()));
            }
            State::Rejected(rejection) => {
                if !effects.is_empty() && !flagged {
                    self.fail(op, format!("rejected/{}, but made {effects:?}", rejection.code.label()));
                }
                self.ends(op, Ended::Rejected(rejection.code.label()));
            }
            State::Prepared(_) | State::InProgress(_) | State::Unknown(_) => {
                if let Some(ended) = &self.truths[op].ended {
                    let ended = format!("{ended:?}");
                    self.fail(op, format!("{} after it had ended {ended}", state.label()));
                }
            }
        }
        self.judge_review(op);
        if let State::Unknown(_) = state {
            self.check_later(op);
            // Operators change things just when it hurts.
            if self.seed.chance(4) {
                let soon = self.below(5 * SECOND);
                self.agenda.at(self.now + soon, Event::Reload(self.truths[op].plan));
            }
            if self.clock_was_wrong && self.offset != 0 && self.seed.chance(100) {
                let soon = self.below(5 * SECOND);
                self.agenda.at(self.now + soon, Event::ClockTo(0));
            }
        }
    }

    /// A state that is final stays, unless a proof contradicts a rejection.
    fn ends(&mut self, op: Op, ended: Ended) {
        let before = self.truths[op].ended.replace(ended.clone());
        match (before, ended) {
            (None, _) | (Some(Ended::Rejected(_)), Ended::Succeeded(_)) => {}
            (Some(before), after) if before == after => {}
            (Some(before), after) => self.fail(op, format!("ended {before:?}, then {after:?}")),
        }
    }

    /// Whether a person is asked now, and whether that is right.
    pub(super) fn judge_review(&mut self, op: Op) {
        self.world.set_time(self.store_now());
        let Ok(view) = self.world.view(&account(), &self.truths[op].id) else { return };
        let asked = view.next.action == Action::Review;
        if asked && !self.truths[op].in_review {
            self.figures.held += u64::from(!self.truths[op].was_in_review);
            self.truths[op].was_in_review = true;
            self.truths[op].review_since = self.now;
            let after = MINUTE + self.below(30 * MINUTE);
            self.agenda.at(self.now + after, Event::Reviewer(op));
            let reason = view.next.reason.unwrap_or_default();
            self.note(Some(op), |_| format!("HELD {reason}"));
            self.measure_hold(op);
            if let Some(operation) = self.stored(op).cloned()
                && let Err(why) = self.may_be_held(op, &operation, &view.tool, reason)
            {
                self.fail(op, format!("held ({reason}) although {why}"));
            }
        }
        self.truths[op].in_review = asked;
    }

    /// How long it took until a person was asked about what nothing could settle from its last attempt's end on.
    fn measure_hold(&mut self, op: Op) {
        let Some(operation) = self.stored(op) else { return };
        let (State::Unknown(_), Some(last)) = (&operation.state, operation.attempts.last()) else { return };
        let ended = last.lingers_until.max(last.ended_at);
        let waited = ended.map_or(0, |ended| self.store_now().as_millis() - ended.as_millis());
        let plan = &self.plans[self.truths[op].plan];
        let at_once = match &plan.tool.recovery {
            Recovery::None(_) => true,
            Recovery::LookUp(facts) => facts.request_lifetime.is_none(),
            Recovery::IdempotencyKey(_) | Recovery::UniqueReference(_) | Recovery::Transaction => false,
        };
        let quiet = self.last_down + waited < self.now && self.offset == 0;
        if at_once && quiet && operation.attempts.len() == 1 {
            let waited = u64::try_from(waited).unwrap_or(0);
            self.figures.slowest_hold_millis = self.figures.slowest_hold_millis.max(waited);
        }
    }

    /// Whether nothing that is declared can settle an operation any more.
    fn may_be_held(
        &self,
        op: Op,
        operation: &Operation,
        stored: &Tool,
        reason: &str,
    ) -> Result<(), &'static str> {
        let plan = &self.plans[self.truths[op].plan];
        let facts = counterfoil::policy::stricter(stored, &plan.tool);
        let is = |hold: HoldReason| hold.label() == reason;
        let require = |holds: bool, why: &'static str| if holds { Ok(()) } else { Err(why) };
        if is(HoldReason::ToolNotDeclared) {
            return require(!plan.declared, "the tool is declared");
        }
        if is(HoldReason::ScopeChanged) {
            let moved = stored.scope() != plan.tool.scope() || self.figures_moved(op);
            return require(moved, "the vendor account is the same");
        }
        if is(HoldReason::ApprovalExpired) || is(HoldReason::ApprovalVoid) {
            return require(facts.approval != ApprovalRule::None, "no approval is needed");
        }
        if is(HoldReason::DuplicateSuspected) {
            return require(
                operation.overtaken || operation.released.is_some(),
                "nothing was started past it",
            );
        }
        if is(HoldReason::BudgetSpent) {
            return require(self.budget_spent(operation, &facts), "the budget is not spent");
        }
        if is(HoldReason::WindowClosed) {
            return require(self.window_closed(operation, &facts), "the key is still remembered");
        }
        let refused =
            |attempt: &counterfoil::operation::Attempt| attempt.outcome == Some(AttemptOutcome::Rejected);
        if is(HoldReason::RefusedAfterUnknown) {
            return require(operation.attempts.iter().any(refused), "nothing was refused");
        }
        if is(HoldReason::Replaced) {
            return require(self.takes_its_place(operation).is_some(), "nothing takes its place");
        }
        if is(HoldReason::Released) {
            return require(operation.released.is_some(), "nobody let later ones pass");
        }
        self.may_be_held_by_kind(operation, &facts, reason)
    }

    /// Whether the credential ever moved.
    fn figures_moved(&self, op: Op) -> bool {
        let row = self.stored(op);
        row.is_some_and(|row| row.attempts.iter().any(|attempt| attempt.scope.as_deref() != Some("vendor-1")))
    }

    fn may_be_held_by_kind(
        &self,
        operation: &Operation,
        facts: &Tool,
        reason: &str,
    ) -> Result<(), &'static str> {
        let is = |hold: HoldReason| hold.label() == reason;
        match &facts.recovery {
            Recovery::None(_) => match is(HoldReason::NoRecovery) {
                true => Ok(()),
                false => Err("that is no reason for its kind"),
            },
            Recovery::IdempotencyKey(key) => {
                let stored = is(HoldReason::StoredFailure) && key.stored_errors == StoredErrors::All;
                let forgotten = is(HoldReason::FailureNotStored)
                    && key.stored_errors == StoredErrors::SuccessOnly
                    && !key.rolls_back;
                if stored || forgotten { Ok(()) } else { Err("the key protects a repeat") }
            }
            Recovery::UniqueReference(_) => {
                let undecided = facts.recovery.lookup().is_none() || self.asked_in_vain(operation, facts);
                match is(HoldReason::ConflictOpen) && undecided {
                    true => Ok(()),
                    false => Err("the reference protects a repeat, or a look-up finds it"),
                }
            }
            Recovery::LookUp(look_up) => {
                let can_settle = look_up.authoritative && look_up.request_lifetime.is_some();
                match can_settle && !self.asked_in_vain(operation, facts) {
                    true => Err("a look-up can still settle it"),
                    false => Ok(()),
                }
            }
            Recovery::Transaction => Err("a transaction is never in doubt"),
        }
    }

    /// Whether look-ups went on for as long as they should, or the one that had to find it did not.
    fn asked_in_vain(&self, operation: &Operation, facts: &Tool) -> bool {
        let Some(last) = operation.attempts.last() else { return false };
        // The next one may lie beyond the end.
        let next = self.store_now().plus(facts.budget.max_delay);
        let over = next >= last.started_at.plus(facts.recovery.lookup_for());
        let bound = facts.recovery.declared_lifetime().map(|life| last.send_before.plus(life));
        let missed = bound.is_some_and(|bound| {
            operation.look_ups.iter().any(|look| {
                look.answer == counterfoil::operation::LookUpAnswer::Absent && look.began_at > bound
            })
        });
        over || missed
    }

    fn budget_spent(&self, operation: &Operation, facts: &Tool) -> bool {
        let Some(first) = operation.attempts.first() else { return false };
        let spent = counted(operation) >= usize::try_from(facts.budget.attempts).unwrap_or(usize::MAX);
        // A delay, or what the destination asked for, may have reached beyond the end.
        let wait = facts.budget.max_delay.max(LONGEST_WAIT);
        let now = self.store_now().plus(wait);
        spent || now >= first.started_at.plus(facts.budget.elapsed)
    }

    fn window_closed(&self, operation: &Operation, facts: &Tool) -> bool {
        let memory = match &facts.recovery {
            Recovery::IdempotencyKey(key) => Some((key.retention, key.request_lifetime + key.skew)),
            Recovery::UniqueReference(reference) => {
                reference.unique_for.map(|memory| (memory, reference.request_lifetime + reference.skew))
            }
            Recovery::Transaction | Recovery::LookUp(_) | Recovery::None(_) => None,
        };
        let first = operation
            .attempts_under_key()
            .iter()
            .find(|attempt| attempt.outcome != Some(AttemptOutcome::NotSent));
        match (memory, first) {
            (Some((memory, margin)), Some(first)) => {
                let wait = facts.budget.max_delay.max(LONGEST_WAIT);
                let last_byte = self.store_now().plus(wait).plus(facts.lease);
                last_byte >= first.started_at.plus(memory).minus(margin)
            }
            (Some(_) | None, _) => false,
        }
    }

    /// Looks again when a person must have been asked, if nothing else happens.
    fn check_later(&mut self, op: Op) {
        let at = self.now + ASKED_WITHIN + 200;
        self.agenda.at(at, Event::Check(op));
    }

    /// Whether a person was asked within five seconds of nothing else being able to settle it.
    pub(super) fn check(&mut self, op: Op) {
        let Some(operation) = self.stored(op).cloned() else { return };
        let State::Unknown(open) = &operation.state else { return };
        self.judge_review(op);
        if open.closed.is_some() || self.truths[op].in_review {
            return;
        }
        // Whoever was down, paused or in doubt looks later. A doubt ends when store time has caught up.
        if (0..self.nodes.len()).any(|node| self.in_doubt(node)) {
            self.last_down = self.last_down.max(self.now);
        }
        let plan = &self.plans[self.truths[op].plan];
        let disturbed = self.last_down + ASKED_WITHIN + 300 > self.now
            || plan.stands_since.is_some()
            || !plan.declared
            || (0..self.nodes.len()).any(|node| !self.nodes[node].is_up(self.now) || self.in_doubt(node));
        // A declaration that changes what may still settle it is applied at the next look, as it was planned before.
        // So is a place that was taken.
        let changed = operation.updated_at <= store_time(plan.changed_at, self.offset)
            || self.takes_its_place(&operation).is_some();
        let planned = changed
            && open
                .not_before
                .is_some_and(|at| at.as_millis() + ASKED_WITHIN + 300 > self.store_now().as_millis());
        if disturbed || planned {
            return self.check_later(op);
        }
        let Ok(view) = self.world.view(&account(), &self.truths[op].id) else { return };
        let facts = counterfoil::policy::stricter(&view.tool, &plan.tool);
        match self.can_go_on(op, &operation, &facts) {
            Some(until) => {
                let wait = until.as_millis() - self.store_now().as_millis() + ASKED_WITHIN + 300;
                self.agenda.at(self.now + wait.max(100), Event::Check(op));
            }
            None => self.fail(op, format!("nobody is asked although nothing can settle it: {open:?}")),
        }
    }

    /// Until when something that is declared may still settle an open operation by itself.
    fn can_go_on(&self, op: Op, operation: &Operation, facts: &Tool) -> Option<Timestamp> {
        let now = self.store_now().minus(std::time::Duration::from_millis(5_300));
        let last = operation.attempts.last()?;
        let lingers = operation.attempts.iter().filter_map(|attempt| attempt.lingers_until).max();
        if let Some(until) = lingers.filter(|until| *until > now) {
            return Some(until);
        }
        // What has just become known.
        let fresh = operation.attempts.iter().filter_map(|attempt| attempt.ended_at).max();
        if let Some(ended) = fresh.filter(|ended| *ended > now) {
            return Some(ended);
        }
        // The next pass decides.
        if operation.unsettled() == 0 {
            return Some(operation.updated_at).filter(|at| *at > now);
        }
        // A refusal under an earlier key says nothing of this one.
        let under_key = operation.attempts_under_key();
        let refused = under_key.iter().any(|attempt| attempt.outcome == Some(AttemptOutcome::Rejected));
        let over_at = last.started_at.plus(facts.recovery.lookup_for());
        let paused = self.plans[self.truths[op].plan].stood_for;
        let paused = std::time::Duration::from_millis(u64::try_from(paused).unwrap_or(0));
        let first = operation.attempts.first()?;
        let budget = first.started_at.plus(facts.budget.elapsed).plus(paused);
        let left = counted(operation) < usize::try_from(facts.budget.attempts).unwrap_or(usize::MAX);
        let sends = match &facts.recovery {
            Recovery::IdempotencyKey(_) | Recovery::UniqueReference(_) => {
                let takes = self.takes_its_place(operation).is_some() || operation.released.is_some();
                (left && !refused && !takes).then_some(budget.min(self.window_end(operation, facts)))
            }
            Recovery::Transaction | Recovery::LookUp(_) | Recovery::None(_) => None,
        };
        let look_ups = match &facts.recovery {
            Recovery::LookUp(look_up) if look_up.authoritative && look_up.request_lifetime.is_some() => {
                Some(over_at)
            }
            Recovery::LookUp(_) | Recovery::IdempotencyKey(_) | Recovery::UniqueReference(_) => {
                // Where a bound exists a miss after it has the last word; until then look-ups go on.
                let asks = facts.recovery.lookup().is_some() && facts.recovery.declared_lifetime().is_some();
                asks.then_some(over_at)
            }
            Recovery::Transaction | Recovery::None(_) => None,
        };
        [sends, look_ups].into_iter().flatten().filter(|until| *until > now).max()
    }

    fn window_end(&self, operation: &Operation, facts: &Tool) -> Timestamp {
        let first = operation
            .attempts_under_key()
            .iter()
            .find(|attempt| attempt.outcome != Some(AttemptOutcome::NotSent));
        let memory = match &facts.recovery {
            Recovery::IdempotencyKey(key) => Some(key.retention),
            Recovery::UniqueReference(reference) => reference.unique_for,
            Recovery::Transaction | Recovery::LookUp(_) | Recovery::None(_) => None,
        };
        match (first, memory) {
            (Some(first), Some(memory)) => first.started_at.plus(memory),
            (Some(_) | None, _) => Timestamp::from_millis(i64::MAX),
        }
    }

    /// A start is judged where it is committed: budget, approval, pause, and the same action.
    pub(super) fn judge_start(&mut self, op: Op, number: u32) {
        let plan = &self.plans[self.truths[op].plan];
        let Some(row) = self.stored(op) else { return };
        if counted(row) > usize::try_from(plan.attempts).unwrap_or(usize::MAX) {
            return self.fail(op, format!("attempt {number} of at most {}", plan.attempts));
        }
        // An operation goes where it was prepared to go: a pause of another vendor account's credential is not its own.
        let scope = row.attempts.last().and_then(|attempt| attempt.scope.as_deref());
        let paused = self.world.paused(&plan.tool.name, scope);
        if paused && plan.paused_since.is_some_and(|since| since < self.now) {
            return self.fail(op, "an attempt began while sends were paused");
        }
        let now = self.store_now();
        let approved = row.approval.as_ref().is_some_and(|given| {
            given.fingerprint == row.fingerprint && now < given.expires_at && given.by != row.prepared_by
        });
        let wants = plan.tool.approval == ApprovalRule::Required;
        if wants && !approved {
            return self.fail(op, "an attempt began without a valid approval");
        }
        self.judge_order(op);
        if number > 1 {
            return;
        }
        if let Some(other) = self.same_action_open(op) {
            self.fail(op, format!("began while {other}, the same action, was not settled"));
        }
    }

    /// The first byte goes out.
    pub(super) fn judge_write(
        &mut self,
        op: Op,
        number: u32,
        node: usize,
        packet: &Packet,
        send_before: Timestamp,
    ) {
        let recorded =
            self.stored(op).is_some_and(|row| row.attempts.iter().any(|attempt| attempt.number == number));
        if !recorded {
            return self.fail(op, format!("attempt {number} was sent and is not recorded"));
        }
        if self.store_now() >= send_before {
            return self.fail(op, format!("the first byte of attempt {number} went out after its window"));
        }
        // A worker's claim that was granted before may be used until its window ends.
        let since = self.plans[self.truths[op].plan].paused_since;
        let since = since.filter(|_| self.plans[self.truths[op].plan].wire.is_none());
        let awake = self.nodes[node].frozen_until;
        if since.is_some_and(|since| since.max(awake) + PAUSED_WITHIN <= self.now) {
            return self.fail(op, "a first byte went out while sends were paused");
        }
        let sent_to = *self.truths[op].sent_to.get_or_insert(packet.vendor);
        let settled =
            self.stored(op).is_some_and(|row| row.attempts.iter().all(|a| a.settled || a.number == number));
        if sent_to != packet.vendor && !settled {
            self.fail(op, format!("sent to vendor {} after vendor {sent_to}", packet.vendor));
        }
        if settled {
            self.truths[op].sent_to = Some(packet.vendor);
        }
    }

    /// A report: proof is never lost, and a negative one from a fencing token that was outranked moves nothing.
    pub(super) fn judge_report(
        &mut self,
        op: Op,
        before: Option<&Operation>,
        finding: &Finding,
        number: u32,
    ) {
        let (Some(before), Some(after)) = (before, self.stored(op)) else { return };
        if finding.meaning == Meaning::Succeeded {
            let heard = matches!(after.state, State::Succeeded(_)) || after.duplicate_suspected;
            if !heard {
                let state = after.state.label();
                self.fail(op, format!("proof of success was lost: still {state}"));
            }
            return;
        }
        let newest = before
            .attempts
            .iter()
            .find(|attempt| attempt.number == number)
            .is_some_and(|attempt| attempt.fence == before.fence);
        let settled = |row: &Operation| {
            row.attempts.iter().find(|attempt| attempt.number == number).is_some_and(|one| one.settled)
        };
        let moved = settled(after) != settled(before);
        if !newest && moved && !finding.not_sent {
            self.fail(op, format!("an outranked report settled attempt {number} as {:?}", finding.meaning));
        }
    }

    /// What a caller is told about an ID.
    pub(super) fn judge_prepare(&mut self, op: Op, act: Act, done: &Result<PrepareReply, Refusal>) {
        let created = done.as_ref().is_ok_and(|reply| reply.created);
        let accepted = done.is_ok();
        self.judge_identity(op, act, created, accepted, matches!(done, Err(Refusal::ReceiptExpired { .. })));
    }

    /// The same at the transaction door.
    pub(super) fn judge_door(&mut self, op: Op, act: Act, done: &Result<Entered, Refusal>) {
        let created = matches!(done, Ok(Entered::Go(_))) && self.truths[op].ended.is_some();
        self.judge_identity(
            op,
            act,
            created,
            done.is_ok(),
            matches!(done, Err(Refusal::ReceiptExpired { .. })),
        );
    }

    fn judge_identity(&mut self, op: Op, act: Act, created: bool, accepted: bool, expired: bool) {
        // Its place was taken in the same commit.
        if let Some(former) = self.truths[op].replaces {
            self.changed(former);
        }
        let known = self.truths[op].version > 0 || self.truths[op].ended.is_some();
        if created && self.truths[op].ended.is_some() {
            return self.fail(op, "an ID that was used began anew");
        }
        self.figures.late_retries += u64::from(expired);
        if act == Act::Conflict && known {
            self.figures.conflicts += 1;
            let meant = self.stored(op).map(|row| row.arguments.as_str().to_owned());
            let other = self.truths[op].other.as_str().to_owned();
            if accepted && meant.is_some_and(|meant| meant != other) {
                self.fail(op, "another intent got the answer of this one");
            }
        }
        if created {
            self.figures.operations += 1;
            self.truths[op].guarded = self.plans[self.truths[op].plan].tool.guard_on.is_some();
            self.judge_replacement(op);
            if let Some(other) = self.same_action_open(op) {
                self.fail(op, format!("prepared while {other}, the same action, was not settled"));
            }
        }
    }

    /// Keeps track of when sends of a tool began to stand still.
    pub(super) fn judge_pause(&mut self, plan: usize) {
        let tool = self.plans[plan].tool.clone();
        let paused = self.world.paused(&tool.name, tool.scope());
        match (paused, self.plans[plan].paused_since) {
            (true, None) => self.plans[plan].paused_since = Some(self.now),
            (false, Some(since)) => {
                self.plans[plan].paused_since = None;
                self.last_down = self.last_down.max(since.max(self.now));
            }
            (true, Some(_)) | (false, None) => {}
        }
        let stands = [1, 2].into_iter().any(|vendor| self.world.paused(&tool.name, Some(&scope(vendor))));
        match (stands, self.plans[plan].stands_since) {
            (true, None) => {
                self.plans[plan].stands_since = Some(self.now);
                // Somebody mends it, whatever paused it, under whichever vendor account.
                let after = MINUTE + self.below(40 * MINUTE);
                self.agenda.at(self.now + after, Event::Resume(plan));
            }
            (false, Some(since)) => {
                self.plans[plan].stands_since = None;
                self.plans[plan].stood_for += self.now - since;
                self.last_down = self.last_down.max(self.now);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// When everything is over nothing is stuck.
    pub(super) fn judge_end(&mut self) {
        for op in 0..self.truths.len() {
            let Some(row) = self.stored(op) else {
                self.count_ended(op);
                continue;
            };
            match &row.state {
                State::Succeeded(_) | State::Rejected(_) => {
                    if row.duplicate_suspected {
                        self.fail(op, "nobody looked at a suspected duplicate");
                    }
                    self.count_ended(op);
                }
                State::Unknown(open) if open.closed.is_some() => self.figures.closed += 1,
                State::Unknown(_) | State::InProgress(_) | State::Prepared(_) => {
                    let stuck = format!("stuck: {:?}", row.state);
                    self.fail(op, stuck);
                }
            }
        }
    }

    fn count_ended(&mut self, op: Op) {
        match self.truths[op].ended {
            Some(Ended::Succeeded(_)) => self.figures.succeeded += 1,
            Some(Ended::Rejected(_)) => self.figures.rejected += 1,
            None => {}
        }
    }
}
