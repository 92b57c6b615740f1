//! Callers, approvers, and the people who look at what is held. They obey the rules that the product shows them; where
//! one is too early, the product has to say so.

use counterfoil::decide::Action;
use counterfoil::snapshot::Verb;
use counterfoil::snapshot::View;
use counterfoil::state::State;
use counterfoil::time::Timestamp;
use counterfoil::verbs::{
    Approve, Deny, Enter, Entered, Finish, Release, Resolve, Start, Verdict, Withdraw, Words,
};

use super::agenda::{Act, Event, Op, Work};
use super::episode::{Episode, account, ann, app};
use super::node::{is_transaction, millis};
use super::worker::Step;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// How often a person looks at what is held without an end before it is closed.
const PATIENCE: u32 = 3;

impl Episode {
    /// A caller does something, at whichever node answers.
    pub(super) fn caller(&mut self, op: Op, act: Act) {
        let Some(node) = self.some_node() else {
            return self.agenda.at(self.now + SECOND, Event::Caller(op, act));
        };
        // Only an ID that is in use can be used for something else.
        if act == Act::Conflict && self.stored(op).is_none() && self.truths[op].ended.is_none() {
            return;
        }
        let door = is_transaction(self.plans[self.truths[op].plan].site.class);
        let by_worker = self.plans[self.truths[op].plan].wire.is_some();
        match act {
            Act::Put | Act::Conflict if door => self.door(node, op, act),
            Act::Put | Act::Conflict if by_worker && self.seed.chance(400) => {
                if let Some(worker) = self.some_worker() {
                    self.let_worker(worker, 1, Step::Prepare(op, act));
                }
            }
            Act::Put | Act::Conflict => {
                let (made, since) = (self.made_new(op), self.monotonic());
                let soon = 1 + self.below(15);
                self.hand(node, soon, Work::Prepare(op, act, made, since));
            }
            Act::Execute if door => self.door(node, op, Act::Put),
            Act::Execute if by_worker => {
                if self.stored(op).is_some() {
                    self.wishes(node, op);
                }
            }
            Act::Execute => {
                if self.stored(op).is_some() {
                    self.hand(node, 0, Work::Start(op, Some(app()), 0));
                }
            }
            Act::Withdraw => {
                let id = self.truths[op].id.clone();
                let verb = Withdraw { caller: app(), id, declared: self.world.declared() };
                let _taken_back = self.run(node, op, &verb);
            }
        }
    }

    /// Says that it shall run, whenever a worker takes it.
    fn wishes(&mut self, node: usize, op: Op) {
        let verb = Start {
            caller: Some(app()),
            account: account(),
            id: self.truths[op].id.clone(),
            offer: None,
            random: self.seed.next_u64(),
            declared: self.world.declared(),
        };
        let _wished = self.run(node, op, &verb);
    }

    /// The application's own transaction, which now and then is rolled back or dies before its commit.
    fn door(&mut self, node: usize, op: Op, act: Act) {
        let verb = Enter(self.prepare_verb(op, act, None));
        self.world.set_time(self.store_now());
        self.world.clock_in_doubt = self.in_doubt(node);
        let seen = verb.decide(&self.world.snapshot(&verb.needs(), verb.declared()));
        let goes = matches!(&seen, Ok(decided) if matches!(decided.reply, Entered::Go(_)));
        if goes && self.seed.chance(150) {
            return;
        }
        let entered = self.run_quietly(node, op, &verb);
        self.judge_door(op, act, &entered);
        if let Ok(Entered::Go(_)) = entered {
            let reference = format!("row_{op}_{}", self.truths[op].effects.len());
            let body = self.stored(op).map(|row| row.arguments.as_str().to_owned()).unwrap_or_default();
            self.figures.effects += 1;
            self.figures.attempts += 1;
            self.judge_order(op);
            self.judge_effect(op, &reference, &body);
            let finish = Finish {
                caller: app(),
                id: self.truths[op].id.clone(),
                reference: Some(reference),
                result: None,
                declared: self.world.declared(),
            };
            if let Err(refusal) = self.run(node, op, &finish) {
                self.fail(op, format!("the door did not close: {}", refusal.code()));
            }
        } else {
            self.changed(op);
        }
    }

    /// As [`Episode::run`], inside a transaction that is not over.
    fn run_quietly<V: Verb>(
        &mut self,
        node: usize,
        op: Op,
        verb: &V,
    ) -> Result<V::Reply, counterfoil::Refusal> {
        self.world.set_time(self.store_now());
        self.world.clock_in_doubt = self.in_doubt(node);
        self.figures.commits += 1;
        let done = self.world.run(verb);
        if self.stored(op).is_none() {
            self.plan_due(op);
        }
        done
    }

    fn view(&mut self, node: usize, op: Op) -> Option<View> {
        self.world.set_time(self.store_now());
        self.world.clock_in_doubt = self.in_doubt(node);
        self.world.view(&account(), &self.truths[op].id).ok()
    }

