//! Every way in which a command can fail, in one type: a kind, which decides the exit code, a message and hints. All
//! other errors are turned into it here and only here.

use std::fmt;
use std::io;

use counterfoil::{Refusal, StoreError};
use serde_json::{Map, Value, json};

use super::exit::Exit;
use crate::config::report::Report;
use crate::problems;

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The command line itself makes no sense.
    Usage,
    /// The configuration does not load.
    Config,
    /// The ledger or the server says no.
    Refused,
    /// Something that the command needs is not there: a file, a database, a server.
    Environment,
    /// Nobody reads the output any more.
    BrokenPipe,
    /// A mistake in this program.
    Internal,
}

impl Kind {
    /// Its name, which stands as the code where the API gave none.
    fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Config => "configuration",
            Self::Refused => "refused",
            Self::Environment => "environment",
            Self::BrokenPipe => "broken-pipe",
            Self::Internal => "internal-error",
        }
    }
}

/// The members of a problem that an error as JSON repeats.
const REPEATED: [&str; 7] = ["status", "sent", "operation_id", "state", "differs", "operations", "next"];

/// Why a command failed.
#[derive(Debug)]
pub struct CommandError {
    /// Its kind.
    pub kind: Kind,
    /// The slug of the problem, where there is one.
    pub slug: Option<&'static str>,
    /// What went wrong.
    pub message: String,
    /// What to do about it; at least one line for everything but a broken pipe.
    pub hints: Vec<String>,
    /// The problem as the API answered it; empty where the error came from elsewhere.
    pub problem: Map<String, Value>,
}

impl CommandError {
    /// A failure with one hint.
    pub fn new(kind: Kind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, slug: None, message: message.into(), hints: vec![hint.into()], problem: Map::new() }
    }

    /// The command line itself makes no sense.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message, hint)
    }

    /// Something that the command needs is not there.
    pub fn environment(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Kind::Environment, message, hint)
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// As one JSON object: `{"error": {"code": …, "message": …, "hints": […]}}`, and what the API's problem says of the
    /// operation and of a send.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".to_owned(), json!(self.slug.unwrap_or(self.kind.name())));
        error.insert("message".to_owned(), json!(self.message));
        error.insert("hints".to_owned(), json!(self.hints));
        for name in REPEATED {
            if let Some(value) = self.problem.get(name) {
                error.insert(name.to_owned(), value.clone());
            }
        }
        json!({ "error": error })
    }

    /// The exit code: that of the operation's state where the problem tells it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if let Some("approval-required" | "blocked-by-operation") = self.slug {
            return Exit::Waiting;
        }
        match self.kind {
            Kind::Usage => Exit::Usage,
            Kind::Config | Kind::Refused | Kind::Environment | Kind::BrokenPipe | Kind::Internal => {
                Exit::Error
            }
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        for hint in &self.hints {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for CommandError {}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self {
                kind: Kind::BrokenPipe,
                slug: None,
                message: error.to_string(),
                hints: Vec::new(),
                problem: Map::new(),
            };
        }
        Self::environment(error.to_string(), "check that the file or stream can be read and written")
    }
}

impl From<getrandom::Error> for CommandError {
    fn from(error: getrandom::Error) -> Self {
        Self::environment(error.to_string(), "the system has no randomness to give; try again later")
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(kind) => io::Error::from(kind).into(),
            None => Self::new(Kind::Internal, error.to_string(), "this should not happen; please report it"),
        }
    }
}

impl From<Report> for CommandError {
    fn from(report: Report) -> Self {
        let message = format!("the configuration does not load\n{report}");
        Self::new(Kind::Config, message, "`counterfoil check` reports everything at once")
    }
}

/// A refusal with the hint of its page.
pub fn explained(kind: Kind, slug: &'static str, message: String) -> CommandError {
    let hints = match problems::find(slug) {
        Some(problem) => vec![problem.hint.to_owned(), format!("`counterfoil explain {slug}` says more")],
        None => vec![format!("the code is {slug}")],
    };
    CommandError { kind, slug: Some(slug), message, hints, problem: Map::new() }
}

impl From<Refusal> for CommandError {
    fn from(refusal: Refusal) -> Self {
        explained(Kind::Refused, refusal.code(), refusal.to_string())
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        explained(Kind::Environment, error.code(), error.to_string())
    }
}

impl From<counterfoil::Error> for CommandError {
    fn from(error: counterfoil::Error) -> Self {
        match error {
            counterfoil::Error::Refused(refusal) => refusal.into(),
            counterfoil::Error::Store(error) => error.into(),
        }
    }
}

impl From<counterfoil::id::NameError> for CommandError {
    fn from(error: counterfoil::id::NameError) -> Self {
        Self::usage(error.to_string(), "`counterfoil help` shows what each argument takes")
    }
}
