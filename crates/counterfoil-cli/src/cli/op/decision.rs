//! Decisions before a start: approve, deny, withdraw.

use std::time::Duration;

use counterfoil::OperationId;
use serde_json::{Map, Value};

use super::execute::shown;
use super::operation::Operation;
use crate::cli::database::{self, Missing};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::target::{Target, Whose, path_of};

/// Makes one decision and prints the operation after it.
///
/// # Errors
/// Where it cannot be made now, or by this principal.
pub(super) fn run(
    id: &OperationId,
    what: &str,
    body: Map<String, Value>,
    context: &mut Context<'_>,
) -> Result<Exit, CommandError> {
    database::block_on(async {
        let target = Target::open(context, Missing::Refuse, Whose::OneAccount).await?;
        let answered = target.post(path_of(id, what), body, Duration::ZERO).await;
        let answer = answered.map_err(|error| hinted(error, what, &target))?;
        let here = target.here().is_some();
        target.close().await;
        shown(&answer, context)?;
        let next = Operation::read(&answer.body)?.next.action;
        if here && what == "/approve" && (next == "retry" || next == "execute") {
            context.out.note(format!(
                "nothing was sent: a running server goes on if it is to run by itself; `counterfoil op execute {id}` \
                 carries it out now"
            ))?;
        }
        // The decision is made, whatever state it leads to.
        Ok(Exit::Done)
    })
}

/// Who prepared an operation cannot approve it: says who acts here and what to do.
fn hinted(mut error: CommandError, what: &str, target: &Target) -> CommandError {
    let Some(here) = target.here().filter(|_| what == "/approve" && error.slug == Some("forbidden")) else {
        return error;
    };
    let (principal, account) = (&here.caller().principal, &here.caller().account);
    error.hints.insert(
        0,
        format!(
            "on this database you are {principal}, who prepared it: let another user approve it, or make a token \
             (`counterfoil token create --account {account} --role approver --principal NAME`) and approve with --server"
        ),
    );
    error.hints.insert(1, "next time prepare through a server with a token of the agent's own".to_owned());
    error
}
