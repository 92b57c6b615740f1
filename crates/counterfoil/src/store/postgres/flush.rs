//! Writes what verbs decided: one statement with arrays for each table, all of them in one round trip.

use tokio_postgres::types::Type;

use super::wire::{Bound, Sent, Wire, pipelined};
use super::written::{Paused, Row, Written};
use crate::id::{OperationId, Subject, Task, ToolName};
use crate::store::cells::cells;
use crate::store::failure::{Failure, signed};
use crate::time::Timestamp;

/// PostgreSQL keeps no zero characters in a text. Columns that are only searched do without; the body keeps it.
pub(super) fn searchable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

/// The columns of operations, one array each.
#[derive(Default)]
struct Columns {
    account: Vec<String>,
    id: Vec<String>,
    tool: Vec<String>,
    action: Vec<String>,
    fingerprint: Vec<String>,
    task: Vec<Option<String>>,
    subject: Vec<Option<String>>,
    stage: Vec<String>,
    held: Vec<bool>,
    unresolved: Vec<bool>,
    released: Vec<bool>,
    open: Vec<bool>,
    suspected: Vec<bool>,
    succeeded_at: Vec<Option<i64>>,
    rejected_as: Vec<Option<String>>,
    replaces: Vec<Option<String>>,
    replaced_by: Vec<Option<String>>,
    wish: Vec<bool>,
    due_at: Vec<Option<i64>>,
    work_at: Vec<Option<i64>>,
    receipt_expires_at: Vec<Option<i64>>,
    created_at: Vec<i64>,
    updated_at: Vec<i64>,
    version: Vec<i64>,
    policy_version: Vec<i64>,
    attempts: Vec<i64>,
    reference: Vec<Option<String>>,
    body: Vec<String>,
    arguments: Vec<String>,
    result: Vec<Option<String>>,
    expected: Vec<i64>,
}

impl Columns {
    fn push(&mut self, row: &Row) -> Result<(), Failure> {
        let operation = &row.operation;
        let cells = cells(operation)?;
        self.account.push(operation.account.as_str().to_owned());
        self.id.push(operation.id.as_str().to_owned());
        self.tool.push(operation.tool.as_str().to_owned());
        self.action.push(operation.action.to_string());
        self.fingerprint.push(operation.fingerprint.to_string());
        self.task.push(operation.task.as_ref().map(Task::as_str).map(str::to_owned));
        self.subject.push(operation.subject.as_ref().map(Subject::as_str).map(str::to_owned));
        self.stage.push(cells.stage.label().to_owned());
        self.held.push(cells.held);
        self.unresolved.push(operation.unresolved());
        self.released.push(operation.released.is_some());
        self.open.push(cells.open);
        self.suspected.push(operation.duplicate_suspected);
        self.succeeded_at.push(millis(cells.succeeded_at));
        self.rejected_as.push(cells.rejected_as.map(str::to_owned));
        self.replaces.push(operation.replaces.as_ref().map(OperationId::as_str).map(str::to_owned));
        self.replaced_by.push(operation.replaced_by.as_ref().map(OperationId::as_str).map(str::to_owned));
        self.wish.push(operation.wish);
        self.due_at.push(millis(row.times.due_at));
        self.work_at.push(millis(row.times.work_at));
        self.receipt_expires_at.push(millis(operation.receipt_expires_at));
        self.created_at.push(operation.created_at.as_millis());
        self.updated_at.push(operation.updated_at.as_millis());
        self.version.push(signed(operation.version));
        self.policy_version.push(i64::from(operation.policy_version));
        self.attempts.push(signed(operation.attempts.len() as u64));
        self.reference.push(cells.reference.map(searchable));
        self.body.push(cells.body);
        self.arguments.push(operation.arguments.as_str().to_owned());
        self.result.push(cells.result);
        self.expected.push(row.replaces.map_or(0, signed));
        Ok(())
    }

    fn len(&self) -> usize {
        self.id.len()
    }

