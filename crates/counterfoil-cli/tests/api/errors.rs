//! Every problem, provoked once: the page `docs/use/errors.md` shows the real answers. `UPDATE_ARTEFACTS=1` rewrites it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use counterfoil::faults::{Action, Fault as Failure, Faults};
use counterfoil::ledger::LedgerOptions;
use counterfoil_cli::problems::CATALOGUE;
use serde_json::{Value, json};
use sim::supplier::Fault;
use sim::wire::Reply;

use super::support::{House, code, order, with};

/// What no answer of this server has: the first three belong to transparent mode, which is not in this version, and a
/// cursor is refused as `invalid-request` over HTTP.
const ELSEWHERE: [&str; 4] =
    ["idempotency-key-required", "response-not-kept", "outcome-unknown", "invalid-cursor"];

const INTRODUCTION: &str = "\
# Errors, each with an example

Every refusal is `application/problem+json` with a stable `type`, a `hint`, and `sent`: `no` where it is known that no \
attempt was recorded, `maybe` otherwise. A client of this product gives it as an error with the same name; \
`counterfoil explain NAME` prints what it means and what to do, and a server has the same page at `doc`.

None of them is a reason to try again with a new operation ID. With the same ID it is always safe.

The answers below are real: a test provokes each of them and compares this page. Instants are replaced.
";

/// The examples so far.
#[derive(Default)]
struct Examples {
    shown: BTreeMap<String, String>,
}

impl Examples {
    /// The example of a problem: what was asked and what was answered.
    fn add(&mut self, slug: &str, asked: &str, reply: &Reply) {
        assert_eq!(code(reply), slug, "{}", reply.value());
        let mut answer = reply.value();
        settle(&mut answer);
        let answer = serde_json::to_string_pretty(&answer).unwrap();
        let text = format!("```\n{asked}\n```\n\n```json\n{answer}\n```\n");
        assert!(self.shown.insert(slug.to_owned(), text).is_none(), "two examples of {slug}");
    }

    fn page(&self) -> String {
        let mut page = INTRODUCTION.to_owned();
        for problem in CATALOGUE.iter().filter(|problem| !ELSEWHERE.contains(&problem.slug)) {
            let example = self.shown.get(problem.slug).unwrap_or_else(|| panic!("no {}", problem.slug));
            write!(page, "\n## {} `{}`\n\n{}\n\n{example}", problem.status, problem.slug, problem.hint)
                .unwrap();
        }
        page
    }
}

