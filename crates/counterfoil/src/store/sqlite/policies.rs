//! Tool declarations by version: written once, never changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension as _};

use super::chain::{Hash, hash_of};
use super::failure::Failure;
use crate::error::StoreError;
use crate::id::ToolName;
use crate::keys::KeyFormat;
use crate::policy::Tool;
use crate::time::Timestamp;

/// Declarations that were read before. Bounded by how often the configuration was changed.
#[derive(Debug, Default)]
pub(super) struct Policies {
    known: Mutex<HashMap<(ToolName, u32), Arc<Tool>>>,
    /// Up to which version a tool's declarations were compared, and whether they compare by different members.
    compared: Mutex<HashMap<ToolName, (u32, bool)>>,
}

impl Policies {
    /// The declaration of `tool` that is stored as `version`.
    pub(super) fn get(
        &self,
        connection: &Connection,
        tool: &ToolName,
        version: u32,
    ) -> Result<Option<Arc<Tool>>, Failure> {
        let key = (tool.clone(), version);
        if let Some(found) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Some(found.clone()));
        }
        let mut statement = connection
            .prepare_cached("SELECT body FROM counterfoil_policies WHERE tool = ?1 AND version = ?2")?;
        let body: Option<String> =
            statement.query_row((tool.as_str(), version), |row| row.get(0)).optional()?;
        let Some(body) = body else { return Ok(None) };
        let found = Arc::new(serde_json::from_str::<Tool>(&body)?);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
        Ok(Some(found))
    }

    /// Whether the declarations of `tool` ever differed in what makes an action the same: then one action may be stored
    /// under several digests.
    pub(super) fn compared_differently(
        &self,
        connection: &Connection,
        tool: &ToolName,
    ) -> Result<bool, Failure> {
        let mut statement =
            connection.prepare_cached("SELECT max(version) FROM counterfoil_policies WHERE tool = ?1")?;
        let newest: u32 =
            statement.query_row([tool.as_str()], |row| row.get::<_, Option<u32>>(0))?.unwrap_or(0);
        let compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner).get(tool).copied();
        let (from, mut differ) = compared.unwrap_or((0, false));
        if from == newest {
            return Ok(differ);
        }
        let first = self.get(connection, tool, 1)?;
        for version in from + 1..=newest {
            let other = self.get(connection, tool, version)?;
            let rule = |tool: &Option<Arc<Tool>>| {
                tool.as_ref().map(|tool| (tool.volatile.clone(), tool.guard_on.clone()))
            };
            differ |= rule(&other) != rule(&first);
        }
        let mut all = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(tool.clone(), (newest, differ));
        Ok(differ)
    }
}

/// The version under which `tool` is stored as it is now, and whether it had to be written.
pub(super) fn store(connection: &Connection, tool: &Tool, now: Timestamp) -> Result<(u32, bool), Failure> {
    let body = serde_json::to_string(tool)?;
    let digest = hash_of(&body);
    let mut newest = connection.prepare_cached(
        "SELECT version, digest FROM counterfoil_policies WHERE tool = ?1 ORDER BY version DESC LIMIT 1",
    )?;
    let known: Option<(u32, Hash)> =
        newest.query_row([tool.name.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let version = match known {
        Some((version, same)) if same == digest => return Ok((version, false)),
        Some((version, _)) => version + 1,
        None => 1,
    };
    connection.execute(
        "INSERT INTO counterfoil_policies (tool, version, digest, body, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        (tool.name.as_str(), version, digest, body, now.as_millis()),
    )?;
    Ok((version, true))
}

/// A raw ID is the key of one account alone: another one that used the tool could have sent the same key.
pub(super) fn check_raw_key(connection: &Connection, tool: &Tool) -> Result<(), Failure> {
    let raw = tool.recovery.key_format().is_some_and(|(format, _)| format == KeyFormat::Raw);
    let Some(accounts) = tool.accounts.as_deref().filter(|_| raw) else { return Ok(()) };
    let mut users = connection.prepare_cached(
        "SELECT account FROM counterfoil_operations WHERE tool = ?1 \
         UNION SELECT account FROM counterfoil_tombstones WHERE tool = ?1",
    )?;
    let mut users = users.query([tool.name.as_str()])?;
    while let Some(row) = users.next()? {
        let account: String = row.get(0)?;
        if !accounts.iter().any(|declared| declared.as_str() == account) {
            let text = format!("{} has raw keys and was used by another account before", tool.name);
            return Err(StoreError::Unusable(text).into());
        }
    }
    Ok(())
}
