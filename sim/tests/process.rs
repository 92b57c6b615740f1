//! The supplier as a process of its own: steered over HTTP, killed, and judged by its file.

#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use sim::auditor::{Expected, State, Violation, audit, group_by};
use sim::supplier::read_effects;
use sim::wire::{Reply, exchange};
use support::{kind, order};

/// Killed when dropped.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(flavour: &str, database: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sim-supplier"))
            .args([flavour.as_ref(), database.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().parse().unwrap();
        Self { child, address }
    }

    async fn steer(&self, method: &str, path: &str, body: &serde_json::Value) -> Reply {
        exchange(self.address, method, path, &[], body.to_string().as_bytes()).await.unwrap()
    }

    async fn fault(&self, body: serde_json::Value) {
        assert_eq!(self.steer("POST", "/sim/faults", &body).await.status, 204);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn an_effect_without_an_answer_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("supplier.db");
    let first = Process::start("dedupe", &file);
    first.fault(json!({ "fault": "hang" })).await;
    let address = first.address;
    let call = tokio::spawn(async move { order(address, "a").await });
    while read_effects(&file).unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(first);
    assert!(call.await.unwrap().is_err());

    let second = Process::start("dedupe", &file);
    let reply = order(second.address, "a").await.unwrap();
    assert_eq!(reply.header("idempotent-replayed"), Some("true"));
    assert_eq!(read_effects(&file).unwrap().len(), 1);
    assert_eq!(reply.value()["id"], read_effects(&file).unwrap()[0].order);
}

#[tokio::test]
async fn the_control_paths_steer_and_are_not_struck_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("supplier.db");
    let supplier = Process::start("dedupe", &file);
    supplier.fault(json!({ "target": "any", "fault": "close_before_read" })).await;
    supplier
        .fault(json!({ "target": { "writes_containing": "b" }, "fault": { "status": 503 }, "times": 2 }))
        .await;
    assert_eq!(supplier.steer("POST", "/sim/faults", &json!({ "fault": "no_such" })).await.status, 400);
    let unread = json!({ "target": { "containing": "x" }, "fault": "close_before_read" });
    assert_eq!(supplier.steer("POST", "/sim/faults", &unread).await.status, 400);

    kind(order(supplier.address, "a").await);
    assert_eq!(order(supplier.address, "a").await.unwrap().status, 201);
    assert_eq!(order(supplier.address, "b").await.unwrap().status, 503);
    let status = supplier.steer("GET", "/sim/status", &json!(null)).await.value();
    let struck = json!([[1, "close_before_read"], [3, { "status": 503 }]]);
    assert_eq!(status, json!({ "requests": 2, "effects": 1, "faults_pending": 1, "faults": struck }));

    assert_eq!(supplier.steer("DELETE", "/sim/faults", &json!(null)).await.status, 204);
    assert_eq!(order(supplier.address, "b").await.unwrap().status, 201);
    assert_eq!(supplier.steer("POST", "/sim/forget-keys", &json!(null)).await.status, 204);
    assert_eq!(order(supplier.address, "b").await.unwrap().status, 201);
    assert_eq!(supplier.steer("POST", "/sim/advance", &json!({ "ms": 1_000_000_000 })).await.status, 204);
    assert_eq!(order(supplier.address, "c").await.unwrap().status, 201);

    let effects = read_effects(&file).unwrap();
    assert!(effects[3].at.as_millis() >= 1_000_000_000);
    let expected = [
        Expected::new("a", State::Succeeded).with_receipt("po_000001"),
        Expected::new("b", State::Succeeded),
        Expected::new("c", State::Rejected),
    ];
    let report = audit(&expected, &group_by(&effects, |effect| effect.key.clone()));
    assert_eq!((report.effects, report.duplicates), (4, 1));
    assert!(
        matches!(
            report.violations.as_slice(),
            [Violation::Duplicate { .. }, Violation::RejectedWithEffect { .. }]
        ),
        "{:?}",
        report.violations
    );
}

#[tokio::test]
async fn it_ends_with_its_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("supplier.db");
    let mut supplier = Process::start("forgetful", &file);
    order(supplier.address, "a").await.unwrap();
    drop(supplier.child.stdin.take());
    assert!(supplier.child.wait().unwrap().success());
    assert_eq!(read_effects(&file).unwrap().len(), 1);
}

#[tokio::test]
async fn run_until_ends_when_told_and_leaves_its_effects() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("supplier.db");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options =
        sim::supplier::SupplierOptions::new(sim::supplier::Flavour::UniqueReference).with_database(&file);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving =
        tokio::spawn(sim::supplier::run_until(listener, options, async move { drop(stopped.await) }));
    assert_eq!(order(address, "a").await.unwrap().status, 201);
    assert_eq!(order(address, "a").await.unwrap().status, 409);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert_eq!(kind(order(address, "b").await), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(read_effects(&file).unwrap().len(), 1);
}
