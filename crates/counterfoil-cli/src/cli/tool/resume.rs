//! `counterfoil tool resume`

use clap::Args;

use super::OneOrAll;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// Let the sends of a tool go on
///
/// The only way to end a pause.
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// Which tool.
    #[command(flatten)]
    pub which: OneOrAll,
    /// Why, for the evidence
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Where there is no such tool, or the ledger cannot be written.
pub(super) fn run(_args: &ResumeArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("tool resume")
}
