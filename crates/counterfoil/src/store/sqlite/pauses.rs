//! Pauses as rows.

use rusqlite::{Connection, Row};

use crate::id::ToolName;
use crate::snapshot::PauseDraft;
use crate::store::Pause;
use crate::store::failure::Failure;
use crate::store::in_force::InForce;
use crate::time::Timestamp;

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

/// From when to when sends of `tool` under `scope` were held, where that reaches past `since`, by their beginning.
pub(super) fn since(
    connection: &Connection,
    tool: &ToolName,
    scope: Option<&str>,
    since: Timestamp,
) -> Result<Vec<(Timestamp, Option<Timestamp>)>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT began_at, ended_at FROM counterfoil_pauses \
         WHERE (tool IS NULL OR tool = ?1) AND (scope IS NULL OR scope = ?2) AND (ended_at IS NULL OR ended_at > ?3) \
         ORDER BY began_at",
    )?;
    let rows = statement.query_map((tool.as_str(), scope, since.as_millis()), |row| {
        Ok((Timestamp::from_millis(row.get(0)?), row.get::<_, Option<i64>>(1)?.map(Timestamp::from_millis)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
