//! The ledger: the verbs of the product over one store. Embeddable; the server is one of its users.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::caller::{Caller, Need};
use crate::error::{Error, Refusal, StoreError};
use crate::fingerprint::{Arguments, Fingerprint};
use crate::id::{OperationId, Subject, Task, ToolName};
use crate::operation::ResultBody;
use crate::policy::Tool;
use crate::random::{Random, SeededRandom};
use crate::snapshot::{Declarations, Existing, Verb, View};
#[cfg(feature = "postgres")]
use crate::store::postgres::{PostgresOptions, PostgresStore};
use crate::store::sqlite::{SqliteOptions, SqliteStore};
use crate::store::{Change, EvidenceRow, Filter, Page, Store};
use crate::time::{Clock, SystemClock, Timestamp};
use crate::verbs::{
    AddNote, Approve, Deny, Offer, Prepare, PrepareReply, Release, Resolve, Verdict, Withdraw, Words,
};
use crate::waiters::Waiters;

/// A ledger. Clones share it.
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    declared: RwLock<Arc<Declarations>>,
    waiters: Waiters,
}

/// How a ledger is opened.
#[derive(Clone)]
pub struct LedgerOptions {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub random: Arc<dyn Random>,
    /// How the store is opened.
    pub store: SqliteOptions,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let store = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
        Self { store, clock, random: Arc::new(SeededRandom::from_os()) }
    }
}

/// An action that an application accepted.
#[derive(Clone, Debug)]
pub struct NewOperation {
    /// The identity that the application minted and keeps.
    pub id: OperationId,
    /// Which kind of action.
    pub tool: ToolName,
    /// The exact arguments.
    pub arguments: Arguments,
    /// The agent run it belongs to.
    pub task: Option<Task>,
    /// What it is about: of the operations with one subject only one may be started and unsettled.
    pub subject: Option<Subject>,
    /// The proposal that this one changes.
    pub replaces: Option<OperationId>,
    /// Operations that this is deliberately distinct from.
    pub distinct_from: Vec<OperationId>,
    /// Who or what accepted the proposal: a JSON object of at most 1 KiB.
    pub accepted_by: Option<String>,
    /// Whether it shall run as soon as it may.
    pub execute: bool,
}

impl NewOperation {
    /// An action with nothing but its identity, kind and arguments.
    #[must_use]
    pub fn new(id: OperationId, tool: ToolName, arguments: Arguments) -> Self {
        Self {
            id,
            tool,
            arguments,
            task: None,
            subject: None,
            replaces: None,
            distinct_from: Vec::new(),
            accepted_by: None,
            execute: false,
        }
    }
}

