//! A node that carries operations out: the steps of the executor, one after the other, with every place in between at
//! which it can die or stand still.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use counterfoil::caller::Caller;
use counterfoil::destination::{Finding, LastLook, LookedUp, first_byte_within};
use counterfoil::http::classify::classify;
use counterfoil::id::{FencingToken, WorkerName};
use counterfoil::keys;
use counterfoil::operation::{LookUpAnswer, Marker, Operation};
use counterfoil::policy::Tool;
use counterfoil::safeguard::Safeguard;
use counterfoil::snapshot::{Needs, Verb, View};
use counterfoil::state::State;
use counterfoil::time::Timestamp;
use counterfoil::verbs::{
    Begun, Investigate, Investigated, LookUpReport, Offer, Prepare, Question, Renew, Report, Start, Tick,
};

use super::agenda::{Act, Asking, Event, Instant, Made, Op, Work};
use super::episode::{Episode, account, app};
use super::site::{Class, Packet, Reply};

/// Within what time a pause is seen.
const POLL: i64 = 100;

/// A process.
pub(super) struct Node {
    number: usize,
    /// Grows with each start.
    pub(super) incarnation: u32,
    pub(super) alive: bool,
    pub(super) frozen_until: Instant,
    /// Store time and monotonic time when it opened the ledger.
    pub(super) opened: (i64, i64),
    /// The last attempt that it saw of an operation, and since when.
    seen: HashMap<Op, (usize, i64)>,
}

impl Node {
    /// A node that has just started.
    pub(super) fn new(number: usize, monotonic: i64) -> Self {
        Self {
            number,
            incarnation: 0,
            alive: true,
            frozen_until: 0,
            opened: (super::site::store_time(0, 0).as_millis(), monotonic),
            seen: HashMap::new(),
        }
    }

    /// Whether it works.
    pub(super) fn is_up(&self, now: Instant) -> bool {
        self.alive && self.frozen_until <= now
    }

    fn worker(&self) -> WorkerName {
        WorkerName::parse(&format!("node-{}-{}", self.number, self.incarnation)).unwrap()
    }

    pub(super) fn waited(&mut self, op: Op, attempts: usize, monotonic: i64) -> Duration {
        let since =
            self.seen.get(&op).filter(|(known, _)| *known == attempts).map_or(monotonic, |seen| seen.1);
        self.seen.insert(op, (attempts, since));
        Duration::from_millis(u64::try_from(monotonic - since).unwrap_or(0))
    }
}

/// An attempt on its way.
pub(super) struct Sending {
    op: Op,
    node: usize,
    tool: Arc<Tool>,
    number: u32,
    fence: FencingToken,
    scope: Option<String>,
    /// On the monotonic clock.
    deadline: i64,
    send_before: Timestamp,
    made: Made,
    phase: Phase,
}

/// How far a sender got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not written.
    Connecting,
    /// It waits for the answer.
    Waiting,
    /// Callers were told that there is none.
    Late,
    /// It knows.
    Done,
}

impl Episode {
    /// A step of a node, which may die before it, after it, or stand still before it.
    pub(super) fn node(&mut self, node: usize, incarnation: u32, work: Work) {
        let state = &self.nodes[node];
        if !state.alive || state.incarnation != incarnation {
            return;
        }
        if state.frozen_until > self.now {
            let until = state.frozen_until;
            return self.agenda.at(until, Event::Node(node, incarnation, work));
        }
        if self.seed.chance(self.crashes) {
            return self.crash(node);
        }
        if self.seed.chance(self.freezes) {
            let long = self.seed.chance(300);
            let nap = self.below(if long { 10 * 60_000 } else { 20_000 });
            self.figures.freezes += 1;
            self.note(None, |_| format!("node {node} stands still for {nap} ms"));
            self.nodes[node].frozen_until = self.now + nap;
            self.last_down = self.last_down.max(self.now + nap);
            return self.agenda.at(self.now + nap, Event::Node(node, incarnation, work));
        }
        self.work(node, work);
        if self.seed.chance(self.crashes) {
            self.crash(node);
        }
    }

    /// A node dies.
    pub(super) fn crash(&mut self, node: usize) {
        self.note(None, |_| format!("node {node} dies"));
        self.figures.crashes += 1;
        self.nodes[node].alive = false;
        self.sendings.retain(|_, sending| sending.node != node);
        let after = 100 + self.below(30_000);
        self.agenda.at(self.now + after, Event::Restart(node));
        self.last_down = self.last_down.max(self.now + after);
    }

