//! The table of answers and the order of checks.

use serde_json::{Value, json};
use sim::supplier::Fault;

use super::support::{House, code, order, refused, with};

const PATH: &str = "/v1/operations/approved-action-17";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_ends_with_one_order_and_one_receipt() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    house.supplier.fault(Fault::ReplyDropped).unwrap();
    let body = with(order(10), json!({ "task": "run-41", "execute": true, "wait_ms": 10_000 }));
    let first = house.call(&token, "PUT", PATH, &body).await;
    assert_eq!(first.status, 200, "{}", first.value());
    let again = house.call(&token, "POST", &format!("{PATH}/execute"), &json!({ "wait_ms": 5000 })).await;
    let shown = again.value();
    assert_eq!((again.status, &shown["replayed"]), (200, &json!(true)));
    assert_eq!((&shown["state"], &first.value()["receipt"]), (&json!("succeeded"), &shown["receipt"]));
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(shown["attempts"][0]["outcome"], "unknown");
    assert_eq!(shown["attempts"][0]["key"], shown["attempts"][1]["key"]);
    let put_again = house.call(&token, "PUT", PATH, &body).await;
    assert_eq!((put_again.status, &put_again.value()["receipt"]), (200, &shown["receipt"]));
    assert_eq!(house.supplier.effect_count().unwrap(), 1);
}

