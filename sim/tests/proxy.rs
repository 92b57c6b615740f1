//! The proxy's faults, judged by the effects at the supplier behind it.

#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod support;

use std::io::ErrorKind;
use std::time::Duration;

use sim::proxy::{Copy, Hold, Limit, Plan, Proxy, Then};
use sim::raw::RawListener;
use sim::supplier::{Flavour, Point, Supplier};
use support::{kind, order, supplier};

fn world(flavour: Flavour) -> (Supplier, Proxy) {
    let supplier = supplier(flavour);
    let proxy = Proxy::start(supplier.addr()).unwrap();
    (supplier, proxy)
}

#[tokio::test]
async fn what_is_not_planned_passes_and_is_counted() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    let direct = order(supplier.addr(), "a").await.unwrap();
    assert_eq!(order(proxy.addr(), "b").await.unwrap().status, direct.status);
    assert_eq!((proxy.connection_count(), supplier.effect_count().unwrap()), (1, 2));
    let traffic = proxy.traffic()[0];
    let body = supplier.requests()[1].body.len() as u64;
    assert!(traffic.request_bytes > body && traffic.reply_bytes > 0, "{traffic:?}");
}

#[tokio::test]
async fn a_reply_is_dropped_reset_or_truncated_and_the_effect_is_there() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    for (plan, error, back) in [
        (Plan::drop_reply(), ErrorKind::UnexpectedEof, 0),
        (Plan::reset_reply(), ErrorKind::ConnectionReset, 0),
        (Plan::truncate_reply(20), ErrorKind::UnexpectedEof, 20),
    ] {
        let before = supplier.effect_count().unwrap();
        proxy.plan(plan);
        assert_eq!(kind(order(proxy.addr(), "a").await), error);
        assert_eq!(supplier.effect_count().unwrap(), before + 1);
        assert_eq!(proxy.traffic().last().unwrap().reply_bytes, back);
    }
}

#[tokio::test]
async fn a_truncated_request_has_no_effect() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    for bytes in [0, 1, 60] {
        proxy.plan(Plan::truncate_request(bytes));
        // Closing with bytes unread is a reset, where the client had sent more.
        let error = kind(order(proxy.addr(), "a").await);
        assert!(matches!(error, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
        assert_eq!(proxy.traffic().last().unwrap().request_bytes, bytes);
    }
    assert_eq!(order(proxy.addr(), "b").await.unwrap().status, 201);
    assert_eq!((supplier.effect_count().unwrap(), supplier.request_count()), (1, 1));
}

#[tokio::test]
async fn not_one_byte_more_than_the_limit_arrives() {
    let destination = RawListener::start().unwrap();
    let proxy = Proxy::start(destination.addr()).unwrap();
    proxy.plan(Plan { limit_request: Some(Limit { bytes: 17, then: Then::Reset }), ..Plan::pass() });
    assert_eq!(kind(order(proxy.addr(), "a").await), ErrorKind::ConnectionReset);
    let received = destination.wait_until(|received| received.iter().any(|one| one.ended)).await.unwrap();
    assert!(received[0].bytes.len() <= 17, "a reset may overtake what was sent, and adds nothing");
    assert_eq!(destination.request_count(), 0);
}

#[tokio::test]
async fn a_swallowed_reply_leaves_the_caller_waiting() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    proxy.plan(Plan::swallow_reply());
    let address = proxy.addr();
    let call = tokio::spawn(async move { order(address, "a").await });
    supplier.wait_for(Point::ReplySent, 1).await.unwrap();
    assert_eq!(supplier.effect_count().unwrap(), 1);
    assert_eq!(order(proxy.addr(), "b").await.unwrap().status, 201, "others pass");
    assert!(!call.is_finished());
    drop(proxy);
    assert!(call.await.unwrap().is_err());
}

#[tokio::test]
async fn a_held_request_arrives_after_its_sender_has_gone() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    proxy.plan(Plan::hold(Hold::Request));
    let address = proxy.addr();
    let call = tokio::spawn(async move { order(address, "late").await });
    proxy.wait_for_held(1).await.unwrap();
    assert_eq!(supplier.request_count(), 0);
    call.abort();
    drop(call.await);
    assert_eq!(order(proxy.addr(), "late").await.unwrap().status, 201, "the retry overtakes it");
    proxy.release();
    supplier.wait_for(Point::EffectCommitted, 2).await.unwrap();
    assert_eq!(supplier.effects_for("late").unwrap().len(), 2);
}

