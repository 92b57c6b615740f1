//! What to do next, as commands that can be pasted as they stand.

use std::time::Duration;

use serde::Serialize;

use counterfoil::{Clock as _, SystemClock, Timestamp};

use super::collect::{Collected, Open};
use super::report::{Group, Report};
use crate::cli::globals::Globals;
use crate::cli::output::quoted;
use crate::config::DEFAULT_PATH;

/// How long something may be due before nobody seems to be there to do it.
const OVERDUE: Duration = Duration::from_secs(60);

/// One thing to do.
#[derive(Debug, Serialize)]
pub(super) struct Advice {
    /// Why.
    pub(super) why: String,
    /// The command.
    pub(super) command: String,
}

/// Everything that somebody should do, most urgent first.
pub(super) fn of(report: &Report, found: &Collected, globals: &Globals) -> Vec<Advice> {
    let several = found.accounts.as_ref().is_some_and(|accounts| accounts.len() > 1);
    let say = |account: &str, words: &str, last: Option<&str>| {
        let mut command = format!("counterfoil {words}");
        if let Some(url) = &globals.server {
            command.push_str(&format!(" --server {}", quoted(url)));
        } else if globals.config.as_os_str() != DEFAULT_PATH {
            command.push_str(&format!(" --config {}", quoted(&globals.config.to_string_lossy())));
        }
        if several && !account.is_empty() {
            command.push_str(&format!(" --account {account}"));
        }
        match last {
            // What begins with a dash is not an option.
            Some(text) if text.starts_with('-') => command.push_str(&format!(" -- {}", quoted(text))),
            Some(text) => command.push_str(&format!(" {}", quoted(text))),
            None => {}
        }
        command
    };
    let mut todo: Vec<Advice> = Vec::new();
    // One command is said once, for the most urgent of its reasons.
    let mut add = |why: String, command: String| {
        if !todo.iter().any(|earlier| earlier.command == command) {
            todo.push(Advice { why, command });
        }
    };
    if let Some(doubt) = report.doubt() {
        let why = format!("{doubt}: sends stay paused until this was read and the ledger resumed.");
        add(why, "counterfoil explain ledger-restored".to_owned());
    }
    for pause in report.paused() {
        let what = pause.tool.clone().unwrap_or_else(|| "--all".to_owned());
        let why =
            format!("Once the reason is gone, let {} go on.", pause.tool.as_deref().unwrap_or("everything"));
        add(why, say("", &format!("tool resume {what} --note 'why it is safe again'"), None));
    }
    for line in report.duplicates() {
        let why = format!(
            "{} may have had more than one effect: look, and correct it at the destination.",
            line.id
        );
        add(why, say(&line.account, "op show --evidence", Some(&line.id)));
    }
    if let Some(first) = report.reminders().first() {
        let why = format!("{} reminders are due, the oldest of {}.", report.reminders().len(), first.id);
        add(why, say(&first.account, "review", None));
    }
    for group in report.held() {
        let why = format!(
            "{} held for {}: look at the destination whether it happened. `op resolve` records what you find, \
             `op release` lets later ones with the same action pass; `review` asks about one after the other.",
            group.count, group.tool
        );
        add(why, say(&group.oldest.account, "op show --evidence", Some(&group.oldest.id)));
    }
    if let Some(late) = overdue(found) {
        let why = format!("{late} should have been carried on by now: is a server running?");
        add(why, "counterfoil serve".to_owned());
    }
    for group in report.approvals() {
        let mut why = format!("{} for {} wait for an approval.", group.count, group.tool);
        if let Some(approve) = approve_command(found, group, &say) {
            why.push_str(&format!(" The approver must have seen the one that succeeded: {approve}"));
        }
        add(why, say(&group.oldest.account, "op show", Some(&group.oldest.id)));
    }
    for tool in report.failing() {
        let why = format!("The destination of {} fails: see what is open.", tool.tool);
        add(why, say(&tool.account, &format!("op list --unresolved --tool {}", tool.tool), None));
    }
    todo
}

/// The approval of the oldest of a group, where it must name another operation that has succeeded.
fn approve_command(
    found: &Collected,
    group: &Group,
    say: &dyn Fn(&str, &str, Option<&str>) -> String,
) -> Option<String> {
    let oldest = |open: &&Open| (&open.account, &open.id) == (&group.oldest.account, &group.oldest.id);
    let open = found.open.iter().find(oldest)?;
    let (fingerprint, holder) = (&open.fingerprint, quoted(open.next.operation.as_deref()?));
    // With the sign of equality: what begins with a dash is not an option.
    let words = format!("op approve --fingerprint {fingerprint} --acknowledges={holder}");
    Some(say(&open.account, &words, Some(&open.id)))
}

/// How many operations that should go on by themselves are late.
fn overdue(found: &Collected) -> Option<u64> {
    let now = SystemClock::default().now();
    let late = |at: &Option<String>| {
        at.as_deref().and_then(Timestamp::parse).is_some_and(|at| at.plus(OVERDUE) < now)
    };
    let late = found.open.iter().filter(|operation| late(&operation.next.at)).count();
    (late > 0).then_some(late as u64)
}