    /// An approver looks at what waits for one.
    pub(super) fn approver(&mut self, op: Op) {
        let Some(node) = self.some_node() else {
            return self.agenda.at(self.now + SECOND, Event::Approver(op));
        };
        let Some(view) = self.view(node, op) else { return };
        if view.operation.state.is_final() {
            return;
        }
        let again = 20 * MINUTE + self.below(HOUR);
        self.agenda.at(self.now + again, Event::Approver(op));
        if view.next.action != Action::Approve || self.seed.chance(100) {
            return;
        }
        let id = self.truths[op].id.clone();
        if self.seed.chance(80) {
            let reason = "not this week".to_owned();
            let verb = Deny { caller: ann(), id, reason, declared: self.world.declared() };
            let _denied = self.run(node, op, &verb);
            return;
        }
        let verb = Approve {
            caller: ann(),
            id,
            fingerprint: view.operation.fingerprint,
            acknowledges: view.next.operation.clone(),
            if_version: None,
            declared: self.world.declared(),
        };
        let done = self.run(node, op, &verb);
        if let (Ok(_), Some(named)) = (&done, &verb.acknowledges)
            && let Some(named) = self.truths.iter().position(|truth| truth.id == *named)
        {
            self.truths[op].acknowledged.push(named);
        }
        // What never started is bound to the declaration in force from now on.
        if done.is_ok() && self.stored(op).is_some_and(|row| row.attempts.is_empty()) {
            self.truths[op].guarded = self.plans[self.truths[op].plan].tool.guard_on.is_some();
        }
        self.note(Some(op), |_| format!("approved: {:?}", done.err().map(|refusal| refusal.code())));
    }

    /// A person looks at an operation that is held, and at the destination itself.
    pub(super) fn reviewer(&mut self, op: Op) {
        let Some(node) = self.some_node() else {
            return self.agenda.at(self.now + SECOND, Event::Reviewer(op));
        };
        let Some(view) = self.view(node, op) else { return };
        if view.next.action != Action::Review {
            return;
        }
        let again = 5 * MINUTE + self.below(HOUR);
        self.agenda.at(self.now + again, Event::Reviewer(op));
        let Some(verdict) = self.verdict(op, &view) else { return };
        let thinks = self.below(MINUTE);
        self.agenda.at(self.now + thinks, Event::Decides(op, verdict, view.operation.version));
    }

    fn verdict(&mut self, op: Op, view: &View) -> Option<Verdict> {
        let effect = self.truths[op].effects.first().cloned();
        let seen = effect.and_then(|reference| Words::parse(&reference));
        let flagged = view.operation.duplicate_suspected;
        match (&view.operation.state, seen) {
            (State::Succeeded(_) | State::Prepared(_), _) if flagged => Some(Verdict::Acknowledged),
            (State::Rejected(_), Some(reference)) if flagged => Some(Verdict::Succeeded { reference }),
            (State::Rejected(_), None) if flagged => Some(Verdict::Acknowledged),
            (State::Unknown(_), Some(reference)) => Some(Verdict::Succeeded { reference }),
            (State::Unknown(_), None) => self.nothing_seen(op, view),
            (State::Prepared(_) | State::Succeeded(_) | State::Rejected(_) | State::InProgress(_), _) => None,
        }
    }

    /// Nothing is there, as of now. Whether that is final is for the product to say.
    fn nothing_seen(&mut self, op: Op, view: &View) -> Option<Verdict> {
        let allow_another_attempt = self.seed.chance(300);
        match view.next.not_before {
            Some(bound) if self.store_now() > bound && self.has_waited(op, view, bound) => {
                Some(Verdict::ConfirmedAbsent { allow_another_attempt })
            }
            // Some try all the same.
            Some(_) if self.clock_was_wrong => None,
            Some(_) => self.seed.chance(700).then_some(Verdict::ConfirmedAbsent { allow_another_attempt }),
            None => {
                self.truths[op].looked += 1;
                (self.truths[op].looked > PATIENCE).then_some(Verdict::Abandoned)
            }
        }
    }

    /// Whether the wait has passed on that person's own watch too.
    fn has_waited(&self, op: Op, view: &View, bound: Timestamp) -> bool {
        let last = view.operation.attempts.iter().map(|attempt| attempt.started_at).max().unwrap_or_default();
        !self.clock_was_wrong || self.now - self.truths[op].review_since > millis(bound.since(last))
    }

    /// That person decides, about what they saw.
    pub(super) fn decides(&mut self, op: Op, verdict: Verdict, version: u64) {
        let Some(node) = self.some_node() else {
            return self.agenda.at(self.now + SECOND, Event::Decides(op, verdict, version));
        };
        let id = self.truths[op].id.clone();
        let abandoned = verdict == Verdict::Abandoned;
        let verb = Resolve {
            caller: ann(),
            id,
            verdict,
            note: Words::parse("looked at the portal").unwrap(),
            if_version: Some(version),
            declared: self.world.declared(),
        };
        let done = self.run(node, op, &verb);
        self.note(Some(op), |_| match &done {
            Ok(view) => format!("a person: {:?} -> {}", verb.verdict, view.operation.state),
            Err(refusal) => format!("a person: {:?}: {}", verb.verdict, refusal.code()),
        });
        if done.is_ok() && abandoned {
            let after = self.below(3 * HOUR);
            self.agenda.at(self.now + after, Event::Releases(op));
        }
    }

    /// What nobody can settle no longer holds back what comes after it.
    pub(super) fn releases(&mut self, op: Op) {
        let Some(node) = self.some_node() else {
            return self.agenda.at(self.now + SECOND, Event::Releases(op));
        };
        let verb = Release {
            caller: ann(),
            id: self.truths[op].id.clone(),
            note: Words::parse("the kitchen has to go on").unwrap(),
            if_version: None,
            declared: self.world.declared(),
        };
        let released = self.run(node, op, &verb);
        self.truths[op].released |= released.is_ok();
    }
}
