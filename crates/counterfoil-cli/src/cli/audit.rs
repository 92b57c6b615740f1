//! `counterfoil audit`

use clap::{Args, Subcommand};

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use super::not_wired::not_wired;

/// The commands about evidence.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check the chain of evidence.
    Verify(VerifyArgs),
}

/// Check the chain of evidence
///
/// Finds any row that was changed, removed, inserted or reordered, and a tail that was cut off.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {}

/// Runs the command.
///
/// # Errors
/// Where the ledger cannot be read, or its evidence does not hold together.
pub fn run(command: &AuditCommand, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    match command {
        AuditCommand::Verify(args) => verify(args, context),
    }
}

fn verify(_args: &VerifyArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("audit verify")
}
