//! The application's own workers: they claim, send and look up by themselves, say that they are still at it, and report;
//! or die, or stand still for longer than their lease, at any place in between.

use std::time::Duration;

use counterfoil::caller::{Caller, Roles};
use counterfoil::destination::{Finding, LastLook, first_byte_within};
use counterfoil::http::classify::classify;
use counterfoil::id::{FencingToken, Principal, WorkerName};
use counterfoil::operation::{LookUpAnswer, Marker};
use counterfoil::policy::Meaning;
use counterfoil::stated::Stated;
use counterfoil::time::Timestamp;
use counterfoil::verbs::{
    Begun, ByWorker, Claimed, Granted, Heartbeat, Mode, Offer, Outcome, Prepare, TakeClaim, Told,
};

use super::agenda::{Act, Event, Instant, Op};
use super::episode::{Episode, account};
use super::node::millis;
use super::site::{Packet, Reply};

const SECOND: i64 = 1_000;

/// A process of the application.
pub(super) struct Worker {
    number: usize,
    incarnation: u32,
    alive: bool,
    frozen_until: Instant,
}

impl Worker {
    pub(super) fn new(number: usize) -> Self {
        Self { number, incarnation: 0, alive: true, frozen_until: 0 }
    }

    fn name(&self) -> WorkerName {
        WorkerName::parse(&format!("worker-{}-{}", self.number, self.incarnation)).unwrap()
    }

    /// Two of them share a token.
    fn caller(&self) -> Caller {
        with_token(if self.number < 2 { "baker" } else { "porter" })
    }
}

fn with_token(name: &str) -> Caller {
    let roles = Roles { agent: true, worker: true, ..Roles::default() };
    Caller { account: account(), principal: Principal::parse(name).unwrap(), roles, tools: Vec::new() }
}

/// What a worker does next. Between two steps it may die or stand still.
#[derive(Debug)]
pub(super) enum Step {
    /// Takes what it was offered.
    Claim(Op),
    /// Prepares an operation and claims it in the same commit.
    Prepare(Op, Act),
    /// Looks a last time whether it may still send, and does.
    Send(u64),
    /// The answer is here.
    Answer(u64, Reply),
    /// It does not wait any longer.
    GiveUp(u64),
    /// It says that it is still at it.
    Heartbeat(u64),
    /// It asks the destination.
    Look(u64),
    /// It says what it found.
    Report(u64, Told),
}

/// A claim that a worker holds, or believes that it does.
pub(super) struct Holding {
    op: Op,
    worker: usize,
    number: u32,
    fence: FencingToken,
    mode: Mode,
    key: Option<String>,
    body: String,
    vendor: u8,
    lease: i64,
    /// On the monotonic clock.
    deadline: i64,
    send_before: Timestamp,
    lost: bool,
    told: bool,
}

impl Episode {
    /// Lets a worker do something after so long.
    pub(super) fn let_worker(&mut self, worker: usize, after: i64, step: Step) {
        let incarnation = self.workers[worker].incarnation;
        self.agenda.at(self.now + after, Event::Worker(worker, incarnation, step));
    }

    /// Offers an operation to the workers when the ledger's queue does.
    pub(super) fn plan_work(&mut self, op: Op) {
        let plan = &self.plans[self.truths[op].plan];
        if plan.wire.is_none() {
            return;
        }
        let at = self.stored(op).and_then(|row| counterfoil::queue::work_at(row, &plan.tool));
        let Some(at) = at else { return };
        let wait = (at.as_millis() - self.store_now().as_millis()).max(0);
        let poll = self.below(SECOND / 2);
        let when = (self.now + wait).max(self.truths[op].unwanted_until) + poll;
        if self.truths[op].offered.is_none_or(|known| when < known) {
            self.truths[op].offered = Some(when);
            self.agenda.at(when, Event::Offered(op));
        }
    }

