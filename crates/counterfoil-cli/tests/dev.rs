//! `counterfoil dev` as a process: no file, no token to copy, faults on purpose, and one effect each, counted in the
//! practice supplier's own database.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails ends its test"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use sim::supplier::{Effect, read_effects};
use sim::wire::{Reply, exchange, read_reply};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// A server that ends with this value.
struct Dev {
    child: Child,
    folder: tempfile::TempDir,
    discovery: Value,
}

impl Drop for Dev {
    fn drop(&mut self) {
        // One that has ended already is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
    command.current_dir(folder).arg("dev").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Dev {
    fn start(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), arguments)
    }

    fn start_in(folder: tempfile::TempDir, arguments: &[&str]) -> Self {
        let mut child = command(folder.path(), arguments).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready on http://127.0.0.1:") && line.contains("ledger"), "{line}");
        let discovery = std::fs::read(folder.path().join(".counterfoil/dev.json")).unwrap();
        let discovery = serde_json::from_slice(&discovery).unwrap();
        Self { child, folder, discovery }
    }

    /// Ends it as Ctrl-C does, and gives its folder back.
    fn end(mut self) -> tempfile::TempDir {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(self.child.wait().unwrap().success());
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.text("url").strip_prefix("http://").unwrap().parse().unwrap()
    }

    fn text(&self, name: &str) -> &str {
        self.discovery[name].as_str().unwrap()
    }

    async fn call(&self, method: &str, path: &str, body: &str) -> Reply {
        let bearer = format!("Bearer {}", self.text("token"));
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        exchange(self.address(), method, path, &headers, body.as_bytes()).await.unwrap()
    }

    async fn order(&self, id: &str) -> Value {
        let body = json!({
            "tool": "practice.create_order", "arguments": { "sku": id, "quantity": 2 }, "execute": true,
        });
        let reply = self.call("PUT", &format!("/v1/operations/{id}"), &body.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.value());
        reply.value()
    }

    async fn arm(&self, fault: &str) {
        let reply = self.call("POST", "/dev/faults", &json!({ "fault": fault }).to_string()).await;
        assert_eq!((reply.status, reply.value()), (200, json!({ "armed": [fault] })));
    }

    async fn story(&self) -> String {
        String::from_utf8(self.call("GET", "/dev/story", "").await.body).unwrap()
    }

    /// Waits until the story says so: it is told after the commits that it tells of.
    async fn told(&self, text: &str) {
        let told = async {
            while !self.story().await.contains(text) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(30), told).await.is_err() {
            panic!("never told: {text}\n{}", self.story().await);
        }
    }

    fn effects(&self) -> Vec<Effect> {
        read_effects(&self.folder.path().join(".counterfoil/supplier.db")).unwrap()
    }

    fn effects_of(&self, id: &str) -> usize {
        self.effects().iter().filter(|effect| effect.value()["sku"] == id).count()
    }
}

#[tokio::test]
async fn whatever_goes_wrong_on_purpose_there_is_one_order_and_one_receipt() {
    let dev = Dev::start(&[]);
    for (fault, told) in [
        ("drop", "looked up: it is there; succeeded with reference"),
        ("kill", "it is not there and cannot come any more"),
        ("twice", "the call arrives twice at once, on purpose"),
    ] {
        dev.arm(fault).await;
        let first = dev.order(fault).await;
        let again = dev.order(fault).await;
        assert_eq!(first["state"], "succeeded", "{first}");
        assert_eq!(first["receipt"], again["receipt"]);
        assert_eq!(again["replayed"], true);
        assert_eq!(dev.effects_of(fault), 1);
        let reference = first["receipt"]["reference"].as_str().unwrap();
        let order = dev.effects().into_iter().find(|effect| effect.value()["sku"] == fault).unwrap();
        assert_eq!(order.order, reference);
        dev.told(told).await;
    }
    let portal = String::from_utf8(dev.call("GET", "/dev/orders", "").await.body).unwrap();
    assert!(portal.contains("3 orders"), "{portal}");
}

#[tokio::test]
async fn the_lines_in_the_docs_place_one_order() {
    let dev = Dev::start(&[]);
    let docs = include_str!("../../../docs/use/dev.md");
    let block = docs.split("```").find(|block| block.contains("curl -s -X PUT")).unwrap();
    for fault in [Some("drop"), None] {
        if let Some(fault) = fault {
            dev.arm(fault).await;
        }
        let pasted =
            Command::new("bash").args(["-euc", block]).current_dir(dev.folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&pasted.stderr).into_owned();
        let answer: Value = serde_json::from_slice(&pasted.stdout).unwrap_or_else(|_| panic!("{said}"));
        assert_eq!(answer["state"], "succeeded", "{answer}");
        assert_eq!(dev.effects().len(), 1);
    }
}

