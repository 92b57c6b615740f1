//! `counterfoil op reconcile`

use std::time::Duration;

use clap::Args;
use counterfoil::OperationId;
use serde_json::Map;

use super::IdArg;
use super::execute::shown;
use super::which::{Which, ended};
use crate::cli::database::{self, Missing};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::output::visible;
use crate::cli::target::{Target, Whose, path_of};
use crate::client::Answer;

/// Ask the destination now what became of an operation
///
/// Nothing is sent but the question. What the destination has settles the operation at once; that it has nothing counts
/// only after the tool's waiting time, and only where the process that asks has seen that time pass: a command that was
/// just started has not, a server may have. Asking more often than the tool's first delay changes nothing.
#[derive(Clone, Debug, Args)]
pub struct ReconcileArgs {
    /// Which operations.
    #[command(flatten)]
    pub which: Which,
}

/// Runs the command.
///
/// # Errors
/// Where there is no such operation, or not for this principal.
pub(super) fn run(args: &ReconcileArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let one = args.which.id.as_ref().map(IdArg::read).transpose()?;
    database::block_on(async {
        let target = Target::open(context, Missing::Refuse, Whose::OneAccount).await?;
        let exit = match one {
            Some(id) => {
                let answer = ask(&target, &id).await;
                shown(&answer?, context)?
            }
            None => ask_all(&target, &args.which, context).await?,
        };
        target.close().await;
        Ok(exit)
    })
}

/// Asks, and gives the operation as it is afterwards.
///
/// # Errors
/// As the call.
pub(in crate::cli) async fn ask(target: &Target, id: &OperationId) -> Result<Answer, CommandError> {
    let answer = target.post(path_of(id, "/reconcile"), Map::new(), ANSWERS_WITHIN).await?;
    match target.here() {
        // A slow answer is recorded before this process ends.
        Some(here) if here.on_their_way() > 0 => {
            here.answered().await;
            target.get(path_of(id, "")).await
        }
        Some(_) | None => Ok(answer),
    }
}

/// How long a server may wait for the destination before it answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

async fn ask_all(target: &Target, which: &Which, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let Some(found) = which.meant(target, "ask about", context).await? else { return Ok(Exit::Waiting) };
    let mut refused = 0_usize;
    for operation in &found {
        let asked = match OperationId::parse(&operation.id) {
            Ok(id) => ask(target, &id).await,
            Err(error) => Err(error.into()),
        };
        match asked {
            Ok(answer) => drop(shown(&answer, context)?),
            Err(error) => {
                refused += 1;
                context.out.note(format!("{}: {}", visible(&operation.id), error.message))?;
            }
        }
    }
    ended(refused, found.len())
}
