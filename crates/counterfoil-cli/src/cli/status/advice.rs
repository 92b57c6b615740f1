//! What to do next, as commands that can be pasted as they stand.

use std::time::Duration;

use serde::Serialize;

use counterfoil::{Clock as _, SystemClock, Timestamp};

use super::collect::Collected;
use super::report::Report;
use crate::cli::globals::Globals;
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
    let mut todo = Vec::new();
    let mut add = |why: String, command: String| todo.push(Advice { why, command });
    if report.mark() == Some("behind") {
        let why = "The ledger is older than its mark: sends stay paused until this was read and the ledger resumed.";
        add(why.to_owned(), "counterfoil explain ledger-restored".to_owned());
    }
    for line in report.duplicates() {
        let why = format!(
            "{} may have had more than one effect: look, and correct it at the destination.",
            line.id
        );
        add(why, say(&line.account, "op show --evidence", Some(&line.id)));
    }
    for group in report.held() {
        let why =
            format!("{} held for {}: ask the destination whether it happened.", group.count, group.tool);
        add(why, say(&group.oldest.account, "op show --evidence", Some(&group.oldest.id)));
    }
    if let Some(late) = overdue(found) {
        let why = format!("{late} should have been carried on by now: is a server running?");
        add(why, "counterfoil serve".to_owned());
    }
    for group in report.approvals() {
        let why = format!("{} for {} wait for an approval.", group.count, group.tool);
        add(why, say(&group.oldest.account, "op show", Some(&group.oldest.id)));
    }
    for tool in report.failing() {
        let why = format!("The destination of {} fails: see what is open.", tool.tool);
        add(why, say(&tool.account, &format!("op list --unresolved --tool {}", tool.tool), None));
    }
    for pause in report.paused() {
        let what = pause.tool.clone().unwrap_or_else(|| "--all".to_owned());
        let why =
            format!("Once the reason is gone, let {} go on.", pause.tool.as_deref().unwrap_or("everything"));
        let resume = say("", &format!("tool resume {what} --note 'why it is safe again'"), None);
        if !todo.iter().any(|earlier: &Advice| earlier.command == resume) {
            todo.push(Advice { why, command: resume });
        }
    }
    todo
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

/// A text as one word of a POSIX shell, whatever it holds.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@%+=-,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn an_id_cannot_become_a_command() {
        assert_eq!(quoted("order-17"), "order-17");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted("a';reboot;'"), r"'a'\'';reboot;'\'''");
        assert_eq!(quoted(""), "''");
    }
}
