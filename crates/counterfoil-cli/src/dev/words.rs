//! A row of evidence in plain words.

use counterfoil::operation::Operation;
use counterfoil::snapshot::View;
use counterfoil::store::EvidenceRow;
use serde_json::Value;

/// What the row says, or `None` for what only the machine cares about. `view` is the operation as it is now.
#[must_use]
pub fn of(row: &EvidenceRow, view: Option<&View>) -> Option<String> {
    let data: Value = serde_json::from_str(&row.data).unwrap_or_default();
    let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let attempt = || data.get("attempt").or_else(|| data.get("number")).and_then(Value::as_u64).unwrap_or(0);
    let operation = view.map(|view| &view.operation);
    Some(match row.kind.as_str() {
        "prepared" => format!("accepted: {}", operation.map_or("", |operation| operation.tool.as_str())),
        "attempt_started" => format!("attempt {} is sent", attempt()),
        "attempt_outcome" | "late_report" => outcome(attempt(), &text("outcome"), &text("error"), operation),
        "no_answer_yet" => format!("attempt {}: no answer yet; it is still listened for", attempt()),
        "looked_up" => looked_up(&text("answer"), data.get("counts") == Some(&Value::Bool(true)), operation),
        "look_up_asked_for" => "a look-up is asked for".to_owned(),
        "lease_expired" => "the worker is gone; whether it sent anything is not known".to_owned(),
        "all_settled" => "settled: nothing happened at the destination".to_owned(),
        "held" => "held: only a person can settle it (counterfoil review)".to_owned(),
        "held_back" => "waits for another operation with the same action".to_owned(),
        "deferred" => "waits for its turn: the destination's rate is used up".to_owned(),
        "approved" => format!("approved by {}", row.by.0),
        "denied" => format!("denied by {}", row.by.0),
        "withdrawn" => format!("withdrawn by {}", row.by.0),
        "resolved" => format!("resolved by {}: {}", row.by.0, text("verdict")),
        "released" => format!("released by {}", row.by.0),
        "note" => format!("{} left a note", row.by.0),
        "reminder" => "the reminder of a note is due".to_owned(),
        "lapsed" => format!("ended without effect: {}", text("code")),
        "committed" => "succeeded: effect and receipt are in one commit".to_owned(),
        "planned" | "wished" | "renewed" | "investigation_started" | "distinct" => return None,
        // A kind that is newer than these words.
        other => other.replace('_', " "),
    })
}

fn reference(operation: Option<&Operation>) -> String {
    match operation
        .and_then(|operation| operation.state.receipt())
        .and_then(|receipt| receipt.reference.as_deref())
    {
        Some(reference) => format!("with reference {reference}"),
        None => "without a reference".to_owned(),
    }
}

fn outcome(attempt: u64, outcome: &str, error: &str, operation: Option<&Operation>) -> String {
    let why = if error.is_empty() { String::new() } else { format!(" ({error})") };
    match outcome {
        "succeeded" => format!("succeeded {}", reference(operation)),
        "rejected" => format!("attempt {attempt}: the destination refuses{why}"),
        "not_sent" => format!("attempt {attempt}: nothing was sent{why}"),
        "not_processed" => format!("attempt {attempt}: the destination did nothing{why}"),
        "throttled" => format!("attempt {attempt}: the destination asks to wait{why}"),
        "pending" => format!("attempt {attempt}: the destination works on it{why}"),
        _ => format!("attempt {attempt}: whether it happened is unknown{why}"),
    }
}

fn looked_up(answer: &str, counts: bool, operation: Option<&Operation>) -> String {
    match answer {
        "found" => format!("looked up: it is there; succeeded {}", reference(operation)),
        "absent" if counts => {
            "looked up: it is not there and cannot come any more; sending again is safe".to_owned()
        }
        "absent" => {
            "looked up: not there yet; a request may still be on its way, so this does not count".to_owned()
        }
        _ => format!("looked up: no answer that proves anything ({answer})"),
    }
}
