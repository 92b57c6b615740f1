//! Each fault: what the client sees, and how many effects there are.

#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod support;

use std::io::ErrorKind;
use std::time::Duration;

use sim::supplier::{Fault, Flavour, Later, Point, RandomFaults, Supplier, SupplierOptions, Target};
use sim::wire::{Reply, exchange};
use support::{find, kind, order, supplier};

/// The first call is struck; the second, to a forgetful supplier, is not. So the effects are one more
/// than the fault left behind.
async fn struck(fault: Fault) -> (std::io::Result<Reply>, usize) {
    let supplier = supplier(Flavour::Forgetful);
    supplier.fault(fault.clone()).unwrap();
    let result = order(supplier.addr(), "first").await;
    let effects = supplier.effect_count().unwrap();
    assert_eq!(effects == 1, fault.has_effect(), "{fault:?} does what it says");
    assert_eq!(supplier.faults_struck(), [(1, fault)]);
    assert_eq!(supplier.faults_pending(), 0);
    assert_eq!(order(supplier.addr(), "second").await.unwrap().status, 201, "the next request is well");
    assert_eq!(supplier.effect_count().unwrap(), effects + 1);
    (result, effects)
}

#[tokio::test]
async fn a_request_closed_before_it_is_read_has_no_effect_and_was_not_seen() {
    let supplier = supplier(Flavour::Forgetful);
    supplier.fault(Fault::CloseBeforeRead).unwrap();
    let error = kind(order(supplier.addr(), "a").await);
    assert!(
        matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof),
        "{error}"
    );
    assert_eq!((supplier.effect_count().unwrap(), supplier.request_count()), (0, 0));
    assert_eq!(supplier.connection_count(), 1);
}

#[tokio::test]
async fn a_reset_after_the_head_leaves_the_body_unread() {
    let supplier = supplier(Flavour::Forgetful);
    supplier.fault(Fault::ResetAfterHeadersRead).unwrap();
    assert_eq!(kind(order(supplier.addr(), "a").await), ErrorKind::ConnectionReset);
    assert_eq!(supplier.effect_count().unwrap(), 0);
    let seen = supplier.requests();
    assert_eq!((seen.len(), seen[0].complete, seen[0].body.len()), (1, false, 0));
}

#[tokio::test]
async fn faults_before_the_effect() {
    let (result, effects) = struck(Fault::RequestLost).await;
    assert_eq!((kind(result), effects), (ErrorKind::UnexpectedEof, 0));

    let (result, effects) = struck(Fault::Status(503)).await;
    assert_eq!((result.unwrap().status, effects), (503, 0));

    let (result, effects) = struck(Fault::RetryAfter(429, 2)).await;
    let reply = result.unwrap();
    assert_eq!((reply.status, reply.header("retry-after"), effects), (429, Some("2"), 0));

    let (result, effects) = struck(Fault::Redirect(307, "http://127.0.0.1:9/x".to_owned())).await;
    let reply = result.unwrap();
    assert_eq!((reply.status, reply.header("location"), effects), (307, Some("http://127.0.0.1:9/x"), 0));
}

#[tokio::test]
async fn faults_of_the_connection_after_the_effect() {
    let (result, effects) = struck(Fault::ReplyDropped).await;
    assert_eq!((kind(result), effects), (ErrorKind::UnexpectedEof, 1));

    let (result, effects) = struck(Fault::ReplyReset).await;
    assert_eq!((kind(result), effects), (ErrorKind::ConnectionReset, 1));

    let (result, effects) = struck(Fault::TruncatedBody).await;
    assert_eq!((kind(result), effects), (ErrorKind::UnexpectedEof, 1));
}

