//! The server as a process: ready line, signals, sockets, and what it refuses to start with.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails ends its test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::{Ledger, LedgerOptions};
use counterfoil::store::Token;
use counterfoil::store::sqlite::{SqliteOptions, SqliteStore};
use counterfoil::{Account, OperationId, Principal};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sim::supplier::{Fault, Flavour, Point, Supplier, SupplierOptions};
use sim::wire::{self, Reply};

const TOKEN: &str = "cf_00112233445566778899aabbccddeeff00112233445";

struct Server {
    child: Child,
    place: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn command(folder: &Path, listen: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
        command.current_dir(folder).args(["serve", "--listen", listen]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(folder: &Path, listen: &str) -> Self {
        let mut child = Self::command(folder, listen).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let place = line.trim().strip_prefix("ready on ").unwrap_or_else(|| panic!("not ready: {line}"));
        Self { place: place.to_owned(), child }
    }

    fn signal(&self, name: &str) {
        let done =
            Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// The exit code and what stderr said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Reply {
        let address = self.place.strip_prefix("http://").unwrap().parse().unwrap();
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        wire::exchange(address, method, path, &headers, body.as_bytes()).await.unwrap()
    }
}

fn write_config(folder: &Path, supplier: &str, more: &str) {
    let text = format!(
        r#"
[tools."supplier.create_order".http]
method = "POST"
url = "{supplier}/orders"
receipt_reference = "/id"
[tools."supplier.create_order".recovery]
kind = "idempotency_key"
key = "header:Idempotency-Key"
retention = "24h"
{more}"#
    );
    std::fs::write(folder.join("counterfoil.toml"), text).unwrap();
}

async fn write_token(folder: &Path) {
    let path = folder.join("counterfoil.db");
    let opening = move || SqliteStore::open(path, SqliteOptions::default());
    let store = tokio::task::spawn_blocking(opening).await.unwrap().unwrap();
    let token = Token {
        id: "t1".to_owned(),
        principal: Principal::parse("planner").unwrap(),
        account: Account::parse("kitchen").unwrap(),
        roles: vec!["agent".to_owned(), "operator".to_owned()],
        tools: Vec::new(),
        digest: Sha256::digest(TOKEN.as_bytes()).into(),
        created_at: store.now(),
        expires_at: None,
        revoked_at: None,
    };
    store.create_token(token).await.unwrap();
    store.close().await;
}

struct World {
    folder: tempfile::TempDir,
    supplier: Supplier,
}

impl World {
    async fn build() -> Self {
        let supplier = Supplier::start(SupplierOptions::new(Flavour::dedupe())).unwrap();
        let folder = tempfile::tempdir().unwrap();
        write_config(folder.path(), &supplier.url(), "");
        write_token(folder.path()).await;
        Self { folder, supplier }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn order() -> Value {
    json!({ "tool": "supplier.create_order", "arguments": { "n": 1 }, "execute": true })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asked_to_end_it_answers_who_waits_and_records_what_runs() {
    let world = World::build().await;
    let server = Server::start(world.path(), "127.0.0.1:0");
    let gate = world.supplier.hold(Point::EffectCommitted, sim::supplier::Target::Writes);
    let body = order();
    let call = server.call("PUT", "/v1/operations/one", &body);
    let ending = async {
        world.supplier.wait_for(Point::EffectCommitted, 1).await.unwrap();
        server.signal("TERM");
    };
    let (answer, ()) = tokio::join!(call, ending);
    assert_eq!((answer.status, &answer.value()["state"]), (202, &json!("in_progress")));
    drop(gate);
    world.supplier.release();
    let (ended, said) = tokio::task::spawn_blocking(move || server.end()).await.unwrap();
    assert_eq!(ended, Some(0), "{said}");
    assert_eq!(said, "draining: 1 attempt on its way\nended: every outcome is recorded\n");
    let ledger = Ledger::open(world.path().join("counterfoil.db"), Vec::new(), LedgerOptions::default())
        .await
        .unwrap();
    let caller = Caller {
        account: Account::parse("kitchen").unwrap(),
        principal: Principal::parse("planner").unwrap(),
        roles: Roles::all(),
        tools: Vec::new(),
    };
    let view = ledger.find(&caller, &OperationId::parse("one").unwrap()).await.unwrap();
    assert_eq!(view.operation.state.label(), "succeeded");
    assert_eq!(world.supplier.effect_count().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asked_twice_it_ends_at_once_and_the_next_start_follows_up() {
    let world = World::build().await;
    let server = Server::start(world.path(), "127.0.0.1:0");
    world.supplier.fault(Fault::Hang).unwrap();
    let body =
        json!({ "tool": "supplier.create_order", "arguments": { "n": 1 }, "execute": true, "wait_ms": 0 });
    assert_eq!(server.call("PUT", "/v1/operations/one", &body).await.status, 202);
    world.supplier.wait_for(Point::EffectCommitted, 1).await.unwrap();
    server.signal("TERM");
    server.signal("INT");
    let mut server = server;
    let ended = loop {
        // The second signal may come before the first was seen; it is then sent again.
        if let Some(ended) = server.child.try_wait().unwrap() {
            break ended;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        server.signal("TERM");
    };
    assert_eq!(ended.code(), Some(1));
    world.supplier.release();
    let server = Server::start(world.path(), "127.0.0.1:0");
    // The lease of the lost attempt runs first (30 s by default): what is known until then is that it is under way.
    let reply = server.call("GET", "/v1/operations/one", &Value::Null).await;
    assert_eq!(reply.value()["state"], "in_progress");
    assert_eq!(world.supplier.effect_count().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_reads_the_tools_again_all_or_nothing() {
    let world = World::build().await;
    let mut server = Server::start(world.path(), "127.0.0.1:0");
    let names = async |server: &Server| -> Vec<String> {
        let tools = server.call("GET", "/v1/tools", &Value::Null).await.value();
        tools["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mail = format!(
        "[tools.\"mail.send\".http]\nmethod = \"POST\"\nurl = \"{}/tools/mail\"\n[tools.\"mail.send\".recovery]\nkind = \"none\"\n",
        world.supplier.url()
    );
    write_config(world.path(), &world.supplier.url(), &mail);
    server.signal("HUP");
    while names(&server).await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    write_config(world.path(), &world.supplier.url(), "[tools.\"x\".http]\nmethod = \"BREW\"\n");
    server.signal("HUP");
    let mut line = String::new();
    let mut errors = BufReader::new(server.child.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "reloaded: 2 tools\n");
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("the tools stay as they were"), "{line}");
    assert_eq!(names(&server).await, ["mail.send", "supplier.create_order"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_in_the_file_system_is_its_owners_alone() {
    let world = World::build().await;
    let server = Server::start(world.path(), "unix:api.sock");
    let path = world.path().join("api.sock");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut second = Server::command(world.path(), "unix:api.sock").spawn().unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(1), "the socket is taken");
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_not_open_a_door_that_nobody_locked() {
    let world = World::build().await;
    let empty = tempfile::tempdir().unwrap();
    write_config(empty.path(), &world.supplier.url(), "");
    let output = Server::command(empty.path(), "0.0.0.0:0").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there is no token") && said.contains("hint:"), "{said}");
    assert!(output.stdout.is_empty());
    write_token(empty.path()).await;
    let server = Server::start(empty.path(), "0.0.0.0:0");
    assert!(server.place.starts_with("http://0.0.0.0:"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn started_paused_it_sends_nothing() {
    let world = World::build().await;
    let mut command = Server::command(world.path(), "127.0.0.1:0");
    let mut child = command.arg("--paused").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let server = Server { child, place: line.trim().strip_prefix("ready on ").unwrap().to_owned() };
    let body =
        json!({ "tool": "supplier.create_order", "arguments": { "n": 1 }, "execute": true, "wait_ms": 300 });
    let held = server.call("PUT", "/v1/operations/one", &body).await;
    assert_eq!((held.status, &held.value()["next"]["reason"]), (202, &json!("paused")));
    assert_eq!(world.supplier.request_count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), "http://127.0.0.1:1", "");
    write_token(folder.path()).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let done = Server::command(folder.path(), &listen).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains(&format!("cannot listen on {listen}: ")), "{said}");
}
