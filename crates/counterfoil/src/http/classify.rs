//! What an answer proves. Pure; the order is: the tool's own matchers, then the default table, then what a receipt
//! still needs. Whatever is in doubt is [`Meaning::Unknown`].

use std::time::Duration;

use super::probe::{Document, Value};
use crate::destination::Finding;
use crate::json;
use crate::operation::{Body, Marker, ResultBody};
use crate::pointer::Pointer;
use crate::policy::{Meaning, OutcomeRule, Tool};
use crate::safeguard::Safeguard;
use crate::time::Timestamp;

/// The most bytes of a body that are kept; of a larger one the digest and size are.
pub const MAX_KEPT: usize = 1024 * 1024;

/// The deepest nesting of a body that is kept as JSON; a deeper one is kept as text.
pub(super) const MAX_KEPT_DEPTH: usize = 64;

/// The longest wait that a destination can ask for.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// What came back, without anything that is never kept: of the headers only these two are read.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Content-Type`, as it came.
    pub content_type: Option<String>,
    /// Whether the body is compressed, although nobody asked for it.
    pub encoded: bool,
    /// `Retry-After`, read by [`retry_after`].
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: AnswerBody,
}

/// The body of an answer.
#[derive(Clone)]
pub struct AnswerBody {
    /// Its bytes, if `held`.
    pub bytes: Vec<u8>,
    /// Whether `bytes` is all that came. Only the JSON of large bodies is held.
    pub held: bool,
    /// How many bytes came.
    pub size: u64,
    /// SHA-256 of them, as `sha256:` and hexadecimal digits.
    pub digest: String,
    /// How it ended.
    pub end: BodyEnd,
}

impl std::fmt::Debug for AnswerBody {
    /// Bodies may hold personal data: only size and end are printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerBody").field("size", &self.size).field("end", &self.end).finish_non_exhaustive()
    }
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyEnd {
    /// At the end that the message itself declares.
    Complete,
    /// With the connection: whether more was to come cannot be told.
    Unframed,
    /// Before its end: the connection broke or the time was over.
    Cut,
    /// At the most bytes that are read of any body.
    Capped,
}

impl Answer {
    fn media_type(&self) -> String {
        let text = self.content_type.as_deref().unwrap_or_default();
        text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Whether the answer says that it is JSON.
    #[must_use]
    pub fn says_json(&self) -> bool {
        is_json(&self.media_type())
    }

    /// The body, if all of it came and is held, and nothing hides what it says.
    pub(super) fn readable(&self) -> Option<&[u8]> {
        let whole = match self.body.end {
            BodyEnd::Complete | BodyEnd::Unframed => true,
            BodyEnd::Cut | BodyEnd::Capped => false,
        };
        (whole && self.body.held && !self.encoded).then_some(&*self.body.bytes)
    }

    /// Whether a body that was not read as JSON may have been meant as JSON, or may have lost its end.
    fn may_hide_json(&self) -> bool {
        match self.readable() {
            None => true,
            Some([]) => false,
            Some(bytes) => self.body.end == BodyEnd::Unframed || self.says_json() || begins_as_json(bytes),
        }
    }
}

/// Bodies that begin so are meant as JSON, whatever is wrong with them.
fn begins_as_json(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
}

pub(super) fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json") || media_type == "text/json"
}

/// Says what an answer to a request proves. `first_send`: no earlier attempt of the operation may have arrived.
/// `key_sent`: the request carried a key or reference, so our own earlier request can be what is in the way.
#[must_use]
pub fn classify(tool: &Tool, answer: &Answer, first_send: bool, key_sent: bool) -> Finding {
    let document = answer.readable().and_then(Document::read);
    let wanted = tool.http().and_then(|http| http.receipt_reference.as_ref());
    let reference = wanted.and_then(|pointer| reference(document?, pointer));
    let said = match matched(&tool.outcomes, answer, document) {
        Matched::Rule(meaning) => Said { meaning, doubt: None, by_rule: true },
        // A rule might have spoken, had the body come whole. A refusal is only as good as its body then.
        Matched::CannotTell => {
            Said::unknown("the answer's body could not be read, and its meaning depends on it")
        }
        Matched::None => by_status(answer, document, first_send, key_sent),
    };
    let said = match said.meaning {
        Meaning::Succeeded => receipt(said, answer, document, wanted.is_some(), reference.is_some()),
        Meaning::Rejected
        | Meaning::NotProcessed
        | Meaning::Throttled
        | Meaning::Pending
        | Meaning::DuplicateOfOurs
        | Meaning::Unknown => said,
    };
    Finding {
        meaning: said.meaning,
        status: Some(answer.status),
        error: said.doubt.or(plain_words(said.meaning)).map(str::to_owned),
        reference,
        result: result(answer, document),
        retry_after: answer.retry_after,
        credential_refused: matches!(answer.status, 401 | 407 | 511) && said.meaning == Meaning::NotProcessed,
        ..Finding::unknown(Marker::BytesWritten, "")
    }
}

