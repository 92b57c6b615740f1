//! `counterfoil op execute`

use std::time::Duration;

use clap::Args;

use counterfoil::OperationId;
use counterfoil::guard::Stage;
use serde_json::{Map, Value};

use super::IdArg;
use super::operation::Operation;
use crate::cli::database::{self, Missing};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::target::{Seen, Target, Whose, path_of};
use crate::client::Answer;
use crate::config::duration::{Length, spell};

/// Carry an operation out, or join the attempt that is running
///
/// On a database the attempt runs in this process, which does not end while the outcome is open and something may still
/// happen by itself; an attempt on its way is recorded in any case. Calling it again with the same ID is always safe.
#[derive(Clone, Debug, Args)]
pub struct ExecuteArgs {
    /// The operation ID
    #[arg(value_name = "ID")]
    pub id: IdArg,
    /// How long to wait for the outcome, such as `30s`; on a server at most 2m, and 30s by default
    #[arg(long, value_name = "DURATION", value_parser = Length::parse)]
    pub wait: Option<Length>,
}

/// How long a server is asked to wait where nothing is said.
pub(super) const SERVER_WAITS: Duration = Duration::from_secs(30);

/// Runs the command.
///
/// # Errors
/// Where there is no such operation, or the ledger cannot be used.
pub(super) fn run(args: &ExecuteArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let id = args.id.read()?;
    database::block_on(async {
        let target = Target::open(context, Missing::Refuse, Whose::OneAccount).await?;
        let wait = args.wait.map(|length| length.0);
        let asked = match target {
            Target::Here(_) => Duration::ZERO,
            Target::Server(_) | Target::Dev(..) => wait.unwrap_or(SERVER_WAITS),
        };
        let mut body = Map::new();
        body.insert("wait_ms".to_owned(), millis(asked));
        let answered = target.post(path_of(&id, "/execute"), body, asked).await;
        let answered = match answered {
            Ok(answer) => see_through(&target, &id, answer, wait, context).await,
            Err(error) => Err(about_wait(error)),
        };
        target.close().await;
        shown(&answered?, context)
    })
}

/// A refusal of the API's `wait_ms`, in the words of the option that stands for it.
pub(super) fn about_wait(error: CommandError) -> CommandError {
    let most = error.message.strip_prefix("`wait_ms` is more than ").map(|rest| rest.trim_end_matches('.'));
    match most.and_then(|most| most.parse().ok()).map(Duration::from_millis) {
        Some(most) => {
            let message = format!("--wait is more than {}, the longest that a server waits", spell(most));
            CommandError {
                slug: error.slug,
                ..CommandError::usage(message, "wait less, and run it again: that is safe")
            }
        }
        None => error,
    }
}

/// A length in the API's unit.
pub(super) fn millis(length: Duration) -> Value {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX).into()
}

/// On a ledger of this process, carries on what the answer leaves open; the answer is then the operation as it stands.
pub(super) async fn see_through(
    target: &Target,
    id: &OperationId,
    answer: Answer,
    wait: Option<Duration>,
    context: &mut Context<'_>,
) -> Result<Answer, CommandError> {
    let Some(here) = target.here() else { return Ok(answer) };
    // A final answer says whether it is a replay, which a later look cannot.
    if Stage::parse(&Operation::read(&answer.body)?.state).is_some_and(Stage::is_final) {
        return Ok(answer);
    }
    if here.see_through(id, wait).await? == Seen::Interrupted {
        let waits = match here.on_their_way() {
            0 => "interrupted: nothing is on its way".to_owned(),
            _ => format!(
                "interrupted: waiting until the attempt on its way is recorded, at most {}; once more ends at once and \
                 leaves its outcome open",
                spell(here.patience())
            ),
        };
        // Whoever cannot be told still gets the outcome recorded.
        drop(context.out.note(waits));
    }
    // Also where nobody waits any longer, the outcome of what is on its way is part of the answer.
    here.drain().await;
    target.get(path_of(id, "")).await
}

/// Prints an operation and ends with the code of its state.
pub(super) fn shown(answer: &Answer, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let operation = Operation::read(&answer.body)?;
    if context.out.json {
        context.out.line(&answer.body)?;
    } else {
        operation.print(&mut context.out)?;
    }
    operation.exit()
}