    /// A node starts again: with a new name, and clocks that it has just read.
    pub(super) fn restart(&mut self, node: usize) {
        if self.clock_wrong_until > self.now {
            // A clock that is wrong is wrong while no process starts: one that starts takes it for right.
            let at = self.clock_wrong_until;
            self.last_down = self.last_down.max(at);
            return self.agenda.at(at, Event::Restart(node));
        }
        let opened = (self.store_now().as_millis(), self.monotonic());
        let state = &mut self.nodes[node];
        state.incarnation += 1;
        state.alive = true;
        state.opened = opened;
        state.seen.clear();
        self.note(None, |_| format!("node {node} starts again"));
    }

    fn work(&mut self, node: usize, work: Work) {
        match work {
            Work::Prepare(op, act, made, since) => self.prepare(node, op, act, made, since),
            Work::Carry(op) => self.carry(node, op),
            Work::Investigate(op, startable) => self.investigate(node, op, startable),
            Work::Start(op, caller, tries) => self.start(node, op, caller, tries),
            Work::Begin(op, caller, tries, made, since) => self.begin(node, op, caller, tries, made, since),
            Work::Connect(task) => self.connect(node, task),
            Work::Connected(task, stands) => self.connected(node, task, stands),
            Work::Timeout(task) => self.timeout(node, task),
            Work::LingerEnd(task) => self.linger_end(node, task),
            Work::Renew(task) => self.renew(node, task),
            Work::Answer(task, reply) => self.answer(node, task, &reply),
            Work::Report(task, finding, tries) => self.report(node, task, *finding, tries),
            Work::Ask(op, question) => self.ask(node, op, *question),
            Work::Answered(asking, looked) => {
                let soon = self.below(10);
                self.hand(node, soon, Work::Keep(asking, looked, 0));
            }
            Work::Keep(asking, looked, tries) => self.keep(node, asking, looked, tries),
            Work::RecordLate(op, verb) => {
                let _recorded = self.run(node, op, &*verb);
            }
        }
    }

    fn make(&self, op: Op, tool: &Tool, version: u32, generation: u32) -> Made {
        let truth = &self.truths[op];
        let key = tool
            .recovery
            .key_format()
            .map(|(format, _)| keys::derive(account().as_str(), truth.id.as_str(), generation, format));
        let body = self.stored(op).map_or_else(|| truth.arguments.clone(), |row| row.arguments.clone());
        let url = tool.http().map(|http| http.url.clone()).unwrap_or_default();
        Made {
            version,
            digest: format!("sha256:{url}:{key:?}:{}", body.as_str()),
            key,
            scope: tool.scope().map(str::to_owned),
            vendor: self.plans[truth.plan].vendor,
            body: body.as_str().to_owned(),
        }
    }

    fn offer(&self, node: usize, op: Op, made: &Made) -> Offer {
        let bucket = self.plans[self.truths[op].plan].tool.http().and_then(|http| http.destination.clone());
        Offer {
            worker: self.nodes[node].worker(),
            policy_version: made.version,
            request_digest: made.digest.clone(),
            scope: made.scope.clone(),
            bucket,
            lease: None,
            claim: None,
        }
    }

    /// A caller's prepare as the verb that is committed.
    pub(super) fn prepare_verb(&mut self, op: Op, act: Act, offer: Option<Offer>) -> Prepare {
        let truth = &self.truths[op];
        let arguments = if act == Act::Conflict { truth.other.clone() } else { truth.arguments.clone() };
        let tool = self.plans[truth.plan].tool.name.clone();
        Prepare {
            caller: app(),
            id: truth.id.clone(),
            tool,
            arguments,
            fingerprint: std::sync::OnceLock::new(),
            task: truth.task.clone(),
            subject: truth.subject.clone(),
            replaces: truth.replaces.map(|former| self.truths[former].id.clone()),
            distinct_from: truth.distinct_from.clone(),
            accepted_by: None,
            execute: truth.execute,
            offer,
            dry_run: false,
            random: self.seed.next_u64(),
            declared: self.world.declared(),
        }
    }