    /// What may change, after account and ID, in the order of [`UPDATE`].
    fn update(self) -> Bound {
        Bound::new()
            .texts(self.account)
            .texts(self.id)
            .numbers(self.expected)
            .texts(self.stage)
            .and(self.held, Type::BOOL_ARRAY)
            .and(self.unresolved, Type::BOOL_ARRAY)
            .and(self.released, Type::BOOL_ARRAY)
            .and(self.open, Type::BOOL_ARRAY)
            .and(self.suspected, Type::BOOL_ARRAY)
            .and(self.succeeded_at, Type::INT8_ARRAY)
            .and(self.rejected_as, Type::TEXT_ARRAY)
            .and(self.replaced_by, Type::TEXT_ARRAY)
            .and(self.wish, Type::BOOL_ARRAY)
            .and(self.due_at, Type::INT8_ARRAY)
            .and(self.work_at, Type::INT8_ARRAY)
            .and(self.receipt_expires_at, Type::INT8_ARRAY)
            .numbers(self.updated_at)
            .numbers(self.version)
            .numbers(self.policy_version)
            .numbers(self.attempts)
            .and(self.reference, Type::TEXT_ARRAY)
            .texts(self.body)
            .and(self.result, Type::TEXT_ARRAY)
    }

    /// Everything, in the order of [`INSERT`].
    fn insert(self) -> Bound {
        Bound::new()
            .texts(self.account)
            .texts(self.id)
            .texts(self.tool)
            .texts(self.action)
            .texts(self.fingerprint)
            .and(self.task, Type::TEXT_ARRAY)
            .and(self.subject, Type::TEXT_ARRAY)
            .texts(self.stage)
            .and(self.held, Type::BOOL_ARRAY)
            .and(self.unresolved, Type::BOOL_ARRAY)
            .and(self.released, Type::BOOL_ARRAY)
            .and(self.open, Type::BOOL_ARRAY)
            .and(self.suspected, Type::BOOL_ARRAY)
            .and(self.succeeded_at, Type::INT8_ARRAY)
            .and(self.rejected_as, Type::TEXT_ARRAY)
            .and(self.replaces, Type::TEXT_ARRAY)
            .and(self.replaced_by, Type::TEXT_ARRAY)
            .and(self.wish, Type::BOOL_ARRAY)
            .and(self.due_at, Type::INT8_ARRAY)
            .and(self.work_at, Type::INT8_ARRAY)
            .and(self.receipt_expires_at, Type::INT8_ARRAY)
            .numbers(self.created_at)
            .numbers(self.updated_at)
            .numbers(self.version)
            .numbers(self.policy_version)
            .numbers(self.attempts)
            .and(self.reference, Type::TEXT_ARRAY)
            .texts(self.body)
            .texts(self.arguments)
            .and(self.result, Type::TEXT_ARRAY)
    }
}

const INSERT: &str = "INSERT INTO counterfoil.operations (account, id, tool, action, fingerprint, task, subject, stage, \
     held, unresolved, released, open, suspected, succeeded_at, rejected_as, replaces, replaced_by, wish, due_at, \
     work_at, receipt_expires_at, created_at, updated_at, version, policy_version, attempts, reference, body, \
     arguments, result) \
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, \
     $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)";

const UPDATE: &str = "UPDATE counterfoil.operations o SET stage = n.stage, held = n.held, unresolved = n.unresolved, \
     released = n.released, open = n.open, suspected = n.suspected, succeeded_at = n.succeeded_at, \
     rejected_as = n.rejected_as, replaced_by = n.replaced_by, wish = n.wish, due_at = n.due_at, \
     work_at = n.work_at, receipt_expires_at = n.receipt_expires_at, updated_at = n.updated_at, \
     version = n.version, policy_version = n.policy_version, attempts = n.attempts, reference = n.reference, \
     body = n.body, result = n.result \
     FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, \
     $22, $23) AS n (account, id, expected, stage, held, unresolved, released, open, suspected, succeeded_at, \
     rejected_as, replaced_by, wish, due_at, work_at, receipt_expires_at, updated_at, version, policy_version, \
     attempts, reference, body, result) \
     WHERE o.account = n.account AND o.id = n.id AND o.version = n.expected";

