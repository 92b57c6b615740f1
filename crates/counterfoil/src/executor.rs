//! The one way to send: claim, record, send, report, each attempt in a task of its own that outlives its caller.
//!
//! Before the attempt is durable nothing is sent; from then on it counts as sent until its sender reports. A caller
//! that hangs up stops listening and changes nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caller::Caller;
use crate::destination::{Destination, Finding, Gate, LastLook, Made, first_byte_within};
use crate::error::{Error, Refusal, StoreError};
use crate::id::{Account, FencingToken, OperationId, ToolName, WorkerName};
use crate::ledger::{Ledger, NewOperation, Read};
use crate::operation::{Marker, Operation};
use crate::policy::{Carrier, Tool};
use crate::snapshot::View;
use crate::state::State;
use crate::store::{Due, DueOf, Pause};
use crate::time::Timestamp;
use crate::verbs::{Begun, Prepare, PrepareReply, Renew, Report, Start, StartReply, Tick};

mod claims;
mod look_ups;

pub use claims::{CLAIMS_AT_ONCE, ClaimAsked};
pub use look_ups::LookUpBegun;
use look_ups::{Investigation, Seen};

/// How many operations are carried on at once by this process, beside those that callers started.
const CARRIED_AT_ONCE: usize = 64;

/// How many operations of others are looked after at once: what their workers leave behind, and what is paused.
const LOOKED_AFTER_AT_ONCE: usize = 16;

/// How many due operations are read at once.
const PAGE: u32 = 256;

/// How often the ledger is asked for what is due, and pauses are read: well under the quarter of a second within which
/// a pause takes effect.
const POLL: Duration = Duration::from_millis(100);

/// How long an operation that could not be carried on is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(1);

/// Carries operations out. Clones share it.
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Inner>,
}

struct Inner {
    ledger: Ledger,
    destination: Arc<dyn Destination>,
    worker: WorkerName,
    attempts: TaskTracker,
    stopping: CancellationToken,
    pauses: watch::Sender<Arc<Vec<Pause>>>,
    seen: Mutex<HashMap<(Account, OperationId), Seen>>,
    failed: AtomicBool,
}

