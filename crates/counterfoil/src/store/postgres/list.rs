//! Lists: keyset pages over what has a column, with every value bound.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::flush::searchable;
use super::load::{
    columns, flag, hash, in_force, instant, number, operation, perhaps_instant, perhaps_text, text,
};
use super::wire::{Bound, Wire};
use crate::error::Refusal;
use crate::id::{Account, OperationId, ToolName};
use crate::operation::Operation;
use crate::store::cells::stage;
use crate::store::cursor::Cursor;
use crate::store::failure::{Failure, signed};
use crate::store::{Census, Due, DueOf, EvidenceRow, Filter, Page, Pause, ToolCensus, WorkAsked};
use crate::time::Timestamp;

/// The most that one page holds.
const LARGEST_PAGE: u32 = 200;

/// A query under construction. Its text comes from this file alone; every value is bound.
struct Query {
    sql: String,
    bound: Bound,
}

impl Query {
    /// A condition in which every `?` is one of the values that follow.
    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND ");
        let mut values = values.into_iter();
        for part in condition.split_inclusive('?') {
            match part.strip_suffix('?') {
                None => self.sql.push_str(part),
                Some(before) => {
                    self.sql.push_str(before);
                    match values.next() {
                        Some(Value::Text(text)) => self.bound.push(text, Type::TEXT),
                        Some(Value::Number(number)) => self.bound.push(number, Type::INT8),
                        None => {}
                    }
                    self.sql.push('$');
                    self.sql.push_str(&self.bound.len().to_string());
                }
            }
        }
    }
}

enum Value {
    Text(String),
    Number(i64),
}

fn words(text: &str) -> Value {
    Value::Text(searchable(text))
}

/// The operations that `filter` lets through, newest first, without the bodies of their receipts.
pub(super) async fn operations(
    wire: &Wire,
    account: Option<&Account>,
    filter: &Filter,
) -> Result<Page<Operation>, Failure> {
    let limit = filter.limit.clamp(1, LARGEST_PAGE);
    let query = page(account, filter, limit)?;
    let rows = wire.rows(&query.sql, query.bound).await?;
    let mut items = rows.iter().map(operation).collect::<Result<Vec<_>, _>>()?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = items.last().filter(|_| more).map(|last| Cursor::after(last).print());
    Ok(Page { items, next_cursor })
}

/// The query for one page and one row more, which says whether there is another page.
fn page(account: Option<&Account>, filter: &Filter, limit: u32) -> Result<Query, Failure> {
    let sql = concat!("SELECT ", columns!(), ", NULL::text FROM counterfoil.operations o WHERE true");
    let mut query = Query { sql: sql.to_owned(), bound: Bound::new() };
    conditions(&mut query, account, filter)?;
    // Within one account its name orders nothing, and leaving it out lets an index give the order.
    query.sql.push_str(match account {
        Some(_) => " ORDER BY o.created_at DESC, o.id DESC",
        None => " ORDER BY o.created_at DESC, o.account DESC, o.id DESC",
    });
    query.sql.push_str(&format!(" LIMIT {}", i64::from(limit) + 1));
    Ok(query)
}

fn conditions(query: &mut Query, account: Option<&Account>, filter: &Filter) -> Result<(), Failure> {
    let Filter {
        stage,
        tool,
        task,
        subject,
        held,
        unresolved,
        reference,
        created_after,
        created_before,
        text: part,
        limit: _,
        cursor,
    } = filter;
    if let Some(account) = account {
        query.and("o.account = ?", [words(account.as_str())]);
    }
    if let Some(stage) = stage {
        query.and("o.stage = ?", [words(stage.label())]);
    }
    if let Some(tool) = tool {
        query.and("o.tool = ?", [words(tool.as_str())]);
    }
    if let Some(task) = task {
        query.and("o.task = ?", [words(task.as_str())]);
    }
    if let Some(subject) = subject {
        query.and("o.subject = ?", [words(subject.as_str())]);
    }
    match held {
        Some(true) => query.and("o.held", []),
        Some(false) => query.and("NOT o.held", []),
        None => {}
    }
    match unresolved {
        Some(true) => query.and("o.unresolved", []),
        Some(false) => query.and("NOT o.unresolved", []),
        None => {}
    }
    if let Some(reference) = reference {
        query.and(
            "(o.reference = ? OR EXISTS (SELECT 1 FROM counterfoil.keys k WHERE k.account = o.account \
             AND k.key = ? AND k.id = o.id))",
            [words(reference), words(reference)],
        );
    }
    if let Some(after) = created_after {
        query.and("o.created_at >= ?", [Value::Number(after.as_millis())]);
    }
    if let Some(before) = created_before {
        query.and("o.created_at < ?", [Value::Number(before.as_millis())]);
    }
    if let Some(part) = part {
        query.and("strpos(o.id, ?) > 0", [words(part)]);
    }
    if let Some(cursor) = cursor {
        let cursor = Cursor::parse(cursor).ok_or(Refusal::InvalidCursor)?;
        match account {
            Some(_) => query
                .and("(o.created_at, o.id) < (?, ?)", [Value::Number(cursor.created_at), words(&cursor.id)]),
            None => query.and(
                "(o.created_at, o.account, o.id) < (?, ?, ?)",
                [Value::Number(cursor.created_at), words(&cursor.account), words(&cursor.id)],
            ),
        }
    }
    Ok(())
}

