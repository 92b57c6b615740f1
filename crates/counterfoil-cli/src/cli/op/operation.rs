//! An operation as a person reads it in a terminal: the members of the API's representation, aligned.

use serde::Deserialize;
use serde_json::value::RawValue;

use counterfoil::guard::Stage;

use crate::cli::error::{CommandError, Kind};
use crate::cli::exit::Exit;
use crate::cli::output::{Output, quoted, visible};

/// What is shown of an operation.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Operation {
    pub(in crate::cli) id: String,
    pub(in crate::cli) account: String,
    pub(in crate::cli) tool: String,
    pub(in crate::cli) arguments: Box<RawValue>,
    pub(in crate::cli) fingerprint: String,
    pub(in crate::cli) version: u64,
    pub(in crate::cli) task: Option<String>,
    pub(in crate::cli) subject: Option<String>,
    pub(in crate::cli) replaces: Option<String>,
    pub(in crate::cli) replaced_by: Option<String>,
    pub(in crate::cli) distinct_from: Vec<String>,
    pub(in crate::cli) accepted_by: Option<Box<RawValue>>,
    pub(in crate::cli) state: String,
    pub(in crate::cli) held: bool,
    pub(in crate::cli) next: Next,
    pub(in crate::cli) approval: Approval,
    pub(in crate::cli) attempts: Vec<Attempt>,
    pub(in crate::cli) lookups: Vec<LookUp>,
    pub(in crate::cli) policy_version: u32,
    pub(in crate::cli) receipt: Option<Receipt>,
    pub(in crate::cli) rejection: Option<Rejection>,
    pub(in crate::cli) closed: Option<Closed>,
    pub(in crate::cli) recovery: Recovery,
    pub(in crate::cli) replayed: bool,
    pub(in crate::cli) duplicate_suspected: bool,
    pub(in crate::cli) created_at: String,
    pub(in crate::cli) updated_at: String,
    pub(in crate::cli) receipt_expires_at: Option<String>,
}

/// What happens next.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Next {
    pub(in crate::cli) action: String,
    pub(in crate::cli) at: Option<String>,
    pub(in crate::cli) operation: Option<String>,
    pub(in crate::cli) reason: Option<String>,
    pub(in crate::cli) not_before: Option<String>,
    pub(in crate::cli) message: String,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Approval {
    pub(in crate::cli) required: bool,
    pub(in crate::cli) by: Option<String>,
    pub(in crate::cli) at: Option<String>,
    pub(in crate::cli) expires_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Attempt {
    pub(in crate::cli) number: u32,
    pub(in crate::cli) started_at: String,
    pub(in crate::cli) outcome: Option<String>,
    pub(in crate::cli) settled: bool,
    pub(in crate::cli) marker: Option<String>,
    pub(in crate::cli) status: Option<u16>,
    pub(in crate::cli) error: Option<String>,
    pub(in crate::cli) key: Option<String>,
    pub(in crate::cli) reference: Option<String>,
}

/// One question put to the destination.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct LookUp {
    pub(in crate::cli) began_at: String,
    pub(in crate::cli) answer: String,
    pub(in crate::cli) counts: bool,
}

