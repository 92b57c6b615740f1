//! `counterfoil token revoke`

use clap::Args;

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// Revoke a token; it stops working everywhere within a second
#[derive(Clone, Debug, Args)]
pub struct RevokeArgs {
    /// The ID of the token, as `token list` shows it
    #[arg(value_name = "ID")]
    pub id: String,
}

/// Runs the command.
///
/// # Errors
/// Where there is no such token, or the ledger cannot be written.
pub(super) fn run(_args: &RevokeArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("token revoke")
}