#[tokio::test]
async fn faults_by_chance_lose_nothing_either() {
    let dev = Dev::start(&["--faults", "drop=0.6,twice=0.4,seed=7"]);
    for number in 0..12 {
        let id = format!("order-{number}");
        assert_eq!(dev.order(&id).await["state"], "succeeded");
        assert_eq!(dev.effects_of(&id), 1);
    }
    dev.told("dropped on purpose").await;
    dev.told("twice at once").await;
}

#[tokio::test]
async fn a_key_arms_a_fault() {
    let mut dev = Dev::start(&[]);
    dev.child.stdin.as_mut().unwrap().write_all(b"xd?").unwrap();
    let taken = async {
        while dev.call("GET", "/dev/faults", "").await.value() != json!({ "armed": ["drop"] }) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), taken).await.expect("the key was not taken");
    dev.order("by-key").await;
    assert_eq!(dev.effects_of("by-key"), 1);
    dev.told("armed: drop the next reply").await;
    // The lines of `?` are for pasting: they come as they are, on the terminal alone.
    let mut lines = BufReader::new(dev.child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("curl -s -X PUT")));
}

#[tokio::test]
async fn tokens_receipts_and_ports_outlive_the_server() {
    let dev = Dev::start(&[]);
    let first = dev.order("kept").await;
    let before = dev.discovery.clone();
    let dev = Dev::start_in(dev.end(), &[]);
    for same in ["url", "token", "approver_token", "supplier_url", "ledger"] {
        assert_eq!(dev.discovery[same], before[same], "{same}");
    }
    let again = dev.order("kept").await;
    assert_eq!((&again["receipt"], &again["replayed"]), (&first["receipt"], &json!(true)));
    assert_eq!(dev.effects_of("kept"), 1);
}

#[tokio::test]
async fn a_day_passes_in_one_call_and_what_it_ends_is_over() {
    let dev = Dev::start(&[]);
    dev.order("yesterday").await;
    for wrong in ["{}", "{\"advance\":\"soon\"}", "{\"advance\":\"90000d\"}"] {
        assert_eq!(dev.call("POST", "/dev/clock", wrong).await.status, 400, "{wrong}");
    }
    let moved = dev.call("POST", "/dev/clock", "{\"advance\":\"25h\"}").await;
    assert_eq!((moved.status, moved.value()), (200, json!({ "moved": "25h" })));
    let body = json!({ "tool": "practice.create_order", "arguments": { "sku": "yesterday", "quantity": 2 } });
    let late = dev.call("PUT", "/v1/operations/yesterday", &body.to_string()).await;
    assert_eq!(late.status, 410, "{}", late.value());
    dev.order("today").await;
    // Another run is not earlier than its ledger.
    let dev = Dev::start_in(dev.end(), &[]);
    dev.order("later").await;
    assert_eq!((dev.effects_of("yesterday"), dev.effects().len()), (1, 3));
}

#[tokio::test]
async fn no_more_than_a_hundred_faults_are_armed_and_all_can_be_taken_back() {
    let dev = Dev::start(&[]);
    let many = json!({ "fault": "drop", "times": 1_000 }).to_string();
    assert_eq!(dev.call("POST", "/dev/faults", &many).await.status, 400);
    assert_eq!(dev.call("GET", "/dev/faults", "").await.value(), json!({ "armed": [] }));
    dev.arm("kill").await;
    assert_eq!(dev.call("DELETE", "/dev/faults", "").await.value(), json!({ "armed": [] }));
}

#[tokio::test]
async fn a_second_one_in_the_folder_is_refused_and_told_where_the_first_is() {
    let dev = Dev::start(&[]);
    let second = command(dev.folder.path(), &[]).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("already runs in this folder") && said.contains("dev.json"), "{said}");
    assert_eq!(dev.order("still-there").await["state"], "succeeded");
}

#[tokio::test]
async fn the_tools_of_the_folders_file_are_there_too() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[tools.\"mine.create\"]\naccounts = [\"kitchen\"]\n\
                [tools.\"mine.create\".http]\nmethod = \"POST\"\nurl = \"http://127.0.0.1:9/mine\"\n\
                [tools.\"mine.create\".recovery]\nkind = \"none\"\n";
    std::fs::write(folder.path().join("counterfoil.toml"), text).unwrap();
    let dev = Dev::start_in(folder, &[]);
    let listed = dev.call("GET", "/v1/tools", "").await.value();
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mine.create", "practice.create_order"]);
}

