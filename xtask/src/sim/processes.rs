//! `cargo xtask sim --processes`: the real binary, twice, on one ledger, against real suppliers behind a network that
//! cuts, swallows and copies; processes are killed and stopped while callers repeat themselves. Then everything heals,
//! and the auditor compares what the ledger claims with what the suppliers did.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use sim::auditor::{Expected, State, audit, group_by};
use sim::proxy::{Copy, Plan, Proxy};
use sim::seed::Seed;
use sim::supplier::{Fault, Flavour, RandomFaults, Supplier, SupplierOptions, Target};
use sim::wire::{Reply, exchange};
use tokio::process::{Child, Command};

/// How many callers ask at once.
const CALLERS: u64 = 6;
/// How long everything may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long one call may take.
const CALL: Duration = Duration::from_secs(20);

/// How a destination protects from a second effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Key,
    Reference,
    LookUp,
    Search,
    Nothing,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Key, Self::Reference, Self::LookUp, Self::Search, Self::Nothing];

    fn tool(self) -> &'static str {
        match self {
            Self::Key => "key.order",
            Self::Reference => "reference.order",
            Self::LookUp => "lookup.order",
            Self::Search => "search.order",
            Self::Nothing => "none.order",
        }
    }

    fn flavour(self) -> Flavour {
        match self {
            Self::Key => Flavour::dedupe(),
            Self::Reference => Flavour::UniqueReference,
            Self::LookUp | Self::Search | Self::Nothing => Flavour::Forgetful,
        }
    }

    /// Whether something that is declared settles every operation without a person.
    fn settles(self) -> bool {
        match self {
            Self::Key | Self::Reference | Self::LookUp => true,
            Self::Search | Self::Nothing => false,
        }
    }

    fn recovery(self, supplier: &str) -> String {
        let look_up = format!(
            "lookup = {{ url = \"{supplier}/orders?client_reference={{reference}}\", found = \"/orders/0/id\", \
             count = \"/orders\" }}\n"
        );
        match self {
            Self::Key => {
                "kind = \"idempotency_key\"\nkey = \"header:Idempotency-Key\"\nretention = \"24h\"\n\
                          stored_errors = \"reruns\"\n"
                    .to_owned()
            }
            Self::Reference => {
                format!("kind = \"unique_reference\"\nreference = \"body:/client_reference\"\n{look_up}")
            }
            Self::LookUp => format!(
                "kind = \"lookup\"\nreference = \"body:/client_reference\"\nauthoritative = true\n\
                 request_lifetime = \"2s\"\nqueue_time = \"0s\"\nskew = \"1s\"\n{look_up}"
            ),
            Self::Search => format!(
                "kind = \"lookup\"\nreference = \"body:/client_reference\"\nlookup_for = \"5s\"\n{look_up}"
            ),
            Self::Nothing => "kind = \"none\"\n".to_owned(),
        }
    }
}

/// A supplier and the network in front of it.
struct Site {
    kind: Kind,
    supplier: Supplier,
    proxy: Proxy,
}

impl Site {
    fn start(kind: Kind, seed: u64) -> Result<Self> {
        let mut options = SupplierOptions::new(kind.flavour());
        options.random = Some(RandomFaults {
            seed: Seed::for_item(seed, kind as u64).next_u64(),
            per_mille: 350,
            target: Target::Writes,
            menu: menu(),
        });
        let supplier = Supplier::start(options)?;
        let proxy = Proxy::start(supplier.addr())?;
        Ok(Self { kind, supplier, proxy })
    }

    /// What the network does to the next connection. It copies only what the destination recognises.
    fn trouble(&self, seed: &mut Seed) {
        let plan = match seed.below(8) {
            0 => Plan::drop_reply(),
            1 => Plan::reset_reply(),
            2 => Plan::truncate_reply(20 + seed.below(80)),
            3 => Plan::truncate_request(40 + seed.below(60)),
            4 => Plan::swallow_reply(),
            5 if self.kind == Kind::Key || self.kind == Kind::Reference => Plan::duplicate(Copy::AfterReply),
            _ => Plan::pass(),
        };
        self.proxy.plan(plan);
    }
}

fn menu() -> Vec<Fault> {
    vec![
        Fault::CloseBeforeRead,
        Fault::ResetAfterHeadersRead,
        Fault::RequestLost,
        Fault::ReplyDropped,
        Fault::ReplyReset,
        Fault::StatusAfterEffect(503),
        Fault::Status(503),
        Fault::RetryAfter(429, 1),
        Fault::TruncatedBody,
        Fault::GarbageBody,
        Fault::SlowReply(Duration::from_millis(700)),
        Fault::CloseAfterReply,
    ]
}

