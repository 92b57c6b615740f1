//! An application's own workers over HTTP: claims, heartbeats, reports, and who may ask.

use std::time::Duration;

use serde_json::{Value, json};
use sim::wire::Reply;
use tokio::time::Instant;

use super::support::{House, refused, with};

/// What books are posted with; whitespace and number are not what JSON writers would write.
const ENTRY: &str = r#"{ "iban":"DE02","amount":1.50 }"#;

fn entry(tool: &str) -> Value {
    json!({ "tool": tool, "arguments": { "iban": "DE02", "amount": 7 } })
}

fn claim(worker: &str, claim_id: &str) -> Value {
    json!({ "worker": worker, "lease_ms": 2_000, "claim_id": claim_id })
}

struct Books {
    house: House,
    agent: String,
    hand: String,
    both: String,
}

impl Books {
    async fn open() -> Self {
        let house = House::build().await;
        let agent = house.token("kitchen", "app", &["agent", "auditor"]).await;
        let hand = house.token("kitchen", "hand", &["worker"]).await;
        let both = house.token("kitchen", "guard", &["agent", "worker"]).await;
        Self { house, agent, hand, both }
    }

    async fn put(&self, id: &str, tool: &str, execute: bool) {
        // Each its own action.
        let arguments = json!({ "iban": "DE02", "amount": 7, "text": id });
        let body = json!({ "tool": tool, "arguments": arguments, "execute": execute, "wait_ms": 0 });
        let reply = self.house.call(&self.agent, "PUT", &format!("/v1/operations/{id}"), &body).await;
        assert!(matches!(reply.status, 201 | 202), "{}", reply.value());
    }

    async fn post(&self, token: &str, path: &str, body: Value) -> Reply {
        self.house.call(token, "POST", path, &body).await
    }

    async fn claim(&self, id: &str, body: Value) -> Reply {
        self.post(&self.hand, &format!("/v1/operations/{id}/claim"), body).await
    }

    async fn outcome(&self, id: &str, claim: &Value, body: Value) -> Reply {
        let path = format!("/v1/operations/{id}/attempts/{}/outcome", claim["attempt"]);
        let body = with(body, json!({ "fencing_token": claim["fencing_token"] }));
        self.post(&self.hand, &path, body).await
    }

    async fn get(&self, id: &str) -> Value {
        self.house.get(&self.agent, &format!("/v1/operations/{id}")).await.value()
    }

