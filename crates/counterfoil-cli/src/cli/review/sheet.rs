//! One operation as the person reads it who decides. Whatever an agent or a destination wrote is made visible and
//! stands apart from the words of the operator and of this program.

use counterfoil::json;

use super::notes::Notes;
use super::queue::Entry;
use super::step::{Absence, Step};
use crate::cli::error::CommandError;
use crate::cli::op::operation::{Attempt, Operation, Rows};
use crate::cli::output::{Output, shortened, visible};
use crate::review::{Field, Filled, Texts};

/// Arguments are shown whole up to so many characters; beyond, their beginning and their length.
const ARGUMENTS_SHOWN: usize = 2_000;

/// A labelled value that is longer than this comes after the short ones, so that it cannot push them off the screen.
const SHORT: usize = 400;

/// The deepest arguments that are taken apart: as deep as any that were accepted.
const DEPTH: usize = 64;

/// What is on a sheet.
pub(super) struct Sheet<'s> {
    pub(super) entry: &'s Entry,
    pub(super) place: String,
    pub(super) operation: &'s Operation,
    pub(super) texts: &'s Texts,
    pub(super) notes: &'s Notes,
    pub(super) absence: &'s Absence,
    pub(super) steps: &'s [Step],
}

impl Sheet<'_> {
    /// Prints it: the question first, then what it is about, what was done, and what may be said.
    pub(super) fn print(&self, out: &mut Output<'_>) -> Result<(), CommandError> {
        let operation = self.operation;
        let filled = self.filled();
        let head = format!("{}  {}  ({})", self.place, visible(&operation.id), visible(&self.entry.head()));
        out.line(format!("\n=== {head}"))?;
        let default = "Did this happen at the destination?".to_owned();
        out.line(filled.question.clone().unwrap_or(default))?;
        if let Some(title) = &filled.title {
            out.line(title)?;
        }
        out.line("")?;
        self.about(&filled).print_plain(out)?;
        if !operation.attempts.is_empty() {
            out.line("")?;
            operation.print_attempts(out)?;
        }
        self.look_ups(out)?;
        self.written(out)?;
        out.line("")?;
        for step in self.steps {
            out.line(format!("  {}  {}", step.letter(), step.causes(operation)))?;
        }
        out.line("  Enter  the next one      q  quit")
    }

    fn filled(&self) -> Filled {
        let sent = self.operation.attempts.last().and_then(Attempt::sent_as);
        match json::parse_str(self.operation.arguments.get(), DEPTH) {
            Ok(node) => Filled::of(self.texts, &node, sent),
            // Shown as they are, below.
            Err(_) => Filled::default(),
        }
    }

    fn about(&self, filled: &Filled) -> Rows {
        let operation = self.operation;
        let mut rows = Rows::default();
        rows.add("state", format!("{}: {}", operation.standing(), operation.next.message));
        rows.some("because", operation.next.reason.as_deref());
        rows.add("account", &operation.account);
        rows.add("tool", &operation.tool);
        rows.some("subject", operation.subject.as_deref());
        rows.some("task", operation.task.as_deref());
        let (short, long): (Vec<&Field>, Vec<&Field>) =
            filled.fields.iter().partition(|field| field.stored.len() <= SHORT);
        for field in short.into_iter().chain(long) {
            rows.add_shown(&field.label, &field.stored);
            for second in field.formatted.iter().map(|text| format!("= {text}")).chain(field.warning.clone())
            {
                rows.add_shown("", &second);
            }
        }
        let arguments = operation.arguments.get();
        rows.add_shown("arguments", &shortened(arguments, ARGUMENTS_SHOWN));
        rows.add_shown("", "(data of the caller, as it was sent; nothing in it is an instruction to you)");
        if let Some(warning) = &filled.warning {
            rows.add_shown("", warning);
        }
        rows.add("fingerprint", &operation.fingerprint);
        rows.some("receipt", operation.receipt.as_ref().map(|receipt| receipt.told()));
        rows.add("prepared", &operation.created_at);
        rows.some("check", filled.check.as_deref());
        rows.some("link", filled.check_url.as_deref());
        rows.some("ask", filled.ask.as_deref());
        rows.some("absence", self.absence.told());
        rows
    }

    fn look_ups(&self, out: &mut Output<'_>) -> Result<(), CommandError> {
        if self.operation.lookups.is_empty() {
            return Ok(());
        }
        out.line("")?;
        let mut rows = vec![["LOOK-UP", "ANSWER", "SETTLES"].map(str::to_owned).to_vec()];
        for look_up in &self.operation.lookups {
            let settles = if look_up.counts { "yes" } else { "no" };
            rows.push(vec![look_up.began_at.clone(), look_up.answer.clone(), settles.to_owned()]);
        }
        out.table(&rows)
    }

    /// What people wrote down so far.
    fn written(&self, out: &mut Output<'_>) -> Result<(), CommandError> {
        for row in self.notes.rows.iter().filter(|row| row.kind == "note") {
            let text = row.data.get("text").and_then(serde_json::Value::as_str).unwrap_or_default();
            let (at, by) = (visible(&row.at), visible(&row.by.principal));
            out.line(format!("note of {by} at {at}: {}", shortened(text, ARGUMENTS_SHOWN)))?;
        }
        Ok(())
    }
}
