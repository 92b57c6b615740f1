//! An operation as a row: columns for what is queried, JSON for the rest.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::{Deserialize, Serialize};

use super::failure::{Failure, signed, unsigned};
use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::{Peer, Stage};
use crate::id::{Account, FencingToken, OperationId, Principal, Subject, Task, ToolName};
use crate::operation::{
    Approval, Attempt, Body, Claim, Decision, Distinct, LookUp, Operation, Receipt, RejectionCode,
};
use crate::policy::Tool;
use crate::snapshot::Grave;
use crate::state::State;
use crate::time::Timestamp;

/// The columns that [`read`] expects, in its order. `result` may stand as `NULL` where a list leaves it out.
pub(super) const COLUMNS: &str = "account, id, tool, action, fingerprint, task, wish, receipt_expires_at, created_at, \
     updated_at, version, policy_version, body, arguments, subject";

/// What has no column of its own.
#[derive(Serialize, Deserialize)]
struct Rest<'a> {
    #[serde(default, skip_serializing_if = "is_none")]
    replaces: Cow<'a, Option<OperationId>>,
    #[serde(default, skip_serializing_if = "is_empty")]
    inherits: Cow<'a, [OperationId]>,
    #[serde(default, skip_serializing_if = "is_none")]
    replaced_by: Cow<'a, Option<OperationId>>,
    #[serde(default, skip_serializing_if = "not")]
    overtaken: bool,
    #[serde(default)]
    earlier_keys: u32,
    #[serde(default, skip_serializing_if = "is_empty")]
    look_ups: Cow<'a, [LookUp]>,
    #[serde(default, skip_serializing_if = "is_none")]
    investigation: Cow<'a, Option<Claim>>,
    #[serde(default, skip_serializing_if = "not")]
    asks: bool,
    #[serde(default, skip_serializing_if = "not")]
    another_allowed: bool,
    #[serde(default, skip_serializing_if = "is_none")]
    contradiction: Cow<'a, Option<Receipt>>,
    #[serde(default)]
    remind_at: Option<Timestamp>,
    distinct_declared: Cow<'a, [OperationId]>,
    distinct_from: Cow<'a, [Distinct]>,
    accepted_by: Cow<'a, Option<String>>,
    prepared_by: Cow<'a, Principal>,
    state: Cow<'a, State>,
    fence: FencingToken,
    attempts: Cow<'a, [Attempt]>,
    approval: Cow<'a, Option<Approval>>,
    blocked_by: Cow<'a, [OperationId]>,
    acknowledged: Cow<'a, [OperationId]>,
    key_generation: u32,
    duplicate_suspected: bool,
    released: Cow<'a, Option<Decision>>,
}

#[allow(clippy::ptr_arg, reason = "the signature that serde asks for")]
fn is_none<T: Clone>(value: &Cow<'_, Option<T>>) -> bool {
    value.is_none()
}

#[allow(clippy::ptr_arg, reason = "the signature that serde asks for")]
fn is_empty<T: Clone>(list: &Cow<'_, [T]>) -> bool {
    list.is_empty()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn not(flag: &bool) -> bool {
    !*flag
}

/// An operation cut into its columns.
struct Cells<'a> {
    body: String,
    result: Option<String>,
    reference: Option<&'a str>,
    held: bool,
    open: bool,
    succeeded_at: Option<Timestamp>,
    rejected_as: Option<&'static str>,
    stage: Stage,
}