    async fn take(&self, body: Value) -> Vec<Value> {
        let reply = self.post(&self.hand, "/v1/claims", body).await;
        assert_eq!(reply.status, 200, "{}", reply.value());
        reply.value()["items"].as_array().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_holds_what_is_to_be_sent_and_the_report_becomes_the_receipt() {
    let books = Books::open().await;
    let body = format!(r#"{{"tool":"books.post","arguments":{ENTRY},"task":"run-1"}}"#);
    let path = "/v1/operations/a";
    let put = books.house.send(&books.agent, "PUT", path, "application/json", body.as_bytes()).await;
    assert_eq!(put.status, 201);
    let first = books.claim("a", claim("w1", "c1")).await;
    let text = String::from_utf8(first.body.clone()).unwrap();
    assert!(text.contains(&format!(r#""arguments":{ENTRY}"#)), "byte for byte, nothing redacted: {text}");
    let first = first.value();
    for (member, expected) in [
        ("operation_id", json!("a")),
        ("account", json!("kitchen")),
        ("tool", json!("books.post")),
        ("mode", json!("send")),
        ("attempt", json!(1)),
        ("fencing_token", json!(1)),
        ("earlier_attempts", json!([])),
    ] {
        assert_eq!(first[member], expected, "{member}");
    }
    assert!(first["reference"].as_str().is_some_and(|text| text.len() == 32) && first.get("key").is_none());
    assert!(first["send_before"].as_str() < first["lease_expires_at"].as_str());
    // The same call again, and anybody else's.
    assert_eq!(books.claim("a", claim("w1", "c1")).await.value(), first);
    for other in [claim("w2", "c1"), claim("w1", "c2"), json!({ "worker": "w1" })] {
        let reply = books.claim("a", other).await;
        assert_eq!(refused(&reply), (409, "in-progress".to_owned()));
        assert_eq!(reply.value()["state"], "in_progress");
    }
    let beat = books
        .post(&books.hand, "/v1/operations/a/attempts/1/heartbeat", json!({ "fencing_token": 1 }))
        .await
        .value();
    assert!(beat["lease_expires_at"].as_str() > first["lease_expires_at"].as_str());
    assert_eq!(beat["send_before"], first["send_before"]);
    // It may read what it holds, and nothing that it does not hold.
    let held = books.house.get(&books.hand, path).await;
    assert_eq!((held.status, held.value()["attempts"][0]["worker"].as_str()), (200, Some("w1")));
    let done = json!({ "outcome": "succeeded", "reference": "po_1", "result": { "b": 1 } });
    for _ in 0..2 {
        let reply = books.outcome("a", &first, done.clone()).await;
        assert_eq!((reply.status, reply.value()["state"].clone()), (200, json!("succeeded")));
    }
    let shown = books.get("a").await;
    assert_eq!(shown["receipt"]["reference"], "po_1");
    assert_eq!(shown["receipt"]["result"]["body"], json!({ "b": 1 }));
    assert_eq!(shown["receipt"]["source"], "response");
    assert_eq!(shown["arguments"]["iban"], json!({ "redacted": true }));
    let again = books.claim("a", claim("w1", "c1")).await;
    assert_eq!(refused(&again), (409, "wrong-state".to_owned()));
    assert_eq!(refused(&books.house.get(&books.hand, path).await).0, 403, "held no longer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn put_with_a_claim_is_prepare_claim_and_attempt_in_one() {
    let books = Books::open().await;
    let path = "/v1/operations/a";
    let body = |claim_id: &str, declaration: Value| {
        let claim = with(claim("w1", claim_id), json!({ "declaration": declaration }));
        with(entry("books.post"), json!({ "claim": claim, "wait_ms": 0 }))
    };
    let put = async |token: &str, body: &Value| books.house.call(token, "PUT", path, body).await;
    // Whatever is refused stores nothing and leaves the ID free.
    let wrong = json!({ "recovery": { "kind": "none" }, "budget": { "attempts": 5 } });
    let reply = put(&books.both, &body("c1", wrong)).await;
    assert_eq!(refused(&reply), (409, "declaration-mismatch".to_owned()));
    assert_eq!(reply.value()["differs"], json!(["recovery.kind"]));
    assert_eq!(refused(&put(&books.agent, &body("c1", json!({}))).await), (403, "forbidden".to_owned()));
    let not_ours = with(body("c1", json!({})), json!({ "tool": "mail.send" }));
    assert_eq!(refused(&put(&books.both, &not_ours).await), (409, "not-a-worker-tool".to_owned()));
    let unknown = with(body("c1", json!({})), json!({ "tool": "no.such" }));
    assert_eq!(refused(&put(&books.both, &unknown).await), (404, "unknown-tool".to_owned()));
    assert_eq!(refused(&books.house.get(&books.agent, path).await).1, "unknown-operation");

    let right = json!({ "recovery": { "kind": "lookup", "authoritative": true } });
    let dry = put(&books.both, &with(body("c1", right.clone()), json!({ "dry_run": true }))).await;
    assert_eq!((dry.status, dry.value()["would"].clone()), (200, json!("create")));
    let first = put(&books.both, &body("c1", right.clone())).await;
    assert_eq!(first.status, 201);
    let first = first.value();
    assert_eq!(
        (first["state"].clone(), first["claim"]["mode"].clone()),
        (json!("in_progress"), json!("send"))
    );
    assert_eq!(first["attempts"].as_array().unwrap().len(), 1);
    let again = put(&books.both, &body("c1", right.clone())).await;
    assert_eq!((again.status, again.value()["claim"].clone()), (200, first["claim"].clone()));
    let other = put(&books.both, &body("c2", right.clone())).await;
    assert_eq!((other.status, other.value().get("claim")), (202, None));
    let path = "/v1/operations/a/attempts/1/outcome";
    let done = json!({ "fencing_token": 1, "outcome": "rejected", "reason": "no <b>funds</b>" });
    assert_eq!(books.post(&books.both, path, done).await.status, 200);
    let over = put(&books.both, &body("c3", right)).await;
    assert_eq!((over.status, over.value()["replayed"].clone()), (200, json!(true)));
    assert_eq!(
        over.value()["rejection"],
        json!({ "code": "destination_rejected", "detail": "no <b>funds</b>" })
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_takes_what_is_due_and_is_woken_by_it() {
    let books = Books::open().await;
    let ask = |max: u32, wait: u64| {
        json!({ "worker": "w1", "lease_ms": 5_000, "max": max, "wait_ms": wait,
                "tools": [{ "name": "books.post", "declaration": { "approval": "none" } }, "hand.made"] })
    };
    books.put("unasked", "books.post", false).await;
    assert_eq!(books.take(ask(9, 0)).await, Vec::<Value>::new(), "nobody wished it");
    let began = Instant::now();
    let waiting = async { (books.take(ask(9, 20_000)).await, began.elapsed()) };
    let wishing = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        books.put("a", "books.post", true).await;
    };
    let ((taken, took), ()) = tokio::join!(waiting, wishing);
    assert_eq!(taken.len(), 1);
    assert_eq!((taken[0]["operation_id"].clone(), taken[0]["mode"].clone()), (json!("a"), json!("send")));
    assert!(took >= Duration::from_millis(400) && took < Duration::from_secs(10), "{took:?}");
    for id in ["b", "c", "d"] {
        books.put(id, "hand.made", true).await;
    }
    let (two, one) = (books.take(ask(2, 0)).await, books.take(ask(9, 0)).await);
    assert_eq!((two.len(), one.len()), (2, 1));
    let mut ids: Vec<String> =
        two.iter().chain(&one).map(|claim| claim["operation_id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["\"b\"", "\"c\"", "\"d\""], "each to one");
    for (tool, code) in [
        (json!("no.such"), (404, "unknown-tool")),
        (json!("private.note"), (404, "unknown-tool")),
        (json!("mail.send"), (409, "not-a-worker-tool")),
        (
            json!({ "name": "hand.made", "declaration": { "recovery": { "kind": "lookup" } } }),
            (409, "declaration-mismatch"),
        ),
    ] {
        let body = json!({ "worker": "w1", "tools": ["books.post", tool] });
        let reply = books.post(&books.hand, "/v1/claims", body).await;
        assert_eq!(refused(&reply), (code.0, code.1.to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_workers_of_the_account_and_of_the_tool_claim() {
    let books = Books::open().await;
    books.put("a", "books.post", true).await;
    let stranger = books.house.token("garden", "hand", &["worker"]).await;
    let other = books.house.token_for("kitchen", "post", &["worker"], &["hand.*"], None).await;
    let path = "/v1/operations/a/claim";
    let codes = [
        (&books.agent, (403, "forbidden")),
        (&stranger, (404, "unknown-operation")),
        (&other, (403, "forbidden")),
    ];
    for (token, expected) in codes {
        let reply = books.post(token, path, claim("w1", "c1")).await;
        assert_eq!(refused(&reply), (expected.0, expected.1.to_owned()));
    }
    let asks = json!({ "worker": "w1", "tools": ["books.post"] });
    assert_eq!(refused(&books.post(&other, "/v1/claims", asks.clone()).await).0, 403);
    let none = books.post(&stranger, "/v1/claims", asks).await;
    assert_eq!((none.status, none.value()["items"].clone()), (200, json!([])));
    let first = books.claim("a", claim("w1", "c1")).await.value();
    // Another principal has the number and still no claim.
    let mate = books.house.token("kitchen", "mate", &["worker"]).await;
    let beat =
        books.post(&mate, "/v1/operations/a/attempts/1/heartbeat", json!({ "fencing_token": 1 })).await;
    assert_eq!(refused(&beat), (409, "stale-claim".to_owned()));
    assert_eq!(refused(&books.house.get(&mate, "/v1/operations/a").await).0, 403);
    assert_eq!(refused(&books.house.get(&stranger, "/v1/operations/a").await).0, 404);
    assert_eq!(first["attempt"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ran_out_leads_to_an_investigation_and_late_reports_are_kept() {
    let books = Books::open().await;
    books.put("a", "books.post", true).await;
    let first = books.claim("a", with(claim("w1", "c1"), json!({ "lease_ms": 1_000 }))).await.value();
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    let taken = loop {
        let ask = json!({ "worker": "w2", "lease_ms": 2_000, "tools": ["books.post"], "wait_ms": 2_000 });
        match books.take(ask).await.pop() {
            Some(taken) => break taken,
            None => continue,
        }
    };
    assert_eq!((taken["mode"].clone(), taken["attempt"].clone()), (json!("investigate"), json!(1)));
    assert_eq!(
        (taken["send_before"].clone(), taken["reference"].clone()),
        (Value::Null, first["reference"].clone())
    );
    assert_eq!(taken["earlier_attempts"][0]["outcome"], "unknown");
    assert_eq!(books.get("a").await["state"], "unknown", "nothing may be sent");
    let late = books.outcome("a", &first, json!({ "outcome": "unknown" })).await;
    // It went silent before: the same outcome said late is news only to the evidence.
    assert_eq!(refused(&late), (409, "stale-claim".to_owned()));
    assert_eq!(late.value()["state"], "unknown");
    let evidence = books.house.get(&books.agent, "/v1/operations/a/evidence").await.value();
    let kinds: Vec<&str> =
        evidence["items"].as_array().unwrap().iter().filter_map(|row| row["kind"].as_str()).collect();
    assert!(kinds.contains(&"late_report") && kinds.contains(&"investigation_started"), "{kinds:?}");
    let refusal = books.outcome("a", &taken, json!({ "outcome": "not_sent" })).await;
    assert_eq!(refused(&refusal), (400, "invalid-arguments".to_owned()));
    let found = json!({ "outcome": "found", "reference": "po_1", "count": 1 });
    for _ in 0..2 {
        let reply = books.outcome("a", &taken, found.clone()).await;
        assert_eq!((reply.status, reply.value()["receipt"]["source"].clone()), (200, json!("lookup")));
    }
    // The first one succeeded after all, under another name: that is a second effect.
    let other = books.outcome("a", &first, json!({ "outcome": "succeeded", "reference": "po_2" })).await;
    assert_eq!((other.status, other.value()["duplicate_suspected"].clone()), (200, json!(true)));
    assert_eq!(other.value()["receipt"]["reference"], "po_1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counted_miss_frees_the_operation_for_another_send() {
    let books = Books::open().await;
    books.put("a", "books.post", true).await;
    books.claim("a", with(claim("w1", "c1"), json!({ "lease_ms": 1_000 }))).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let (mut looks, mut sends) = (0, 0);
    while sends == 0 {
        let ask = json!({ "worker": "w2", "lease_ms": 1_000, "tools": ["books.post"], "wait_ms": 1_000 });
        for taken in books.take(ask).await {
            match taken["mode"].as_str() {
                Some("investigate") => {
                    assert_eq!(books.outcome("a", &taken, json!({ "outcome": "absent" })).await.status, 200);
                    looks += 1;
                }
                _ => {
                    assert_eq!((taken["mode"].clone(), taken["attempt"].clone()), (json!("send"), json!(2)));
                    let done = json!({ "outcome": "succeeded", "reference": "po_1" });
                    assert_eq!(books.outcome("a", &taken, done).await.status, 200);
                    sends += 1;
                }
            }
        }
    }
    let shown = books.get("a").await;
    assert!(looks >= 1);
    assert_eq!(shown["attempts"][0]["settled"], true);
    assert_eq!(shown["lookups"].as_array().unwrap().iter().filter(|look| look["counts"] == true).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_and_a_revoked_token_stop_those_that_wait() {
    let books = Books::open().await;
    let operator = books.house.token("kitchen", "root", &["operator"]).await;
    let pause = books.post(&operator, "/v1/tools/books.post/pause", json!({ "note": "stop" })).await;
    assert_eq!(pause.status, 200);
    books.put("a", "books.post", true).await;
    let reply = books.claim("a", claim("w1", "c1")).await;
    assert_eq!(refused(&reply), (409, "paused".to_owned()));
    let ask = json!({ "worker": "w1", "tools": ["books.post"], "wait_ms": 300 });
    assert_eq!(books.take(ask).await, Vec::<Value>::new(), "skipped");
    let ask = json!({ "worker": "w1", "tools": ["books.post"], "wait_ms": 20_000 });
    let waiting = books.post(&books.hand, "/v1/claims", ask);
    let revoking = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let tokens = books.house.ledger.store().tokens().await.unwrap();
        let hand = tokens.iter().find(|token| token.principal.as_str() == "hand").unwrap();
        books.house.ledger.store().revoke_token(&hand.id).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let resume = books.post(&operator, "/v1/tools/books.post/resume", json!({ "note": "go" })).await;
        assert_eq!(resume.status, 200);
    };
    let (reply, ()) = tokio::join!(waiting, revoking);
    assert_eq!(refused(&reply), (401, "unauthenticated".to_owned()));
    assert_eq!(books.get("a").await["attempts"], json!([]), "nothing was given to it");
}
