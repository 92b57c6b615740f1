//! One small closed world from beginning to end: some tools, some nodes, some operations, a few virtual days. Everything
//! that happens follows from the seed.

use std::collections::BTreeMap;

use counterfoil::arguments::Arguments;
use counterfoil::caller::{Caller, Roles};
use counterfoil::error::Refusal;
use counterfoil::id::{Account, OperationId, Principal, Subject, Task, ToolName};
use counterfoil::operation::Operation;
use counterfoil::snapshot::{PauseDraft, Verb};
use counterfoil::state::State;
use counterfoil::testing::World;
use counterfoil::time::Timestamp;

use super::agenda::{Act, Agenda, Event, Instant, Op, Work};
use super::figures::Figures;
use super::node::{Node, Sending};
use super::site::{Class, store_time};
use super::tools::{self, Plan, SKEW};
use super::worker::{Holding, Worker};
use crate::seed::Seed;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// How many operations live in one episode. They share tools, tasks and nodes.
pub(super) const OPERATIONS: usize = 20;
/// More events than any episode needs: one that goes beyond is stuck.
const MOST_EVENTS: u64 = 2_000_000;

/// What is true of an operation, whatever the ledger says.
pub(super) struct Truth {
    pub(super) id: OperationId,
    /// Which tool.
    pub(super) plan: usize,
    /// What is meant.
    pub(super) arguments: Arguments,
    /// What somebody else means with the same ID.
    pub(super) other: Arguments,
    pub(super) task: Option<Task>,
    pub(super) subject: Option<Subject>,
    /// The proposal that it changes.
    pub(super) replaces: Option<Op>,
    /// What is ordered.
    pub(super) sku: String,
    /// That alone made it the same action when it was prepared.
    pub(super) guarded: bool,
    /// Operations that worked, of which a person said that there shall be this one all the same.
    pub(super) acknowledged: Vec<Op>,
    /// A person let later ones pass.
    pub(super) released: bool,
    /// The events that were heard of it.
    pub(super) heard: Vec<u64>,
    /// When it is offered to the workers next.
    pub(super) offered: Option<Instant>,
    /// Not before this, unless it changes.
    pub(super) unwanted_until: Instant,
    /// How often nothing came of that.
    pub(super) unwanted: u32,
    pub(super) distinct_from: Vec<OperationId>,
    pub(super) execute: bool,
    /// The destination refuses it, however often it is asked.
    pub(super) refused: bool,
    /// What it led to.
    pub(super) effects: Vec<String>,
    /// Under which vendor account it was first recorded as sent.
    pub(super) sent_to: Option<u8>,
    /// When it is looked at next.
    pub(super) due: Option<Instant>,
    /// Not before this, unless it changes.
    pub(super) left_alone: Instant,
    /// How often looking at it changed nothing.
    pub(super) idle: u32,
    /// The version that was last judged.
    pub(super) version: u64,
    /// How it ended, once.
    pub(super) ended: Option<Ended>,
    /// Whether a person is asked.
    pub(super) in_review: bool,
    /// Whether a person ever was.
    pub(super) was_in_review: bool,
    /// Since when one is.
    pub(super) review_since: Instant,
    /// How often a person looked at it in vain.
    pub(super) looked: u32,
}

/// How an operation ended, as it was first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With this receipt.
    Succeeded(Option<String>),
    /// With this code.
    Rejected(&'static str),
}

/// The world of one episode.
pub(super) struct Episode {
    pub(super) seed: Seed,
    pub(super) world: World,
    pub(super) agenda: Agenda,
    /// True time.
    pub(super) now: Instant,
    /// How long the host slept, which its monotonic clock does not count.
    pub(super) slept: i64,
    /// How far store time is ahead of true time.
    pub(super) offset: i64,
    /// Until when the clock of the host is wrong: no process starts meanwhile.
    pub(super) clock_wrong_until: Instant,
    /// The clock was wrong when some of the attempts were recorded: people go by their own watches.
    pub(super) clock_was_wrong: bool,
    /// The newest instant in the ledger.
    pub(super) newest: Timestamp,
    pub(super) plans: Vec<Plan>,
    pub(super) nodes: Vec<Node>,
    pub(super) truths: Vec<Truth>,
    pub(super) sendings: BTreeMap<u64, Sending>,
    pub(super) workers: Vec<Worker>,
    pub(super) holdings: BTreeMap<u64, Holding>,
    pub(super) tasks: u64,
    /// How many of a thousand steps end a node, and stop one.
    pub(super) crashes: u32,
    pub(super) freezes: u32,
    /// When no node was up last.
    pub(super) last_down: Instant,
    pub(super) figures: Figures,
    pub(super) violation: Option<(Op, String)>,
    pub(super) trace: Option<Vec<String>>,
}