impl Ledger {
    /// Opens the ledger in the SQLite file at `path`, creating it if it is not there, and declares `tools`.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] where the file cannot be a ledger (newer version, network file system, damaged).
    pub async fn open(
        path: impl AsRef<std::path::Path>,
        tools: Vec<Tool>,
        options: LedgerOptions,
    ) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let opening = options.store;
        let store = tokio::task::spawn_blocking(move || SqliteStore::open(&path, opening))
            .await
            .map_err(|_| StoreError::Unavailable("opening was cancelled".to_owned()))??;
        Self::over(store.into(), tools, options.clock, options.random).await
    }

    /// Opens the ledger in the PostgreSQL database at `url`, creating it if it is not there, and declares `tools`. Its
    /// time is the database's.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] where the database cannot carry a ledger, [`StoreError::Unavailable`] where it cannot be
    /// reached.
    #[cfg(feature = "postgres")]
    pub async fn open_postgres(
        url: &str,
        tools: Vec<Tool>,
        options: PostgresOptions,
        random: Arc<dyn Random>,
    ) -> Result<Self, StoreError> {
        let store = Box::pin(PostgresStore::open(url, options)).await?;
        let clock = store.clock();
        Self::over(store.into(), tools, clock, random).await
    }

    async fn over(
        store: Store,
        tools: Vec<Tool>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, StoreError> {
        let declared = Arc::new(store.register(tools).await?);
        let waiters = Waiters::default();
        tokio::spawn(pump(store.changes(), waiters.clone()));
        Ok(Self { inner: Arc::new(Inner { store, clock, random, declared: RwLock::new(declared), waiters }) })
    }

    /// Replaces the declarations, all or nothing.
    ///
    /// # Errors
    /// The store could not keep them; the former ones stay in force.
    pub async fn declare(&self, tools: Vec<Tool>) -> Result<(), StoreError> {
        let declared = Arc::new(self.inner.store.register(tools).await?);
        *self.inner.declared.write().unwrap_or_else(PoisonError::into_inner) = declared;
        Ok(())
    }

    /// As [`Self::declare`], and writes down that nobody declares any other tool: a client that knows declarations from
    /// the ledger alone does not run those any more. For whoever has the whole configuration.
    ///
    /// # Errors
    /// The store could not keep them; the former ones stay in force.
    pub async fn declare_all(&self, tools: Vec<Tool>) -> Result<(), StoreError> {
        let declared = Arc::new(self.inner.store.register_all(tools).await?);
        *self.inner.declared.write().unwrap_or_else(PoisonError::into_inner) = declared;
        Ok(())
    }

    /// The declarations in force.
    #[must_use]
    pub fn declared(&self) -> Arc<Declarations> {
        self.inner.declared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What keeps the ledger.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Where time comes from.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// The next random number.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.inner.random.next()
    }

    pub(crate) fn waiters(&self) -> &Waiters {
        &self.inner.waiters
    }

    /// Prepares an operation, or finds the one that the ID already names.
    ///
    /// # Errors
    /// [`Refusal`] where the ledger says no; [`StoreError`] where it could not be asked.
    pub async fn prepare(&self, caller: &Caller, new: NewOperation) -> Result<PrepareReply, Error> {
        self.submit(self.prepare_verb(caller, new, None, false)).await
    }

    /// Says what a prepare would do, and stores nothing.
    ///
    /// # Errors
    /// As [`Ledger::prepare`].
    pub async fn dry_run(&self, caller: &Caller, new: NewOperation) -> Result<PrepareReply, Error> {
        self.submit(self.prepare_verb(caller, new, None, true)).await
    }

    pub(crate) fn prepare_verb(
        &self,
        caller: &Caller,
        new: NewOperation,
        offer: Option<Offer>,
        dry_run: bool,
    ) -> Prepare {
        let declared = self.declared();
        Prepare {
            caller: caller.clone(),
            id: new.id,
            tool: new.tool,
            arguments: new.arguments,
            fingerprint: std::sync::OnceLock::new(),
            task: new.task,
            subject: new.subject,
            replaces: new.replaces,
            distinct_from: new.distinct_from,
            accepted_by: new.accepted_by,
            execute: new.execute,
            offer,
            dry_run,
            random: self.random(),
            declared,
        }
    }

    /// Commits a verb. One that an existing operation already answers is answered from a read: replays are not
    /// writes.
    ///
    /// # Errors
    /// As the verb.
    pub async fn submit<V: Verb>(&self, verb: V) -> Result<V::Reply, Error> {
        match self.read(&verb).await? {
            Read::Answered(reply) => Ok(reply),
            Read::Known | Read::New => self.inner.store.commit(verb).await,
        }
    }

    /// Answers a verb from a read, where it would write nothing.
    ///
    /// # Errors
    /// What the operation alone refuses; anything that depends on its surroundings is left to the commit.
    pub(crate) async fn read<V: Verb>(&self, verb: &V) -> Result<Read<V::Reply>, Error> {
        let (account, id) = verb.subject();
        let snapshot = self.inner.store.snapshot(account, id, verb.declared()).await?;
        let known = match &snapshot.existing {
            // Who is told that an ID is new may use it anew: not where it may have been in a lost part of the ledger.
            Existing::Nothing if snapshot.restored => match verb.decide(&snapshot) {
                Err(Refusal::LedgerRestored) => return Err(Refusal::LedgerRestored.into()),
                Ok(_) | Err(_) => return Ok(Read::New),
            },
            Existing::Nothing => return Ok(Read::New),
            Existing::Tombstone(_) => None,
            Existing::Operation(operation) => Some(operation),
        };
        match verb.decide(&snapshot) {
            Ok(decided)
                if nothing_to_write(&decided.changes)
                    && known.is_some_and(|operation| operation.state.is_final()) =>
            {
                Ok(Read::Answered(decided.reply))
            }
            Err(refusal) if of_itself(&refusal) => Err(refusal.into()),
            Ok(_) | Err(_) => Ok(Read::Known),
        }
    }

    /// An operation as it is now.
    ///
    /// # Errors
    /// [`Refusal::UnknownOperation`], [`Refusal::ReceiptExpired`], [`Refusal::ToolForbidden`],
    /// [`Refusal::RoleForbidden`].
    pub async fn find(&self, caller: &Caller, id: &OperationId) -> Result<View, Error> {
        caller.needs(Need::Look)?;
        self.look(caller, id).await
    }

    /// How an operation stands, for whoever was refused something with it: a worker too, of any operation that it may
    /// claim.
    ///
    /// # Errors
    /// As [`Ledger::find`].
    pub async fn stand(&self, caller: &Caller, id: &OperationId) -> Result<View, Error> {
        caller.needs(Need::Look)?;
        let snapshot = self.inner.store.snapshot(&caller.account, id, self.declared()).await?;
        snapshot.operation_for(caller)?;
        Ok(View { states_only: !caller.roles.reads(), ..snapshot.view()? })
    }

    async fn look(&self, caller: &Caller, id: &OperationId) -> Result<View, Error> {
        let snapshot = self.inner.store.snapshot(&caller.account, id, self.declared()).await?;
        let operation = snapshot.operation_for(caller)?;
        let holds = || {
            let claim = operation.claim_in_force(snapshot.now);
            caller.roles.worker && claim.is_some_and(|(_, claim)| claim.is_held_by(&caller.principal))
        };
        let reads = caller.roles.reads() || holds();
        if !reads {
            caller.needs(Need::States)?;
        }
        Ok(View { states_only: !reads, ..snapshot.view()? })
    }

    /// Waits, at most for `wait`, until the operation is final or only somebody else can move it on, then gives it as
    /// it is. With `since`, any newer version ends the wait.
    ///
    /// # Errors
    /// As [`Ledger::find`].
    pub async fn wait(
        &self,
        caller: &Caller,
        id: &OperationId,
        wait: Duration,
        since: Option<u64>,
    ) -> Result<View, Error> {
        let deadline = tokio::time::Instant::now() + wait;
        let place = self.waiters().enter(&caller.account, id);
        loop {
            let woken = place.as_ref().map(crate::waiters::Place::woken);
            tokio::pin!(woken);
            if let Some(woken) = woken.as_mut().as_pin_mut() {
                woken.enable();
            }
            let view = self.look(caller, id).await?;
            let over = match since {
                Some(version) => view.operation.version > version,
                None => view.ends_wait(self.inner.clock.now()),
            };
            if over && view.operation.state.is_final() {
                let _ = self.inner.store.faults().hit("c9_committed_not_told");
            }
            let Some(woken) = woken.as_mut().as_pin_mut().filter(|_| !over) else { return Ok(view) };
            if tokio::time::timeout_at(deadline, woken).await.is_err() {
                return self.look(caller, id).await;
            }
        }
    }

    /// Operations of the caller's account, newest first; tools that the caller may not use are left out. A caller that
    /// is nothing but an operator sees how the operations of all accounts stand.
    ///
    /// # Errors
    /// [`Refusal::RoleForbidden`], or what the store could not do.
    pub async fn list(&self, caller: &Caller, filter: Filter) -> Result<Page<View>, Error> {
        let states_only = !caller.roles.reads();
        // A search for a reference would tell whether there is a receipt with it.
        caller.needs(if filter.reference.is_some() { Need::Read } else { Need::States })?;
        let account = (!states_only).then_some(&caller.account);
        let page = self.inner.store.list(account, filter).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for operation in page.items {
            if caller.may_use(&operation.tool).is_err() {
                continue;
            }
            let declared = self.declared();
            let snapshot = self.inner.store.snapshot(&operation.account, &operation.id, declared).await?;
            if let Ok(view) = snapshot.view() {
                items.push(View { states_only, ..view });
            }
        }
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    /// The evidence of one operation, oldest first.
    ///
    /// # Errors
    /// As [`Ledger::find`].
    pub async fn evidence(
        &self,
        caller: &Caller,
        id: &OperationId,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Page<EvidenceRow>, Error> {
        caller.needs(Need::Evidence)?;
        self.look(caller, id).await?;
        Ok(self.inner.store.evidence(&caller.account, id, after, limit).await?)
    }

    /// An approver says yes to one fingerprint.
    ///
    /// # Errors
    /// As [`Approve`].
    pub async fn approve(
        &self,
        caller: &Caller,
        id: OperationId,
        fingerprint: Fingerprint,
        acknowledges: Option<OperationId>,
        if_version: Option<u64>,
    ) -> Result<View, Error> {
        let declared = self.declared();
        let verb = Approve { caller: caller.clone(), id, fingerprint, acknowledges, if_version, declared };
        self.inner.store.commit(verb).await
    }

    /// An approver says no.
    ///
    /// # Errors
    /// As [`Deny`].
    pub async fn deny(&self, caller: &Caller, id: OperationId, reason: String) -> Result<View, Error> {
        let verb = Deny { caller: caller.clone(), id, reason, declared: self.declared() };
        self.inner.store.commit(verb).await
    }

    /// The application takes back what has not started.
    ///
    /// # Errors
    /// As [`Withdraw`].
    pub async fn withdraw(&self, caller: &Caller, id: OperationId) -> Result<View, Error> {
        let verb = Withdraw { caller: caller.clone(), id, declared: self.declared() };
        self.inner.store.commit(verb).await
    }

    /// A person settles an operation.
    ///
    /// # Errors
    /// As [`Resolve`].
    pub async fn resolve(
        &self,
        caller: &Caller,
        id: OperationId,
        verdict: Verdict,
        note: Words,
        if_version: Option<u64>,
    ) -> Result<View, Error> {
        let declared = self.declared();
        self.inner
            .store
            .commit(Resolve { caller: caller.clone(), id, verdict, note, if_version, declared })
            .await
    }

    /// An approver lets later operations with this action or subject pass.
    ///
    /// # Errors
    /// As [`Release`].
    pub async fn release(
        &self,
        caller: &Caller,
        id: OperationId,
        note: Words,
        if_version: Option<u64>,
    ) -> Result<View, Error> {
        let declared = self.declared();
        self.inner.store.commit(Release { caller: caller.clone(), id, note, if_version, declared }).await
    }

    /// A person writes down what they found so far, and may ask to be reminded.
    ///
    /// # Errors
    /// As [`AddNote`].
    pub async fn add_note(
        &self,
        caller: &Caller,
        id: OperationId,
        text: Words,
        remind_at: Option<Timestamp>,
    ) -> Result<View, Error> {
        let declared = self.declared();
        self.inner.store.commit(AddNote { caller: caller.clone(), id, text, remind_at, declared }).await
    }

    /// Turns at most `limit` operations whose retention is over into tombstones, and says how many there were. A server
    /// does this by itself; an application that embeds the ledger calls it now and then, until it says less than
    /// `limit`. Answers are the same before and after.
    ///
    /// # Errors
    /// The store could not read or write; what was purged before stays purged.
    pub async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        self.inner.store.purge(limit).await
    }

    /// Opens the transaction door inside the application's own transaction on the ledger's file: `effect` runs only if
    /// this operation has no receipt yet, and effect, receipt and state commit together with `transaction`, or not at
    /// all. Where `effect` fails, everything that was written for the operation is undone, and the transaction can go
    /// on.
    ///
    /// Begin the transaction with `BEGIN IMMEDIATE`: racing callers are then serialised instead of failing. The effect
    /// must neither commit nor roll back. One that rolls back leaves nothing; after one that commits by itself nobody
    /// can say what it did, so the operation is held for a person and never done again.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] where the effect ended the transaction; [`TransactionError::Effect`] with the application's own error; [`TransactionError::Unsettled`] where the
    /// operation may not run now; [`TransactionError::Refused`] where the ledger says no.
    pub fn in_transaction<E>(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        caller: &Caller,
        new: NewOperation,
        effect: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<Effect, E>,
    ) -> Result<View, TransactionError<E>> {
        crate::door::in_transaction(self, transaction, caller, new, effect)
    }
}

/// What an application's own code did.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    /// What it calls the thing that it created.
    pub reference: Option<String>,
    /// What it wants to be told again by every retry.
    pub result: Option<ResultBody>,
}

