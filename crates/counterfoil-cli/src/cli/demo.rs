//! `counterfoil demo`, and the hidden process of its suppliers.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::demo::{Options, run, serve_supplier};

/// Shows a lost reply, and everything else that can go wrong, on this machine.
///
/// Starts two suppliers and a Counterfoil server as processes of their own, sends purchase orders and
/// agent actions through them, breaks something with each, and counts in the suppliers' own databases
/// what was done. Ends with 1 if anything was done twice.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Repeat the plan of this seed
    #[arg(long)]
    seed: Option<u64>,
    /// How many actions, from 8 to 262
    #[arg(long, value_name = "N", default_value_t = 60)]
    actions: usize,
    /// Print one JSON object with the summary, and the story on stderr
    #[arg(long)]
    json: bool,
    /// Let a naive retry loop do the same, to see how many duplicates it makes
    #[arg(long)]
    without_counterfoil: bool,
    /// Keep the folder with the databases, the configuration and the log
    #[arg(long)]
    keep: bool,
    /// Let the supplier that promised to know its keys forget them: the demo has to notice
    #[arg(long, hide = true)]
    forget_keys: bool,
}

impl DemoArgs {
    /// Runs it; 1 if the claims do not hold.
    ///
    /// # Errors
    /// If it cannot be played to its end.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let options = Options {
            seed: self.seed,
            actions: self.actions,
            json: self.json,
            without_counterfoil: self.without_counterfoil,
            keep: self.keep,
            forget_keys: self.forget_keys,
        };
        let verdict = Box::pin(run(&options)).await?;
        if self.json {
            let mut line = serde_json::to_string(&verdict)?;
            line.push('\n');
            io::stdout().write_all(line.as_bytes())?;
        }
        Ok(if verdict.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A supplier of the demo.
#[derive(Debug, clap::Args)]
pub struct DemoSupplierArgs {
    /// dedupe or forgetful
    #[arg(long)]
    flavour: String,
    /// Where its effects are kept
    #[arg(long)]
    database: PathBuf,
    /// The port on 127.0.0.1
    #[arg(long)]
    port: u16,
}

impl DemoSupplierArgs {
    /// Serves until standard input ends.
    ///
    /// # Errors
    /// If it cannot start.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        serve_supplier(&self.flavour, &self.database, self.port).await?;
        Ok(ExitCode::SUCCESS)
    }
}
