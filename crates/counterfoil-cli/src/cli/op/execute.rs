//! `counterfoil op execute`

use clap::Args;

use counterfoil::OperationId;

use crate::config::duration::Length;

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// Carry an operation out, or join the attempt that is running
///
/// On a database the attempt runs in this process, which does not end while the outcome is open. Calling it again with the
/// same ID is always safe.
#[derive(Clone, Debug, Args)]
pub struct ExecuteArgs {
    /// The operation ID
    #[arg(value_name = "ID")]
    pub id: OperationId,
    /// How long to wait for the outcome, such as `30s`; at most 2m
    #[arg(long, value_name = "DURATION", value_parser = Length::parse)]
    pub wait: Option<Length>,
}

/// Runs the command.
///
/// # Errors
/// Where there is no such operation, or the ledger cannot be used.
pub(super) fn run(_args: &ExecuteArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("op execute")
}
