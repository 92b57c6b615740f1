//! What the status screen is made from: the operations that are not over, and the pauses.

use serde::{Deserialize, Serialize};

use counterfoil::{Account, Clock as _, OperationId, SystemClock};

use crate::cli::audit::mark_name;
use crate::cli::error::{CommandError, Kind};
use crate::cli::review::notes::Notes;
use crate::cli::target::{Target, with_query};
use crate::cli::tool::body::{Pause, ToolBody};

/// Pages that are read of one list: beyond 10 000 operations the screen says "at least".
const PAGES: usize = 50;

/// Operations of one account whose evidence is read for a reminder.
const REMINDED: usize = 200;

/// Items of one page.
const PAGE: &str = "200";

/// Why a ledger that is older than its mark, or has none, is paused, as the ledger itself notes it.
const OLDER_THAN_MARK: &str = "ledger older than its mark";

/// The same where it is known that the mark is missing.
const MARK_MISSING: &str = "the ledger's mark is missing";

/// What was found.
pub(super) struct Collected {
    /// The accounts that were asked; `None` where the server's token says which.
    pub(super) accounts: Option<Vec<String>>,
    /// How the ledger stands to its mark; `None` where a server does not tell.
    pub(super) mark: Option<&'static str>,
    /// Whether the ledger is paused because of its mark.
    pub(super) in_doubt: bool,
    /// Every operation that is not over, oldest first.
    pub(super) open: Vec<Open>,
    /// Whether there are more than were read.
    pub(super) more: bool,
    /// Reminders that are due, of what waits for a person; the oldest first.
    pub(super) reminders: Vec<Reminder>,
    /// Pauses in force, with the tool, or none for everything.
    pub(super) pauses: Vec<(Option<String>, Pause)>,
}

/// What the screen needs of an operation.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Open {
    pub(super) id: String,
    pub(super) account: String,
    pub(super) tool: String,
    pub(super) fingerprint: String,
    pub(super) state: String,
    pub(super) held: bool,
    pub(super) created_at: String,
    pub(super) duplicate_suspected: bool,
    pub(super) next: Next,
    pub(super) attempts: Vec<Attempt>,
}

/// A person asked to be reminded of it, and the time has come.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Reminder {
    pub(super) id: String,
    pub(super) account: String,
    pub(super) tool: String,
    pub(super) due_since: String,
    /// What was written down last.
    pub(super) note: Option<String>,
}

/// What happens next to it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Next {
    pub(super) action: String,
    pub(super) at: Option<String>,
    pub(super) operation: Option<String>,
    pub(super) reason: Option<String>,
}

/// One try.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Attempt {
    pub(super) started_at: String,
    pub(super) outcome: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) error: Option<String>,
}

impl Collected {
    /// Asks a ledger account by account, or a server for the account of the token.
    pub(super) async fn from(target: &Target, account: Option<&Account>) -> Result<Self, CommandError> {
        let mut found = Self {
            accounts: None,
            mark: None,
            in_doubt: false,
            open: Vec::new(),
            more: false,
            reminders: Vec::new(),
            pauses: Vec::new(),
        };
        found.pauses = pauses(target).await?;
        match target.here() {
            Some(here) => {
                let accounts = match account {
                    Some(account) => vec![account.clone()],
                    None => here.ledger().store().accounts().await?,
                };
                for account in &accounts {
                    let target = Target::Here(here.of_account(account.clone()));
                    found.add(&target).await?;
                    found.remind(&target, Some(account.as_str())).await?;
                }
                found.accounts = Some(accounts.iter().map(ToString::to_string).collect());
                found.mark = Some(mark_name(here.ledger().store().mark_state()));
            }
            None => {
                found.add(target).await?;
                found.remind(target, None).await?;
            }
        }
        found.reminders.sort_by(|a, b| (&a.due_since, &a.id).cmp(&(&b.due_since, &b.id)));
        found.in_doubt = found.pauses.iter().any(|(_, pause)| pause.note == OLDER_THAN_MARK);
        if found.mark == Some("missing") {
            for (_, pause) in found.pauses.iter_mut().filter(|(_, pause)| pause.note == OLDER_THAN_MARK) {
                pause.note = MARK_MISSING.to_owned();
            }
        }
        found
            .open
            .sort_by(|a, b| (&a.created_at, &a.account, &a.id).cmp(&(&b.created_at, &b.account, &b.id)));
        found.open.dedup_by(|a, b| (&a.account, &a.id) == (&b.account, &b.id));
        Ok(found)
    }

    /// Reads what people wrote down about what waits for them, the oldest first. Whoever may not read evidence sees the
    /// screen without reminders.
    async fn remind(&mut self, target: &Target, account: Option<&str>) -> Result<(), CommandError> {
        let now = SystemClock::default().now();
        let mut waiting: Vec<&Open> = self
            .open
            .iter()
            .filter(|open| open.held || open.duplicate_suspected)
            .filter(|open| account.is_none_or(|account| open.account == account))
            .collect();
        waiting.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
        waiting.dedup_by(|a, b| a.id == b.id);
        for open in waiting.into_iter().take(REMINDED) {
            let notes = match Notes::read(target, &OperationId::parse(&open.id)?).await {
                Ok(notes) => notes,
                Err(error) if error.kind == Kind::Refused => return Ok(()),
                Err(error) => return Err(error),
            };
            if let Some(since) = notes.remind_at.filter(|_| notes.is_due(now)) {
                self.reminders.push(Reminder {
                    id: open.id.clone(),
                    account: open.account.clone(),
                    tool: open.tool.clone(),
                    due_since: since.to_string(),
                    note: notes.newest_text().map(str::to_owned),
                });
            }
        }
        Ok(())
    }

    /// Unresolved are those with an attempt; prepared ones without may still wait for somebody.
    async fn add(&mut self, target: &Target) -> Result<(), CommandError> {
        for condition in [("unresolved", "true"), ("state", "prepared")] {
            let mut cursor = None;
            for page in 0.. {
                if page == PAGES {
                    self.more = true;
                    break;
                }
                let (name, value) = condition;
                let parameters =
                    [(name, Some(value.to_owned())), ("limit", Some(PAGE.to_owned())), ("cursor", cursor)];
                let (_, listing) = target.page(with_query("/v1/operations", &parameters)).await?;
                for item in &listing.items {
                    self.open.push(serde_json::from_str(item.get())?);
                }
                cursor = listing.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Every pause once: those of everything stand beside each tool.
async fn pauses(target: &Target) -> Result<Vec<(Option<String>, Pause)>, CommandError> {
    if let Some(here) = target.here() {
        let pauses = here.ledger().store().pauses().await?;
        let shown = |pause: counterfoil::store::Pause| {
            let everything = pause.tool.is_none();
            let shown = Pause {
                everything,
                scope: pause.scope,
                at: pause.at.to_string(),
                by: pause.by,
                note: pause.note,
            };
            (pause.tool.map(|tool| tool.to_string()), shown)
        };
        return Ok(pauses.into_iter().map(shown).collect());
    }
    let mut all: Vec<(Option<String>, Pause)> = Vec::new();
    for item in target.page("/v1/tools".to_owned()).await?.1.items {
        let tool = ToolBody::read(&item)?;
        for pause in &tool.paused {
            let named = (!pause.everything).then(|| tool.name.clone());
            let one = (named, pause.clone());
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    all.sort_by(|(_, a), (_, b)| a.at.cmp(&b.at));
    Ok(all)
}