fn configuration(sites: &[Site]) -> Result<String> {
    let mut text =
        "[server]\nlisten = \"127.0.0.1:0\"\ndatabase = \"sqlite:counterfoil.db\"\nlease = \"2s\"\n"
            .to_owned();
    for site in sites {
        let (tool, url) = (site.kind.tool(), site.proxy.url());
        write!(
            text,
            "[tools.\"{tool}\"]\n[tools.\"{tool}\".http]\nmethod = \"POST\"\nurl = \"{url}/orders\"\n\
             receipt_reference = \"/id\"\ntimeout = \"400ms\"\nlinger = \"200ms\"\n\
             [tools.\"{tool}\".recovery]\n{}[tools.\"{tool}\".budget]\nattempts = 60\nelapsed = \"10m\"\n\
             first_delay = \"60ms\"\nmax_delay = \"300ms\"\n",
            site.kind.recovery(&url)
        )?;
        if site.kind == Kind::Reference {
            write!(
                text,
                "[[tools.\"{tool}\".outcomes]]\nstatus = 409\n\
                 body = {{ pointer = \"/error/code\", equals = \"already_exists\" }}\nmeans = \"duplicate_of_ours\"\n"
            )?;
        }
    }
    Ok(text)
}

/// The built binary, and the folder that it works in.
struct Product {
    binary: PathBuf,
    folder: tempfile::TempDir,
}

impl Product {
    fn build() -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = std::process::Command::new(cargo)
            .args(["build", "--quiet", "--locked", "--package", "counterfoil-cli", "--bin", "counterfoil"])
            .args(["--message-format", "json"])
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(built.status.success(), "the binary does not build");
        let text = String::from_utf8(built.stdout)?;
        let binary = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
            .next_back()
            .context("cargo names no binary")?;
        Ok(Self { binary, folder: tempfile::tempdir()? })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn token(&self, role: &str) -> Result<String> {
        let arguments =
            ["token", "create", "--json", "--account", "kitchen", "--principal", role, "--role", role];
        let output = self.command(&arguments).output().await?;
        let token: Value = serde_json::from_slice(&output.stdout).context("no token")?;
        Ok(token["token"].as_str().context("no token")?.to_owned())
    }

    async fn serve(&self, number: u32) -> Result<Server> {
        let log = self.folder.path().join(format!("server-{number}.log"));
        let file = std::fs::File::create(&log)?;
        let child = self.command(&["serve"]).stdout(file.try_clone()?).stderr(file).spawn()?;
        let mut server = Server { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        for _ in 0..2_000 {
            if let Some(address) = ready(&log) {
                server.address = address;
                return Ok(server);
            }
            if server.child.try_wait()?.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("no ready line:\n{}", std::fs::read_to_string(&log)?)
    }
}

/// The address in the ready line of a log.
fn ready(log: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(log).ok()?;
    let line = text.lines().find(|line| line.contains("ready on"))?;
    let at = line.find("127.0.0.1:")?;
    let address: String =
        line[at..].chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
    address.parse().ok()
}

/// A running server.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    async fn signal(&self, name: &str) -> Result<()> {
        let id = self.child.id().context("it ended")?.to_string();
        Command::new("kill").args([&format!("-{name}"), &id]).status().await?;
        Ok(())
    }
}

/// Where the servers are, as callers know it.
type Addresses = Arc<Mutex<[SocketAddr; 2]>>;

async fn call(address: SocketAddr, token: &str, method: &str, path: &str, body: &Value) -> Option<Reply> {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let exchanged = exchange(address, method, path, &headers, &body);
    tokio::time::timeout(CALL, exchanged).await.ok()?.ok()
}

/// A caller that repeats itself with the same ID, at whichever server answers, for a while.
async fn caller(addresses: Addresses, token: String, number: u64, operations: u64, mut seed: Seed) {
    for item in (0..operations).filter(|item| item % CALLERS == number) {
        let kind = kind_of(item);
        let order = json!({
            "tool": kind.tool(), "arguments": { "sku": name(item), "quantity": 10 },
            "execute": true, "wait_ms": seed.below(700),
        });
        for _ in 0..4 {
            let address =
                addresses.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(seed.chance(500))];
            let path = format!("/v1/operations/{}", name(item));
            let answer = call(address, &token, "PUT", &path, &order).await;
            if answer.is_some_and(|answer| answer.status == 200) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20 + seed.below(150))).await;
        }
    }
}

fn name(item: u64) -> String {
    format!("order-{item:05}")
}

fn kind_of(item: u64) -> Kind {
    let index = usize::try_from(item).unwrap_or(0) % Kind::ALL.len();
    Kind::ALL.get(index).copied().unwrap_or(Kind::Nothing)
}

/// What a run counted.
#[derive(Default)]
struct Counts {
    kills: u64,
    stops: u64,
    effects: usize,
    held: BTreeMap<&'static str, u64>,
    succeeded: u64,
}

