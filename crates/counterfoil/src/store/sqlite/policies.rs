//! Tool declarations as rows.

use rusqlite::{Connection, OptionalExtension as _};
use serde_json::{Map, Value};

use crate::id::{Account, ToolName};
use crate::store::chain::{Hash, hash_of};
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

/// What the newest version of a tool's declaration says where no server declares the tool any more. Nothing but a client
/// that knows declarations from the file alone reads such a version: no operation is ever prepared under it.
const WITHDRAWN: &str = "withdrawn";

/// Marks every tool but `declared` as withdrawn. Says whether anything was written.
pub(super) fn withdraw_others(
    connection: &Connection,
    declared: &[&ToolName],
    now: Timestamp,
) -> Result<bool, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT tool, MAX(version), body FROM counterfoil_policies GROUP BY tool")?;
    let newest = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let newest: Vec<(String, u32, String)> = newest.collect::<Result<_, _>>()?;
    let mut wrote = false;
    for (tool, version, body) in newest {
        let tool = ToolName::from_stored(&tool);
        let mut members: Map<String, Value> = serde_json::from_str(&body)?;
        if declared.contains(&&tool) || members.contains_key(WITHDRAWN) {
            continue;
        }
        members.insert(WITHDRAWN.to_owned(), Value::Bool(true));
        let body = serde_json::to_string(&members)?;
        insert(connection, (&tool, version + 1), &body, &hash_of(&body), now)?;
        wrote = true;
    }
    Ok(wrote)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may end where its world does not stand")]
mod tests {
    use crate::id::ToolName;
    use crate::policy::Tool;
    use crate::store::sqlite::{SqliteOptions, SqliteStore};

    fn tool(name: &str) -> Tool {
        Tool::in_transaction(ToolName::parse(name).unwrap())
    }

    /// Every stored version: of which tool, which, and whether it says that the tool is withdrawn.
    fn versions(file: &std::path::Path) -> Vec<(String, u32, bool)> {
        let database = rusqlite::Connection::open(file).unwrap();
        let mut statement = database
            .prepare("SELECT tool, version, json_extract(body, '$.withdrawn') IS 1 FROM counterfoil_policies ORDER BY 1, 2")
            .unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    #[tokio::test]
    async fn what_is_not_declared_is_withdrawn_once_and_declared_anew() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.db");
        let store = SqliteStore::open(&file, SqliteOptions::default()).unwrap();
        store.register_all(vec![tool("a"), tool("b")]).await.unwrap();
        let row = |tool: &str, version, withdrawn| (tool.to_owned(), version, withdrawn);
        let both = vec![row("a", 1, false), row("b", 1, false)];
        assert_eq!(versions(&file), both);
        store.register(vec![tool("a")]).await.unwrap();
        assert_eq!(versions(&file), both);
        for _ in 0..2 {
            store.register_all(vec![tool("a")]).await.unwrap();
            assert_eq!(versions(&file), [&both[..], &[row("b", 2, true)]].concat());
        }
        let again = store.register_all(vec![tool("a"), tool("b")]).await.unwrap();
        assert_eq!(again.get(&ToolName::parse("b").unwrap()).unwrap().0, 3);
        assert_eq!(versions(&file), [&both[..], &[row("b", 2, true), row("b", 3, false)]].concat());
    }
}