#[tokio::test]
async fn faults_of_the_answer_after_the_effect() {
    let (result, effects) = struck(Fault::StatusAfterEffect(503)).await;
    assert_eq!((result.unwrap().status, effects), (503, 1));

    let (result, effects) = struck(Fault::GarbageBody).await;
    let reply = result.unwrap();
    assert_eq!((reply.status, reply.header("content-type"), effects), (201, Some("application/json"), 1));
    assert!(serde_json::from_slice::<serde_json::Value>(&reply.body).is_err());

    let (result, effects) = struck(Fault::WrongContentType).await;
    let reply = result.unwrap();
    assert_eq!((reply.status, reply.header("content-type"), effects), (201, Some("text/html"), 1));

    let (result, effects) = struck(Fault::EmptyBody).await;
    let reply = result.unwrap();
    assert_eq!((reply.status, reply.body.len(), effects), (201, 0, 1));

    let (result, effects) = struck(Fault::NoContent204).await;
    assert_eq!((result.unwrap().status, effects), (204, 1));

    let (result, effects) = struck(Fault::SlowReply(Duration::from_millis(5))).await;
    assert_eq!((result.unwrap().status, effects), (201, 1));

    let (result, effects) = struck(Fault::CloseAfterReply).await;
    assert_eq!((result.unwrap().status, effects), (201, 1));

    let (result, effects) = struck(Fault::HugeBody(1_000_003)).await;
    let reply = result.unwrap();
    assert_eq!((reply.body.len(), effects), (1_000_003, 1));
    assert!(reply.value()["filler"].is_string(), "still JSON");
}

#[tokio::test]
async fn an_answer_of_ones_own_with_and_without_effect() {
    let reply =
        Reply { status: 299, headers: vec![("X-A".to_owned(), "b".to_owned())], body: b"\x00\xff".to_vec() };
    for effect in [true, false] {
        let (result, effects) = struck(Fault::Custom { reply: reply.clone(), effect }).await;
        let got = result.unwrap();
        assert_eq!((got.status, got.header("x-a"), got.body.as_slice()), (299, Some("b"), &b"\x00\xff"[..]));
        assert_eq!(effects, usize::from(effect));
    }
}

