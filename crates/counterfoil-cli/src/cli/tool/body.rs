//! A tool as a person reads it in a terminal.

use serde::Deserialize;
use serde_json::value::RawValue;

use counterfoil::ToolName;

use crate::cli::error::{CommandError, Kind};

/// What is shown of a tool.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolBody {
    pub(crate) name: String,
    carrier: String,
    http: Option<Http>,
    approval: String,
    recovery: Recovery,
    pub(crate) paused: Vec<Pause>,
}

#[derive(Debug, Deserialize)]
struct Http {
    method: String,
    url: String,
}

#[derive(Debug, Deserialize)]
struct Recovery {
    kind: String,
}

/// A pause in force.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) everything: bool,
    pub(crate) scope: Option<String>,
    pub(crate) at: String,
    pub(crate) by: String,
    pub(crate) note: String,
}

impl ToolBody {
    /// Reads the representation.
    pub(crate) fn read(item: &RawValue) -> Result<Self, CommandError> {
        serde_json::from_str(item.get()).map_err(|_| {
            CommandError::new(
                Kind::Environment,
                "the answer is no tool",
                "check that --server names a Counterfoil server of this version",
            )
        })
    }

    /// Its name.
    pub(crate) fn name(&self) -> Result<ToolName, CommandError> {
        Ok(ToolName::parse(&self.name)?)
    }

    /// Whether any of its sends stand still.
    pub(crate) fn is_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// The pause of everything, where there is one.
    pub(crate) fn everything_paused(&self) -> Option<&Pause> {
        self.paused.iter().find(|pause| pause.everything)
    }

    /// Whether its sends go on, and if not, since when, by whom and why.
    pub(crate) fn standing(&self) -> String {
        if self.paused.is_empty() {
            return "go on".to_owned();
        }
        self.paused.iter().map(Pause::told).collect::<Vec<_>>().join("; ")
    }

    /// One row of the list.
    pub(super) fn row(&self) -> Vec<String> {
        let carried = match &self.http {
            Some(Http { method, url }) => format!("{method} {url}"),
            None => self.carrier.clone(),
        };
        let sends = if self.paused.is_empty() { "go on" } else { "paused" };
        vec![self.name.clone(), self.recovery.kind.clone(), self.approval.clone(), sends.to_owned(), carried]
    }
}

impl Pause {
    pub(crate) fn told(&self) -> String {
        let Self { everything, scope, at, by, note } = self;
        let what = if *everything { "everything paused" } else { "paused" };
        let scope = scope.as_ref().map(|scope| format!(" for {scope}")).unwrap_or_default();
        format!("{what}{scope} since {at} by {by}: {note}")
    }
}
