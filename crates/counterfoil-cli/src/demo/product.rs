//! Counterfoil itself, as a process on a ledger in a file: configured, started, killed, started again.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use sim::wire::exchange;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use super::actions::{Action, Supplier};
use super::child;
use super::supplier::Shop;

/// The account that the agent works for.
pub(crate) const ACCOUNT: &str = "kitchen";
const START_LIMIT: Duration = Duration::from_secs(20);
const START_POLL: Duration = Duration::from_millis(10);
/// The end of the log that is shown when the server does not start.
const LOG_LINES: usize = 12;

/// The server, its configuration and its ledger.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    config: PathBuf,
    log: PathBuf,
    process: Mutex<Option<Child>>,
}

impl Product {
    /// Writes the configuration into `folder`, makes a token and starts the server.
    ///
    /// # Errors
    /// If a step fails; with the server's last words if it did not start.
    pub(crate) async fn start(folder: &Path, actions: &[&Action], shops: &[Shop]) -> anyhow::Result<Self> {
        loop {
            let port = child::free_port()?;
            match Self::start_on(port, folder, actions, shops).await {
                // Somebody else was quicker.
                Err(_) if !child::is_free(port) => {}
                started => return started,
            }
        }
    }

    async fn start_on(port: u16, folder: &Path, actions: &[&Action], shops: &[Shop]) -> anyhow::Result<Self> {
        let address = child::local(port);
        let config = folder.join("counterfoil.toml");
        let text = configuration(address, actions, shops);
        let file = config.clone();
        on_disk(move || std::fs::write(file, text)).await.context("write the configuration")?;
        let token = make_token(&config).await?;
        let log = folder.join("server.log");
        let product = Self { address, token, config, log, process: Mutex::new(None) };
        product.open().await?;
        Ok(product)
    }

    /// The process's number, while there is one.
    pub(crate) async fn pid(&self) -> Option<u32> {
        self.process.lock().await.as_ref().and_then(Child::id)
    }

    /// Starts the process, on the same port and ledger as before, and waits until it is ready.
    ///
    /// # Errors
    /// If it does not get ready; with its last words.
    pub(crate) async fn open(&self) -> anyhow::Result<()> {
        let path = self.log.clone();
        let log = on_disk(move || File::options().create(true).append(true).open(path)).await;
        let log = log.context("open the server's log")?;
        let mut command = child::this_binary()?;
        // The server ends with its input, so that it does not outlive the demo even if that is killed.
        command.args(["serve", "--until-input-ends", "--config"]).arg(&self.config);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let mut process = command.spawn().context("start the server")?;
        let deadline = tokio::time::Instant::now() + START_LIMIT;
        while !self.ready().await {
            let ended = process.try_wait().context("the server's process")?.is_some();
            if ended || tokio::time::Instant::now() >= deadline {
                let why = if ended { "ended at once" } else { "did not get ready" };
                bail!("the server {why}; its last words:\n{}", self.last_words().await);
            }
            tokio::time::sleep(START_POLL).await;
        }
        *self.process.lock().await = Some(process);
        Ok(())
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// If it could not be killed.
    pub(crate) async fn kill(&self) -> anyhow::Result<()> {
        let process = self.process.lock().await.take();
        match process {
            Some(mut process) => child::kill(&mut process).await,
            None => Ok(()),
        }
    }

    async fn ready(&self) -> bool {
        let asked = exchange(self.address, "GET", "/readyz", &[], &[]);
        matches!(tokio::time::timeout(START_LIMIT, asked).await, Ok(Ok(reply)) if reply.status == 200)
    }

    async fn last_words(&self) -> String {
        let path = self.log.clone();
        let log = on_disk(move || std::fs::read_to_string(path)).await.unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(LOG_LINES)).map(|line| format!("  {line}\n")).collect()
    }
}

/// Leases and timeouts are short, so that nobody has to wait for the recovery; the rules are those of
/// any other configuration.
fn configuration(address: SocketAddr, actions: &[&Action], shops: &[Shop]) -> String {
    let mut text =
        format!("[server]\nlisten = \"{address}\"\ndatabase = \"sqlite:counterfoil.db\"\nlease = \"2s\"\n");
    let tools: BTreeSet<(&str, &str, Supplier)> =
        actions.iter().map(|action| (action.tool.as_str(), action.path.as_str(), action.supplier)).collect();
    for (tool, path, supplier) in tools {
        let Some(shop) = shops.iter().find(|shop| shop.who == supplier) else { continue };
        let recovery = match supplier {
            Supplier::Mill => {
                "kind = \"idempotency_key\"\nkey = \"header:Idempotency-Key\"\nretention = \"24h\"\n"
            }
            Supplier::Dairy => "kind = \"none\"\n",
        };
        text.push_str(&format!(
            r#"
[tools."{tool}"]
description = "Carried out by the {who}"
[tools."{tool}".http]
method = "POST"
url = "http://{at}{path}"
timeout = "1s"
linger = "1s"
receipt_reference = "/id"
[tools."{tool}".recovery]
{recovery}[tools."{tool}".budget]
attempts = 12
elapsed = "2m"
first_delay = "50ms"
max_delay = "1s"
"#,
            who = supplier.label(),
            at = shop.address,
        ));
    }
    text
}

/// A token for the agent, made as an operator makes one.
async fn make_token(config: &Path) -> anyhow::Result<String> {
    let mut command: Command = child::this_binary()?;
    command.args([
        "token",
        "create",
        "--account",
        ACCOUNT,
        "--role",
        "agent",
        "--principal",
        "demo-agent",
        "--json",
    ]);
    let made = command.arg("--config").arg(config).output().await.context("run token create")?;
    ensure!(made.status.success(), "token create failed:\n{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).context("what token create printed")?;
    made.get("token").and_then(Value::as_str).map(str::to_owned).context("token create printed no token")
}

async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
