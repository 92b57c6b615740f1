//! Whichever store keeps the ledger.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, watch};

use super::delivery::{Delivery, Waiting};
#[cfg(feature = "postgres")]
use super::postgres::PostgresStore;
use super::shared::CommitStats;
#[cfg(feature = "sqlite")]
use super::sqlite::SqliteStore;
use super::{
    AuditReport, Census, Change, Due, DueOf, EvidenceRow, Filter, MarkState, Page, Pause, Token, WorkAsked,
};
use crate::error::{Error, StoreError};
use crate::faults::Faults;
use crate::id::{Account, OperationId, ToolName};
use crate::notice::Notice;
use crate::operation::Operation;
use crate::policy::Tool;
use crate::snapshot::{Declarations, PauseDraft, Snapshot, Verb};
use crate::time::Timestamp;

/// The store of a ledger: the same calls and the same answers, whichever it is. Clones are handles of the same one.
#[derive(Clone, Debug)]
pub enum Store {
    /// One SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteStore),
    /// One PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
}

#[cfg(feature = "sqlite")]
impl From<SqliteStore> for Store {
    fn from(store: SqliteStore) -> Self {
        Self::Sqlite(store)
    }
}

#[cfg(feature = "postgres")]
impl From<PostgresStore> for Store {
    fn from(store: PostgresStore) -> Self {
        Self::Postgres(store)
    }
}

/// Asks whichever store it is.
macro_rules! ask {
    ($store:expr, $call:ident ( $($argument:expr),* ).await) => {
        match $store {
            #[cfg(feature = "sqlite")]
            Store::Sqlite(store) => store.$call($($argument),*).await,
            // What waits for a network is large, and nobody else shall carry it.
            #[cfg(feature = "postgres")]
            Store::Postgres(store) => Box::pin(store.$call($($argument),*)).await,
        }
    };
    ($store:expr, $call:ident ( $($argument:expr),* )) => {
        match $store {
            #[cfg(feature = "sqlite")]
            Store::Sqlite(store) => store.$call($($argument),*),
            #[cfg(feature = "postgres")]
            Store::Postgres(store) => store.$call($($argument),*),
        }
    };
}

impl Store {
    /// Runs a verb: load, decide and write in one durable commit, shared with whoever else waits.
    ///
    /// A crash before the commit leaves nothing of it; a crash after it leaves all of it. Dropping the future does not
    /// take it back.
    ///
    /// # Errors
    /// A refusal wrote nothing. For a [`StoreError`], [`StoreError::wrote_nothing`] says whether that is certain.
    pub async fn commit<V: Verb>(&self, verb: V) -> Result<V::Reply, Error> {
        ask!(self, commit(verb).await)
    }

