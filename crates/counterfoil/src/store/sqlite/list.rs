//! Lists: keyset pages over what has a column, with every value bound.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use super::row;
use crate::error::Refusal;
use crate::id::{Account, OperationId, ToolName};
use crate::operation::Operation;
use crate::store::cells::stage;
use crate::store::cursor::Cursor;
use crate::store::failure::{Failure, signed, unsigned};
use crate::store::{Census, Due, DueOf, EvidenceRow, Filter, Page, ToolCensus, WorkAsked};
use crate::time::Timestamp;

/// The most that one page holds.
const LARGEST_PAGE: u32 = 200;

/// A query under construction. Its text comes from this file alone; every value is bound.
struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The operations that `filter` lets through, newest first, without the bodies of their receipts.
pub(super) fn operations(
    connection: &Connection,
    account: Option<&Account>,
    filter: &Filter,
) -> Result<Page<Operation>, Failure> {
    let limit = filter.limit.clamp(1, LARGEST_PAGE);
    let query = page(account, filter, limit)?;
    let mut statement = connection.prepare_cached(&query.sql)?;
    let mut rows = statement.query(params_from_iter(query.values))?;
    let mut items = Vec::new();
    while let Some(found) = rows.next()? {
        items.push(row::read(found)?);
    }
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = items.last().filter(|_| more).map(|last| Cursor::after(last).print());
    Ok(Page { items, next_cursor })
}

/// The query for one page and one row more, which says whether there is another page.
fn page(account: Option<&Account>, filter: &Filter, limit: u32) -> Result<Query, Failure> {
    let mut query = Query {
        sql: format!("SELECT {}, NULL FROM counterfoil_operations WHERE 1", row::COLUMNS),
        values: Vec::new(),
    };
    conditions(&mut query, account, filter)?;
    // Within one account its name orders nothing, and leaving it out lets an index give the order.
    query.sql.push_str(match account {
        Some(_) => " ORDER BY created_at DESC, id DESC LIMIT ?",
        None => " ORDER BY created_at DESC, account DESC, id DESC LIMIT ?",
    });
    query.values.push(Value::Integer(i64::from(limit) + 1));
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
        query.and("account = ?", [text(account.as_str())]);
    }
    if let Some(stage) = stage {
        query.and("stage = ?", [text(stage.label())]);
    }
    if let Some(tool) = tool {
        query.and("tool = ?", [text(tool.as_str())]);
    }
    if let Some(task) = task {
        query.and("task = ?", [text(task.as_str())]);
    }
    if let Some(subject) = subject {
        query.and("subject = ?", [text(subject.as_str())]);
    }
    // Spelled out, so that the partial indexes serve.
    match held {
        Some(true) => query.and("held = 1", []),
        Some(false) => query.and("held = 0", []),
        None => {}
    }
    match unresolved {
        Some(true) => query.and("unresolved = 1", []),
        Some(false) => query.and("unresolved = 0", []),
        None => {}
    }
    if let Some(reference) = reference {
        query.and(
            "(reference = ? OR EXISTS (SELECT 1 FROM counterfoil_keys k WHERE k.account = \
             counterfoil_operations.account AND k.key = ? AND k.id = counterfoil_operations.id))",
            [text(reference), text(reference)],
        );
    }
    if let Some(after) = created_after {
        query.and("created_at >= ?", [Value::Integer(after.as_millis())]);
    }
    if let Some(before) = created_before {
        query.and("created_at < ?", [Value::Integer(before.as_millis())]);
    }
    if let Some(part) = part {
        query.and("instr(id, ?) > 0", [text(part)]);
    }
    if let Some(cursor) = cursor {
        let cursor = Cursor::parse(cursor).ok_or(Refusal::InvalidCursor)?;
        match account {
            Some(_) => query.and(
                "(created_at, id) < (?, ?)",
                [Value::Integer(cursor.created_at), Value::Text(cursor.id)],
            ),
            None => query.and(
                "(created_at, account, id) < (?, ?, ?)",
                [Value::Integer(cursor.created_at), Value::Text(cursor.account), Value::Text(cursor.id)],
            ),
        }
    }
    Ok(())
}

