//! The ledger of the model: every decision is asked of the real functions, with a real snapshot. Operations that differ
//! only in what no decision looks at are the same page, and each question is asked once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use counterfoil::arguments::Arguments;
use counterfoil::caller::{Caller, Roles};
use counterfoil::decide::{self, Plan};
use counterfoil::destination::Finding;
use counterfoil::error::Refusal;
use counterfoil::guard::Peer;
use counterfoil::id::{Account, FencingToken, OperationId, Principal, Task, WorkerName};
use counterfoil::operation::{
    AttemptOutcome, Marker, Operation, Receipt, ReceiptSource, Rejection, RejectionCode,
};
use counterfoil::policy::{Meaning, Tool};
use counterfoil::recovery::Recovery;
use counterfoil::snapshot::{Changes, Declarations, Existing, Grave, Predecessor, Snapshot, Verb, Write};
use counterfoil::state::{AfterSettled, Event, Facts, Open, State, Waiting, next};
use counterfoil::time::Timestamp;
use counterfoil::verbs::{Begun, Enter, Entered, Finish, Offer, Prepare, Report, Start, Withdraw};

use super::rules::Wrong;
use super::system::{Found, Job};

/// One tick of the model's time.
pub(crate) const TICK: Duration = Duration::from_secs(1);
const ORIGIN: i64 = 1_000_000;

/// An instant of the model as store time.
pub(crate) fn instant(tick: u8) -> Timestamp {
    Timestamp::from_millis(ORIGIN + i64::from(tick) * 1_000)
}

/// Store time as an instant of the model.
pub(crate) fn tick(at: Timestamp) -> u8 {
    u8::try_from((at.as_millis() - ORIGIN) / 1_000).unwrap_or(0)
}

/// What a question led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The page afterwards.
    pub(crate) page: u32,
    /// The attempt that was recorded.
    pub(crate) begun: Option<Job>,
    /// The verb refused: nothing was written.
    pub(crate) refused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Question {
    Start { page: u32, peer: u32, now: u8, index: u8 },
    Report { page: u32, peer: u32, job: Job, found: Found, linger: bool, now: u8 },
    Settle { page: u32, peer: u32, now: u8 },
    Found { page: u32, now: u8 },
    Absent { page: u32, now: u8 },
}

/// Every operation that was ever seen, and every answer that was ever given.
pub(crate) struct Book {
    tool: Tool,
    declared: Arc<Declarations>,
    wrong: Option<Wrong>,
    copies: bool,
    pages: Vec<Arc<Operation>>,
    places: HashMap<Arc<Operation>, u32>,
    answers: HashMap<Question, Answer>,
}

impl Book {
    /// An empty book for one tool. `copies` says that something between us and the destination may send the same bytes
    /// again: then a negative answer is about one copy only.
    pub(crate) fn new(tool: &Tool, wrong: Option<Wrong>, copies: bool) -> Self {
        let tool = tool.clone();
        let declared = Arc::new(Declarations::new([(1, Arc::new(tool.clone()))]));
        // Place 0 means that there is none.
        let mut book = Self {
            tool,
            declared,
            wrong,
            copies,
            pages: Vec::new(),
            places: HashMap::new(),
            answers: HashMap::new(),
        };
        let nothing = book.prepare(9, 0);
        assert_eq!(nothing, 0);
        book
    }

    /// The declaration.
    pub(crate) fn tool(&self) -> &Tool {
        &self.tool
    }

    /// The operation on a page.
    pub(crate) fn page(&self, page: u32) -> &Operation {
        &self.pages[page as usize]
    }

    fn keep(&mut self, mut operation: Operation) -> u32 {
        operation.version = 0;
        operation.updated_at = Timestamp::default();
        let operation = Arc::new(operation);
        if let Some(place) = self.places.get(&operation) {
            return *place;
        }
        let place = u32::try_from(self.pages.len()).expect("few pages");
        self.pages.push(operation.clone());
        self.places.insert(operation, place);
        place
    }

