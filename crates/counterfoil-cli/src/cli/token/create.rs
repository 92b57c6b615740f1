//! `counterfoil token create`

use clap::Args;

use counterfoil::Principal;

use super::RoleArg;
use crate::config::duration::Length;

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// Create a token and print it once
///
/// The text is shown here and never again: the ledger keeps a digest. It works in the account of `--account` only.
#[derive(Clone, Debug, Args)]
pub struct CreateArgs {
    /// What it may do
    #[arg(long = "role", value_enum, value_name = "ROLE", required = true, num_args = 1..)]
    pub roles: Vec<RoleArg>,
    /// Who it acts for; default: the token itself. All tokens of one name are one principal
    #[arg(long, value_name = "NAME")]
    pub principal: Option<Principal>,
    /// The tools that it may use, as patterns with `*`; default: all
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    pub tools: Vec<String>,
    /// After what time it ends, such as `90d`; default: never
    #[arg(long, value_name = "DURATION", value_parser = Length::parse)]
    pub expires: Option<Length>,
}

/// Runs the command.
///
/// # Errors
/// Where no account is named, or the ledger cannot be written.
pub(super) fn run(_args: &CreateArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("token create")
}
