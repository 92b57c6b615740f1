//! Retention: what a receipt's end leaves behind.

use rusqlite::{Connection, OptionalExtension as _};

use super::SqliteCommit;
use crate::faults::Faults;
use crate::id::{Account, OperationId};
use crate::store::Change;
use crate::store::chain::Entry;
use crate::store::failure::{Failure, signed, unsigned};
use crate::time::Timestamp;

/// Which operations have an end of retention that is over. Held and other open ones have no end and are never touched; a
/// flagged one only once it was released or acknowledged; a success not as long as somebody is prepared who must name it to
/// act on the same subject.
macro_rules! expired {
    () => {
        "receipt_expires_at IS NOT NULL AND receipt_expires_at <= ?1 \
         AND stage IN ('succeeded', 'rejected', 'unknown') \
         AND (unresolved = 0 OR (stage = 'rejected' AND held = 0)) \
         AND NOT EXISTS (SELECT 1 FROM counterfoil_operations waiting \
             WHERE waiting.account = counterfoil_operations.account \
             AND waiting.subject = counterfoil_operations.subject AND waiting.stage = 'prepared' \
             AND waiting.created_at <= counterfoil_operations.succeeded_at)"
    };
}

/// One operation among those of all accounts.
pub(super) struct Key {
    account: String,
    id: String,
}

/// At most `limit` operations whose retention is over at `now`, those first that are over longest.
pub(super) fn expired(connection: &Connection, now: Timestamp, limit: u32) -> Result<Vec<Key>, Failure> {
    let mut statement = connection.prepare_cached(concat!(
        "SELECT account, id FROM counterfoil_operations WHERE ",
        expired!(),
        " ORDER BY receipt_expires_at LIMIT ?2",
    ))?;
    let rows = statement
        .query_map((now.as_millis(), limit), |row| Ok(Key { account: row.get(0)?, id: row.get(1)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Turns one operation into a tombstone, unless it was changed since it was found: proof that came meanwhile may have
/// opened it again. Says whether it did.
///
/// The evidence stays, with its texts taken out: the chain covers them by digest. A crash in here leaves the operation
/// as it was, which answers every call as its tombstone would.
pub(super) fn bury(commit: &mut SqliteCommit<'_>, faults: &Faults, key: &Key) -> Result<bool, Failure> {
    let now = commit.now();
    let mut found = commit.rows.connection.prepare_cached(concat!(
        "SELECT account, id, tool, stage, updated_at, version, \
         json_extract(body, '$.state.succeeded.result.digest') \
         FROM counterfoil_operations WHERE account = ?2 AND id = ?3 AND ",
        expired!(),
    ))?;
    let ended = found.query_row((now.as_millis(), &key.account, &key.id), |row| {
        Ok(Ended {
            account: row.get(0)?,
            id: row.get(1)?,
            tool: row.get(2)?,
            stage: row.get(3)?,
            closed_at: row.get(4)?,
            version: unsigned(row.get(5)?),
            receipt_digest: row.get(6)?,
        })
    });
    match ended.optional()? {
        None => Ok(false),
        Some(ended) => replace(commit, faults, &ended).map(|()| true),
    }
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

fn replace(commit: &mut SqliteCommit<'_>, faults: &Faults, ended: &Ended) -> Result<(), Failure> {
    let connection = commit.rows.connection;
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
    faults.hit("c13_between_body_and_tombstone")?;
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
