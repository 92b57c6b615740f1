//! `counterfoil demo`, and the hidden command that its suppliers are.

use std::path::PathBuf;

use clap::Args;
use tokio::runtime::Runtime;

use super::error::{CommandError, Kind};
use super::exit::Exit;
use super::globals::Context;
use crate::demo::{self, Options};

/// Show a lost reply that ends with one order and one receipt
///
/// Starts two practice suppliers and a server, each as a process of its own, runs purchase orders and agent actions
/// through a seeded script of faults (lost replies, resets, slow answers, a killed server), prints what happens, and
/// counts the effects in the suppliers' own databases. Ends with an error if any action has more than one effect.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// The seed of the fault script; the same seed gives the same script
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How many actions to run, from 8 to 262
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub actions: usize,
    /// Run the same script through a naive retry loop instead, to see how many duplicates it makes
    #[arg(long)]
    pub without_counterfoil: bool,
    /// Keep the folder with the databases, the configuration and the server's log
    #[arg(long)]
    pub keep: bool,
    /// Let the supplier that promised to know its keys forget them, which the demo has to notice
    #[arg(long, hide = true)]
    pub forget_keys: bool,
}

/// Runs the command. With `--json` the summary is the data and the story goes to stderr; otherwise the story is the data.
///
/// # Errors
/// Where the suppliers or the server cannot be started, or the run is interrupted.
pub fn run(args: &DemoArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let possible = demo::possible_actions().map_err(|error| broken(&error))?;
    if !possible.contains(&args.actions) {
        let (least, most) = (possible.start(), possible.end());
        return Err(CommandError::usage(
            format!("--actions {} is outside {least} to {most}", args.actions),
            format!("each of the {least} faults strikes at least once, and there are {most} actions"),
        ));
    }
    let options = Options {
        seed: args.seed,
        actions: args.actions,
        json: context.out.json,
        quiet: context.out.quiet,
        without_counterfoil: args.without_counterfoil,
        keep: args.keep,
        forget_keys: args.forget_keys,
    };
    let verdict = Runtime::new()?.block_on(Box::pin(demo::run(&options))).map_err(|error| broken(&error))?;
    if context.out.json {
        context.out.json(&verdict)?;
    }
    Ok(if verdict.holds() { Exit::Done } else { Exit::Error })
}

fn broken(error: &anyhow::Error) -> CommandError {
    let hint = "--keep keeps the folder with the databases and the server's log";
    CommandError::new(Kind::Environment, format!("the demo broke off: {error:#}"), hint)
}

/// Be a supplier of the demo
#[derive(Clone, Debug, Args)]
pub struct DemoSupplierArgs {
    /// `dedupe` or `forgetful`
    #[arg(long)]
    pub flavour: String,
    /// Where its effects are kept
    #[arg(long, value_name = "PATH")]
    pub database: PathBuf,
    /// The port on 127.0.0.1
    #[arg(long)]
    pub port: u16,
}

/// Runs the command until standard input ends.
///
/// # Errors
/// Where the port is taken or the database cannot be opened.
pub fn run_supplier(args: &DemoSupplierArgs) -> Result<Exit, CommandError> {
    let serving = Box::pin(demo::serve_supplier(&args.flavour, &args.database, args.port));
    Runtime::new()?.block_on(serving).map_err(|error| broken(&error))?;
    Ok(Exit::Done)
}
