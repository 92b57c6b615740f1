//! `counterfoil op`

mod approve;
mod decision;
mod deny;
mod evidence;
mod execute;
mod list;
pub(super) mod operation;
mod prepare;
pub(super) mod reconcile;
mod show;
mod verdict;
mod which;
mod withdraw;

use clap::{Subcommand, ValueEnum};

use std::convert::Infallible;
use std::str::FromStr;

use counterfoil::OperationId;
use counterfoil::guard::Stage;

use super::error::{self, CommandError, Kind};
use super::exit::Exit;
use super::globals::Context;

pub use self::approve::ApproveArgs;
pub use self::deny::DenyArgs;
pub use self::execute::ExecuteArgs;
pub use self::list::ListArgs;
pub use self::prepare::PrepareArgs;
pub use self::reconcile::ReconcileArgs;
pub use self::show::ShowArgs;
pub use self::verdict::{NoteArgs, ReleaseArgs, ResolveArgs};
pub use self::which::Which;
pub use self::withdraw::WithdrawArgs;

/// The commands about operations.
#[derive(Debug, Subcommand)]
pub enum OpCommand {
    /// Store an accepted action under its ID.
    Prepare(PrepareArgs),
    /// Carry an operation out, or join the attempt that is running.
    Execute(ExecuteArgs),
    /// Show an operation as it is now.
    Show(ShowArgs),
    /// List operations, newest first.
    List(ListArgs),
    /// Approve what is stored under this ID.
    Approve(ApproveArgs),
    /// Deny an operation: it ends rejected and nothing is sent.
    Deny(DenyArgs),
    /// Withdraw an operation that has not started: it ends rejected.
    Withdraw(WithdrawArgs),
    /// Ask the destination now what became of an operation.
    Reconcile(ReconcileArgs),
    /// Say what became of an operation that no rule can settle.
    Resolve(ResolveArgs),
    /// Let later operations with this action pass.
    Release(ReleaseArgs),
    /// Write down what was found so far, without a verdict.
    Note(NoteArgs),
}

/// An operation ID as it was typed. It is read by the command, whose refusal is the API's and repeats no text that may be
/// personal data.
#[derive(Clone, Debug)]
pub struct IdArg(String);

impl FromStr for IdArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl IdArg {
    /// The ID.
    ///
    /// # Errors
    /// Where the text is none.
    pub fn read(&self) -> Result<OperationId, CommandError> {
        OperationId::parse(&self.0).map_err(|error| {
            let message = format!("The operation ID {}.", error.problem);
            error::explained(Kind::Usage, "invalid-operation-id", message)
        })
    }
}

/// A state as the command line spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum StateArg {
    /// Stored; no attempt is running.
    Prepared,
    /// An attempt is running.
    InProgress,
    /// A receipt proves it.
    Succeeded,
    /// Nothing happened, and that is certain.
    Rejected,
    /// The outcome cannot be confirmed.
    Unknown,
}

impl From<StateArg> for Stage {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Prepared => Self::Prepared,
            StateArg::InProgress => Self::InProgress,
            StateArg::Succeeded => Self::Succeeded,
            StateArg::Rejected => Self::Rejected,
            StateArg::Unknown => Self::Unknown,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// As the command says.
pub fn run(command: &OpCommand, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    match command {
        OpCommand::Prepare(args) => prepare::run(args, context),
        OpCommand::Execute(args) => execute::run(args, context),
        OpCommand::Show(args) => show::run(args, context),
        OpCommand::List(args) => list::run(args, context),
        OpCommand::Approve(args) => approve::run(args, context),
        OpCommand::Deny(args) => deny::run(args, context),
        OpCommand::Withdraw(args) => withdraw::run(args, context),
        OpCommand::Reconcile(args) => reconcile::run(args, context),
        OpCommand::Resolve(args) => verdict::resolve(args, context),
        OpCommand::Release(args) => verdict::release(args, context),
        OpCommand::Note(args) => verdict::note(args, context),
    }
}
