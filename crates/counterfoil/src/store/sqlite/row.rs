//! An operation as a row.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::Peer;
use crate::id::{Account, OperationId, Subject, Task, ToolName};
use crate::operation::{Attempt, Operation};
use crate::snapshot::Grave;
use crate::store::cells::{self, Stored, StoredPeer, Times, cells, stage};
use crate::store::failure::{Failure, signed, unsigned};
use crate::time::Timestamp;

/// The columns that [`read`] expects, in its order. `result` may stand as `NULL` where a list leaves it out.
pub(super) const COLUMNS: &str = "account, id, tool, action, fingerprint, task, wish, receipt_expires_at, created_at, \
     updated_at, version, policy_version, body, arguments, subject";

/// Reads the operation from a row of [`COLUMNS`] and `result`.
pub(super) fn read(row: &Row<'_>) -> Result<Operation, Failure> {
    let text = |column: usize| text(row, column);
    let perhaps = |column: usize| perhaps(row, column);
    cells::operation(Stored {
        account: text(0)?,
        id: text(1)?,
        tool: text(2)?,
        action: text(3)?,
        fingerprint: text(4)?,
        task: perhaps(5)?,
        wish: row.get(6)?,
        receipt_expires_at: row.get::<_, Option<i64>>(7)?.map(Timestamp::from_millis),
        created_at: Timestamp::from_millis(row.get(8)?),
        updated_at: Timestamp::from_millis(row.get(9)?),
        version: unsigned(row.get(10)?),
        policy_version: row.get(11)?,
        body: text(12)?,
        arguments: text(13)?,
        subject: perhaps(14)?,
        result: perhaps(15)?,
    })
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, Failure> {
    row.get_ref(column)?.as_str().map_err(|_| Failure::damaged("a text of an operation is none"))
}

fn perhaps<'a>(row: &'a Row<'_>, column: usize) -> Result<Option<&'a str>, Failure> {
    row.get_ref(column)?.as_str_or_null().map_err(|_| Failure::damaged("a text of an operation is none"))
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
    same: &dyn Fn(&Arguments, u32) -> Result<bool, Failure>,
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
    cells::peer(StoredPeer {
        id: text(row, 0)?,
        task: perhaps(row, 1)?,
        stage: text(row, 2)?,
        unresolved: row.get(3)?,
        released: row.get(4)?,
        created_at: Timestamp::from_millis(row.get(5)?),
        succeeded_at: row.get::<_, Option<i64>>(6)?.map(Timestamp::from_millis),
        rejected_as: perhaps(row, 7)?,
        replaced_by: perhaps(row, 8)?,
        replaces: perhaps(row, 9)?,
        suspected: row.get(10)?,
    })
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

/// When somebody looks at it next, as it is stored.
pub(super) fn times(connection: &Connection, account: &Account, id: &OperationId) -> Result<Times, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT due_at, work_at FROM counterfoil_operations WHERE account = ?1 AND id = ?2",
    )?;
    let at = |at: Option<i64>| at.map(Timestamp::from_millis);
    Ok(statement.query_row((account.as_str(), id.as_str()), |row| {
        Ok(Times { due_at: at(row.get(0)?), work_at: at(row.get(1)?) })
    })?)
}

/// Replaces when somebody looks at it next.
pub(super) fn put_times(connection: &Connection, operation: &Operation, times: Times) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "UPDATE counterfoil_operations SET due_at = ?3, work_at = ?4 WHERE account = ?1 AND id = ?2",
    )?;
    let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
    let (account, id) = (operation.account.as_str(), operation.id.as_str());
    statement.execute((account, id, millis(times.due_at), millis(times.work_at)))?;
    Ok(())
}

/// Moves its version without a new state.
pub(super) fn touch(
    connection: &Connection,
    operation: &Operation,
    version: u64,
    now: Timestamp,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "UPDATE counterfoil_operations SET version = ?3, updated_at = ?4 WHERE account = ?1 AND id = ?2",
    )?;
    statement.execute((
        operation.account.as_str(),
        operation.id.as_str(),
        signed(version),
        now.as_millis(),
    ))?;
    Ok(())
}