    /// Whoever polls is given the operation.
    pub(super) fn offered(&mut self, op: Op) {
        if self.truths[op].offered != Some(self.now) {
            return;
        }
        self.truths[op].offered = None;
        let tries = self.truths[op].unwanted;
        self.truths[op].unwanted = (tries + 1).min(10);
        self.truths[op].unwanted_until = self.now + (SECOND << tries);
        let plan = &self.plans[self.truths[op].plan];
        let at = self.stored(op).and_then(|row| counterfoil::queue::work_at(row, &plan.tool));
        let Some(at) = at else { return };
        if at <= self.store_now() {
            for _ in 0..=usize::from(self.seed.chance(100)) {
                if let Some(worker) = self.some_worker() {
                    self.let_worker(worker, 1, Step::Claim(op));
                }
            }
        }
        self.plan_work(op);
    }

    /// A worker that is up.
    pub(super) fn some_worker(&mut self) -> Option<usize> {
        let now = self.now;
        let up = |worker: &Worker| worker.alive && worker.frozen_until <= now;
        let up: Vec<usize> = (0..self.workers.len()).filter(|number| up(&self.workers[*number])).collect();
        self.seed.pick(&up).copied()
    }

    /// A step of a worker, which may die before or after it, or stand still before it: now and then for longer than any
    /// lease.
    pub(super) fn worker(&mut self, worker: usize, incarnation: u32, step: Step) {
        let state = &self.workers[worker];
        if !state.alive || state.incarnation != incarnation {
            return;
        }
        if state.frozen_until > self.now {
            let until = state.frozen_until;
            return self.agenda.at(until, Event::Worker(worker, incarnation, step));
        }
        if self.seed.chance(self.crashes) {
            return self.worker_dies(worker);
        }
        if self.seed.chance(self.freezes) {
            let nap = self.below(if self.freezes > 3 { 20 * SECOND } else { 600 * SECOND });
            self.figures.freezes += 1;
            self.note(None, |_| format!("worker {worker} stands still for {nap} ms"));
            self.workers[worker].frozen_until = self.now + nap;
            return self.agenda.at(self.now + nap, Event::Worker(worker, incarnation, step));
        }
        self.step(worker, step);
        if self.seed.chance(self.crashes) {
            self.worker_dies(worker);
        }
    }

    fn worker_dies(&mut self, worker: usize) {
        self.note(None, |_| format!("worker {worker} dies"));
        self.figures.crashes += 1;
        self.workers[worker].alive = false;
        self.holdings.retain(|_, holding| holding.worker != worker);
        let after = 100 + self.below(30 * SECOND);
        self.agenda.at(self.now + after, Event::WorkerStarts(worker));
    }

    /// A worker starts again, and knows nothing of what it held.
    pub(super) fn worker_starts(&mut self, worker: usize) {
        self.workers[worker].incarnation += 1;
        self.workers[worker].alive = true;
    }

    fn step(&mut self, worker: usize, step: Step) {
        let Some(node) = self.some_node() else {
            // Nobody answers: it asks again, for as long as it takes.
            return self.let_worker(worker, SECOND / 2, step);
        };
        match step {
            Step::Claim(op) => self.claim(node, worker, op),
            Step::Prepare(op, act) => self.prepare_claimed(node, worker, op, act),
            Step::Send(task) => self.send(node, worker, task),
            Step::Answer(task, reply) => self.worker_answered(worker, task, &reply),
            Step::GiveUp(task) => {
                let finding = Finding::unknown(Marker::BytesWritten, "no answer");
                self.tells(worker, task, Told::Sent(finding));
            }
            Step::Heartbeat(task) => self.heartbeat(node, worker, task),
            Step::Look(task) => self.look(worker, task),
            Step::Report(task, told) => self.outcome(node, worker, task, told),
        }
    }

    fn lease(&mut self) -> i64 {
        self.seed.pick(&[5, 30, 120]).copied().unwrap_or(30) * SECOND
    }

