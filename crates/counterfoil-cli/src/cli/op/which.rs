//! Which operations a command is about: one, or all that fit.

use clap::Args;

use super::IdArg;
use super::operation::Operation;
use crate::cli::error::{CommandError, Kind};
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::output::visible;
use crate::cli::target::{Target, with_query};

/// Which operations: one by its ID, or all that fit
#[derive(Clone, Debug, Args)]
pub struct Which {
    /// The operation ID
    #[arg(value_name = "ID", required_unless_present_any = ["tool", "task", "held"])]
    pub id: Option<IdArg>,
    /// All operations of this tool
    #[arg(long, value_name = "TOOL", conflicts_with = "id")]
    pub tool: Option<String>,
    /// All operations of this task
    #[arg(long, value_name = "TASK", conflicts_with = "id")]
    pub task: Option<String>,
    /// All operations that only a person can move
    #[arg(long, conflicts_with = "id")]
    pub held: bool,
    /// Do it to all that fit; without it they are only counted
    #[arg(long, conflicts_with = "id")]
    pub yes: bool,
}

impl Which {
    /// All unresolved operations that fit. They are counted first; `None` where nobody said yes to them.
    ///
    /// # Errors
    /// Where they cannot be listed.
    pub(super) async fn meant(
        &self,
        target: &Target,
        done: &str,
        context: &mut Context<'_>,
    ) -> Result<Option<Vec<Operation>>, CommandError> {
        let parameters = [
            ("tool", self.tool.clone()),
            ("task", self.task.clone()),
            ("held", self.held.then(|| "true".to_owned())),
            ("unresolved", Some("true".to_owned())),
        ];
        let found = all(target, &parameters).await?;
        context.out.note(format!("{} operations fit", found.len()))?;
        if self.yes {
            return Ok(Some(found));
        }
        for operation in &found {
            context.out.note(format!("{}  {}", visible(&operation.id), visible(&operation.tool)))?;
        }
        context.out.note(format!("nothing was done: add --yes to {done} all of them"))?;
        Ok(None)
    }
}

/// Every operation that fits, newest first.
///
/// # Errors
/// Where they cannot be listed.
pub(in crate::cli) async fn all(
    target: &Target,
    filter: &[(&str, Option<String>)],
) -> Result<Vec<Operation>, CommandError> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let mut parameters = filter.to_vec();
        parameters.push(("limit", Some(PAGE.to_owned())));
        parameters.push(("cursor", cursor));
        let (_, listing) = target.page(with_query("/v1/operations", &parameters)).await?;
        for item in &listing.items {
            found.push(Operation::read(item.get())?);
        }
        cursor = listing.next_cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// How many are asked for at once: the most that a page holds.
const PAGE: &str = "200";

/// How a command about several operations ends.
///
/// # Errors
/// Where some were refused.
pub(super) fn ended(refused: usize, all: usize) -> Result<Exit, CommandError> {
    match refused {
        0 => Ok(Exit::Done),
        _ => Err(CommandError::new(
            Kind::Refused,
            format!("{refused} of {all} were refused"),
            "each is named above with the reason",
        )),
    }
}
