//! Everything that one story needs, in a folder of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use sim::supplier::{Effect, Flavour, Supplier, SupplierOptions};
use tempfile::TempDir;

use super::cli::{self, Output};
use super::config::Setup;
use super::server::Server;
use super::{Api, eventually};

/// A supplier, a configuration with its ledger, and tokens.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) supplier: Supplier,
    started: AtomicU32,
}

impl World {
    /// A world whose supplier is of that flavour.
    pub(crate) fn new(flavour: Flavour, setup: &Setup) -> Self {
        Self::with_supplier(SupplierOptions::new(flavour), setup)
    }

    /// A world with a supplier that dedupes and a tool that says so.
    pub(crate) fn keyed() -> Self {
        Self::new(Flavour::dedupe(), &Setup::keyed())
    }

    /// A world in which every request that arrives is an effect, and nothing can be asked afterwards.
    pub(crate) fn forgetful() -> Self {
        Self::new(Flavour::Forgetful, &Setup::forgetful())
    }

    pub(crate) fn with_supplier(options: SupplierOptions, setup: &Setup) -> Self {
        let supplier = Supplier::start(options).unwrap();
        let world = Self { folder: TempDir::new().unwrap(), supplier, started: AtomicU32::new(0) };
        world.configure(setup);
        world
    }

    /// Writes the configuration anew.
    pub(crate) fn configure(&self, setup: &Setup) {
        let path = self.folder.path().join("counterfoil.toml");
        let mut text = setup.text(&self.supplier.url());
        if let Some(url) = postgres(&self.database()) {
            text = text.replace("sqlite:counterfoil.db", &url);
        }
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("counterfoil.db")
    }

    /// A server on this ledger. Several may run at once.
    #[track_caller]
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// A server with variables in its environment, such as fail points.
    #[track_caller]
    pub(crate) fn serve_with(&self, variables: &[(&str, &str)]) -> Server {
        Server::start(self.folder.path(), self.next_log(), variables)
    }

    /// As [`World::serve_with`], for a server that may end before it is ready.
    pub(crate) fn try_serve_with(&self, variables: &[(&str, &str)]) -> Server {
        Server::launch(cli::command(self.folder.path(), &["serve"]), self.next_log(), variables)
    }

    /// A server whose system calls are tampered with so, by a tracer beside it.
    pub(crate) fn try_serve_traced(&self, inject: &str) -> Server {
        let calls = inject.split(':').next().unwrap_or_default();
        let mut command = Command::new("strace");
        // With -D the server is our own child, and a signal for it reaches it.
        command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={inject}"), env!("CARGO_BIN_EXE_counterfoil"), "serve"]);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        Server::launch(command, self.next_log(), &[])
    }

    fn next_log(&self) -> PathBuf {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        self.folder.path().join(format!("server-{number}.log"))
    }

    /// Runs a command and waits for it.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        cli::finish(cli::spawn(self.folder.path(), arguments))
    }

    /// Makes a token, as an operator would.
    #[track_caller]
    pub(crate) fn token(&self, account: &str, principal: &str, roles: &[&str], more: &[&str]) -> Value {
        let mut arguments = vec!["token", "create", "--json", "--account", account, "--principal", principal];
        for role in roles {
            arguments.extend(["--role", role]);
        }
        arguments.extend(more);
        self.run(&arguments).expect(0).json()
    }

    /// A caller with new credentials, at no server yet.
    #[track_caller]
    pub(crate) fn caller(&self, server: &Server, account: &str, principal: &str, roles: &[&str]) -> Api {
        let token = self.token(account, principal, roles, &[]);
        Api { address: server.address, token: token["token"].as_str().unwrap().to_owned() }
    }

    /// The application, in the account `kitchen`.
    #[track_caller]
    pub(crate) fn agent(&self, server: &Server) -> Api {
        self.caller(server, "kitchen", "app", &["agent"])
    }

    /// Somebody who approves, in the same account.
    #[track_caller]
    pub(crate) fn approver(&self, server: &Server) -> Api {
        self.caller(server, "kitchen", "chef", &["approver"])
    }

    /// How many effects there are at the supplier.
    pub(crate) fn effects(&self) -> usize {
        self.supplier.effect_count().unwrap()
    }

    /// The effects whose body has that text.
    pub(crate) fn effects_with(&self, text: &str) -> Vec<Effect> {
        let mut effects = self.supplier.effects().unwrap();
        effects.retain(|effect| String::from_utf8_lossy(&effect.body).contains(text));
        effects
    }

    /// How many writes reached the supplier.
    pub(crate) fn writes(&self) -> usize {
        self.supplier.requests().iter().filter(|request| !request.is_lookup()).count()
    }

    /// Waits for that many effects.
    #[track_caller]
    pub(crate) fn wait_effects(&self, count: usize) {
        eventually("the effects", || (self.effects() >= count).then_some(()));
    }

    /// Fails unless the evidence chain is whole.
    #[track_caller]
    pub(crate) fn verify(&self) {
        self.run(&["audit", "verify"]).expect(0);
    }
}

/// An order that is to run at once; `label` tells its effects apart.
pub(crate) fn order(label: &str, wait_ms: u64) -> Value {
    json!({
        "tool": "supplier.create_order",
        "arguments": { "sku": label, "quantity": 10 },
        "execute": true,
        "wait_ms": wait_ms,
    })
}

/// The database that stands for a file, where `COUNTERFOIL_TEST_STORE=postgres` asks for the stories on PostgreSQL.
pub(crate) fn postgres(file: &std::path::Path) -> Option<String> {
    on_postgres().then(|| sim::postgres::Server::shared().database(&file.display().to_string()))
}

/// Whether the stories are told on PostgreSQL.
pub(crate) fn on_postgres() -> bool {
    std::env::var("COUNTERFOIL_TEST_STORE").is_ok_and(|store| store == "postgres")
}