/// Runs `operations` and prints what it found.
pub(super) fn run(seed: u64, operations: u64) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let counts = runtime.block_on(simulate(seed, operations)).with_context(|| {
        format!("replay: cargo xtask sim --processes --seed {seed} --operations {operations}")
    })?;
    println!(
        "seed {seed}: {operations} operations on two processes, {} kills, {} stops: {} succeeded, {} effects, \
         no duplicate, nothing stuck; a person was asked for {:?}",
        counts.kills, counts.stops, counts.succeeded, counts.effects, counts.held
    );
    Ok(())
}

async fn simulate(seed: u64, operations: u64) -> Result<Counts> {
    let product = Product::build()?;
    let sites = Kind::ALL.map(|kind| Site::start(kind, seed));
    let sites = sites.into_iter().collect::<Result<Vec<Site>>>()?;
    std::fs::write(product.folder.path().join("counterfoil.toml"), configuration(&sites)?)?;
    let token = product.token("agent").await?;
    let mut started = 2;
    let mut servers = [product.serve(0).await?, product.serve(1).await?];
    let addresses: Addresses = Arc::new(Mutex::new([servers[0].address, servers[1].address]));
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..CALLERS {
        let own = Seed::for_item(seed, 100 + number);
        callers.spawn(caller(addresses.clone(), token.clone(), number, operations, own));
    }
    let (mut counts, mut chaos) = (Counts::default(), Seed::for_item(seed, 7));
    loop {
        let pause = Duration::from_millis(40 + chaos.below(120));
        if tokio::time::timeout(pause, async { while callers.join_next().await.is_some() {} }).await.is_ok() {
            break;
        }
        for site in &sites {
            site.trouble(&mut chaos);
        }
        let victim = usize::from(chaos.chance(500));
        match chaos.below(8) {
            0 => {
                servers[victim].child.kill().await?;
                servers[victim] = product.serve(started).await?;
                started += 1;
                counts.kills += 1;
                addresses.lock().unwrap_or_else(PoisonError::into_inner)[victim] = servers[victim].address;
            }
            1 => {
                servers[victim].signal("STOP").await?;
                tokio::time::sleep(Duration::from_millis(100 + chaos.below(1_400))).await;
                servers[victim].signal("CONT").await?;
                counts.stops += 1;
            }
            _ => {}
        }
    }
    for site in &sites {
        site.supplier.clear_faults();
        site.proxy.plan_for_all(Plan::pass());
    }
    judge(&sites, servers[0].address, &token, operations, &mut counts).await?;
    let verified = product.command(&["audit", "verify"]).output().await?;
    ensure!(verified.status.success(), "audit verify: {}", String::from_utf8_lossy(&verified.stderr));
    Ok(counts)
}

/// Waits until nothing moves any more, and compares.
async fn judge(
    sites: &[Site],
    address: SocketAddr,
    token: &str,
    operations: u64,
    counts: &mut Counts,
) -> Result<()> {
    let mut claims: BTreeMap<&'static str, Vec<Expected>> = BTreeMap::new();
    for item in 0..operations {
        let (id, kind) = (name(item), kind_of(item));
        let rest = tokio::time::timeout(PATIENCE, at_rest(address, token, &id, kind)).await;
        let rest = rest.with_context(|| format!("{id} ({kind:?}) is stuck"))?;
        let state = rest["state"].as_str().unwrap_or_default();
        let claim = match state {
            "succeeded" => State::Succeeded,
            "rejected" => State::Rejected,
            _ => State::Open,
        };
        let mut expected = Expected::new(&id, claim);
        if claim == State::Succeeded {
            counts.succeeded += 1;
            expected = expected.with_receipt(rest["receipt"]["reference"].as_str().unwrap_or_default());
        }
        if claim == State::Open {
            *counts.held.entry(kind.tool()).or_default() += 1;
            ensure!(!kind.settles(), "{id} ({kind:?}) asks a person: {rest}");
        }
        claims.entry(kind.tool()).or_default().push(expected);
    }
    for site in sites {
        let effects = site.supplier.effects()?;
        let groups = group_by(&effects, |effect| effect.value()["sku"].as_str().map(str::to_owned));
        let expected = claims.remove(site.kind.tool()).unwrap_or_default();
        let report = audit(&expected, &groups);
        counts.effects += report.effects;
        let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        ensure!(found.is_empty(), "{}: {}", site.kind.tool(), found.join("; "));
    }
    Ok(())
}

/// The operation, as soon as nothing moves it but a person. One that no caller got through is put now.
async fn at_rest(address: SocketAddr, token: &str, id: &str, kind: Kind) -> Value {
    let path = format!("/v1/operations/{id}");
    let order = json!({ "tool": kind.tool(), "arguments": { "sku": id, "quantity": 10 }, "execute": true, "wait_ms": 1_000 });
    loop {
        let answer = call(address, token, "PUT", &path, &order).await;
        let value = answer.map(|answer| answer.value()).unwrap_or_default();
        let state = value["state"].as_str().unwrap_or_default();
        if state == "succeeded" || state == "rejected" || value["held"] == json!(true) {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