fn cells(operation: &Operation) -> Result<Cells<'_>, Failure> {
    // Named field by field, so that a new field of an operation cannot be forgotten here.
    let Operation {
        account: _,
        id: _,
        tool: _,
        arguments: _,
        fingerprint: _,
        action: _,
        task: _,
        subject: _,
        replaces,
        inherits,
        replaced_by,
        overtaken,
        earlier_keys,
        look_ups,
        investigation,
        asks,
        another_allowed,
        contradiction,
        remind_at,
        distinct_declared,
        distinct_from,
        accepted_by,
        prepared_by,
        policy_version: _,
        wish: _,
        state,
        fence,
        attempts,
        approval,
        blocked_by,
        acknowledged,
        key_generation,
        duplicate_suspected,
        released,
        version: _,
        created_at: _,
        updated_at: _,
        receipt_expires_at: _,
    } = operation;
    let (lean, result) = split(state);
    let rest = Rest {
        replaces: Cow::Borrowed(replaces),
        inherits: Cow::Borrowed(inherits),
        replaced_by: Cow::Borrowed(replaced_by),
        overtaken: *overtaken,
        earlier_keys: *earlier_keys,
        look_ups: Cow::Borrowed(look_ups),
        investigation: Cow::Borrowed(investigation),
        asks: *asks,
        another_allowed: *another_allowed,
        contradiction: Cow::Borrowed(contradiction),
        remind_at: *remind_at,
        distinct_declared: Cow::Borrowed(distinct_declared),
        distinct_from: Cow::Borrowed(distinct_from),
        accepted_by: Cow::Borrowed(accepted_by),
        prepared_by: Cow::Borrowed(prepared_by),
        state: lean,
        fence: *fence,
        attempts: Cow::Borrowed(attempts),
        approval: Cow::Borrowed(approval),
        blocked_by: Cow::Borrowed(blocked_by),
        acknowledged: Cow::Borrowed(acknowledged),
        key_generation: *key_generation,
        duplicate_suspected: *duplicate_suspected,
        released: Cow::Borrowed(released),
    };
    let peer = Peer::from(operation);
    Ok(Cells {
        body: serde_json::to_string(&rest)?,
        result: result.map(serde_json::to_string).transpose()?,
        reference: state.receipt().and_then(|receipt| receipt.reference.as_deref()),
        held: state.hold().is_some() || *duplicate_suspected,
        open: operation.unresolved() || (operation.released.is_some() && peer.stage == Stage::Unknown),
        succeeded_at: peer.succeeded_at,
        rejected_as: peer.rejected_as.map(RejectionCode::label),
        stage: peer.stage,
    })
}

/// The state without the body of a receipt, which has a column of its own.
fn split(state: &State) -> (Cow<'_, State>, Option<&Body>) {
    let kept = state
        .receipt()
        .and_then(|receipt| receipt.result.as_ref()?.body.as_ref().map(|body| (receipt, body)));
    match kept {
        None => (Cow::Borrowed(state), None),
        Some((receipt, body)) => {
            let result = receipt.result.as_ref().map(|result| crate::operation::ResultBody {
                status: result.status,
                content_type: result.content_type.clone(),
                body: None,
                size: result.size,
                digest: result.digest.clone(),
                truncated: result.truncated,
            });
            let lean = Receipt {
                reference: receipt.reference.clone(),
                result,
                source: receipt.source,
                recorded_at: receipt.recorded_at,
            };
            (Cow::Owned(State::Succeeded(lean)), Some(body))
        }
    }
}

/// Reads the operation from a row of [`COLUMNS`] and `result`.
pub(super) fn read(row: &Row<'_>) -> Result<Operation, Failure> {
    let text = |column: usize| -> Result<&str, Failure> {
        row.get_ref(column)?.as_str().map_err(|_| Failure::damaged("a text of an operation is none"))
    };
    let print = |column: usize| -> Result<Fingerprint, Failure> {
        Fingerprint::parse(text(column)?).map_err(|_| Failure::damaged("a fingerprint is none"))
    };
    let rest: Rest<'_> = serde_json::from_str(text(12)?)?;
    let mut state = rest.state.into_owned();
    if let State::Succeeded(Receipt { result: Some(result), .. }) = &mut state
        && let Some(body) = row.get::<_, Option<String>>(15)?
    {
        result.body = Some(serde_json::from_str(&body)?);
    }
    Ok(Operation {
        account: Account::from_stored(text(0)?),
        id: OperationId::from_stored(text(1)?),
        tool: ToolName::from_stored(text(2)?),
        arguments: Arguments::from_stored(row.get(13)?),
        fingerprint: print(4)?,
        action: print(3)?,
        task: row.get::<_, Option<String>>(5)?.map(|task| Task::from_stored(&task)),
        subject: row.get::<_, Option<String>>(14)?.map(|subject| Subject::from_stored(&subject)),
        replaces: rest.replaces.into_owned(),
        inherits: rest.inherits.into_owned(),
        replaced_by: rest.replaced_by.into_owned(),
        overtaken: rest.overtaken,
        earlier_keys: rest.earlier_keys,
        look_ups: rest.look_ups.into_owned(),
        investigation: rest.investigation.into_owned(),
        asks: rest.asks,
        another_allowed: rest.another_allowed,
        contradiction: rest.contradiction.into_owned(),
        remind_at: rest.remind_at,
        distinct_declared: rest.distinct_declared.into_owned(),
        distinct_from: rest.distinct_from.into_owned(),
        accepted_by: rest.accepted_by.into_owned(),
        prepared_by: rest.prepared_by.into_owned(),
        policy_version: row.get(11)?,
        wish: row.get(6)?,
        state,
        fence: rest.fence,
        attempts: rest.attempts.into_owned(),
        approval: rest.approval.into_owned(),
        blocked_by: rest.blocked_by.into_owned(),
        acknowledged: rest.acknowledged.into_owned(),
        key_generation: rest.key_generation,
        duplicate_suspected: rest.duplicate_suspected,
        released: rest.released.into_owned(),
        version: unsigned(row.get(10)?),
        created_at: Timestamp::from_millis(row.get(8)?),
        updated_at: Timestamp::from_millis(row.get(9)?),
        receipt_expires_at: row.get::<_, Option<i64>>(7)?.map(Timestamp::from_millis),
    })
}