    fn claim(&mut self, node: usize, worker: usize, op: Op) {
        let (since, lease) = (self.monotonic(), self.lease());
        let Some(attempts) = self.stored(op).map(|row| row.attempts.len()) else { return };
        let Ok(view) = self.world.view(&account(), &self.truths[op].id) else { return };
        let declared = view.tool.worker().cloned().unwrap_or_default();
        let waited = match view.tool.recovery.miss_can_count() && attempts > 0 {
            true => self.nodes[node].waited(op, attempts, since),
            false => Duration::ZERO,
        };
        let verb = TakeClaim {
            caller: self.workers[worker].caller(),
            id: self.truths[op].id.clone(),
            worker: self.workers[worker].name(),
            lease: Duration::from_millis(lease.unsigned_abs()),
            claim_id: Some(format!("call-{}", self.seed.next_u64())),
            stated: Stated::default(),
            scope: declared.scope,
            bucket: declared.destination,
            seen: (attempts, waited),
            random: self.seed.next_u64(),
            declared: self.world.declared(),
        };
        let mut done = self.run(node, op, &verb);
        if self.seed.chance(30) {
            // The answer was lost: the same call again gets the same claim.
            done = self.run(node, op, &verb);
        }
        self.note(Some(op), |_| match &done {
            Ok(Claimed::Granted(granted)) => {
                let (mode, fence) = (granted.mode.label(), granted.claim.fence);
                format!("worker {worker} may {mode} attempt {} under {fence:?}", granted.attempt)
            }
            Ok(Claimed::Refused(refusal)) | Err(refusal) => {
                format!("worker {worker} gets nothing: {}", refusal.code())
            }
            Ok(Claimed::Rebuild) => format!("worker {worker} asks again"),
        });
        if let Ok(Claimed::Granted(granted)) = done {
            self.holds(node, worker, op, &granted, since);
        }
    }

    fn prepare_claimed(&mut self, node: usize, worker: usize, op: Op, act: Act) {
        let (since, lease) = (self.monotonic(), self.lease());
        let tool = self.plans[self.truths[op].plan].tool.name.clone();
        let declared = self.world.declared();
        let (version, declaration) =
            declared.get(&tool).map(|(version, tool)| (version, tool.worker().cloned())).unwrap_or_default();
        let declaration = declaration.unwrap_or_default();
        let plain = self.prepare_verb(op, act, None);
        let offer = Offer {
            worker: self.workers[worker].name(),
            policy_version: version,
            request_digest: Prepare::fingerprint(&declared, &tool, &plain.arguments).to_string(),
            scope: declaration.scope,
            bucket: declaration.destination,
            lease: Some(Duration::from_millis(lease.unsigned_abs())),
            claim: Some(ByWorker {
                claim_id: None,
                held_by: self.workers[worker].caller().principal,
                stated: Stated::default(),
            }),
        };
        let caller = self.workers[worker].caller();
        let verb = Prepare { caller, execute: true, offer: Some(offer), ..plain };
        let done = self.run(node, op, &verb);
        self.note(Some(op), |_| match &done {
            Ok(reply) => {
                format!("{act:?} by worker {worker}: {} {:?}", reply.view.operation.state, reply.begun)
            }
            Err(refusal) => format!("{act:?} by worker {worker}: {}", refusal.code()),
        });
        self.judge_prepare(op, act, &done);
        if let Ok(reply) = done
            && let Begun::Started(_) = reply.begun
            && let Ok(granted) = Granted::now(reply.view)
        {
            self.holds(node, worker, op, &granted, since);
        }
    }

    fn holds(&mut self, node: usize, worker: usize, op: Op, granted: &Granted, since: i64) {
        let operation = &granted.view.operation;
        let Some(attempt) = operation.attempts.iter().find(|attempt| attempt.number == granted.attempt)
        else {
            return;
        };
        self.figures.claims += 1;
        if granted.view.tool.recovery.miss_can_count() {
            let monotonic = self.monotonic();
            self.nodes[node].waited(op, operation.attempts.len(), monotonic);
        }
        self.tasks += 1;
        let task = self.tasks;
        let holding = Holding {
            op,
            worker,
            number: granted.attempt,
            fence: granted.claim.fence,
            mode: granted.mode,
            key: attempt.key.clone(),
            body: operation.arguments.as_str().to_owned(),
            vendor: self.plans[self.truths[op].plan].vendor,
            lease: i64::try_from(granted.claim.lease_ms.unwrap_or_default()).unwrap_or(0),
            deadline: since + millis(first_byte_within(operation, attempt)),
            send_before: attempt.send_before,
            lost: false,
            told: false,
        };
        let (number, third) = (holding.number, holding.lease / 3);
        self.holdings.insert(task, holding);
        let slow = self.seed.chance(100);
        let after = if slow { self.below(40 * SECOND) } else { 1 + self.below(80) };
        self.let_worker(worker, third.max(1), Step::Heartbeat(task));
        match granted.mode {
            Mode::Send => {
                self.figures.attempts += 1;
                self.judge_start(op, number);
                self.let_worker(worker, after, Step::Send(task));
            }
            Mode::Investigate => self.let_worker(worker, after, Step::Look(task)),
        }
        if self.seed.chance(30) {
            self.stranger(node, op, task);
        }
    }