/// What proves success.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Receipt {
    pub(in crate::cli) reference: Option<String>,
    pub(in crate::cli) result: Option<ResultShown>,
    pub(in crate::cli) source: String,
    pub(in crate::cli) recorded_at: String,
    pub(in crate::cli) truncated: bool,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct ResultShown {
    pub(in crate::cli) status: Option<u16>,
    pub(in crate::cli) body: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Rejection {
    pub(in crate::cli) code: String,
    pub(in crate::cli) detail: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Closed {
    pub(in crate::cli) by: String,
    pub(in crate::cli) at: String,
    pub(in crate::cli) note: String,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Recovery {
    pub(in crate::cli) kind: String,
    pub(in crate::cli) send_allowed_until: Option<String>,
}

impl Operation {
    /// Reads the representation.
    pub(in crate::cli) fn read(body: &str) -> Result<Self, CommandError> {
        serde_json::from_str(body).map_err(|_| {
            CommandError::new(
                Kind::Environment,
                "the answer is no operation",
                "check that --server names a Counterfoil server of this version",
            )
        })
    }

    /// The exit code of its state.
    pub(super) fn exit(&self) -> Result<Exit, CommandError> {
        match Stage::parse(&self.state) {
            Some(stage) => Ok(Exit::of_stage(stage, self.held)),
            None => Err(CommandError::new(
                Kind::Environment,
                "the server knows a state that this program does not",
                "use the command line of the server's version",
            )),
        }
    }

    /// The command that approves it. Where another operation, with the same action or subject or whose place it takes, has
    /// succeeded, it names that one: the approver must have seen it.
    fn approve_command(&self) -> Option<String> {
        (self.next.action == "approve").then_some(())?;
        let (id, fingerprint) = (quoted(&self.id), &self.fingerprint);
        let holder = self.next.operation.as_ref();
        // What begins with a dash is not an option.
        let dash = std::iter::once(&self.id).chain(holder).any(|id| id.starts_with('-'));
        let between = if dash { "=" } else { " " };
        let acknowledges =
            holder.map(|holder| format!(" --acknowledges{between}{}", quoted(holder))).unwrap_or_default();
        Some(match dash {
            true => format!("counterfoil op approve --fingerprint {fingerprint}{acknowledges} -- {id}"),
            false => format!("counterfoil op approve {id} --fingerprint {fingerprint}{acknowledges}"),
        })
    }

    /// State, and whether a person must move it, in one word or two.
    pub(in crate::cli) fn standing(&self) -> String {
        let held = if self.held { ", held" } else { "" };
        let replayed = if self.replayed { ", replayed" } else { "" };
        let doubt = if self.duplicate_suspected { ", duplicate suspected" } else { "" };
        format!("{}{held}{replayed}{doubt}", self.state)
    }

    /// Prints it.
    pub(super) fn print(&self, out: &mut Output<'_>) -> Result<(), CommandError> {
        let mut rows = Rows(Vec::new());
        rows.add(&self.id, self.standing());
        rows.add("next", self.next.told());
        rows.some("not before", self.next.not_before.as_deref());
        rows.some("receipt", self.receipt.as_ref().map(Receipt::told));
        rows.some("result", self.receipt.as_ref().and_then(Receipt::result));
        rows.some("rejection", self.rejection.as_ref().map(Rejection::told));
        rows.some(
            "closed",
            self.closed.as_ref().map(|closed| format!("by {} at {}: {}", closed.by, closed.at, closed.note)),
        );
        rows.add("account", &self.account);
        rows.add("tool", &self.tool);
        rows.add("arguments", self.arguments.get());
        rows.add("fingerprint", &self.fingerprint);
        rows.some("task", self.task.as_deref());
        rows.some("subject", self.subject.as_deref());
        rows.some("replaces", self.replaces.as_deref());
        rows.some("replaced by", self.replaced_by.as_deref());
        let distinct = self.distinct_from.join(" ");
        rows.some("distinct from", (!distinct.is_empty()).then_some(distinct));
        rows.some("accepted by", self.accepted_by.as_ref().map(|by| by.get()));
        let over = Stage::parse(&self.state).is_some_and(Stage::is_final);
        rows.some("approval", self.approval.told(over));
        rows.some("approve with", self.approve_command());
        // Only where something was sent and may be sent again: elsewhere it reads as an invitation.
        let again = !over && !self.held && !self.attempts.is_empty();
        let until = self.recovery.send_allowed_until.as_ref().filter(|_| again);
        let until = until.map(|until| format!(", may be sent again until {until}")).unwrap_or_default();
        rows.add("recovery", format!("{}{until}", self.recovery.kind));
        rows.add("created", &self.created_at);
        rows.add("updated", format!("{}, version {}", self.updated_at, self.version));
        rows.some("kept until", self.receipt_expires_at.as_deref());
        rows.print(out)?;
        if self.attempts.is_empty() {
            return Ok(());
        }
        out.line("")?;
        self.print_attempts(out)
    }

    /// Every attempt, one in a row.
    pub(in crate::cli) fn print_attempts(&self, out: &mut Output<'_>) -> Result<(), CommandError> {
        let mut table = vec![
            ["ATTEMPT", "STARTED", "OUTCOME", "NO EFFECT", "SENT", "STATUS", "KEY OR REFERENCE", "ERROR"]
                .map(str::to_owned)
                .to_vec(),
        ];
        table.extend(self.attempts.iter().map(Attempt::row));
        out.table(&table)
    }
}

impl Next {
    /// What happens next, in words.
    pub(in crate::cli) fn told(&self) -> String {
        let Self { action, at, operation, reason, not_before: _, message } = self;
        let mut told = action.clone();
        // An approval that names another operation is not an approval of that one.
        let before = if action == "approve" { " with --acknowledges " } else { " " };
        for (before, part) in [(before, operation), (" at ", at)] {
            if let Some(part) = part {
                told.push_str(before);
                told.push_str(part);
            }
        }
        if let Some(reason) = reason {
            told.push_str(&format!(" ({reason})"));
        }
        format!("{told}: {message}")
    }
}

impl Receipt {
    pub(in crate::cli) fn told(&self) -> String {
        let reference = self.reference.as_deref().unwrap_or("no reference");
        format!("{reference}, from {} at {}", self.source, self.recorded_at)
    }

    fn result(&self) -> Option<String> {
        let result = self.result.as_ref()?;
        let status = result.status.map(|status| format!("{status} ")).unwrap_or_default();
        let body = result.body.as_ref().map_or("no body", |body| body.get());
        let body = if self.truncated { "too large to keep" } else { body };
        Some(format!("{status}{body}"))
    }
}

impl Rejection {
    fn told(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{}: {detail}", self.code),
            None => self.code.clone(),
        }
    }
}

impl Approval {
    /// What is said of it; what is over wants none any more.
    fn told(&self, over: bool) -> Option<String> {
        match (&self.by, &self.at, &self.expires_at) {
            (Some(by), Some(at), Some(end)) => Some(format!("by {by} at {at}, until {end}")),
            (Some(by), _, _) => Some(format!("by {by}")),
            (None, _, _) => (self.required && !over).then(|| "wanted".to_owned()),
        }
    }
}

impl Attempt {
    /// The key or reference that was sent.
    pub(in crate::cli) fn sent_as(&self) -> Option<&str> {
        self.key.as_deref().or(self.reference.as_deref())
    }

    /// Whether it is certain that this attempt had no effect and cannot get one.
    fn no_effect(&self) -> &'static str {
        match (self.settled, self.outcome.as_deref()) {
            (true, _) => "yes",
            (false, Some("succeeded")) => "no",
            (false, Some(_) | None) => "?",
        }
    }

    fn row(&self) -> Vec<String> {
        let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
        vec![
            self.number.to_string(),
            self.started_at.clone(),
            self.outcome.clone().unwrap_or_else(|| "running".to_owned()),
            self.no_effect().to_owned(),
            or_dash(self.marker.as_deref()),
            self.status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
            or_dash(self.sent_as()),
            or_dash(self.error.as_deref()),
        ]
    }
}

/// Names and values, one under the other.
#[derive(Default)]
pub(in crate::cli) struct Rows(Vec<(String, String)>);

impl Rows {
    pub(in crate::cli) fn add(&mut self, name: &str, value: impl Into<String>) {
        self.0.push((visible(name), visible(&value.into())));
    }

    pub(in crate::cli) fn some(&mut self, name: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// A row whose value can be shown as it is.
    pub(in crate::cli) fn add_shown(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Prints every row alike.
    pub(in crate::cli) fn print_plain(&self, out: &mut Output<'_>) -> Result<(), CommandError> {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in &self.0 {
            out.line(format!("{name:<width$}  {value}"))?;
        }
        Ok(())
    }

    /// The first row is the title: its name is not aligned with the others.
    fn print(&self, out: &mut Output<'_>) -> Result<(), CommandError> {
        let width = self.0.iter().skip(1).map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (place, (name, value)) in self.0.iter().enumerate() {
            match place {
                0 => out.line(format!("{name}  {value}"))?,
                _ => out.line(format!("{name:<width$}  {value}"))?,
            }
        }
        Ok(())
    }
}