impl Executor {
    /// An executor over `ledger` that sends through `destination` under the name `worker`, which must be new for every
    /// process.
    #[must_use]
    pub fn new(ledger: Ledger, destination: Arc<dyn Destination>, worker: WorkerName) -> Self {
        let (pauses, _) = watch::channel(Arc::new(Vec::new()));
        Self {
            inner: Arc::new(Inner {
                ledger,
                destination,
                worker,
                attempts: TaskTracker::new(),
                stopping: CancellationToken::new(),
                pauses,
                seen: Mutex::default(),
                failed: AtomicBool::new(false),
            }),
        }
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    /// Prepares an operation and, where it is to run and may, starts it in the same commit. A caller that stops listening
    /// changes nothing.
    ///
    /// # Errors
    /// As [`Ledger::prepare`].
    pub async fn prepare(&self, caller: &Caller, new: NewOperation) -> Result<PrepareReply, Error> {
        let verb = self.inner.ledger.prepare_verb(caller, new, None, false);
        // What is stored answers first: a repeat learns what is known, not what this call lacks.
        let fresh = match self.inner.ledger.read(&verb).await? {
            Read::Answered(reply) => return Ok(reply),
            Read::Known => false,
            Read::New => true,
        };
        let made = if fresh { self.made_new(caller, &verb)? } else { None };
        let executor = self.clone();
        Box::pin(self.detached(async move { executor.commit_and_launch(verb, made).await })).await
    }

    /// Says what a prepare would do, and stores nothing.
    ///
    /// # Errors
    /// As [`Executor::prepare`].
    pub async fn dry_run(&self, caller: &Caller, new: NewOperation) -> Result<PrepareReply, Error> {
        let ledger = &self.inner.ledger;
        let verb = ledger.prepare_verb(caller, new, None, true);
        match ledger.read(&verb).await? {
            Read::Answered(reply) => return Ok(reply),
            Read::Known => {}
            Read::New => drop(self.made_new(caller, &verb)?),
        }
        ledger.store().commit(verb).await
    }

    /// The request of an operation that is not stored yet.
    fn made_new(&self, caller: &Caller, verb: &Prepare) -> Result<Option<(Made, u32)>, Refusal> {
        match verb.declared.get(&verb.tool) {
            Some((version, tool)) if tool.http().is_some() && tool.serves(&caller.account) => {
                let made = self.make(tool, &caller.account, &verb.id, 1, &verb.arguments);
                Ok(Some((made.map_err(Refusal::InvalidArguments)?, version)))
            }
            Some(_) | None => Ok(None),
        }
    }

    async fn commit_and_launch(
        self,
        mut verb: Prepare,
        made: Option<(Made, u32)>,
    ) -> Result<PrepareReply, Error> {
        let ledger = &self.inner.ledger;
        verb.offer = made.as_ref().filter(|_| verb.execute).map(|(made, version)| self.offer(made, *version));
        let since = ledger.clock().monotonic();
        self.pass("c1_before_prepare_commit");
        let reply = ledger.store().commit(verb).await?;
        match (&reply.begun, made) {
            (Begun::Started(number), Some((made, _))) => self.launch(&reply.view, *number, made, since),
            (Begun::Started(_) | Begun::Rebuild | Begun::NotNow | Begun::Blocked(_), _) => {
                self.pass("c2_prepare_committed");
            }
        }
        Ok(reply)
    }

    /// Runs a prepared operation or joins its running attempt. It returns as soon as the attempt is on its way; wait
    /// with [`Ledger::wait`]. A caller that stops listening changes nothing.
    ///
    /// # Errors
    /// [`Refusal::ApprovalRequired`], [`Refusal::BlockedByOperation`], or as [`Ledger::find`].
    pub async fn execute(&self, caller: &Caller, id: &OperationId) -> Result<View, Error> {
        let ledger = &self.inner.ledger;
        let replay = Start {
            caller: Some(caller.clone()),
            account: caller.account.clone(),
            id: id.clone(),
            offer: None,
            random: ledger.random(),
            declared: ledger.declared(),
        };
        match ledger.read(&replay).await? {
            Read::Answered(reply) => return Ok(reply.view),
            Read::New => return Err(Refusal::UnknownOperation.into()),
            Read::Known => {}
        }
        let (executor, caller, id) = (self.clone(), caller.clone(), id.clone());
        let started = async move { executor.start(Some(&caller), &caller.account, &id).await };
        let reply = Box::pin(self.detached(started)).await?;
        match reply.begun {
            Begun::Blocked(blockers) => Err(Refusal::BlockedByOperation { blockers }.into()),
            Begun::Started(_) | Begun::NotNow | Begun::Rebuild => Ok(reply.view),
        }
    }

    /// Runs `work` in a task of its own and waits for it: whoever stops waiting must not part a commit from the send
    /// that follows it. [`Executor::drain`] waits for such tasks too.
    ///
    /// # Errors
    /// As `work`; [`StoreError::Corrupt`] where it panicked, since what it wrote is then not known.
    pub async fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        match self.inner.attempts.spawn(work).await {
            Ok(done) => done,
            Err(_) => Err(StoreError::Corrupt("a call ended early".to_owned()).into()),
        }
    }

