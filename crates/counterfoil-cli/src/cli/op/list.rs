//! `counterfoil op list`

use clap::Args;

use counterfoil::{Task, ToolName};

use super::StateArg;

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// List operations, newest first
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// Only this state
    #[arg(long, value_enum, value_name = "STATE")]
    pub state: Option<StateArg>,
    /// Only this tool
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<ToolName>,
    /// Only this task
    #[arg(long, value_name = "TASK")]
    pub task: Option<Task>,
    /// Only what a person must decide
    #[arg(long)]
    pub held: bool,
    /// Only what is not over
    #[arg(long)]
    pub unresolved: bool,
    /// Only what the destination calls by this reference
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,
    /// Only what was prepared after this instant (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub created_after: Option<String>,
    /// Only what was prepared before this instant (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub created_before: Option<String>,
    /// Items on one page, at most 200
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    pub limit: Option<u16>,
    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Where a filter cannot be read, or the ledger cannot be used.
pub(super) fn run(_args: &ListArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("op list")
}
