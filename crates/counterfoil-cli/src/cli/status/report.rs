//! The status screen: what stands still, longest first, and what to do about it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::advice::{self, Advice};
use super::collect::{Collected, Open, Reminder};
use crate::cli::error::CommandError;
use crate::cli::globals::Globals;
use crate::cli::output::{Output, shortened, visible};

/// The most characters of a note on the screen.
const NOTE_SHOWN: usize = 80;

/// What needs attention.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The accounts it is about; `null` where a server's token says which.
    accounts: Option<Vec<String>>,
    /// `current`, `missing`, `behind`; `null` where a server does not tell.
    mark: Option<&'static str>,
    /// Whether sends are paused because of the mark.
    #[serde(skip)]
    in_doubt: bool,
    /// Operations that are not over, by state.
    open: BTreeMap<String, u64>,
    /// Whether there are more than were counted.
    more: bool,
    /// The oldest whose outcome is unknown.
    oldest_unknown: Option<Line>,
    /// What only a person can move, by tool.
    held: Vec<Group>,
    /// What somebody asked to be reminded of, where the time has come.
    reminders: Vec<Reminder>,
    /// What waits for an approval, by tool.
    approvals: Vec<Group>,
    /// Where more than one effect may exist.
    duplicates_suspected: Vec<Line>,
    /// Pauses in force.
    paused: Vec<Paused>,
    /// Tools whose newest attempts failed, with the last failure.
    failing: Vec<Failing>,
    /// What to do, most urgent first.
    todo: Vec<Advice>,
}

/// One operation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) account: String,
    pub(super) tool: String,
    state: String,
    created_at: String,
    next: String,
    reason: Option<String>,
}

/// Operations of one tool.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    pub(super) tool: String,
    pub(super) count: u64,
    pub(super) oldest: Line,
}

/// A pause in force.
#[derive(Debug, Serialize)]
pub(super) struct Paused {
    /// `null` for everything.
    pub(super) tool: Option<String>,
    scope: Option<String>,
    at: String,
    by: String,
    note: String,
}

/// A tool whose newest attempts failed.
#[derive(Debug, Serialize)]
pub(super) struct Failing {
    pub(super) tool: String,
    /// Whose operation failed last.
    pub(super) account: String,
    /// Operations whose newest attempt failed.
    operations: u64,
    last_at: String,
    status: Option<u16>,
    error: Option<String>,
}

impl Line {
    fn of(open: &Open) -> Self {
        Self {
            id: open.id.clone(),
            account: open.account.clone(),
            tool: open.tool.clone(),
            state: open.state.clone(),
            created_at: open.created_at.clone(),
            next: open.next.action.clone(),
            reason: open.next.reason.clone(),
        }
    }
}

impl Report {
    pub(super) fn of(found: &Collected, globals: &Globals) -> Self {
        let mut open = BTreeMap::new();
        for operation in &found.open {
            *open.entry(operation.state.clone()).or_default() += 1;
        }
        let lines = |fits: &dyn Fn(&Open) -> bool| -> Vec<Line> {
            found.open.iter().filter(|operation| fits(operation)).map(Line::of).collect()
        };
        let held = groups(lines(&|operation| operation.held));
        let approvals = groups(lines(&|operation| operation.next.action == "approve"));
        let duplicates_suspected = lines(&|operation| operation.duplicate_suspected);
        let pause = |(tool, pause): &(Option<String>, crate::cli::tool::body::Pause)| Paused {
            tool: tool.clone(),
            scope: pause.scope.clone(),
            at: pause.at.clone(),
            by: pause.by.clone(),
            note: pause.note.clone(),
        };
        let mut report = Self {
            accounts: found.accounts.clone(),
            mark: found.mark,
            in_doubt: found.in_doubt || found.mark == Some("behind"),
            open,
            more: found.more,
            oldest_unknown: lines(&|operation| operation.state == "unknown").into_iter().next(),
            held,
            reminders: found.reminders.clone(),
            approvals,
            duplicates_suspected,
            paused: found.pauses.iter().map(pause).collect(),
            failing: failing(&found.open),
            todo: Vec::new(),
        };
        report.todo = advice::of(&report, found, globals);
        report
    }

