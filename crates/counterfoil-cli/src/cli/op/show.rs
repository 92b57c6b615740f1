//! `counterfoil op show`

use std::time::Duration;

use clap::Args;

use counterfoil::OperationId;
use http::Method;

use super::evidence;
use super::execute::{about_wait, shown};
use super::operation::Operation;
use crate::cli::database::{self, Missing};
use crate::cli::error::{CommandError, Kind};
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::output::visible;
use crate::cli::target::{Target, Whose, path_of, with_query};
use crate::client::{Answer, Call};
use crate::config::duration::Length;

/// Show an operation as it is now
///
/// Where no operation has this ID, the one is shown that the destination calls by it, or that was sent under it as a key.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The operation ID, or the destination's reference
    #[arg(value_name = "ID")]
    pub id: String,
    /// How long to wait for a change, such as `30s`; at most 2m
    #[arg(long, value_name = "DURATION", value_parser = Length::parse)]
    pub wait: Option<Length>,
    /// Show the rows of its evidence
    #[arg(long)]
    pub evidence: bool,
}

/// How many operations of one reference are named.
const NAMED: &str = "20";

/// Runs the command.
///
/// # Errors
/// Where there is no such operation, or the ledger cannot be used.
pub(super) fn run(args: &ShowArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    database::block_on(async {
        let target = Target::open(context, Missing::Refuse, Whose::OneAccount).await?;
        let answer = look(&target, args).await?;
        let exit = if !args.evidence {
            shown(&answer, context)?
        } else {
            let operation = Operation::read(&answer.body)?;
            if !context.out.json {
                operation.print(&mut context.out)?;
                context.out.line("")?;
            }
            evidence::print(&target, &OperationId::parse(&operation.id)?, context).await?;
            operation.exit()?
        };
        target.close().await;
        Ok(exit)
    })
}

async fn look(target: &Target, args: &ShowArgs) -> Result<Answer, CommandError> {
    let by_id = match OperationId::parse(&args.id) {
        Ok(id) => by_id(target, &id, args.wait).await,
        Err(error) => Err(error.into()),
    };
    match by_id {
        Err(error) if error.slug.is_none() || error.slug == Some("unknown-operation") => {
            by_reference(target, args, error).await
        }
        answered => answered,
    }
}

async fn by_id(target: &Target, id: &OperationId, wait: Option<Length>) -> Result<Answer, CommandError> {
    let wait = wait.map_or(Duration::ZERO, |length| length.0);
    let asked = (!wait.is_zero()).then(|| wait.as_millis().to_string());
    let path = with_query(&path_of(id, ""), &[("wait_ms", asked)]);
    target.call(Call { method: Method::GET, path, body: None, wait }).await.map_err(about_wait)
}

/// The one operation of this reference.
async fn by_reference(
    target: &Target,
    args: &ShowArgs,
    unknown: CommandError,
) -> Result<Answer, CommandError> {
    let parameters = [("reference", Some(args.id.clone())), ("limit", Some(NAMED.to_owned()))];
    let (_, listing) = target.page(with_query("/v1/operations", &parameters)).await?;
    match listing.items.as_slice() {
        [] => Err(unknown.with_hint("no operation is known by it as a reference or key either")),
        [one] => {
            let operation = Operation::read(one.get())?;
            by_id(target, &OperationId::parse(&operation.id)?, args.wait).await
        }
        several => {
            let ids = several.iter().map(|item| Ok(visible(&Operation::read(item.get())?.id)));
            let ids = ids.collect::<Result<Vec<_>, CommandError>>()?;
            Err(CommandError::new(
                Kind::Refused,
                "several operations are known by this reference",
                format!("show one of {}", ids.join(", ")),
            ))
        }
    }
}
