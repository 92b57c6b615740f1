//! The ledger in one PostgreSQL database that many nodes share.
//!
//! Verbs decide in this process, as with any store. Whoever changes anything of an account holds that account's row, so
//! that two nodes never decide about it at once; whatever waits in one node shares one transaction. Nothing rests on what
//! a connection remembers, so that a pooler may stand between.

mod address;
mod clock;
mod committer;
mod failure;
mod flush;
mod identity;
mod list;
mod load;
mod mark;
mod node;
mod notices;
mod opening;
mod options;
mod page;
mod retention;
mod schema;
mod session;
mod tokens;
mod verify;
mod watcher;
mod wire;
mod wires;
mod written;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::error::{Error, StoreError};
use crate::faults::Faults;
use crate::id::{Account, OperationId, ToolName};
use crate::notice::Notice;
use crate::operation::Operation;
use crate::policy::Tool;
use crate::snapshot::{Declarations, Needs, PauseDraft, Snapshot, Verb};
use crate::store::delivery::{Delivery, Waiting};
use crate::store::failure::Failure;
use crate::store::policies;
use crate::store::rows::Rows as _;
use crate::store::shared::CommitStats;
use crate::store::view::{self, View};
use crate::store::{
    AuditReport, Census, Change, Due, DueOf, EvidenceRow, Filter, MarkState, Page as ListPage, Pause, Token,
    WorkAsked,
};
use crate::time::{Clock, Timestamp};

pub use options::PostgresOptions;
pub use schema::sql;

use committer::VerbJob;
use node::Inner;
use page::Page;
use session::{Reach, Session};
use wires::Held;
use written::PageRows;

/// A ledger in a PostgreSQL database. Clones are handles of the same ledger.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    inner: Arc<Inner>,
    _alive: Arc<Alive>,
}

fn closed() -> StoreError {
    StoreError::Unavailable("the ledger is closed".to_owned())
}