/// The account of everybody.
pub(super) fn account() -> Account {
    Account::parse("kitchen").unwrap()
}

fn person(name: &str, roles: Roles) -> Caller {
    Caller { account: account(), principal: Principal::parse(name).unwrap(), roles, tools: Vec::new() }
}

/// The application.
pub(super) fn app() -> Caller {
    person("app", Roles { agent: true, ..Roles::default() })
}

/// Whoever decides.
pub(super) fn ann() -> Caller {
    person("ann", Roles { approver: true, ..Roles::default() })
}

impl Episode {
    /// The world of this seed, with everything that outside people and machines will do.
    pub(super) fn new(seed: u64, trace: bool) -> Self {
        let mut seed = Seed::new(seed);
        let mut world = World::at(store_time(0, 0));
        let classes = Class::ALL;
        let plans: Vec<Plan> = (0..3)
            .map(|number| {
                let class = seed.pick(&classes).copied().unwrap_or(Class::Nothing);
                tools::plan(number, class, &mut seed)
            })
            .collect();
        for plan in &plans {
            world.declare(plan.tool.clone());
        }
        let nodes = (0..=usize::from(seed.chance(600))).map(|number| Node::new(number, 0)).collect();
        let pick = |seed: &mut Seed, of: &[u32]| seed.pick(of).copied().unwrap_or_default();
        let (crashes, freezes) = (pick(&mut seed, &[0, 4, 15]), pick(&mut seed, &[0, 3, 10]));
        let mut episode = Self {
            world,
            agenda: Agenda::default(),
            now: 0,
            slept: 0,
            offset: 0,
            clock_wrong_until: 0,
            clock_was_wrong: false,
            newest: store_time(0, 0),
            plans,
            nodes,
            truths: Vec::new(),
            sendings: BTreeMap::new(),
            workers: (0..3).map(Worker::new).collect(),
            holdings: BTreeMap::new(),
            tasks: 0,
            crashes,
            freezes,
            last_down: -HOUR,
            figures: Figures::default(),
            violation: None,
            trace: trace.then(Vec::new),
            seed,
        };
        episode.people_and_machines();
        episode
    }

    /// A number of milliseconds below `bound`.
    pub(super) fn below(&mut self, bound: i64) -> i64 {
        i64::try_from(self.seed.below(u64::try_from(bound).unwrap_or(0))).unwrap_or(0)
    }

    fn people_and_machines(&mut self) {
        while self.truths.len() < OPERATIONS {
            self.intent();
        }
        for plan in 0..self.plans.len() {
            self.trouble(plan);
        }
        for day in 1..8 {
            self.agenda.at(day * 12 * HOUR, Event::Purge);
        }
        if self.seed.chance(150) {
            let at = self.below(2 * HOUR);
            let nap = SECOND + self.below(20 * MINUTE);
            self.agenda.at(at, Event::Sleep(nap));
        }
        if self.seed.chance(150) {
            // A clock that was behind is set right, once and for all.
            let behind = [-3 * MINUTE, -HOUR, -6 * HOUR];
            self.offset = self.seed.pick(&behind).copied().unwrap_or(-HOUR);
            self.clock_was_wrong = true;
            let opened = (self.store_now().as_millis(), 0);
            for node in &mut self.nodes {
                node.opened = opened;
            }
            self.newest = self.store_now();
            let at = 10 * MINUTE + self.below(80 * MINUTE);
            return self.agenda.at(at, Event::ClockTo(0));
        }
        if self.seed.chance(300) {
            let (at, ahead) = (self.below(2 * HOUR), self.below(50 * SECOND) - 25 * SECOND);
            self.agenda.at(at, Event::ClockTo(ahead));
        }
        if self.seed.chance(200) {
            let wrong = [HOUR, -HOUR, 6 * HOUR, 3 * MINUTE, -3 * MINUTE];
            let wrong = self.seed.pick(&wrong).copied().unwrap_or(HOUR);
            let (at, lasts) = (self.below(2 * HOUR), MINUTE + self.below(40 * MINUTE));
            self.agenda.at(at, Event::ClockTo(wrong));
            self.agenda.at(at + lasts, Event::ClockTo(0));
        }
    }

