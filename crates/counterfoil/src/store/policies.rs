//! Tool declarations by version: written once, never changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::chain::hash_of;
use super::failure::Failure;
use super::rows::Rows;
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
    pub(super) fn get<R: Rows>(
        &self,
        rows: &R,
        tool: &ToolName,
        version: u32,
    ) -> Result<Option<Arc<Tool>>, Failure> {
        let key = (tool.clone(), version);
        if let Some(found) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Some(found.clone()));
        }
        let Some(body) = rows.policy(tool, version)? else { return Ok(None) };
        let found = Arc::new(serde_json::from_str::<Tool>(&body)?);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
        Ok(Some(found))
    }

    /// Whether the declarations of `tool` ever differed in what makes an action the same: then one action may be stored
    /// under several digests.
    pub(super) fn compared_differently<R: Rows>(&self, rows: &R, tool: &ToolName) -> Result<bool, Failure> {
        let newest = rows.newest_policy(tool)?.map_or(0, |(version, _)| version);
        let compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner).get(tool).copied();
        let (from, mut differ) = compared.unwrap_or((0, false));
        if from == newest {
            return Ok(differ);
        }
        let first = self.get(rows, tool, 1)?;
        for version in from + 1..=newest {
            let other = self.get(rows, tool, version)?;
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
pub(super) fn store<R: Rows>(rows: &R, tool: &Tool, now: Timestamp) -> Result<(u32, bool), Failure> {
    let body = serde_json::to_string(tool)?;
    let digest = hash_of(&body);
    let version = match rows.newest_policy(&tool.name)? {
        Some((version, same)) if same == digest => return Ok((version, false)),
        Some((version, _)) => version + 1,
        None => 1,
    };
    rows.insert_policy((&tool.name, version), &body, &digest, now)?;
    Ok((version, true))
}

/// A raw ID is the key of one account alone: another one that used the tool could have sent the same key.
pub(super) fn check_raw_key<R: Rows>(rows: &R, tool: &Tool) -> Result<(), Failure> {
    let raw = tool.recovery.key_format().is_some_and(|(format, _)| format == KeyFormat::Raw);
    let Some(accounts) = tool.accounts.as_deref().filter(|_| raw) else { return Ok(()) };
    if rows.users_of(&tool.name)?.iter().all(|account| accounts.contains(account)) {
        return Ok(());
    }
    let text = format!("{} has raw keys and was used by another account before", tool.name);
    Err(StoreError::Unusable(text).into())
}