impl PostgresStore {
    /// Opens the ledger in the database at `url`, or makes one in the schema `counterfoil`.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] for an address or a server that cannot carry a ledger; [`StoreError::Unavailable`] where
    /// it cannot be reached.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let (inner, queue, batch) = opening::start(url, options).await.map_err(Failure::into_store_error)?;
        let inner = Arc::new(inner);
        let seen = watcher::begin(&inner).await.map_err(Failure::into_store_error)?;
        let committer = tokio::spawn(committer::work(inner.clone(), queue, batch));
        let watcher = tokio::spawn(watcher::work(inner.clone(), seen));
        inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend([committer, watcher]);
        Ok(Self { _alive: Arc::new(Alive(inner.clone())), inner })
    }

    /// The fail points of this ledger. Empty, and without effect, outside of tests.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.inner.shared.faults
    }

    /// Runs a verb: load, decide and write in one durable commit, shared with whoever else waits.
    ///
    /// A crash before the commit leaves nothing of it; a crash after it leaves all of it. Dropping the future does not
    /// take it back.
    ///
    /// # Errors
    /// A refusal wrote nothing. For a [`StoreError`], [`StoreError::wrote_nothing`] says whether that is certain.
    pub async fn commit<V: Verb>(&self, verb: V) -> Result<V::Reply, Error> {
        self.is_open()?;
        let (job, answer) = VerbJob::new(verb);
        let queue = self.inner.queue.read().unwrap_or_else(PoisonError::into_inner).clone();
        let queue = queue.ok_or_else(closed)?;
        queue.try_send(Box::new(job)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                StoreError::Unavailable("too many calls are waiting".to_owned())
            }
            mpsc::error::TrySendError::Closed(_) => closed(),
        })?;
        drop(queue);
        match answer.await {
            Ok(outcome) => outcome,
            // The committer never goes while a call waits, unless something in it broke.
            Err(oneshot::error::RecvError { .. }) => {
                let error = StoreError::Poisoned("the committer ended".to_owned());
                self.inner.poison(error.clone());
                Err(error.into())
            }
        }
    }

    fn is_open(&self) -> Result<(), StoreError> {
        match self.inner.fatal() {
            Some(error) => Err(error),
            None if self.inner.stopping.is_cancelled() => Err(closed()),
            None => Ok(()),
        }
    }

    /// Begins a transaction that is not shared.
    async fn alone(&self, reach: Reach) -> Result<Session<'_>, StoreError> {
        self.is_open()?;
        Session::begin(&self.inner, &reach).await.map_err(Failure::into_store_error)
    }

    /// A connection for one read.
    async fn read(&self) -> Result<Held, StoreError> {
        self.is_open()?;
        self.inner.reads.take(&self.inner).await.map_err(Failure::into_store_error)
    }

    /// Ends a read: a connection over which it failed is not used again.
    fn done<R>(&self, held: Held, outcome: Result<R, Failure>) -> Result<R, Error> {
        let refused = matches!(outcome, Err(Failure::Job(Error::Refused(_))));
        self.inner.reads.give_back(held, outcome.is_ok() || refused);
        outcome.map_err(Failure::into_error)
    }

    fn done_reading<R>(&self, held: Held, outcome: Result<R, Failure>) -> Result<R, StoreError> {
        self.done(held, outcome).map_err(|error| Failure::Job(error).into_store_error())
    }

    /// What is known of an operation, without writing anything.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn snapshot(
        &self,
        account: &Account,
        id: &OperationId,
        declared: Arc<Declarations>,
    ) -> Result<Snapshot, StoreError> {
        let held = self.read().await?;
        let outcome = self.snapshot_over(&held, account, id, declared).await;
        self.done_reading(held, outcome)
    }

    async fn snapshot_over(
        &self,
        held: &Held,
        account: &Account,
        id: &OperationId,
        declared: Arc<Declarations>,
    ) -> Result<Snapshot, Failure> {
        // Where it is final, nothing around it matters any more: one statement, and no transaction.
        let mut page = Box::<Page>::default();
        page.operations.want((account.clone(), id.clone()));
        loop {
            load::load(held, &mut page, false).await?;
            let written = std::cell::RefCell::default();
            let rows = PageRows { page: &page, written: &written };
            let (policies, clocks) = (&self.inner.policies, &self.inner.clocks);
            match view::of_final(&rows, policies, clocks, account, id, &declared) {
                Ok(Some(snapshot)) => return Ok(snapshot),
                Ok(None) => break,
                Err(Failure::Missing) => {}
                Err(failure) => return Err(failure),
            }
        }
        held.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let outcome = self.snapshot_within(held, account, id, &declared).await;
        let ended = held.run("ROLLBACK").await;
        let snapshot = outcome?;
        ended.map(|()| snapshot)
    }

    async fn snapshot_within(
        &self,
        held: &Held,
        account: &Account,
        id: &OperationId,
        declared: &Arc<Declarations>,
    ) -> Result<Snapshot, Failure> {
        let mut page = Box::<Page>::default();
        page.operations.want((account.clone(), id.clone()));
        page.pauses.want(());
        if let Some(end) = load::end_of(held, account).await? {
            page.ends.insert(account.clone(), end);
        }
        loop {
            load::load(held, &mut page, false).await?;
            let written = std::cell::RefCell::default();
            let rows = PageRows { page: &page, written: &written };
            let (policies, clocks) = (&self.inner.policies, &self.inner.clocks);
            let needs = Needs::of(account, id);
            let seen = rows.pauses().and_then(|pauses| {
                let newest = rows.newest()?;
                View { rows: &rows, policies, clocks, pauses: &pauses, newest }
                    .snapshot(&needs, declared.clone())
            });
            match seen {
                Err(Failure::Missing) => {}
                other => return other,
            }
        }
    }

    /// The operations that `filter` lets through, newest first, of one account or of all. Receipts come without their
    /// bodies. A page holds at most 200.
    ///
    /// # Errors
    /// [`crate::Refusal::InvalidCursor`], or the store could not read.
    pub async fn list(
        &self,
        account: Option<&Account>,
        filter: Filter,
    ) -> Result<ListPage<Operation>, Error> {
        let held = self.read().await?;
        let outcome = list::operations(&held, account, &filter).await;
        self.done(held, outcome)
    }

    /// The declaration of `tool` that is stored as `version`, in force or not.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn declaration(&self, tool: &ToolName, version: u32) -> Result<Option<Arc<Tool>>, StoreError> {
        let held = self.read().await?;
        let outcome = self.declaration_over(&held, tool, version).await;
        self.done_reading(held, outcome)
    }

    async fn declaration_over(
        &self,
        held: &Held,
        tool: &ToolName,
        version: u32,
    ) -> Result<Option<Arc<Tool>>, Failure> {
        let mut page = Box::<Page>::default();
        page.policies.want((tool.clone(), version));
        load::load(held, &mut page, false).await?;
        let written = std::cell::RefCell::default();
        self.inner.policies.get(&PageRows { page: &page, written: &written }, tool, version)
    }

    /// The operations of a tool that this key or reference was sent for, in whatever account; two are enough to know
    /// that it names none.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn sent_under(
        &self,
        tool: &ToolName,
        key: &str,
    ) -> Result<Vec<(Account, OperationId)>, StoreError> {
        let held = self.read().await?;
        let outcome = list::sent_under(&held, tool, key).await;
        self.done_reading(held, outcome)
    }

    /// The evidence of an operation after a position, oldest first; at most 200 rows.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn evidence(
        &self,
        account: &Account,
        id: &OperationId,
        after: Option<u64>,
        limit: u32,
    ) -> Result<ListPage<EvidenceRow>, StoreError> {
        let held = self.read().await?;
        let outcome = list::evidence(&held, account, Some(id), after.unwrap_or(0), limit).await;
        self.done_reading(held, outcome)
    }

    /// The evidence of every operation of an account after a position, oldest first; at most 200 rows.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn events(
        &self,
        account: &Account,
        after: Option<u64>,
        limit: u32,
    ) -> Result<ListPage<EvidenceRow>, StoreError> {
        let held = self.read().await?;
        let outcome = list::evidence(&held, account, None, after.unwrap_or(0), limit).await;
        self.done_reading(held, outcome)
    }

    /// The operations that are due at `now`, longest due first.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn due(&self, now: Timestamp, limit: u32, of: DueOf) -> Result<Vec<Due>, StoreError> {
        let held = self.read().await?;
        let outcome = list::due(&held, now, limit, &of).await;
        self.done_reading(held, outcome)
    }

    /// The operations of one tool that a worker may take at `now`, longest due first.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn work(
        &self,
        account: &Account,
        tool: &ToolName,
        now: Timestamp,
        asked: WorkAsked,
    ) -> Result<Vec<Due>, StoreError> {
        let held = self.read().await?;
        let outcome = list::work(&held, account, tool, now, &asked).await;
        self.done_reading(held, outcome)
    }

    /// The earliest instant after `now` at which a worker may take something of one tool.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn next_work(
        &self,
        account: &Account,
        tool: &ToolName,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let held = self.read().await?;
        let outcome = list::next_work(&held, account, tool, now).await;
        self.done_reading(held, outcome)
    }

    /// The earliest instant at which anything is due.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let held = self.read().await?;
        let outcome = list::next_due(&held).await;
        self.done_reading(held, outcome)
    }

    /// Stores declarations that differ from the newest stored ones under a new version, and says under which version
    /// each is stored. A stored declaration never changes.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn register(&self, tools: Vec<Tool>) -> Result<Declarations, StoreError> {
        let tools: Vec<Arc<Tool>> = tools.into_iter().map(Arc::new).collect();
        let stored = self
            .by_itself(|commit| {
                let mut stored = Vec::with_capacity(tools.len());
                let mut missing = false;
                for tool in &tools {
                    let checked = policies::check_raw_key(&commit.rows, tool)
                        .and_then(|()| policies::store(&commit.rows, tool, commit.now()));
                    match checked {
                        Ok((version, fresh)) => {
                            commit.wrote |= fresh;
                            stored.push((version, tool.clone()));
                        }
                        // The others are asked for at the same time.
                        Err(Failure::Missing) => missing = true,
                        Err(failure) => return Err(failure),
                    }
                }
                if missing { Err(Failure::Missing) } else { Ok(stored) }
            })
            .await?;
        Ok(Declarations::new(stored))
    }

    /// As [`Self::register`]. Nobody knows declarations from the database alone: every caller there brings its own.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn register_all(&self, tools: Vec<Tool>) -> Result<Declarations, StoreError> {
        self.register(tools).await
    }

    /// Runs something that changes what belongs to no account, in a transaction of its own.
    async fn by_itself<R>(
        &self,
        mut work: impl FnMut(&mut crate::store::commit::Commit<'_, PageRows<'_>>) -> Result<R, Failure>,
    ) -> Result<R, StoreError> {
        let mut session = self.alone(Reach::ledger()).await?;
        match session.with(&mut work).await {
            Ok((reply, news)) => {
                session.commit().await.map_err(Failure::into_store_error)?;
                self.inner.announce(news);
                Ok(reply)
            }
            Err(failure) => {
                session.roll_back().await;
                Err(failure.into_store_error())
            }
        }
    }

    /// Pauses sends. The same pause twice is one pause.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn pause(&self, draft: PauseDraft) -> Result<(), StoreError> {
        self.by_itself(|commit| commit.pause(&draft, false)).await
    }

    /// Ends every pause of `tool`, under any scope, and forgets its credential refusals; with `None`, every pause of
    /// everything, also the one of a restored ledger, whose mark is then made anew. Pauses of single tools stay when
    /// everything is resumed. Says how many ended.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn resume(&self, tool: Option<&ToolName>, by: &str, note: &str) -> Result<usize, StoreError> {
        let ended = self.by_itself(|commit| commit.resume(tool, by, note)).await?;
        if tool.is_none() && ended > 0 {
            watcher::mark_anew(&self.inner).await;
        }
        Ok(ended)
    }

    /// The pauses in force.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        let held = self.read().await?;
        let outcome = list::pauses(&held).await;
        self.done_reading(held, outcome)
    }

    /// Keeps a new token.
    ///
    /// # Errors
    /// The store could not write, or ID or digest are taken.
    pub async fn create_token(&self, token: Token) -> Result<(), StoreError> {
        let session = self.alone(Reach::ledger()).await?;
        let news = tokens::create(session, &token).await.map_err(Failure::into_store_error)?;
        self.inner.announce(news);
        Ok(())
    }

    /// Revokes a token; `false` where there is none that is still good.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, StoreError> {
        let session = self.alone(Reach::ledger()).await?;
        let (revoked, news) = tokens::revoke(session, id).await.map_err(Failure::into_store_error)?;
        self.inner.announce(news);
        Ok(revoked)
    }

    /// Every token, also revoked and expired ones, oldest first.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let held = self.read().await?;
        let outcome = tokens::all(&held).await;
        self.done_reading(held, outcome)
    }

    /// The token whose text has this SHA-256, whether or not it is still good.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn token_by_digest(&self, digest: &[u8; 32]) -> Result<Option<Token>, StoreError> {
        let held = self.read().await?;
        let outcome = tokens::by_digest(&held, digest).await;
        self.done_reading(held, outcome)
    }

    /// Every account that has operations, or tokens that were not revoked.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn accounts(&self) -> Result<Vec<Account>, StoreError> {
        let held = self.read().await?;
        let outcome = list::accounts(&held).await;
        self.done_reading(held, outcome)
    }

    /// Counts of one account or of all.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn census(&self, account: Option<&Account>) -> Result<Census, StoreError> {
        let held = self.read().await?;
        let outcome = list::census(&held, account).await;
        self.done_reading(held, outcome)
    }

    /// Turns at most `limit` operations whose retention is over into tombstones; says how many. Each is a decision of its
    /// own, between which others get their turn.
    ///
    /// # Errors
    /// The store could not read or write. What was purged before stays purged.
    pub async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        let session = self.alone(Reach::ledger()).await?;
        notices::forget(session).await.map_err(Failure::into_store_error)?;
        let held = self.read().await?;
        let outcome = retention::expired(&held, self.now(), limit).await;
        let expired = self.done_reading(held, outcome)?;
        let mut purged = 0;
        for key in expired {
            let session = self.alone(Reach::of([key.account.clone()])).await?;
            let buried = retention::bury(session, &key).await.map_err(Failure::into_store_error)?;
            if let Some(news) = buried {
                self.inner.announce(news);
                purged += 1;
                self.inner.counters.purged(true);
            }
        }
        Ok(purged)
    }

    /// Keeps note of who is told of changes. One that is new hears of what happens from now on.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn listen(&self, name: &str) -> Result<(), StoreError> {
        let session = self.alone(Reach::ledger()).await?;
        notices::listen(session, name).await.map_err(Failure::into_store_error)
    }

    /// The next notice for a listener, without taking it. `not_before` tells of a delay, or of another process that
    /// speaks to them.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn waiting_notice(&self, listener: &str) -> Result<Option<Waiting>, StoreError> {
        let held = self.read().await?;
        let outcome = notices::waiting(&held, listener, &self.inner.writer).await;
        self.done_reading(held, outcome)
    }

    /// Takes the next notice for a listener, if it is due and no other process speaks to them. Whoever took it has this
    /// long to deliver it; after a crash somebody else takes it then.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn take_notice(&self, listener: &str, lease: Duration) -> Result<Option<Waiting>, StoreError> {
        let session = self.alone(Reach::of([])).await?;
        notices::take(session, listener, lease).await.map_err(Failure::into_store_error)
    }

    /// Records how the delivery of a notice ended. A crash before this means that it is said again, under the same name.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn notice_delivered(
        &self,
        listener: &str,
        notice: Notice,
        delivery: Delivery,
    ) -> Result<(), StoreError> {
        let reach = match &delivery {
            // What is given up is noted in the ledger's own evidence.
            Delivery::GivenUp(_) => Reach::ledger(),
            Delivery::Done | Delivery::Failed(_) => Reach::of([]),
        };
        let session = self.alone(reach).await?;
        notices::settle(session, listener, &notice, &delivery).await.map_err(Failure::into_store_error)
    }

    /// Walks the whole evidence.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn verify(&self) -> Result<AuditReport, StoreError> {
        let held = self.read().await?;
        let outcome = verify::verify(&held).await;
        self.done_reading(held, outcome)
    }

    /// How the ledger stood to its mark when it was opened.
    #[must_use]
    pub fn mark_state(&self) -> MarkState {
        self.inner.mark_state
    }

    /// A random secret of this ledger, made with it, for digests that only it can make.
    #[must_use]
    pub fn ledger_secret(&self) -> [u8; 32] {
        self.inner.secret
    }

    /// The name of this store's evidence chains.
    #[must_use]
    pub fn writer(&self) -> &str {
        &self.inner.writer
    }

    /// Where time comes from: store time as the database tells it, and this process's monotonic clock.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clocks.source()
    }

    /// Store time, never ahead of the database's.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.clocks.now()
    }

    /// Every change that this process committed, right after its commit, and those of others within 250 ms. A listener
    /// that falls too far behind is told so and has to read again.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.subscribe()
    }

    /// Changes whenever pauses began or ended, here at once and elsewhere within 250 ms.
    #[must_use]
    pub fn pauses_changed(&self) -> watch::Receiver<u64> {
        self.inner.watch_pauses()
    }

    /// Changes whenever tokens were made or revoked, here at once and elsewhere within 250 ms: forget what was read.
    #[must_use]
    pub fn tokens_changed(&self) -> watch::Receiver<u64> {
        self.inner.watch_tokens()
    }

    /// Whether the store answers nothing any more.
    #[must_use]
    pub fn poisoned(&self) -> bool {
        self.inner.fatal().is_some()
    }

    /// Waits until the store answers nothing any more, and says why. It may wait for ever.
    pub async fn until_poisoned(&self) -> StoreError {
        let mut fatal = self.inner.watch_fatal();
        match fatal.wait_for(Option::is_some).await.map(|error| error.clone()) {
            Ok(Some(error)) => error,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// How well commits were shared so far.
    #[must_use]
    pub fn commit_stats(&self) -> CommitStats {
        self.inner.counters.read()
    }

    /// Takes no further calls, finishes those that wait, and leaves a mark. Later calls are refused.
    pub async fn close(&self) {
        drop(self.inner.queue.write().unwrap_or_else(PoisonError::into_inner).take());
        self.inner.stopping.cancel();
        let tasks = std::mem::take(&mut *self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            drop(task.await);
        }
    }
}

/// Ends the ledger's tasks with its last handle: they hold the rest of it.
#[derive(Debug)]
struct Alive(Arc<Inner>);

impl Drop for Alive {
    fn drop(&mut self) {
        drop(self.0.queue.write().unwrap_or_else(PoisonError::into_inner).take());
        self.0.stopping.cancel();
    }
}