/// Instants differ from run to run.
fn settle(value: &mut Value) {
    match value {
        Value::String(text) if text.len() == 24 && text.ends_with('Z') && text.get(10..11) == Some("T") => {
            "2026-11-30T09:00:00.000Z".clone_into(text);
        }
        // "… it was sent at 09:14:33 UTC …"
        Value::String(text) if text.contains(" UTC") => {
            if let Some(at) = text.find(" UTC").and_then(|end| end.checked_sub(8)) {
                text.replace_range(at..at + 8, "09:00:00");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Object(members) => members.values_mut().for_each(settle),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A caller whose refusals become examples.
struct Caller<'h> {
    house: &'h House,
    token: String,
}

impl Caller<'_> {
    async fn call(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.house.call(&self.token, method, path, body).await
    }

    async fn put(&self, id: &str, body: &Value) -> Value {
        let reply = self.call("PUT", &format!("/v1/operations/{id}"), body).await;
        assert!(reply.status < 300, "{id}: {}", reply.value());
        reply.value()
    }

    /// Says it and keeps the refusal.
    async fn refused(&self, examples: &mut Examples, slug: &str, method: &str, path: &str, body: &Value) {
        let reply = self.call(method, path, body).await;
        let asked = if body.is_null() { String::new() } else { format!("\n{body}") };
        examples.add(slug, &format!("{method} {path}{asked}"), &reply);
    }
}

fn mail(text: &str) -> Value {
    json!({ "tool": "mail.send", "arguments": { "text": text }, "execute": true, "wait_ms": 5_000 })
}

fn books(id: u32) -> Value {
    json!({ "tool": "books.post", "arguments": { "entry": id } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_problem_has_an_example() {
    let house = House::build().await;
    let by = async |name: &str, roles: &[&str]| Caller {
        house: &house,
        token: house.token("kitchen", name, roles).await,
    };
    let app = by("app", &["agent"]).await;
    let person = by("person", &["approver", "operator"]).await;
    let hand = by("hand", &["worker"]).await;
    let nobody = Caller { house: &house, token: String::new() };
    let none = Value::Null;
    let mut seen = Examples::default();
    let examples = &mut seen;

    // What cannot be read, or is nobody's.
    let wrong = json!({ "tool": "supplier.create_order", "argumnets": {} });
    app.refused(examples, "invalid-request", "PUT", "/v1/operations/order-1", &wrong).await;
    let anna = "/v1/operations/anna@example.com";
    app.refused(examples, "invalid-operation-id", "PUT", anna, &order(1)).await;
    let twice = r#"{"tool":"supplier.create_order","arguments":{"sku":"rye","sku":"oats"}}"#;
    let reply =
        house.send(&app.token, "PUT", "/v1/operations/order-1", "application/json", twice.as_bytes()).await;
    examples.add("invalid-arguments", &format!("PUT /v1/operations/order-1\n{twice}"), &reply);
    nobody.refused(examples, "unauthenticated", "GET", "/v1/operations/order-1", &none).await;
    hand.refused(examples, "forbidden", "PUT", "/v1/operations/order-1", &order(1)).await;
    app.refused(examples, "not-found", "GET", "/v2/operations", &none).await;
    app.refused(examples, "unknown-operation", "GET", "/v1/operations/order-0", &none).await;
    let other = json!({ "tool": "supplier.cancel_everything", "arguments": {} });
    app.refused(examples, "unknown-tool", "PUT", "/v1/operations/order-1", &other).await;
    app.refused(examples, "method-not-allowed", "DELETE", "/v1/tools", &none).await;
    let text = r#"tool=supplier.create_order"#;
    let reply = house.send(&app.token, "PUT", "/v1/operations/order-1", "text/plain", text.as_bytes()).await;
    let asked = format!("PUT /v1/operations/order-1\nContent-Type: text/plain\n{text}");
    examples.add("unsupported-media-type", &asked, &reply);
    let large = json!({ "tool": "supplier.create_order", "arguments": { "text": "x".repeat(300 * 1024) } });
    let reply = app.call("PUT", "/v1/operations/order-1", &large).await;
    let asked = "PUT /v1/operations/order-1\n{\"tool\":\"supplier.create_order\",\"arguments\":{\"text\":\"… 300 KiB …\"}}";
    examples.add("too-large", asked, &reply);

    // The same ID, another intent; the same intent, another ID.
    app.put("order-1", &with(order(10), json!({ "execute": true }))).await;
    app.refused(examples, "operation-id-reused", "PUT", "/v1/operations/order-1", &order(12)).await;
    app.refused(examples, "wrong-state", "POST", "/v1/operations/order-1/withdraw", &none).await;
    app.put("mail-2", &with(mail("ready at six"), json!({ "execute": false, "wait_ms": 0 }))).await;
    house.supplier.fault(Fault::ReplyDropped).unwrap();
    assert_eq!(app.put("mail-1", &mail("ready at six")).await["state"], "unknown");
    let again = json!({ "tool": "mail.send", "arguments": { "text": "ready at six" } });
    app.refused(examples, "action-unresolved", "PUT", "/v1/operations/mail-3", &again).await;
    app.refused(examples, "blocked-by-operation", "POST", "/v1/operations/mail-2/execute", &none).await;
    assert_eq!(house.supplier.effect_count().unwrap(), 2, "one order, one mail");

    // A changed proposal.
    app.put("draft-1", &order(20)).await;
    app.put("draft-2", &with(order(21), json!({ "replaces": "draft-1" }))).await;
    let third = with(order(22), json!({ "replaces": "draft-1" }));
    app.refused(examples, "already-replaced", "PUT", "/v1/operations/draft-3", &third).await;

    // People.
    let big = json!({ "tool": "supplier.big_order", "arguments": { "sku": "flour-25kg", "quantity": 500 } });
    let asked = app.put("big-1", &big).await;
    app.refused(examples, "approval-required", "POST", "/v1/operations/big-1/execute", &none).await;
    let approve = "/v1/operations/big-1/approve";
    let shown = json!({ "fingerprint": format!("v1:{}", "0".repeat(64)) });
    person.refused(examples, "fingerprint-mismatch", "POST", approve, &shown).await;
    let stale = json!({ "fingerprint": asked["fingerprint"], "if_version": 99 });
    person.refused(examples, "changed-meanwhile", "POST", approve, &stale).await;
    let absent = json!({ "verdict": "confirmed_absent", "note": "not in the portal" });
    person.refused(examples, "too-early", "POST", "/v1/operations/mail-1/resolve", &absent).await;

    // Workers.
    let claim = |id: &str| json!({ "worker": "hand-1", "lease_ms": 30_000, "claim_id": id });
    app.put("entry-1", &books(1)).await;
    let granted = hand.call("POST", "/v1/operations/entry-1/claim", &claim("first")).await.value();
    let path = "/v1/operations/entry-1/claim";
    hand.refused(examples, "in-progress", "POST", path, &claim("second")).await;
    let stale = json!({ "fencing_token": 99, "outcome": "rejected", "reason": "no such account" });
    let outcome = format!("/v1/operations/entry-1/attempts/{}/outcome", granted["attempt"]);
    hand.refused(examples, "stale-claim", "POST", &outcome, &stale).await;
    app.put("order-2", &order(2)).await;
    let path = "/v1/operations/order-2/claim";
    hand.refused(examples, "not-a-worker-tool", "POST", path, &claim("third")).await;
    app.put("entry-2", &books(2)).await;
    let path = "/v1/operations/entry-2/claim";
    let stated = with(claim("fourth"), json!({ "declaration": { "recovery": { "authoritative": false } } }));
    hand.refused(examples, "declaration-mismatch", "POST", path, &stated).await;
    let note = json!({ "note": "the bookkeeper asks to wait" });
    assert_eq!(person.call("POST", "/v1/tools/books.post/pause", &note).await.status, 200);
    hand.refused(examples, "paused", "POST", path, &claim("fifth")).await;

    // Webhooks.
    let event = json!({ "type": "order.created" });
    nobody.refused(examples, "bad-signature", "POST", "/v1/evidence/heard.order", &event).await;
    nobody.refused(examples, "internal-error", "POST", "/v1/evidence/deaf.order", &event).await;

    // Time.
    app.put("short-1", &json!({ "tool": "short.note", "arguments": {}, "execute": true })).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    app.refused(examples, "receipt-expired", "GET", "/v1/operations/short-1", &none).await;
    let guess = Caller { house: &house, token: format!("cf_{}", "a".repeat(43)) };
    let refused = async {
        loop {
            let reply = guess.call("GET", "/v1/operations/order-1", &none).await;
            if reply.status != 401 {
                return reply;
            }
        }
    };
    let refused = tokio::time::timeout(Duration::from_secs(60), refused).await.unwrap();
    examples.add("too-many-requests", "GET /v1/operations/order-1\n(after many wrong tokens)", &refused);

    the_stores_own(examples).await;
    restored(examples).await;
    committed(&seen.page());
}

/// A disk without room, and a commit that nobody can tell the end of.
async fn the_stores_own(examples: &mut Examples) {
    for (failure, slug) in [(Failure::IoLate, "store-unavailable"), (Failure::Full, "store-full")] {
        let faults = Arc::new(Faults::default());
        let mut options = LedgerOptions::default();
        options.store.faults = faults.clone();
        let house = House::with_options(options).await;
        let token = house.token("kitchen", "app", &["agent"]).await;
        faults.arm("commit", 1, 1, Action::Fail(failure));
        let caller = Caller { house: &house, token };
        caller.refused(examples, slug, "PUT", "/v1/operations/order-1", &order(1)).await;
    }
}

/// A ledger whose mark is gone may be an older copy.
async fn restored(examples: &mut Examples) {
    let house = House::build().await;
    let token = house.token("kitchen", "app", &["agent"]).await;
    let body = with(order(1), json!({ "execute": true }));
    assert_eq!(house.call(&token, "PUT", "/v1/operations/order-1", &body).await.status, 200);
    let folder = house.close().await;
    std::fs::remove_file(folder.path().join("ledger.db.mark")).unwrap();
    let house = House::in_folder(folder, LedgerOptions::default()).await;
    let caller = Caller { house: &house, token };
    caller.refused(examples, "ledger-restored", "GET", "/v1/operations/order-2", &Value::Null).await;
}

fn committed(made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/use/errors.md");
    if std::env::var_os("UPDATE_ARTEFACTS").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "docs/use/errors.md is not what the server answers; UPDATE_ARTEFACTS=1 rewrites it"
    );
}