    /// Starts what may start. The request is made from the stored declaration before the commit; where the operation
    /// was bound to another one meanwhile, it is made anew.
    async fn start(
        &self,
        caller: Option<&Caller>,
        account: &Account,
        id: &OperationId,
    ) -> Result<StartReply, Error> {
        let mut tries = 0;
        loop {
            let ledger = &self.inner.ledger;
            let snapshot = ledger.store().snapshot(account, id, ledger.declared()).await?;
            let made = match snapshot.operation() {
                Ok(operation) if !operation.state.is_final() => {
                    self.made_for(operation, snapshot.stored.as_deref())
                }
                Ok(_) | Err(_) => None,
            };
            let offer = made.as_ref().map(|(made, version)| self.offer(made, *version));
            let verb = Start {
                caller: caller.cloned(),
                account: account.clone(),
                id: id.clone(),
                offer,
                random: ledger.random(),
                declared: ledger.declared(),
            };
            let since = ledger.clock().monotonic();
            let reply = ledger.submit(verb).await?;
            match (&reply.begun, made) {
                (Begun::Started(number), Some((made, _))) => {
                    self.launch(&reply.view, *number, made, since);
                    return Ok(reply);
                }
                (Begun::Rebuild, _) if tries < 3 => tries += 1,
                (Begun::Started(_) | Begun::Rebuild | Begun::NotNow | Begun::Blocked(_), _) => {
                    return Ok(reply);
                }
            }
        }
    }

    fn made_for(&self, operation: &Operation, stored: Option<&Tool>) -> Option<(Made, u32)> {
        let tool = stored.filter(|tool| tool.http().is_some())?;
        let made = self.make(
            tool,
            &operation.account,
            &operation.id,
            operation.key_generation,
            &operation.arguments,
        );
        made.ok().map(|made| (made, operation.policy_version))
    }

    fn make(
        &self,
        tool: &Tool,
        account: &Account,
        id: &OperationId,
        generation: u32,
        arguments: &crate::fingerprint::Arguments,
    ) -> Result<Made, String> {
        let key = tool
            .recovery
            .key_format()
            .map(|(format, _)| crate::keys::derive(account.as_str(), id.as_str(), generation, format));
        self.inner.destination.make(tool, account, arguments, key.as_deref())
    }

    fn offer(&self, made: &Made, policy_version: u32) -> crate::verbs::Offer {
        crate::verbs::Offer {
            worker: self.inner.worker.clone(),
            policy_version,
            request_digest: made.digest.clone(),
            scope: made.scope.clone(),
            bucket: made.bucket.clone(),
            lease: None,
            claim: None,
        }
    }

    /// Sends a recorded attempt in a task of its own. `since` was read from the monotonic clock before the commit, so
    /// that the window for the first byte is never longer than the recorded one.
    fn launch(&self, view: &View, number: u32, made: Made, since: Duration) {
        let operation = &view.operation;
        let Some(attempt) = operation.attempts.iter().find(|attempt| attempt.number == number) else {
            return;
        };
        // Remembered for the miss that may settle it one day; other tools have none.
        if view.tool.recovery.miss_can_count() {
            self.waited(&operation.account, &operation.id, operation.attempts.len());
        }
        let deadline = since + first_byte_within(operation, attempt);
        let sending = Sending {
            executor: self.clone(),
            account: operation.account.clone(),
            id: operation.id.clone(),
            tool: view.tool.clone(),
            number,
            fence: attempt.fence,
            first: number == 1,
            scope: attempt.scope.clone(),
            deadline,
            send_before: attempt.send_before,
        };
        self.inner.attempts.spawn(async move { sending.run(made).await });
    }

    /// Whether sends of `tool` under `scope` are paused, as last read.
    fn paused(&self, tool: &ToolName, scope: Option<&str>) -> bool {
        self.inner.pauses.borrow().iter().any(|pause| {
            pause.tool.as_ref().is_none_or(|name| name == tool)
                && pause.scope.as_deref().is_none_or(|paused| Some(paused) == scope)
        })
    }

    /// Carries on what is due: standing wishes, repeats, leases that ran out. Ends when [`Executor::drain`] is called
    /// or the ledger fails for good.
    pub async fn carry_on(&self) {
        let mut round = Round::default();
        while !self.inner.stopping.is_cancelled() {
            let now = self.inner.ledger.clock().monotonic();
            round.left_alone.retain(|_, until| *until > now);
            if let Err(StoreError::Poisoned(_)) = self.look_around(&mut round).await {
                self.inner.failed.store(true, Ordering::SeqCst);
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = self.inner.stopping.cancelled() => return,
            }
        }
    }

