//! `counterfoil tool pause`

use clap::Args;

use super::OneOrAll;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// Stop the sends of a tool
///
/// Preparing, reading and following up go on. A running server sees it within a quarter of a second, and what it has not begun to write stops as not sent.
#[derive(Clone, Debug, Args)]
pub struct PauseArgs {
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
pub(super) fn run(_args: &PauseArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("tool pause")
}
