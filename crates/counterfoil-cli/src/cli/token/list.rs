//! `counterfoil token list`

use clap::Args;

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// List tokens, never their text
#[derive(Clone, Debug, Args)]
pub struct ListArgs {}

/// Runs the command.
///
/// # Errors
/// Where the ledger cannot be read.
pub(super) fn run(_args: &ListArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("token list")
}
