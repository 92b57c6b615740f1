use super::*;
use crate::destination::LookedUp;
use crate::operation::LookUpAnswer;
use crate::pointer::Pointer;
use crate::recovery::{LookUpBy, LookUpFacts, LookUpRequest, Place, Recovery};

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).unwrap()
}

/// A tool that is searched at `url`.
fn searched(setup: Setup, url: String) -> Tool {
    let request = LookUpRequest {
        method: "GET".to_owned(),
        url,
        found: pointer("/orders/0/id"),
        count: Some(pointer("/orders")),
        must_match: Vec::new(),
    };
    asked_with(setup, request)
}

fn asked_with(setup: Setup, request: LookUpRequest) -> Tool {
    let facts = LookUpFacts {
        reference: Place::Body(pointer("/client_reference")),
        key_format: crate::keys::KeyFormat::Hex32,
        key_max_len: None,
        lookup: LookUpBy::Http(Box::new(request)),
        authoritative: true,
        request_lifetime: Some(Duration::from_secs(60)),
        queue_time: Duration::ZERO,
        skew: Duration::ZERO,
        lookup_for: Duration::from_secs(3600),
    };
    Tool { recovery: Recovery::LookUp(facts), ..unkeyed(setup) }
}

fn json(body: &str) -> Vec<u8> {
    reply("200 OK\r\nContent-Type: application/json", body.as_bytes())
}

