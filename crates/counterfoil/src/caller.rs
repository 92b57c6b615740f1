//! Who calls, and what they may do. Asked anew on every call, before anything stored is shown.

use crate::error::Refusal;
use crate::id::{Account, Principal, ToolName};

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The tenant, from the credential.
    pub account: Account,
    /// Who acts.
    pub principal: Principal,
    /// What they may do.
    pub roles: Roles,
    /// Which tools, as globs; empty means all.
    pub tools: Vec<String>,
}

/// What a caller may do, within one account except for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Roles {
    /// Prepare, execute, read, withdraw.
    pub agent: bool,
    /// Claim, report, read what it holds.
    pub worker: bool,
    /// Approve, deny, resolve, release, read.
    pub approver: bool,
    /// Read, evidence.
    pub auditor: bool,
    /// Tokens, configuration, pauses.
    pub operator: bool,
}

impl Roles {
    /// Every role: a person at the ledger's own machine.
    #[must_use]
    pub fn all() -> Self {
        Self { agent: true, worker: true, approver: true, auditor: true, operator: true }
    }

    /// Whether what operations hold may be read: arguments, receipts, decisions.
    #[must_use]
    pub fn reads(self) -> bool {
        self.agent || self.approver || self.auditor
    }

    /// Reads the names that tokens are created with.
    #[must_use]
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut roles = Self::default();
        for name in names {
            match name {
                "agent" => roles.agent = true,
                "worker" => roles.worker = true,
                "approver" => roles.approver = true,
                "auditor" => roles.auditor = true,
                "operator" => roles.operator = true,
                _ => return None,
            }
        }
        Some(roles)
    }
}

/// A role that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `agent`.
    Agent,
    /// `approver`.
    Approver,
    /// `agent` or `approver`.
    Reconcile,
    /// Any role that may read operations.
    Read,
    /// Any role that may see how operations stand.
    States,
    /// Any role that may look at an operation: a worker only at what it holds.
    Look,
    /// Any role that may read evidence.
    Evidence,
    /// `operator`.
    Operator,
    /// `worker`.
    Worker,
}

impl Caller {
    /// Checks the role.
    ///
    /// # Errors
    /// [`Refusal::RoleForbidden`] with the role that is missing.
    pub fn needs(&self, need: Need) -> Result<(), Refusal> {
        let roles = self.roles;
        let (granted, name) = match need {
            Need::Agent => (roles.agent, "agent"),
            Need::Approver => (roles.approver, "approver"),
            Need::Reconcile => (roles.agent || roles.approver, "agent or approver"),
            Need::Read => (roles.reads(), "agent, approver or auditor"),
            Need::States => (roles.reads() || roles.operator, "agent, approver, auditor or operator"),
            Need::Look => (
                roles.reads() || roles.operator || roles.worker,
                "agent, approver, auditor, operator or worker",
            ),
            Need::Evidence => (roles.approver || roles.auditor, "approver or auditor"),
            Need::Operator => (roles.operator, "operator"),
            Need::Worker => (roles.worker, "worker"),
        };
        if granted { Ok(()) } else { Err(Refusal::RoleForbidden(name)) }
    }

    /// Checks the tool.
    ///
    /// # Errors
    /// [`Refusal::ToolForbidden`].
    pub fn may_use(&self, tool: &ToolName) -> Result<(), Refusal> {
        let allowed = self.tools.is_empty() || self.tools.iter().any(|glob| matches(glob, tool.as_str()));
        if allowed { Ok(()) } else { Err(Refusal::ToolForbidden) }
    }
}

/// Whether `text` fits `glob`, where `*` stands for any run of characters.
#[must_use]
pub fn matches(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(rest) = parts.next().and_then(|head| text.strip_prefix(head)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    let mut rest = rest;
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs_match_whole_names() {
        assert!(matches("supplier.*", "supplier.create_order"));
        assert!(matches("*", "mail.send"));
        assert!(matches("*.create_*", "supplier.create_order"));
        assert!(matches("mail.send", "mail.send"));
        assert!(!matches("mail.send", "mail.send_all"));
        assert!(!matches("supplier.*", "mail.send"));
        assert!(!matches("a*a", "a"));
    }
}