    /// The last look is right before the first byte; whatever stands still after it delays the request, which the
    /// destination refuses once it is too old.
    fn send(&mut self, node: usize, worker: usize, task: u64) {
        let Some(holding) = self.holdings.get(&task).filter(|holding| !holding.told) else { return };
        let look = LastLook {
            stopping: holding.lost,
            monotonic: Duration::from_millis(self.monotonic().max(0).unsigned_abs()),
            deadline: Duration::from_millis(holding.deadline.max(0).unsigned_abs()),
            now: self.store_now(),
            send_before: holding.send_before,
            paused: false,
            failed: false,
        };
        if let Err(why) = look.may_write() {
            let told = Told::Sent(Finding::not_sent(Marker::NotConnected, why));
            return self.tells(worker, task, told);
        }
        let (op, number, send_before) = (holding.op, holding.number, holding.send_before);
        let packet = Packet {
            op,
            number,
            sender: Some((worker, self.workers[worker].incarnation, task)),
            key: holding.key.clone(),
            vendor: holding.vendor,
            body: holding.body.clone(),
            written: self.now,
            copied: false,
        };
        self.figures.requests += 1;
        self.judge_write(op, number, node, &packet, send_before);
        let timeout = self.plans[self.truths[op].plan].wire.as_ref().and_then(|wire| wire.http());
        let timeout = timeout.map_or(0, |http| millis(http.timeout));
        if self.seed.chance(self.freezes) {
            let nap = self.below(600 * SECOND);
            self.note(None, |_| format!("worker {worker} stands still for {nap} ms with a request in hand"));
            self.workers[worker].frozen_until = self.now + nap;
            self.agenda.at(self.now + nap, Event::Arrives(Box::new(packet)));
        } else {
            self.transmit(packet);
        }
        self.let_worker(worker, timeout, Step::GiveUp(task));
    }

    fn worker_answered(&mut self, worker: usize, task: u64, reply: &Reply) {
        let Some(holding) = self.holdings.get(&task) else { return };
        let (op, number, key, vendor) = (holding.op, holding.number, holding.key.clone(), holding.vendor);
        let Some(wire) = self.plans[self.truths[op].plan].wire.clone() else { return };
        let finding = match reply {
            Reply::Answer(answer) => classify(&wire, answer, number == 1, key.is_some()),
            Reply::Reset | Reply::Silence => {
                Finding::unknown(Marker::BytesWritten, "connection closed before an answer")
            }
        };
        // Some look around before they report, which proves only what they find.
        let told = match (finding.meaning, wire.recovery.lookup(), key) {
            (Meaning::Unknown, Some(_), Some(key)) if self.seed.chance(200) => {
                let site = &self.plans[self.truths[op].plan].site;
                found(site.asked(vendor, &key, self.now, &mut self.seed))
            }
            _ => Told::Sent(finding),
        };
        self.tells(worker, task, told);
    }

    fn tells(&mut self, worker: usize, task: u64, told: Told) {
        let Some(holding) = self.holdings.get_mut(&task).filter(|holding| !holding.told) else { return };
        holding.told = true;
        let after = 1 + self.below(10);
        self.let_worker(worker, after, Step::Report(task, told));
    }

    fn heartbeat(&mut self, node: usize, worker: usize, task: u64) {
        let Some(holding) = self.holdings.get(&task).filter(|holding| !holding.told) else { return };
        let (op, third) = (holding.op, holding.lease / 3);
        let verb = Heartbeat {
            caller: self.workers[worker].caller(),
            id: self.truths[op].id.clone(),
            attempt: holding.number,
            fence: holding.fence,
            declared: self.world.declared(),
        };
        let done = self.run(node, op, &verb);
        match (done, self.holdings.get_mut(&task)) {
            (Ok(_), _) => self.let_worker(worker, third.max(1), Step::Heartbeat(task)),
            (Err(_), Some(holding)) => holding.lost = true,
            (Err(_), None) => {}
        }
    }

