//! What an answer to a look-up says. Pure: only the declared shape is believed, and whatever else comes back, an error
//! page, a cut body, a list of something else, says nothing.

use super::classify::{Answer, BodyEnd, is_json, whole_result};
use super::template::scalar;
use crate::destination::LookedUp;
use crate::fingerprint::{Canonical, Omitted};
use crate::json::{self, Content, Node};
use crate::operation::LookUpAnswer;
use crate::pointer::Pointer;
use crate::recovery::LookUpRequest;

/// The deepest nesting of an answer that is read.
const DEPTH: usize = 64;

/// Reads the answer to `request`. `arguments` are the operation's; `addressed` says that the reference stands in the
/// path of the URL, so that the resource itself is what was asked for.
pub(super) fn read(
    request: &LookUpRequest,
    answer: &Answer,
    arguments: &Node<'_>,
    addressed: bool,
) -> LookedUp {
    let says = |answer: LookUpAnswer, error: Option<&str>| LookedUp {
        answer,
        reference: None,
        result: None,
        error: error.map(str::to_owned),
        scope_changed: false,
    };
    let unclear = |why: &str| says(LookUpAnswer::Unclear, Some(why));
    if !is_json(&answer.media_type()) || answer.encoded {
        return unclear("the answer is not JSON");
    }
    if answer.body.end != BodyEnd::Complete || !answer.body.held {
        return unclear("the answer did not come whole");
    }
    let Some(document) = std::str::from_utf8(&answer.body.bytes)
        .ok()
        .and_then(|text| json::parse_str(text.trim(), DEPTH).ok())
    else {
        return unclear("the answer is not JSON");
    };
    match answer.status {
        200 => {}
        // A resource that is addressed by our reference and is not there. Of a search it would say nothing.
        404 | 410 if addressed && request.count.is_none() => return says(LookUpAnswer::Absent, None),
        _ => return unclear("the answer has another status than 200"),
    }
    match counted(request, &document) {
        Counted::None => return says(LookUpAnswer::Absent, None),
        Counted::Several => return says(LookUpAnswer::Several, None),
        Counted::Unclear => return unclear("the answer does not count records where it should"),
        Counted::One | Counted::NotAsked => {}
    }
    let Some(found) = request.found.resolve(&document).and_then(scalar) else {
        let nothing = request.count.is_none() && holds_nothing(&document, &request.found);
        return match nothing {
            true => says(LookUpAnswer::Absent, None),
            false => unclear("the answer does not name the record where it should"),
        };
    };
    if !repeats(request, &document, arguments) {
        return says(LookUpAnswer::Differs, Some("the record has other values than the operation"));
    }
    LookedUp {
        reference: Some(found.to_owned()),
        result: whole_result(answer),
        ..says(LookUpAnswer::Found, None)
    }
}

enum Counted {
    NotAsked,
    None,
    One,
    Several,
    Unclear,
}

fn counted(request: &LookUpRequest, document: &Node<'_>) -> Counted {
    let Some(pointer) = &request.count else { return Counted::NotAsked };
    let number = match pointer.resolve(document).map(Node::content) {
        Some(Content::Array(elements)) => elements.len() as u64,
        Some(Content::Number(text)) => match text.parse() {
            Ok(number) => number,
            Err(_) => return Counted::Unclear,
        },
        Some(Content::String(_) | Content::Bool(_) | Content::Null | Content::Object(_)) | None => {
            return Counted::Unclear;
        }
    };
    match number {
        0 => Counted::None,
        1 => Counted::One,
        _ => Counted::Several,
    }
}

/// Whether the place of the record is there and empty: a list that is too short, or null.
fn holds_nothing(document: &Node<'_>, found: &Pointer) -> bool {
    let mut at = found.clone();
    loop {
        let Some((parent, token)) = at.split_last().map(|(parent, token)| (parent, token.to_owned())) else {
            return false;
        };
        match parent.resolve(document).map(Node::content) {
            Some(Content::Array(elements)) => {
                return token.parse::<usize>().is_ok_and(|index| index >= elements.len());
            }
            Some(Content::Null) => return true,
            Some(Content::Object(_)) => {
                // The member itself may be null; a member that is absent is another shape.
                return at.resolve(document).is_some_and(|node| matches!(node.content(), Content::Null));
            }
            Some(Content::String(_) | Content::Number(_) | Content::Bool(_)) => return false,
            None => at = parent,
        }
    }
}

/// Whether the record repeats what the declaration wants it to repeat. The record is what holds the member that names
/// it; values are compared as in a fingerprint.
fn repeats(request: &LookUpRequest, document: &Node<'_>, arguments: &Node<'_>) -> bool {
    let record = request.found.split_last().and_then(|(record, _)| record.resolve(document));
    request.must_match.iter().all(|pointer| {
        let theirs = record.and_then(|record| pointer.resolve(record)).map(canonical);
        theirs.is_some() && theirs == pointer.resolve(arguments).map(canonical)
    })
}