/// The operation, whole.
pub(super) fn find(
    connection: &Connection,
    account: &Account,
    id: &OperationId,
) -> Result<Option<Operation>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT account, id, tool, action, fingerprint, task, wish, receipt_expires_at, created_at, updated_at, \
         version, policy_version, body, arguments, subject, result \
         FROM counterfoil_operations WHERE account = ?1 AND id = ?2",
    )?;
    let mut rows = statement.query((account.as_str(), id.as_str()))?;
    rows.next()?.map(read).transpose()
}

/// The columns that [`read_peer`] expects, in its order.
macro_rules! peer_columns {
    () => {
        "id, task, stage, unresolved, released, created_at, succeeded_at, rejected_as, replaced_by, \
         json_extract(body, '$.replaces'), json_extract(body, '$.duplicate_suspected')"
    };
}

/// The operation as the task guard sees it; a tombstone counts as settled in the state that it ended in.
pub(super) fn find_peer(
    connection: &Connection,
    account: &Account,
    id: &OperationId,
) -> Result<Option<Peer>, Failure> {
    let mut statement = connection.prepare_cached(concat!(
        "SELECT ",
        peer_columns!(),
        " FROM counterfoil_operations WHERE account = ?1 AND id = ?2 \
         UNION ALL \
         SELECT id, NULL, stage, 0, 0, closed_at, NULL, NULL, NULL, NULL, 0 FROM counterfoil_tombstones \
         WHERE account = ?1 AND id = ?2",
    ))?;
    let mut rows = statement.query((account.as_str(), id.as_str()))?;
    rows.next()?.map(read_peer).transpose()
}

/// Every operation with this action that is unresolved, or released while nobody knows whether it worked.
pub(super) fn peers(
    connection: &Connection,
    account: &Account,
    tool: &ToolName,
    action: Fingerprint,
) -> Result<Vec<Peer>, Failure> {
    let mut statement = connection.prepare_cached(concat!(
        "SELECT ",
        peer_columns!(),
        " FROM counterfoil_operations WHERE account = ?1 AND tool = ?2 AND action = ?3 AND open = 1",
    ))?;
    read_peers(statement.query((account.as_str(), tool.as_str(), action.to_string()))?)
}

/// As [`peers`], but every one that has another action as it is stored and is the same one for `same`, which is given its
/// arguments and the version of the declaration that it was prepared under.
pub(super) fn peers_compared_anew(
    connection: &Connection,
    account: &Account,
    tool: &ToolName,
    stored: Fingerprint,
    same: impl Fn(&Arguments, u32) -> Result<bool, Failure>,
) -> Result<Vec<Peer>, Failure> {
    let mut statement = connection.prepare_cached(concat!(
        "SELECT ",
        peer_columns!(),
        ", arguments, policy_version FROM counterfoil_operations \
         WHERE account = ?1 AND tool = ?2 AND action <> ?3 AND open = 1",
    ))?;
    let mut rows = statement.query((account.as_str(), tool.as_str(), stored.to_string()))?;
    let mut peers = Vec::new();
    while let Some(row) = rows.next()? {
        let arguments = Arguments::from_stored(row.get(11)?);
        if same(&arguments, row.get(12)?)? {
            peers.push(read_peer(row)?);
        }
    }
    Ok(peers)
}