    /// Reads the destination's records now, and reports a little later.
    fn look(&mut self, worker: usize, task: u64) {
        let Some(holding) = self.holdings.get(&task) else { return };
        let (op, vendor, key) = (holding.op, holding.vendor, holding.key.clone().unwrap_or_default());
        self.figures.look_ups += 1;
        let site = &self.plans[self.truths[op].plan].site;
        let told = found(site.asked(vendor, &key, self.now, &mut self.seed));
        let slow = self.seed.chance(150);
        let after = if slow { self.below(300 * SECOND) } else { 1 + self.below(80) };
        self.let_worker(worker, after, Step::Report(task, told));
    }

    fn outcome(&mut self, node: usize, worker: usize, task: u64, told: Told) {
        if self.seed.chance(30) {
            return self.let_worker(worker, 50, Step::Report(task, told));
        }
        let Some(holding) = self.holdings.remove(&task) else { return };
        let caller = self.workers[worker].caller();
        let verb = self.report_of(caller, &holding, told);
        let (op, before) = (holding.op, self.stored(holding.op).cloned());
        let done = self.run(node, op, &verb);
        self.note(Some(op), |_| match &done {
            Ok(reply) => format!(
                "worker {worker} says of attempt {} under {:?}: {:?} -> {}",
                verb.attempt, verb.fence, verb.told, reply.view.operation.state
            ),
            Err(refusal) => format!("worker {worker} is not heard: {}", refusal.code()),
        });
        match (&verb.told, holding.mode) {
            (Told::Sent(finding), Mode::Send) => {
                self.judge_report(op, before.as_ref(), finding, verb.attempt);
            }
            (Told::Sent(_) | Told::Found { .. } | Told::Absent, Mode::Send | Mode::Investigate) => {
                self.judge_look(op, before.as_ref(), &verb.told, holding.mode, verb.fence);
            }
        }
        if self.seed.chance(50) {
            // It did not hear that it was heard.
            let _again = self.run(node, op, &verb);
        }
    }

    fn report_of(&mut self, caller: Caller, holding: &Holding, told: Told) -> Outcome {
        Outcome {
            caller,
            id: self.truths[holding.op].id.clone(),
            attempt: holding.number,
            fence: holding.fence,
            told,
            random: self.seed.next_u64(),
            declared: self.world.declared(),
        }
    }

    /// Somebody with another token guesses a fencing token, and says that nothing happened.
    fn stranger(&mut self, node: usize, op: Op, task: u64) {
        let told = match self.seed.below(2) {
            0 => Told::Sent(Finding::not_sent(Marker::NotConnected, "never sent")),
            _ => Told::Absent,
        };
        let Some(holding) = self.holdings.remove(&task) else { return };
        let before = self.stored(op).cloned();
        let verb = self.report_of(with_token("mallory"), &holding, told);
        self.holdings.insert(task, holding);
        let done = self.run(node, op, &verb);
        self.figures.strangers += 1;
        self.note(Some(op), |_| format!("a stranger says {:?}: {}", verb.told, done.is_ok()));
        let moved = before.is_some_and(|before| {
            self.stored(op)
                .is_some_and(|after| after.state != before.state || after.unsettled() != before.unsettled())
        });
        if moved {
            self.fail(op, "the word of somebody who holds no claim moved it");
        }
    }
}

/// A look-up's answer as a worker reports it.
fn found((answer, reference): (LookUpAnswer, Option<String>)) -> Told {
    match answer {
        LookUpAnswer::Found => Told::Found { reference, result: None, count: 1 },
        LookUpAnswer::Several => Told::Found { reference: None, result: None, count: 2 },
        LookUpAnswer::Absent => Told::Absent,
        LookUpAnswer::Differs | LookUpAnswer::Failed | LookUpAnswer::Unclear => {
            Told::Sent(Finding::unknown(Marker::BytesWritten, "the worker could not tell"))
        }
    }
}
