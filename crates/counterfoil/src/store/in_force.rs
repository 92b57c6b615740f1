//! Pauses: in force until somebody resumes, and remembered afterwards, since budgets do not count paused time.

use std::time::Duration;

use super::failure::Failure;
use super::rows::Rows;
use crate::id::ToolName;
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

/// How long sends of `tool` under `scope` stood still between `since` and `now`: the union of all pauses that held
/// them, so that two at once count once.
pub(super) fn paused_for<R: Rows>(
    rows: &R,
    tool: &ToolName,
    scope: Option<&str>,
    since: Timestamp,
    now: Timestamp,
) -> Result<Duration, Failure> {
    let (mut total, mut reached) = (Duration::ZERO, since);
    for (began, ended) in rows.pauses_since(tool, scope, since)? {
        let began = began.max(reached);
        let ended = ended.map_or(now, |ended| ended.min(now));
        total += ended.since(began);
        reached = reached.max(ended);
    }
    Ok(total)
}
