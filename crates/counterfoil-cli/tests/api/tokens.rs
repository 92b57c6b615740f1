//! Who may see what: accounts, revocation, expiry, guesses.

use std::time::Duration;

use counterfoil::store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use sim::supplier::Fault;

use super::support::{House, order, refused, with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_accounts_operation_answers_like_one_that_is_not_there() {
    let house = House::build().await;
    let ours = house.token("kitchen", "planner", &["agent", "approver", "auditor"]).await;
    let theirs = house.token("bakery", "planner", &["agent", "approver", "auditor"]).await;
    house.call(&ours, "PUT", "/v1/operations/mine", &with(order(1), json!({ "execute": true }))).await;
    let fingerprint = json!({ "fingerprint": format!("v1:{}", "0".repeat(64)) });
    for (method, action, body) in [
        ("GET", "", Value::Null),
        ("POST", "/execute", Value::Null),
        ("GET", "/evidence", Value::Null),
        ("POST", "/approve", fingerprint),
        ("POST", "/deny", json!({ "reason": "x" })),
        ("POST", "/withdraw", Value::Null),
    ] {
        let foreign = house.call(&theirs, method, &format!("/v1/operations/mine{action}"), &body).await;
        let absent = house.call(&theirs, method, &format!("/v1/operations/none{action}"), &body).await;
        assert_eq!(refused(&foreign), (404, "unknown-operation".to_owned()), "{method} {action}");
        assert_eq!(foreign.body, absent.body, "{method} {action}");
        let sizes = |reply: &sim::wire::Reply| reply.head_bytes(0).len();
        assert_eq!(sizes(&foreign), sizes(&absent));
    }
    let list = house.get(&theirs, "/v1/operations").await.value();
    assert_eq!(list["items"], json!([]));
    assert_eq!(house.get(&theirs, "/v1/events").await.value()["items"], json!([]));
    // The same ID is free in another account.
    let put = house.call(&theirs, "PUT", "/v1/operations/mine", &order(2)).await;
    assert_eq!((put.status, &put.value()["account"]), (201, &json!("bakery")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_revoked_by_another_process_is_refused_within_a_second() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let path = "/v1/operations/mine";
    let receipt = house.call(&token, "PUT", path, &with(order(1), json!({ "execute": true }))).await;
    assert_eq!(receipt.value()["state"], "succeeded");
    let other = {
        let ledger = house.folder.path().join("ledger.db");
        tokio::task::spawn_blocking(move || SqliteStore::open(ledger, SqliteOptions::default()))
            .await
            .unwrap()
            .unwrap()
    };
    assert_eq!(house.get(&token, path).await.status, 200);
    assert!(other.revoke_token(&token[3..15]).await.unwrap());
    tokio::time::sleep(Duration::from_millis(900)).await;
    let refusal = house.call(&token, "PUT", path, &with(order(1), json!({ "execute": true }))).await;
    assert_eq!(refused(&refusal), (401, "unauthenticated".to_owned()));
    assert!(refusal.value().get("receipt").is_none());
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_is_asked_for_the_token_again() {
    let house = House::build().await;
    let token = house.token("elsewhere", "planner", &["agent"]).await;
    house.supplier.fault(Fault::SlowReply(Duration::from_millis(1_500))).unwrap();
    let note =
        json!({ "tool": "private.note", "arguments": { "id": 7 }, "execute": true, "wait_ms": 20_000 });
    let waiting = house.call(&token, "PUT", "/v1/operations/mine", &note);
    let revoke = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        house.ledger.store().revoke_token(&token[3..15]).await.unwrap()
    };
    let (answer, revoked) = tokio::join!(waiting, revoke);
    assert!(revoked);
    assert_eq!(refused(&answer), (401, "unauthenticated".to_owned()));
    assert_eq!(answer.value()["sent"], "maybe", "an attempt was recorded by the call");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_expires_and_is_limited_to_its_tools() {
    let house = House::build().await;
    let now = house.ledger.store().now();
    let soon = now.plus(Duration::from_millis(300));
    let short = house.token_for("kitchen", "planner", &["agent"], &[], Some(soon)).await;
    assert_eq!(house.get(&short, "/v1/operations").await.status, 200);
    tokio::time::sleep(Duration::from_millis(350)).await;
    assert_eq!(house.get(&short, "/v1/operations").await.status, 401);
    let all = house.token("kitchen", "planner", &["agent", "auditor"]).await;
    let mail = house.token_for("kitchen", "postman", &["agent", "auditor"], &["mail.*"], None).await;
    house.call(&all, "PUT", "/v1/operations/order", &order(1)).await;
    let note = json!({ "tool": "mail.send", "arguments": {} });
    house.call(&all, "PUT", "/v1/operations/mail", &note).await;
    let ids = |list: Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        let name =
            |item: &Value| item.get("id").or(item.get("operation_id")).unwrap().as_str().unwrap().to_owned();
        items.iter().map(name).collect()
    };
    assert_eq!(ids(house.get(&mail, "/v1/operations").await.value()), ["mail"]);
    assert_eq!(ids(house.get(&mail, "/v1/events").await.value()), ["mail"]);
    let tools = house.get(&mail, "/v1/tools").await.value();
    assert_eq!(tools["items"].as_array().unwrap().len(), 1);
    assert_eq!(house.get(&mail, "/v1/tools/supplier.create_order").await.status, 403);
}

/// Ten thousand guesses at IDs: 404, then 429; each kind with one body, whatever was guessed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_are_counted_and_learn_nothing() {
    use tokio::io::AsyncWriteExt as _;
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let theirs = house.token("bakery", "planner", &["agent"]).await;
    house.call(&theirs, "PUT", "/v1/operations/guess-17", &order(1)).await;
    let bearer = format!("Bearer {token}");
    let mut bodies = std::collections::BTreeMap::<(u16, Vec<u8>), u32>::new();
    let mut stream = tokio::net::TcpStream::connect(house.address).await.unwrap();
    for number in 0..10_000 {
        let headers = [("Authorization", bearer.as_str())];
        let request =
            sim::wire::request_bytes("GET", &format!("/v1/operations/guess-{number}"), &headers, b"");
        stream.write_all(&request).await.unwrap();
        let reply = sim::wire::read_reply(&mut stream).await.unwrap();
        *bodies.entry((reply.status, reply.body)).or_default() += 1;
    }
    let statuses: Vec<u16> = bodies.keys().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [404, 429], "one body for each");
    for _ in 0..200 {
        house.get("cf_0123456789abcdef0123456789abcdef0123456789a", "/v1/operations").await;
    }
    let guess = house.get(&format!("cf_{}", "0".repeat(43)), "/v1/operations").await;
    assert_eq!((guess.status, guess.header("retry-after")), (429, Some("1")));
    assert_eq!(house.get(&theirs, "/v1/operations/guess-17").await.status, 200, "others are not held up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_how_every_account_stands_and_nothing_else() {
    let house = House::build().await;
    for account in ["kitchen", "bakery"] {
        let agent = house.token(account, "planner", &["agent"]).await;
        let done = house
            .call(&agent, "PUT", "/v1/operations/mine", &with(order(1), json!({ "execute": true })))
            .await;
        assert_eq!(done.value()["state"], "succeeded");
    }
    let operator = house.token("kitchen", "root", &["operator"]).await;
    let list = house.get(&operator, "/v1/operations").await;
    let items = list.value()["items"].as_array().unwrap().clone();
    let accounts: Vec<_> = items.iter().map(|item| item["account"].as_str().unwrap()).collect();
    assert_eq!(accounts.len(), 2);
    assert!(accounts.contains(&"kitchen") && accounts.contains(&"bakery"));
    for item in items.iter().chain([&house.get(&operator, "/v1/operations/mine").await.value()]) {
        assert_eq!(item["state"], "succeeded");
        assert_eq!(item["arguments"], json!({ "redacted": true }));
        assert_eq!((&item["receipt"], &item["accepted_by"]), (&Value::Null, &Value::Null));
        assert_eq!(item["next"]["message"], "Done.");
    }
    // A search for a reference would tell whether a receipt names it; a change is not an operator's at all.
    assert_eq!(
        refused(&house.get(&operator, "/v1/operations?reference=po_1").await),
        (403, "forbidden".to_owned())
    );
    let put = house.call(&operator, "PUT", "/v1/operations/other", &order(1)).await;
    assert_eq!(refused(&put), (403, "forbidden".to_owned()));
    assert_eq!(
        refused(&house.get(&operator, "/v1/operations/mine/evidence").await),
        (403, "forbidden".to_owned())
    );
}
