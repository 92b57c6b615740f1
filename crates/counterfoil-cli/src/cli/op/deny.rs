//! `counterfoil op deny`

use clap::Args;

use serde_json::Map;

use super::{IdArg, decision};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;

/// Deny an operation: it ends rejected and nothing is sent
#[derive(Clone, Debug, Args)]
pub struct DenyArgs {
    /// The operation ID
    #[arg(value_name = "ID")]
    pub id: IdArg,
    /// Why, for whoever prepared it
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

/// Runs the command.
///
/// # Errors
/// Where the operation can no longer be denied.
pub(super) fn run(args: &DenyArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let body = Map::from_iter([("reason".to_owned(), args.reason.clone().into())]);
    decision::run(&args.id.read()?, "/deny", body, context)
}
