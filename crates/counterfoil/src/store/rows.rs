//! What every store can do with its rows, inside one transaction.
//!
//! This is the whole difference between stores: no rule lives below it. What is read sees what the same transaction wrote
//! before, and nobody else changes it until the transaction ends.

use super::cells::Times;
use super::chain::{Hash, Link, Tip};
use super::failure::Failure;
use super::in_force::InForce;
use crate::backoff::BucketLevel;
use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::Peer;
use crate::id::{Account, OperationId, Subject, ToolName};
use crate::notice::Notice;
use crate::operation::{Attempt, Operation};
use crate::snapshot::{Grave, PauseDraft, RefusalCount, Webhooks};
use crate::time::Timestamp;

/// Whether an operation with these arguments, prepared under this version of its declaration, is the same action.
pub(super) type SameAction<'a> = dyn Fn(&Arguments, u32) -> Result<bool, Failure> + 'a;

/// The rows of one transaction.
pub(super) trait Rows {
    /// The operation, whole.
    fn operation(&self, account: &Account, id: &OperationId) -> Result<Option<Operation>, Failure>;

    /// What is left of the operation after its retention.
    fn tombstone(&self, account: &Account, id: &OperationId) -> Result<Option<Grave>, Failure>;

    /// The operation as the task guard sees it; a tombstone counts as settled in the state that it ended in.
    fn peer(&self, account: &Account, id: &OperationId) -> Result<Option<Peer>, Failure>;

    /// Every operation with this action that is unresolved, or released while nobody knows whether it worked.
    fn peers(&self, account: &Account, tool: &ToolName, action: Fingerprint) -> Result<Vec<Peer>, Failure>;

    /// As [`Rows::peers`], but every one that has another action as it is stored and is the same one for `same`.
    fn peers_compared_anew(
        &self,
        account: &Account,
        tool: &ToolName,
        stored: Fingerprint,
        same: &SameAction<'_>,
    ) -> Result<Vec<Peer>, Failure>;

    /// Every operation with this subject that is open, or succeeded at or after `since`.
    fn subject_peers(
        &self,
        account: &Account,
        subject: &Subject,
        since: Timestamp,
    ) -> Result<Vec<Peer>, Failure>;

    /// At most `most` standing wishes about this subject that have not started, oldest first.
    fn wishes_about(
        &self,
        account: &Account,
        subject: &Subject,
        most: u32,
    ) -> Result<Vec<OperationId>, Failure>;

    /// When somebody looks at an operation next, as it is stored.
    fn times(&self, account: &Account, id: &OperationId) -> Result<Times, Failure>;

    /// The declaration of `tool` that is stored as `version`, one JSON object.
    fn policy(&self, tool: &ToolName, version: u32) -> Result<Option<String>, Failure>;

    /// The newest version of `tool`'s declaration and its digest.
    fn newest_policy(&self, tool: &ToolName) -> Result<Option<(u32, Hash)>, Failure>;

    /// Every account that ever used `tool`.
    fn users_of(&self, tool: &ToolName) -> Result<Vec<Account>, Failure>;

    /// Every pause in force, oldest first.
    fn pauses(&self) -> Result<Vec<InForce>, Failure>;

    /// From when to when sends of `tool` under `scope` were held, where that reaches past `since`, by their beginning.
    fn pauses_since(
        &self,
        tool: &ToolName,
        scope: Option<&str>,
        since: Timestamp,
    ) -> Result<Vec<(Timestamp, Option<Timestamp>)>, Failure>;

    /// The webhooks that were heard about an operation. The evidence itself says so: what was once committed is heard by
    /// every process.
    fn webhooks(&self, account: &Account, id: &OperationId, event: &str) -> Result<Webhooks, Failure>;

    /// How often credentials of `scope` were refused in a row.
    fn refusals(&self, tool: &ToolName, scope: &str) -> Result<u32, Failure>;

    /// How full a token bucket is.
    fn bucket(&self, name: &str) -> Result<Option<BucketLevel>, Failure>;

    /// The last row of `writer`'s chain.
    fn tip(&self, account: &Account, writer: &str) -> Result<Option<Tip>, Failure>;

    /// The newest instant of any row.
    fn newest(&self) -> Result<Timestamp, Failure>;

    /// Takes the next place among the account's evidence, for a row of the instant `at`.
    fn place(&self, account: &Account, at: Timestamp) -> Result<u64, Failure>;

    /// Inserts an operation; the unique key refuses a second one.
    fn insert(&self, operation: &Operation, times: Times) -> Result<(), Failure>;

    /// Replaces what may change of an operation, if its version is still `expected`. Identity, tool and arguments never
    /// change.
    fn update(&self, operation: &Operation, times: Times, expected: u64) -> Result<bool, Failure>;

    /// Moves an operation's version without a new state.
    fn touch(&self, operation: &Operation, version: u64, now: Timestamp) -> Result<(), Failure>;

    /// Replaces when somebody looks at an operation next.
    fn put_times(&self, operation: &Operation, times: Times) -> Result<(), Failure>;

    /// Remembers which keys were sent, apart from those of `known`.
    fn insert_keys(&self, operation: &Operation, known: &[Attempt]) -> Result<(), Failure>;

    /// Appends a row of evidence.
    fn append(&self, link: &Link<'_>, data: &str, digest: &Hash) -> Result<(), Failure>;

    /// Keeps a notice.
    fn append_notice(&self, notice: &Notice) -> Result<(), Failure>;

    /// Keeps how full a token bucket is.
    fn set_bucket(&self, name: &str, level: BucketLevel) -> Result<(), Failure>;

    /// Keeps how often credentials were refused in a row.
    fn set_refusals(&self, count: &RefusalCount) -> Result<(), Failure>;

    /// Keeps a new version of a tool's declaration.
    fn insert_policy(
        &self,
        key: (&ToolName, u32),
        body: &str,
        digest: &Hash,
        now: Timestamp,
    ) -> Result<(), Failure>;

    /// Begins a pause.
    fn begin_pause(&self, draft: &PauseDraft, now: Timestamp, restored: bool) -> Result<(), Failure>;

    /// Ends every pause of `tool`, under any scope, or with `None` every pause of everything; pauses of single tools then
    /// stay. The refusals that led to scoped pauses are forgotten. Says how many ended.
    fn end_pauses(
        &self,
        tool: Option<&ToolName>,
        by: &str,
        note: &str,
        now: Timestamp,
    ) -> Result<usize, Failure>;

    /// Notes for every process that pauses began or ended.
    fn pauses_changed(&self) -> Result<(), Failure>;

    /// Notes for every process that tokens were made or revoked.
    fn tokens_changed(&self) -> Result<(), Failure>;

    /// Writes what was kept back until the end. The last thing before the commit.
    fn finish(&self) -> Result<(), Failure>;
}
