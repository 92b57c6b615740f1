//! What each flavour does with a repeat, and what the search finds.

#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod support;

use std::time::Duration;

use sim::supplier::{Fault, Flavour, Supplier, SupplierOptions, read_effects};
use sim::wire::exchange;
use support::{find, kind, order, post, supplier};

fn dedupe(retention: Option<Duration>, stored_errors: bool) -> Flavour {
    Flavour::Dedupe { key_header: "Idempotency-Key".to_owned(), retention, stored_errors }
}

#[tokio::test]
async fn a_deduping_supplier_repeats_its_answer_and_refuses_another_body() {
    let supplier = supplier(Flavour::dedupe());
    supplier.fault(Fault::ReplyDropped).unwrap();
    kind(order(supplier.addr(), "a").await);
    let reply = order(supplier.addr(), "a").await.unwrap();
    assert_eq!((reply.status, reply.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!(reply.value()["id"], supplier.effects().unwrap()[0].order);
    let other = post(supplier.addr(), "/orders", "a", r#"{"sku":"salt"}"#).await.unwrap();
    assert_eq!(other.status, 422);
    let same = String::from_utf8(supplier.effects().unwrap()[0].body.clone()).unwrap();
    assert_eq!(post(supplier.addr(), "/tools/mail", "a", &same).await.unwrap().status, 422, "another path");
    assert_eq!(supplier.effect_count().unwrap(), 1);
    assert_eq!(supplier.request_count(), 4);
}

#[tokio::test]
async fn keys_are_forgotten_when_told_and_at_the_end_of_their_retention() {
    let hour = Duration::from_secs(3_600);
    let supplier = supplier(dedupe(Some(hour), false));
    order(supplier.addr(), "a").await.unwrap();
    supplier.advance(hour / 2);
    order(supplier.addr(), "a").await.unwrap();
    assert_eq!(supplier.effect_count().unwrap(), 1);
    supplier.advance(hour / 2);
    order(supplier.addr(), "a").await.unwrap();
    assert_eq!(supplier.effects_for("a").unwrap().len(), 2, "counted from the first arrival");
    supplier.forget_keys().unwrap();
    order(supplier.addr(), "a").await.unwrap();
    assert_eq!(supplier.effect_count().unwrap(), 3);
}

#[tokio::test]
async fn an_error_is_stored_with_the_key_only_where_errors_are_stored() {
    for (stored_errors, again) in [(true, 503), (false, 201)] {
        for (fault, effects) in [(Fault::Status(503), 0), (Fault::StatusAfterEffect(503), 1)] {
            let supplier = supplier(dedupe(None, stored_errors));
            supplier.fault(fault.clone()).unwrap();
            assert_eq!(order(supplier.addr(), "a").await.unwrap().status, 503);
            assert_eq!(supplier.effect_count().unwrap(), effects);
            assert_eq!(
                order(supplier.addr(), "a").await.unwrap().status,
                again,
                "{fault:?}, stored: {stored_errors}"
            );
            let left = if stored_errors { effects } else { 1 };
            assert_eq!(supplier.effect_count().unwrap(), left, "{fault:?}, stored: {stored_errors}");
        }
    }
    let supplier = supplier(dedupe(None, true));
    supplier.fault(Fault::RetryAfter(429, 1)).unwrap();
    assert_eq!(order(supplier.addr(), "a").await.unwrap().status, 429);
    assert_eq!(order(supplier.addr(), "a").await.unwrap().status, 201, "come back later is not an outcome");
}

#[tokio::test]
async fn a_key_may_come_in_the_query_the_body_or_the_path() {
    let flavour =
        Flavour::Dedupe { key_header: "/meta/key".to_owned(), retention: None, stored_errors: false };
    let body = supplier(flavour);
    for _ in 0..2 {
        post(body.addr(), "/tools/x", "ignored", r#"{"meta":{"key":"k1"}}"#).await.unwrap();
    }
    assert_eq!(body.effects_for("k1").unwrap().len(), 1);

    let rest = supplier(Flavour::dedupe());
    for target in ["/tools/x?Idempotency-Key=k%202", "/tools/x?Idempotency-Key=k+2"] {
        exchange(rest.addr(), "POST", target, &[], b"{}").await.unwrap();
    }
    assert_eq!(rest.effects_for("k 2").unwrap().len(), 1);
    for _ in 0..2 {
        exchange(rest.addr(), "PUT", "/orders/k3", &[], b"{}").await.unwrap();
    }
    assert_eq!(rest.effects_for("k3").unwrap().len(), 1);
}

#[tokio::test]
async fn a_forgetful_supplier_makes_an_effect_of_everything() {
    let supplier = supplier(Flavour::Forgetful);
    for _ in 0..3 {
        assert_eq!(order(supplier.addr(), "a").await.unwrap().status, 201);
    }
    let effects = supplier.effects_for("a").unwrap();
    assert_eq!(effects.len(), 3);
    assert_eq!((effects[0].key.as_deref(), effects[0].reference.as_deref()), (Some("a"), Some("a")));
    assert_eq!(find(supplier.addr(), "a").await, ["po_000001", "po_000002", "po_000003"]);
}

#[tokio::test]
async fn a_unique_reference_is_taken_once() {
    let supplier = supplier(Flavour::UniqueReference);
    assert_eq!(order(supplier.addr(), "a").await.unwrap().status, 201);
    let again = order(supplier.addr(), "a").await.unwrap();
    assert_eq!(again.status, 409);
    assert_eq!(again.value(), serde_json::json!({ "error": { "code": "already_exists" } }));
    assert_eq!(order(supplier.addr(), "b").await.unwrap().status, 201);
    assert_eq!(supplier.effect_count().unwrap(), 2);
}

#[tokio::test]
async fn many_repeats_at_once_are_one_effect() {
    let supplier = supplier(Flavour::dedupe());
    let address = supplier.addr();
    let calls: Vec<_> = (0..50).map(|_| tokio::spawn(async move { order(address, "a").await })).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status, 201);
    }
    assert_eq!((supplier.effect_count().unwrap(), supplier.connection_count()), (1, 50));
}

#[tokio::test]
async fn the_search_is_late_by_its_lag() {
    let mut options = SupplierOptions::new(Flavour::Forgetful);
    options.search_lag = Duration::from_secs(60);
    let supplier = Supplier::start(options).unwrap();
    supplier.advance(Duration::from_secs(3_600));
    order(supplier.addr(), "a").await.unwrap();
    assert_eq!(find(supplier.addr(), "a").await.len(), 0);
    supplier.advance(Duration::from_secs(61));
    assert_eq!(find(supplier.addr(), "a").await, ["po_000001"]);
    let one = exchange(supplier.addr(), "GET", "/orders/po_000001", &[], b"").await.unwrap();
    assert_eq!((one.status, one.value()["order"]["sku"].as_str()), (200, Some("flour-25kg")));
    assert_eq!(exchange(supplier.addr(), "GET", "/orders/po_9", &[], b"").await.unwrap().status, 404);
}

#[tokio::test]
async fn effects_and_keys_survive_a_restart_on_the_same_port() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("supplier.db");
    let mut options = SupplierOptions::new(Flavour::dedupe()).with_database(&file);
    let first = Supplier::start(options.clone()).unwrap();
    order(first.addr(), "a").await.unwrap();
    options.port = first.addr().port();
    drop(first);
    assert_eq!(
        kind(order(([127, 0, 0, 1], options.port).into(), "a").await),
        std::io::ErrorKind::ConnectionRefused
    );

    let second = Supplier::start(options).unwrap();
    let replayed = order(second.addr(), "a").await.unwrap();
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    order(second.addr(), "b").await.unwrap();
    assert_eq!(read_effects(&file).unwrap(), second.effects().unwrap());
    assert_eq!(second.effect_count().unwrap(), 2);
}

#[tokio::test]
async fn a_kept_connection_carries_several_requests() {
    use sim::wire::{read_reply, request_bytes};
    use tokio::io::AsyncWriteExt;

    let supplier = supplier(Flavour::Forgetful);
    let mut stream = tokio::net::TcpStream::connect(supplier.addr()).await.unwrap();
    for _ in 0..3 {
        stream.write_all(&request_bytes("POST", "/orders", &[], b"{}")).await.unwrap();
        assert_eq!(read_reply(&mut stream).await.unwrap().status, 201);
    }
    let seen = supplier.requests();
    assert_eq!(seen.iter().map(|request| request.connection).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(supplier.effect_count().unwrap(), 3);
}
