//! What the answer to a look-up says. Pure. A record is found or certainly absent only where the answer has the declared
//! shape; whatever is in doubt is unclear, and nothing follows from it.

use super::classify::{Answer, BodyEnd, result};
use super::probe::{Document, Value, length, value};
use crate::destination::LookedUp;
use crate::fingerprint::{Arguments, canonical_text};
use crate::json;
use crate::operation::LookUpAnswer;
use crate::pointer::Pointer;

/// What was declared of the answer.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Where the answer names the record.
    pub(super) found: Pointer,
    /// What counts the records.
    pub(super) count: Option<Pointer>,
    /// Members of the arguments that the record must repeat.
    pub(super) must_match: Vec<Pointer>,
    /// Whether the URL is the record's own address: the reference stands in its path.
    pub(super) by_address: bool,
}

/// A reading of the answer, and in fixed words what was wrong with it.
struct Reading {
    answer: LookUpAnswer,
    reference: Option<String>,
    words: Option<&'static str>,
}

impl Reading {
    fn unclear(words: &'static str) -> Self {
        Self { answer: LookUpAnswer::Unclear, reference: None, words: Some(words) }
    }

    fn plain(answer: LookUpAnswer) -> Self {
        Self { answer, reference: None, words: None }
    }
}

/// Says what an answer to the look-up means for an operation with these arguments.
pub(super) fn judge(asked: &Asked, answer: &Answer, arguments: &Arguments) -> LookedUp {
    let document = answer.readable().and_then(Document::read).filter(|document| is_whole(answer, *document));
    let reading = match document {
        _ if !answer.says_json() => Reading::unclear("the answer does not say that it is JSON"),
        None => Reading::unclear("the answer is not one whole JSON value"),
        Some(document) => match answer.status {
            200 => read(asked, document, arguments),
            404 | 410 if asked.by_address && asked.count.is_none() => Reading::plain(LookUpAnswer::Absent),
            _ => Reading::unclear("the answer's status says nothing about the record"),
        },
    };
    LookedUp {
        answer: reading.answer,
        reference: reading.reference,
        result: result(answer, document),
        error: reading.words.map(str::to_owned),
        scope_changed: false,
    }
}

/// Where the message does not say where it ends, an object or array still does; a number may go on.
fn is_whole(answer: &Answer, document: Document<'_>) -> bool {
    match answer.body.end {
        BodyEnd::Complete => true,
        BodyEnd::Unframed => document.text().trim_start().starts_with(['{', '[']),
        BodyEnd::Cut | BodyEnd::Capped => false,
    }
}

fn read(asked: &Asked, document: Document<'_>, arguments: &Arguments) -> Reading {
    let named = named(document, &asked.found);
    let counted = asked.count.as_ref().map(|count| count_of(document, count));
    let reference = match (counted, named) {
        (Some(Count::Unclear), _) => return Reading::unclear("the answer's count cannot be read"),
        (Some(Count::None), Named::Record(_)) => {
            return Reading::unclear("the answer counts no record and names one");
        }
        (Some(Count::None), Named::Nothing | Named::Unclear) => return Reading::plain(LookUpAnswer::Absent),
        (Some(Count::Several), Named::Record(_) | Named::Nothing | Named::Unclear) => {
            return Reading::plain(LookUpAnswer::Several);
        }
        (Some(Count::One), Named::Nothing) => {
            return Reading::unclear("the answer counts a record and names none");
        }
        (None, Named::Nothing) => return Reading::plain(LookUpAnswer::Absent),
        (Some(Count::One) | None, Named::Unclear) => {
            return Reading::unclear("the answer has another shape than the declared one");
        }
        (Some(Count::One) | None, Named::Record(reference)) => reference,
    };
    let answer =
        if repeats(asked, document, arguments) { LookUpAnswer::Found } else { LookUpAnswer::Differs };
    Reading { answer, reference: Some(reference), words: None }
}

/// What stands where the answer names the record.
enum Named {
    Record(String),
    /// Nothing, in a shape that says so: a list too short, or `null` in place of the record.
    Nothing,
    Unclear,
}

fn named(document: Document<'_>, found: &Pointer) -> Named {
    let tokens: Vec<&str> = found.tokens().collect();
    if let Some(raw) = document.raw(&tokens) {
        return match value(raw) {
            Value::Text(text) | Value::Number(text) if !text.trim().is_empty() => Named::Record(text),
            Value::Text(_) | Value::Number(_) | Value::Null | Value::Bool(_) | Value::Other { .. } => {
                Named::Unclear
            }
        };
    }
    // The deepest part of the way that exists, and what was to come next.
    let mut known = tokens.as_slice();
    let (raw, next) = loop {
        let Some((next, parents)) = known.split_last() else { return Named::Unclear };
        known = parents;
        if let Some(raw) = document.raw(known) {
            break (raw, *next);
        }
    };
    // An element that is null still is an element: something is listed.
    let in_list = known
        .split_last()
        .is_some_and(|(_, parents)| document.raw(parents).is_some_and(|parent| parent.starts_with('[')));
    let nothing = (raw == "null" && !in_list) || is_past(next, raw);
    if nothing { Named::Nothing } else { Named::Unclear }
}

/// Whether a name is an index behind the end of this array.
fn is_past(token: &str, raw: &str) -> bool {
    let canonical =
        token.bytes().all(|byte| byte.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    let index = token.parse::<usize>().ok().filter(|_| canonical);
    index.zip(length(raw)).is_some_and(|(index, length)| index >= length)
}

/// How many records there are.
#[derive(Clone, Copy)]
enum Count {
    None,
    One,
    Several,
    Unclear,
}

fn count_of(document: Document<'_>, count: &Pointer) -> Count {
    let tokens: Vec<&str> = count.tokens().collect();
    let Some(raw) = document.raw(&tokens) else { return Count::Unclear };
    match length(raw) {
        Some(0) => return Count::None,
        Some(1) => return Count::One,
        Some(_) => return Count::Several,
        None => {}
    }
    match value(raw) {
        Value::Number(_) => {}
        Value::Null | Value::Bool(_) | Value::Text(_) | Value::Other { .. } => return Count::Unclear,
    }
    match canonical(raw).as_deref() {
        Some("0") => Count::None,
        Some("1e0") => Count::One,
        Some(number) if !number.contains('-') => Count::Several,
        Some(_) | None => Count::Unclear,
    }
}

/// Whether the record repeats the arguments where it must. The record is what holds the name that was found.
fn repeats(asked: &Asked, document: Document<'_>, arguments: &Arguments) -> bool {
    if asked.must_match.is_empty() {
        return true;
    }
    let record = asked.found.split_last().map(|(record, _)| record);
    let (Some(record), Ok(ours)) = (record, arguments.node()) else { return false };
    asked.must_match.iter().all(|member| {
        let tokens: Vec<&str> = record.tokens().chain(member.tokens()).collect();
        let theirs = document.raw(&tokens).and_then(canonical);
        let ours = member.resolve(&ours).map(canonical_text);
        ours.is_some() && ours == theirs
    })
}

/// The text of a value in the form in which equal values are equal.
pub(super) fn canonical(raw: &str) -> Option<String> {
    json::parse_str(raw, json::DEEPEST).ok().map(|node| canonical_text(&node))
}

#[cfg(test)]
#[path = "found_tests.rs"]
mod tests;
