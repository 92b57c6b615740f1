//! Tool declarations as rows.

use rusqlite::{Connection, OptionalExtension as _};

use crate::id::{Account, ToolName};
use crate::store::chain::Hash;
use crate::store::failure::Failure;
use crate::time::Timestamp;

/// The declaration of `tool` that is stored as `version`.
pub(super) fn body(
    connection: &Connection,
    tool: &ToolName,
    version: u32,
) -> Result<Option<String>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT body FROM counterfoil_policies WHERE tool = ?1 AND version = ?2")?;
    Ok(statement.query_row((tool.as_str(), version), |row| row.get(0)).optional()?)
}

/// The newest version of `tool`'s declaration and its digest.
pub(super) fn newest(connection: &Connection, tool: &ToolName) -> Result<Option<(u32, Hash)>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT version, digest FROM counterfoil_policies WHERE tool = ?1 ORDER BY version DESC LIMIT 1",
    )?;
    Ok(statement.query_row([tool.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Keeps a new version.
pub(super) fn insert(
    connection: &Connection,
    (tool, version): (&ToolName, u32),
    body: &str,
    digest: &Hash,
    now: Timestamp,
) -> Result<(), Failure> {
    connection.execute(
        "INSERT INTO counterfoil_policies (tool, version, digest, body, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        (tool.as_str(), version, digest, body, now.as_millis()),
    )?;
    Ok(())
}

/// Every account that ever used `tool`.
pub(super) fn users_of(connection: &Connection, tool: &ToolName) -> Result<Vec<Account>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT account FROM counterfoil_operations WHERE tool = ?1 \
         UNION SELECT account FROM counterfoil_tombstones WHERE tool = ?1",
    )?;
    let users =
        statement.query_map([tool.as_str()], |row| Ok(Account::from_stored(&row.get::<_, String>(0)?)))?;
    Ok(users.collect::<Result<_, _>>()?)
}
