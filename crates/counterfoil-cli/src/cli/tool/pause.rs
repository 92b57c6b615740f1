//! `counterfoil tool pause`

use clap::Args;

use super::{OneOrAll, halt};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;

/// Stop the sends of a tool
///
/// Preparing, reading and following up go on. A running server sees it within a quarter of a second, and what it has not
/// begun to write stops as not sent. Through a
/// server, `--all` pauses every tool that is declared there, one by one.
#[derive(Clone, Debug, Args)]
pub struct PauseArgs {
    /// Which tool.
    #[command(flatten)]
    pub which: OneOrAll,
    /// Why, for the evidence
    #[arg(long, value_name = "TEXT")]
    pub note: String,
}

/// Runs the command.
///
/// # Errors
/// Where there is no such tool, or the ledger cannot be written.
pub(super) fn run(args: &PauseArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    halt::run(halt::What::Pause, &args.which, &args.note, context)
}