struct Said {
    meaning: Meaning,
    doubt: Option<&'static str>,
    by_rule: bool,
}

impl Said {
    fn plain(meaning: Meaning) -> Self {
        Self { meaning, doubt: None, by_rule: false }
    }

    fn unknown(doubt: &'static str) -> Self {
        Self { meaning: Meaning::Unknown, doubt: Some(doubt), by_rule: false }
    }
}

fn plain_words(meaning: Meaning) -> Option<&'static str> {
    match meaning {
        Meaning::Succeeded => None,
        Meaning::Rejected => Some("the destination refused the request"),
        Meaning::NotProcessed => Some("the destination refused the request before processing it"),
        Meaning::Throttled => Some("the destination asks to come back later"),
        Meaning::Pending => Some("the destination accepted the request and has not carried it out yet"),
        Meaning::DuplicateOfOurs => Some("the destination says that the request was made before"),
        Meaning::Unknown => Some("the answer does not say whether the request was carried out"),
    }
}

enum Matched {
    Rule(Meaning),
    CannotTell,
    None,
}

fn matched(rules: &[OutcomeRule], answer: &Answer, document: Option<Document<'_>>) -> Matched {
    for rule in rules.iter().filter(|rule| rule.status.is_none_or(|status| status == answer.status)) {
        let Some(condition) = &rule.body else { return Matched::Rule(rule.means) };
        match document {
            Some(document) => {
                let found = document.find(&condition.pointer);
                if found.as_ref().and_then(Value::spelled) == Some(condition.equals.as_str()) {
                    return Matched::Rule(rule.means);
                }
            }
            None if answer.may_hide_json() => return Matched::CannotTell,
            // A whole body that is no JSON does not hold the member.
            None => {}
        }
    }
    Matched::None
}

/// What a status proves where the tool's own rules say nothing, before its body is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByStatus {
    /// Success, if the body is a receipt.
    Success,
    /// Always this.
    Fixed(Meaning),
    /// Refused, unless it says when to come back.
    Forbidden,
    /// Refused on a first send; later our own first write may be what failed the condition.
    Precondition,
    /// Refused, unless the body says that our own earlier request is in the way.
    Unprocessable,
}

/// The default table. Whatever is not in it has [`other_status`].
const TABLE: &[(u16, ByStatus)] = &[
    (200, ByStatus::Success),
    (201, ByStatus::Success),
    (202, ByStatus::Fixed(Meaning::Pending)),
    (204, ByStatus::Success),
    (307, ByStatus::Fixed(Meaning::Rejected)),
    (308, ByStatus::Fixed(Meaning::Rejected)),
    (401, ByStatus::Fixed(Meaning::NotProcessed)),
    (403, ByStatus::Forbidden),
    (407, ByStatus::Fixed(Meaning::NotProcessed)),
    (408, ByStatus::Fixed(Meaning::Unknown)),
    (409, ByStatus::Fixed(Meaning::Unknown)),
    (412, ByStatus::Precondition),
    (421, ByStatus::Fixed(Meaning::NotProcessed)),
    (422, ByStatus::Unprocessable),
    (425, ByStatus::Fixed(Meaning::NotProcessed)),
    (429, ByStatus::Fixed(Meaning::Throttled)),
    (501, ByStatus::Fixed(Meaning::Rejected)),
    (505, ByStatus::Fixed(Meaning::Rejected)),
    (511, ByStatus::Fixed(Meaning::NotProcessed)),
];

/// 4xx refuses the request as such; everything else proves nothing.
fn other_status(status: u16) -> ByStatus {
    let refuses = (400..500).contains(&status) || (status >= 500 && !Safeguard::ServerErrors.stands());
    ByStatus::Fixed(if refuses { Meaning::Rejected } else { Meaning::Unknown })
}

fn by_status(answer: &Answer, document: Option<Document<'_>>, first_send: bool, key_sent: bool) -> Said {
    let listed = TABLE.iter().find(|(status, _)| *status == answer.status);
    match listed.map_or_else(|| other_status(answer.status), |(_, by_status)| *by_status) {
        ByStatus::Success => Said::plain(Meaning::Succeeded),
        ByStatus::Fixed(meaning) => Said::plain(meaning),
        ByStatus::Forbidden if answer.retry_after.is_some() => Said::plain(Meaning::Throttled),
        ByStatus::Forbidden => Said::plain(Meaning::Rejected),
        ByStatus::Precondition if first_send => Said::plain(Meaning::Rejected),
        ByStatus::Precondition => {
            Said::unknown("the condition may have failed because of our own first request")
        }
        ByStatus::Unprocessable => match answer.readable() {
            None => Said::unknown("the refusal's body could not be read"),
            Some(bytes) if names_earlier_request(bytes, key_sent) => {
                Said::unknown("the refusal names the key as used, or the object as existing")
            }
            Some(bytes)
                if document.is_none() && !bytes.is_empty() && answer.body.end == BodyEnd::Unframed =>
            {
                Said::unknown("the refusal's body may have been cut off")
            }
            Some(_) => Said::plain(Meaning::Rejected),
        },
    }
}