#[tokio::test]
async fn a_request_delivered_twice_is_two_effects_or_one_where_keys_are_honoured() {
    for (flavour, effects) in [(Flavour::Forgetful, 2), (Flavour::dedupe(), 1), (Flavour::UniqueReference, 1)]
    {
        let supplier = supplier(flavour);
        supplier.fault(Fault::DeliveredTwice).unwrap();
        let reply = order(supplier.addr(), "a").await.unwrap();
        assert_eq!((reply.status, reply.value()["id"].as_str()), (201, Some("po_000001")));
        assert_eq!(supplier.effect_count().unwrap(), effects);
        let seen = supplier.requests();
        assert_eq!(seen.iter().map(|request| request.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(seen[0].body, seen[1].body);
    }
}

#[tokio::test]
async fn an_injected_status_is_answered_to_a_repeat_as_well() {
    for flavour in [Flavour::dedupe(), Flavour::UniqueReference] {
        let supplier = supplier(flavour);
        supplier.fault(Fault::StatusAfterEffect(503)).unwrap();
        supplier.fault(Fault::StatusAfterEffect(502)).unwrap();
        supplier.fault(Fault::RetryAfter(429, 1)).unwrap();
        for status in [503, 502, 429] {
            assert_eq!(order(supplier.addr(), "a").await.unwrap().status, status);
            assert_eq!(supplier.effect_count().unwrap(), 1);
        }
    }
}

#[tokio::test]
async fn a_hanging_request_is_carried_out_or_not_until_released() {
    for (fault, before) in [(Fault::Hang, 1), (Fault::HangBeforeEffect, 0)] {
        let supplier = supplier(Flavour::Forgetful);
        supplier.fault(fault).unwrap();
        let address = supplier.addr();
        let call = tokio::spawn(async move { order(address, "a").await });
        let point = if before == 1 { Point::EffectCommitted } else { Point::RequestRead };
        supplier.wait_for(point, 1).await.unwrap();
        assert_eq!(supplier.effect_count().unwrap(), before);
        assert!(!call.is_finished());
        supplier.release();
        assert_eq!(call.await.unwrap().unwrap().status, 201);
        assert_eq!(supplier.effect_count().unwrap(), 1);
    }
}

#[tokio::test]
async fn accepted_requests_take_effect_when_released_or_after_a_time_or_never() {
    let supplier = supplier(Flavour::dedupe());
    supplier.fault(Fault::Accepted202(Later::OnRelease)).unwrap();
    let reply = order(supplier.addr(), "a").await.unwrap();
    assert_eq!((reply.status, reply.value()["id"].as_str()), (202, Some("po_000001")));
    assert_eq!(order(supplier.addr(), "a").await.unwrap().status, 202, "the key repeats what it was told");
    assert_eq!(supplier.effect_count().unwrap(), 0);
    supplier.release();
    supplier.wait_for(Point::EffectCommitted, 1).await.unwrap();
    assert_eq!(find(supplier.addr(), "a").await, ["po_000001"]);

    supplier.fault(Fault::Accepted202(Later::After(Duration::from_millis(1)))).unwrap();
    assert_eq!(order(supplier.addr(), "b").await.unwrap().status, 202);
    supplier.wait_for(Point::EffectCommitted, 2).await.unwrap();

    supplier.fault(Fault::Accepted202(Later::Never)).unwrap();
    assert_eq!(order(supplier.addr(), "c").await.unwrap().status, 202);
    supplier.release();
    assert_eq!(order(supplier.addr(), "d").await.unwrap().status, 201);
    assert_eq!(supplier.effects_for("c").unwrap(), []);
    assert_eq!(supplier.effect_count().unwrap(), 3);
}

#[tokio::test]
async fn a_queue_composes_with_a_lost_reply() {
    let mut options = SupplierOptions::new(Flavour::Forgetful);
    options.queue = Some(Later::OnRelease);
    let supplier = Supplier::start(options).unwrap();
    supplier.fault(Fault::ReplyDropped).unwrap();
    assert_eq!(kind(order(supplier.addr(), "a").await), ErrorKind::UnexpectedEof);
    assert_eq!(find(supplier.addr(), "a").await.len(), 0, "accepted, and not there yet");
    supplier.release();
    supplier.wait_for(Point::EffectCommitted, 1).await.unwrap();
    assert_eq!(find(supplier.addr(), "a").await.len(), 1);
}

#[tokio::test]
async fn a_key_is_kept_with_what_is_queued_even_if_the_answer_was_an_error() {
    let mut options = SupplierOptions::new(Flavour::dedupe());
    options.queue = Some(Later::OnRelease);
    let supplier = Supplier::start(options).unwrap();
    supplier.fault(Fault::StatusAfterEffect(503)).unwrap();
    assert_eq!(order(supplier.addr(), "a").await.unwrap().status, 503);
    let again = order(supplier.addr(), "a").await.unwrap();
    assert_eq!((again.status, again.header("idempotent-replayed")), (202, Some("true")));
    supplier.release();
    supplier.wait_for(Point::EffectCommitted, 1).await.unwrap();
    assert_eq!(order(supplier.addr(), "a").await.unwrap().status, 202);
    assert_eq!(supplier.effect_count().unwrap(), 1);
}

#[tokio::test]
async fn a_fault_waits_for_the_request_that_it_is_meant_for() {
    let supplier = supplier(Flavour::Forgetful);
    supplier.fault_on(Target::WritesContaining("second".to_owned()), Fault::ReplyDropped).unwrap();
    supplier.fault_on(Target::Lookups, Fault::Status(500)).unwrap();
    assert_eq!(order(supplier.addr(), "first").await.unwrap().status, 201);
    assert_eq!(kind(order(supplier.addr(), "second").await), ErrorKind::UnexpectedEof);
    let lookup = exchange(supplier.addr(), "GET", "/orders?client_reference=second", &[], b"").await.unwrap();
    assert_eq!(lookup.status, 500);
    assert_eq!(find(supplier.addr(), "second").await.len(), 1);
    let refused = supplier.fault_on(Target::Containing("x".to_owned()), Fault::CloseBeforeRead).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn random_faults_repeat_from_their_seed() {
    let run = async |seed| {
        let mut options = SupplierOptions::new(Flavour::Forgetful);
        options.random = Some(RandomFaults {
            seed,
            per_mille: 400,
            target: Target::Writes,
            menu: vec![
                Fault::ReplyDropped,
                Fault::Status(503),
                Fault::CloseBeforeRead,
                Fault::ResetAfterHeadersRead,
            ],
        });
        let supplier = Supplier::start(options).unwrap();
        for n in 0..60 {
            drop(order(supplier.addr(), &format!("r{n}")).await);
        }
        let without = supplier.faults_struck().iter().filter(|(_, fault)| !fault.has_effect()).count();
        assert_eq!(supplier.effect_count().unwrap(), 60 - without);
        supplier.faults_struck()
    };
    let first = run(11).await;
    assert_eq!(first, run(11).await);
    assert_ne!(first, run(12).await);
    assert!((10..50).contains(&first.len()), "{} of 60 were struck", first.len());
}