    /// What goes wrong around one tool, and what its operators do.
    fn trouble(&mut self, plan: usize) {
        let window = |chance: u32, most: i64, seed: &mut Seed| match seed.chance(chance) {
            true => {
                let at = i64::try_from(seed.below(u64::try_from(90 * MINUTE).unwrap_or(0))).unwrap_or(0);
                let length = i64::try_from(seed.below(u64::try_from(most).unwrap_or(0))).unwrap_or(0);
                (at, at + length)
            }
            false => (0, 0),
        };
        let outage = window(300, 30 * MINUTE, &mut self.seed);
        let blind = window(200, 2 * HOUR, &mut self.seed);
        let locked = window(150, 20 * MINUTE, &mut self.seed);
        let site = &mut self.plans[plan].site;
        (site.outage, site.blind, site.locked) = (outage, blind, locked);
        if self.seed.chance(200) {
            let (at, length) = (self.below(90 * MINUTE), SECOND + self.below(20 * MINUTE));
            self.agenda.at(at, Event::Pause(plan, length));
        }
        if self.seed.chance(300) {
            let at = self.below(90 * MINUTE);
            self.agenda.at(at, Event::Reload(plan));
        }
    }

    /// An action that somebody means, with everything that its callers do.
    fn intent(&mut self) {
        let number = self.truths.len();
        let plan = usize::try_from(self.seed.below(self.plans.len() as u64)).unwrap_or(0);
        let sku = format!("flour-{number}");
        let task = self.seed.chance(700).then(|| Task::parse(&format!("run-{}", number % 4)).unwrap());
        let start = self.below(90 * MINUTE);
        let op = self.truth(plan, &sku, 10, task.clone());
        if self.seed.chance(200) {
            let week = self.seed.below(2);
            self.truths[op].subject = Subject::parse(&format!("kitchen-7/week-{week}")).ok();
        }
        self.callers(op, start);
        // A model that lost its memory proposes the same again, under a new ID.
        if self.seed.chance(250) {
            let same_task = if self.seed.chance(600) { task } else { None };
            let quantity = if self.seed.chance(300) { 11 } else { 10 };
            let twin = self.truth(plan, &sku, quantity, same_task);
            if self.seed.chance(150) {
                let first = self.truths[op].id.clone();
                self.truths[twin].distinct_from.push(first);
            }
            let near = self.seed.chance(700);
            let after = if near { self.below(10 * SECOND) } else { self.below(30 * HOUR) };
            self.callers(twin, start + after);
        }
        if self.seed.chance(150) {
            self.changed_proposals(op, start);
        }
    }

