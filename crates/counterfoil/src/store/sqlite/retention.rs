//! Retention: what a receipt's end leaves behind.

use super::chain::Entry;
use super::commit::Commit;
use super::failure::{Failure, signed, unsigned};
use crate::id::{Account, OperationId};
use crate::store::Change;

/// Turns at most `limit` operations whose retention is over into tombstones, and says how many there were.
///
/// Held and other open operations have no end of retention and are never touched; a flagged one only once it was
/// released or acknowledged. The evidence stays, with its texts taken out: the chain covers them by digest.
pub(super) fn purge(commit: &mut Commit<'_>, limit: u32) -> Result<u64, Failure> {
    let now = commit.now();
    let mut expired = commit.connection.prepare_cached(
        "SELECT account, id, tool, stage, updated_at, version, json_extract(body, '$.state.succeeded.result.digest') \
         FROM counterfoil_operations \
         WHERE receipt_expires_at IS NOT NULL AND receipt_expires_at <= ?1 \
         AND stage IN ('succeeded', 'rejected', 'unknown') \
         AND (unresolved = 0 OR (stage = 'rejected' AND held = 0)) \
         ORDER BY receipt_expires_at LIMIT ?2",
    )?;
    let mut rows = expired.query((now.as_millis(), limit))?;
    let mut ended = Vec::new();
    while let Some(row) = rows.next()? {
        ended.push(Ended {
            account: row.get(0)?,
            id: row.get(1)?,
            tool: row.get(2)?,
            stage: row.get(3)?,
            closed_at: row.get(4)?,
            version: unsigned(row.get(5)?),
            receipt_digest: row.get(6)?,
        });
    }
    for operation in &ended {
        bury(commit, operation)?;
    }
    Ok(ended.len() as u64)
}

struct Ended {
    account: String,
    id: String,
    tool: String,
    stage: String,
    closed_at: i64,
    version: u64,
    receipt_digest: Option<String>,
}

fn bury(commit: &mut Commit<'_>, ended: &Ended) -> Result<(), Failure> {
    let connection = commit.connection;
    let key = (&ended.account, &ended.id);
    connection
        .prepare_cached(
            "DELETE FROM counterfoil_keys WHERE (account, key, id) IN ( \
             SELECT o.account, json_extract(a.value, '$.key'), o.id \
             FROM counterfoil_operations o, json_each(o.body, '$.attempts') a WHERE o.account = ?1 AND o.id = ?2)",
        )?
        .execute(key)?;
    connection
        .prepare_cached("DELETE FROM counterfoil_operations WHERE account = ?1 AND id = ?2")?
        .execute(key)?;
    connection
        .prepare_cached(
            "INSERT INTO counterfoil_tombstones (account, id, tool, stage, closed_at, receipt_digest) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((
            &ended.account,
            &ended.id,
            &ended.tool,
            &ended.stage,
            ended.closed_at,
            &ended.receipt_digest,
        ))?;
    let (account, id) = (Account::from_stored(&ended.account), OperationId::from_stored(&ended.id));
    let at = commit.now();
    commit.entry(Entry {
        account: &account,
        at,
        kind: "receipt_expired",
        by_name: "counterfoil",
        by_kind: "rule",
        operation: Some(&id),
        version: ended.version + 1,
        state: Some(&ended.stage),
        data: "{}",
    })?;
    connection
        .prepare_cached(
            "UPDATE counterfoil_evidence SET data = NULL \
             WHERE account = ?1 AND operation_id = ?2 AND version <= ?3",
        )?
        .execute((&ended.account, &ended.id, signed(ended.version)))?;
    commit.news.operations.push(Change { account, id });
    Ok(())
}
