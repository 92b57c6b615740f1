use super::*;
use crate::http::classify::AnswerBody;
use crate::operation::Body;

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).unwrap()
}

fn asked(found: &str, count: Option<&str>, must_match: &[&str]) -> Asked {
    Asked {
        found: pointer(found),
        count: count.map(pointer),
        must_match: must_match.iter().map(|text| pointer(text)).collect(),
        by_address: false,
    }
}

fn answer(status: u16, body: &str) -> Answer {
    Answer {
        status,
        content_type: Some("application/json; charset=utf-8".to_owned()),
        encoded: false,
        retry_after: None,
        body: AnswerBody {
            bytes: body.as_bytes().to_vec(),
            held: true,
            size: body.len() as u64,
            digest: "sha256:0".to_owned(),
            end: BodyEnd::Complete,
        },
    }
}

fn judged(asked: &Asked, answer: &Answer) -> LookedUp {
    let arguments = r#"{"total":1200,"sku":"flour","lines":[{"n":1.0}],"nothing":null}"#;
    judge(asked, answer, &Arguments::parse(arguments.as_bytes()).unwrap())
}

fn says(asked: &Asked, body: &str) -> LookUpAnswer {
    judged(asked, &answer(200, body)).answer
}

#[test]
fn a_record_is_found_where_the_answer_names_it() {
    let asked = asked("/orders/0/id", None, &[]);
    let looked = judged(&asked, &answer(200, r#"{"orders":[{"id":"po_1"}]}"#));
    assert_eq!((looked.answer, looked.reference.as_deref()), (LookUpAnswer::Found, Some("po_1")));
    assert_eq!((looked.error, looked.scope_changed), (None, false));
    let result = looked.result.unwrap();
    assert_eq!((result.status, result.truncated), (Some(200), false));
    assert_eq!(result.body, Some(Body::Json(r#"{"orders":[{"id":"po_1"}]}"#.to_owned())));
    let number = judged(&asked, &answer(200, r#"{"orders":[{"id":12345678901234567890}]}"#));
    assert_eq!(number.reference.as_deref(), Some("12345678901234567890"), "every digit");
}

#[test]
fn only_a_shape_that_says_so_is_a_miss() {
    let asked = asked("/orders/0/id", None, &[]);
    for body in [r#"{"orders":[]}"#, r#"{"orders":null}"#, "null"] {
        assert_eq!(says(&asked, body), LookUpAnswer::Absent, "{body}");
    }
    for body in [
        "{}",
        r#"{"error":"no such index"}"#,
        r#"{"orders":{}}"#,
        r#"{"orders":"none"}"#,
        r#"{"orders":false}"#,
        r#"{"orders":[null]}"#,
        r#"{"orders":[{}]}"#,
        r#"{"orders":[{"id":null}]}"#,
        r#"{"orders":[{"id":""}]}"#,
        r#"{"orders":[{"id":true}]}"#,
        r#"{"orders":[{"id":{}}]}"#,
        r#"{"orders":[],"orders":[{"id":"po_1"}]}"#,
        "[]",
    ] {
        assert_eq!(says(&asked, body), LookUpAnswer::Unclear, "{body}");
    }
    let second = super::tests::asked("/orders/1/id", None, &[]);
    assert_eq!(says(&second, r#"{"orders":[{"id":1}]}"#), LookUpAnswer::Absent);
    for name in ["/orders/-/id", "/orders/01/id", "/orders/x/id"] {
        assert_eq!(
            says(&super::tests::asked(name, None, &[]), r#"{"orders":[]}"#),
            LookUpAnswer::Unclear,
            "{name}"
        );
    }
}

#[test]
fn records_are_counted() {
    let list = asked("/orders/0/id", Some("/orders"), &[]);
    let number = asked("/orders/0/id", Some("/total"), &[]);
    let table = [
        (&list, r#"{"orders":[]}"#, LookUpAnswer::Absent),
        (&list, r#"{"orders":[{"id":1}]}"#, LookUpAnswer::Found),
        (&list, r#"{"orders":[{"id":1},{"id":2}]}"#, LookUpAnswer::Several),
        (&list, r#"{"orders":[{}]}"#, LookUpAnswer::Unclear),
        (&list, r#"{"orders":null}"#, LookUpAnswer::Unclear),
        (&list, r#"{"orders":{}}"#, LookUpAnswer::Unclear),
        (&list, "{}", LookUpAnswer::Unclear),
        (&number, r#"{"total":0,"orders":[]}"#, LookUpAnswer::Absent),
        (&number, r#"{"total":0.0}"#, LookUpAnswer::Absent),
        (&number, r#"{"total":1,"orders":[{"id":1}]}"#, LookUpAnswer::Found),
        (&number, r#"{"total":1.0e0,"orders":[{"id":1}]}"#, LookUpAnswer::Found),
        (&number, r#"{"total":2,"orders":[{"id":1}]}"#, LookUpAnswer::Several),
        (&number, r#"{"total":10}"#, LookUpAnswer::Several),
        (&number, r#"{"total":1,"orders":[]}"#, LookUpAnswer::Unclear),
        (&number, r#"{"total":0,"orders":[{"id":1}]}"#, LookUpAnswer::Unclear),
        (&number, r#"{"total":-1}"#, LookUpAnswer::Unclear),
        (&number, r#"{"total":0.5}"#, LookUpAnswer::Unclear),
        (&number, r#"{"total":"0"}"#, LookUpAnswer::Unclear),
        (&number, r#"{"total":null}"#, LookUpAnswer::Unclear),
        (&number, r#"{"total":false}"#, LookUpAnswer::Unclear),
    ];
    for (asked, body, expected) in table {
        assert_eq!(says(asked, body), expected, "{body}");
    }
}

#[test]
fn the_record_must_repeat_what_was_declared() {
    let asked = asked("/orders/0/id", Some("/orders"), &["/total", "/lines/0/n"]);
    let with = |record: &str| says(&asked, &format!(r#"{{"total":1200,"orders":[{record}]}}"#));
    for same in ["1200", "1200.00", "1.2e3"] {
        let record = format!(r#"{{"id":1,"total":{same},"lines":[{{"n":1}}]}}"#);
        assert_eq!(with(&record), LookUpAnswer::Found, "{same}");
    }
    for other in ["1201", "\"1200\"", "null", "[1200]"] {
        let record = format!(r#"{{"id":1,"total":{other},"lines":[{{"n":1}}]}}"#);
        assert_eq!(with(&record), LookUpAnswer::Differs, "{other}");
    }
    assert_eq!(
        with(r#"{"id":1,"lines":[{"n":1}]}"#),
        LookUpAnswer::Differs,
        "the answer's own total is another"
    );
    assert_eq!(with(r#"{"id":1,"total":1200,"lines":[]}"#), LookUpAnswer::Differs);
    let differs = judged(&asked, &answer(200, r#"{"orders":[{"id":"po_9"}]}"#));
    assert_eq!(differs.reference.as_deref(), Some("po_9"));
    let missing = super::tests::asked("/id", None, &["/other"]);
    assert_eq!(says(&missing, r#"{"id":1}"#), LookUpAnswer::Differs, "nothing proves that it is ours");
    let null = super::tests::asked("/id", None, &["/nothing"]);
    assert_eq!(says(&null, r#"{"id":1,"nothing":null}"#), LookUpAnswer::Found);
    assert_eq!(says(&null, r#"{"id":1}"#), LookUpAnswer::Differs);
}

#[test]
fn what_is_no_whole_json_with_200_says_nothing() {
    let asked = asked("/orders/0/id", None, &[]);
    let empty = r#"{"orders":[]}"#;
    for status in [201, 202, 204, 206, 301, 400, 401, 403, 404, 410, 429, 500, 503] {
        assert_eq!(judged(&asked, &answer(status, empty)).answer, LookUpAnswer::Unclear, "{status}");
    }
    let is_unclear = |change: &dyn Fn(&mut Answer)| {
        let mut answer = answer(200, empty);
        change(&mut answer);
        judged(&asked, &answer).answer == LookUpAnswer::Unclear
    };
    assert!(!is_unclear(&|_| {}));
    assert!(!is_unclear(&|answer| answer.content_type = Some("application/hal+json".to_owned())));
    assert!(is_unclear(&|answer| answer.content_type = Some("text/html".to_owned())), "an error page");
    assert!(is_unclear(&|answer| answer.content_type = None));
    assert!(is_unclear(&|answer| answer.encoded = true));
    assert!(is_unclear(&|answer| answer.body.end = BodyEnd::Cut));
    assert!(is_unclear(&|answer| answer.body.end = BodyEnd::Capped));
    assert!(is_unclear(&|answer| answer.body.held = false));
    assert!(!is_unclear(&|answer| answer.body.end = BodyEnd::Unframed), "an object shows its own end");
    assert!(is_unclear(&|answer| answer.body.bytes.truncate(8)));
    assert!(is_unclear(&|answer| answer.body.bytes = b"<html>".to_vec()));
    let root = super::tests::asked("", None, &[]);
    let mut number = answer(200, "12");
    assert_eq!(judged(&root, &number).answer, LookUpAnswer::Found);
    number.body.end = BodyEnd::Unframed;
    assert_eq!(judged(&root, &number).answer, LookUpAnswer::Unclear, "more digits may have been lost");
}

#[test]
fn not_found_is_a_miss_only_at_the_address_of_the_record() {
    let address = Asked { by_address: true, ..asked("/id", None, &[]) };
    let problem = r#"{"title":"Not Found"}"#;
    for status in [404, 410] {
        assert_eq!(judged(&address, &answer(status, problem)).answer, LookUpAnswer::Absent, "{status}");
        let searched = asked("/id", None, &[]);
        assert_eq!(judged(&searched, &answer(status, problem)).answer, LookUpAnswer::Unclear);
        let counted = Asked { count: Some(pointer("/n")), ..address.clone() };
        assert_eq!(judged(&counted, &answer(status, problem)).answer, LookUpAnswer::Unclear);
        let mut page = answer(status, "<h1>Not Found</h1>");
        page.content_type = Some("text/html".to_owned());
        assert_eq!(judged(&address, &page).answer, LookUpAnswer::Unclear, "a proxy's page");
        let mut typed = answer(status, problem);
        typed.content_type = Some("application/problem+json".to_owned());
        assert_eq!(judged(&address, &typed).answer, LookUpAnswer::Absent);
        assert_eq!(judged(&address, &answer(status, "")).answer, LookUpAnswer::Unclear);
    }
}