    pub(super) fn truth(&mut self, plan: usize, sku: &str, quantity: u64, task: Option<Task>) -> Op {
        let number = self.truths.len();
        let arguments = format!(r#"{{"sku":"{sku}","quantity":{quantity}}}"#);
        let other = format!(r#"{{"sku":"sugar-{number}","quantity":1}}"#);
        self.truths.push(Truth {
            id: OperationId::parse(&format!("action-{number}")).unwrap(),
            plan,
            arguments: Arguments::parse(arguments.as_bytes()).unwrap(),
            other: Arguments::parse(other.as_bytes()).unwrap(),
            task,
            subject: None,
            replaces: None,
            sku: sku.to_owned(),
            guarded: false,
            acknowledged: Vec::new(),
            released: false,
            heard: Vec::new(),
            offered: None,
            unwanted_until: 0,
            unwanted: 0,
            distinct_from: Vec::new(),
            execute: self.seed.chance(800),
            refused: self.seed.chance(60),
            effects: Vec::new(),
            sent_to: None,
            due: None,
            left_alone: 0,
            idle: 0,
            version: 0,
            ended: None,
            in_review: false,
            was_in_review: false,
            review_since: 0,
            looked: 0,
        });
        number
    }

    pub(super) fn callers(&mut self, op: Op, start: Instant) {
        self.agenda.at(start, Event::Caller(op, Act::Put));
        for _ in 0..self.seed.below(4) {
            let range = if self.seed.chance(700) { 20 * SECOND } else { 2 * HOUR };
            let after = self.below(range);
            self.agenda.at(start + after, Event::Caller(op, Act::Put));
        }
        for after in [MINUTE, 6 * MINUTE, 31 * MINUTE, 3 * HOUR, 9 * HOUR, 27 * HOUR] {
            let jitter = self.below(MINUTE);
            self.agenda.at(start + after + jitter, Event::Caller(op, Act::Execute));
        }
        if self.seed.chance(150) {
            let after = self.below(HOUR);
            self.agenda.at(start + after, Event::Caller(op, Act::Conflict));
        }
        if self.seed.chance(30) {
            let after = self.below(10 * MINUTE);
            self.agenda.at(start + after, Event::Caller(op, Act::Withdraw));
        }
        // Comes back when nobody expects it any more.
        let keeps = i64::try_from(self.plans[self.truths[op].plan].tool.retention.as_millis()).unwrap_or(0);
        if self.seed.chance(300) {
            let after = keeps - HOUR + self.below(30 * HOUR);
            self.agenda.at(start + after, Event::Caller(op, Act::Put));
        }
        let after = self.below(2 * MINUTE);
        self.agenda.at(start + after, Event::Approver(op));
    }

    /// Store time.
    pub(super) fn store_now(&self) -> Timestamp {
        store_time(self.now, self.offset)
    }

    /// The monotonic clock of the host.
    pub(super) fn monotonic(&self) -> i64 {
        self.now - self.slept
    }

    /// Whether a node cannot trust its clocks.
    pub(super) fn in_doubt(&self, node: usize) -> bool {
        let (wall, monotonic) = self.nodes[node].opened;
        let apart = (self.store_now().as_millis() - wall) - (self.monotonic() - monotonic);
        u128::from(apart.unsigned_abs()) > SKEW.as_millis() || self.store_now().plus(SKEW) < self.newest
    }

    /// The operation as it is stored.
    pub(super) fn stored(&self, op: Op) -> Option<&Operation> {
        self.world.operation(&account(), &self.truths[op].id)
    }

    /// The tool of an operation.
    pub(super) fn tool_name(&self, op: Op) -> ToolName {
        self.plans[self.truths[op].plan].tool.name.clone()
    }

    /// Writes down what happens, where somebody wants to read it.
    pub(super) fn note(&mut self, op: Option<Op>, text: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let who = op.map_or_else(|| "         ".to_owned(), |op| self.truths[op].id.to_string());
            let line = format!("{:>12.3}s {who:<10} {}", self.now as f64 / 1_000.0, text(self));
            if let Some(trace) = &mut self.trace {
                trace.push(line);
            }
        }
    }

    /// A contradiction.
    pub(super) fn fail(&mut self, op: Op, what: impl Into<String>) {
        if self.violation.is_none() {
            let what = what.into();
            self.note(Some(op), |_| format!("VIOLATION: {what}"));
            self.violation = Some((op, what));
        }
    }

    /// Runs a verb in one commit, on a node, and judges what it left.
    pub(super) fn run<V: Verb>(&mut self, node: usize, op: Op, verb: &V) -> Result<V::Reply, Refusal> {
        self.world.set_time(self.store_now());
        self.world.clock_in_doubt = self.in_doubt(node);
        let done = self.world.run(verb);
        self.figures.commits += 1;
        self.changed(op);
        done
    }

    /// An operation may have changed.
    pub(super) fn changed(&mut self, op: Op) {
        let version = self.stored(op).map_or(0, |row| row.version);
        if version != self.truths[op].version {
            self.truths[op].version = version;
            self.truths[op].idle = 0;
            self.truths[op].unwanted = 0;
            self.truths[op].unwanted_until = self.truths[op].unwanted_until.min(self.now + SECOND);
            self.truths[op].left_alone = self.truths[op].left_alone.min(self.now + SECOND);
            self.newest = self.newest.max(self.store_now());
            self.judge(op);
        }
        self.judge_pause(self.truths[op].plan);
        self.plan_due(op);
        self.plan_work(op);
    }

    /// Has the operation looked at when the ledger says so.
    pub(super) fn plan_due(&mut self, op: Op) {
        let Some(at) = self.world.due_at(&account(), &self.truths[op].id) else { return };
        let wait = (at.as_millis() - self.store_now().as_millis()).max(0);
        let poll = self.below(100);
        let when = (self.now + wait).max(self.truths[op].left_alone) + poll;
        let sooner = self.truths[op].due.is_none_or(|known| when < known);
        if sooner {
            self.truths[op].due = Some(when);
            self.agenda.at(when, Event::Due(op));
        }
    }

    /// A node that is up.
    pub(super) fn some_node(&mut self) -> Option<usize> {
        let now = self.now;
        let up: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up(now)).collect();
        if up.is_empty() {
            self.last_down = self.now;
        }
        self.seed.pick(&up).copied()
    }