/// Every other operation with this subject that is open, or succeeded at or after `since`.
pub(super) fn subject_peers(
    connection: &Connection,
    account: &Account,
    subject: &Subject,
    since: Timestamp,
) -> Result<Vec<Peer>, Failure> {
    let mut statement = connection.prepare_cached(
        concat!(
        "SELECT ",
        peer_columns!(),
        " FROM counterfoil_operations WHERE account = ?1 AND subject = ?2 AND (open = 1 OR succeeded_at >= ?3)",
    ))?;
    read_peers(statement.query((account.as_str(), subject.as_str(), since.as_millis()))?)
}

/// Standing wishes about this subject that have not started, oldest first.
pub(super) fn wishes_about(
    connection: &Connection,
    account: &Account,
    subject: &Subject,
    most: u32,
) -> Result<Vec<OperationId>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM counterfoil_operations \
         WHERE account = ?1 AND subject = ?2 AND stage = 'prepared' AND wish = 1 ORDER BY created_at, id LIMIT ?3",
    )?;
    let rows =
        statement.query_map((account.as_str(), subject.as_str(), most), |row| row.get::<_, String>(0))?;
    let ids: Vec<String> = rows.collect::<Result<_, _>>()?;
    Ok(ids.iter().map(|id| OperationId::from_stored(id)).collect())
}

fn read_peers(mut rows: rusqlite::Rows<'_>) -> Result<Vec<Peer>, Failure> {
    let mut peers = Vec::new();
    while let Some(row) = rows.next()? {
        peers.push(read_peer(row)?);
    }
    Ok(peers)
}

fn read_peer(row: &Row<'_>) -> Result<Peer, Failure> {
    Ok(Peer {
        id: OperationId::from_stored(&row.get::<_, String>(0)?),
        task: row.get::<_, Option<String>>(1)?.map(|task| Task::from_stored(&task)),
        stage: stage(&row.get::<_, String>(2)?)?,
        unresolved: row.get(3)?,
        released: row.get(4)?,
        suspected: row.get(10)?,
        created_at: Timestamp::from_millis(row.get(5)?),
        succeeded_at: row.get::<_, Option<i64>>(6)?.map(Timestamp::from_millis),
        rejected_as: row
            .get::<_, Option<String>>(7)?
            .map(|code| {
                RejectionCode::parse(&code).ok_or_else(|| Failure::damaged("a rejection has no code"))
            })
            .transpose()?,
        replaces: row.get::<_, Option<String>>(9)?.map(|id| OperationId::from_stored(&id)),
        replaced_by: row.get::<_, Option<String>>(8)?.map(|id| OperationId::from_stored(&id)),
    })
}

/// A state as it is stored.
pub(super) fn stage(label: &str) -> Result<Stage, Failure> {
    Stage::parse(label).ok_or_else(|| Failure::damaged("a state is none of the five"))
}

/// What is left of the operation after its retention.
pub(super) fn tombstone(
    connection: &Connection,
    account: &Account,
    id: &OperationId,
) -> Result<Option<Grave>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT stage, tool FROM counterfoil_tombstones WHERE account = ?1 AND id = ?2")?;
    let found: Option<(String, String)> = statement
        .query_row((account.as_str(), id.as_str()), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    found
        .map(|(label, tool)| Ok(Grave { stage: stage(&label)?, tool: ToolName::from_stored(&tool) }))
        .transpose()
}

/// When somebody looks at an operation next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Whoever carries work on.
    pub(super) due_at: Option<Timestamp>,
    /// An application's own worker.
    pub(super) work_at: Option<Timestamp>,
}

impl Times {
    /// By these facts; not before `look_again` where a standing wish waits for another operation.
    pub(super) fn of(operation: &Operation, facts: &Tool, look_again: Option<Timestamp>) -> Self {
        let work_at = crate::queue::work_at(operation, facts);
        Self {
            due_at: crate::decide::due_or_looked_at(operation, facts, look_again),
            work_at: work_at.map(|at| look_again.map_or(at, |later| at.max(later))),
        }
    }
}

