//! `counterfoil status`

use clap::Args;

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use super::not_wired::not_wired;

/// Show what needs attention now
///
/// The oldest operation whose outcome is unknown, what is held by tool, what is paused, which destinations fail, and
/// what to do next.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {}

/// Runs the command.
///
/// # Errors
/// Where the ledger cannot be read.
pub fn run(_args: &StatusArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("status")
}