    fn snapshot(&self, existing: Existing, peer: Option<&Operation>, now: Timestamp) -> Snapshot {
        let operation = match &existing {
            Existing::Operation(operation) => Some(operation),
            Existing::Nothing | Existing::Tombstone(_) => None,
        };
        let peer = peer.map(Peer::from);
        let named = peer.iter().filter(|peer| {
            operation.is_some_and(|op| {
                op.blocked_by.contains(&peer.id)
                    || op.replaces.as_ref() == Some(&peer.id)
                    || op.replaced_by.as_ref() == Some(&peer.id)
            })
        });
        Snapshot {
            now,
            stored: operation.map(|_| Arc::new(self.tool.clone())),
            declared: self.declared.clone(),
            subject_peers: Vec::new(),
            predecessor: None,
            named: named.cloned().collect(),
            peers: peer.into_iter().filter(|peer| peer.unresolved).collect(),
            paused: None,
            paused_for: Duration::ZERO,
            refusals: 0,
            bucket: None,
            webhooks: counterfoil::snapshot::Webhooks::default(),
            restored: false,
            existing,
        }
    }

    fn of(&self, page: u32) -> Existing {
        Existing::Operation(Box::new(self.page(page).clone()))
    }

    fn prepare_verb(&self, index: u8) -> Prepare {
        let arguments = Arguments::parse(br#"{"sku":"flour","quantity":10}"#).unwrap();
        Prepare {
            caller: caller(),
            id: id(index),
            tool: self.tool.name.clone(),
            fingerprint: Prepare::fingerprint(&self.declared, &self.tool.name, &arguments).into(),
            arguments,
            task: Some(Task::parse("run").unwrap()),
            subject: None,
            replaces: None,
            distinct_from: Vec::new(),
            accepted_by: None,
            execute: true,
            offer: None,
            dry_run: false,
            random: 0,
            declared: self.declared.clone(),
        }
    }

    /// Prepares operation `index`.
    pub(crate) fn prepare(&mut self, index: u8, now: u8) -> u32 {
        let decided =
            self.prepare_verb(index).decide(&self.snapshot(Existing::Nothing, None, instant(now))).unwrap();
        assert!(decided.reply.created);
        self.keep(decided.reply.view.operation)
    }

    /// The second operation takes the place of the first, unless a spent budget guards: the first one's page and its
    /// own.
    pub(crate) fn replace(&mut self, page: u32, now: u8) -> Option<(u32, u32)> {
        let former = self.page(page).clone();
        let mut snapshot = self.snapshot(Existing::Nothing, Some(&former), instant(now));
        snapshot.named = vec![Peer::from(&former)];
        let stored = Some(Arc::new(self.tool.clone()));
        snapshot.predecessor =
            Some(Box::new(Predecessor { operation: former.clone(), stored, subject_peers: Vec::new() }));
        let verb = Prepare { replaces: Some(former.id), ..self.prepare_verb(1) };
        let mut decided = verb.decide(&snapshot).ok()?;
        let replaced = decided.changes.others.pop().expect("the former one changes");
        Some((self.keep(*replaced.operation), self.keep(decided.reply.view.operation)))
    }

    /// The second operation is taken back, if it may be.
    pub(crate) fn withdraw(&mut self, page: u32, peer: u32, now: u8) -> Option<u32> {
        let verb = Withdraw { caller: caller(), id: id(1), declared: self.declared.clone() };
        let snapshot = self.snapshot(self.of(page), self.peer(peer).as_ref(), instant(now));
        let decided = verb.decide(&snapshot).ok()?;
        written(decided.changes).map(|operation| self.keep(operation))
    }

    fn peer(&self, peer: u32) -> Option<Operation> {
        (peer != 0).then(|| self.page(peer).clone())
    }

    /// A caller comes back after retention: whether it is told anything but that the receipt is gone.
    pub(crate) fn comes_back(&self, index: u8, page: u32, now: u8, purged: bool) -> bool {
        let stage = Peer::from(self.page(page)).stage;
        let existing = match (self.wrong, purged) {
            (Some(Wrong::DeleteAtRetentionEnd), _) => Existing::Nothing,
            (_, true) => Existing::Tombstone(Grave { stage, tool: self.page(page).tool.clone() }),
            (_, false) => self.of(page),
        };
        match self.prepare_verb(index).decide(&self.snapshot(existing, None, instant(now))) {
            Ok(_) => true,
            Err(refusal) => refusal != Refusal::ReceiptExpired { stage },
        }
    }

    fn answered(&mut self, question: Question, ask: impl FnOnce(&mut Self) -> Answer) -> Answer {
        if let Some(answer) = self.answers.get(&question) {
            return *answer;
        }
        let answer = ask(self);
        self.answers.insert(question, answer);
        answer
    }

    /// A worker asks to start.
    pub(crate) fn start(&mut self, index: u8, page: u32, peer: u32, now: u8) -> Answer {
        let question = Question::Start { page, peer, now, index };
        self.answered(question, |book| book.ask_start(index, page, peer, now))
    }

    fn ask_start(&mut self, index: u8, page: u32, peer: u32, now: u8) -> Answer {
        let before = self.page(page).clone();
        let mut asked = before.clone();
        let mut at = instant(now);
        match self.wrong {
            Some(Wrong::SlowWorkerClock) => at = at.minus(TICK * 3),
            Some(Wrong::RetentionRestarts) => {
                for attempt in asked.attempts.iter_mut().filter(|attempt| attempt.settled) {
                    attempt.outcome = Some(AttemptOutcome::NotSent);
                }
            }
            Some(Wrong::TakeoverForgets)
                if before.state.claim().is_some_and(|claim| at >= claim.lease_expires_at) =>
            {
                asked = self.page(self.first_page(index)).clone();
            }
            Some(_) | None => {}
        }
        let peer = (peer != 0 && self.wrong != Some(Wrong::NoTaskGuard)).then(|| self.page(peer).clone());
        let mut snapshot = self.snapshot(Existing::Operation(Box::new(asked)), peer.as_ref(), at);
        if self.wrong == Some(Wrong::ReplacementWhileUnknown) && before.replaces.is_some() {
            snapshot.named.iter_mut().for_each(|former| former.unresolved = false);
        }
        let verb = Start {
            caller: Some(caller()),
            account: before.account.clone(),
            id: before.id.clone(),
            offer: Some(Offer {
                worker: worker(),
                policy_version: 1,
                request_digest: "sha256:one".to_owned(),
                scope: Some("scope".to_owned()),
                bucket: None,
                lease: None,
                claim: None,
            }),
            random: 0,
            declared: self.declared.clone(),
        };
        let Ok(decided) = verb.decide(&snapshot) else {
            return Answer { page, begun: None, refused: true };
        };
        let mut operation = written(decided.changes).unwrap_or_else(|| before.clone());
        match (self.wrong, &before.state, &operation.state) {
            (Some(Wrong::LeaseExpiryRejects), State::InProgress(_), State::Unknown(_)) => {
                operation.state = State::Rejected(rejection(instant(now)));
            }
            (Some(Wrong::LeaseExpiryIsFailure), State::InProgress(_), State::Unknown(_)) => {
                operation.attempts.iter_mut().for_each(|attempt| attempt.settled = true);
                operation.state = State::Prepared(Waiting::default());
            }
            _ => {}
        }
        let begun = matches!(decided.reply.begun, Begun::Started(_));
        if begun && self.wrong == Some(Wrong::SlowWorkerClock) {
            let shift = TICK * 3;
            if let State::InProgress(claim) = &mut operation.state {
                claim.lease_expires_at = claim.lease_expires_at.plus(shift);
            }
            if let Some(attempt) = operation.attempts.last_mut() {
                attempt.started_at = attempt.started_at.plus(shift);
                attempt.send_before = attempt.send_before.plus(shift);
            }
        }
        if self.wrong == Some(Wrong::RetentionRestarts) {
            for (attempt, old) in operation.attempts.iter_mut().zip(&before.attempts) {
                attempt.outcome = old.outcome;
            }
        }
        let job = operation.attempts.last().map(|attempt| Job {
            op: index,
            number: u8::try_from(attempt.number).unwrap(),
            fence: u8::try_from(attempt.fence.0).unwrap(),
            send_before: tick(attempt.send_before),
        });
        Answer { page: self.keep(operation), begun: job.filter(|_| begun), refused: false }
    }

    fn first_page(&self, index: u8) -> u32 {
        let found = self.pages.iter().position(|page| page.id == id(index) && page.attempts.is_empty());
        u32::try_from(found.expect("it was prepared")).expect("few pages")
    }

    /// A worker reports.
    pub(crate) fn report(
        &mut self,
        (page, peer): (u32, u32),
        job: Job,
        found: Found,
        linger: bool,
        now: u8,
    ) -> Answer {
        let question = Question::Report { page, peer, job, found, linger, now };
        self.answered(question, |book| book.ask_report((page, peer), job, found, linger, now))
    }

    fn ask_report(
        &mut self,
        (page, peer): (u32, u32),
        job: Job,
        found: Found,
        linger: bool,
        now: u8,
    ) -> Answer {
        let before = self.page(page).clone();
        let outranked = before.fence.0 != u64::from(job.fence) || before.state.claim().is_none();
        let nothing = Answer { page, begun: None, refused: true };
        if self.wrong == Some(Wrong::LateReceiptDropped) && outranked && found == Found::Success {
            return nothing;
        }
        let mut finding = self.finding(found);
        if linger {
            finding.lingers_until = Some(instant(now).plus(TICK * 2));
        }
        let refused = finding.meaning == Meaning::Rejected;
        let verb = Report {
            account: before.account.clone(),
            id: before.id.clone(),
            attempt: u32::from(job.number),
            fence: FencingToken(u64::from(job.fence)),
            scope: None,
            worker: worker(),
            finding,
            random: 0,
            declared: self.declared.clone(),
        };
        let snapshot = self.snapshot(self.of(page), self.peer(peer).as_ref(), instant(now));
        let Ok(decided) = verb.decide(&snapshot) else { return nothing };
        let mut operation = written(decided.changes).unwrap_or_else(|| before.clone());
        let closes = match self.wrong {
            Some(Wrong::RefusalClosesAll) => !outranked,
            Some(Wrong::OutrankedRefusal) => outranked,
            Some(_) | None => false,
        };
        if refused && closes && !operation.state.is_final() {
            operation.state = State::Rejected(rejection(instant(now)));
        }
        Answer { page: self.keep(operation), begun: None, refused: false }
    }

    /// What the answer proves, as the tool's declared outcomes say.
    fn finding(&self, found: Found) -> Finding {
        let answer = |meaning, status| Finding {
            meaning,
            status: Some(status),
            error: None,
            ..Finding::unknown(Marker::BytesWritten, "")
        };
        match found {
            Found::Success => {
                Finding { reference: Some("po_1".to_owned()), ..answer(Meaning::Succeeded, 201) }
            }
            Found::Refused => match (self.copies, self.wrong) {
                // Where something may send the same bytes again, a refusal that the destination does not bind to the
                // key is about one copy.
                (true, Some(Wrong::RefusalDespiteCopies)) | (false, _) => answer(Meaning::Rejected, 422),
                (true, _) if self.tool.recovery.kind() == "idempotency_key" => answer(Meaning::Rejected, 422),
                (true, _) => answer(Meaning::Unknown, 422),
            },
            Found::BadGateway => match self.wrong {
                Some(Wrong::BadGatewayRejects) => answer(Meaning::Rejected, 502),
                Some(_) | None => answer(Meaning::Unknown, 502),
            },
            Found::Throttled => answer(Meaning::Throttled, 429),
            Found::Pending => answer(Meaning::Pending, 202),
            Found::Duplicate => match self.wrong {
                Some(Wrong::DuplicateRejects) => answer(Meaning::Rejected, 409),
                Some(_) | None => answer(Meaning::DuplicateOfOurs, 409),
            },
            Found::Stale => match (self.copies, self.wrong) {
                (true, Some(Wrong::StaleSettlesDespiteCopies)) | (false, _) => {
                    answer(Meaning::NotProcessed, 425)
                }
                (true, _) => answer(Meaning::Unknown, 425),
            },
            Found::NotSent => Finding::not_sent(Marker::NotConnected, "connection refused"),
            Found::Nothing => Finding::unknown(Marker::BytesWritten, "no answer"),
        }
    }

    /// Whether a look-up that began at `began` and found nothing settles what was sent.
    pub(crate) fn miss_counts(&self, page: u32, began: u8, now: u8) -> bool {
        let operation = self.page(page);
        let Some(last) = operation.attempts.last() else { return false };
        let complete = match &self.tool.recovery {
            Recovery::LookUp(facts) => facts.authoritative,
            _ => false,
        };
        let began = match self.wrong {
            Some(Wrong::MissRightAfterTimeout) => return complete,
            Some(Wrong::OldMissUsedLater) => now,
            Some(_) | None => began,
        };
        let began_at = instant(began);
        self.tool.recovery.miss_counts(&operation.attempts, began_at, began_at.since(last.started_at))
    }

    /// Whether a person who began to look at `began` and saw nothing may say that it did not happen.
    pub(crate) fn person_may_decide(&self, page: u32, began: u8) -> bool {
        let operation = self.page(page);
        let bound = self.tool.recovery.absence_final_at(&operation.attempts);
        self.wrong == Some(Wrong::PersonTooEarly) || bound.is_some_and(|bound| instant(began) > bound)
    }

    /// A miss that counts: every attempt is settled, and the real plan says what follows.
    pub(crate) fn settle(&mut self, page: u32, peer: u32, now: u8) -> Answer {
        self.answered(Question::Settle { page, peer, now }, |book| {
            let mut operation = book.page(page).clone();
            operation.attempts.iter_mut().for_each(|attempt| attempt.settled = true);
            let after = {
                let snapshot = book.snapshot(book.of(page), book.peer(peer).as_ref(), instant(now));
                let context = snapshot.context(&operation.tool).unwrap();
                match decide::plan(&operation, &context.facts(), &context, None, 0) {
                    Plan::Send(at) => AfterSettled::Again(Waiting { not_before: Some(at), hold: None }),
                    Plan::LookUp { .. } | Plan::Hold(_) | Plan::Over => {
                        AfterSettled::Over(rejection(instant(now)))
                    }
                }
            };
            book.happen(operation, &Event::AllSettled(after))
        })
    }

    /// A look-up that found the record.
    pub(crate) fn found(&mut self, page: u32, now: u8) -> Answer {
        self.answered(Question::Found { page, now }, |book| {
            let receipt = Receipt {
                reference: Some("po_1".to_owned()),
                result: None,
                source: ReceiptSource::Lookup,
                recorded_at: instant(now),
            };
            book.happen(book.page(page).clone(), &Event::Proved(receipt))
        })
    }

    /// A person established absence.
    pub(crate) fn absent(&mut self, page: u32, now: u8) -> Answer {
        self.answered(Question::Absent { page, now }, |book| {
            let said = Rejection { code: RejectionCode::ConfirmedAbsent, ..rejection(instant(now)) };
            book.happen(book.page(page).clone(), &Event::ConfirmedAbsent(said))
        })
    }

    fn happen(&mut self, mut operation: Operation, event: &Event) -> Answer {
        let facts = Facts {
            attempts: operation.attempts.len(),
            others_unsettled: operation.unsettled(),
            duplicate_suspected: operation.duplicate_suspected,
            overtaken: false,
        };
        match next(&operation.state, facts, event) {
            Ok(next) => {
                if let Some(state) = next.state {
                    operation.state = state;
                }
                Answer { page: self.keep(operation), begun: None, refused: false }
            }
            Err(_) => Answer { page: self.keep(operation), begun: None, refused: true },
        }
    }

    /// The own-database door: whether the effect may be done now.
    pub(crate) fn enter(&mut self, index: u8, page: u32, now: u8) -> Option<u32> {
        let entered = Enter(Prepare { execute: true, ..self.prepare_verb(index) }).decide(&self.snapshot(
            self.of(page),
            None,
            instant(now),
        ));
        let decided = entered.ok().filter(|decided| matches!(decided.reply, Entered::Go(_)))?;
        let operation = written(decided.changes).unwrap_or_else(|| self.page(page).clone());
        Some(self.keep(operation))
    }

    /// The own-database door: the receipt.
    pub(crate) fn finish(&mut self, index: u8, page: u32, now: u8) -> Answer {
        let verb = Finish {
            caller: caller(),
            id: id(index),
            reference: Some("row-1".to_owned()),
            result: None,
            declared: self.declared.clone(),
        };
        match verb.decide(&self.snapshot(self.of(page), None, instant(now))) {
            Ok(decided) => {
                let operation = written(decided.changes).unwrap_or_else(|| self.page(page).clone());
                Answer { page: self.keep(operation), begun: None, refused: false }
            }
            Err(_) => Answer { page, begun: None, refused: true },
        }
    }

    /// The state of a page in the words of the outcome sets: `held` where only a person can go on.
    pub(crate) fn label(&self, page: u32) -> &'static str {
        let operation = self.page(page);
        match &operation.state {
            State::Unknown(Open { hold: Some(_), .. }) => "held",
            State::Prepared(_)
            | State::InProgress(_)
            | State::Succeeded(_)
            | State::Rejected(_)
            | State::Unknown(_) => operation.state.label(),
        }
    }

    /// How many pages and answers there are.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.pages.len(), self.answers.len())
    }
}

fn written(changes: Changes) -> Option<Operation> {
    changes.operation.map(|write| match write {
        Write::Insert(operation) | Write::Update(operation) => *operation,
    })
}

fn rejection(at: Timestamp) -> Rejection {
    Rejection { code: RejectionCode::BudgetExhausted, detail: None, by: None, at }
}

fn id(index: u8) -> OperationId {
    OperationId::parse(&format!("approved-action-{index}")).unwrap()
}

fn worker() -> WorkerName {
    WorkerName::parse("worker").unwrap()
}

fn caller() -> Caller {
    Caller {
        account: Account::parse("kitchen").unwrap(),
        principal: Principal::parse("app").unwrap(),
        roles: Roles { agent: true, ..Roles::default() },
        tools: Vec::new(),
    }
}