    /// One look at what is due: what this executor carries out, and apart from it what only time moves. Neither stands
    /// in the way of the other, however much of it there is.
    async fn look_around(&self, round: &mut Round) -> Result<(), StoreError> {
        let ledger = &self.inner.ledger;
        let pauses = Arc::new(ledger.store().pauses().await?);
        self.inner.pauses.send_replace(pauses.clone());
        let others: Vec<ToolName> = pauses
            .iter()
            .filter(|pause| pause.scope.is_none())
            .filter_map(|pause| pause.tool.clone())
            .chain(
                ledger
                    .declared()
                    .all()
                    .into_iter()
                    .filter(|(_, tool)| tool.worker().is_some())
                    .map(|(_, tool)| tool.name.clone()),
            )
            .collect();
        let now = ledger.clock().now();
        let due = ledger.store().due(now, PAGE, DueOf::Except(others.clone())).await?;
        self.see_to(due, round, false);
        if others.is_empty() {
            return Ok(());
        }
        let of = DueOf::Only { tools: others, after: round.after.take() };
        let due = ledger.store().due(now, PAGE, of).await?;
        let full = due.len() == PAGE as usize;
        let came_to = due.last().cloned();
        // From the beginning again after the last page.
        round.after = self.see_to(due, round, true).or(came_to.filter(|_| full));
        Ok(())
    }

    /// Carries these on, as far as there are places: the last one that had a place, where some had none.
    fn see_to(&self, due: Vec<Due>, round: &mut Round, of_others: bool) -> Option<Due> {
        let mut last = None;
        let again = self.inner.ledger.clock().monotonic() + LEFT_ALONE;
        let places = if of_others { &round.others } else { &round.places };
        for due in due {
            let (account, id) = (due.account.clone(), due.id.clone());
            let key = (account.clone(), id.clone());
            if round.left_alone.contains_key(&key) {
                continue;
            }
            let Ok(place) = places.clone().try_acquire_owned() else { return last };
            last = Some(due);
            round.left_alone.insert(key, again);
            let executor = self.clone();
            self.inner.attempts.spawn(async move {
                // Also while sends are paused: look-ups go on, and a start is refused where it would be committed.
                if let Err(error) = executor.carry(&account, &id).await {
                    tracing::warn!(account = %account, operation = %id, code = error.code(), "not carried on");
                }
                drop(place);
            });
        }
        None
    }

