//! `counterfoil demo`

use clap::Args;

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use super::not_wired::not_wired;

/// Show a lost reply that ends with one order and one receipt
///
/// Starts a practice supplier and a server, runs actions through a seeded script of faults (lost replies, resets, slow
/// answers, a killed server), prints what happens, and counts the effects in the supplier's own database. Ends with an
/// error if any action has more than one effect.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// The seed of the fault script; the same seed gives the same script
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How many actions to run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub actions: Option<u32>,
    /// Run the same script through a naive retry loop instead, to see how many duplicates it makes
    #[arg(long)]
    pub without_counterfoil: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the supplier or the server cannot be started, or the effects are not what they must be.
pub fn run(_args: &DemoArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("demo")
}
