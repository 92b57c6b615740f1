//! Breadth-first over everything that can happen, with the invariants asked at every step. The first violation is
//! therefore one of the shortest.

use std::collections::{BTreeSet, HashMap, VecDeque};

use counterfoil::guard::Peer;
use counterfoil::operation::AttemptOutcome;
use counterfoil::state::State;

use super::book::{Book, instant, tick};
use super::configurations::{Configuration, Network};
use super::rules::Wrong;
use super::system::{Found, Job, Packet, Shelf, Step, System, Worker};

/// The most states that one world may have, so that a change that lets a space grow is noticed.
pub(crate) const MOST_STATES: usize = 1_500_000;

/// What a search found.
pub(crate) struct Outcome {
    /// How many states were reached.
    pub(crate) states: usize,
    /// How many steps were taken.
    pub(crate) transitions: usize,
    /// The first violation and the steps that lead to it.
    pub(crate) violation: Option<(&'static str, Vec<Step>)>,
    /// Every (state, effects) that an operation can end up in.
    pub(crate) ends: BTreeSet<(&'static str, u8)>,
    /// How many different operations and answers there were.
    pub(crate) book: (usize, usize),
}

type Broken = Option<&'static str>;

/// Everything around one instant.
pub(crate) struct Search<'a> {
    configuration: &'a Configuration,
    wrong: Option<Wrong>,
    book: Book,
    next: Vec<(Step, System)>,
}

/// Explores everything that `configuration` can reach, or stops at the first violation.
pub(crate) fn explore(configuration: &Configuration, wrong: Option<Wrong>) -> Outcome {
    let tool = configuration.declared(wrong);
    let mut book = Book::new(&tool, wrong, configuration.copies > 0);
    let mut ops = [0; 2];
    let at_first = if configuration.replaces { 1 } else { configuration.operations };
    for (index, op) in ops.iter_mut().enumerate().take(at_first) {
        *op = book.prepare(u8::try_from(index).unwrap(), 0);
    }
    let first = System {
        now: 0,
        ops,
        workers: [Worker::Idle; 2],
        wire: [None; 3],
        shelves: [Shelf::default(); 2],
        crashes: configuration.crashes,
        copies: configuration.copies,
        person: None,
        overlapped: false,
    };
    let mut search = Search { configuration, wrong, book, next: Vec::new() };
    search.run(first)
}

impl Search<'_> {
    fn run(&mut self, first: System) -> Outcome {
        let mut seen: HashMap<System, u32> = HashMap::from([(first, 0)]);
        let mut order: Vec<(System, u32)> = vec![(first, 0)];
        let mut queue = VecDeque::from([0_u32]);
        let (mut transitions, mut ends) = (0, BTreeSet::new());
        let mut violation = None;
        'search: while let Some(at) = queue.pop_front() {
            if order.len() > MOST_STATES {
                break;
            }
            let system = order[at as usize].0;
            for index in (0..self.configuration.operations).filter(|index| system.ops[*index] != 0) {
                ends.insert((self.book.label(system.ops[index]), system.shelves[index].effects));
            }
            self.next.clear();
            self.successors(system);
            for (step, next) in std::mem::take(&mut self.next) {
                transitions += 1;
                let next = next.canonical();
                let broken = self.broken_step(&system, step, &next).or_else(|| self.broken_state(&next));
                if let Some(invariant) = broken {
                    violation = Some((invariant, self.trace(&order, at, step)));
                    break 'search;
                }
                let place = u32::try_from(order.len()).unwrap();
                if let std::collections::hash_map::Entry::Vacant(free) = seen.entry(next) {
                    free.insert(place);
                    order.push((next, at));
                    queue.push_back(place);
                }
            }
        }
        Outcome { states: order.len(), transitions, violation, ends, book: self.book.size() }
    }

    /// The steps that lead to a place; which step it was is found by asking again.
    fn trace(&mut self, order: &[(System, u32)], mut at: u32, last: Step) -> Vec<Step> {
        let mut steps = vec![last];
        while at != 0 {
            let (system, parent) = order[at as usize];
            self.next.clear();
            self.successors(order[parent as usize].0);
            let step = self.next.iter().find(|(_, next)| next.canonical() == system).map(|(step, _)| *step);
            steps.extend(step);
            at = parent;
        }
        steps.reverse();
        steps
    }

    fn successors(&mut self, system: System) {
        self.time(system);
        self.changed_proposal(system);
        for op in (0..self.configuration.operations).filter(|op| system.ops[*op] != 0) {
            self.start(system, u8::try_from(op).unwrap());
            self.person(system, op);
            self.late_retry(system, op);
        }
        for index in 0..2 {
            self.worker(system, index);
        }
        for index in 0..3 {
            self.wire(system, index);
        }
        for index in 0..2 {
            self.queue(system, index);
        }
    }

    /// The second operation takes the place of the first, or is taken back.
    fn changed_proposal(&mut self, system: System) {
        if !self.configuration.replaces {
            return;
        }
        let [former, changed] = system.ops;
        if changed == 0 {
            if let Some((former, changed)) = self.book.replace(former, system.now) {
                self.push(Step::Replace, System { ops: [former, changed], ..system });
            }
        } else if let Some(changed) = self.book.withdraw(changed, former, system.now) {
            self.push(Step::Withdraw, System { ops: [former, changed], ..system });
        }
    }

    /// The operation beside this one, where the two know of each other; 0 where they do not.
    fn beside(&self, system: &System, op: usize) -> u32 {
        if self.configuration.replaces { system.ops[1 - op] } else { 0 }
    }

    fn push(&mut self, step: Step, system: System) {
        self.next.push((step, system));
    }

    fn time(&mut self, mut system: System) {
        let queue = self.configuration.queue;
        let due = system.shelves.iter().any(|shelf| shelf.queued.is_some_and(|at| system.now >= at + queue));
        if system.now >= self.configuration.horizon || due {
            return;
        }
        system.now += 1;
        if let Network::Bounded(life) = self.configuration.network {
            for slot in &mut system.wire {
                if slot.is_some_and(|packet| system.now > packet.sent + life) {
                    *slot = None;
                }
            }
        }
        self.push(Step::Time, system);
    }

    fn start(&mut self, system: System, op: u8) {
        let index = usize::from(op);
        let page = system.ops[index];
        let Some(free) = system.idle() else { return };
        if self.book.page(page).state.is_final() {
            return;
        }
        if self.configuration.transaction {
            return self.transact(system, op, free);
        }
        let other = if self.configuration.operations == 2 { system.ops[1 - index] } else { 0 };
        let answer = self.book.start(op, page, other, system.now);
        if answer.refused || (answer.page == page && answer.begun.is_none()) {
            return;
        }
        let mut next = system;
        match answer.begun {
            Some(job) if self.wrong == Some(Wrong::RecordAfterSend) => {
                next.workers[free] = Worker::Sneaking(job);
            }
            Some(job) => {
                next.ops[index] = answer.page;
                next.workers[free] = Worker::Ready(job);
                if other != 0 && self.overlaps(other) {
                    next.overlapped = true;
                }
            }
            None => next.ops[index] = answer.page,
        }
        self.push(Step::Start(op), next);
    }

    /// Whether an attempt recorded now would lie beside one whose action is not over.
    fn overlaps(&self, other: u32) -> bool {
        let other = self.book.page(other);
        match &other.state {
            State::InProgress(_) | State::Unknown(_) => true,
            State::Prepared(_) => other.unsettled() > 0,
            State::Succeeded(_) | State::Rejected(_) => false,
        }
    }

    fn transact(&mut self, system: System, op: u8, free: usize) {
        let index = usize::from(op);
        let Some(entered) = self.book.enter(op, system.ops[index], system.now) else { return };
        let mut next = system;
        next.shelves[index].effects += 1;
        if self.wrong == Some(Wrong::TwoTransactions) {
            next.workers[free] = Worker::HalfDone(op);
        } else {
            next.ops[index] = self.book.finish(op, entered, system.now).page;
        }
        self.push(Step::Transact(op), next);
    }

    fn worker(&mut self, system: System, index: usize) {
        let at = u8::try_from(index).unwrap();
        let mut with = |step: Step, worker: Worker| {
            let mut next = system;
            next.workers[index] = worker;
            self.next.push((step, next));
        };
        let worker = system.workers[index];
        match worker {
            Worker::Idle => self.look(system, index),
            Worker::Ready(job) => {
                with(Step::GiveUp(at), Worker::Knows(job, Found::NotSent));
                self.send(system, index, job, Worker::Waiting(job, false));
            }
            Worker::Sneaking(job) => self.send(system, index, job, Worker::Sneaked(job)),
            Worker::Sneaked(job) => self.record_late(system, index, job),
            Worker::Waiting(job, lingers) => {
                with(Step::Timeout(at), Worker::Knows(job, Found::Nothing));
                if self.configuration.linger && !lingers {
                    let op = usize::from(job.op);
                    let pages = (system.ops[op], self.beside(&system, op));
                    let answer = self.book.report(pages, job, Found::Nothing, true, system.now);
                    let mut next = system;
                    next.ops[op] = answer.page;
                    next.workers[index] = Worker::Waiting(job, true);
                    self.push(Step::Linger(at), next);
                }
            }
            Worker::Knows(job, found) => {
                let op = usize::from(job.op);
                let pages = (system.ops[op], self.beside(&system, op));
                let answer = self.book.report(pages, job, found, false, system.now);
                let mut next = system;
                next.ops[op] = answer.page;
                next.workers[index] = Worker::Idle;
                self.push(Step::Report(at), next);
            }
            Worker::Looking(op, fence, began) => {
                let hit = system.shelves[usize::from(op)].effects > 0;
                with(Step::Read(at), Worker::Saw(op, fence, began, hit));
                if hit && self.configuration.incomplete {
                    with(Step::Read(at), Worker::Saw(op, fence, began, false));
                }
            }
            Worker::Saw(op, fence, began, hit) => self.use_look(system, index, (op, fence, began, hit)),
            Worker::HalfDone(op) => {
                let mut next = system;
                if let Some(entered) = self.book.enter(op, system.ops[usize::from(op)], system.now) {
                    next.ops[usize::from(op)] = self.book.finish(op, entered, system.now).page;
                }
                next.workers[index] = Worker::Idle;
                self.push(Step::SecondTransaction(at), next);
            }
        }
        if worker != Worker::Idle && system.crashes > 0 {
            let mut next = system;
            next.crashes -= 1;
            next.workers[index] = Worker::Idle;
            self.push(Step::Crash(at), next);
        }
    }

    fn send(&mut self, system: System, index: usize, job: Job, after: Worker) {
        let too_late = system.now > job.send_before && self.wrong != Some(Wrong::NoSendBefore);
        let mut next = system;
        if too_late || !next.put(Packet { job, sent: system.now }) {
            return;
        }
        next.workers[index] = after;
        self.push(Step::Send(u8::try_from(index).unwrap()), next);
    }

    fn record_late(&mut self, system: System, index: usize, job: Job) {
        let op = usize::from(job.op);
        let answer = self.book.start(job.op, system.ops[op], 0, system.now);
        let mut next = system;
        next.ops[op] = answer.page;
        next.workers[index] = match answer.begun {
            Some(job) => Worker::Waiting(job, false),
            None => Worker::Idle,
        };
        self.push(Step::RecordLate(u8::try_from(index).unwrap()), next);
    }

    fn look(&mut self, system: System, index: usize) {
        if !self.configuration.looks || system.idle() != Some(index) {
            return;
        }
        for op in (0..self.configuration.operations).filter(|op| system.ops[*op] != 0) {
            let operation = self.book.page(system.ops[op]);
            if let State::Unknown(_) = operation.state {
                let fence = u8::try_from(operation.fence.0).unwrap();
                let mut next = system;
                next.workers[index] = Worker::Looking(u8::try_from(op).unwrap(), fence, system.now);
                self.push(Step::Look(u8::try_from(index).unwrap()), next);
            }
        }
    }

    fn use_look(&mut self, system: System, index: usize, saw: (u8, u8, u8, bool)) {
        let (op, fence, began, hit) = saw;
        let page = system.ops[usize::from(op)];
        let mut next = system;
        next.workers[index] = Worker::Idle;
        let current = self.book.page(page).fence.0 == u64::from(fence);
        let answer = if hit {
            Some(self.book.found(page, system.now))
        } else if current && self.book.miss_counts(page, began, system.now) {
            let beside = self.beside(&system, usize::from(op));
            Some(self.book.settle(page, beside, system.now))
        } else {
            None
        };
        if let Some(answer) = answer.filter(|answer| !answer.refused) {
            next.ops[usize::from(op)] = answer.page;
        }
        self.push(Step::UseLook(u8::try_from(index).unwrap()), next);
    }

    fn person(&mut self, system: System, op: usize) {
        if !self.configuration.person {
            return;
        }
        let page = system.ops[op];
        let State::Unknown(_) = self.book.page(page).state else { return };
        let index = u8::try_from(op).unwrap();
        if system.person.is_none() && system.shelves[op].effects == 0 {
            self.push(Step::PersonLooks(index), System { person: Some((index, system.now)), ..system });
        }
        if let Some((of, began)) = system.person
            && of == index
        {
            let mut next = System { person: None, ..system };
            if self.book.person_may_decide(page, began) {
                next.ops[op] = self.book.absent(page, system.now).page;
            }
            self.push(Step::PersonDecides, next);
        }
    }

    fn late_retry(&mut self, system: System, op: usize) {
        let page = system.ops[op];
        let expired = self.book.page(page).receipt_expires_at.is_some_and(|at| instant(system.now) >= at);
        if !self.configuration.late_retry || !expired {
            return;
        }
        let index = u8::try_from(op).unwrap();
        for purged in [true, false] {
            if self.book.comes_back(index, page, system.now, purged) {
                let mut next = system;
                next.ops[op] = self.book.prepare(index, system.now);
                self.push(Step::LateRetry(index), next);
            }
        }
    }

    fn wire(&mut self, system: System, index: usize) {
        let Some(packet) = system.wire[index] else { return };
        let at = u8::try_from(index).unwrap();
        if system.copies > 0 {
            let mut next = System { copies: system.copies - 1, ..system };
            if next.put(packet) {
                self.push(Step::Copy(at), next);
            }
        }
        let op = usize::from(packet.job.op);
        let old = system.shelves[op];
        for (shelf, reply) in self.configuration.arrives(system.now, packet, old) {
            let mut next = system;
            next.wire[index] = None;
            next.shelves[op] = shelf;
            let Some(reply) = reply else {
                self.push(Step::Deliver(at, Found::Nothing, false), next);
                continue;
            };
            let waits = |worker: &Worker| matches!(worker, Worker::Waiting(job, _) if *job == packet.job);
            let waiting = next.workers.iter().position(waits);
            // An answer that is lost while its worker waits is a timeout first, except where a copy may still be
            // answered.
            if waiting.is_none() || self.configuration.copies > 0 {
                self.push(Step::Deliver(at, reply, false), next);
            }
            if let Some(worker) = waiting {
                next.workers[worker] = Worker::Knows(packet.job, reply);
                self.push(Step::Deliver(at, reply, true), next);
            }
        }
    }

    fn queue(&mut self, system: System, index: usize) {
        if system.shelves[index].queued.is_some() {
            let mut next = system;
            next.shelves[index].queued = None;
            next.shelves[index].effects += 1;
            self.push(Step::Apply(u8::try_from(index).unwrap()), next);
        }
    }

    fn broken_state(&mut self, system: &System) -> Broken {
        for op in 0..self.configuration.operations {
            let effects = system.shelves[op].effects;
            if effects > 1 {
                return Some("I1: more than one effect");
            }
            let page = system.ops[op];
            if page == 0 {
                continue;
            }
            let operation = self.book.page(page);
            match &operation.state {
                State::Succeeded(_) if effects == 0 && system.shelves[op].queued.is_none() => {
                    return Some("I2: succeeded without an effect");
                }
                State::Rejected(_) if effects > 0 => return Some("I3: rejected with an effect"),
                State::InProgress(claim)
                    if instant(system.now) >= claim.lease_expires_at && self.wrong.is_none() =>
                {
                    let other = if self.configuration.operations == 2 { system.ops[1 - op] } else { 0 };
                    let index = u8::try_from(op).unwrap();
                    if self.book.start(index, page, other, system.now).page == page {
                        return Some("I12: stays in progress after its lease");
                    }
                }
                State::Unknown(open)
                    if open.hold.is_none()
                        && open.closed.is_none()
                        && open.not_before.is_none()
                        && operation.unsettled() > 0 =>
                {
                    return Some("I12: open, and nobody is due");
                }
                _ => {}
            }
        }
        let both = system.shelves.iter().all(|shelf| shelf.effects > 0);
        (both && (system.overlapped || self.configuration.replaces)).then_some("I5: one action, two effects")
    }

    fn broken_step(&mut self, before: &System, step: Step, after: &System) -> Broken {
        if let Step::LateRetry(_) = step {
            return Some("I8: a used ID began anew");
        }
        for op in 0..self.configuration.operations {
            if before.ops[op] == after.ops[op] || before.ops[op] == 0 {
                continue;
            }
            let broken = self.broken_write(before, step, op, after.ops[op]);
            if broken.is_some() {
                return broken;
            }
        }
        match step {
            Step::Report(worker) => self.broken_report(before, worker, after),
            Step::Send(worker) => self.unrecorded(before, worker),
            _ => None,
        }
    }

    /// What every write of an operation keeps.
    fn broken_write(&self, system: &System, step: Step, op: usize, after: u32) -> Broken {
        let (before, after) = (self.book.page(system.ops[op]), self.book.page(after));
        if after.fence < before.fence || after.attempts.len() < before.attempts.len() {
            return Some("I4: a fencing token or an attempt was lost");
        }
        if Peer::from(before).stage.is_final() && before.state.label() != after.state.label() {
            return Some("I4: a final state moved");
        }
        if after.attempts.len() == before.attempts.len() {
            return None;
        }
        // The door's attempt joins the effect and the receipt in one commit.
        if matches!(step, Step::Transact(_) | Step::SecondTransaction(_)) {
            return None;
        }
        let Step::Start(_) = step else { return Some("I10: an attempt was recorded by something else") };
        let attempt = after.attempts.last()?;
        let live = before.state.claim().is_some_and(|claim| instant(system.now) < claim.lease_expires_at);
        if attempt.fence <= before.fence || attempt.fence != after.fence || live {
            return Some("I9: an attempt under a claim that is not the newest");
        }
        if after.attempts.len() > usize::try_from(self.book.tool().budget.attempts).unwrap() {
            return Some("R8: more attempts than the budget");
        }
        if attempt.request_digest != after.attempts.first()?.request_digest {
            return Some("I11: other bytes than before");
        }
        self.forgotten(before, tick(attempt.send_before))
    }

    /// The arithmetic of the destination's memory, done here once more and from its true facts.
    fn forgotten(&self, before: &counterfoil::operation::Operation, send_before: u8) -> Broken {
        let memory = self.configuration.memory?;
        let first =
            before.attempts.iter().find(|attempt| attempt.outcome != Some(AttemptOutcome::NotSent))?;
        let late = send_before + self.configuration.life() + self.configuration.clock_behind;
        (late >= tick(first.started_at) + memory).then_some("I6: could arrive after the key is forgotten")
    }

    fn broken_report(&self, before: &System, worker: u8, after: &System) -> Broken {
        let Worker::Knows(job, found) = before.workers[usize::from(worker)] else { return None };
        let op = usize::from(job.op);
        let (old, new) = (self.book.page(before.ops[op]), self.book.page(after.ops[op]));
        let proved = found == Found::Success;
        if proved && !matches!(new.state, State::Succeeded(_)) && !new.duplicate_suspected {
            return Some("I7: proof of success was dropped");
        }
        let outranked = old.fence.0 != u64::from(job.fence);
        let moved = old.state.label() != new.state.label();
        if outranked && !proved && moved {
            return Some("I4: a negative outcome from an outranked worker");
        }
        None
    }

    fn unrecorded(&self, before: &System, worker: u8) -> Broken {
        let (Worker::Ready(job) | Worker::Sneaking(job)) = before.workers[usize::from(worker)] else {
            return None;
        };
        let operation = self.book.page(before.ops[usize::from(job.op)]);
        let recorded = operation.attempts.iter().any(|attempt| attempt.fence.0 == u64::from(job.fence));
        (!recorded).then_some("I10: sent before it was recorded")
    }
}