    /// The operations that `filter` lets through, newest first, of one account or of all. A page holds at most 200.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn list(&self, account: Option<&Account>, filter: Filter) -> Result<Page<Operation>, Error> {
        ask!(self, list(account, filter).await)
    }

    /// What is known of an operation, without writing anything.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn snapshot(
        &self,
        account: &Account,
        id: &OperationId,
        declared: Arc<Declarations>,
    ) -> Result<Snapshot, StoreError> {
        ask!(self, snapshot(account, id, declared).await)
    }

    /// The declaration of `tool` that is stored as `version`, in force or not.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn declaration(&self, tool: &ToolName, version: u32) -> Result<Option<Arc<Tool>>, StoreError> {
        ask!(self, declaration(tool, version).await)
    }

    /// The operations of a tool that this key or reference was sent for, in whatever account; two are enough to know
    /// that it names none.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn sent_under(
        &self,
        tool: &ToolName,
        key: &str,
    ) -> Result<Vec<(Account, OperationId)>, StoreError> {
        ask!(self, sent_under(tool, key).await)
    }

    /// The evidence of an operation after a position, oldest first; at most 200 rows.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn evidence(
        &self,
        account: &Account,
        id: &OperationId,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Page<EvidenceRow>, StoreError> {
        ask!(self, evidence(account, id, after, limit).await)
    }

    /// The evidence of every operation of an account after a position, oldest first; at most 200 rows.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn events(
        &self,
        account: &Account,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Page<EvidenceRow>, StoreError> {
        ask!(self, events(account, after, limit).await)
    }

    /// The operations that are due at `now`, longest due first.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn due(&self, now: Timestamp, limit: u32, of: DueOf) -> Result<Vec<Due>, StoreError> {
        ask!(self, due(now, limit, of).await)
    }

    /// The operations of one tool that a worker may take at `now`, longest due first.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn work(
        &self,
        account: &Account,
        tool: &ToolName,
        now: Timestamp,
        asked: WorkAsked,
    ) -> Result<Vec<Due>, StoreError> {
        ask!(self, work(account, tool, now, asked).await)
    }

    /// The earliest instant after `now` at which a worker may take something of one tool.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn next_work(
        &self,
        account: &Account,
        tool: &ToolName,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        ask!(self, next_work(account, tool, now).await)
    }

    /// The earliest instant at which anything is due.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        ask!(self, next_due().await)
    }

    /// Stores declarations that differ from the newest stored ones under a new version, and says under which version
    /// each is stored. A stored declaration never changes.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn register(&self, tools: Vec<Tool>) -> Result<Declarations, StoreError> {
        ask!(self, register(tools).await)
    }

    /// As [`Store::register`], and says of every other tool that it is not declared any more: whoever knows declarations
    /// from the ledger alone would go on running it. All in one commit.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn register_all(&self, tools: Vec<Tool>) -> Result<Declarations, StoreError> {
        ask!(self, register_all(tools).await)
    }

    /// Pauses sends. The same pause twice is one pause.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn pause(&self, draft: PauseDraft) -> Result<(), StoreError> {
        ask!(self, pause(draft).await)
    }

    /// Ends every pause of `tool`, under any scope, and forgets its credential refusals; with `None`, every pause of
    /// everything, also the one of a restored ledger. Pauses of single tools stay when everything is resumed. Says
    /// how many ended.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn resume(&self, tool: Option<&ToolName>, by: &str, note: &str) -> Result<usize, StoreError> {
        ask!(self, resume(tool, by, note).await)
    }

    /// The pauses in force.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        ask!(self, pauses().await)
    }

    /// Keeps a new token.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn create_token(&self, token: Token) -> Result<(), StoreError> {
        ask!(self, create_token(token).await)
    }

    /// Revokes a token; `false` where there is none that is still good.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, StoreError> {
        ask!(self, revoke_token(id).await)
    }

    /// Every token, also revoked and expired ones, oldest first.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        ask!(self, tokens().await)
    }

    /// The token whose text has this SHA-256, whether or not it is still good.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn token_by_digest(&self, digest: &[u8; 32]) -> Result<Option<Token>, StoreError> {
        ask!(self, token_by_digest(digest).await)
    }

    /// Every account that has operations, or tokens that were not revoked.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn accounts(&self) -> Result<Vec<Account>, StoreError> {
        ask!(self, accounts().await)
    }

    /// Counts of one account or of all.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn census(&self, account: Option<&Account>) -> Result<Census, StoreError> {
        ask!(self, census(account).await)
    }

    /// Turns at most `limit` operations whose retention is over into tombstones; says how many.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        ask!(self, purge(limit).await)
    }

    /// Keeps note of who is told of changes. One that is new hears of what happens from now on.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn listen(&self, name: &str) -> Result<(), StoreError> {
        ask!(self, listen(name).await)
    }

    /// The next notice for a listener, without taking it. `not_before` tells of a delay, or of another process that
    /// speaks to them.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn waiting_notice(&self, listener: &str) -> Result<Option<Waiting>, StoreError> {
        ask!(self, waiting_notice(listener).await)
    }

    /// Takes the next notice for a listener, if it is due and no other process speaks to them. Whoever took it has
    /// this long to deliver it; after a crash somebody else takes it then.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn take_notice(&self, listener: &str, lease: Duration) -> Result<Option<Waiting>, StoreError> {
        ask!(self, take_notice(listener, lease).await)
    }

    /// Records how the delivery of a notice ended. A crash before this means that it is said again, under the same
    /// name.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn notice_delivered(
        &self,
        listener: &str,
        notice: Notice,
        delivery: Delivery,
    ) -> Result<(), StoreError> {
        ask!(self, notice_delivered(listener, notice, delivery).await)
    }

    /// Walks the whole evidence.
    ///
    /// # Errors
    /// What the store could not do.
    pub async fn verify(&self) -> Result<AuditReport, StoreError> {
        ask!(self, verify().await)
    }

    /// The fail points of this ledger. Empty, and without effect, outside of tests.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        ask!(self, faults())
    }

    /// How the ledger stood to its mark when it was opened.
    #[must_use]
    pub fn mark_state(&self) -> MarkState {
        ask!(self, mark_state())
    }

    /// A random secret of this ledger, made with it, for digests that only it can make.
    #[must_use]
    pub fn ledger_secret(&self) -> [u8; 32] {
        ask!(self, ledger_secret())
    }

    /// The name of this store's evidence chains.
    #[must_use]
    pub fn writer(&self) -> &str {
        ask!(self, writer())
    }

    /// Store time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        ask!(self, now())
    }

    /// Every change that this process committed, right after its commit, and those of others within 250 ms. A
    /// listener that falls too far behind is told so and has to read again.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        ask!(self, changes())
    }

    /// Changes whenever pauses began or ended, here at once and elsewhere within 250 ms: read [`Store::pauses`].
    #[must_use]
    pub fn pauses_changed(&self) -> watch::Receiver<u64> {
        ask!(self, pauses_changed())
    }

    /// Changes whenever tokens were made or revoked, here at once and elsewhere within 250 ms: forget what was read.
    #[must_use]
    pub fn tokens_changed(&self) -> watch::Receiver<u64> {
        ask!(self, tokens_changed())
    }

    /// Whether the store answers nothing any more.
    #[must_use]
    pub fn poisoned(&self) -> bool {
        ask!(self, poisoned())
    }

    /// How well commits were shared so far.
    #[must_use]
    pub fn commit_stats(&self) -> CommitStats {
        ask!(self, commit_stats())
    }

    /// Waits until the store answers nothing any more, and says why. It may wait for ever.
    pub async fn until_poisoned(&self) -> StoreError {
        ask!(self, until_poisoned().await)
    }

    /// Takes no further calls, finishes those that wait, and leaves a mark. Later calls are refused.
    pub async fn close(&self) {
        ask!(self, close().await);
    }
}