    /// The request of an operation that is not stored yet.
    pub(super) fn made_new(&self, op: Op) -> Option<Made> {
        let name = self.tool_name(op);
        let declared = self.world.declared();
        let (version, tool) = declared.get(&name)?;
        (self.stored(op).is_none() && tool.http().is_some()).then(|| self.make(op, tool, version, 1))
    }

    fn prepare(&mut self, node: usize, op: Op, act: Act, made: Option<Made>, since: i64) {
        let sent_with = made.filter(|_| self.truths[op].execute && Safeguard::RecordBeforeSend.stands());
        let offer = sent_with.as_ref().map(|made| self.offer(node, op, made));
        let verb = self.prepare_verb(op, act, offer);
        let done = self.run(node, op, &verb);
        self.note(Some(op), |_| match &done {
            Ok(reply) => format!("{act:?}: {} {:?}", reply.view.operation.state, reply.begun),
            Err(refusal) => format!("{act:?}: {}", refusal.code()),
        });
        self.judge_prepare(op, act, &done);
        if let (Ok(reply), Some(made)) = (done, sent_with)
            && let Begun::Started(number) = reply.begun
        {
            self.launch(node, op, number, made, since, &reply.view);
        }
    }

    /// As the executor carries on: time first, then a look-up, then a start.
    fn carry(&mut self, node: usize, op: Op) {
        let verb = Tick {
            account: account(),
            id: self.truths[op].id.clone(),
            random: self.seed.next_u64(),
            declared: self.world.declared(),
        };
        let done = self.run(node, op, &verb);
        self.note(Some(op), |_| match &done {
            Ok(passed) => format!(
                "carried on by node {node}: {:?} {:?}",
                passed.view.operation.state.label(),
                passed.view.next
            ),
            Err(refusal) => format!("not carried on: {}", refusal.code()),
        });
        let Ok(passed) = done else { return };
        let view = passed.view;
        let operation = &view.operation;
        let http = view.tool.http().is_some();
        let goes_on = match view.next.action {
            counterfoil::decide::Action::Retry | counterfoil::decide::Action::Reconcile => true,
            counterfoil::decide::Action::Approve
            | counterfoil::decide::Action::Execute
            | counterfoil::decide::Action::WaitForOperation
            | counterfoil::decide::Action::Wait
            | counterfoil::decide::Action::Review
            | counterfoil::decide::Action::Correct
            | counterfoil::decide::Action::Report
            | counterfoil::decide::Action::None => false,
        };
        let startable = operation.wish && !operation.state.is_final() && http && goes_on;
        let askable =
            matches!(operation.state, State::Unknown(_)) && view.tool.recovery.lookup().is_some() && http;
        let soon = 1 + self.below(15);
        if askable {
            let (attempts, monotonic) = (operation.attempts.len(), self.monotonic());
            self.nodes[node].waited(op, attempts, monotonic);
            self.hand(node, soon, Work::Investigate(op, startable));
        } else if startable {
            self.hand(node, soon, Work::Start(op, None, 0));
        }
    }

    fn investigate(&mut self, node: usize, op: Op, startable: bool) {
        let verb = Investigate {
            account: account(),
            id: self.truths[op].id.clone(),
            worker: self.nodes[node].worker(),
            random: self.seed.next_u64(),
            declared: self.world.declared(),
        };
        let soon = 1 + self.below(15);
        match self.run(node, op, &verb) {
            Ok(Investigated::Ask(question)) => {
                // Operators change things just when a miss would count.
                let hurts = self.stored(op).is_some_and(|row| {
                    let bound = question.tool.recovery.absence_final_at(&row.attempts);
                    question.tool.recovery.miss_can_count() && bound.is_some_and(|at| self.store_now() > at)
                });
                if hurts && self.seed.chance(60) {
                    self.agenda.at(self.now, Event::Moves(self.truths[op].plan));
                }
                self.hand(node, soon, Work::Ask(op, question));
            }
            Ok(Investigated::Nothing) if startable => self.hand(node, soon, Work::Start(op, None, 0)),
            Ok(Investigated::Nothing | Investigated::Wait) | Err(_) => {}
        }
    }

    fn start(&mut self, node: usize, op: Op, caller: Option<Caller>, tries: u8) {
        self.world.set_time(self.store_now());
        let id = self.truths[op].id.clone();
        let snapshot = self.world.snapshot(&Needs::of(&account(), &id), self.world.declared());
        let Ok(operation) = snapshot.operation() else { return };
        if operation.state.is_final() {
            return;
        }
        let Some(tool) = snapshot.stored.as_deref().filter(|tool| tool.http().is_some()) else { return };
        let made = self.make(op, tool, operation.policy_version, operation.key_generation);
        let (since, soon) = (self.monotonic(), 1 + self.below(15));
        self.hand(node, soon, Work::Begin(op, caller, tries, made, since));
    }

