//! `counterfoil tool resume`

use clap::Args;

use super::{OneOrAll, halt};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;

/// Let the sends of a tool go on
///
/// The only way to end a pause. `--all` ends a pause of everything; pauses of single tools stay until they are resumed.
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
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
pub(super) fn run(args: &ResumeArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    halt::run(halt::What::Resume, &args.which, &args.note, context)
}
