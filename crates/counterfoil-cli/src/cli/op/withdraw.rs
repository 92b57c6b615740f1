//! `counterfoil op withdraw`

use clap::Args;

use serde_json::Map;

use super::{IdArg, decision};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;

/// Withdraw an operation that has not started: it ends rejected
#[derive(Clone, Debug, Args)]
pub struct WithdrawArgs {
    /// The operation ID
    #[arg(value_name = "ID")]
    pub id: IdArg,
}

/// Runs the command.
///
/// # Errors
/// Where the operation has started.
pub(super) fn run(args: &WithdrawArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    decision::run(&args.id.read()?, "/withdraw", Map::new(), context)
}
