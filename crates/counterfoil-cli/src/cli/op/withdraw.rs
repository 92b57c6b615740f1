//! `counterfoil op withdraw`

use clap::Args;

use counterfoil::OperationId;

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// Withdraw an operation that has not started: it ends rejected
#[derive(Clone, Debug, Args)]
pub struct WithdrawArgs {
    /// The operation ID
    #[arg(value_name = "ID")]
    pub id: OperationId,
}

/// Runs the command.
///
/// # Errors
/// Where the operation has started.
pub(super) fn run(_args: &WithdrawArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("op withdraw")
}