const EVIDENCE: &str = "SELECT position, writer, seq, at, kind, by_name, by_kind, operation_id, version, state, data, \
     digest, previous FROM counterfoil_evidence";

fn read_evidence(row: &Row<'_>) -> Result<EvidenceRow, rusqlite::Error> {
    Ok(EvidenceRow {
        position: unsigned(row.get(0)?),
        writer: row.get(1)?,
        seq: unsigned(row.get(2)?),
        at: Timestamp::from_millis(row.get(3)?),
        kind: row.get(4)?,
        by: (row.get(5)?, row.get(6)?),
        operation: row.get::<_, Option<String>>(7)?.map(|id| OperationId::from_stored(&id)),
        version: unsigned(row.get(8)?),
        state: row.get(9)?,
        data: row.get::<_, Option<String>>(10)?.unwrap_or_else(|| r#"{"purged":true}"#.to_owned()),
        digest: crate::hex::encode(&row.get::<_, [u8; 32]>(11)?),
        previous: crate::hex::encode(&row.get::<_, [u8; 32]>(12)?),
    })
}

/// Rows after `after`, oldest first; of one operation, or of every one of the account.
pub(super) fn evidence(
    connection: &Connection,
    account: &Account,
    id: Option<&OperationId>,
    after: u64,
    limit: u32,
) -> Result<Page<EvidenceRow>, Failure> {
    let limit = limit.clamp(1, LARGEST_PAGE);
    let condition = match id {
        Some(_) => "operation_id = ?4",
        None => "operation_id IS NOT NULL AND ?4 IS NULL",
    };
    let sql =
        format!("{EVIDENCE} WHERE account = ?1 AND position > ?2 AND {condition} ORDER BY position LIMIT ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let bound = (account.as_str(), signed(after), i64::from(limit) + 1, id.map(OperationId::as_str));
    let mut items = statement.query_map(bound, read_evidence)?.collect::<Result<Vec<EvidenceRow>, _>>()?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next_cursor = items.last().filter(|_| more).map(|last| last.position.to_string());
    Ok(Page { items, next_cursor })
}

fn read_due(row: &Row<'_>) -> Result<Due, rusqlite::Error> {
    Ok(Due {
        account: Account::from_stored(&row.get::<_, String>(0)?),
        id: OperationId::from_stored(&row.get::<_, String>(1)?),
        tool: ToolName::from_stored(&row.get::<_, String>(2)?),
        at: Timestamp::from_millis(row.get(3)?),
    })
}

/// Operations whose instant has come, longest due first.
pub(super) fn due(
    connection: &Connection,
    now: Timestamp,
    limit: u32,
    of: &DueOf,
) -> Result<Vec<Due>, Failure> {
    let (tools, after) = match of {
        DueOf::Except(tools) => (tools, None),
        DueOf::Only { tools, after } => (tools, after.as_ref()),
    };
    let tools = serde_json::to_string(tools)?;
    let found = match of {
        DueOf::Except(_) => connection
            .prepare_cached(
                "SELECT account, id, tool, due_at FROM counterfoil_operations \
                 WHERE due_at IS NOT NULL AND due_at <= ?1 AND tool NOT IN (SELECT value FROM json_each(?2)) \
                 ORDER BY due_at LIMIT ?3",
            )?
            .query_map((now.as_millis(), tools, limit), read_due)?
            .collect::<Result<_, _>>()?,
        DueOf::Only { .. } => connection
            .prepare_cached(
                "SELECT account, id, tool, due_at FROM counterfoil_operations \
                 WHERE due_at IS NOT NULL AND due_at <= ?1 AND tool IN (SELECT value FROM json_each(?2)) \
                 AND due_at >= ?4 AND (due_at, account, id) > (?4, ?5, ?6) \
                 ORDER BY due_at, account, id LIMIT ?3",
            )?
            .query_map(
                (
                    now.as_millis(),
                    tools,
                    limit,
                    after.map_or(i64::MIN, |after| after.at.as_millis()),
                    after.map_or("", |after| after.account.as_str()),
                    after.map_or("", |after| after.id.as_str()),
                ),
                read_due,
            )?
            .collect::<Result<_, _>>()?,
    };
    Ok(found)
}

/// Operations of one tool that a worker may take, longest due first, after `after`; only unknown ones with `unknown`.
pub(super) fn work(
    connection: &Connection,
    account: &Account,
    tool: &ToolName,
    now: Timestamp,
    asked: &WorkAsked,
) -> Result<Vec<Due>, Failure> {
    let after = asked.after.as_ref();
    let mut statement = connection.prepare_cached(
        "SELECT account, id, tool, work_at FROM counterfoil_operations \
         WHERE account = ?1 AND tool = ?2 AND work_at IS NOT NULL AND work_at <= ?3 AND work_at >= ?4 \
         AND (work_at, id) > (?4, ?5) AND (?6 = 0 OR stage = 'unknown') ORDER BY work_at, id LIMIT ?7",
    )?;
    let rows = statement.query_map(
        (
            account.as_str(),
            tool.as_str(),
            now.as_millis(),
            after.map_or(i64::MIN, |after| after.at.as_millis()),
            after.map_or("", |after| after.id.as_str()),
            asked.unknown,
            asked.limit,
        ),
        read_due,
    )?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The earliest instant after `now` at which a worker may take something of one tool.
pub(super) fn next_work(
    connection: &Connection,
    account: &Account,
    tool: &ToolName,
    now: Timestamp,
) -> Result<Option<Timestamp>, Failure> {
    let at: Option<i64> = connection
        .prepare_cached(
            "SELECT work_at FROM counterfoil_operations WHERE account = ?1 AND tool = ?2 \
             AND work_at IS NOT NULL AND work_at > ?3 ORDER BY work_at LIMIT 1",
        )?
        .query_row((account.as_str(), tool.as_str(), now.as_millis()), |row| row.get(0))
        .optional()?;
    Ok(at.map(Timestamp::from_millis))
}

/// The earliest instant at which anything is due.
pub(super) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, Failure> {
    let at: Option<i64> = connection
        .query_row(
            "SELECT due_at FROM counterfoil_operations WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1",
            [],
            |row| row.get(0),
        )
        .optional()?;
    Ok(at.map(Timestamp::from_millis))
}

/// Every account that has operations, or tokens that were not revoked. One index look per account, however many
/// operations there are.
pub(super) fn accounts(connection: &Connection) -> Result<Vec<Account>, Failure> {
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE owners (account) AS (SELECT min(account) FROM counterfoil_operations UNION ALL \
         SELECT (SELECT min(o.account) FROM counterfoil_operations o WHERE o.account > owners.account) \
         FROM owners WHERE owners.account IS NOT NULL) \
         SELECT account FROM owners WHERE account IS NOT NULL \
         UNION SELECT account FROM counterfoil_tokens WHERE revoked_at IS NULL ORDER BY 1",
    )?;
    let rows = statement.query_map([], |row| Ok(Account::from_stored(&row.get::<_, String>(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The operations of a tool that a key or reference was sent for; at most two, which already name none.
pub(super) fn sent_under(
    connection: &Connection,
    tool: &ToolName,
    key: &str,
) -> Result<Vec<(Account, OperationId)>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT k.account, k.id FROM counterfoil_keys k \
         JOIN counterfoil_operations o ON o.account = k.account AND o.id = k.id \
         WHERE k.key = ?1 AND o.tool = ?2 LIMIT 2",
    )?;
    let rows = statement.query_map((key, tool.as_str()), |row| {
        let (account, id): (String, String) = (row.get(0)?, row.get(1)?);
        Ok((Account::from_stored(&account), OperationId::from_stored(&id)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// How many operations there are of each kind.
pub(super) fn census(connection: &Connection, account: Option<&Account>) -> Result<Census, Failure> {
    let (counted, oldest) = match account {
        Some(_) => (
            "SELECT tool, stage, held, count(*) FROM counterfoil_operations WHERE account = ?1 \
             GROUP BY tool, stage, held ORDER BY tool, stage, held",
            "SELECT min(created_at) FROM counterfoil_operations WHERE stage = 'unknown' AND account = ?1",
        ),
        None => (
            "SELECT tool, stage, held, count(*) FROM counterfoil_operations WHERE ?1 IS NULL \
             GROUP BY tool, stage, held ORDER BY tool, stage, held",
            "SELECT min(created_at) FROM counterfoil_operations WHERE stage = 'unknown' AND ?1 IS NULL",
        ),
    };
    let account = account.map(Account::as_str);
    let mut statement = connection.prepare_cached(counted)?;
    let mut rows = statement.query([account])?;
    let mut by_tool = Vec::new();
    while let Some(found) = rows.next()? {
        by_tool.push(ToolCensus {
            tool: ToolName::from_stored(&found.get::<_, String>(0)?),
            stage: stage(&found.get::<_, String>(1)?)?,
            held: found.get(2)?,
            count: unsigned(found.get(3)?),
        });
    }
    let oldest: Option<i64> = connection.prepare_cached(oldest)?.query_row([account], |row| row.get(0))?;
    Ok(Census { by_tool, oldest_unknown: oldest.map(Timestamp::from_millis) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Task;

    fn plan(connection: &Connection, sql: &str) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let count = statement.parameter_count();
        let rows = statement
            .query_map(params_from_iter(vec![Value::Null; count]), |row| row.get::<_, String>(3))
            .unwrap();
        rows.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn pages_of_an_account_come_from_an_index_in_its_order() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&super::super::sql()).unwrap();
        let account = Account::parse("kitchen").unwrap();
        let cursor = Some(Cursor { created_at: 1, account: "kitchen".into(), id: "a".into() }.print());
        for filter in [
            Filter { cursor: cursor.clone(), ..Filter::default() },
            Filter { held: Some(true), cursor: cursor.clone(), ..Filter::default() },
            Filter { stage: Some(crate::guard::Stage::Unknown), cursor, ..Filter::default() },
        ] {
            let plan = plan(&connection, &page(Some(&account), &filter, 50).unwrap().sql);
            assert!(plan.contains("USING INDEX") && plan.contains("created_at,id)<(?,?)"), "{plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
        for (sql, index) in [
            (
                "SELECT id FROM counterfoil_operations WHERE account = ?1 AND tool = ?2 AND action = ?3 \
                 AND open = 1",
                "counterfoil_operations_peers",
            ),
            (
                "SELECT id FROM counterfoil_operations WHERE account = ?1 AND subject = ?2 \
                 AND (open = 1 OR succeeded_at >= ?3)",
                "counterfoil_operations_subject",
            ),
            (
                "SELECT id FROM counterfoil_operations WHERE due_at IS NOT NULL AND due_at <= ?1 \
                 ORDER BY due_at LIMIT 9",
                "counterfoil_operations_due",
            ),
            (
                "SELECT id, work_at FROM counterfoil_operations WHERE account = ?1 AND tool = ?2 \
                 AND work_at IS NOT NULL AND work_at <= ?3 AND work_at >= ?4 AND (work_at, id) > (?4, ?5) \
                 AND (?6 = 0 OR stage = 'unknown') ORDER BY work_at, id LIMIT ?7",
                "counterfoil_operations_work",
            ),
            (
                "SELECT tool, stage, held, count(*) FROM counterfoil_operations WHERE account = ?1 \
                 GROUP BY tool, stage, held",
                "COVERING INDEX counterfoil_operations_census",
            ),
            (
                "SELECT * FROM counterfoil_evidence WHERE account = ?1 AND position > ?2 \
                 AND operation_id IS NOT NULL AND ?4 IS NULL ORDER BY position LIMIT ?3",
                "counterfoil_evidence_account",
            ),
            (
                "SELECT * FROM counterfoil_evidence WHERE account = ?1 AND position > ?2 AND operation_id = ?4 \
                 ORDER BY position LIMIT ?3",
                "counterfoil_evidence_operation",
            ),
            (
                "SELECT seq, digest FROM counterfoil_evidence WHERE account = ?1 AND writer = ?2 \
                 ORDER BY seq DESC LIMIT 1",
                "sqlite_autoindex_counterfoil_evidence_1",
            ),
        ] {
            let plan = plan(&connection, sql);
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }

    #[test]
    fn tasks_are_bound_and_never_part_of_the_text() {
        let hostile = Task::from_stored("' OR 1 --");
        let mut query = Query { sql: String::new(), values: Vec::new() };
        let filter = Filter { task: Some(hostile), ..Filter::default() };
        conditions(&mut query, None, &filter).unwrap();
        assert_eq!(query.sql, " AND task = ?");
    }
}
