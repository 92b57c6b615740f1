//! Ten thousand bad requests: whatever comes, the answer is a refusal with a code, and the ledger stays as it was.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sim::seed::Seed;
use sim::wire::{self, Reply};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::support::{House, code, order, with};

const REQUESTS: u32 = 10_000;

/// Set it to repeat a run.
const SEED: &str = "COUNTERFOIL_FUZZ_SEED";

/// The operation that is there. Whatever a mutation makes of the body below, it is never this one's intent.
const PATH: &str = "/v1/operations/approved-action-17";

struct Bad {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Bytes of the head are changed too: what comes may not be HTTP at all.
    raw: Option<Vec<u8>>,
}

struct Callers {
    agent: String,
    auditor: String,
    operator: String,
    chef: String,
    hand: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_are_refused_and_leave_no_trace() {
    let seed = std::env::var(SEED).ok().and_then(|text| text.parse().ok()).unwrap_or(0x00c0_ffee);
    println!("{SEED}={seed}");
    let house = House::build().await;
    let callers = Callers {
        agent: house.token("kitchen", "planner", &["agent", "approver"]).await,
        auditor: house.token("kitchen", "eve", &["auditor"]).await,
        operator: house.token("kitchen", "root", &["operator"]).await,
        chef: house.token("kitchen", "chef", &["approver"]).await,
        hand: house.token("kitchen", "hand", &["worker"]).await,
    };
    let there = with(order(10), json!({ "execute": true }));
    assert_eq!(house.call(&callers.agent, "PUT", PATH, &there).await.status, 200);
    let before = house.rows();
    let mut histogram = BTreeMap::<String, u32>::new();
    let mut line = None;
    for number in 0..REQUESTS {
        let mut seed = Seed::for_item(seed, u64::from(number));
        let bad = bad(&mut seed, &callers);
        let found = match &bad.raw {
            Some(bytes) => raw(&house, bytes).await,
            None => Some(exchange(&house, &mut line, &bad).await),
        };
        let name = match found {
            None => "(connection closed)".to_owned(),
            Some(reply) => {
                let shown = || {
                    format!("#{number} {} {} {:?}", bad.method, bad.path, String::from_utf8_lossy(&bad.body))
                };
                assert!(
                    (400..500).contains(&reply.status),
                    "{} answered {} {}",
                    shown(),
                    reply.status,
                    reply.value()
                );
                let not_http = reply.header("content-type").is_none();
                assert!(bad.raw.is_some() || !not_http, "{} answered {}", shown(), reply.status);
                match not_http {
                    true => format!("{} (not HTTP)", reply.status),
                    false => format!("{} {}", reply.status, code(&reply)),
                }
            }
        };
        *histogram.entry(name).or_default() += 1;
    }
    for (problem, count) in &histogram {
        println!("{count:6} {problem}");
    }
    assert_eq!(house.rows(), before);
    assert_eq!(house.supplier.effect_count().unwrap(), 1);
    assert_eq!(house.get("", "/readyz").await.status, 200, "and it still serves");
    for expected in [
        "400 invalid-arguments",
        "400 invalid-operation-id",
        "400 invalid-request",
        "401 unauthenticated",
        "403 forbidden",
        "404 not-found",
        "404 unknown-operation",
        "405 method-not-allowed",
        "409 fingerprint-mismatch",
        "413 too-large",
        "415 unsupported-media-type",
        "422 operation-id-reused",
        "429 too-many-requests",
        "404 unknown-tool",
        "409 not-a-worker-tool",
        "409 declaration-mismatch",
    ] {
        assert!(histogram.contains_key(expected), "nothing ended in {expected}");
    }
}

/// One exchange on a kept connection; a new one where the server closed it.
async fn exchange(house: &House, line: &mut Option<TcpStream>, bad: &Bad) -> Reply {
    let headers: Vec<(&str, &str)> = bad.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let request = wire::request_bytes(&bad.method, &bad.path, &headers, &bad.body);
    if let Some(mut stream) = line.take()
        && stream.write_all(&request).await.is_ok()
        && let Ok(reply) = wire::read_reply(&mut stream).await
    {
        if reply.header("connection") != Some("close") {
            *line = Some(stream);
        }
        return reply;
    }
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    // A server that refuses a body early may stop reading it.
    let _ = stream.write_all(&request).await;
    let reply = wire::read_reply(&mut stream).await.unwrap();
    if reply.header("connection") != Some("close") && bad.body.len() < 64 * 1024 {
        *line = Some(stream);
    }
    reply
}

/// Bytes that may not be HTTP: an answer, or the end of the connection.
async fn raw(house: &House, bytes: &[u8]) -> Option<Reply> {
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let waited = tokio::time::timeout(Duration::from_millis(30), wire::read_reply(&mut stream)).await;
    waited.ok().and_then(Result::ok)
}

fn bad(seed: &mut Seed, callers: &Callers) -> Bad {
    match seed.below(100) {
        0..35 => put(callers, mutated(seed, base().to_string().into_bytes())),
        35..60 => put(callers, structure(seed)),
        60..70 => path(seed, callers),
        70..76 => query(seed, callers),
        76..80 => other_body(seed, callers),
        80..84 => worker_body(seed, callers),
        84..90 => caller(seed, callers),
        90..93 => kind(seed, callers),
        93..94 => large(seed, callers),
        94..96 => method(seed, callers),
        _ => head(seed, callers),
    }
}

fn request(token: &str, method: &str, path: &str, body: impl Into<Vec<u8>>) -> Bad {
    let headers = vec![
        ("Authorization".to_owned(), format!("Bearer {token}")),
        ("Content-Type".to_owned(), "application/json".to_owned()),
    ];
    Bad { method: method.to_owned(), path: path.to_owned(), headers, body: body.into(), raw: None }
}

fn put(callers: &Callers, body: Vec<u8>) -> Bad {
    request(&callers.agent, "PUT", PATH, body)
}

/// A good body of another intent than the stored one, with every member.
fn base() -> Value {
    json!({
        "tool": "supplier.create_order",
        "arguments": { "sku": "rye-10kg", "lines": [{ "n": 1.25e3 }, { "n": -7 }], "note": "a\u{e9}\u{1f600}\n" },
        "task": "run-41", "distinct_from": [], "accepted_by": { "by": "anna" }, "execute": true, "wait_ms": 1,
        "dry_run": false,
    })
}

fn mutated(seed: &mut Seed, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..=seed.below(4) {
        let length = bytes.len() as u64;
        if length == 0 {
            return bytes;
        }
        let at = seed.below(length) as usize;
        let end = (at + 1 + seed.below(12) as usize).min(bytes.len());
        match seed.below(7) {
            0 => bytes[at] ^= 1 << seed.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..end)),
            3 => bytes.insert(at, seed.below(256) as u8),
            4 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => bytes[at] = *seed.pick(b"{}[]\",:\\0eE-+. \n\0\xff\xc3\xed").unwrap(),
            _ => {
                let token: &[u8] = seed
                    .pick(&[
                        &b"\"a\":1,"[..],
                        b"\\ud800",
                        b"1e9999999",
                        b"null",
                        b"[[[[",
                        b"\xf0\x9f",
                        b"true",
                        b"//",
                    ])
                    .unwrap();
                bytes.splice(at..at, token.iter().copied());
            }
        }
    }
    // A mutation that adds `dry_run` to a good body would be answered with 200.
    if String::from_utf8_lossy(&bytes).contains("\"dry_run\":true") { Vec::new() } else { bytes }
}

