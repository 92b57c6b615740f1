//! `counterfoil op approve`

use clap::Args;

use counterfoil::OperationId;

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// Approve what is stored under this ID
///
/// Whoever prepared an operation cannot approve it.
#[derive(Clone, Debug, Args)]
pub struct ApproveArgs {
    /// The operation ID
    #[arg(value_name = "ID")]
    pub id: OperationId,
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
pub(super) fn run(_args: &ApproveArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("op approve")
}
