//! `counterfoil tool`

pub(crate) mod body;
mod halt;
mod list;
mod pause;
mod plan;
mod resume;

use clap::{Args, Subcommand};

use counterfoil::ToolName;

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;

pub use self::list::ListArgs;
pub use self::pause::PauseArgs;
pub use self::plan::PlanArgs;
pub use self::resume::ResumeArgs;

/// The commands about tools.
#[derive(Debug, Subcommand)]
pub enum ToolCommand {
    /// List the declared tools.
    List(ListArgs),
    /// Show who can establish whether an action of this tool happened, and what follows.
    Plan(PlanArgs),
    /// Stop the sends of a tool.
    Pause(PauseArgs),
    /// Let the sends of a tool go on.
    Resume(ResumeArgs),
}

/// One tool, or all of them.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct OneOrAll {
    /// The tool
    #[arg(value_name = "TOOL")]
    pub tool: Option<ToolName>,
    /// All tools
    #[arg(long)]
    pub all: bool,
}

/// Runs the command.
///
/// # Errors
/// As the command says.
pub fn run(command: &ToolCommand, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    match command {
        ToolCommand::List(args) => list::run(args, context),
        ToolCommand::Plan(args) => plan::run(args, context),
        ToolCommand::Pause(args) => pause::run(args, context),
        ToolCommand::Resume(args) => resume::run(args, context),
    }
}