/// Writes it. Every row that must change is counted: what was loaded is still what is replaced, or nothing is written.
pub(super) async fn flush(wire: &Wire, written: &Written) -> Result<(), Failure> {
    let mut expected = Vec::new();
    let mut sent: Vec<Sent<'_, u64>> = Vec::new();
    let mut write = |rows: Option<usize>, sql: &'static str, bound: Bound| {
        expected.push(rows.map(|rows| rows as u64));
        sent.push(Box::pin(wire.change(sql, bound)));
    };
    let (mut fresh, mut changed) = (Columns::default(), Columns::default());
    for row in written.operations.values() {
        match row.replaces {
            None => fresh.push(row)?,
            Some(_) => changed.push(row)?,
        }
    }
    if fresh.len() > 0 {
        write(Some(fresh.len()), INSERT, fresh.insert());
    }
    if changed.len() > 0 {
        write(Some(changed.len()), UPDATE, changed.update());
    }
    if !written.keys.is_empty() {
        let bound = Bound::new()
            .texts(written.keys.iter().map(|(account, ..)| account.as_str().to_owned()).collect())
            .texts(written.keys.iter().map(|(_, key, _)| searchable(key)).collect())
            .texts(written.keys.iter().map(|(.., id)| id.as_str().to_owned()).collect());
        let sql = "INSERT INTO counterfoil.keys (account, key, id) SELECT * FROM unnest($1, $2, $3) \
             ON CONFLICT DO NOTHING";
        write(None, sql, bound);
    }
    if !written.evidence.is_empty() {
        let (sql, bound) = evidence(written);
        write(Some(written.evidence.len()), sql, bound);
    }
    if !written.notices.is_empty() {
        let (sql, bound) = notices(written);
        write(Some(written.notices.len()), sql, bound);
    }
    for (account, end) in &written.ends {
        let bound =
            Bound::new().text(account.as_str()).number(signed(end.position)).number(end.newest.as_millis());
        let sql = "UPDATE counterfoil.accounts SET position = $2, newest = $3 WHERE account = $1";
        write(Some(1), sql, bound);
    }
    for (name, level) in &written.buckets {
        let bound = Bound::new().text(name.as_str()).number(signed(level.level)).number(level.at.as_millis());
        let sql = "INSERT INTO counterfoil.buckets (name, level, at) VALUES ($1, $2, $3) \
             ON CONFLICT (name) DO UPDATE SET level = excluded.level, at = excluded.at";
        write(Some(1), sql, bound);
    }
    for ((tool, scope), refused) in &written.refusals {
        let bound = Bound::new().text(tool.as_str()).text(scope.as_str()).number(i64::from(*refused));
        let sql = "INSERT INTO counterfoil.refusals (tool, scope, refused) VALUES ($1, $2, $3) \
             ON CONFLICT (tool, scope) DO UPDATE SET refused = excluded.refused";
        write(Some(1), sql, bound);
    }
    for policy in &written.policies {
        let bound = Bound::new()
            .text(policy.tool.as_str())
            .number(i64::from(policy.version))
            .and(policy.digest.to_vec(), Type::BYTEA)
            .text(policy.body.as_str())
            .number(policy.at.as_millis());
        let sql = "INSERT INTO counterfoil.policies (tool, version, digest, body, created_at) \
             VALUES ($1, $2, $3, $4, $5)";
        write(Some(1), sql, bound);
    }
    for change in &written.paused {
        match change {
            Paused::Begins(draft, at, restored) => {
                let bound = Bound::new()
                    .text_or_null(draft.tool.as_ref().map(ToolName::as_str))
                    .text_or_null(draft.scope.as_deref())
                    .number(at.as_millis())
                    .text(draft.by.as_str())
                    .text(draft.note.as_str())
                    .and(*restored, Type::BOOL);
                let sql = "INSERT INTO counterfoil.pauses (number, tool, scope, began_at, by_name, note, restored) \
                     SELECT coalesce(max(number), 0) + 1, $1, $2, $3, $4, $5, $6 FROM counterfoil.pauses";
                write(Some(1), sql, bound);
            }
            Paused::Ends { tool, by, note, at } => {
                let named = tool.as_ref().map(ToolName::as_str);
                let bound = Bound::new()
                    .number(at.as_millis())
                    .text(by.as_str())
                    .text(note.as_str())
                    .text_or_null(named);
                let sql = "UPDATE counterfoil.pauses SET ended_at = $1, ended_by = $2, end_note = $3 \
                     WHERE ended_at IS NULL AND tool IS NOT DISTINCT FROM $4";
                write(None, sql, bound);
                if let Some(tool) = named {
                    write(None, "DELETE FROM counterfoil.refusals WHERE tool = $1", Bound::new().text(tool));
                }
            }
        }
    }
    if written.pauses_changed || written.tokens_changed {
        let bound =
            Bound::new().number(i64::from(written.pauses_changed)).number(i64::from(written.tokens_changed));
        let sql = "UPDATE counterfoil.head SET pauses = pauses + $1, tokens = tokens + $2 WHERE one = 1";
        write(Some(1), sql, bound);
    }
    let counts = pipelined(sent).await?;
    let all =
        expected.iter().zip(&counts).all(|(expected, count)| expected.is_none_or(|rows| rows == *count));
    if all {
        return Ok(());
    }
    Err(Failure::Batch(crate::error::StoreError::Unavailable(
        "a row changed that this transaction holds".to_owned(),
    )))
}