    /// Why the ledger cannot be trusted to know every ID that was used; a server does not tell which of the two it is.
    pub(super) fn doubt(&self) -> Option<&'static str> {
        match self.mark {
            _ if !self.in_doubt => None,
            Some("missing") => Some("The ledger's mark is missing"),
            Some("behind") => Some("The ledger is older than its mark"),
            Some(_) | None => Some("The ledger is older than its mark, or the mark is missing"),
        }
    }

    pub(super) fn held(&self) -> &[Group] {
        &self.held
    }

    pub(super) fn reminders(&self) -> &[Reminder] {
        &self.reminders
    }

    pub(super) fn approvals(&self) -> &[Group] {
        &self.approvals
    }

    pub(super) fn duplicates(&self) -> &[Line] {
        &self.duplicates_suspected
    }

    pub(super) fn paused(&self) -> &[Paused] {
        &self.paused
    }

    pub(super) fn failing(&self) -> &[Failing] {
        &self.failing
    }

    /// Prints the screen; sections without content are left out.
    pub(super) fn print(&self, out: &mut Output<'_>) -> Result<(), CommandError> {
        if let Some(accounts) = &self.accounts {
            let named = if accounts.is_empty() { "none".to_owned() } else { accounts.join(" ") };
            out.line(format!("accounts  {}", visible(&named)))?;
        }
        if let Some(mark) = self.mark {
            out.line(format!("mark      {mark}"))?;
        }
        let counted: Vec<String> =
            self.open.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let counted = if counted.is_empty() { "nothing".to_owned() } else { counted.join(", ") };
        out.line(format!("open      {}{}", if self.more { "at least " } else { "" }, visible(&counted)))?;
        if let Some(oldest) = &self.oldest_unknown {
            section(out, "OLDEST UNKNOWN", &["ID", "ACCOUNT", "TOOL", "SINCE", "NEXT"], vec![oldest.row()])?;
        }
        let group = |group: &Group| {
            vec![
                group.tool.clone(),
                group.count.to_string(),
                group.oldest.id.clone(),
                group.oldest.created_at.clone(),
                group.oldest.reason.clone().unwrap_or_else(|| "-".to_owned()),
            ]
        };
        let heads = ["TOOL", "COUNT", "OLDEST", "SINCE", "REASON"];
        section(out, "HELD", &heads, self.held.iter().map(group).collect())?;
        let reminders = self.reminders.iter().map(Reminder::row).collect();
        section(out, "REMINDERS DUE", &["ID", "ACCOUNT", "TOOL", "SINCE", "NOTE"], reminders)?;
        section(out, "APPROVALS WANTED", &heads, self.approvals.iter().map(group).collect())?;
        let duplicates = self.duplicates_suspected.iter().map(Line::row).collect();
        section(out, "DUPLICATES SUSPECTED", &["ID", "ACCOUNT", "TOOL", "SINCE", "NEXT"], duplicates)?;
        let pauses = self.paused.iter().map(Paused::row).collect();
        section(out, "PAUSED", &["TOOL", "SCOPE", "SINCE", "BY", "WHY"], pauses)?;
        let failing = self.failing.iter().map(Failing::row).collect();
        section(out, "FAILING", &["TOOL", "OPERATIONS", "LAST", "STATUS", "ERROR"], failing)?;
        out.line("")?;
        if self.todo.is_empty() {
            return out.line("Nothing to do.");
        }
        out.line("WHAT TO DO NEXT")?;
        for Advice { why, command } in &self.todo {
            out.line(format!("# {}\n{}", visible(why), visible(command)))?;
        }
        Ok(())
    }
}

fn section(
    out: &mut Output<'_>,
    title: &str,
    heads: &[&str],
    rows: Vec<Vec<String>>,
) -> Result<(), CommandError> {
    if rows.is_empty() {
        return Ok(());
    }
    out.line(format!("\n{title}"))?;
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    out.table(&[vec![heads], rows].concat())
}

impl Line {
    fn row(&self) -> Vec<String> {
        let next = match &self.reason {
            Some(reason) => format!("{} ({reason})", self.next),
            None => self.next.clone(),
        };
        vec![self.id.clone(), self.account.clone(), self.tool.clone(), self.created_at.clone(), next]
    }
}

impl Reminder {
    fn row(&self) -> Vec<String> {
        let note = self.note.as_deref().map_or_else(|| "-".to_owned(), |note| shortened(note, NOTE_SHOWN));
        vec![self.id.clone(), self.account.clone(), self.tool.clone(), self.due_since.clone(), note]
    }
}

impl Paused {
    fn row(&self) -> Vec<String> {
        let tool = self.tool.clone().unwrap_or_else(|| "everything".to_owned());
        let scope = self.scope.clone().unwrap_or_else(|| "all".to_owned());
        vec![tool, scope, self.at.clone(), self.by.clone(), self.note.clone()]
    }
}

impl Failing {
    fn row(&self) -> Vec<String> {
        let status = self.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
        let error = self.error.clone().unwrap_or_else(|| "-".to_owned());
        vec![self.tool.clone(), self.operations.to_string(), self.last_at.clone(), status, error]
    }
}

/// By tool, in the order in which the oldest of each came.
fn groups(lines: Vec<Line>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for line in lines {
        match groups.iter_mut().find(|group| group.tool == line.tool) {
            Some(group) => group.count += 1,
            None => groups.push(Group { tool: line.tool.clone(), count: 1, oldest: line }),
        }
    }
    groups
}

/// By tool: how many open operations ended their newest attempt without success, and how the last of those ended.
fn failing(open: &[Open]) -> Vec<Failing> {
    let mut tools: BTreeMap<String, Failing> = BTreeMap::new();
    for operation in open {
        let Some(last) = operation.attempts.last() else { continue };
        let failed =
            last.outcome.as_deref().is_some_and(|outcome| outcome != "succeeded" && outcome != "pending");
        if !failed {
            continue;
        }
        let entry = tools.entry(operation.tool.clone()).or_insert_with(|| Failing {
            tool: operation.tool.clone(),
            account: String::new(),
            operations: 0,
            last_at: String::new(),
            status: None,
            error: None,
        });
        entry.operations += 1;
        if last.started_at > entry.last_at {
            entry.account = operation.account.clone();
            entry.last_at = last.started_at.clone();
            entry.status = last.status;
            entry.error = last.error.clone();
        }
    }
    tools.into_values().collect()
}
