//! Pauses: in force until somebody resumes, and remembered afterwards, since budgets do not count paused time.

use std::time::Duration;

use rusqlite::{Connection, Row};

use super::failure::Failure;
use crate::id::ToolName;
use crate::snapshot::PauseDraft;
use crate::store::Pause;
use crate::time::Timestamp;

/// Who pauses a ledger that is older than its mark.
pub(super) const BY_LEDGER: &str = "counterfoil";

/// Why a ledger that is older than its mark is paused.
pub(super) const OLDER_THAN_MARK: &str = "ledger older than its mark";

/// A pause in force.
#[derive(Clone, Debug)]
pub(super) struct InForce {
    pub(super) pause: Pause,
    /// Whether the ledger itself began it because it is older than its mark.
    pub(super) restored: bool,
}

impl InForce {
    /// Whether it holds sends of `tool` under `scope`. A send whose scope is not known is held by no scoped pause.
    pub(super) fn covers(&self, tool: Option<&ToolName>, scope: Option<&str>) -> bool {
        let tool_fits = self.pause.tool.is_none() || self.pause.tool.as_ref() == tool;
        let scope_fits = self.pause.scope.is_none() || self.pause.scope.as_deref() == scope;
        tool_fits && scope_fits
    }
}

fn read(row: &Row<'_>) -> Result<InForce, rusqlite::Error> {
    Ok(InForce {
        pause: Pause {
            tool: row.get::<_, Option<String>>(0)?.map(|tool| ToolName::from_stored(&tool)),
            scope: row.get(1)?,
            at: Timestamp::from_millis(row.get(2)?),
            by: row.get(3)?,
            note: row.get(4)?,
        },
        restored: row.get(5)?,
    })
}

/// Every pause in force, oldest first.
pub(super) fn in_force(connection: &Connection) -> Result<Vec<InForce>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT tool, scope, began_at, by_name, note, restored FROM counterfoil_pauses \
         WHERE ended_at IS NULL ORDER BY number",
    )?;
    let mut rows = statement.query([])?;
    let mut pauses = Vec::new();
    while let Some(row) = rows.next()? {
        pauses.push(read(row)?);
    }
    Ok(pauses)
}

/// Begins a pause.
pub(super) fn begin(
    connection: &Connection,
    draft: &PauseDraft,
    now: Timestamp,
    restored: bool,
) -> Result<(), Failure> {
    connection.execute(
        "INSERT INTO counterfoil_pauses (tool, scope, began_at, by_name, note, restored) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            draft.tool.as_ref().map(ToolName::as_str),
            draft.scope.as_deref(),
            now.as_millis(),
            &draft.by,
            &draft.note,
            restored,
        ),
    )?;
    Ok(())
}

/// Ends every pause of `tool`, under any scope, or with `None` every pause of everything; pauses of single tools then
/// stay. The refusals that led to scoped pauses are forgotten.
pub(super) fn end(
    connection: &Connection,
    tool: Option<&ToolName>,
    by: &str,
    note: &str,
    now: Timestamp,
) -> Result<usize, Failure> {
    let tool = tool.map(ToolName::as_str);
    let ended = connection.execute(
        "UPDATE counterfoil_pauses SET ended_at = ?1, ended_by = ?2, end_note = ?3 \
         WHERE ended_at IS NULL AND tool IS ?4",
        (now.as_millis(), by, note, tool),
    )?;
    if let Some(tool) = tool {
        connection.execute("DELETE FROM counterfoil_refusals WHERE tool = ?1", [tool])?;
    }
    Ok(ended)
}

/// How long sends of `tool` under `scope` stood still between `since` and `now`: the union of all pauses that held
/// them, so that two at once count once.
pub(super) fn paused_for(
    connection: &Connection,
    tool: &ToolName,
    scope: Option<&str>,
    since: Timestamp,
    now: Timestamp,
) -> Result<Duration, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT began_at, ended_at FROM counterfoil_pauses \
         WHERE (tool IS NULL OR tool = ?1) AND (scope IS NULL OR scope = ?2) AND (ended_at IS NULL OR ended_at > ?3) \
         ORDER BY began_at",
    )?;
    let mut rows = statement.query((tool.as_str(), scope, since.as_millis()))?;
    let (mut total, mut reached) = (Duration::ZERO, since);
    while let Some(row) = rows.next()? {
        let began = Timestamp::from_millis(row.get(0)?).max(reached);
        let ended = row.get::<_, Option<i64>>(1)?.map_or(now, Timestamp::from_millis).min(now);
        total += ended.since(began);
        reached = reached.max(ended);
    }
    Ok(total)
}
