use super::*;
use crate::http::test_tool::{self, Setup};
use crate::policy::BodyMatch;

fn answer(status: u16, content_type: &str, body: &[u8]) -> Answer {
    Answer {
        status,
        content_type: (!content_type.is_empty()).then(|| content_type.to_owned()),
        encoded: false,
        retry_after: None,
        body: AnswerBody {
            bytes: body.to_vec(),
            held: true,
            size: body.len() as u64,
            digest: "sha256:00".to_owned(),
            end: BodyEnd::Complete,
        },
    }
}

fn json(status: u16, body: &str) -> Answer {
    answer(status, "application/json", body.as_bytes())
}

fn rule(status: Option<u16>, condition: Option<(&str, &str)>, means: Meaning) -> OutcomeRule {
    let body = condition.map(|(pointer, equals)| BodyMatch {
        pointer: Pointer::parse(pointer).unwrap(),
        equals: equals.to_owned(),
    });
    OutcomeRule { status, body, means }
}

fn first(tool: &Tool, answer: &Answer) -> Finding {
    classify(tool, answer, true, true)
}

/// Every status once, for a tool without rules: the default table, written down a second time as ranges.
#[test]
fn every_status_has_its_default_meaning() {
    let tool = test_tool::keyed(Setup::default());
    for status in 100..=599_u16 {
        let expected = match status {
            200 | 201 | 204 => Meaning::Succeeded,
            202 => Meaning::Pending,
            307 | 308 => Meaning::Rejected,
            401 | 407 | 421 | 425 | 511 => Meaning::NotProcessed,
            408 | 409 => Meaning::Unknown,
            429 => Meaning::Throttled,
            501 | 505 => Meaning::Rejected,
            400..=499 => Meaning::Rejected,
            _ => Meaning::Unknown,
        };
        let finding = first(&tool, &answer(status, "", b""));
        assert_eq!(finding.meaning, expected, "{status}");
        assert_eq!(finding.status, Some(status));
        assert_eq!(finding.marker, Marker::BytesWritten);
        assert!(!finding.not_sent && !finding.stopped, "{status}");
        assert_eq!(finding.credential_refused, matches!(status, 401 | 407 | 511), "{status}");
        assert_eq!(finding.error.is_none(), expected == Meaning::Succeeded, "{status}");
        let later = classify(&tool, &answer(status, "", b""), false, true);
        let expected_later = if status == 412 { Meaning::Unknown } else { expected };
        assert_eq!(later.meaning, expected_later, "{status} on a later send");
    }
}

#[test]
fn retry_after_turns_only_a_403_into_a_wait() {
    let tool = test_tool::keyed(Setup::default());
    for (status, expected) in [
        (403, Meaning::Throttled),
        (429, Meaning::Throttled),
        (503, Meaning::Unknown),
        (400, Meaning::Rejected),
        (401, Meaning::NotProcessed),
    ] {
        let waiting = Answer { retry_after: Some(Duration::from_secs(7)), ..answer(status, "", b"") };
        let finding = first(&tool, &waiting);
        assert_eq!(finding.meaning, expected, "{status}");
        assert_eq!(finding.retry_after, Some(Duration::from_secs(7)));
    }
}

#[test]
fn a_422_that_names_our_own_request_proves_nothing() {
    let tool = test_tool::keyed(Setup::default());
    for body in [
        r#"{"type":"https://example/idempotency-key-reused"}"#,
        r#"{"error":"A request with this Idempotency-Key is in progress"}"#,
        r#"{"message":"name already exists on this account"}"#,
        r#"{"errors":[{"code":"already_exists"}]}"#,
        r#"{"code":"alreadyExists"}"#,
        r#"{"message":"has already been taken"}"#,
        r#"{"code":"DUPLICATE_ORDER"}"#,
    ] {
        assert_eq!(first(&tool, &json(422, body)).meaning, Meaning::Unknown, "{body}");
        assert_eq!(first(&tool, &answer(422, "", body.as_bytes())).meaning, Meaning::Unknown, "{body}");
    }
    let plain = r#"{"errors":[{"field":"quantity","message":"must be positive"}]}"#;
    assert_eq!(first(&tool, &json(422, plain)).meaning, Meaning::Rejected);
    let needs_key = r#"{"message":"the Idempotency-Key header is required"}"#;
    assert_eq!(classify(&tool, &json(422, needs_key), true, false).meaning, Meaning::Rejected);
    let mut unreadable = json(422, plain);
    unreadable.encoded = true;
    assert_eq!(first(&tool, &unreadable).meaning, Meaning::Unknown);
    let mut cut = json(422, plain);
    cut.body.end = BodyEnd::Cut;
    assert_eq!(first(&tool, &cut).meaning, Meaning::Unknown);
}

