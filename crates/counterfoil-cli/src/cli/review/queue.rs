//! What waits for a person, in the order in which it is worked through.

use std::cmp::Reverse;
use std::collections::HashMap;

use counterfoil::{Clock as _, OperationId, SystemClock, Timestamp, ToolName};
use serde::Serialize;

use super::notes::Notes;
use crate::cli::error::{CommandError, Kind};
use crate::cli::op::operation::Operation;
use crate::cli::target::{Target, with_query};
use crate::review::Texts;

/// Items of one page.
const PAGE: &str = "200";

/// Pages that are read of one list: 1 000 operations are more than one sitting.
const PAGES: usize = 5;

/// Operations whose evidence is read for a reminder; those beyond come in their order without one.
const REMINDED: usize = 200;

/// What waits for a person.
pub(super) struct Queue {
    /// In order.
    pub(super) entries: Vec<Entry>,
    /// Whether there are more than were read.
    pub(super) more: bool,
}

/// One operation that waits.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) account: String,
    pub(super) tool: String,
    severity: String,
    question: Option<String>,
    pub(super) state: String,
    held: bool,
    duplicate_suspected: bool,
    reason: Option<String>,
    not_before: Option<String>,
    version: u64,
    created_at: String,
    remind_at: Option<String>,
    reminder_due: bool,
    /// Whose it is, among the targets that were asked.
    #[serde(skip)]
    pub(super) place: usize,
    #[serde(skip)]
    urgency: u8,
}

/// The texts of tools by version, each asked for once.
#[derive(Default)]
pub(super) struct Told {
    known: HashMap<(usize, String, u32), Texts>,
}

impl Told {
    /// What the tool of an operation says: its own version, else what is in force.
    pub(super) async fn of(
        &mut self,
        target: &Target,
        place: usize,
        operation: &Operation,
    ) -> Result<Texts, CommandError> {
        let key = (place, operation.tool.clone(), operation.policy_version);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let path = format!("/v1/tools/{}", ToolName::parse(&operation.tool)?);
        let version = Some(operation.policy_version.to_string());
        let mut texts = texts(target, with_query(&path, &[("policy_version", version)])).await?;
        if texts.is_empty() {
            texts = self::texts(target, path).await?;
        }
        self.known.insert(key, texts.clone());
        Ok(texts)
    }
}

/// What a tool says; nothing where it is not declared.
async fn texts(target: &Target, path: String) -> Result<Texts, CommandError> {
    #[derive(serde::Deserialize)]
    struct Tool {
        #[serde(default)]
        review: Texts,
    }
    match target.get(path).await {
        Ok(answer) => Ok(serde_json::from_str::<Tool>(&answer.body)?.review),
        Err(error) if error.kind == Kind::Refused => Ok(Texts::default()),
        Err(error) => Err(error),
    }
}

impl Queue {
    /// Asks every target for what only a person can move.
    pub(super) async fn of(targets: &[&Target], tool: Option<&str>) -> Result<Self, CommandError> {
        let mut queue = Self { entries: Vec::new(), more: false };
        let mut told = Told::default();
        for (place, target) in targets.iter().enumerate() {
            for condition in ["held", "unresolved"] {
                queue.add(target, place, condition, tool, &mut told).await?;
            }
        }
        queue.entries.sort_by(|a, b| (&a.account, &a.id).cmp(&(&b.account, &b.id)));
        queue.entries.dedup_by(|a, b| (&a.account, &a.id) == (&b.account, &b.id));
        queue.entries.sort_by_key(|entry| (Reverse(entry.urgency), entry.created_at.clone()));
        queue.remind(targets).await?;
        Ok(queue)
    }

    /// Held are open ones; a suspected duplicate may be over.
    async fn add(
        &mut self,
        target: &Target,
        place: usize,
        condition: &str,
        tool: Option<&str>,
        told: &mut Told,
    ) -> Result<(), CommandError> {
        let mut cursor = None;
        for _ in 0..PAGES {
            let parameters = [
                (condition, Some("true".to_owned())),
                ("tool", tool.map(str::to_owned)),
                ("limit", Some(PAGE.to_owned())),
                ("cursor", cursor),
            ];
            let (_, listing) = target.page(with_query("/v1/operations", &parameters)).await?;
            for item in &listing.items {
                let operation = Operation::read(item.get())?;
                if operation.next.action == "review" {
                    let texts = told.of(target, place, &operation).await?;
                    self.entries.push(Entry::of(&operation, &texts, place));
                }
            }
            cursor = listing.next_cursor;
            if cursor.is_none() {
                return Ok(());
            }
        }
        self.more = true;
        Ok(())
    }

    /// Reminders that are due come first; what somebody put off until later comes last.
    async fn remind(&mut self, targets: &[&Target]) -> Result<(), CommandError> {
        let now = SystemClock::default().now();
        for entry in self.entries.iter_mut().take(REMINDED) {
            let Some(target) = targets.get(entry.place) else { continue };
            match Notes::read(target, &OperationId::parse(&entry.id)?).await {
                Ok(notes) => entry.remind(&notes, now),
                // Whoever may not read evidence sees the list without reminders.
                Err(error) if error.kind == Kind::Refused => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.entries.sort_by_key(|entry| match (entry.reminder_due, &entry.remind_at) {
            (true, _) => 0,
            (false, None) => 1,
            (false, Some(_)) => 2,
        });
        Ok(())
    }
}

impl Entry {
    fn of(operation: &Operation, texts: &Texts, place: usize) -> Self {
        Self {
            id: operation.id.clone(),
            account: operation.account.clone(),
            tool: operation.tool.clone(),
            severity: texts.severity.clone().unwrap_or_else(|| "normal".to_owned()),
            question: texts.question.clone(),
            state: operation.state.clone(),
            held: operation.held,
            duplicate_suspected: operation.duplicate_suspected,
            reason: operation.next.reason.clone(),
            not_before: operation.next.not_before.clone(),
            version: operation.version,
            created_at: operation.created_at.clone(),
            remind_at: None,
            reminder_due: false,
            place,
            urgency: texts.urgency(),
        }
    }

    fn remind(&mut self, notes: &Notes, now: Timestamp) {
        self.remind_at = notes.remind_at.map(|at| at.to_string());
        self.reminder_due = notes.is_due(now);
    }

    pub(super) fn row(&self) -> Vec<String> {
        let reminder = match (&self.remind_at, self.reminder_due) {
            (None, _) => "-".to_owned(),
            (Some(at), true) => format!("due since {at}"),
            (Some(at), false) => at.clone(),
        };
        vec![
            self.id.clone(),
            self.account.clone(),
            self.tool.clone(),
            self.severity.clone(),
            self.state.clone(),
            self.reason.clone().unwrap_or_else(|| "-".to_owned()),
            self.created_at.clone(),
            reminder,
        ]
    }

    /// What of it stands in the head of its sheet.
    pub(super) fn head(&self) -> String {
        match (&self.remind_at, self.reminder_due) {
            (Some(at), true) => format!("{}, reminder due since {at}", self.severity),
            (Some(at), false) => format!("{}, put off until {at}", self.severity),
            (None, _) => self.severity.clone(),
        }
    }
}