/// A request with exactly these headers; a POST is the page's own form.
async fn raw(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let body = if method == "POST" { "fault=drop" } else { "" };
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let text = format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    read_reply(&mut stream).await.unwrap()
}

#[tokio::test]
async fn the_pages_answer_this_hosts_browser_alone() {
    let dev = Dev::start(&[]);
    dev.order("%3Cscript%3Ex").await;
    dev.told("succeeded").await;
    let page = dev.call("GET", "/", "").await;
    let text = String::from_utf8(page.body.clone()).unwrap();
    assert_eq!(page.status, 200);
    assert!(text.len() < 40_000 && text.contains("&lt;script&gt;") && !text.contains("<script"), "{text}");
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let own = dev.address().to_string();
    let site = format!("http://{own}");
    for (method, path, headers, status) in [
        ("GET", "/", vec![("Host", "evil.example")], 403),
        ("GET", "/dev/story", vec![("Host", "127.0.0.1.evil.example")], 403),
        ("POST", "/dev/faults", vec![("Host", own.as_str()), ("Origin", "http://evil.example")], 403),
        ("POST", "/dev/faults", vec![("Host", own.as_str()), ("Origin", "null")], 403),
        ("POST", "/dev/faults", vec![("Host", own.as_str()), ("Origin", site.as_str())], 303),
        ("GET", "/", vec![("Host", "localhost:8787")], 200),
    ] {
        let reply = raw(dev.address(), method, path, &headers).await;
        assert_eq!(reply.status, status, "{method} {path} {headers:?}");
    }
    let armed = dev.call("GET", "/dev/faults", "").await.value();
    assert_eq!(armed, json!({ "armed": ["drop"] }), "only the page's own form armed one");
}

#[test]
fn faults_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = command(folder.path(), &["--faults", "lose=0.1"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("there is no fault `lose`"));
}

/// What code with a guarded function says of it.
fn declaration() -> Value {
    json!({
        "recovery": {
            "kind": "lookup", "reference": "worker", "lookup": "worker",
            "authoritative": true, "request_lifetime": "2s", "queue_time": "0s", "skew": "1s",
        },
    })
}

impl Dev {
    /// A guarded function as a client runs it: claims with the prepare, does the work or looks for it, and reports.
    async fn guarded(&self, id: &str, claim_id: &str) -> Value {
        let claim = json!({
            "worker": "app", "lease_ms": 30_000, "claim_id": claim_id, "declaration": declaration(),
        });
        let body = json!({ "tool": "mine.order", "arguments": { "sku": id }, "claim": claim, "wait_ms": 0 });
        let reply = self.call("PUT", &format!("/v1/operations/{id}"), &body.to_string()).await;
        let told = reply.value();
        let Some(claim) = told.get("claim") else { return told };
        let reference = claim["reference"].as_str().unwrap();
        let shop = self.text("supplier_url").strip_prefix("http://").unwrap().parse().unwrap();
        let report = if claim["mode"] == "send" {
            let order = json!({ "sku": id, "client_reference": reference }).to_string();
            let headers = [("Content-Type", "application/json")];
            let made = exchange(shop, "POST", "/orders", &headers, order.as_bytes()).await.unwrap().value();
            json!({ "outcome": "succeeded", "reference": made["id"], "result": made })
        } else {
            let path = format!("/orders?client_reference={reference}");
            let found = exchange(shop, "GET", &path, &[], b"").await.unwrap().value();
            json!({ "outcome": "found", "reference": found["orders"][0]["id"], "count": 1 })
        };
        let mut report = report;
        report["fencing_token"] = claim["fencing_token"].clone();
        let path = format!("/v1/operations/{id}/attempts/{}/outcome", claim["attempt"]);
        let reported = self.call("POST", &path, &report.to_string()).await;
        assert_eq!(reported.status, 200, "{}", reported.value());
        reported.value()
    }
}