#[test]
fn a_receipt_needs_the_whole_answer() {
    let bare = test_tool::keyed(Setup::default());
    let wanting = test_tool::keyed(Setup { receipt_reference: Some("/id"), ..Setup::default() });
    let table = [
        // (answer, without a declared reference, with one)
        (json(201, r#"{"id":"po_1"}"#), Meaning::Succeeded, Meaning::Succeeded),
        (json(200, r#"{"id":4711}"#), Meaning::Succeeded, Meaning::Succeeded),
        (json(200, r#"{"id":""}"#), Meaning::Succeeded, Meaning::Unknown),
        (json(200, r#"{"id":null}"#), Meaning::Succeeded, Meaning::Unknown),
        (json(200, r#"{"id":{"a":1}}"#), Meaning::Succeeded, Meaning::Unknown),
        (json(200, r#"{"id":"a","id":"b"}"#), Meaning::Succeeded, Meaning::Unknown),
        (json(200, "{}"), Meaning::Succeeded, Meaning::Unknown),
        (json(200, "null"), Meaning::Succeeded, Meaning::Unknown),
        (json(200, ""), Meaning::Succeeded, Meaning::Unknown),
        (json(201, r#"{"id":"po_"#), Meaning::Unknown, Meaning::Unknown),
        (json(200, "<html>"), Meaning::Unknown, Meaning::Unknown),
        (answer(204, "", b""), Meaning::Succeeded, Meaning::Unknown),
        (answer(200, "text/plain", b"ok"), Meaning::Succeeded, Meaning::Unknown),
        (answer(200, "text/html", b"<html>"), Meaning::Succeeded, Meaning::Unknown),
        (json(203, r#"{"id":"po_1"}"#), Meaning::Unknown, Meaning::Unknown),
        (json(207, r#"{"id":"po_1"}"#), Meaning::Unknown, Meaning::Unknown),
        (json(202, r#"{"id":"po_1"}"#), Meaning::Pending, Meaning::Pending),
        (json(200, r#"{"id":"a","errors":[{"message":"no"}]}"#), Meaning::Unknown, Meaning::Unknown),
        (json(200, r#"{"id":"a","errors":[]}"#), Meaning::Succeeded, Meaning::Succeeded),
        (json(200, r#"{"id":"a","ok":false}"#), Meaning::Unknown, Meaning::Unknown),
        (json(200, r#"{"id":"a","ok":true,"error":null}"#), Meaning::Succeeded, Meaning::Succeeded),
        (json(200, r#"{"id":"a","error":"busy"}"#), Meaning::Unknown, Meaning::Unknown),
        (json(200, r#"{"id":"a","success":false}"#), Meaning::Unknown, Meaning::Unknown),
    ];
    for (answer, without, with) in table {
        let body = String::from_utf8_lossy(&answer.body.bytes).into_owned();
        assert_eq!(first(&bare, &answer).meaning, without, "{} {body}", answer.status);
        assert_eq!(first(&wanting, &answer).meaning, with, "{} {body} with reference", answer.status);
    }
    assert_eq!(first(&wanting, &json(201, r#"{"id":"po_1"}"#)).reference.as_deref(), Some("po_1"));
    assert_eq!(first(&wanting, &json(200, r#"{"id":4711}"#)).reference.as_deref(), Some("4711"));
}

#[test]
fn half_a_body_is_never_a_receipt() {
    let tool = test_tool::keyed(Setup::default());
    for content_type in ["application/json", "text/plain", ""] {
        let mut cut = answer(201, content_type, br#"{"id":"po_1"}"#);
        cut.body.end = BodyEnd::Cut;
        let finding = first(&tool, &cut);
        assert_eq!(finding.meaning, Meaning::Unknown, "{content_type}");
        assert_eq!((finding.status, &finding.result), (Some(201), &None), "the status is the evidence");
    }
    // A declared JSON body that ends with the connection before it began.
    let mut empty = json(200, "");
    empty.body.end = BodyEnd::Unframed;
    assert_eq!(first(&tool, &empty).meaning, Meaning::Unknown);
}

#[test]
fn large_bodies_are_receipts_by_digest_and_size() {
    let tool = test_tool::keyed(Setup { receipt_reference: Some("/id"), ..Setup::default() });
    let body = format!(r#"{{"pad":"{}","id":"po_1"}}"#, "x".repeat(MAX_KEPT));
    let finding = first(&tool, &json(200, &body));
    assert_eq!((finding.meaning, finding.reference.as_deref()), (Meaning::Succeeded, Some("po_1")));
    let result = finding.result.unwrap();
    assert!(result.truncated && result.body.is_none());
    assert_eq!(result.size, body.len() as u64);

    let bare = test_tool::keyed(Setup::default());
    let mut capped = answer(200, "application/octet-stream", b"");
    capped.body = AnswerBody { held: false, size: 64 << 20, end: BodyEnd::Capped, ..capped.body };
    assert_eq!(first(&bare, &capped).meaning, Meaning::Succeeded);
    assert!(first(&bare, &capped).result.unwrap().truncated);
    capped.content_type = Some("application/json".to_owned());
    assert_eq!(first(&bare, &capped).meaning, Meaning::Unknown);
}

#[test]
fn rules_come_first_and_the_first_match_wins() {
    let outcomes = vec![
        rule(Some(409), Some(("/error/code", "already_exists")), Meaning::DuplicateOfOurs),
        rule(Some(409), Some(("/error/code", "7")), Meaning::Rejected),
        rule(Some(409), Some(("/final", "true")), Meaning::Succeeded),
        rule(Some(503), None, Meaning::Throttled),
        rule(Some(200), Some(("/ok", "false")), Meaning::Rejected),
        rule(Some(400), Some(("/code", "dup")), Meaning::DuplicateOfOurs),
        rule(None, Some(("/code", "later")), Meaning::Pending),
        rule(Some(409), None, Meaning::NotProcessed),
    ];
    let tool = test_tool::keyed(Setup { outcomes, ..Setup::default() });
    let table = [
        (json(409, r#"{"error":{"code":"already_exists"}}"#), Meaning::DuplicateOfOurs),
        (json(409, r#"{"error":{"code":7}}"#), Meaning::Rejected),
        (json(409, r#"{"final":true}"#), Meaning::Succeeded),
        (json(409, r#"{"error":{"code":"other"}}"#), Meaning::NotProcessed),
        (answer(409, "text/html", b"<p>conflict</p>"), Meaning::NotProcessed),
        (answer(503, "", b""), Meaning::Throttled),
        (json(200, r#"{"ok":false}"#), Meaning::Rejected),
        (json(200, r#"{"ok":true}"#), Meaning::Succeeded),
        (json(500, r#"{"code":"later"}"#), Meaning::Pending),
        (json(400, r#"{"code":"dup"}"#), Meaning::DuplicateOfOurs),
        (json(400, r#"{"code":"no"}"#), Meaning::Rejected),
    ];
    for (answer, expected) in table {
        let body = String::from_utf8_lossy(&answer.body.bytes).into_owned();
        assert_eq!(first(&tool, &answer).meaning, expected, "{} {body}", answer.status);
    }
    // The rule could have matched the part that never came.
    let mut cut = json(400, r#"{"co"#);
    cut.body.end = BodyEnd::Cut;
    assert_eq!(first(&tool, &cut).meaning, Meaning::Unknown);
}

#[test]
fn bodies_are_kept_as_what_they_are() {
    let tool = test_tool::keyed(Setup::default());
    let body_of = |answer: &Answer| first(&tool, answer).result.unwrap().body.unwrap();
    let spelled = "{ \"b\":1.50,\n\"a\":\"\\u00e9\" }";
    assert_eq!(body_of(&json(200, spelled)), Body::Json(spelled.to_owned()));
    let problem = answer(400, "application/problem+json; charset=utf-8", b"{\"a\":1}");
    assert_eq!(body_of(&problem), Body::Json("{\"a\":1}".to_owned()));
    assert_eq!(body_of(&answer(200, "text/plain", b"ok")), Body::Text("ok".to_owned()));
    assert_eq!(body_of(&answer(400, "application/json", b"oops")), Body::Text("oops".to_owned()));
    let twice = r#"{"a":1,"a":2}"#;
    assert_eq!(body_of(&json(200, twice)), Body::Text(twice.to_owned()));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(body_of(&json(200, &deep)), Body::Text(deep));
    assert_eq!(body_of(&answer(200, "", b"")), Body::Text(String::new()));
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(body_of(&answer(200, "text/plain", &all)), Body::Base64(crate::base64::encode(&all)));
    assert_eq!(body_of(&answer(200, "image/png", b"ab")), Body::Base64("YWI=".to_owned()));
    let mut gzip = answer(400, "application/json", b"{}");
    gzip.encoded = true;
    assert_eq!(body_of(&gzip), Body::Base64("e30=".to_owned()));
}

#[test]
fn reads_retry_after() {
    let now = Timestamp::parse("1994-11-06T08:49:00Z").unwrap();
    let seconds = |n| Some(Duration::from_secs(n));
    let table = [
        ("0", seconds(0)),
        (" 120 ", seconds(120)),
        ("86401", Some(MAX_RETRY_AFTER)),
        ("99999999999999999999999999", Some(MAX_RETRY_AFTER)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", seconds(37)),
        ("Sun, 06 Nov 1994 08:00:00 GMT", seconds(0)),
        ("Fri, 01 Jan 2100 00:00:00 GMT", Some(MAX_RETRY_AFTER)),
        ("1994-11-06T08:49:37Z", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
    ];
    for (text, expected) in table {
        assert_eq!(retry_after(text, now), expected, "{text:?}");
    }
}

/// A refusal that a rule knows to be none is not taken for one because its body came broken.
#[test]
fn a_rule_is_not_passed_by_where_its_member_could_not_be_read() {
    let mut tool = test_tool::keyed(Setup::default());
    tool.outcomes = vec![rule(Some(400), Some(("/code", "already_exists")), Meaning::DuplicateOfOurs)];
    let broken: [&[u8]; 4] = [
        b"{\"code\":\"already_ex",
        b"{\"code\":\"already_exists\",\"message\":\"Ger\xe4t\"}",
        b"\xef\xbb\xbf{\"code\":\"already_exists\"}",
        b"{\"message\":\"x\"",
    ];
    for body in broken {
        for content_type in ["application/json", ""] {
            for end in [BodyEnd::Complete, BodyEnd::Unframed] {
                let mut came = answer(400, content_type, body);
                came.body.end = end;
                let said = first(&tool, &came).meaning;
                let text = String::from_utf8_lossy(body);
                assert!(!matches!(said, Meaning::Rejected), "{text} {content_type} {end:?}");
            }
        }
    }
    // Without a length its end may be missing, whatever it is.
    let mut page = answer(400, "text/html", b"<html><p>no");
    page.body.end = BodyEnd::Unframed;
    assert_eq!(first(&tool, &page).meaning, Meaning::Unknown);
    // A whole page of something in between holds no member.
    page.body.end = BodyEnd::Complete;
    assert_eq!(first(&tool, &page).meaning, Meaning::Rejected);
    assert_eq!(first(&tool, &json(400, r#"{"code":"no"}"#)).meaning, Meaning::Rejected);
    // The same for a refusal whose words are read: what was cut off may have said that it exists.
    let mut cut = answer(422, "application/json", b"{\"message\":\"al");
    cut.body.end = BodyEnd::Unframed;
    assert_eq!(first(&tool, &cut).meaning, Meaning::Unknown);
    let mut whole = json(422, r#"{"message":"no"}"#);
    whole.body.end = BodyEnd::Unframed;
    assert_eq!(first(&tool, &whole).meaning, Meaning::Rejected);
}