    /// Carries one operation on and no other, for a process that was started for its sake. Ends when
    /// [`Executor::drain`] is called or the ledger fails for good.
    pub async fn follow(&self, account: &Account, id: &OperationId) {
        let ledger = &self.inner.ledger;
        let mut again = Duration::ZERO;
        while !self.inner.stopping.is_cancelled() {
            if let Ok(pauses) = ledger.store().pauses().await {
                self.inner.pauses.send_replace(Arc::new(pauses));
            }
            if ledger.store().poisoned() {
                self.inner.failed.store(true, Ordering::SeqCst);
                return;
            }
            let now = ledger.clock().monotonic();
            if now >= again && self.due_now(account, id).await {
                again = now + LEFT_ALONE;
                if let Err(error) = self.carry(account, id).await {
                    tracing::warn!(account = %account, operation = %id, code = error.code(), "not carried on");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = self.inner.stopping.cancelled() => return,
            }
        }
    }

    /// Whether something may be due to an operation. An attempt that nobody seems to wait for is one whose lease may
    /// have run out.
    async fn due_now(&self, account: &Account, id: &OperationId) -> bool {
        let ledger = &self.inner.ledger;
        let Ok(snapshot) = ledger.store().snapshot(account, id, ledger.declared()).await else {
            return false;
        };
        match snapshot.view() {
            Ok(view) if view.operation.state.is_final() => false,
            Ok(view) => view.next.at.is_none_or(|at| at <= snapshot.now),
            Err(_) => false,
        }
    }

    /// Carries one operation on, as far as it may go now.
    ///
    /// # Errors
    /// As [`Ledger::submit`].
    pub async fn carry(&self, account: &Account, id: &OperationId) -> Result<(), Error> {
        let passed = self.tick(account, id).await?;
        if matches!(passed.operation.state, State::Unknown(_)) {
            self.pass("c3_lease_expired");
        }
        if self.investigate(&passed).await? == Investigation::GoesOn {
            return Ok(());
        }
        let wished = passed.operation.wish && !passed.operation.state.is_final();
        let startable = match passed.tool.carrier {
            Carrier::Http(_) => {
                passed.next.action == crate::decide::Action::Retry
                    || passed.next.action == crate::decide::Action::Reconcile
            }
            Carrier::Worker(_) | Carrier::Transaction => false,
        };
        if wished && startable {
            self.start(None, account, id).await?;
        }
        Ok(())
    }

    async fn tick(&self, account: &Account, id: &OperationId) -> Result<View, Error> {
        let ledger = &self.inner.ledger;
        let verb = Tick {
            account: account.clone(),
            id: id.clone(),
            random: ledger.random(),
            declared: ledger.declared(),
        };
        Ok(ledger.store().commit(verb).await?.view)
    }

    /// Passes a place where a test may end or stop the process.
    fn pass(&self, place: &'static str) {
        let _ = self.inner.ledger.store().faults().hit(place);
    }

    /// How many attempts are on their way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner.attempts.len()
    }

    /// Whether the ledger failed for good: the process must end, and the file be opened anew.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.inner.failed.load(Ordering::SeqCst)
    }

    /// Starts nothing new, stops what has not written a byte, and waits until every attempt on its way has been
    /// recorded, at most for `patience`. Returns whether all were.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.inner.stopping.cancel();
        self.inner.attempts.close();
        tokio::time::timeout(patience, self.inner.attempts.wait()).await.is_ok()
    }
}

/// What the rounds of [`Executor::carry_on`] keep between them.
struct Round {
    left_alone: HashMap<(Account, OperationId), Duration>,
    places: Arc<Semaphore>,
    others: Arc<Semaphore>,
    /// How far the last round came with what others carry out.
    after: Option<Due>,
}

impl Default for Round {
    fn default() -> Self {
        Self {
            left_alone: HashMap::new(),
            places: Arc::new(Semaphore::new(CARRIED_AT_ONCE)),
            others: Arc::new(Semaphore::new(LOOKED_AFTER_AT_ONCE)),
            after: None,
        }
    }
}

/// One recorded attempt on its way.
struct Sending {
    executor: Executor,
    account: Account,
    id: OperationId,
    tool: Arc<Tool>,
    number: u32,
    fence: FencingToken,
    first: bool,
    scope: Option<String>,
    /// On the monotonic clock: no first byte after this.
    deadline: Duration,
    /// The same in store time: a host that slept has a monotonic clock that did not count it.
    send_before: Timestamp,
}

/// The last check before the first byte: local facts only, so that nothing can come between it and the write.
struct Checks {
    executor: Executor,
    tool: ToolName,
    scope: Option<String>,
    deadline: Duration,
    send_before: Timestamp,
}

impl Gate for Checks {
    fn may_write(&self) -> Result<(), &'static str> {
        let inner = &self.executor.inner;
        self.executor.pass("connected_unchecked");
        let clock = inner.ledger.clock();
        LastLook {
            stopping: inner.stopping.is_cancelled(),
            monotonic: clock.monotonic(),
            deadline: self.deadline,
            now: clock.now(),
            send_before: self.send_before,
            paused: self.executor.paused(&self.tool, self.scope.as_deref()),
            failed: inner.ledger.store().poisoned(),
        }
        .may_write()
    }
}

