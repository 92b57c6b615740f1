//! Callers that hang up, many callers at once, a server that ends, streams.

use std::sync::Arc;
use std::time::Duration;

use counterfoil::faults::{Action, Fault as Failure, Faults};
use counterfoil::ledger::LedgerOptions;
use serde_json::{Value, json};
use sim::supplier::{Fault, Point};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::support::{House, order, refused, with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_hangs_up_changes_nothing() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let body = with(order(1), json!({ "execute": true })).to_string();
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    for number in 0..20 {
        house.supplier.fault(Fault::SlowReply(Duration::from_millis(30))).unwrap();
        let path = format!("/v1/operations/gone-{number}");
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        stream.write_all(&sim::wire::request_bytes("PUT", &path, &headers, body.as_bytes())).await.unwrap();
        // At another point of the call each time.
        tokio::time::sleep(Duration::from_micros(300 * number)).await;
        drop(stream);
        let done = house.call(&token, "PUT", &path, &with(order(1), json!({ "execute": true }))).await;
        assert_eq!((done.status, &done.value()["state"]), (200, &json!("succeeded")), "{}", done.value());
        assert_eq!(
            done.value()["attempts"].as_array().unwrap().len(),
            1,
            "no attempt was left without a sender"
        );
    }
    assert_eq!(house.supplier.effect_count().unwrap(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_callers_at_once_get_one_receipt() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let body = with(order(1), json!({ "execute": true }));
    let call = || house.call(&token, "PUT", "/v1/operations/one", &body);
    let (a, b, c, d, e, f, g, h) =
        tokio::join!(call(), call(), call(), call(), call(), call(), call(), call());
    let receipt = a.value()["receipt"].clone();
    assert!(receipt.is_object());
    for reply in [b, c, d, e, f, g, h] {
        assert_eq!((reply.status, &reply.value()["receipt"]), (200, &receipt));
    }
    assert_eq!(house.supplier.effect_count().unwrap(), 1);
    assert_eq!(house.supplier.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_operation_is_run_by_a_put_that_wants_it() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    house.call(&token, "PUT", "/v1/operations/one", &order(1)).await;
    let body = with(order(1), json!({ "execute": true }));
    let done = house.call(&token, "PUT", "/v1/operations/one", &body).await;
    let value = done.value();
    assert_eq!((done.status, &value["state"], &value["replayed"]), (200, &json!("succeeded"), &json!(false)));
    assert_eq!(house.supplier.effect_count().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_answers_who_waits_and_loses_no_outcome() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let gate = house.supplier.hold(Point::EffectCommitted, sim::supplier::Target::Writes);
    let body = with(order(1), json!({ "execute": true, "wait_ms": 60_000 }));
    let call = house.call(&token, "PUT", "/v1/operations/one", &body);
    let ending = async {
        house.supplier.wait_for(Point::EffectCommitted, 1).await.unwrap();
        house.drain();
    };
    let (answer, ()) = tokio::join!(call, ending);
    assert_eq!((answer.status, &answer.value()["state"]), (202, &json!("in_progress")));
    // The last waiter is answered before the listener has closed its port, which is a task of its own.
    let closed = async {
        while TcpStream::connect(house.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let closed = tokio::time::timeout(Duration::from_secs(10), closed).await;
    assert!(closed.is_ok(), "no further calls are taken");
    drop(gate);
    house.supplier.release();
    assert!(house.executor.drain(Duration::from_secs(10)).await);
    let caller = counterfoil::caller::Caller {
        account: counterfoil::Account::parse("kitchen").unwrap(),
        principal: counterfoil::Principal::parse("planner").unwrap(),
        roles: counterfoil::caller::Roles::all(),
        tools: Vec::new(),
    };
    let id = counterfoil::OperationId::parse("one").unwrap();
    let view = house.ledger.find(&caller, &id).await.unwrap();
    assert_eq!(view.operation.state.label(), "succeeded");
    assert_eq!(house.supplier.effect_count().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_events_goes_on_after_its_last_id_and_ends_with_its_token() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    house.call(&token, "PUT", "/v1/operations/one", &order(1)).await;
    let bearer = format!("Bearer {token}");
    let open = async |last: &str| {
        let headers =
            [("Authorization", bearer.as_str()), ("Accept", "text/event-stream"), ("Last-Event-ID", last)];
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        stream.write_all(&sim::wire::request_bytes("GET", "/v1/events", &headers, b"")).await.unwrap();
        stream
    };
    let until = async |stream: &mut TcpStream, text: &str| {
        let mut seen = String::new();
        let mut buffer = [0; 4096];
        while !seen.contains(text) {
            let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut buffer))
                .await
                .unwrap()
                .unwrap();
            assert!(read > 0, "the stream ended before {text}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        seen
    };
    let mut stream = open("0").await;
    let seen = until(&mut stream, "\"operation_id\":\"one\"").await;
    let id = seen.split("\nid: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    house.call(&token, "PUT", "/v1/operations/two", &order(2)).await;
    until(&mut stream, "\"operation_id\":\"two\"").await;
    let mut resumed = open(&id).await;
    let seen = until(&mut resumed, "\"operation_id\":\"two\"").await;
    assert!(!seen.contains("\"operation_id\":\"one\""), "{seen}");
    house.ledger.store().revoke_token(&token[3..15]).await.unwrap();
    // The last chunk: a revoked token ends its stream.
    until(&mut stream, "0\r\n\r\n").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_hold_nothing_up() {
    let house = House::build().await;
    let token = house.token("kitchen", "planner", &["agent"]).await;
    let big = json!({ "tool": "supplier.big_order", "arguments": { "n": 1 } });
    house.call(&token, "PUT", "/v1/operations/waits", &big).await;
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str())];
    let mut waiters = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        let path = "/v1/operations/waits?wait_ms=60000";
        stream.write_all(&sim::wire::request_bytes("GET", path, &headers, b"")).await.unwrap();
        waiters.push(stream);
    }
    for number in 0..20 {
        assert_eq!(
            house.call(&token, "PUT", &format!("/v1/operations/n{number}"), &order(number)).await.status,
            201
        );
    }
    house.call(&token, "POST", "/v1/operations/waits/withdraw", &Value::Null).await;
    for mut stream in waiters {
        let reply = sim::wire::read_reply(&mut stream).await.unwrap();
        assert_eq!((reply.status, &reply.value()["state"]), (200, &json!("rejected")));
    }
}

/// An error at the commit leaves open whether it is durable: nobody is told that nothing was sent, and nothing is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_in_doubt_is_answered_with_maybe() {
    for (failure, status, sent) in
        [(Failure::IoLate, "store-unavailable", "maybe"), (Failure::Full, "store-full", "no")]
    {
        let faults = Arc::new(Faults::default());
        let mut options = LedgerOptions::default();
        options.store.faults = faults.clone();
        let house = House::with_options(options).await;
        let token = house.token("kitchen", "planner", &["agent"]).await;
        faults.arm("commit", 1, 1, Action::Fail(failure));
        let body = with(order(1), json!({ "execute": true }));
        let answer = house.call(&token, "PUT", "/v1/operations/one", &body).await;
        assert_eq!(refused(&answer), (503, status.to_owned()));
        assert_eq!((&answer.value()["sent"], answer.header("retry-after")), (&json!(sent), Some("1")));
        assert!(!answer.value().to_string().contains("ledger.db"), "no paths");
        let ready = house.get("", "/readyz").await.status;
        assert_eq!(ready, if failure == Failure::IoLate { 503 } else { 200 });
        if failure == Failure::Full {
            assert_eq!(house.call(&token, "PUT", "/v1/operations/one", &body).await.status, 200);
        }
        assert_eq!(house.supplier.request_count(), u64::from(failure == Failure::Full));
    }
}