    fn begin(&mut self, node: usize, op: Op, caller: Option<Caller>, tries: u8, made: Made, since: i64) {
        let verb = Start {
            caller: caller.clone(),
            account: account(),
            id: self.truths[op].id.clone(),
            offer: Some(self.offer(node, op, &made)),
            random: self.seed.next_u64(),
            declared: self.world.declared(),
        };
        if !Safeguard::RecordBeforeSend.stands() {
            return self.send_unrecorded(node, op, verb, made, since);
        }
        let done = self.run(node, op, &verb);
        self.note(Some(op), |_| match &done {
            Ok(reply) => format!("start on node {node}: {} {:?}", reply.view.operation.state, reply.begun),
            Err(refusal) => format!("start on node {node}: {}", refusal.code()),
        });
        let Ok(reply) = done else { return };
        match reply.begun {
            Begun::Started(number) => self.launch(node, op, number, made, since, &reply.view),
            Begun::Rebuild if tries < 3 => self.hand(node, 1, Work::Start(op, caller, tries + 1)),
            Begun::Rebuild | Begun::NotNow | Begun::Blocked(_) => {}
        }
    }

    /// Without the first of all guards: sent at once, recorded a little later, if the node lives.
    fn send_unrecorded(&mut self, node: usize, op: Op, verb: Start, made: Made, since: i64) {
        self.world.set_time(self.store_now());
        let decided = verb.decide(&self.world.snapshot(&verb.needs(), verb.declared()));
        if let Ok(decided) = decided
            && let Begun::Started(number) = decided.reply.begun
        {
            self.launch(node, op, number, made, since, &decided.reply.view);
        }
        self.hand(node, 5, Work::RecordLate(op, Box::new(verb)));
    }

    fn launch(&mut self, node: usize, op: Op, number: u32, made: Made, since: i64, view: &View) {
        let operation = &view.operation;
        let Some(attempt) = operation.attempts.iter().find(|attempt| attempt.number == number) else {
            return;
        };
        self.figures.attempts += 1;
        self.judge_start(op, number);
        if self.seed.chance(4) {
            let (soon, length) = (self.below(500), self.below(30_000));
            self.agenda.at(self.now + soon, Event::Pause(self.truths[op].plan, length));
        }
        if view.tool.recovery.miss_can_count() {
            let monotonic = self.monotonic();
            self.nodes[node].waited(op, operation.attempts.len(), monotonic);
        }
        let within = i64::try_from(first_byte_within(operation, attempt).as_millis()).unwrap_or(0);
        self.tasks += 1;
        let sending = Sending {
            op,
            node,
            tool: view.tool.clone(),
            number,
            fence: attempt.fence,
            scope: attempt.scope.clone(),
            deadline: since + within,
            send_before: attempt.send_before,
            made,
            phase: Phase::Connecting,
        };
        self.sendings.insert(self.tasks, sending);
        let (task, soon) = (self.tasks, 1 + self.below(15));
        self.hand(node, soon, Work::Connect(task));
    }

    fn connect(&mut self, node: usize, task: u64) {
        let Some(sending) = self.sendings.get(&task) else { return };
        let site = &self.plans[self.truths[sending.op].plan].site;
        let (faults, renewal) = (site.faults, millis(sending.tool.lease) / 3);
        let stands = !self.seed.chance(faults / 8);
        let slow = self.seed.chance(40);
        let after = if slow { self.below(40_000) } else { 1 + self.below(60) };
        self.hand(node, after, Work::Connected(task, stands));
        self.hand(node, renewal, Work::Renew(task));
    }

