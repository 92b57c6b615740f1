//! `counterfoil op list`

use clap::Args;

use counterfoil::guard::Stage;
use counterfoil::id::Subject;
use counterfoil::{Task, ToolName};

use super::StateArg;
use super::operation::Operation;
use crate::cli::database::{self, Missing};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::target::{Target, Whose, with_query};

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
    /// Only about this subject
    #[arg(long, value_name = "SUBJECT")]
    pub subject: Option<Subject>,
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
pub(super) fn run(args: &ListArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    database::block_on(async {
        let target = Target::open(context, Missing::Refuse, Whose::OneAccount).await?;
        let (answer, listing) = target.page(path(args)).await?;
        target.close().await;
        if context.out.json {
            context.out.line(&answer.body)?;
            return Ok(Exit::Done);
        }
        let heads = ["ID", "STATE", "TOOL", "CREATED", "NEXT", "REFERENCE"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        for item in &listing.items {
            rows.push(row(&Operation::read(item.get())?));
        }
        context.out.table(&rows)?;
        if let Some(cursor) = &listing.next_cursor {
            context.out.note(format!("there are more: --cursor {cursor}"))?;
        }
        Ok(Exit::Done)
    })
}

fn path(args: &ListArgs) -> String {
    let flag = |set: bool| set.then(|| "true".to_owned());
    with_query(
        "/v1/operations",
        &[
            ("state", args.state.map(|state| Stage::from(state).label().to_owned())),
            ("tool", args.tool.as_ref().map(ToString::to_string)),
            ("task", args.task.as_ref().map(ToString::to_string)),
            ("subject", args.subject.as_ref().map(ToString::to_string)),
            ("held", flag(args.held)),
            ("unresolved", flag(args.unresolved)),
            ("reference", args.reference.clone()),
            ("created_after", args.created_after.clone()),
            ("created_before", args.created_before.clone()),
            ("limit", args.limit.map(|limit| limit.to_string())),
            ("cursor", args.cursor.clone()),
        ],
    )
}

fn row(operation: &Operation) -> Vec<String> {
    let next = &operation.next;
    let next = match (&next.at, &next.reason) {
        (Some(at), _) => format!("{} at {at}", next.action),
        (None, Some(reason)) => format!("{} ({reason})", next.action),
        (None, None) => next.action.clone(),
    };
    let reference = operation.receipt.as_ref().and_then(|receipt| receipt.reference.clone());
    vec![
        operation.id.clone(),
        operation.standing(),
        operation.tool.clone(),
        operation.created_at.clone(),
        next,
        reference.unwrap_or_else(|| "-".to_owned()),
    ]
}