/// Member names and nesting as every client reads them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_has_every_member_of_its_shape() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let text = br#"{"tool":"supplier.create_order","arguments":{ "sku":"a", "delivery":{"phone":"555","city":"Ulm"},"price":1.50 },
        "accepted_by":{ "by" : "anna" },"execute":true}"#;
    let reply = house.send(&token, "PUT", PATH, "application/json; charset=utf-8", text).await;
    assert_eq!(reply.status, 200, "{}", reply.value());
    let shown = String::from_utf8(reply.body.clone()).unwrap();
    assert!(
        shown.contains(
            r#""arguments":{ "sku":"a", "delivery":{"phone":{"redacted":true},"city":"Ulm"},"price":1.50 }"#
        ),
        "{shown}"
    );
    assert!(shown.contains(r#""accepted_by":{ "by" : "anna" }"#), "{shown}");
    let value = reply.value();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&value),
        [
            "accepted_by",
            "account",
            "approval",
            "arguments",
            "attempts",
            "closed",
            "created_at",
            "distinct_from",
            "duplicate_suspected",
            "fingerprint",
            "held",
            "id",
            "links",
            "lookups",
            "next",
            "policy_version",
            "receipt",
            "receipt_expires_at",
            "recovery",
            "rejection",
            "replaced_by",
            "replaces",
            "replayed",
            "state",
            "subject",
            "task",
            "tool",
            "updated_at",
            "version",
        ]
    );
    assert_eq!(
        names(&value["attempts"][0]),
        [
            "ended_at",
            "error",
            "fencing_token",
            "key",
            "marker",
            "number",
            "outcome",
            "request_digest",
            "scope",
            "settled",
            "started_at",
            "status",
            "worker",
        ]
    );
    assert_eq!(names(&value["receipt"]), ["recorded_at", "reference", "result", "source", "truncated"]);
    assert_eq!(names(&value["receipt"]["result"]), ["body", "content_type", "status"]);
    assert_eq!(names(&value["recovery"]), ["kind", "send_allowed_until"]);
    assert_eq!(names(&value["approval"]), ["at", "by", "expires_at", "required"]);
    assert_eq!(names(&value["next"]), ["action", "message"]);
    assert_eq!(value["links"]["console"], "/console/o/approved-action-17");
    let at = value["created_at"].as_str().unwrap();
    assert_eq!((at.len(), &at[19..20], &at[23..]), (24, ".", "Z"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_of_put() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let put = async |path: &str, body: Value| house.call(&token, "PUT", path, &body).await;
    let new = put(PATH, order(10)).await;
    assert_eq!((new.status, new.header("location")), (201, Some(PATH)));
    assert_eq!(new.value()["next"]["action"], "execute");
    assert_eq!(put(PATH, order(10)).await.status, 200);
    // Other spelling and a volatile member: the same intent.
    let spelled = br#"{"tool":"supplier.create_order","arguments":{"quantity":1e1,"trace":"x","sku":"flour\u002d25kg"}}"#;
    assert_eq!(house.send(&token, "PUT", PATH, "application/json", spelled).await.status, 200);
    let reused = put(PATH, order(12)).await;
    assert_eq!(refused(&reused), (422, "operation-id-reused".to_owned()));
    let problem = reused.value();
    assert_eq!(problem["differs"], json!(["arguments.quantity"]));
    assert_eq!((&problem["sent"], &problem["state"]), (&json!("no"), &json!("prepared")));
    assert!(!problem.to_string().contains("12"), "values are never shown: {problem}");
    let other = json!({ "tool": "mail.send", "arguments": { "sku": "flour-25kg", "quantity": 10 } });
    assert_eq!(put(PATH, other).await.value()["differs"], json!(["tool"]));
    let unknown = json!({ "tool": "no.such", "arguments": {} });
    assert_eq!(refused(&put("/v1/operations/a", unknown).await), (404, "unknown-tool".to_owned()));
    let foreign = json!({ "tool": "private.note", "arguments": { "id": 1 } });
    assert_eq!(refused(&put("/v1/operations/a", foreign).await), (404, "unknown-tool".to_owned()));
    let unfit = json!({ "tool": "placed.note", "arguments": {} });
    assert_eq!(refused(&put("/v1/operations/a", unfit).await), (400, "invalid-arguments".to_owned()));
    // Nothing of a refused PUT is stored: the ID is free.
    assert_eq!(put("/v1/operations/a", order(1)).await.status, 201);
    // An encoded slash belongs to the ID.
    let slashed = put("/v1/operations/kitchen-7%2Forder", order(3)).await;
    assert_eq!((slashed.status, &slashed.value()["id"]), (201, &json!("kitchen-7/order")));
    assert_eq!(slashed.value()["links"]["console"], "/console/o/kitchen-7%2Forder");
    // What the link leads to says how to go on; it shows nothing of the ledger, and so needs no token.
    let page = house.get("", "/console/o/kitchen-7%2Forder").await;
    let text = String::from_utf8(page.body.clone()).unwrap();
    assert!(
        page.status == 200 && text.contains("counterfoil op show") && !text.contains("kitchen-7"),
        "{text}"
    );
    // A refusal about another operation than the one of the path names it.
    for member in [json!({ "replaces": "nope" }), json!({ "distinct_from": ["nope"] })] {
        let mut asked = order(4);
        asked.as_object_mut().unwrap().extend(member.as_object().unwrap().clone());
        let unknown = put("/v1/operations/b", asked).await;
        assert_eq!(refused(&unknown), (404, "unknown-operation".to_owned()));
        assert_eq!(unknown.value()["operation_id"], "nope");
        assert!(
            unknown.value()["detail"].as_str().unwrap().contains("no operation nope"),
            "{}",
            unknown.value()
        );
    }
    assert_eq!(house.supplier.request_count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_says_and_stores_nothing() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let dry = json!({ "dry_run": true, "execute": true });
    let before = house.rows();
    let create = house.call(&token, "PUT", PATH, &with(order(1), dry.clone())).await;
    assert_eq!((create.status, &create.value()["would"]), (200, &json!("create")));
    assert_eq!(create.value()["id"], "approved-action-17");
    let unknown = json!({ "tool": "no.such", "arguments": {}, "dry_run": true });
    let refuse = house.call(&token, "PUT", PATH, &unknown).await;
    assert_eq!((refuse.status, &refuse.value()["would"]), (200, &json!("refuse")));
    assert_eq!(refuse.value()["problem"]["type"], "urn:counterfoil:problem:unknown-tool");
    assert_eq!(house.rows(), before);
    house.call(&token, "PUT", PATH, &order(1)).await;
    let replay = house.call(&token, "PUT", PATH, &with(order(1), dry.clone())).await;
    assert_eq!(replay.value()["would"], "replay");
    let reused = house.call(&token, "PUT", PATH, &with(order(2), dry)).await;
    assert_eq!(reused.value()["problem"]["status"], 422);
    assert_eq!(house.get(&token, PATH).await.value()["next"]["action"], "execute", "a dry run sets no wish");
    assert_eq!(house.supplier.request_count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresolved_action_holds_the_same_one_back() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let mail =
        |more: Value| with(json!({ "tool": "mail.send", "arguments": { "to": "x" }, "task": "t" }), more);
    house.supplier.fault(Fault::ReplyDropped).unwrap();
    let first = house.call(&token, "PUT", PATH, &mail(json!({ "execute": true }))).await;
    assert_eq!((first.status, first.header("retry-after")), (202, None), "{}", first.value());
    let value = first.value();
    assert_eq!(
        (&value["state"], &value["held"], &value["next"]["action"]),
        (&json!("unknown"), &json!(true), &json!("review"))
    );
    assert!(value["attempts"][0].get("key").is_none());
    let second = house.call(&token, "PUT", "/v1/operations/18", &mail(json!({ "execute": true }))).await;
    assert_eq!(refused(&second), (409, "action-unresolved".to_owned()));
    let problem = second.value();
    assert_eq!(problem["operation_id"], "approved-action-17");
    assert_eq!(
        (&problem["state"], &problem["operations"]),
        (&json!("unknown"), &json!(["approved-action-17"]))
    );
    assert_eq!((&problem["next"]["action"], &problem["sent"]), (&json!("review"), &json!("no")));
    let distinct = mail(json!({ "distinct_from": ["approved-action-17"] }));
    let refusal = house.call(&token, "PUT", "/v1/operations/18", &distinct).await;
    assert_eq!(refused(&refusal), (403, "forbidden".to_owned()));
    assert_eq!(refusal.value()["operation_id"], "approved-action-17");
    let absent = mail(json!({ "distinct_from": ["nowhere"] }));
    assert_eq!(house.call(&token, "PUT", "/v1/operations/18", &absent).await.status, 404);
    let other_task = mail(json!({ "task": "u" }));
    assert_eq!(house.call(&token, "PUT", "/v1/operations/19", &other_task).await.status, 201);
    assert_eq!(house.supplier.effect_count().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_binds_and_starts_the_standing_wish() {
    let house = House::build().await;
    let agent = house.token("kitchen", "planner", &["agent", "approver"]).await;
    let chef = house.token("kitchen", "chef", &["approver", "auditor"]).await;
    let big = json!({ "tool": "supplier.big_order", "arguments": { "n": 1 }, "execute": true });
    let waiting = house.call(&agent, "PUT", PATH, &big).await;
    assert_eq!((waiting.status, waiting.header("retry-after")), (202, None));
    assert_eq!(waiting.value()["next"]["action"], "approve");
    let execute = house.call(&agent, "POST", &format!("{PATH}/execute"), &Value::Null).await;
    assert_eq!(refused(&execute), (409, "approval-required".to_owned()));
    assert_eq!(execute.value()["next"]["action"], "approve");
    let fingerprint = waiting.value()["fingerprint"].clone();
    let approve =
        async |token: &str, body: Value| house.call(token, "POST", &format!("{PATH}/approve"), &body).await;
    assert_eq!(
        refused(&approve(&agent, json!({ "fingerprint": fingerprint })).await).0,
        403,
        "own operation"
    );
    let wrong = json!({ "fingerprint": format!("v1:{}", "0".repeat(64)) });
    assert_eq!(refused(&approve(&chef, wrong).await), (409, "fingerprint-mismatch".to_owned()));
    let stale = json!({ "fingerprint": fingerprint, "if_version": 99 });
    assert_eq!(refused(&approve(&chef, stale).await), (409, "changed-meanwhile".to_owned()));
    assert_eq!(refused(&approve(&chef, json!({})).await), (400, "invalid-request".to_owned()));
    let version = waiting.value()["version"].as_u64().unwrap();
    let waited_for = format!("{PATH}?wait_ms=10000");
    let waiter = house.get(&agent, &waited_for);
    let yes = json!({ "fingerprint": fingerprint, "if_version": version });
    let (approved, waited) = tokio::join!(approve(&chef, yes.clone()), waiter);
    assert_eq!((approved.status, &approved.value()["approval"]["by"]), (200, &json!("chef")));
    assert!(waited.value()["version"].as_u64().unwrap() > version, "a wait ends with a change");
    let done = house.call(&agent, "POST", &format!("{PATH}/execute"), &Value::Null).await;
    assert_eq!((done.status, &done.value()["state"]), (200, &json!("succeeded")));
    assert_eq!(approve(&chef, yes).await.status, 200, "the same decision again");
    let deny = house.call(&chef, "POST", &format!("{PATH}/deny"), &json!({ "reason": "late" })).await;
    assert_eq!(refused(&deny), (409, "wrong-state".to_owned()));
    assert_eq!(house.supplier.effect_count().unwrap(), 1);

    house.call(&agent, "PUT", "/v1/operations/b", &big).await;
    let no = json!({ "reason": "too much" });
    let denied = house.call(&chef, "POST", "/v1/operations/b/deny", &no).await;
    assert_eq!(denied.value()["rejection"], json!({ "code": "approval_denied", "detail": "too much" }));
    house.call(&agent, "PUT", "/v1/operations/c", &big).await;
    for _ in 0..2 {
        let withdrawn = house.call(&agent, "POST", "/v1/operations/c/withdraw", &Value::Null).await;
        assert_eq!((withdrawn.status, &withdrawn.value()["rejection"]["code"]), (200, &json!("withdrawn")));
    }
    assert_eq!(house.supplier.effect_count().unwrap(), 1);
}

/// Each call breaks two rules; the earlier one answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checks_run_in_their_order() {
    let house = House::build().await;
    let agent = house.token("kitchen", "planner", &["agent"]).await;
    let auditor = house.token("kitchen", "eve", &["auditor"]).await;
    let narrow = house.token_for("kitchen", "narrow", &["agent", "auditor"], &["mail.*"], None).await;
    house.call(&agent, "PUT", PATH, &order(1)).await;
    let unknown_tool = |quantity: u32| with(order(quantity), json!({ "tool": "no.such" }));
    let bad_id = "/v1/operations/a%20b";
    for (token, method, path, body, status, expected) in [
        ("", "PUT", bad_id, json!({}), 401, "unauthenticated"),
        ("cf_no", "PUT", bad_id, json!({}), 401, "unauthenticated"),
        (&auditor, "PUT", bad_id, json!({}), 403, "forbidden"),
        (&agent, "PUT", bad_id, json!({}), 400, "invalid-operation-id"),
        (&agent, "PUT", "/v1/operations/sk_live_4242424242424242", order(1), 400, "invalid-operation-id"),
        (&narrow, "PUT", PATH, json!({ "tool": "supplier.create_order" }), 400, "invalid-arguments"),
        (&agent, "POST", "/v1/operations/none/execute", json!({ "x": 1 }), 400, "invalid-request"),
        (&agent, "POST", "/v1/operations/none/execute", json!({}), 404, "unknown-operation"),
        (&auditor, "GET", "/v1/operations/none?wait_ms=120001", Value::Null, 400, "invalid-request"),
        // The stored tool before the intent, the named tool before it is looked for.
        (&narrow, "PUT", PATH, order(2), 403, "forbidden"),
        (&narrow, "PUT", "/v1/operations/new", unknown_tool(1), 403, "forbidden"),
        (&narrow, "GET", PATH, Value::Null, 403, "forbidden"),
        (&narrow, "POST", &format!("{PATH}/execute"), Value::Null, 403, "forbidden"),
        // The intent before the tool that is not there.
        (&agent, "PUT", PATH, unknown_tool(2), 422, "operation-id-reused"),
        (&agent, "GET", &format!("{PATH}/evidence"), Value::Null, 403, "forbidden"),
    ] {
        let reply = house.call(token, method, path, &body).await;
        assert_eq!(refused(&reply), (status, expected.to_owned()), "{method} {path} {body}");
        assert_eq!(reply.header("www-authenticate").is_some(), status == 401);
        assert_eq!(reply.value()["sent"], "no");
    }
    let secret = house.call(&agent, "GET", "/v1/operations/anna@example.com", &Value::Null).await;
    assert!(!secret.value().to_string().contains("anna"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_http_as_agreed_is_refused_with_a_problem() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent", "operator"]).await;
    let text = order(1).to_string();
    let put = async |kind: &str, body: &[u8]| house.send(&token, "PUT", PATH, kind, body).await;
    assert_eq!(code(&put("text/plain", text.as_bytes()).await), "unsupported-media-type");
    assert_eq!(
        code(&put("application/json; charset=latin1", text.as_bytes()).await),
        "unsupported-media-type"
    );
    let large = format!(r#"{{"tool":"mail.send","arguments":{{"a":"{}"}}}}"#, "x".repeat(256 * 1024));
    let reply = put("application/json", large.as_bytes()).await;
    assert_eq!(refused(&reply), (413, "too-large".to_owned()));
    let fits = format!(r#"{{"tool":"mail.send","arguments":{{"a":"{}"}}}}"#, "x".repeat(256 * 1024 - 8));
    assert_eq!(put("application/json", fits.as_bytes()).await.status, 201);
    let huge = vec![b' '; 1024 * 1024];
    assert_eq!(put("application/json", &huge).await.status, 413);
    let other = house.call(&token, "DELETE", PATH, &Value::Null).await;
    assert_eq!(refused(&other), (405, "method-not-allowed".to_owned()));
    let allowed = other.header("allow").unwrap();
    assert!(allowed.contains("PUT") && allowed.contains("GET"), "{allowed}");
    for path in [
        "/",
        "/v1",
        "/v1/operations/",
        "/v1/operations/a/b/c",
        "/v1/operations/a/reconcile",
        "/via/mail.send",
    ] {
        assert_eq!(refused(&house.call(&token, "POST", path, &json!({})).await).0, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_evidence_events_and_tools() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent", "auditor", "operator"]).await;
    for number in 1..=5_u32 {
        house.call(&token, "PUT", &format!("/v1/operations/op-{number}"), &order(number)).await;
    }
    house.call(&token, "POST", "/v1/operations/op-3/execute", &Value::Null).await;
    let page = house.get(&token, "/v1/operations?limit=2").await.value();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = house.get(&token, &format!("/v1/operations?limit=200&cursor={cursor}")).await.value();
    assert_eq!((next["items"].as_array().unwrap().len(), &next["next_cursor"]), (3, &Value::Null));
    let done = house.get(&token, "/v1/operations?state=succeeded").await.value();
    assert_eq!(done["items"][0]["id"], "op-3");
    assert_eq!(
        refused(&house.get(&token, "/v1/operations?cursor=nonsense").await),
        (400, "invalid-request".to_owned())
    );
    assert_eq!(house.get(&token, "/v1/operations?sort=id").await.status, 400);

    let evidence = house.get(&token, "/v1/operations/op-3/evidence").await.value();
    let kinds: Vec<&str> =
        evidence["items"].as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.first(), Some(&"prepared"));
    let row = &evidence["items"][1];
    assert!(row["digest"].as_str().unwrap().starts_with("sha256:") && row["data"].is_object(), "{row}");
    assert!(row["by"]["principal"].is_string() && row["by"]["kind"].is_string() && row["seq"].is_u64());

    let events = house.get(&token, "/v1/events?limit=3").await.value();
    let after = events["next_cursor"].as_str().unwrap().to_owned();
    assert_eq!(events["items"][2]["cursor"], after);
    let all = house.get(&token, "/v1/events?limit=200").await.value();
    let last = all["next_cursor"].as_str().unwrap().to_owned();
    let waited = format!("/v1/events?after={last}&wait_ms=10000");
    let change = order(77);
    let (waited, _) =
        tokio::join!(house.get(&token, &waited), house.call(&token, "PUT", "/v1/operations/late", &change));
    assert_eq!(waited.value()["items"][0]["operation_id"], "late");
    let quiet = house.get(&token, &format!("/v1/events?after={}&wait_ms=1", 1_000_000)).await.value();
    assert_eq!(quiet["items"], json!([]));

    let tools = house.get(&token, "/v1/tools").await.value();
    assert_eq!(tools["items"].as_array().unwrap().len(), 10, "an operator sees all of them");
    let paused = house.call(&token, "POST", "/v1/tools/mail.send/pause", &json!({ "note": "outage" })).await;
    assert_eq!((paused.status, &paused.value()["paused"][0]["note"]), (200, &json!("outage")));
    let mail = json!({ "tool": "mail.send", "arguments": {}, "execute": true, "wait_ms": 0 });
    let held = house.call(&token, "PUT", "/v1/operations/mail", &mail).await;
    assert_eq!((held.status, &held.value()["next"]["reason"]), (202, &json!("paused")));
    let resumed = house.call(&token, "POST", "/v1/tools/mail.send/resume", &json!({ "note": "over" })).await;
    assert_eq!(resumed.value()["paused"], json!([]));
    let done = house.call(&token, "POST", "/v1/operations/mail/execute", &Value::Null).await;
    assert_eq!(done.value()["state"], "succeeded", "{}", done.value());
    assert_eq!(refused(&house.get(&token, "/v1/tools/no.such").await), (404, "unknown-tool".to_owned()));
    assert_eq!(house.supplier.effect_count().unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_metrics_and_pages_need_no_token_here() {
    let house = House::build().await;
    for path in ["/healthz", "/readyz", "/openapi.json", "/problems", "/problems/outcome-unknown"] {
        assert_eq!(house.get("", path).await.status, 200, "{path}");
    }
    let token = house.token("kitchen", "planner", &["agent"]).await;
    house.call(&token, "PUT", "/v1/operations/secret-name", &order(1)).await;
    let text = String::from_utf8(house.get("", "/metrics").await.body).unwrap();
    assert!(
        text.contains(r#"counterfoil_http_requests_total{route="/v1/operations/{id}",status="201"} 1"#),
        "{text}"
    );
    assert!(
        text.contains(
            r#"counterfoil_operations{tool="supplier.create_order",state="prepared",held="false"} 1"#
        )
    );
    assert!(!text.contains("secret-name") && !text.contains("kitchen"), "no IDs, no accounts");
    for (name, _, _) in counterfoil_cli::api::metrics::FIGURES {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
    }
    // A proxy on this host speaks for somebody else.
    let forwarded = [("X-Forwarded-For", "203.0.113.9")];
    let reply = sim::wire::exchange(house.address, "GET", "/metrics", &forwarded, b"").await.unwrap();
    assert_eq!(reply.status, 401);
    house.drain();
}

/// Whatever the description names is served, and every reference in it leads somewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_description_and_the_routes_agree() {
    let house = House::build().await;
    let document = house.get("", "/openapi.json").await.value();
    let mut calls = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let path =
                path.replace("{id}", "a").replace("{name}", "mail.send").replace("{slug}", "forbidden");
            let reply = house.call("", &method.to_uppercase(), &path, &Value::Null).await;
            let expected = match operation.get("security") {
                Some(_) => 401,
                // A signature stands for the token, and no tool here hears webhooks.
                None if path.starts_with("/v1/evidence/") => 404,
                None => 200,
            };
            assert_eq!(reply.status, expected, "{method} {path}");
            calls += 1;
        }
        for method in ["PUT", "GET", "POST"] {
            let described = item.get(method.to_lowercase()).is_some();
            let path = path.replace(['{', '}'], "");
            let reply = house.call("", method, &path, &Value::Null).await;
            assert_eq!(reply.status == 405, !described, "{method} {path}");
        }
    }
    assert_eq!(calls, 28);
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
    }
}