#[tokio::test]
async fn a_function_needs_no_file_and_its_lost_reply_is_found_again() {
    let dev = Dev::start(&[]);
    dev.arm("drop").await;
    let lost = dev.guarded("mine-1", "call-1").await;
    assert_eq!(lost["state"], "unknown", "{lost}");
    assert_eq!(dev.effects_of("mine-1"), 1);
    let found = dev.guarded("mine-1", "call-2").await;
    assert_eq!((&found["state"], &found["receipt"]["source"]), (&json!("succeeded"), &json!("lookup")));
    assert_eq!(dev.guarded("mine-1", "call-3").await["receipt"], found["receipt"]);
    assert_eq!(dev.effects_of("mine-1"), 1);
    dev.told("the code declares mine.order").await;
    dev.told("it is there").await;

    // The file, once it is written, says the same, so the code goes on; another run knows the tool as well.
    let own = dev.address().to_string();
    let reply = raw(dev.address(), "POST", "/dev/declarations", &[("Host", own.as_str())]).await;
    assert_eq!(reply.status, 303);
    let file = std::fs::read_to_string(dev.folder.path().join("counterfoil.toml")).unwrap();
    assert!(file.contains("[tools.\"mine.order\".recovery]"), "{file}");
    let dev = Dev::start_in(dev.end(), &[]);
    assert_eq!(dev.guarded("mine-2", "call-4").await["state"], "succeeded");
    assert_eq!(dev.effects_of("mine-2"), 1);
}

#[tokio::test]
async fn with_declared_only_the_file_alone_decides() {
    let dev = Dev::start(&["--declared-only"]);
    let claim = json!({ "worker": "app", "claim_id": "c", "declaration": declaration() });
    let body = json!({ "tool": "mine.order", "arguments": {}, "claim": claim });
    let reply = dev.call("PUT", "/v1/operations/mine-1", &body.to_string()).await;
    assert_eq!(reply.status, 404, "{}", reply.value());
}

#[tokio::test]
async fn a_declaration_that_does_not_load_is_refused_and_stores_nothing() {
    let dev = Dev::start(&[]);
    let claim =
        json!({ "worker": "app", "claim_id": "c", "declaration": { "recovery": { "kind": "hope" } } });
    let body = json!({ "tool": "mine.order", "arguments": {}, "claim": claim });
    let reply = dev.call("PUT", "/v1/operations/mine-1", &body.to_string()).await;
    assert_eq!((reply.status, &reply.value()["sent"]), (400, &json!("no")), "{}", reply.value());
    assert!(reply.value()["detail"].as_str().unwrap().contains("unknown word"), "{}", reply.value());
    assert_eq!(dev.call("GET", "/v1/operations/mine-1", "").await.status, 404);
}

#[test]
fn commands_beside_it_work_on_it() {
    let dev = Dev::start(&[]);
    let folder = dev.folder.path();
    let below = folder.join("src/deep");
    std::fs::create_dir_all(&below).unwrap();
    let run = |at: &Path, words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
        let done = command.current_dir(at).args(words).output().unwrap();
        let (said, noted) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        (done.status.success(), said.into_owned(), noted.into_owned())
    };
    let order = [
        "op",
        "prepare",
        "--id",
        "a",
        "practice.create_order",
        "--arguments",
        "{\"sku\":\"x\"}",
        "--execute",
    ];
    let (done, said, noted) = run(folder, &order);
    assert!(done && said.contains("succeeded") && noted.is_empty(), "{said}{noted}");
    for (at, words) in [
        (folder, &["op", "list"][..]),
        (&below, &["op", "list"]),
        (&below, &["op", "show", "a"]),
        (folder, &["op", "note", "a", "--text", "seen"]),
        (folder, &["tool", "list"]),
        (folder, &["tool", "pause", "practice.create_order", "--note", "stop"]),
        (folder, &["status"]),
    ] {
        let (done, said, noted) = run(at, words);
        assert!(done && (words[1..] == ["list"] || !said.is_empty()), "{words:?}: {said}{noted}");
        assert!(words != ["op", "list"] || said.contains("succeeded"), "{said}");
    }
    // A configuration of its own decides where it is named, and where it is nearer.
    let own = "[server]\ndatabase = \"sqlite:own.db\"\n";
    std::fs::write(below.join("counterfoil.toml"), own).unwrap();
    std::fs::write(folder.join("counterfoil.toml"), own).unwrap();
    let (done, _, noted) = run(&below, &["op", "list"]);
    assert!(!done && noted.contains("there is no ledger"), "{noted}");
    let (done, _, noted) = run(folder, &["--config", "./counterfoil.toml", "op", "list"]);
    assert!(!done && noted.contains("there is no ledger"), "{noted}");
    let (done, said, noted) = run(folder, &["op", "list"]);
    assert!(done && said.contains("succeeded") && noted.contains("counterfoil dev"), "{said}{noted}");
    // Once it has ended its file is of no use.
    let folder = dev.end();
    let (done, _, noted) = run(folder.path(), &["op", "list"]);
    assert!(!done && noted.contains("there is no ledger"), "{noted}");
}