/// Phrases by which a refusal says that the key is in use or known, or that the object exists. Matching too much costs
/// a look; matching too little would let a second one be made.
const EXISTS: [&str; 11] = [
    "already exist",
    "already been taken",
    "already taken",
    "already used",
    "already been used",
    "already in use",
    "already created",
    "already processed",
    "duplicate",
    "must be unique",
    "not unique",
];

fn names_earlier_request(bytes: &[u8], key_sent: bool) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase().replace(['_', '-'], " ");
    let squeezed = text.replace(' ', "");
    (key_sent && squeezed.contains("idempoten"))
        || squeezed.contains("alreadyexist")
        || EXISTS.iter().any(|phrase| text.contains(phrase))
}

/// What a success still needs before it is a receipt.
fn receipt(
    said: Said,
    answer: &Answer,
    document: Option<Document<'_>>,
    reference_wanted: bool,
    reference_found: bool,
) -> Said {
    let empty = answer.status == 204 || (answer.body.size == 0 && answer.body.end == BodyEnd::Complete);
    let whole = match answer.body.end {
        BodyEnd::Complete | BodyEnd::Unframed => true,
        // So many bytes that are no JSON say nothing more; with JSON there would be an end to wait for.
        BodyEnd::Capped => !answer.says_json(),
        BodyEnd::Cut => false,
    };
    if !whole {
        return Said::unknown("the answer was cut off after its status");
    }
    if answer.says_json() && !empty && document.is_none() {
        return Said::unknown("the answer says that it is JSON and is not");
    }
    // A rule for another status may name a success whose answer has another shape.
    if reference_wanted && !reference_found && (!said.by_rule || (200..300).contains(&answer.status)) {
        return Said::unknown("the answer lacks the declared reference");
    }
    if !said.by_rule && document.is_some_and(tells_an_error) {
        return Said::unknown("the answer reports success and holds an error");
    }
    said
}

/// Bodies of a 2xx that tell of a failure: GraphQL's `errors`, `ok` or `success` being false, an `error`.
fn tells_an_error(document: Document<'_>) -> bool {
    let member = |name: &str| Pointer::parse(name).ok().and_then(|pointer| document.find(&pointer));
    let full = |value: Option<Value>| match value {
        None | Some(Value::Null | Value::Bool(false) | Value::Other { empty: true }) => false,
        Some(Value::Number(text)) => text != "0",
        Some(Value::Text(text)) => !text.is_empty(),
        Some(Value::Bool(true) | Value::Other { empty: false }) => true,
    };
    let denied = |value: Option<Value>| value == Some(Value::Bool(false));
    full(member("/errors")) || full(member("/error")) || denied(member("/ok")) || denied(member("/success"))
}

fn reference(document: Document<'_>, pointer: &Pointer) -> Option<String> {
    match document.find(pointer)? {
        Value::Text(text) | Value::Number(text) => (!text.trim().is_empty()).then_some(text),
        Value::Null | Value::Bool(_) | Value::Other { .. } => None,
    }
}

/// The body as it is kept: never half of one.
pub(super) fn result(answer: &Answer, document: Option<Document<'_>>) -> Option<ResultBody> {
    let truncated = match answer.body.end {
        BodyEnd::Cut => return None,
        BodyEnd::Complete | BodyEnd::Unframed => !answer.body.held || answer.body.bytes.len() > MAX_KEPT,
        BodyEnd::Capped => true,
    };
    let body = (!truncated).then(|| kept(answer, document));
    Some(ResultBody {
        status: Some(answer.status),
        content_type: answer.content_type.clone(),
        body,
        size: answer.body.size,
        digest: answer.body.digest.clone(),
        truncated,
    })
}

fn kept(answer: &Answer, document: Option<Document<'_>>) -> Body {
    let media_type = answer.media_type();
    let text = match media_type.as_str() {
        "" => answer.body.bytes.is_empty(),
        "application/xml" | "application/x-www-form-urlencoded" | "application/javascript" => true,
        other => other.starts_with("text/") || other.ends_with("+xml") || is_json(other),
    };
    // What every later reader must be able to read again: nothing ambiguous, nothing nested without end.
    if let Some(document) = document
        && answer.says_json()
        && json::parse_str(document.text(), MAX_KEPT_DEPTH).is_ok()
    {
        return Body::Json(document.text().to_owned());
    }
    match std::str::from_utf8(&answer.body.bytes) {
        Ok(utf8) if text && !answer.encoded => Body::Text(utf8.to_owned()),
        Ok(_) | Err(_) => Body::Base64(crate::base64::encode(&answer.body.bytes)),
    }
}

/// Reads `Retry-After`: seconds or an HTTP date, at most 24 h. Anything else says nothing.
#[must_use]
pub fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let date = Timestamp::parse(text).filter(|_| text.ends_with("GMT"))?;
    Some(date.since(now).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