/// A text that is JSON in its parts and wrong as a whole.
fn structure(seed: &mut Seed) -> Vec<u8> {
    const MEMBERS: [&str; 10] = [
        "tool",
        "arguments",
        "task",
        "subject",
        "replaces",
        "distinct_from",
        "accepted_by",
        "execute",
        "wait_ms",
        "dry_run",
    ];
    let junk = |seed: &mut Seed| -> Value {
        match seed.below(9) {
            0 => json!(-1),
            1 => json!(1.5),
            2 => json!("x y\u{0}"),
            3 => json!([1]),
            4 => json!({ "a": {} }),
            5 => json!(u64::MAX),
            6 => json!(["anna@example.com"]),
            7 => json!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"),
            _ => json!(""),
        }
    };
    let mut body = base();
    let object = body.as_object_mut().unwrap();
    let quoted =
        |text: &str| format!(r#"{{"tool":"supplier.create_order","arguments":{text}}}"#).into_bytes();
    match seed.below(16) {
        0 => drop(object.remove(*seed.pick(&["tool", "arguments"]).unwrap())),
        1..=4 => {
            let member = *seed.pick(&MEMBERS).unwrap();
            let value = junk(seed);
            object.insert(member.to_owned(), value);
        }
        5 => drop(object.insert(format!("extra_{}", seed.below(1000)), json!(1))),
        6 => {
            let stranger = *seed.pick(&["replaced_by", "state"]).unwrap();
            object.insert(stranger.to_owned(), junk(seed));
        }
        7 => {
            let deep = 64 + seed.below(80) as usize;
            return quoted(&format!("{{\"a\":{}{}}}", "[".repeat(deep), "]".repeat(deep)));
        }
        8 => return quoted(&format!("{{\"n\":{}}}", "9".repeat(1001 + seed.below(50) as usize))),
        9 => return quoted(&format!("{{\"n\":1e{}}}", 10_001 + seed.below(1 << 40))),
        10 => return quoted(r#"{"a":1,"b":{"c":1,"\u0063":2}}"#),
        11 => {
            return quoted(
                seed.pick(&[
                    r#"{"a":"\udc00"}"#,
                    r#"{"a":"\ud800\u0041"}"#,
                    r#"{"a":"\x41"}"#,
                    "{a:1}",
                    "{'a':1}",
                    "{\"a\":01}",
                    "{\"a\":NaN}",
                    "{\"a\":+1}",
                    "{\"a\":.5}",
                    "{\"a\":1.}",
                    "{\"a\":1,}",
                ])
                .unwrap(),
            );
        }
        12 => drop(object.insert("task".to_owned(), json!("t".repeat(256 + seed.below(9) as usize)))),
        13 => drop(object.insert("accepted_by".to_owned(), json!({ "a": "b".repeat(1024) }))),
        14 => drop(object.insert("wait_ms".to_owned(), json!(120_001 + seed.below(1 << 50)))),
        _ => {
            let whole: &[u8] = seed
                .pick(&[
                    &b"[]"[..],
                    b"null",
                    b"\"\"",
                    b"17",
                    b"{}",
                    b"{} {}",
                    b"\xef\xbb\xbf{}",
                    b" ",
                    b"{\"tool\":",
                ])
                .unwrap();
            return whole.to_vec();
        }
    }
    body.to_string().into_bytes()
}

fn path(seed: &mut Seed, callers: &Callers) -> Bad {
    let ids = [
        "%20",
        "a%00",
        "%ff%fe",
        "%c3%a9",
        "%2e",
        "..%20",
        "anna%40example.com",
        "4242424242424242",
        "%",
        "%zz",
        "sk_live_4242424242424242",
        "a%0d%0aSet-Cookie:x",
        "%2E%2E",
    ];
    let long = "x".repeat(256 + seed.below(4096) as usize);
    let id = if seed.chance(100) { long.as_str() } else { seed.pick(&ids).unwrap() };
    let places = [
        ("PUT", format!("/v1/operations/{id}")),
        ("GET", format!("/v1/operations/{id}")),
        ("POST", format!("/v1/operations/{id}/execute")),
        ("POST", format!("/v1/operations/nothing-{}/withdraw", seed.below(100))),
        ("GET", format!("/v1/{id}/operations")),
        ("GET", format!("/problems/{}", seed.below(9))),
        ("GET", format!("/v1/tools/no.such.{}", seed.below(9))),
    ];
    let (method, path) = seed.pick(&places).unwrap();
    // A name of one dot less than the rule is a good one; nothing is prepared without a tool.
    request(&callers.agent, method, path, if *method == "PUT" { "{\"tool\":1}" } else { "" })
}

fn query(seed: &mut Seed, callers: &Callers) -> Bad {
    let queries = [
        "limit=0",
        "limit=201",
        "limit=-1",
        "limit=1e2",
        "state=open",
        "state=prepared&state=prepared",
        "held=1",
        "sort=id",
        "order_by=1;DROP%20TABLE",
        "cursor=%27%20OR%201=1",
        "cursor=AAAA",
        "created_after=now",
        "q=%ff",
        "tool=%27",
        "task=anna%40example.com",
        "subject=anna%40example.com",
        "unresolved=null",
        "wait_ms=1",
    ];
    let path = match seed.below(4) {
        0 => format!("{PATH}?wait_ms={}", 120_001 + seed.below(1 << 40)),
        1 => format!(
            "/v1/events?after={}",
            seed.pick(&["x", "-1", "18446744073709551616", "9223372036854775808"]).unwrap()
        ),
        _ => format!("/v1/operations?{}", seed.pick(&queries).unwrap()),
    };
    request(&callers.agent, "GET", &path, "")
}

fn other_body(seed: &mut Seed, callers: &Callers) -> Bad {
    let zeros = format!(r#"{{"fingerprint":"v1:{}"}}"#, "0".repeat(64));
    let calls: [(&str, &str, &str); 13] = [
        (&callers.chef, "/approve", "{}"),
        (&callers.chef, "/approve", r#"{"fingerprint":"v2:00"}"#),
        (&callers.chef, "/approve", r#"{"fingerprint":7}"#),
        (&callers.chef, "/approve", &zeros),
        (&callers.agent, "/deny", "{}"),
        (&callers.agent, "/deny", r#"{"reason":""}"#),
        (&callers.agent, "/deny", r#"{"reason":"late"}"#),
        (&callers.agent, "/withdraw", r#"{"why":"x"}"#),
        (&callers.agent, "/withdraw", ""),
        (&callers.agent, "/reconcile", r#"{"wait_ms":1}"#),
        (&callers.agent, "/execute", r#"{"wait_ms":"5"}"#),
        (&callers.agent, "/execute", r#"{"wait_ms":5,"wait_ms":6}"#),
        (&callers.agent, "/execute", "[1"),
    ];
    let (token, action, body) = *seed.pick(&calls).unwrap();
    let mut bad = request(token, "POST", &format!("{PATH}{action}"), body);
    if seed.chance(300) {
        let action = seed.pick(&["pause", "resume"]).unwrap();
        bad = request(
            &callers.operator,
            "POST",
            &format!("/v1/tools/mail.send/{action}"),
            *seed.pick(&["{}", "{\"note\":1}", "x"]).unwrap(),
        );
    }
    bad
}

/// What a worker could get wrong, on operations that are no worker's, not there, or not claimed.
fn worker_body(seed: &mut Seed, callers: &Callers) -> Bad {
    let claims = r#"{"worker":"w1","tools":[{"name":"books.post","declaration":{"recovery":{"kind":"lookup"}}}],"max":9}"#;
    let bodies: [(&str, &str); 17] = [
        ("/v1/claims", r#"{"worker":"w1","tools":[{"name":"books.post"},{"name":"no.such"}]}"#),
        ("/v1/claims", r#"{"worker":"w1","tools":["mail.send"]}"#),
        ("/v1/claims", r#"{"worker":"w1","tools":["books.post"],"max":0}"#),
        ("/v1/claims", r#"{"worker":"w1","tools":["books.post"],"max":101}"#),
        ("/v1/claims", r#"{"worker":"w1","tools":[]}"#),
        ("/v1/claims", r#"{"worker":"w 1","tools":["books.post"]}"#),
        ("/v1/claims", r#"{"worker":"w1","tools":["books.post"],"wait_ms":120001}"#),
        (
            "/v1/claims",
            r#"{"worker":"w1","tools":[{"name":"books.post","declaration":{"budget":{"attempts":9}}}]}"#,
        ),
        ("/claim", r#"{"worker":"w1","lease_ms":5000,"claim_id":"c1"}"#),
        ("/claim", r#"{"worker":"w1","lease_ms":0}"#),
        ("/claim", r#"{"worker":"w1","lease_ms":3600001}"#),
        ("/claim", r#"{"worker":"w1","declaration":[1]}"#),
        ("/attempts/1/heartbeat", r#"{"fencing_token":1}"#),
        ("/attempts/0/heartbeat", r#"{"fencing_token":1}"#),
        (
            "/attempts/1/outcome",
            r#"{"fencing_token":1,"outcome":"succeeded","reference":"po_9","result":{"a":[1.5]}}"#,
        ),
        ("/attempts/1/outcome", r#"{"fencing_token":1,"outcome":"found","count":0}"#),
        ("/attempts/1/outcome", r#"{"fencing_token":1,"outcome":"rejected","reason":7}"#),
    ];
    let (place, body) = *seed.pick(&bodies).unwrap();
    let path = if place.starts_with("/v1") { place.to_owned() } else { format!("{PATH}{place}") };
    let good = place == "/v1/claims" && seed.chance(300);
    let mut bytes = if good { claims } else { body }.as_bytes().to_vec();
    if good {
        // A good call of this kind is answered with an empty list: it must be broken for certain.
        bytes.truncate(bytes.len() - 1 - seed.below(40) as usize);
    } else if place != "/v1/claims" && seed.chance(500) {
        bytes = mutated(seed, bytes);
    }
    let token = if seed.chance(900) { &callers.hand } else { &callers.agent };
    request(token, "POST", &path, bytes)
}

fn caller(seed: &mut Seed, callers: &Callers) -> Bad {
    let mut bad = put(callers, base().to_string().into_bytes());
    let value = match seed.below(6) {
        0 => "Basic YTpi".to_owned(),
        1 => "Bearer".to_owned(),
        2 => format!("Bearer cf_{:043x}", seed.next_u64()),
        3 => format!("Bearer {}", callers.auditor),
        4 => format!("Bearer {}", callers.operator),
        _ => format!("Bearer {}x", callers.agent),
    };
    bad.headers[0].1 = value;
    bad
}

fn kind(seed: &mut Seed, callers: &Callers) -> Bad {
    let mut bad = put(callers, base().to_string().into_bytes());
    let kinds = [
        "text/plain",
        "application/jsonx",
        "application/json; charset=utf-16",
        "",
        "application/x-www-form-urlencoded",
    ];
    bad.headers[1].1 = (*seed.pick(&kinds).unwrap()).to_owned();
    if seed.chance(200) {
        bad.headers[1].1 = "application/json".to_owned();
        bad.headers.push(("Content-Encoding".to_owned(), "gzip".to_owned()));
    }
    bad
}

fn large(seed: &mut Seed, callers: &Callers) -> Bad {
    let size = 256 * 1024 + seed.below(200 * 1024) as usize;
    put(callers, format!(r#"{{"tool":"mail.send","arguments":{{"a":"{}"}}}}"#, "x".repeat(size)).into_bytes())
}

fn method(seed: &mut Seed, callers: &Callers) -> Bad {
    let methods = ["DELETE", "PATCH", "POST", "OPTIONS", "TRACE", "BREW"];
    request(&callers.agent, seed.pick(&methods).unwrap(), PATH, "")
}

/// A request with changed bytes anywhere, head included. It is a bad one before any change: it names no tool.
fn head(seed: &mut Seed, callers: &Callers) -> Bad {
    let mut bad = put(callers, b"{\"arguments\":{}}".to_vec());
    let headers: Vec<(&str, &str)> = bad.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let bytes = wire::request_bytes("PUT", PATH, &headers, &bad.body);
    bad.raw = Some(mutated(seed, bytes));
    bad
}
