//! A server in this process: ledger in a file, sender over HTTP, listener on a free port, supplier beside it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use counterfoil::executor::Executor;
use counterfoil::http::HttpDestination;
use counterfoil::ledger::{Ledger, LedgerOptions};
use counterfoil::store::Token;
use counterfoil::{Account, Principal, Timestamp, WorkerName};
use counterfoil_cli::api::App;
use counterfoil_cli::api::listen::{Socket, serve};
use counterfoil_cli::api::router;
use counterfoil_cli::config::{self, Config, Listen, Overrides};
use counterfoil_cli::secret;
use serde_json::{Value, json};
use sim::supplier::{Flavour, Supplier, SupplierOptions};
use sim::wire::{self, Reply};
use tokio_util::sync::CancellationToken;

pub(crate) struct House {
    pub(crate) ledger: Ledger,
    pub(crate) executor: Executor,
    pub(crate) supplier: Supplier,
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
    app: App,
    stop: CancellationToken,
}

/// The tools of every test here.
fn tools(supplier: &str, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"
[tools."supplier.create_order"]
description = "Create a purchase order"
sensitive = ["/delivery/phone"]
volatile = ["/trace"]
[tools."supplier.create_order".http]
method = "POST"
url = "{supplier}/orders"
timeout = "400ms"
linger = "400ms"
receipt_reference = "/id"
[tools."supplier.create_order".recovery]
kind = "idempotency_key"
key = "header:Idempotency-Key"
retention = "24h"
[tools."supplier.create_order".budget]
first_delay = "20ms"
max_delay = "50ms"

[tools."supplier.big_order"]
approval = "required"
[tools."supplier.big_order".http]
method = "POST"
url = "{supplier}/orders"
receipt_reference = "/id"
[tools."supplier.big_order".recovery]
kind = "idempotency_key"
key = "header:Idempotency-Key"
retention = "24h"

[tools."mail.send"]
[tools."mail.send".http]
method = "POST"
url = "{supplier}/tools/mail"
timeout = "400ms"
linger = "0s"
[tools."mail.send".recovery]
kind = "none"

[tools."books.post"]
sensitive = ["/iban"]
[tools."books.post".worker]
scope = "books-4"
[tools."books.post".recovery]
kind = "lookup"
reference = "worker"
lookup = "worker"
authoritative = true
request_lifetime = "50ms"
skew = "0s"
[tools."books.post".budget]
first_delay = "10ms"
max_delay = "20ms"

[tools."hand.made"]
[tools."hand.made".worker]
[tools."hand.made".recovery]
kind = "none"

[tools."heard.order"]
[tools."heard.order".http]
method = "POST"
url = "{supplier}/orders"
[tools."heard.order".recovery]
kind = "idempotency_key"
key = "header:Idempotency-Key"
retention = "24h"
[tools."heard.order".evidence]
scheme = "standard"
secret = "${{file:{folder}/signing}}"
reference = "/data/key"
event_id = "/id"
success = {{ pointer = "/type", equals = "order.created" }}

[tools."deaf.order"]
[tools."deaf.order".http]
method = "POST"
url = "{supplier}/orders"
[tools."deaf.order".recovery]
kind = "idempotency_key"
key = "header:Idempotency-Key"
retention = "24h"
[tools."deaf.order".evidence]
scheme = "standard"
secret = "${{file:{folder}/nowhere}}"
reference = "/data/key"
event_id = "/id"
success = {{ pointer = "/type", equals = "order.created" }}

[tools."short.note"]
retention = "1s"
[tools."short.note".http]
method = "POST"
url = "{supplier}/tools/note"
[tools."short.note".recovery]
kind = "none"
[tools."short.note".budget]
elapsed = "1s"

[tools."private.note"]
accounts = ["elsewhere"]
[tools."private.note".http]
method = "POST"
url = "{supplier}/tools/note/{{/id}}"
[tools."private.note".recovery]
kind = "none"

[tools."placed.note"]
[tools."placed.note".http]
method = "POST"
url = "{supplier}/tools/note?id={{/id}}"
[tools."placed.note".recovery]
kind = "none"
"#
    )
}

impl House {
    pub(crate) async fn build() -> Self {
        Self::with_options(LedgerOptions::default()).await
    }