fn canonical(node: &Node<'_>) -> String {
    let mut text = String::new();
    Canonical::new(&Omitted::default(), &mut |piece: &str| text.push_str(piece)).value(node);
    text
}

#[cfg(test)]
mod tests {
    use super::super::classify::AnswerBody;
    use super::*;

    fn request(count: Option<&str>) -> LookUpRequest {
        let pointer = |text: &str| Pointer::parse(text).unwrap();
        LookUpRequest {
            method: "GET".to_owned(),
            url: "http://supplier.test/orders?ref={reference}".to_owned(),
            found: pointer("/orders/0/id"),
            count: count.map(pointer),
            must_match: vec![pointer("/total")],
        }
    }

    fn said(status: u16, kind: &str, body: &str, end: BodyEnd) -> Answer {
        Answer {
            status,
            content_type: Some(kind.to_owned()),
            encoded: false,
            retry_after: None,
            body: AnswerBody {
                bytes: body.as_bytes().to_vec(),
                held: true,
                size: body.len() as u64,
                digest: "sha256:x".to_owned(),
                end,
            },
        }
    }

    fn reads(request: &LookUpRequest, answer: &Answer, addressed: bool) -> LookedUp {
        let arguments = json::parse_str(r#"{"total": 12.50}"#, 9).unwrap();
        read(request, answer, &arguments, addressed)
    }

    fn whole(body: &str) -> Answer {
        said(200, "application/json; charset=utf-8", body, BodyEnd::Complete)
    }

    #[test]
    fn one_record_that_repeats_our_values_is_ours() {
        let ours = whole(r#"{"orders":[{"id":"po_1","total":1.25e1}]}"#);
        for count in [None, Some("/orders")] {
            let found = reads(&request(count), &ours, false);
            assert_eq!((found.answer, found.reference.as_deref()), (LookUpAnswer::Found, Some("po_1")));
            assert_eq!(found.result.unwrap().status, Some(200));
        }
        for other in [r#"{"orders":[{"id":"po_1","total":13}]}"#, r#"{"orders":[{"id":"po_1"}]}"#] {
            assert_eq!(reads(&request(None), &whole(other), false).answer, LookUpAnswer::Differs);
        }
        let two = whole(r#"{"orders":[{"id":"po_1","total":12.5},{"id":"po_2","total":12.5}]}"#);
        assert_eq!(reads(&request(Some("/orders")), &two, false).answer, LookUpAnswer::Several);
    }

    #[test]
    fn only_an_empty_place_of_the_declared_shape_is_a_miss() {
        let absent = |count, body: &str| reads(&request(count), &whole(body), false).answer;
        assert_eq!(absent(Some("/orders"), r#"{"orders":[]}"#), LookUpAnswer::Absent);
        assert_eq!(absent(None, r#"{"orders":[]}"#), LookUpAnswer::Absent);
        assert_eq!(absent(None, r#"{"orders":null}"#), LookUpAnswer::Absent);
        assert_eq!(absent(None, r#"{"orders":[{"id":null}]}"#), LookUpAnswer::Absent);
        for other in ["{}", "[]", "{\"error\":\"busy\"}", r#"{"orders":{}}"#, r#"{"orders":[{}]}"#, "\"x\""] {
            assert_eq!(absent(None, other), LookUpAnswer::Unclear, "{other}");
        }
        for other in [r#"{"orders":{}}"#, "{}", r#"{"orders":[{"total":12.5}]}"#, r#"{"orders":"0"}"#] {
            assert_eq!(absent(Some("/orders"), other), LookUpAnswer::Unclear, "{other}");
        }
    }

    #[test]
    fn error_pages_and_broken_answers_say_nothing() {
        let empty = r#"{"orders":[]}"#;
        for answer in [
            said(200, "text/html", empty, BodyEnd::Complete),
            said(200, "application/json", empty, BodyEnd::Cut),
            said(200, "application/json", empty, BodyEnd::Capped),
            said(200, "application/json", empty, BodyEnd::Unframed),
            said(200, "application/json", &empty[..9], BodyEnd::Complete),
            said(503, "application/json", empty, BodyEnd::Complete),
            said(404, "application/json", empty, BodyEnd::Complete),
            said(404, "text/html", empty, BodyEnd::Complete),
        ] {
            let read = reads(&request(Some("/orders")), &answer, true);
            assert_eq!(read.answer, LookUpAnswer::Unclear, "{answer:?}");
        }
        let gone = said(404, "application/problem+json", "{}", BodyEnd::Complete);
        assert_eq!(reads(&request(None), &gone, true).answer, LookUpAnswer::Absent, "the resource itself");
        assert_eq!(reads(&request(None), &gone, false).answer, LookUpAnswer::Unclear, "a search");
    }
}
