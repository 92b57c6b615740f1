//! The real binary as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use counterfoil::store::Token;
use counterfoil::store::sqlite::SqliteStore;
use counterfoil::{Clock as _, SystemClock};
use sha2::{Digest as _, Sha256};

use super::fixture;

/// Builds the release binary and says where it lies.
pub(super) fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--package", "counterfoil-cli", "--bin", "counterfoil"])
        .status()
        .context("cargo build")?;
    ensure!(built.success(), "the binary does not build");
    let binary = std::env::current_exe()?.with_file_name("counterfoil");
    ensure!(binary.exists(), "there is no {}: run `cargo xtask bench`", binary.display());
    Ok(binary)
}

/// A folder with a configuration, and the token that its server takes.
pub(super) struct Site {
    folder: PathBuf,
    binary: PathBuf,
    /// The token's text.
    pub(super) token: String,
}

impl Site {
    /// Writes a configuration whose orders go to `orders`, and makes the ledger with one token.
    pub(super) async fn make(folder: &Path, binary: &Path, orders: &str) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let (tool, account) = (fixture::TOOL, fixture::ACCOUNT);
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\ndatabase = \"sqlite:ledger.db\"\n\n\
             [tools.\"{tool}\"]\naccounts = [\"{account}\"]\n\n\
             [tools.\"{tool}\".http]\nmethod = \"POST\"\nurl = \"{orders}\"\nreceipt_reference = \"/id\"\n\n\
             [tools.\"{tool}\".recovery]\nkind = \"idempotency_key\"\nkey = \"header:Idempotency-Key\"\n\
             retention = \"24h\"\n"
        );
        std::fs::write(folder.join("counterfoil.toml"), text)?;
        let site = Self {
            folder: folder.to_owned(),
            binary: binary.to_owned(),
            token: format!("cf_{:A<43}", "measured-"),
        };
        let store = SqliteStore::open(site.ledger(), counterfoil::store::sqlite::SqliteOptions::default())?;
        let caller = fixture::caller()?;
        store
            .create_token(Token {
                id: "bench".to_owned(),
                principal: caller.principal,
                account: caller.account,
                roles: vec!["agent".to_owned()],
                tools: Vec::new(),
                digest: Sha256::digest(site.token.as_bytes()).into(),
                created_at: store.now(),
                expires_at: None,
                revoked_at: None,
            })
            .await?;
        store.close().await;
        Ok(site)
    }

    /// The ledger's file.
    pub(super) fn ledger(&self) -> PathBuf {
        self.folder.join("ledger.db")
    }

    /// Starts the server and waits until it says that it is ready.
    pub(super) fn start(&self) -> Result<Server> {
        let clock = SystemClock::default();
        let begun = clock.monotonic();
        let mut child = Command::new(&self.binary)
            .arg("serve")
            .current_dir(&self.folder)
            .env_remove("COUNTERFOIL_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("the server does not start")?;
        let output = child.stdout.take().context("no output")?;
        let mut server = Server { child, address: ([127, 0, 0, 1], 0).into(), ready_after: Duration::ZERO };
        for line in BufReader::new(output).lines() {
            if let Some(address) = line?.strip_prefix("ready on http://") {
                server.ready_after = clock.monotonic() - begun;
                server.address = address.trim().parse()?;
                return Ok(server);
            }
        }
        anyhow::bail!("the server ended before it was ready")
    }
}

/// A running server. It ends with this value.
pub(super) struct Server {
    child: Child,
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// How long it took from the start of the process to the line that says so.
    pub(super) ready_after: Duration,
}

impl Server {
    /// Resident memory now and at its highest, in MB.
    pub(super) fn resident(&self) -> Result<(f64, f64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let value = |name: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
            let kib: f64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?;
            Ok(kib * 1_024.0 / 1e6)
        };
        Ok((value("VmRSS")?, value("VmHWM")?))
    }

    /// Asks the server to end and waits for it.
    pub(super) fn stop(mut self) -> Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        let ended = self.child.wait()?;
        ensure!(ended.success(), "the server ended with {ended}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failed measurement, or after it ended: then there is nothing left to end.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
