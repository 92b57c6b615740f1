//! A token as it is shown: everything but its text.

use std::fmt;

use serde::Serialize;

use counterfoil::Timestamp;
use counterfoil::store::Token;

/// A token without its text.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    principal: String,
    account: String,
    roles: Vec<String>,
    tools: Vec<String>,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    #[serde(skip)]
    expires: Option<Timestamp>,
}

impl Shown {
    pub(super) fn of(token: &Token) -> Self {
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            id: token.id.clone(),
            token: None,
            principal: token.principal.to_string(),
            account: token.account.to_string(),
            roles: token.roles.clone(),
            tools: token.tools.clone(),
            created_at: token.created_at.to_string(),
            expires_at: text(token.expires_at),
            revoked_at: text(token.revoked_at),
            expires: token.expires_at,
        }
    }

    /// With its text: for the one time that it is shown.
    pub(super) fn with_text(&self, text: &str) -> Self {
        Self { token: Some(text.to_owned()), ..self.clone() }
    }

    /// The heads of the columns.
    pub(super) fn heads() -> Vec<String> {
        ["ID", "PRINCIPAL", "ACCOUNT", "ROLES", "TOOLS", "EXPIRES", "STATE"].map(str::to_owned).to_vec()
    }

    /// One row of the list.
    pub(super) fn row(&self, now: Timestamp) -> Vec<String> {
        let state = match (&self.revoked_at, self.expires) {
            (Some(_), _) => "revoked",
            (None, Some(end)) if end <= now => "expired",
            (None, Some(_) | None) => "good",
        };
        let (roles, tools) = (self.roles.join(","), self.tools());
        let expires = self.expires_at.clone().unwrap_or_else(|| "never".to_owned());
        vec![
            self.id.clone(),
            self.principal.clone(),
            self.account.clone(),
            roles,
            tools,
            expires,
            state.to_owned(),
        ]
    }

    fn tools(&self) -> String {
        if self.tools.is_empty() { "all".to_owned() } else { self.tools.join(",") }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, principal, account, roles, .. } = self;
        let (roles, tools) = (roles.join(","), self.tools());
        write!(f, "{id}: principal {principal}, account {account}, roles {roles}, tools {tools}, expires ")?;
        f.write_str(self.expires_at.as_deref().unwrap_or("never"))
    }
}
