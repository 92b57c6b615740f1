//! The outbox: notices, written with the changes that they tell of, and how far each listener has been told.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row};
use serde_json::json;

use super::SqliteCommit;
use crate::id::{Account, OperationId, ToolName};
use crate::notice::{KEPT_FOR, MOST_KEPT, Notice, Occasion};
use crate::store::delivery::{Delivery, Waiting};
use crate::store::failure::{Failure, signed, unsigned};
use crate::time::Timestamp;

const COLUMNS: &str =
    "position, event, at, occasion, account, tool, operation_id, version, state, action, reason";

/// Writes a notice in the commit of its change.
pub(super) fn append(connection: &Connection, notice: &Notice) -> Result<(), Failure> {
    let (action, reason) = &notice.next;
    connection
        .prepare_cached(
            "INSERT INTO counterfoil_notices (position, event, at, occasion, account, tool, operation_id, version, state, \
             action, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute((
            signed(notice.position),
            &notice.event,
            notice.at.as_millis(),
            notice.occasion.label(),
            notice.account.as_str(),
            notice.tool.as_str(),
            notice.operation.as_str(),
            signed(notice.version),
            &notice.state,
            action,
            reason,
        ))?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Notice> {
    let text = |place: usize| row.get::<_, String>(place);
    Ok(Notice {
        position: unsigned(row.get(0)?),
        event: text(1)?,
        at: Timestamp::from_millis(row.get(2)?),
        occasion: Occasion::parse(&text(3)?).unwrap_or(Occasion::Held),
        account: Account::from_stored(&text(4)?),
        tool: ToolName::from_stored(&text(5)?),
        operation: OperationId::from_stored(&text(6)?),
        version: unsigned(row.get(7)?),
        state: text(8)?,
        next: (text(9)?, row.get(10)?),
    })
}

/// A listener that is new hears of what happens from now on.
pub(super) fn listen(commit: &mut SqliteCommit<'_>, name: &str) -> Result<(), Failure> {
    let added = commit
        .rows
        .connection
        .prepare_cached(
            "INSERT INTO counterfoil_listeners (name, position, tries, next_at, holder, leased_until) \
             SELECT ?1, coalesce((SELECT max(position) FROM counterfoil_evidence), 0), 0, 0, NULL, 0 \
             WHERE NOT EXISTS (SELECT 1 FROM counterfoil_listeners WHERE name = ?1)",
        )?
        .execute([name])?;
    commit.wrote |= added > 0;
    Ok(())
}

/// The next notice for a listener, as `holder` sees it.
pub(super) fn waiting(connection: &Connection, name: &str, holder: &str) -> Result<Option<Waiting>, Failure> {
    let listener = connection
        .prepare_cached(
            "SELECT position, tries, next_at, holder, leased_until FROM counterfoil_listeners WHERE name = ?1",
        )?
        .query_row([name], |row| {
            let held: Option<String> = row.get(3)?;
            Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, row.get::<_, i64>(2)?, held, row.get::<_, i64>(4)?))
        })
        .optional()?;
    let Some((position, tries, next_at, held, leased_until)) = listener else { return Ok(None) };
    let notice = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM counterfoil_notices WHERE position > ?1 ORDER BY position LIMIT 1"
        ))?
        .query_row([position], read)
        .optional()?;
    let elsewhere = held.is_some_and(|held| held != holder);
    let not_before = if elsewhere { next_at.max(leased_until) } else { next_at };
    Ok(notice.map(|notice| Waiting { notice, tries, not_before: Timestamp::from_millis(not_before) }))
}

/// Takes the next notice for a listener under a lease, unless it is not due or another process speaks to them. A crash
/// after this leaves it to whoever comes once the lease is over.
pub(super) fn take(
    commit: &mut SqliteCommit<'_>,
    name: &str,
    holder: &str,
    lease: Duration,
) -> Result<Option<Waiting>, Failure> {
    let now = commit.now();
    let waiting = waiting(commit.rows.connection, name, holder)?;
    let Some(waiting) = waiting.filter(|waiting| waiting.not_before <= now) else { return Ok(None) };
    commit
        .rows
        .connection
        .prepare_cached("UPDATE counterfoil_listeners SET holder = ?2, leased_until = ?3 WHERE name = ?1")?
        .execute((name, holder, now.plus(lease).as_millis()))?;
    commit.wrote = true;
    Ok(Some(waiting))
}

/// Records how a delivery ended, unless another process took over meanwhile: then it is said twice, under one name.
pub(super) fn settle(
    commit: &mut SqliteCommit<'_>,
    name: &str,
    holder: &str,
    notice: &Notice,
    delivery: &Delivery,
) -> Result<(), Failure> {
    let position = signed(notice.position);
    let run = |sql: &str, next_at: Timestamp| -> Result<usize, Failure> {
        let mut statement = commit.rows.connection.prepare_cached(sql)?;
        Ok(statement.execute((name, holder, position, next_at.as_millis()))?)
    };
    const ADVANCE: &str = "UPDATE counterfoil_listeners SET position = ?3, tries = 0, next_at = ?4, holder = NULL, \
         leased_until = 0 WHERE name = ?1 AND holder = ?2 AND position < ?3";
    const PUT_OFF: &str = "UPDATE counterfoil_listeners SET tries = tries + 1, next_at = ?4, holder = NULL, \
         leased_until = 0 WHERE name = ?1 AND holder = ?2 AND position < ?3";
    let settled = match delivery {
        Delivery::Done | Delivery::GivenUp(_) => run(ADVANCE, Timestamp::from_millis(0))?,
        Delivery::Failed(again) => run(PUT_OFF, *again)?,
    };
    commit.wrote |= settled > 0;
    if let (Delivery::GivenUp(reason), 1) = (delivery, settled) {
        let data = json!({
            "listener": name, "event": notice.event, "occasion": notice.occasion.label(),
            "account": notice.account.as_str(), "operation_id": notice.operation.as_str(), "reason": reason,
        });
        commit.ledger_entry("notice_given_up", "counterfoil", &data)?;
    }
    Ok(())
}

/// Forgets notices that are old, or too many.
pub(super) fn forget(commit: &mut SqliteCommit<'_>) -> Result<(), Failure> {
    let old = commit.now().minus(KEPT_FOR).as_millis();
    let forgotten = commit
        .rows
        .connection
        .prepare_cached(
            "DELETE FROM counterfoil_notices WHERE at < ?1 OR position <= \
             coalesce((SELECT position FROM counterfoil_notices ORDER BY position DESC LIMIT 1 OFFSET ?2), -1)",
        )?
        .execute((old, MOST_KEPT))?;
    commit.wrote |= forgotten > 0;
    Ok(())
}
