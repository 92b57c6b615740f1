//! `counterfoil op approve`

use clap::Args;

use counterfoil::OperationId;
use serde_json::Map;

use super::{IdArg, decision};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;

/// Approve what is stored under this ID
///
/// Whoever prepared an operation cannot approve it. On a database you are `os:USER`; a token has a name of its own.
#[derive(Clone, Debug, Args)]
pub struct ApproveArgs {
    /// The operation ID
    #[arg(value_name = "ID")]
    pub id: IdArg,
    /// The fingerprint that was looked at, as `op show` prints it
    #[arg(long, value_name = "FINGERPRINT")]
    pub fingerprint: String,
    /// A succeeded operation that the approver knows of
    #[arg(long, value_name = "ID")]
    pub acknowledges: Option<OperationId>,
    /// Decide only if the operation still has this version
    #[arg(long, value_name = "N")]
    pub if_version: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// Where the operation cannot be approved now, or by this principal.
pub(super) fn run(args: &ApproveArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let mut body = Map::new();
    body.insert("fingerprint".to_owned(), args.fingerprint.clone().into());
    if let Some(acknowledges) = &args.acknowledges {
        body.insert("acknowledges".to_owned(), acknowledges.as_str().into());
    }
    if let Some(version) = args.if_version {
        body.insert("if_version".to_owned(), version.into());
    }
    decision::run(&args.id.read()?, "/approve", body, context)
}
