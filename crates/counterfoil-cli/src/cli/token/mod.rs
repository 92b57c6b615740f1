//! `counterfoil token`

mod create;
mod list;
mod revoke;
mod shown;

use clap::{Subcommand, ValueEnum};

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;

pub use self::create::CreateArgs;
pub use self::list::ListArgs;
pub use self::revoke::RevokeArgs;

/// The commands about tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it once.
    Create(CreateArgs),
    /// List tokens, never their text.
    List(ListArgs),
    /// Revoke a token.
    Revoke(RevokeArgs),
}

/// A role as the command line spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum RoleArg {
    /// The application, or a host that acts for the agent: prepare, execute, read, withdraw
    Agent,
    /// A worker: claim, heartbeat, outcome, and read of what it holds
    Worker,
    /// Approve, deny, read, evidence
    Approver,
    /// Read and evidence
    Auditor,
    /// Tokens, configuration, pause, states of all accounts
    Operator,
}

impl RoleArg {
    /// The name as it is stored.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Worker => "worker",
            Self::Approver => "approver",
            Self::Auditor => "auditor",
            Self::Operator => "operator",
        }
    }
}

/// Runs the command.
///
/// # Errors
/// As the command says.
pub fn run(command: &TokenCommand, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    match command {
        TokenCommand::Create(args) => create::run(args, context),
        TokenCommand::List(args) => list::run(args, context),
        TokenCommand::Revoke(args) => revoke::run(args, context),
    }
}
