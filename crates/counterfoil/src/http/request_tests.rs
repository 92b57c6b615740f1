use super::*;
use crate::http::check_declaration;
use crate::http::test_tool::{Setup, account, keyed, unkeyed};

const KEY: &str = "34709695c54c93bf67da7aa0502747ef";

fn arguments(text: &str) -> Arguments {
    Arguments::parse(text.as_bytes()).unwrap()
}

fn made(setup: Setup, text: &str) -> Result<Request, InvalidArguments> {
    build(&keyed(setup), &account(), &arguments(text), Some(KEY), None)
}

fn body_of(request: &Request) -> &str {
    std::str::from_utf8(request.body.as_deref().unwrap()).unwrap()
}

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).unwrap()
}

fn at(url: &str) -> Setup {
    Setup { url: format!("https://supplier.example{url}"), ..Setup::default() }
}

#[test]
fn a_json_body_is_the_stored_bytes() {
    let text = " { \"b\": 1.50,\n \"a\":\"\\u00e9 é\" } ";
    let request = made(Setup::default(), text).unwrap();
    assert_eq!(body_of(&request), text);
    assert_eq!(request.url, "https://supplier.example/orders");
    let header =
        |name: &str| request.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!(header("idempotency-key"), Some(KEY));
    assert_eq!(header("content-type"), Some("application/json"));
    assert!(header("user-agent").unwrap().starts_with("counterfoil/"));
}