    pub(crate) async fn with_options(options: LedgerOptions) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), options).await
    }

    /// The ledger that lies in `folder`, or a new one.
    pub(crate) async fn in_folder(folder: tempfile::TempDir, options: LedgerOptions) -> Self {
        let supplier = Supplier::start(SupplierOptions::new(Flavour::dedupe())).unwrap();
        std::fs::write(folder.path().join("signing"), "whsec_c2lnbmluZyBzZWNyZXQgb2YgYSB0ZXN0\n").unwrap();
        let config = parsed(&tools(&supplier.url(), folder.path()), folder.path());
        let declared = config.tools.values().map(|declared| declared.tool.clone()).collect();
        let path = folder.path().join("ledger.db");
        let ledger = Ledger::open(&path, declared, options).await.unwrap();
        let secret = ledger.store().ledger_secret();
        let destination = HttpDestination::new(ledger.clock().clone(), secret).unwrap();
        let worker = WorkerName::parse(ledger.store().writer()).unwrap();
        let executor = Executor::new(ledger.clone(), Arc::new(destination), worker);
        let app = App::new(executor.clone(), config.limits);
        let socket = Socket::bind(&Listen::Tcp("127.0.0.1:0".parse().unwrap())).await.unwrap();
        let address = socket.place().strip_prefix("http://").unwrap().parse().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(socket, app.clone(), router(app.clone()), stop.clone(), Duration::from_secs(2)));
        tokio::spawn({
            let executor = executor.clone();
            async move { executor.carry_on().await }
        });
        Self { ledger, executor, supplier, address, folder, app, stop }
    }

    pub(crate) fn drain(&self) {
        self.app.drain();
        self.stop.cancel();
    }

    /// Ends it and gives its folder back.
    pub(crate) async fn close(self) -> tempfile::TempDir {
        self.drain();
        self.executor.drain(Duration::from_secs(10)).await;
        self.ledger.store().close().await;
        self.folder
    }

    pub(crate) async fn token(&self, account: &str, principal: &str, roles: &[&str]) -> String {
        self.token_for(account, principal, roles, &[], None).await
    }

    pub(crate) async fn token_for(
        &self,
        account: &str,
        principal: &str,
        roles: &[&str],
        tools: &[&str],
        expires_at: Option<Timestamp>,
    ) -> String {
        let (text, digest) = secret::mint().unwrap();
        let token = Token {
            id: text[3..15].to_owned(),
            principal: Principal::parse(principal).unwrap(),
            account: Account::parse(account).unwrap(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            digest,
            created_at: self.ledger.store().now(),
            expires_at,
            revoked_at: None,
        };
        self.ledger.store().create_token(token).await.unwrap();
        text
    }

    pub(crate) async fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(token, method, path, "application/json", body.as_bytes()).await
    }

    pub(crate) async fn send(&self, token: &str, method: &str, path: &str, kind: &str, body: &[u8]) -> Reply {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Content-Type", kind)];
        if !token.is_empty() {
            headers.push(("Authorization", &bearer));
        }
        let reply = wire::exchange(self.address, method, path, &headers, body).await.unwrap();
        assert!(reply.header("request-id").is_some_and(|id| id.starts_with("req_")), "{method} {path}");
        reply
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Reply {
        self.call(token, "GET", path, &Value::Null).await
    }

    /// How many rows each table of the ledger has.
    pub(crate) fn rows(&self) -> Vec<(String, i64)> {
        let connection = rusqlite::Connection::open(self.folder.path().join("ledger.db")).unwrap();
        let mut names = connection
            .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'counterfoil_%' ORDER BY 1")
            .unwrap();
        let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let count = |name: &String| {
            connection.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get(0)).unwrap()
        };
        names.iter().map(|name| (name.clone(), count(name))).collect()
    }
}

pub(crate) fn parsed(tools: &str, folder: &Path) -> Config {
    config::parse(tools, &folder.join("counterfoil.toml"), &Overrides::default()).unwrap()
}

/// A purchase order of this many.
pub(crate) fn order(quantity: u32) -> Value {
    json!({ "tool": "supplier.create_order", "arguments": { "sku": "flour-25kg", "quantity": quantity } })
}

pub(crate) fn with(mut body: Value, members: Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The code of a problem, with everything that each problem must have.
pub(crate) fn code(reply: &Reply) -> String {
    let problem = reply.value();
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{problem}");
    assert_eq!(problem["status"], reply.status, "{problem}");
    let code = problem["type"].as_str().unwrap().strip_prefix("urn:counterfoil:problem:").unwrap().to_owned();
    for member in ["title", "detail", "hint", "sent"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {problem}");
    }
    assert_eq!(problem["doc"], format!("/problems/{code}"));
    code
}

/// The status and the code of a refusal.
pub(crate) fn refused(reply: &Reply) -> (u16, String) {
    (reply.status, code(reply))
}
