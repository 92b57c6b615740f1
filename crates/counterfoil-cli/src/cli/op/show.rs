//! `counterfoil op show`

use clap::Args;

use counterfoil::OperationId;

use crate::config::duration::Length;

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// Show an operation as it is now
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The operation ID
    #[arg(value_name = "ID")]
    pub id: OperationId,
    /// How long to wait for a change, such as `30s`; at most 2m
    #[arg(long, value_name = "DURATION", value_parser = Length::parse)]
    pub wait: Option<Length>,
}

/// Runs the command.
///
/// # Errors
/// Where there is no such operation, or the ledger cannot be used.
pub(super) fn run(_args: &ShowArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("op show")
}
