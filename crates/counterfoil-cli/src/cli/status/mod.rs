//! `counterfoil status`

mod advice;
mod collect;
mod report;

use clap::Args;

use self::collect::Collected;
use self::report::Report;
use super::database::{self, Missing};
use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use super::target::{Target, Whose};

/// Show what needs attention now
///
/// The oldest operation whose outcome is unknown, what is held by tool, what is paused, which destinations fail, and
/// what to do next, as commands to paste. On a database of every account, unless --account names one.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {}

/// Runs the command.
///
/// # Errors
/// Where the ledger cannot be read.
pub fn run(_args: &StatusArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let collected = database::block_on(async {
        let target = Target::open(context, Missing::Refuse, Whose::Nobody).await?;
        let collected = Collected::from(&target, context.globals.account.as_ref()).await?;
        target.close().await;
        Ok(collected)
    })?;
    let report = Report::of(&collected, &context.globals);
    if context.out.json {
        context.out.json(&report)?;
    } else {
        report.print(&mut context.out)?;
    }
    Ok(Exit::Done)
}
