//! What people wrote down about an operation, and when they asked to be reminded of it.

use counterfoil::{OperationId, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::cli::error::CommandError;
use crate::cli::target::{Target, path_of, with_query};

/// Rows of one page of evidence.
const PAGE: &str = "200";

/// Pages of evidence that are read of one operation.
const PAGES: usize = 25;

/// A row of evidence.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// When.
    pub at: String,
    /// What.
    pub kind: String,
    /// By whom.
    pub by: By,
    /// The words of it.
    pub data: Value,
}

/// Who left a row.
#[derive(Clone, Debug, Deserialize)]
pub struct By {
    /// The name.
    pub principal: String,
    /// `caller`, `worker` or `rule`.
    pub kind: String,
}

/// What the evidence of one operation says.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Every row that was read, oldest first.
    pub rows: Vec<Row>,
    /// When somebody asked to be reminded, where nobody has looked since.
    pub remind_at: Option<Timestamp>,
}

impl Notes {
    /// Reads the evidence of an operation.
    ///
    /// # Errors
    /// Where it cannot be read, or not by this principal.
    pub async fn read(target: &Target, id: &OperationId) -> Result<Self, CommandError> {
        let mut rows = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES {
            let parameters = [("limit", Some(PAGE.to_owned())), ("cursor", cursor)];
            let (_, page) = target.page(with_query(&path_of(id, "/evidence"), &parameters)).await?;
            for item in &page.items {
                rows.push(serde_json::from_str::<Row>(item.get())?);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Self { remind_at: reminder(&rows), rows })
    }

    /// What was written down last.
    #[must_use]
    pub fn newest_text(&self) -> Option<&str> {
        self.rows.iter().rev().find(|row| row.kind == "note")?.data.get("text")?.as_str()
    }

    /// Whether the reminder is due.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.remind_at.is_some_and(|at| at <= now)
    }
}

/// The newest reminder that nobody has answered: a person who wrote something after its time has seen it.
fn reminder(rows: &[Row]) -> Option<Timestamp> {
    let mut open = None;
    for row in rows {
        let person = matches!(row.kind.as_str(), "note" | "resolved" | "released");
        let at = Timestamp::parse(&row.at);
        if person && open.zip(at).is_some_and(|(remind, at)| at >= remind) {
            open = None;
        }
        if row.kind == "note" {
            let asked = row.data.get("remind_at").and_then(Value::as_str).and_then(Timestamp::parse);
            open = asked.or(open);
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(at: &str, remind_at: Option<&str>) -> Row {
        let by = By { principal: "ann".to_owned(), kind: "caller".to_owned() };
        let data = serde_json::json!({ "text": "t", "remind_at": remind_at });
        Row { at: at.to_owned(), kind: "note".to_owned(), by, data }
    }

    #[test]
    fn a_reminder_lasts_until_a_person_writes_after_its_time() {
        let (eight, nine, ten) = ("2026-11-30T08:00:00Z", "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z");
        let at = |text| Timestamp::parse(text);
        assert_eq!(reminder(&[note(eight, None)]), None);
        assert_eq!(reminder(&[note(eight, Some(nine))]), at(nine));
        assert_eq!(reminder(&[note(eight, Some(ten)), note(nine, None)]), at(ten));
        assert_eq!(reminder(&[note(eight, Some(nine)), note(ten, None)]), None);
        assert_eq!(reminder(&[note(eight, Some(nine)), note(nine, Some(ten))]), at(ten));
        let rule = Row { kind: "reminder".to_owned(), ..note(ten, None) };
        assert_eq!(reminder(&[note(eight, Some(nine)), rule]), at(nine));
    }
}