/// Inserts the row; the unique key refuses a second one.
pub(super) fn insert(connection: &Connection, operation: &Operation, times: Times) -> Result<(), Failure> {
    let cells = cells(operation)?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO counterfoil_operations (account, id, tool, action, fingerprint, task, stage, held, unresolved, \
         released, wish, due_at, receipt_expires_at, created_at, updated_at, version, policy_version, attempts, \
         reference, body, arguments, result, subject, open, succeeded_at, rejected_as, replaced_by, work_at) \
         VALUES (:account, :id, :tool, :action, :fingerprint, :task, :stage, :held, :unresolved, :released, :wish, \
         :due_at, :receipt_expires_at, :created_at, :updated_at, :version, :policy_version, :attempts, :reference, \
         :body, :arguments, :result, :subject, :open, :succeeded_at, :rejected_as, :replaced_by, :work_at)",
    )?;
    statement.execute(named_params! {
        ":account": operation.account.as_str(),
        ":id": operation.id.as_str(),
        ":tool": operation.tool.as_str(),
        ":action": operation.action.to_string(),
        ":fingerprint": operation.fingerprint.to_string(),
        ":task": operation.task.as_ref().map(Task::as_str),
        ":stage": cells.stage.label(),
        ":held": cells.held,
        ":unresolved": operation.unresolved(),
        ":released": operation.released.is_some(),
        ":wish": operation.wish,
        ":due_at": times.due_at.map(Timestamp::as_millis),
        ":work_at": times.work_at.map(Timestamp::as_millis),
        ":receipt_expires_at": operation.receipt_expires_at.map(Timestamp::as_millis),
        ":created_at": operation.created_at.as_millis(),
        ":updated_at": operation.updated_at.as_millis(),
        ":version": signed(operation.version),
        ":policy_version": operation.policy_version,
        ":attempts": signed(operation.attempts.len() as u64),
        ":reference": cells.reference,
        ":body": cells.body,
        ":arguments": operation.arguments.as_str(),
        ":result": cells.result,
        ":subject": operation.subject.as_ref().map(Subject::as_str),
        ":open": cells.open,
        ":succeeded_at": cells.succeeded_at.map(Timestamp::as_millis),
        ":rejected_as": cells.rejected_as,
        ":replaced_by": operation.replaced_by.as_ref().map(OperationId::as_str),
    })?;
    Ok(())
}

/// Replaces what may change of the row, if its version is still `expected`. Identity, tool and arguments never change.
pub(super) fn update(
    connection: &Connection,
    operation: &Operation,
    times: Times,
    expected: u64,
) -> Result<bool, Failure> {
    let cells = cells(operation)?;
    let mut statement = connection.prepare_cached(
        "UPDATE counterfoil_operations SET stage = :stage, held = :held, unresolved = :unresolved, \
         released = :released, wish = :wish, due_at = :due_at, work_at = :work_at, receipt_expires_at = :receipt_expires_at, \
         updated_at = :updated_at, version = :version, policy_version = :policy_version, attempts = :attempts, \
         reference = :reference, body = :body, result = :result, open = :open, succeeded_at = :succeeded_at, \
         rejected_as = :rejected_as, replaced_by = :replaced_by \
         WHERE account = :account AND id = :id AND version = :expected",
    )?;
    let rows = statement.execute(named_params! {
        ":account": operation.account.as_str(),
        ":id": operation.id.as_str(),
        ":expected": signed(expected),
        ":stage": cells.stage.label(),
        ":held": cells.held,
        ":unresolved": operation.unresolved(),
        ":released": operation.released.is_some(),
        ":wish": operation.wish,
        ":due_at": times.due_at.map(Timestamp::as_millis),
        ":work_at": times.work_at.map(Timestamp::as_millis),
        ":receipt_expires_at": operation.receipt_expires_at.map(Timestamp::as_millis),
        ":updated_at": operation.updated_at.as_millis(),
        ":version": signed(operation.version),
        ":policy_version": operation.policy_version,
        ":attempts": signed(operation.attempts.len() as u64),
        ":reference": cells.reference,
        ":body": cells.body,
        ":result": cells.result,
        ":open": cells.open,
        ":succeeded_at": cells.succeeded_at.map(Timestamp::as_millis),
        ":rejected_as": cells.rejected_as,
        ":replaced_by": operation.replaced_by.as_ref().map(OperationId::as_str),
    })?;
    Ok(rows == 1)
}

/// Remembers which keys were sent, apart from those of `known`.
pub(super) fn insert_keys(
    connection: &Connection,
    operation: &Operation,
    known: &[Attempt],
) -> Result<(), Failure> {
    let fresh = operation.attempts.get(known.len()..).unwrap_or_default();
    for key in fresh.iter().filter_map(|attempt| attempt.key.as_deref()) {
        let mut statement = connection.prepare_cached(
            "INSERT OR IGNORE INTO counterfoil_keys (account, key, id) VALUES (?1, ?2, ?3)",
        )?;
        statement.execute((operation.account.as_str(), key, operation.id.as_str()))?;
    }
    Ok(())
}