fn evidence(written: &Written) -> (&'static str, Bound) {
    let rows = &written.evidence;
    let bound = Bound::new()
        .texts(rows.iter().map(|row| row.account.clone()).collect())
        .numbers(rows.iter().map(|row| signed(row.position)).collect())
        .texts(rows.iter().map(|row| row.writer.clone()).collect())
        .numbers(rows.iter().map(|row| signed(row.seq)).collect())
        .numbers(rows.iter().map(|row| row.at.as_millis()).collect())
        .texts(rows.iter().map(|row| row.kind.clone()).collect())
        .texts(rows.iter().map(|row| row.by.0.clone()).collect())
        .texts(rows.iter().map(|row| row.by.1.clone()).collect())
        .and(rows.iter().map(|row| row.operation.clone()).collect::<Vec<_>>(), Type::TEXT_ARRAY)
        .numbers(rows.iter().map(|row| signed(row.version)).collect())
        .and(rows.iter().map(|row| row.state.clone()).collect::<Vec<_>>(), Type::TEXT_ARRAY)
        .texts(rows.iter().map(|row| row.data.clone()).collect())
        .and(rows.iter().map(|row| row.data_digest.to_vec()).collect::<Vec<_>>(), Type::BYTEA_ARRAY)
        .and(rows.iter().map(|row| row.digest.to_vec()).collect::<Vec<_>>(), Type::BYTEA_ARRAY)
        .and(rows.iter().map(|row| row.previous.to_vec()).collect::<Vec<_>>(), Type::BYTEA_ARRAY);
    let sql = "INSERT INTO counterfoil.evidence (account, position, writer, seq, at, kind, by_name, by_kind, \
         operation_id, version, state, data, data_digest, digest, previous) \
         SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
    (sql, bound)
}

fn notices(written: &Written) -> (&'static str, Bound) {
    let rows = &written.notices;
    let bound = Bound::new()
        .texts(rows.iter().map(|row| row.account.as_str().to_owned()).collect())
        .numbers(rows.iter().map(|row| signed(row.position)).collect())
        .texts(rows.iter().map(|row| row.event.clone()).collect())
        .numbers(rows.iter().map(|row| row.at.as_millis()).collect())
        .texts(rows.iter().map(|row| row.occasion.label().to_owned()).collect())
        .texts(rows.iter().map(|row| row.tool.as_str().to_owned()).collect())
        .texts(rows.iter().map(|row| row.operation.as_str().to_owned()).collect())
        .numbers(rows.iter().map(|row| signed(row.version)).collect())
        .texts(rows.iter().map(|row| row.state.clone()).collect())
        .texts(rows.iter().map(|row| row.next.0.clone()).collect())
        .and(rows.iter().map(|row| row.next.1.clone()).collect::<Vec<_>>(), Type::TEXT_ARRAY);
    let sql = "INSERT INTO counterfoil.notices (account, position, event, at, occasion, tool, operation_id, version, \
         state, action, reason) SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    (sql, bound)
}
