//! `counterfoil token list`

use clap::Args;

use super::shown::Shown;
use crate::cli::database::{self, Missing};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;

/// List tokens, never their text
///
/// Oldest first, with those that were revoked or ran out; of every account where --account names none.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {}

/// Runs the command.
///
/// # Errors
/// Where the ledger cannot be read.
pub(super) fn run(_args: &ListArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    database::only_here(context, "token list")?;
    let config = context.config()?;
    let (tokens, now) = database::block_on(async {
        let store = database::open(&config, Missing::Refuse).await?;
        let listed = (store.tokens().await?, store.now());
        store.close().await;
        Ok(listed)
    })?;
    let account = context.globals.account.clone();
    let items: Vec<Shown> = tokens
        .iter()
        .filter(|token| account.as_ref().is_none_or(|account| *account == token.account))
        .map(Shown::of)
        .collect();
    if context.out.json {
        context.out.json_list(&items, None)?;
    } else {
        let mut rows = vec![Shown::heads()];
        rows.extend(items.iter().map(|token| token.row(now)));
        context.out.table(&rows)?;
    }
    Ok(Exit::Done)
}
