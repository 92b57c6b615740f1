//! What the tests share.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests, outside of test functions")]

use std::io;
use std::net::SocketAddr;

use sim::supplier::{Flavour, Supplier, SupplierOptions};
use sim::wire::{Reply, exchange};

pub(crate) fn supplier(flavour: Flavour) -> Supplier {
    Supplier::start(SupplierOptions::new(flavour)).unwrap()
}

/// Places an order with that reference, which serves as the key as well.
pub(crate) async fn order(address: SocketAddr, reference: &str) -> io::Result<Reply> {
    let body = format!(r#"{{"client_reference":"{reference}","sku":"flour-25kg"}}"#);
    post(address, "/orders", reference, &body).await
}

pub(crate) async fn post(address: SocketAddr, path: &str, key: &str, body: &str) -> io::Result<Reply> {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    exchange(address, "POST", path, &headers, body.as_bytes()).await
}

pub(crate) async fn find(address: SocketAddr, reference: &str) -> Vec<String> {
    let target = format!("/orders?client_reference={reference}");
    let reply = exchange(address, "GET", &target, &[], b"").await.unwrap();
    assert_eq!(reply.status, 200);
    let value = reply.value();
    let orders = value["orders"].as_array().unwrap();
    orders.iter().map(|order| order["id"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn kind(result: io::Result<Reply>) -> io::ErrorKind {
    result.expect_err("no answer was to come").kind()
}
