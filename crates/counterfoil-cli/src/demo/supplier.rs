//! The suppliers: real processes with databases of their own, told from outside what to get wrong.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use sim::supplier::{Effect, SupplierOptions, read_effects, run_until};
use sim::wire::exchange;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::sync::Mutex;

use super::actions::Supplier;
use super::child;
use super::plan::Fault;

/// By this header the naive loop names the action, so that its effects can be counted. The suppliers
/// record it and make nothing of it.
pub(crate) const LABEL_HEADER: &str = "Demo-Action";
const START_LIMIT: Duration = Duration::from_secs(20);
const STEER_LIMIT: Duration = Duration::from_secs(10);
/// How often the database is read while waiting for an effect.
const EFFECT_POLL: Duration = Duration::from_millis(5);

/// One supplier.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) who: Supplier,
    pub(crate) address: SocketAddr,
    flavour: &'static str,
    database: PathBuf,
    process: Mutex<Option<Child>>,
    /// What struck in processes that are gone: they take their own count with them.
    struck: Mutex<BTreeMap<Fault, u64>>,
}

impl Shop {
    /// Starts the supplier in `folder`. One that `forgets` takes every key for a new one, whatever
    /// was promised.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn start(who: Supplier, folder: &Path, forgets: bool) -> anyhow::Result<Self> {
        let flavour = match who {
            Supplier::Mill if !forgets => "dedupe",
            Supplier::Mill | Supplier::Dairy => "forgetful",
        };
        loop {
            let port = child::free_port()?;
            let shop = Self {
                who,
                address: child::local(port),
                flavour,
                database: folder.join(format!("{}.db", who.label())),
                process: Mutex::new(None),
                struck: Mutex::default(),
            };
            match shop.open().await {
                Ok(()) => return Ok(shop),
                // Somebody else was quicker.
                Err(_) if !child::is_free(port) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The process's number, while there is one.
    pub(crate) async fn pid(&self) -> Option<u32> {
        self.process.lock().await.as_ref().and_then(Child::id)
    }

    /// Starts the process, on the same port and database as before.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn open(&self) -> anyhow::Result<()> {
        let mut command = child::this_binary()?;
        command.arg("demo-supplier").args(["--flavour", self.flavour]).arg("--database").arg(&self.database);
        command.args(["--port", &self.address.port().to_string()]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start a supplier")?;
        let stdout = process.stdout.take().context("a supplier without an output")?;
        let mut line = String::new();
        tokio::time::timeout(START_LIMIT, BufReader::new(stdout).read_line(&mut line))
            .await
            .context("a supplier did not start in time")??;
        ensure!(line.starts_with("http://"), "the {} did not start", self.who.label());
        *self.process.lock().await = Some(process);
        Ok(())
    }

    /// Kills the process: from now on connections to its port are refused.
    ///
    /// # Errors
    /// If it could not be killed.
    pub(crate) async fn close(&self) -> anyhow::Result<()> {
        self.keep_count().await?;
        let process = self.process.lock().await.take();
        match process {
            Some(mut process) => child::kill(&mut process).await,
            None => Ok(()),
        }
    }

    /// Ends the process in an orderly way, and says how often each fault struck here in the whole run.
    ///
    /// # Errors
    /// If it does not answer or could not be ended.
    pub(crate) async fn end(&self) -> anyhow::Result<BTreeMap<Fault, u64>> {
        self.keep_count().await?;
        let process = self.process.lock().await.take();
        if let Some(mut process) = process {
            child::end(&mut process).await?;
        }
        Ok(self.struck.lock().await.clone())
    }

    /// Ends the process whatever it is doing.
    pub(crate) async fn abandon(&self) {
        let process = self.process.lock().await.take();
        if let Some(mut process) = process {
            // The handle kills it once more when it is dropped; more cannot be done.
            drop(child::kill(&mut process).await);
        }
    }

    /// Lets `fault` strike the next `times` writes that contain `text`.
    ///
    /// # Errors
    /// If the supplier did not take it.
    pub(crate) async fn arm(&self, fault: &Value, text: &str, times: u32) -> anyhow::Result<()> {
        let body = json!({ "target": { "writes_containing": text }, "fault": fault, "times": times });
        self.steer("POST", "/sim/faults", &body).await.map(drop)
    }

    /// Takes back what has not struck, and lets the held answers go.
    ///
    /// # Errors
    /// If the supplier did not take it.
    pub(crate) async fn release(&self) -> anyhow::Result<()> {
        self.steer("DELETE", "/sim/faults", &Value::Null).await?;
        self.steer("POST", "/sim/release", &Value::Null).await.map(drop)
    }

    /// Waits until the supplier has done something of which `ours` is true. False if it does not
    /// within `limit`.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub(crate) async fn wait_for_effect(
        &self,
        limit: Duration,
        ours: impl Fn(&Effect) -> bool,
    ) -> anyhow::Result<bool> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            if self.effects().await?.iter().any(&ours) {
                return Ok(true);
            }
            if tokio::time::Instant::now() >= deadline {
                return Ok(false);
            }
            tokio::time::sleep(EFFECT_POLL).await;
        }
    }

    /// What the supplier has done, out of its own database.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub(crate) async fn effects(&self) -> anyhow::Result<Vec<Effect>> {
        let database = self.database.clone();
        let read = tokio::task::spawn_blocking(move || read_effects(&database)).await?;
        read.with_context(|| format!("the database of the {}", self.who.label()))
    }

    /// Adds up what struck in this process; to be asked once, before its end.
    async fn keep_count(&self) -> anyhow::Result<()> {
        let status = self.steer("GET", "/sim/status", &Value::Null).await?;
        let faults = status.get("faults").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut struck = self.struck.lock().await;
        for entry in &faults {
            let fault = Fault::ALL.into_iter().find(|fault| fault.at_supplier().as_ref() == entry.get(1));
            *struck
                .entry(fault.with_context(|| format!("a fault that was not planned: {entry}"))?)
                .or_default() += 1;
        }
        Ok(())
    }

    async fn steer(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let reply = tokio::time::timeout(STEER_LIMIT, exchange(self.address, method, path, &[], &body))
            .await
            .with_context(|| format!("the {} does not answer", self.who.label()))??;
        if reply.status >= 300 {
            bail!("the {} answers {path} with {}: {}", self.who.label(), reply.status, reply.value());
        }
        Ok(reply.value())
    }
}

/// The supplier's process: prints its URL in one line and serves until standard input ends, so that
/// it does not outlive the demo even if that is killed.
///
/// # Errors
/// If the flavour is not known, the port is taken or the database cannot be opened.
pub async fn serve_supplier(flavour: &str, database: &Path, port: u16) -> anyhow::Result<()> {
    let mut options = SupplierOptions::new(flavour.parse()?).with_database(database);
    options.control = true;
    options.reference = LABEL_HEADER.to_owned();
    let listener = TcpListener::bind(child::local(port)).await?;
    let line = format!("http://{}\n", listener.local_addr()?);
    std::io::stdout().write_all(line.as_bytes())?;
    run_until(listener, options, end_of_input()).await.map_err(Into::into)
}

/// Completes when standard input ends or fails.
async fn end_of_input() {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    drop(read.await);
}
