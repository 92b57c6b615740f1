//! `counterfoil review`

mod input;
pub mod notes;
mod queue;
mod session;
mod sheet;
mod step;

use std::io::IsTerminal as _;

use clap::Args;

use self::queue::{Entry, Queue};
use self::session::Session;
use super::database::{self, Missing};
use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use super::target::{Target, Whose};

/// Work through what only a person can move
///
/// Shows one held operation after the other: the question, the arguments that matter, what was sent and when, what the
/// destination said, and what each verdict will cause. Nothing is sent by any of them but a look-up. Operations whose
/// reminder is due come first, then the most severe, then the oldest. Where standard input is no terminal the list is
/// printed; the exit code is 3 while anything is left.
#[derive(Clone, Debug, Args)]
pub struct ReviewArgs {
    /// The operations of every account of the ledger
    #[arg(long, conflicts_with = "account")]
    pub all: bool,
    /// Only those of this tool
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// Read the answers from standard input, line by line, although it is no terminal
    #[arg(long, conflicts_with = "json")]
    pub stdin: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the operations cannot be read, or not by this principal.
pub fn run(args: &ReviewArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    if args.all && context.globals.server.is_some() {
        return Err(CommandError::usage(
            "--all is for a database; on a server the token says which account it is",
            "leave --all out, and review each account with a token of it",
        ));
    }
    let asks =
        args.stdin || !context.out.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    database::block_on(async {
        let whose = if args.all { Whose::Nobody } else { Whose::OneAccount };
        let target = Target::open(context, Missing::Refuse, whose).await?;
        let targets = match (args.all, target.here()) {
            (true, Some(here)) => {
                let accounts = here.ledger().store().accounts().await?;
                accounts.into_iter().map(|account| Target::Here(here.of_account(account))).collect()
            }
            (false, Some(here)) => vec![Target::Here(here.clone())],
            (_, None) => Vec::new(),
        };
        let targets: Vec<&Target> = if targets.is_empty() { vec![&target] } else { targets.iter().collect() };
        let queue = Queue::of(&targets, args.tool.as_deref()).await?;
        let left = match asks {
            true => Session::new(context).work(&targets, &queue).await?,
            false => {
                print(&queue, context)?;
                queue.entries.len()
            }
        };
        target.close().await;
        Ok(if left == 0 { Exit::Done } else { Exit::Unknown })
    })
}

/// The list, in the order in which it would be worked through.
fn print(queue: &Queue, context: &mut Context<'_>) -> Result<(), CommandError> {
    if queue.more {
        context.out.note("there are more than these; settle some and run it again")?;
    }
    if context.out.json {
        return context.out.json_list(&queue.entries, None);
    }
    let mut rows = vec![
        ["ID", "ACCOUNT", "TOOL", "SEVERITY", "STATE", "REASON", "CREATED", "REMINDER"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(queue.entries.iter().map(Entry::row));
    context.out.table(&rows)
}
