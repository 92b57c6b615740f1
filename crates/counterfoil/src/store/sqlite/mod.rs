//! The ledger in one SQLite file.
//!
//! One thread writes: whatever waits for it shares one durable commit, and nobody is answered before that commit. A
//! few threads read. No async thread ever waits for the disk. Several processes of one host may share a file; each
//! notices within 250 ms what the others committed.

mod chain;
mod embedded;
mod failure;
mod file;
mod head;
mod list;
mod mark;
mod notices;
mod opening;
mod options;
mod pauses;
mod policies;
mod readers;
mod retention;
mod row;
mod rows;
mod schema;
mod threads;
mod tokens;
#[cfg(feature = "testing")]
mod trace;
mod verify;
mod watcher;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::TrySendError;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{broadcast, oneshot, watch};

use crate::error::{Error, StoreError};
use crate::id::{Account, OperationId, ToolName};
use crate::notice::Notice;
use crate::operation::Operation;
use crate::policy::Tool;
use crate::snapshot::{Declarations, Needs, PauseDraft, Snapshot, Verb};
use crate::store::commit::Commit;
use crate::store::failure::Failure;
use crate::store::rows::Rows as _;
use crate::store::shared::Shared;
use crate::store::view::{self, View};
use crate::store::{
    AuditReport, Census, Change, Due, DueOf, EvidenceRow, Filter, MarkState, Page, Pause, Token, WorkAsked,
};
use crate::time::Timestamp;

pub use crate::store::delivery::{Delivery, Waiting};
pub use crate::store::shared::CommitStats;
pub use embedded::commit_in;
pub use options::SqliteOptions;
pub use schema::sql;
#[cfg(feature = "testing")]
pub use trace::Trace;

use file::Place;
use mark::{Found, MarkFile};
use rows::SqliteRows;
use threads::Threads;
use writer::{Job, VerbJob, WriteJob};

/// A running transaction on the file.
type SqliteCommit<'a> = Commit<'a, SqliteRows<'a>>;

/// How many purges wait for the writer at a time: few enough that callers hardly notice, enough to share flushes.
const PURGED_TOGETHER: usize = 16;

/// A ledger in a SQLite file. Clones are handles of the same ledger; the last one that goes away ends its threads.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    threads: Threads,
    mark: Option<MarkFile>,
    mark_state: MarkState,
    ledger: String,
    secret: [u8; 32],
    writer: String,
}

/// A failure of SQLite in the words of the store.
#[must_use]
pub fn store_error(error: rusqlite::Error) -> StoreError {
    Failure::from(error).into_store_error()
}

fn closed() -> StoreError {
    StoreError::Unavailable("the ledger is closed".to_owned())
}

impl SqliteStore {
    /// Opens the ledger at `path`, or makes one. `:memory:` is for tests: it is gone with the store, has no mark, and
    /// its reads wait for the writer.
    ///
    /// A file of an application with other tables may become a ledger too; the ledger's own begin with `counterfoil_`.
    /// A ledger that is older than its mark opens with everything paused.
    ///
    /// It reads and writes the disk, so an async caller opens it on a blocking thread.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] for a place, a file or a SQLite library that cannot carry a ledger;
    /// [`StoreError::Corrupt`] for a damaged one, which is never replaced by an empty one;
    /// [`StoreError::Unavailable`] where another process holds it for longer than five seconds.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        // One file has one mark, by whatever name it is reached.
        let path = std::fs::canonicalize(path.as_ref()).unwrap_or_else(|_| path.as_ref().to_owned());
        let place = Place::of(&path);
        let mark = MarkFile::beside(&place).filter(|_| options.mark);
        let found = match &mark {
            Some(mark) => mark.read().map_err(|error| unusable("its mark cannot be read", &error))?,
            None => Found::Nothing,
        };
        opening::refuse_emptied(&path, &found)?;
        file::prepare(&place)?;
        let inner = opening::start(&place, options, mark, &found).map_err(Failure::into_store_error)?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The fail points of this ledger. Empty, and without effect, outside of tests.
    #[must_use]
    pub fn faults(&self) -> &crate::faults::Faults {
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
        let (job, answer) = VerbJob::new(verb);
        self.submit(Box::new(job))?;
        match answer.await {
            Ok(outcome) => outcome,
            Err(oneshot::error::RecvError { .. }) => Err(self.writer_gone().into()),
        }
    }

    /// Runs anything else that writes.
    async fn write<R: Send + 'static>(
        &self,
        work: impl Fn(&mut SqliteCommit<'_>) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (job, answer) = WriteJob::new(work);
        self.submit(Box::new(job))?;
        match answer.await {
            Ok(outcome) => outcome,
            Err(oneshot::error::RecvError { .. }) => Err(self.writer_gone()),
        }
    }