/// Why the transaction door did not lead to a receipt.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError<E> {
    /// The application's own code failed; nothing of the operation is left in the transaction.
    #[error("the effect failed")]
    Effect(#[source] E),
    /// The operation is prepared and may not run now; its `next` says why.
    #[error("the operation may not run now: {}", .0.next.action.label())]
    Unsettled(Box<View>),
    /// The ledger says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store could not do it. Roll the transaction back.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<E> From<Error> for TransactionError<E> {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => Self::Refused(refusal),
            Error::Store(error) => Self::Store(error),
        }
    }
}

/// What a read says to a verb.
pub(crate) enum Read<R> {
    /// This is its reply; nothing is to be written.
    Answered(R),
    /// The ID is known, and the commit decides.
    Known,
    /// The ID is new.
    New,
}

fn nothing_to_write(changes: &crate::snapshot::Changes) -> bool {
    changes.operation.is_none()
        && changes.evidence.is_empty()
        && changes.links.is_empty()
        && changes.others.is_empty()
}

/// Refusals that follow from the operation alone, not from its surroundings.
fn of_itself(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::ReceiptExpired { .. }
        | Refusal::OperationIdReused { .. }
        | Refusal::ToolForbidden
        | Refusal::RoleForbidden(_) => true,
        Refusal::UnknownOperation
        | Refusal::UnknownNamed { .. }
        | Refusal::UnknownTool
        | Refusal::SamePrincipal
        | Refusal::DistinctForbidden { .. }
        | Refusal::ActionUnresolved { .. }
        | Refusal::BlockedByOperation { .. }
        | Refusal::ApprovalRequired
        | Refusal::WrongState(_)
        | Refusal::FingerprintMismatch
        | Refusal::ChangedMeanwhile
        | Refusal::StaleClaim
        | Refusal::InvalidArguments(_)
        | Refusal::Paused
        | Refusal::InvalidCursor
        | Refusal::AlreadyReplaced { .. }
        | Refusal::TooEarly { .. }
        | Refusal::InProgress
        | Refusal::NotAWorkerTool
        | Refusal::DeclarationMismatch { .. }
        | Refusal::LedgerRestored => false,
    }
}

/// Passes committed changes on to whoever waits for them.
async fn pump(mut changes: tokio::sync::broadcast::Receiver<Change>, waiters: Waiters) {
    use tokio::sync::broadcast::error::RecvError;
    loop {
        match changes.recv().await {
            Ok(Change { account, id }) => waiters.wake(&account, &id),
            Err(RecvError::Lagged(_)) => waiters.wake_all(),
            Err(RecvError::Closed) => return,
        }
    }
}