#[test]
fn a_key_in_the_body_is_the_last_member_of_its_object() {
    let key = |at: &str| Setup { key: Place::Body(pointer(at)), ..Setup::default() };
    let spliced = |at: &str, text: &str| made(key(at), text).map(|request| body_of(&request).to_owned());
    assert_eq!(spliced("/ref", r#"{"a": 1 }"#), Ok(format!(r#"{{"a": 1,"ref":"{KEY}" }}"#)));
    assert_eq!(spliced("/ref", "{}"), Ok(format!(r#"{{"ref":"{KEY}"}}"#)));
    assert_eq!(spliced("/meta/ref", r#"{"meta":{}}"#), Ok(format!(r#"{{"meta":{{"ref":"{KEY}"}}}}"#)));
    let present = Err(InvalidArguments::KeyPresent(pointer("/ref")));
    assert_eq!(spliced("/ref", r#"{"ref":null}"#), present);
    assert_eq!(spliced("/ref", r#"{"r\u0065f":"x"}"#), present, "an escaped name is the same name");
    let no_place = Err(InvalidArguments::NoPlaceForKey(pointer("/meta/ref")));
    assert_eq!(spliced("/meta/ref", "{}"), no_place);
    assert_eq!(spliced("/meta/ref", r#"{"meta":[]}"#), no_place);
}

#[test]
fn members_of_the_path_stay_out_of_the_body() {
    let setup = Setup { path_only: vec!["/id"], ..at("/orders/{/id}/cancel") };
    let request = made(setup, r#"{"id":"o 1/2","why":"x"}"#).unwrap();
    assert_eq!(request.url, "https://supplier.example/orders/o%201%2F2/cancel");
    assert_eq!(body_of(&request), r#"{"why":"x"}"#);
}

#[test]
fn a_form_is_flat() {
    let form = |key| Setup { body: BodyKind::Form, key, path_only: vec!["/id"], ..Setup::default() };
    let key = Place::Body(pointer("/client_reference"));
    let request =
        made(form(key.clone()), r#"{"id":1,"to":"+49&x=1","n":1.50,"ok":true,"ü=":"a b"}"#).unwrap();
    let expected = format!("to=%2B49%26x%3D1&n=1.50&ok=true&%C3%BC%3D=a%20b&client_reference={KEY}");
    assert_eq!(body_of(&request), expected);
    for text in [r#"{"a":[1]}"#, r#"{"a":{}}"#, r#"{"a":null}"#] {
        assert_eq!(made(form(key.clone()), text), Err(InvalidArguments::NotFlat), "{text}");
    }
    let present = made(form(key), r#"{"client_reference":"mine"}"#);
    assert_eq!(present, Err(InvalidArguments::KeyPresent(pointer("/client_reference"))));
}

#[test]
fn hostile_arguments_arrive_as_data() {
    let table = [
        ("../admin", "..%2Fadmin"),
        ("?x=1", "%3Fx%3D1"),
        ("#top", "%23top"),
        ("a\r\nX-Evil: 1", "a%0D%0AX-Evil%3A%201"),
        ("{{x}}${TOKEN}", "%7B%7Bx%7D%7D%24%7BTOKEN%7D"),
        ("%2e%2e", "%252e%252e"),
        ("\"'<>\\", "%22%27%3C%3E%5C"),
        ("a&b=c;d", "a%26b%3Dc%3Bd"),
        ("é", "%C3%A9"),
        ("...", "..."),
        ("\u{0}", "%00"),
    ];
    for (value, encoded) in table {
        let text = serde_json::json!({"id": value}).to_string();
        let path = made(at("/o/{/id}/x"), &text).unwrap();
        assert_eq!(path.url, format!("https://supplier.example/o/{encoded}/x"));
        let query = made(at("/o?q={/id}&z=1"), &text).unwrap();
        assert_eq!(query.url, format!("https://supplier.example/o?q={encoded}&z=1"));
        query.url.parse::<http::Uri>().unwrap();
    }
    for url in ["/o/{/id}", "/o?q={/id}"] {
        for value in ["", ".", ".."] {
            let text = serde_json::json!({"id": value}).to_string();
            assert_eq!(made(at(url), &text), Err(InvalidArguments::NotAUrlPart(pointer("/id"))), "{value:?}");
        }
        for text in [r#"{"id":null}"#, r#"{"id":[1]}"#, r#"{"id":{}}"#] {
            assert_eq!(made(at(url), text), Err(InvalidArguments::NotScalar(pointer("/id"))), "{text}");
        }
        assert_eq!(made(at(url), "{}"), Err(InvalidArguments::Missing(pointer("/id"))));
    }
    assert_eq!(made(at("/o/.{/id}/x"), r#"{"id":".x"}"#).unwrap().url, "https://supplier.example/o/..x/x");
    assert_eq!(made(at("/o/%2e{/a}"), r#"{"a":"..."}"#).unwrap().url, "https://supplier.example/o/%2e...");
    assert_eq!(
        made(at("/o/{/n}/{/t}"), r#"{"n":1e5,"t":true}"#).unwrap().url,
        "https://supplier.example/o/1e5/true"
    );
    let long = serde_json::json!({"id": "x".repeat(9_000)}).to_string();
    assert_eq!(made(at("/o/{/id}"), &long), Err(InvalidArguments::UrlTooLong));
}

#[test]
fn a_key_goes_where_it_is_declared() {
    let place = |url: &str, key: Place| Setup { key, ..at(url) };
    let url = |setup| made(setup, "{}").map(|request| request.url);
    let host = "https://supplier.example";
    assert_eq!(url(place("/o", Place::Query("k&y".to_owned()))), Ok(format!("{host}/o?k%26y={KEY}")));
    assert_eq!(url(place("/o?a=1", Place::Query("key".to_owned()))), Ok(format!("{host}/o?a=1&key={KEY}")));
    assert_eq!(url(place("/o/{ref}", Place::Path("ref".to_owned()))), Ok(format!("{host}/o/{KEY}")));
    assert_eq!(
        url(place("/o/{reference}", Place::Header("X-Ref".to_owned()))),
        Ok(format!("{host}/o/{KEY}"))
    );
    let missing = DeclarationProblem::KeyPlaceMissing("ref".to_owned());
    let unplaced = place("/o", Place::Path("ref".to_owned()));
    assert_eq!(url(unplaced), Err(InvalidArguments::Declaration(missing)));
    let tool = keyed(Setup::default());
    assert_eq!(build(&tool, &account(), &arguments("{}"), None, None), Err(InvalidArguments::NoKey));
}

#[test]
fn a_key_cannot_inject_a_header_or_name_a_secret() {
    for key in ["a\r\nX-Evil: 1", "a\0b", "a b", "é", "", "${TOKEN}", "a\n b"] {
        let made = build(&keyed(Setup::default()), &account(), &arguments("{}"), Some(key), None);
        assert_eq!(made, Err(InvalidArguments::KeyDoesNotFit), "{key:?}");
    }
    let quoted = format!("\"{KEY}\"");
    assert!(build(&keyed(Setup::default()), &account(), &arguments("{}"), Some(&quoted), None).is_ok());
}

#[test]
fn a_callers_query_is_refused_or_passed_and_never_sets_the_key() {
    let build_with = |mode, query| {
        let key = Place::Query("key".to_owned());
        let tool = keyed(Setup { query: mode, key, ..at("/o") });
        build(&tool, &account(), &arguments("{}"), Some(KEY), Some(query)).map(|request| request.url)
    };
    assert_eq!(build_with(QueryMode::Refuse, "a=1"), Err(InvalidArguments::QueryRefused));
    let passed = format!("https://supplier.example/o?a=1&b=%20&key={KEY}");
    assert_eq!(build_with(QueryMode::Pass, "a=1&b=%20"), Ok(passed));
    for query in ["key=x", "a=1&key=x", "k%65y=x", "a b", "a#b", "a\r\nb", "é"] {
        assert_eq!(build_with(QueryMode::Pass, query), Err(InvalidArguments::Query), "{query:?}");
    }
}

#[test]
fn headers_are_templates_and_the_account_is_put_in() {
    let headers = vec![
        ("Authorization", "Bearer ${TOKEN_{account}}"),
        ("X-Tenant", "{account}"),
        ("X-File", "${file:/run/{account}/token}"),
        ("Accept", "application/vnd.example+json"),
    ];
    let request = made(Setup { headers, ..Setup::default() }, "{}").unwrap();
    let pairs: Vec<(&str, &str)> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert!(pairs.contains(&("authorization", "Bearer ${TOKEN_kitchen}")));
    assert!(pairs.contains(&("x-tenant", "kitchen")));
    assert!(pairs.contains(&("x-file", "${file:/run/kitchen/token}")));
    assert_eq!(pairs.iter().filter(|(name, _)| *name == "accept").count(), 1);
    let tool = keyed(Setup { headers: vec![("X-File", "${file:/run/{account}/t}")], ..Setup::default() });
    let dots = Account::parse("..").unwrap();
    assert!(build(&tool, &dots, &arguments("{}"), Some(KEY), None).is_err());
}

#[test]
fn the_digest_is_over_everything_that_is_fixed() {
    let digest = |setup, text: &str, key: &str| {
        build(&keyed(setup), &account(), &arguments(text), Some(key), None).unwrap().digest
    };
    let base = digest(Setup::default(), "{}", KEY);
    assert_eq!(base, digest(Setup::default(), "{}", KEY));
    assert!(base.starts_with("sha256:") && base.len() == 71);
    let with = |name, value| Setup { headers: vec![(name, value)], ..Setup::default() };
    let others = [
        digest(Setup::default(), "{ }", KEY),
        digest(Setup::default(), "{}", "other"),
        digest(at("/other"), "{}", KEY),
        digest(Setup { method: "PUT", ..Setup::default() }, "{}", KEY),
        digest(Setup { body: BodyKind::None, ..Setup::default() }, "{}", KEY),
        digest(with("X-A", "1"), "{}", KEY),
        digest(with("X-A", "2"), "{}", KEY),
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(*other, base, "{at}");
        assert!(!others[..at].contains(other), "{at}");
    }
    // What is looked up at send time and who sends it may change between two attempts.
    assert_eq!(digest(with("Authorization", "Bearer ${A}"), "{}", KEY), base);
    assert_eq!(digest(with("User-Agent", "next/2"), "{}", KEY), base);
}

#[test]
fn declarations_are_checked_when_they_are_loaded() {
    assert_eq!(check_declaration(&keyed(Setup::default())), []);
    assert_eq!(check_declaration(&unkeyed(at("/o/{/a}/b{/c}.json?q={/d}"))), []);
    let url_problems = [
        ("ftp://x/", DeclarationProblem::Scheme),
        ("https://{/h}/", DeclarationProblem::HostNotFixed),
        ("https://x/{a", DeclarationProblem::Placeholder),
        ("https://x/{name}", DeclarationProblem::Placeholder),
        ("https://x/{/~2}", DeclarationProblem::Placeholder),
        ("https://x/o?{/a}=1", DeclarationProblem::PlaceholderInQueryName),
        ("https://x/o?a={/a}&{/b}", DeclarationProblem::PlaceholderInQueryName),
        ("https://x/o#f", DeclarationProblem::Fragment),
        ("https://x/a b", DeclarationProblem::UrlCharacter),
        ("https://x/é", DeclarationProblem::UrlCharacter),
        ("https://x/%zz", DeclarationProblem::UrlCharacter),
        ("https://x/}", DeclarationProblem::UrlCharacter),
        ("https://x/\\", DeclarationProblem::UrlCharacter),
        ("https://x/\r\n", DeclarationProblem::UrlCharacter),
        ("https://x/${T}", DeclarationProblem::SecretInUrl),
        ("https://x/a/../b", DeclarationProblem::DotSegment),
        ("https://x/a/%2E%2e", DeclarationProblem::DotSegment),
        ("http://supplier.example/", DeclarationProblem::PlainHttp),
    ];
    for (url, problem) in url_problems {
        let tool = keyed(Setup { url: url.to_owned(), ..Setup::default() });
        assert_eq!(check_declaration(&tool), std::slice::from_ref(&problem), "{url}");
        assert_eq!(problem.is_warning(), url.starts_with("http://"), "{url}");
    }
    let in_query = |url: &str| {
        let key = Place::Query("key id".to_owned());
        check_declaration(&keyed(Setup { url: url.to_owned(), key, ..Setup::default() }))
    };
    assert_eq!(in_query("https://x/o?key={/key}"), []);
    for url in ["https://x/o?key+id={/a}", "https://x/o?a=1&key%20id=2", "https://x/o?key%20id"] {
        assert_eq!(in_query(url), [DeclarationProblem::QueryTwice("key id".to_owned())], "{url}");
    }
    let local = keyed(Setup { url: "http://127.0.0.1:9090/orders".to_owned(), ..Setup::default() });
    assert_eq!(check_declaration(&local), []);
}

#[test]
fn declared_headers_methods_and_bodies_are_checked() {
    let header = |name, value| keyed(Setup { headers: vec![(name, value)], ..Setup::default() });
    let only = |tool: Tool| check_declaration(&tool);
    assert_eq!(only(header("Host", "x")), [DeclarationProblem::HeaderReserved("Host".to_owned())]);
    assert_eq!(
        only(header("transfer-encoding", "chunked")),
        [DeclarationProblem::HeaderReserved("transfer-encoding".to_owned())]
    );
    assert_eq!(only(header("a b", "x")), [DeclarationProblem::HeaderName("a b".to_owned())]);
    assert_eq!(
        only(header("IDEMPOTENCY-KEY", "x")),
        [DeclarationProblem::HeaderTwice("IDEMPOTENCY-KEY".to_owned())]
    );
    for value in ["a\r\nb: c", "a\0", "é", " x", "", "${", "${}", "${file:}", "${A B}", "a\n b"] {
        assert_eq!(
            only(header("X-A", value)),
            [DeclarationProblem::HeaderValue("X-A".to_owned())],
            "{value:?}"
        );
    }
    for method in ["", "post", "CONNECT", "TRACE", "PO ST"] {
        assert_eq!(
            only(keyed(Setup { method, ..Setup::default() })),
            [DeclarationProblem::Method],
            "{method}"
        );
    }
    assert_eq!(
        only(keyed(Setup { method: "GET", ..Setup::default() })),
        [DeclarationProblem::BodyOfMethod("GET".to_owned())]
    );
    let in_body = |body, at: &str| keyed(Setup { body, key: Place::Body(pointer(at)), ..Setup::default() });
    assert_eq!(only(in_body(BodyKind::Json, "/a/b")), []);
    assert_eq!(only(in_body(BodyKind::Form, "/a/b")), [DeclarationProblem::KeyInBody]);
    assert_eq!(only(in_body(BodyKind::None, "/a")), [DeclarationProblem::KeyInBody]);
    assert_eq!(only(in_body(BodyKind::Json, "")), [DeclarationProblem::KeyInBody]);
    let nested = Setup { path_only: vec!["/a/b"], ..Setup::default() };
    assert_eq!(only(keyed(nested)), [DeclarationProblem::PathOnly]);
}