    fn submit(&self, job: Box<dyn Job>) -> Result<(), StoreError> {
        if let Some(error) = self.inner.shared.fatal() {
            return Err(error);
        }
        let queue = self.inner.threads.queue().ok_or_else(closed)?;
        queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Unavailable("too many calls are waiting".to_owned()),
            TrySendError::Disconnected(_) => self.writer_gone(),
        })
    }

    /// The writer never goes while a call waits, unless something in it broke: nobody knows how far it came.
    fn writer_gone(&self) -> StoreError {
        let error = StoreError::Poisoned("the writing thread ended".to_owned());
        self.inner.shared.poison(error.clone());
        error
    }

    fn is_open(&self) -> Result<(), StoreError> {
        match self.inner.shared.fatal() {
            Some(error) => Err(error),
            None if self.inner.threads.queue().is_none() => Err(closed()),
            None => Ok(()),
        }
    }

    /// Reads from one consistent view.
    async fn look<R: Send + 'static>(
        &self,
        work: impl Fn(&Connection) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Error> {
        // A refusal is an answer, not a failure of the store.
        let work = move |connection: &Connection| match work(connection) {
            Ok(found) => Ok(Ok(found)),
            Err(Failure::Job(Error::Refused(refusal))) => Ok(Err(refusal)),
            Err(failure) => Err(failure),
        };
        self.is_open()?;
        let outcome = match self.inner.threads.reads() {
            Some(readers) => {
                let consistent = move |connection: &Connection| readers::consistently(connection, &work);
                readers.read(self.inner.shared.clone(), consistent).await?
            }
            None => self.write(move |commit| work(commit.rows.connection)).await?,
        };
        Ok(outcome?)
    }

    async fn fetch<R: Send + 'static>(
        &self,
        work: impl Fn(&Connection) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, StoreError> {
        self.look(work).await.map_err(|error| Failure::Job(error).into_store_error())
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
        let again = (account.clone(), id.clone(), declared.clone(), self.inner.shared.clone());
        let (account, id, shared) = (account.clone(), id.clone(), self.inner.shared.clone());
        let look = move |connection: &Connection| {
            let needs = Needs::of(&account, &id);
            let rows = SqliteRows::of(connection);
            let (policies, clocks) = (&shared.policies, &shared.clocks);
            let (pauses, newest) = (rows.pauses()?, rows.newest()?);
            View { rows: &rows, policies, clocks, pauses: &pauses, newest }.snapshot(&needs, declared.clone())
        };
        let Some(readers) = self.inner.threads.reads() else { return self.fetch(look).await };
        self.is_open()?;
        let (account, id, declared, shared) = again;
        let glance = move |connection: &Connection| match view::of_final(
            &SqliteRows::of(connection),
            &shared.policies,
            &shared.clocks,
            &account,
            &id,
            &declared,
        )? {
            Some(snapshot) => Ok(snapshot),
            None => readers::consistently(connection, look),
        };
        readers.read(self.inner.shared.clone(), glance).await
    }

    /// The operations that `filter` lets through, newest first, of one account or of all. Receipts come without their
    /// bodies. A page holds at most 200.
    ///
    /// # Errors
    /// [`crate::Refusal::InvalidCursor`], or the store could not read.
    pub async fn list(&self, account: Option<&Account>, filter: Filter) -> Result<Page<Operation>, Error> {
        let account = account.cloned();
        self.look(move |connection| list::operations(connection, account.as_ref(), &filter)).await
    }

    /// The declaration of `tool` that is stored as `version`, in force or not.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn declaration(&self, tool: &ToolName, version: u32) -> Result<Option<Arc<Tool>>, StoreError> {
        let (tool, shared) = (tool.clone(), self.inner.shared.clone());
        self.fetch(move |connection| shared.policies.get(&SqliteRows::of(connection), &tool, version)).await
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
        let (tool, key) = (tool.clone(), key.to_owned());
        self.fetch(move |connection| list::sent_under(connection, &tool, &key)).await
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
    ) -> Result<Page<EvidenceRow>, StoreError> {
        let (account, id) = (account.clone(), id.clone());
        self.fetch(move |connection| {
            list::evidence(connection, &account, Some(&id), after.unwrap_or(0), limit)
        })
        .await
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
    ) -> Result<Page<EvidenceRow>, StoreError> {
        let account = account.clone();
        self.fetch(move |connection| list::evidence(connection, &account, None, after.unwrap_or(0), limit))
            .await
    }

    /// The operations that are due at `now`, longest due first.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn due(&self, now: Timestamp, limit: u32, of: DueOf) -> Result<Vec<Due>, StoreError> {
        self.fetch(move |connection| list::due(connection, now, limit, &of)).await
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
        let (account, tool) = (account.clone(), tool.clone());
        self.fetch(move |connection| list::work(connection, &account, &tool, now, &asked)).await
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
        let (account, tool) = (account.clone(), tool.clone());
        self.fetch(move |connection| list::next_work(connection, &account, &tool, now)).await
    }

    /// The earliest instant at which anything is due.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.fetch(list::next_due).await
    }

    /// Stores declarations that differ from the newest stored ones under a new version, and says under which version
    /// each is stored. A stored declaration never changes.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn register(&self, tools: Vec<Tool>) -> Result<Declarations, StoreError> {
        self.register_and(tools, false).await
    }

    /// As [`Self::register`], and says of every other tool that it is not declared any more: whoever knows declarations
    /// from the ledger alone would go on running it. All in one commit.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn register_all(&self, tools: Vec<Tool>) -> Result<Declarations, StoreError> {
        self.register_and(tools, true).await
    }

    async fn register_and(&self, tools: Vec<Tool>, all: bool) -> Result<Declarations, StoreError> {
        let tools: Vec<Arc<Tool>> = tools.into_iter().map(Arc::new).collect();
        self.write(move |commit| {
            let mut stored = Vec::with_capacity(tools.len());
            for tool in &tools {
                crate::store::policies::check_raw_key(&commit.rows, tool)?;
                let (version, fresh) = crate::store::policies::store(&commit.rows, tool, commit.now())?;
                commit.wrote |= fresh;
                stored.push((version, tool.clone()));
            }
            if all {
                let named: Vec<&ToolName> = tools.iter().map(|tool| &tool.name).collect();
                commit.wrote |= policies::withdraw_others(commit.rows.connection, &named, commit.now())?;
            }
            Ok(Declarations::new(stored))
        })
        .await
    }

    /// Pauses sends. The same pause twice is one pause.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn pause(&self, draft: PauseDraft) -> Result<(), StoreError> {
        self.write(move |commit| commit.pause(&draft, false)).await
    }

    /// Ends every pause of `tool`, under any scope, and forgets its credential refusals; with `None`, every pause of
    /// everything, also the one of a restored ledger, whose mark is then made anew. Pauses of single tools stay when
    /// everything is resumed. Says how many ended.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn resume(&self, tool: Option<&ToolName>, by: &str, note: &str) -> Result<usize, StoreError> {
        let (tool, by, note) = (tool.cloned(), by.to_owned(), note.to_owned());
        let everything = tool.is_none();
        let ended = self.write(move |commit| commit.resume(tool.as_ref(), &by, &note)).await?;
        if everything && ended > 0 {
            self.mark_anew().await?;
        }
        Ok(ended)
    }

    /// Makes the mark from the ledger as it is now, even if that moves it back. A crash before leaves the ledger behind
    /// its mark: it starts paused once more.
    async fn mark_anew(&self) -> Result<(), StoreError> {
        let Some(mark) = self.inner.mark.clone() else { return Ok(()) };
        let ledger = self.inner.ledger.clone();
        self.fetch(move |connection| {
            let earned = mark::earned(connection, &ledger)?;
            mark.advance(&earned, true).map_err(|error| unusable("its mark cannot be written", &error))?;
            Ok(())
        })
        .await
    }

    /// The pauses in force.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.fetch(|connection| {
            Ok(pauses::in_force(connection)?.into_iter().map(|in_force| in_force.pause).collect())
        })
        .await
    }

    /// Keeps a new token.
    ///
    /// # Errors
    /// The store could not write, or ID or digest are taken.
    pub async fn create_token(&self, token: Token) -> Result<(), StoreError> {
        self.write(move |commit| tokens::create(commit, &token)).await
    }

    /// Revokes a token; `false` where there is none that is still good.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.write(move |commit| tokens::revoke(commit, &id)).await
    }

    /// Every token, also revoked and expired ones, oldest first.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.fetch(tokens::all).await
    }

    /// The token whose text has this SHA-256, whether or not it is still good.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn token_by_digest(&self, digest: &[u8; 32]) -> Result<Option<Token>, StoreError> {
        let digest = *digest;
        self.fetch(move |connection| tokens::by_digest(connection, &digest)).await
    }

    /// Every account that has operations, or tokens that were not revoked.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn accounts(&self) -> Result<Vec<Account>, StoreError> {
        self.fetch(list::accounts).await
    }

    /// Counts of one account or of all.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn census(&self, account: Option<&Account>) -> Result<Census, StoreError> {
        let account = account.cloned();
        self.fetch(move |connection| list::census(connection, account.as_ref())).await
    }

    /// Turns at most `limit` operations whose retention is over into tombstones; says how many. Each is a decision of its
    /// own, between which others get their turn; those that wait together share a flush.
    ///
    /// # Errors
    /// The store could not read or write. What was purged before stays purged.
    pub async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        self.write(notices::forget).await?;
        let now = self.now();
        let expired = self.fetch(move |connection| retention::expired(connection, now, limit)).await?;
        let mut purged = 0;
        let mut expired = expired.into_iter();
        loop {
            let mut answers = Vec::with_capacity(PURGED_TOGETHER);
            for key in expired.by_ref().take(PURGED_TOGETHER) {
                let shared = self.inner.shared.clone();
                let bury = move |commit: &mut SqliteCommit<'_>| retention::bury(commit, &shared.faults, &key);
                let (job, answer) = WriteJob::new(bury);
                self.submit(Box::new(job))?;
                answers.push(answer);
            }
            if answers.is_empty() {
                return Ok(purged);
            }
            for answer in answers {
                let buried = answer.await.map_err(|_| self.writer_gone())??;
                purged += u64::from(buried);
                self.inner.shared.counters.purged(buried);
            }
        }
    }

    /// Keeps note of who is told of changes. One that is new hears of what happens from now on.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn listen(&self, name: &str) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.write(move |commit| notices::listen(commit, &name)).await
    }

    /// The next notice for a listener, without taking it. `not_before` tells of a delay, or of another process that
    /// speaks to them.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn waiting_notice(&self, listener: &str) -> Result<Option<Waiting>, StoreError> {
        let (listener, holder) = (listener.to_owned(), self.inner.writer.clone());
        self.fetch(move |connection| notices::waiting(connection, &listener, &holder)).await
    }

    /// Takes the next notice for a listener, if it is due and no other process speaks to them. Whoever took it has this
    /// long to deliver it; after a crash somebody else takes it then.
    ///
    /// # Errors
    /// The store could not write.
    pub async fn take_notice(&self, listener: &str, lease: Duration) -> Result<Option<Waiting>, StoreError> {
        let (listener, holder) = (listener.to_owned(), self.inner.writer.clone());
        self.write(move |commit| notices::take(commit, &listener, &holder, lease)).await
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
        let (listener, holder) = (listener.to_owned(), self.inner.writer.clone());
        self.write(move |commit| notices::settle(commit, &listener, &holder, &notice, &delivery)).await
    }

    /// Walks the whole evidence. It takes a reading thread for as long as that lasts.
    ///
    /// # Errors
    /// The store could not read.
    pub async fn verify(&self) -> Result<AuditReport, StoreError> {
        let mark = self.inner.mark.clone();
        self.fetch(move |connection| {
            let found = match &mark {
                Some(mark) => Some(mark.read().map_err(|error| unusable("its mark cannot be read", &error))?),
                None => None,
            };
            verify::verify(connection, found.as_ref())
        })
        .await
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

    /// Store time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.shared.clocks.now()
    }

    /// Every change that this process committed, right after its commit, and those of others within 250 ms. A listener
    /// that falls too far behind is told so and has to read again. A transaction of the application
    /// ([`commit_in`]) is noticed like one of another process.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.shared.subscribe()
    }

    /// Changes whenever pauses began or ended, here at once and elsewhere within 250 ms: read [`SqliteStore::pauses`].
    #[must_use]
    pub fn pauses_changed(&self) -> watch::Receiver<u64> {
        self.inner.shared.watch_pauses()
    }

    /// Changes whenever tokens were made or revoked, here at once and elsewhere within 250 ms: forget what was read.
    #[must_use]
    pub fn tokens_changed(&self) -> watch::Receiver<u64> {
        self.inner.shared.watch_tokens()
    }

    /// Whether the store answers nothing any more.
    #[must_use]
    pub fn poisoned(&self) -> bool {
        self.inner.shared.fatal().is_some()
    }

    /// Waits until the store answers nothing any more, and says why. It may wait for ever.
    pub async fn until_poisoned(&self) -> StoreError {
        let mut fatal = self.inner.shared.watch_fatal();
        match fatal.wait_for(Option::is_some).await.map(|error| error.clone()) {
            Ok(Some(error)) => error,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// How well commits were shared so far.
    #[must_use]
    pub fn commit_stats(&self) -> CommitStats {
        self.inner.shared.counters.read()
    }

    /// Takes no further calls, finishes those that wait, ends the threads and leaves a mark. Later calls are refused.
    pub async fn close(&self) {
        self.inner.threads.stop().await;
    }
}

fn unusable(what: &str, error: &std::io::Error) -> StoreError {
    StoreError::Unusable(format!("{what}: {error}"))
}
