//! Waiting for a place, holding there, and letting go.

mod support;

use sim::supplier::{Fault, Flavour, Point, Target};
use support::{kind, order, supplier};

#[tokio::test]
async fn a_request_is_held_before_and_after_its_effect() {
    let supplier = supplier(Flavour::Forgetful);
    let read = supplier.hold(Point::RequestRead, Target::Writes);
    let committed = supplier.hold(Point::EffectCommitted, Target::Writes);
    let address = supplier.addr();
    let call = tokio::spawn(async move { order(address, "a").await });
    assert_eq!(read.reached().await.unwrap(), 1);
    assert_eq!(supplier.effect_count().unwrap(), 0);
    read.release();
    assert_eq!(committed.reached().await.unwrap(), 1);
    assert_eq!(supplier.effect_count().unwrap(), 1);
    assert!(!call.is_finished());
    committed.release();
    assert_eq!(call.await.unwrap().unwrap().status, 201);
}

#[tokio::test]
async fn the_effect_happens_although_the_caller_has_gone() {
    let supplier = supplier(Flavour::Forgetful);
    let gate = supplier.hold(Point::RequestRead, Target::Writes);
    let address = supplier.addr();
    let call = tokio::spawn(async move { order(address, "a").await });
    gate.reached().await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    gate.release();
    supplier.wait_for(Point::EffectCommitted, 1).await.unwrap();
    assert_eq!(supplier.effect_count().unwrap(), 1);
}

#[tokio::test]
async fn a_gate_and_a_fault_combine() {
    let supplier = supplier(Flavour::Forgetful);
    supplier.fault(Fault::ReplyReset).unwrap();
    let gate = supplier.hold(Point::ReplyReady, Target::Containing("a1".to_owned()));
    let address = supplier.addr();
    let call = tokio::spawn(async move { order(address, "a1").await });
    gate.reached().await.unwrap();
    assert_eq!(order(address, "a2").await.unwrap().status, 201, "others pass");
    gate.release();
    assert_eq!(kind(call.await.unwrap()), std::io::ErrorKind::ConnectionReset);
    assert_eq!(supplier.effect_count().unwrap(), 2);
}

#[tokio::test]
async fn a_dropped_gate_holds_nobody() {
    let supplier = supplier(Flavour::Forgetful);
    drop(supplier.hold(Point::RequestRead, Target::Any));
    supplier.hold(Point::RequestRead, Target::Any).release();
    assert_eq!(order(supplier.addr(), "a").await.unwrap().status, 201);
}

#[test]
fn gates_work_without_a_runtime() {
    use std::io::Write as _;

    let supplier = supplier(Flavour::Forgetful);
    let gate = supplier.hold(Point::EffectCommitted, Target::Any);
    let mut stream = std::net::TcpStream::connect(supplier.addr()).unwrap();
    stream.write_all(&sim::wire::request_bytes("POST", "/orders", &[], b"{}")).unwrap();
    gate.reached_blocking().unwrap();
    assert_eq!(supplier.effect_count().unwrap(), 1);
    gate.release();
    supplier.wait_for_blocking(Point::ReplySent, 1).unwrap();
}