    fn connected(&mut self, node: usize, task: u64, stands: bool) {
        let Some(sending) = self.sendings.get(&task) else { return };
        if !stands {
            let finding = Finding::not_sent(Marker::NotConnected, "connection refused");
            return self.knows(node, task, finding);
        }
        let (op, deadline, send_before) = (sending.op, sending.deadline, sending.send_before);
        let look = LastLook {
            stopping: false,
            monotonic: Duration::from_millis(u64::try_from(self.monotonic().max(0)).unwrap_or(0)),
            deadline: Duration::from_millis(u64::try_from(deadline.max(0)).unwrap_or(0)),
            now: self.store_now(),
            send_before,
            paused: self.sees_pause(node, op),
            failed: false,
        };
        match look.may_write() {
            Err(why) => self.knows(node, task, Finding::stopped(Marker::Connected, why)),
            Ok(()) => self.write(node, task),
        }
    }

    /// Whether the node has read a pause by now.
    fn sees_pause(&self, node: usize, op: Op) -> bool {
        let read_at = self.now - POLL;
        let since = self.plans[self.truths[op].plan].paused_since;
        since.is_some_and(|since| since <= read_at && self.nodes[node].frozen_until <= read_at)
    }

    fn write(&mut self, node: usize, task: u64) {
        let incarnation = self.nodes[node].incarnation;
        let Some(sending) = self.sendings.get_mut(&task) else { return };
        sending.phase = Phase::Waiting;
        let (op, number, tool) = (sending.op, sending.number, sending.tool.clone());
        let packet = Packet {
            op,
            number,
            sender: Some((node, incarnation, task)),
            key: sending.made.key.clone(),
            vendor: sending.made.vendor,
            body: sending.made.body.clone(),
            written: self.now,
            copied: false,
        };
        let send_before = sending.send_before;
        self.figures.requests += 1;
        self.judge_write(op, number, node, &packet, send_before);
        self.transmit(packet);
        let timeout = tool.http().map_or(0, |http| millis(http.timeout));
        self.hand(node, timeout, Work::Timeout(task));
    }

    fn answer(&mut self, node: usize, task: u64, reply: &Reply) {
        let Some(sending) = self.sendings.get(&task) else { return };
        let finding = match reply {
            Reply::Answer(answer) => {
                classify(&sending.tool, answer, sending.number == 1, sending.made.key.is_some())
            }
            Reply::Reset | Reply::Silence => {
                Finding::unknown(Marker::BytesWritten, "connection closed before an answer")
            }
        };
        self.knows(node, task, finding);
    }

    fn knows(&mut self, node: usize, task: u64, finding: Finding) {
        let Some(sending) = self.sendings.get_mut(&task) else { return };
        if sending.phase == Phase::Done {
            return;
        }
        sending.phase = Phase::Done;
        let (op, number) = (sending.op, sending.number);
        self.note(Some(op), |_| format!("attempt {number} found {:?} {:?}", finding.meaning, finding.error));
        let soon = 1 + self.below(10);
        self.hand(node, soon, Work::Report(task, Box::new(finding), 0));
    }

    fn timeout(&mut self, node: usize, task: u64) {
        let linger = match self.sendings.get_mut(&task) {
            Some(sending) if sending.phase == Phase::Waiting => {
                sending.phase = Phase::Late;
                sending.tool.http().map_or(0, |http| millis(http.linger))
            }
            Some(_) | None => return,
        };
        let until = self.store_now().plus(Duration::from_millis(u64::try_from(linger).unwrap_or(0)));
        let finding = Finding {
            lingers_until: Some(until),
            ..Finding::unknown(Marker::BytesWritten, "no answer within the tool's timeout")
        };
        self.record(node, task, finding);
        self.hand(node, linger, Work::LingerEnd(task));
    }

    fn linger_end(&mut self, node: usize, task: u64) {
        self.knows(node, task, Finding::unknown(Marker::BytesWritten, "no answer"));
    }

    fn renew(&mut self, node: usize, task: u64) {
        let Some(sending) = self.sendings.get(&task) else { return };
        if sending.phase != Phase::Waiting && sending.phase != Phase::Connecting {
            return;
        }
        let (op, renewal) = (sending.op, millis(sending.tool.lease) / 3);
        let verb = Renew {
            account: account(),
            id: self.truths[op].id.clone(),
            fence: sending.fence,
            worker: self.nodes[node].worker(),
            declared: self.world.declared(),
        };
        let _renewed = self.run(node, op, &verb);
        self.hand(node, renewal, Work::Renew(task));
    }

    fn report(&mut self, node: usize, task: u64, finding: Finding, tries: u32) {
        // The store is busy or full: asked again until it takes it.
        if self.seed.chance(if tries < 8 { 30 } else { 0 }) {
            let wait = (10 << tries).min(1_000);
            return self.hand(node, wait, Work::Report(task, Box::new(finding), tries + 1));
        }
        self.record(node, task, finding);
        self.sendings.remove(&task);
    }