async fn ask(destination: &HttpDestination, tool: &Tool, key: &str, scope: Option<&str>) -> LookedUp {
    let arguments = Arguments::parse(br#"{"sku":"flour & more"}"#).unwrap();
    destination.look_up(Arc::new(tool.clone()), &account(), &arguments, Some(key), scope).await
}

async fn answer_of(act: Act) -> LookUpAnswer {
    let server = Server::start(act).await;
    let setup = Setup { timeout: Duration::from_millis(500), ..to(&server) };
    let looked = ask(&destination(), &searched(setup, server.url("/orders?r={reference}")), KEY, None).await;
    assert_eq!(server.requests(), 1, "one question, whatever comes back");
    looked.answer
}

#[tokio::test]
async fn asks_once_with_the_reference_and_the_tools_headers() {
    let server = Server::start(Act::KeepAlive(json(r#"{"orders":[{"id":"po_1"}]}"#))).await;
    let setup = Setup { headers: vec![("Authorization", "Bearer ${TOKEN}")], ..to(&server) };
    let url = server.url("/{/sku}/orders?ref={reference}&same={operation_id}");
    let tool = searched(setup, url);
    let destination = destination();
    let looked = ask(&destination, &tool, "\"quoted\"", None).await;
    assert_eq!((looked.answer, looked.reference.as_deref()), (LookUpAnswer::Found, Some("po_1")));
    assert_eq!(looked.error, None);
    let seen = server.text();
    let line = "GET /flour%20%26%20more/orders?ref=%22quoted%22&same=%22quoted%22 HTTP/1.1\r\n";
    assert!(seen.starts_with(line), "{seen}");
    assert!(seen.contains("authorization: Bearer canary-4711\r\n"), "{seen}");
    assert!(seen.contains("connection: close\r\n"), "{seen}");
    assert!(!seen.contains("content-type"), "it has no body: {seen}");
    ask(&destination, &tool, KEY, None).await;
    assert_eq!((server.connections(), server.requests()), (2, 2), "each on its own connection");
    assert!(!format!("{looked:?}").contains("canary"));
}

#[tokio::test]
async fn a_post_has_no_body() {
    let server = Server::start(Act::Reply(json(r#"{"orders":[]}"#))).await;
    let request = LookUpRequest {
        method: "POST".to_owned(),
        url: server.url("/search?r={reference}"),
        found: pointer("/orders/0/id"),
        count: None,
        must_match: Vec::new(),
    };
    let looked = ask(&destination(), &asked_with(to(&server), request), KEY, None).await;
    assert_eq!(looked.answer, LookUpAnswer::Absent);
    let seen = server.text();
    assert!(seen.starts_with(&format!("POST /search?r={KEY} HTTP/1.1\r\n")), "{seen}");
    assert!(seen.contains("content-length: 0\r\n") && seen.ends_with("\r\n\r\n"), "{seen}");
}

#[tokio::test]
async fn no_answer_and_a_useless_answer_are_two_things() {
    let cut =
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"orders\":[]}";
    let hidden = "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip";
    let table = [
        (Act::Close, LookUpAnswer::Failed),
        (Act::Reset, LookUpAnswer::Failed),
        (Act::Reply(b"HTTP/1.1 2".to_vec()), LookUpAnswer::Failed),
        (Act::Reply(cut.to_vec()), LookUpAnswer::Unclear),
        (Act::Reply(reply("200 OK\r\nContent-Type: text/html", b"<h1>Sorry</h1>")), LookUpAnswer::Unclear),
        (
            Act::Reply(reply("500 Oops\r\nContent-Type: application/json", b"{\"orders\":[]}")),
            LookUpAnswer::Unclear,
        ),
        (Act::Reply(reply(hidden, b"{\"orders\":[]}")), LookUpAnswer::Unclear),
        (Act::Reply(json(r#"{"orders":[]}"#)), LookUpAnswer::Absent),
        (Act::Reply(json(r#"{"orders":[{"id":1},{"id":2}]}"#)), LookUpAnswer::Several),
    ];
    for (number, (act, expected)) in table.into_iter().enumerate() {
        assert_eq!(answer_of(act).await, expected, "row {number}");
    }
}

#[tokio::test]
async fn the_tools_timeout_bounds_the_whole_look_up() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n".to_vec();
    let began = tokio::time::Instant::now();
    assert_eq!(answer_of(Act::Drip(head)).await, LookUpAnswer::Unclear);
    let silent = Act::After(Vec::new(), Vec::new(), Arc::default());
    assert_eq!(answer_of(silent).await, LookUpAnswer::Failed);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_body_over_the_cap_says_nothing() {
    let body = format!("{{\"orders\":[]{}}}", " ".repeat(200));
    let server = Server::start(Act::Reply(json(&body))).await;
    let tool = searched(to(&server), server.url("/orders?r={reference}"));
    let limits = Limits { body: 100, ..Limits::default() };
    assert_eq!(ask(&limited(limits), &tool, KEY, None).await.answer, LookUpAnswer::Unclear);
    let limits = Limits { body: 1000, ..Limits::default() };
    assert_eq!(ask(&limited(limits), &tool, KEY, None).await.answer, LookUpAnswer::Absent);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::start(Act::Reply(json(r#"{"orders":[]}"#))).await;
    let head = format!("302 Found\r\nContent-Type: application/json\r\nLocation: {}", other.url("/"));
    assert_eq!(answer_of(Act::Reply(reply(&head, b"{\"orders\":[]}"))).await, LookUpAnswer::Unclear);
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn under_another_scope_nothing_is_asked() {
    let server = Server::start(Act::Reply(json(r#"{"orders":[]}"#))).await;
    let url = || server.url("/orders?r={reference}");
    let headers = || vec![("Authorization", "Bearer ${TOKEN}")];
    let declared = searched(Setup { headers: headers(), scope: Some("seventeen"), ..to(&server) }, url());
    let digested = searched(Setup { headers: headers(), ..to(&server) }, url());
    let destination = destination();
    for (tool, scope) in [(&declared, "eighteen"), (&digested, "seventeen"), (&digested, "hmac:00")] {
        let looked = ask(&destination, tool, KEY, Some(scope)).await;
        assert!(looked.scope_changed, "{scope}");
        assert_eq!((looked.answer, server.connections()), (LookUpAnswer::Failed, 0), "{scope}");
    }
    let sent_under = super::super::scope(&digested, &account(), &[7; 32], &OneSecret).unwrap();
    for (tool, scope) in [
        (&declared, Some("seventeen")),
        (&digested, Some(&*sent_under)),
        (&declared, None),
        (&digested, None),
    ] {
        let looked = ask(&destination, tool, KEY, scope).await;
        assert_eq!((looked.answer, looked.scope_changed), (LookUpAnswer::Absent, false), "{scope:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_not_asked() {
    let server = Server::start(Act::Reply(json(r#"{"orders":[]}"#))).await;
    let asked = |tool: Tool, key: Option<&'static str>| async move {
        let arguments = Arguments::parse(br#"{"sku":".."}"#).unwrap();
        destination().look_up(Arc::new(tool), &account(), &arguments, key, None).await
    };
    let missing = Setup { headers: vec![("Authorization", "Bearer ${ABSENT}")], ..to(&server) };
    let tools = [
        (searched(to(&server), server.url("/orders?r={reference}")), None),
        (searched(to(&server), server.url("/{/sku}/orders?r={reference}")), Some(KEY)),
        (searched(to(&server), server.url("/{/other}/orders?r={reference}")), Some(KEY)),
        (searched(missing, server.url("/orders?r={reference}")), Some(KEY)),
        (keyed(to(&server)), Some(KEY)),
    ];
    for (number, (tool, key)) in tools.into_iter().enumerate() {
        let looked = asked(tool, key).await;
        assert_eq!((looked.answer, looked.scope_changed), (LookUpAnswer::Failed, false), "row {number}");
        assert!(looked.error.is_some());
    }
    let (destination, _) = resolving(vec![server.address]);
    let inside = format!("http://supplier.example:{}/orders?r={{reference}}", server.address.port());
    let tool = searched(to(&server), inside);
    let looked = ask(&destination, &tool, KEY, None).await;
    assert_eq!(looked.answer, LookUpAnswer::Failed, "a name that leads inside");
    assert_eq!(server.connections(), 0);
}