fn evidence_row(row: &Row) -> Result<EvidenceRow, Failure> {
    Ok(EvidenceRow {
        position: number(row, 0)?,
        writer: text(row, 1)?,
        seq: number(row, 2)?,
        at: instant(row, 3)?,
        kind: text(row, 4)?,
        by: (text(row, 5)?, text(row, 6)?),
        operation: perhaps_text(row, 7)?.map(|id| OperationId::from_stored(&id)),
        version: number(row, 8)?,
        state: perhaps_text(row, 9)?,
        data: perhaps_text(row, 10)?.unwrap_or_else(|| r#"{"purged":true}"#.to_owned()),
        digest: crate::hex::encode(&hash(row, 11)?),
        previous: crate::hex::encode(&hash(row, 12)?),
    })
}

/// Rows after `after`, oldest first; of one operation, or of every one of the account.
pub(super) async fn evidence(
    wire: &Wire,
    account: &Account,
    id: Option<&OperationId>,
    after: u64,
    limit: u32,
) -> Result<Page<EvidenceRow>, Failure> {
    let limit = limit.clamp(1, LARGEST_PAGE);
    let bound = Bound::new().text(account.as_str()).number(signed(after)).number(i64::from(limit) + 1);
    let (sql, bound) = match id {
        Some(id) => (
            "SELECT position, writer, seq, at, kind, by_name, by_kind, operation_id, version, state, data, digest, \
             previous FROM counterfoil.evidence WHERE account = $1 AND position > $2 AND operation_id = $4 \
             ORDER BY position LIMIT $3",
            bound.text(id.as_str()),
        ),
        None => (
            "SELECT position, writer, seq, at, kind, by_name, by_kind, operation_id, version, state, data, digest, \
             previous FROM counterfoil.evidence WHERE account = $1 AND position > $2 AND operation_id IS NOT NULL \
             ORDER BY position LIMIT $3",
            bound,
        ),
    };
    let rows = wire.rows(sql, bound).await?;
    let mut items = rows.iter().map(evidence_row).collect::<Result<Vec<_>, _>>()?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = items.last().filter(|_| more).map(|last| last.position.to_string());
    Ok(Page { items, next_cursor })
}

fn due_row(row: &Row) -> Result<Due, Failure> {
    Ok(Due {
        account: Account::from_stored(&text(row, 0)?),
        id: OperationId::from_stored(&text(row, 1)?),
        tool: ToolName::from_stored(&text(row, 2)?),
        at: instant(row, 3)?,
    })
}

fn tool_names(tools: &[ToolName]) -> Vec<String> {
    tools.iter().map(|tool| tool.as_str().to_owned()).collect()
}

/// Operations whose instant has come, longest due first.
pub(super) async fn due(wire: &Wire, now: Timestamp, limit: u32, of: &DueOf) -> Result<Vec<Due>, Failure> {
    let bound = Bound::new().number(now.as_millis());
    let rows = match of {
        DueOf::Except(tools) => {
            let sql = "SELECT account, id, tool, due_at FROM counterfoil.operations \
                 WHERE due_at IS NOT NULL AND due_at <= $1 AND NOT (tool = ANY($2)) \
                 ORDER BY due_at, account, id LIMIT $3";
            wire.rows(sql, bound.texts(tool_names(tools)).number(i64::from(limit))).await?
        }
        DueOf::Only { tools, after } => {
            let after = after.as_ref();
            let sql = "SELECT account, id, tool, due_at FROM counterfoil.operations \
                 WHERE due_at IS NOT NULL AND due_at <= $1 AND tool = ANY($2) \
                 AND (due_at, account, id) > ($4, $5, $6) ORDER BY due_at, account, id LIMIT $3";
            let bound = bound
                .texts(tool_names(tools))
                .number(i64::from(limit))
                .number(after.map_or(i64::MIN, |after| after.at.as_millis()))
                .text(after.map_or("", |after| after.account.as_str()))
                .text(after.map_or("", |after| after.id.as_str()));
            wire.rows(sql, bound).await?
        }
    };
    rows.iter().map(due_row).collect()
}

/// Operations of one tool that a worker may take, longest due first, after `after`; only unknown ones with `unknown`.
pub(super) async fn work(
    wire: &Wire,
    account: &Account,
    tool: &ToolName,
    now: Timestamp,
    asked: &WorkAsked,
) -> Result<Vec<Due>, Failure> {
    let after = asked.after.as_ref();
    let sql = "SELECT account, id, tool, work_at FROM counterfoil.operations \
         WHERE account = $1 AND tool = $2 AND work_at IS NOT NULL AND work_at <= $3 AND (work_at, id) > ($4, $5) \
         AND (NOT $6 OR stage = 'unknown') ORDER BY work_at, id LIMIT $7";
    let bound = Bound::new()
        .text(account.as_str())
        .text(tool.as_str())
        .number(now.as_millis())
        .number(after.map_or(i64::MIN, |after| after.at.as_millis()))
        .text(after.map_or("", |after| after.id.as_str()))
        .and(asked.unknown, Type::BOOL)
        .number(i64::from(asked.limit));
    wire.rows(sql, bound).await?.iter().map(due_row).collect()
}

/// The earliest instant after `now` at which a worker may take something of one tool.
pub(super) async fn next_work(
    wire: &Wire,
    account: &Account,
    tool: &ToolName,
    now: Timestamp,
) -> Result<Option<Timestamp>, Failure> {
    let sql = "SELECT work_at FROM counterfoil.operations WHERE account = $1 AND tool = $2 \
         AND work_at IS NOT NULL AND work_at > $3 ORDER BY work_at LIMIT 1";
    let bound = Bound::new().text(account.as_str()).text(tool.as_str()).number(now.as_millis());
    wire.row(sql, bound).await?.map(|row| instant(&row, 0)).transpose()
}

/// The earliest instant at which anything is due.
pub(super) async fn next_due(wire: &Wire) -> Result<Option<Timestamp>, Failure> {
    let sql = "SELECT due_at FROM counterfoil.operations WHERE due_at IS NOT NULL \
         ORDER BY due_at, account, id LIMIT 1";
    wire.row(sql, Bound::new()).await?.map(|row| instant(&row, 0)).transpose()
}

/// Every account that has operations, or tokens that were not revoked.
pub(super) async fn accounts(wire: &Wire) -> Result<Vec<Account>, Failure> {
    let sql = "SELECT a.account FROM counterfoil.accounts a \
         WHERE EXISTS (SELECT 1 FROM counterfoil.operations o WHERE o.account = a.account) \
         UNION SELECT account FROM counterfoil.tokens WHERE revoked_at IS NULL ORDER BY 1";
    let rows = wire.rows(sql, Bound::new()).await?;
    rows.iter().map(|row| Ok(Account::from_stored(&text(row, 0)?))).collect()
}

/// The operations of a tool that a key or reference was sent for; at most two, which already name none.
pub(super) async fn sent_under(
    wire: &Wire,
    tool: &ToolName,
    key: &str,
) -> Result<Vec<(Account, OperationId)>, Failure> {
    let sql = "SELECT k.account, k.id FROM counterfoil.keys k \
         JOIN counterfoil.operations o ON o.account = k.account AND o.id = k.id \
         WHERE k.key = $1 AND o.tool = $2 LIMIT 2";
    let bound = Bound::new().text(searchable(key)).text(tool.as_str());
    let found =
        |row: &Row| Ok((Account::from_stored(&text(row, 0)?), OperationId::from_stored(&text(row, 1)?)));
    wire.rows(sql, bound).await?.iter().map(found).collect()
}

/// How many operations there are of each kind.
pub(super) async fn census(wire: &Wire, account: Option<&Account>) -> Result<Census, Failure> {
    let bound = || Bound::new().text_or_null(account.map(Account::as_str));
    let counted = "SELECT tool, stage, held, count(*) FROM counterfoil.operations \
         WHERE $1::text IS NULL OR account = $1 GROUP BY tool, stage, held ORDER BY tool, stage, held";
    let oldest = "SELECT min(created_at) FROM counterfoil.operations \
         WHERE stage = 'unknown' AND ($1::text IS NULL OR account = $1)";
    let mut by_tool = Vec::new();
    for row in wire.rows(counted, bound()).await? {
        by_tool.push(ToolCensus {
            tool: ToolName::from_stored(&text(&row, 0)?),
            stage: stage(&text(&row, 1)?)?,
            held: flag(&row, 2)?,
            count: number(&row, 3)?,
        });
    }
    let oldest = wire.row(oldest, bound()).await?.map(|row| perhaps_instant(&row, 0)).transpose()?;
    Ok(Census { by_tool, oldest_unknown: oldest.flatten() })
}

/// The pauses in force, oldest first.
pub(super) async fn pauses(wire: &Wire) -> Result<Vec<Pause>, Failure> {
    let sql = "SELECT tool, scope, began_at, by_name, note, restored FROM counterfoil.pauses \
         WHERE ended_at IS NULL ORDER BY number";
    let rows = wire.rows(sql, Bound::new()).await?;
    rows.iter().map(|row| Ok(in_force(row)?.pause)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Task;

    #[test]
    fn values_are_bound_and_never_part_of_the_text() {
        let hostile = Task::from_stored("' OR 1 --");
        let mut query = Query { sql: String::new(), bound: Bound::new() };
        let filter = Filter { task: Some(hostile), reference: Some("'?'".to_owned()), ..Filter::default() };
        conditions(&mut query, None, &filter).unwrap();
        assert_eq!(
            query.sql,
            " AND o.task = $1 AND (o.reference = $2 OR EXISTS (SELECT 1 FROM counterfoil.keys k \
             WHERE k.account = o.account AND k.key = $3 AND k.id = o.id))"
        );
        assert_eq!(query.bound.len(), 3);
    }
}