    fn record(&mut self, node: usize, task: u64, finding: Finding) {
        let Some(sending) = self.sendings.get(&task) else { return };
        let op = sending.op;
        let before = self.stored(op).cloned();
        let verb = Report {
            account: account(),
            id: self.truths[op].id.clone(),
            attempt: sending.number,
            fence: sending.fence,
            scope: sending.scope.clone(),
            worker: self.nodes[node].worker(),
            finding,
            random: self.seed.next_u64(),
            declared: self.world.declared(),
        };
        let done = self.run(node, op, &verb);
        self.note(Some(op), |_| match &done {
            Ok(reply) => format!(
                "report of attempt {}: {:?} -> {} {:?}",
                verb.attempt, verb.finding.meaning, reply.view.operation.state, reply.view.next.action
            ),
            Err(refusal) => format!("report of attempt {}: {}", verb.attempt, refusal.code()),
        });
        self.judge_report(op, before.as_ref(), &verb.finding, verb.attempt);
    }

    fn ask(&mut self, node: usize, op: Op, question: Question) {
        let (attempts, monotonic) = (question.attempts, self.monotonic());
        let waited = self.nodes[node].waited(op, attempts, monotonic);
        let plan = self.truths[op].plan;
        let asking = Asking {
            node: (node, self.nodes[node].incarnation),
            op,
            question,
            began_at: self.store_now(),
            since: self.now,
            waited,
            vendor: self.plans[plan].vendor,
        };
        let slow = self.seed.chance(100);
        let after = if slow { self.below(25_000) } else { 1 + self.below(80) };
        self.agenda.at(self.now + after, Event::Asked(Box::new(asking)));
    }

    /// A look-up reaches its destination, which reads its records now and answers a little later.
    pub(super) fn asked(&mut self, asking: Box<Asking>) {
        let site = &self.plans[self.truths[asking.op].plan].site;
        let key = asking.question.key.clone().unwrap_or_default();
        let (mut answer, mut reference) = site.asked(asking.vendor, &key, self.now, &mut self.seed);
        let slow = self.seed.chance(150);
        let mut after = if slow { self.below(25_000) } else { 1 + self.below(80) };
        let timeout = asking.question.tool.http().map_or(0, |http| millis(http.timeout));
        let left = asking.since + timeout - self.now;
        if after > left {
            (answer, reference, after) = (LookUpAnswer::Failed, None, left.max(0));
        }
        self.figures.look_ups += 1;
        let error = (answer != LookUpAnswer::Found).then(|| "not found".to_owned());
        let looked = LookedUp { answer, reference, result: None, error, scope_changed: false };
        let (node, incarnation) = asking.node;
        let work = Work::Answered(asking, Box::new(looked));
        self.agenda.at(self.now + after, Event::Node(node, incarnation, work));
    }

    fn keep(&mut self, node: usize, asking: Box<Asking>, looked: Box<LookedUp>, tries: u32) {
        if self.seed.chance(if tries < 8 { 30 } else { 0 }) {
            let wait = (10 << tries).min(1_000);
            return self.hand(node, wait, Work::Keep(asking, looked, tries + 1));
        }
        let op = asking.op;
        let verb = LookUpReport {
            account: account(),
            id: self.truths[op].id.clone(),
            fence: asking.question.fence,
            worker: self.nodes[node].worker(),
            began_at: asking.began_at,
            waited: asking.waited,
            looked: *looked,
            random: self.seed.next_u64(),
            declared: self.world.declared(),
        };
        let done = self.run(node, op, &verb);
        self.note(Some(op), |_| match &done {
            Ok(view) => format!(
                "look-up that began at {} found {:?} -> {} {:?}",
                verb.began_at, verb.looked.answer, view.operation.state, view.next.action
            ),
            Err(refusal) => format!("look-up not kept: {}", refusal.code()),
        });
    }
}

/// Milliseconds.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Whether an operation's attempts can be doubled by nobody.
pub(super) fn is_transaction(class: Class) -> bool {
    class == Class::Transaction
}

/// The attempts of an operation that count.
pub(super) fn counted(operation: &Operation) -> usize {
    operation.attempts.iter().filter(|attempt| attempt.counts).count()
}