    /// Lets a node do something after so long.
    pub(super) fn hand(&mut self, node: usize, after: i64, work: Work) {
        let incarnation = self.nodes[node].incarnation;
        self.agenda.at(self.now + after, Event::Node(node, incarnation, work));
    }

    /// Lets everything happen until nothing is left.
    pub(super) fn play(&mut self) {
        let mut events = 0;
        while let Some((at, event)) = self.agenda.next() {
            self.now = self.now.max(at);
            events += 1;
            self.happens(event);
            if self.violation.is_some() {
                return;
            }
            if events > MOST_EVENTS {
                let open = (0..self.truths.len())
                    .find(|op| self.stored(*op).is_some_and(|row| !row.state.is_final()));
                let op = open.unwrap_or_default();
                let state = self.stored(op).map(|row| row.state.clone());
                self.fail(op, format!("the world does not come to rest: {state:?}"));
                return;
            }
        }
        self.figures.virtual_millis += u64::try_from(self.now).unwrap_or(0);
        self.figures.events += events;
        self.judge_end();
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Caller(op, act) => self.caller(op, act),
            Event::Node(node, incarnation, work) => self.node(node, incarnation, work),
            Event::Worker(worker, incarnation, step) => self.worker(worker, incarnation, step),
            Event::WorkerStarts(worker) => self.worker_starts(worker),
            Event::Offered(op) => self.offered(op),
            Event::Notified(notice) => self.notified(notice),
            Event::Arrives(packet) => self.arrives(*packet),
            Event::Applies(packet) => self.applies(&packet),
            Event::Asked(asking) => self.asked(asking),
            Event::Due(op) => self.due(op),
            Event::Check(op) => self.check(op),
            Event::Approver(op) => self.approver(op),
            Event::Reviewer(op) => self.reviewer(op),
            Event::Decides(op, verdict, version) => self.decides(op, verdict, version),
            Event::Releases(op) => self.releases(op),
            Event::Restart(node) => self.restart(node),
            Event::Operator => self.operator(),
            Event::Sleep(nap) => self.sleep(nap),
            Event::ClockTo(offset) => self.clock_to(offset),
            Event::Pause(plan, length) => self.pause(plan, length),
            Event::Resume(plan) => self.resume(plan),
            Event::Reload(plan) => self.reload(plan),
            Event::Moves(plan) => self.moves(plan),
            Event::Declare(plan) => self.declare(plan),
            Event::Purge => {
                self.world.set_time(self.store_now());
                self.world.purge();
            }
        }
    }

    fn due(&mut self, op: Op) {
        if self.truths[op].due != Some(self.now) {
            return;
        }
        self.truths[op].due = None;
        let due = self.world.due_at(&account(), &self.truths[op].id);
        if due.is_none() {
            return;
        }
        if due.is_some_and(|at| at > self.store_now()) {
            return self.plan_due(op);
        }
        let idle = self.truths[op].idle;
        // A node looks every second. Where that changes nothing for long, and nothing is open, the simulation looks
        // away in between.
        self.truths[op].idle = (idle + 1).min(20);
        let open = self.stored(op).is_some_and(|row| matches!(row.state, State::Unknown(_)));
        let plan = &self.plans[self.truths[op].plan];
        let watched = open && plan.declared && plan.stands_since.is_none();
        let rest = if watched { 0 } else { idle.saturating_sub(11) };
        self.truths[op].left_alone = self.now + (SECOND << rest);
        let both = self.seed.chance(100);
        for _ in 0..=usize::from(both) {
            match self.some_node() {
                Some(node) => self.hand(node, 0, Work::Carry(op)),
                None => self.truths[op].left_alone = self.now + SECOND / 2,
            }
        }
        self.plan_due(op);
    }

    /// A host that slept has a monotonic clock that did not count it: its processes are started anew.
    fn operator(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].alive && self.clock_wrong_until <= self.now && self.in_doubt(node) {
                self.crash(node);
            }
        }
    }

    fn sleep(&mut self, nap: i64) {
        let after = nap + MINUTE + self.below(20 * MINUTE);
        self.agenda.at(self.now + after, Event::Operator);
        self.agenda.at(self.now + 3 * HOUR + after, Event::Operator);
        self.note(None, |_| format!("the host sleeps for {nap} ms"));
        self.slept += nap;
        let until = self.now + nap;
        for node in &mut self.nodes {
            node.frozen_until = node.frozen_until.max(until);
        }
        self.last_down = self.last_down.max(until);
    }

    fn clock_to(&mut self, offset: i64) {
        self.note(None, |_| format!("store time is set to {offset} ms ahead of true time"));
        self.offset = offset;
        self.last_down = self.last_down.max(self.now);
        if u128::from(offset.unsigned_abs()) > SKEW.as_millis() {
            // Until it is set right again; which is on the agenda.
            self.clock_wrong_until = self.now + HOUR;
        } else {
            self.clock_wrong_until = self.now;
            let after = SECOND + self.below(if self.clock_was_wrong { 20 * SECOND } else { 10 * MINUTE });
            self.agenda.at(self.now + after, Event::Operator);
        }
        for op in 0..self.truths.len() {
            self.truths[op].due = None;
            self.plan_due(op);
        }
    }

    fn pause(&mut self, plan: usize, length: i64) {
        let name = self.plans[plan].tool.name.clone();
        self.note(None, |_| format!("{name} is paused"));
        self.world.set_time(self.store_now());
        let (by, note) = ("opal".to_owned(), "maintenance".to_owned());
        self.world.pause(PauseDraft { tool: Some(name), scope: None, by, note });
        self.judge_pause(plan);
        self.agenda.at(self.now + length, Event::Resume(plan));
    }

    fn resume(&mut self, plan: usize) {
        let name = self.plans[plan].tool.name.clone();
        self.note(None, |_| format!("{name} is resumed"));
        self.world.set_time(self.store_now());
        self.world.resume(Some(&name));
        self.judge_pause(plan);
        self.look_again(plan);
    }

    fn reload(&mut self, plan: usize) {
        let what = tools::changed(&mut self.plans[plan], &mut self.seed);
        self.plans[plan].changed_at = self.now;
        let name = self.plans[plan].tool.name.clone();
        self.note(None, |_| format!("the configuration is read anew: {name}: {what}"));
        if self.plans[plan].declared {
            let tool = self.plans[plan].tool.clone();
            self.world.declare(tool);
        } else {
            self.world.undeclare(&name);
            let after = MINUTE + self.below(HOUR);
            self.agenda.at(self.now + after, Event::Declare(plan));
        }
        if self.seed.chance(400) {
            let after = self.below(20 * MINUTE);
            self.agenda.at(self.now + after, Event::Reload(plan));
        }
        self.look_again(plan);
    }

    /// Just when somebody is about to look up, and back again a while later.
    fn moves(&mut self, plan: usize) {
        tools::moved(&mut self.plans[plan]);
        self.note(None, |_| format!("tool {plan} has another vendor account"));
        if self.plans[plan].vendor != 1 {
            let after = MINUTE + self.below(20 * MINUTE);
            self.agenda.at(self.now + after, Event::Moves(plan));
        }
        self.plans[plan].changed_at = self.now;
        if self.plans[plan].declared {
            let tool = self.plans[plan].tool.clone();
            self.world.declare(tool);
        }
        self.look_again(plan);
    }

    fn declare(&mut self, plan: usize) {
        self.plans[plan].declared = true;
        self.plans[plan].changed_at = self.now;
        let tool = self.plans[plan].tool.clone();
        self.world.declare(tool);
        self.look_again(plan);
    }

    fn look_again(&mut self, plan: usize) {
        self.last_down = self.last_down.max(self.now);
        for op in 0..self.truths.len() {
            if self.truths[op].plan == plan && self.stored(op).is_some() {
                self.truths[op].left_alone = self.now;
                self.truths[op].due = None;
                self.judge_review(op);
                self.plan_due(op);
                self.truths[op].unwanted_until = self.now;
                self.plan_work(op);
            }
        }
    }
}