#[tokio::test]
async fn a_held_reply_comes_when_released() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    proxy.plan(Plan::hold(Hold::Reply));
    let address = proxy.addr();
    let call = tokio::spawn(async move { order(address, "a").await });
    proxy.wait_for_held(1).await.unwrap();
    assert_eq!(supplier.effect_count().unwrap(), 1);
    assert!(!call.is_finished());
    proxy.release();
    assert_eq!(call.await.unwrap().unwrap().status, 201);
}

#[tokio::test]
async fn a_duplicated_request_is_two_effects_or_one_where_keys_are_honoured() {
    for (flavour, effects) in [(Flavour::Forgetful, 2), (Flavour::dedupe(), 1)] {
        for copy in [Copy::AtOnce, Copy::AfterReply, Copy::Kept] {
            let (supplier, proxy) = world(flavour.clone());
            proxy.plan(Plan::duplicate(copy));
            assert_eq!(order(proxy.addr(), "a").await.unwrap().status, 201);
            let kept = u64::from(copy == Copy::Kept);
            if kept == 1 {
                assert_eq!(supplier.effect_count().unwrap(), 1, "not before it is told");
            }
            assert_eq!(proxy.deliver_copies(), kept);
            proxy.wait_for_copies(1).await.unwrap();
            assert_eq!(proxy.copy_statuses(), [Some(201)]);
            assert_eq!(supplier.effect_count().unwrap(), effects, "{copy:?}");
            let seen = supplier.requests();
            assert_eq!((seen.len(), seen[0].body == seen[1].body), (2, true));
            assert_ne!(seen[0].connection, seen[1].connection);
        }
    }
}

#[tokio::test]
async fn a_refused_port_opens_again_where_it_was() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    assert_eq!(order(proxy.addr(), "a").await.unwrap().status, 201);
    for _ in 0..3 {
        proxy.refuse().unwrap();
        proxy.refuse().unwrap();
        assert_eq!(kind(order(proxy.addr(), "b").await), ErrorKind::ConnectionRefused);
        proxy.reopen().unwrap();
        proxy.reopen().unwrap();
    }
    assert_eq!(order(proxy.addr(), "b").await.unwrap().status, 201);
    assert_eq!((supplier.effect_count().unwrap(), proxy.connection_count()), (2, 2));
}

#[tokio::test]
async fn cutting_ends_open_connections_and_refusing_does_not() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    proxy.plan_for_all(Plan::hold(Hold::Reply));
    let address = proxy.addr();
    let kept = tokio::spawn(async move { order(address, "a").await });
    proxy.wait_for_held(1).await.unwrap();
    proxy.refuse().unwrap();
    proxy.release();
    assert_eq!(kept.await.unwrap().unwrap().status, 201);

    proxy.reopen().unwrap();
    let cut = tokio::spawn(async move { order(address, "b").await });
    proxy.wait_for_held(2).await.unwrap();
    proxy.cut().unwrap();
    assert!(cut.await.unwrap().is_err());
    assert_eq!(supplier.effect_count().unwrap(), 2);
}

#[tokio::test]
async fn delays_are_on_the_way_and_lose_nothing() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    let delay = Duration::from_millis(2);
    proxy.plan(Plan { delay_request: delay, delay_reply: delay, ..Plan::pass() });
    assert_eq!(order(proxy.addr(), "a").await.unwrap().status, 201);
    assert_eq!(supplier.effect_count().unwrap(), 1);
}

#[tokio::test]
async fn an_upstream_that_is_down_closes_the_connection() {
    let (supplier, proxy) = world(Flavour::Forgetful);
    drop(supplier);
    assert!(order(proxy.addr(), "a").await.is_err());
    let other = support::supplier(Flavour::Forgetful);
    proxy.set_upstream(other.addr());
    assert_eq!(order(proxy.addr(), "a").await.unwrap().status, 201);
    assert_eq!(other.effect_count().unwrap(), 1);
}