impl Sending {
    async fn run(self, made: Made) {
        self.executor.pass("c4_recorded_not_sent");
        let gate = Arc::new(Checks {
            executor: self.executor.clone(),
            tool: self.tool.name.clone(),
            scope: self.scope.clone(),
            deadline: self.deadline,
            send_before: self.send_before,
        });
        let (late, mut is_late) = oneshot::channel();
        let destination = self.executor.inner.destination.clone();
        let (tool, first) = (self.tool.clone(), self.first);
        let mut answer = tokio::spawn(async move { destination.send(made, tool, first, gate, late).await });
        let mut renewal = tokio::time::interval(self.tool.lease / 3);
        renewal.tick().await;
        let mut waiting = true;
        let finding = loop {
            tokio::select! {
                finding = &mut answer => break finding,
                told = &mut is_late, if waiting => {
                    waiting = false;
                    if told.is_ok() {
                        self.report_late().await;
                    }
                }
                _ = renewal.tick(), if waiting => self.renew().await,
            }
        };
        // A sender that panicked may have written everything.
        let finding = finding.unwrap_or_else(|_| Finding::unknown(Marker::BytesWritten, "the sender failed"));
        self.report(finding).await;
    }

    /// Callers are told that there is no answer yet; the sender reads on.
    async fn report_late(&self) {
        let linger = self.tool.http().map(|http| http.linger).unwrap_or_default();
        let until = self.now().plus(linger);
        let finding = Finding {
            lingers_until: Some(until),
            ..Finding::unknown(Marker::BytesWritten, "no answer within the tool's timeout")
        };
        self.report(finding).await;
    }

    fn now(&self) -> Timestamp {
        self.executor.inner.ledger.clock().now()
    }

    async fn renew(&self) {
        let ledger = &self.executor.inner.ledger;
        let verb = Renew {
            account: self.account.clone(),
            id: self.id.clone(),
            fence: self.fence,
            worker: self.executor.inner.worker.clone(),
            declared: ledger.declared(),
        };
        // A claim that could not be renewed runs out, which proves nothing.
        if let Err(error) = ledger.store().commit(verb).await {
            tracing::warn!(operation = %self.id, code = error.code(), "claim not renewed");
        }
    }

    /// Records what was found. The effect may exist, so a store that is full or busy is asked again until it takes
    /// the report or the process ends; then the attempt stays without one and counts as sent.
    async fn report(&self, finding: Finding) {
        let ledger = &self.executor.inner.ledger;
        if finding.lingers_until.is_none() {
            self.executor.pass("c7_answer_read");
            self.executor.pass("c8_commit_sent");
        }
        let mut wait = Duration::from_millis(10);
        loop {
            let verb = Report {
                account: self.account.clone(),
                id: self.id.clone(),
                attempt: self.number,
                fence: self.fence,
                scope: self.scope.clone(),
                worker: self.executor.inner.worker.clone(),
                finding: finding.clone(),
                random: ledger.random(),
                declared: ledger.declared(),
            };
            match ledger.store().commit(verb).await {
                Ok(_) => return,
                Err(Error::Refused(refusal)) => {
                    tracing::warn!(operation = %self.id, code = refusal.code(), "report not taken");
                    return;
                }
                // Where it was written after all, saying it again adds nothing: it is the same attempt.
                Err(Error::Store(error))
                    if error.wrote_nothing() || matches!(error, StoreError::Uncertain(_)) =>
                {
                    tracing::error!(operation = %self.id, code = error.code(), "report not written yet");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(1));
                }
                Err(Error::Store(error)) => {
                    tracing::error!(operation = %self.id, code = error.code(), "the ledger failed; report lost");
                    self.executor.inner.failed.store(true, Ordering::SeqCst);
                    return;
                }
            }
        }
    }
}
