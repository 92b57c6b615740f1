//! `counterfoil token revoke`

use clap::Args;

use counterfoil::store::Token;

use super::shown::Shown;
use crate::cli::database::{self, Missing};
use crate::cli::error::{CommandError, Kind};
use crate::cli::exit::Exit;
use crate::cli::globals::Context;

/// Revoke a token; it stops working everywhere within a second
#[derive(Clone, Debug, Args)]
pub struct RevokeArgs {
    /// The ID of the token, as `token list` shows it
    #[arg(value_name = "ID")]
    pub id: String,
}

/// Runs the command.
///
/// # Errors
/// Where there is no such token, or the ledger cannot be written.
pub(super) fn run(args: &RevokeArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    database::only_here(context, "token revoke")?;
    let config = context.config()?;
    let account = context.globals.account.clone();
    let (token, newly) = database::block_on(async {
        let store = database::open(&config, Missing::Refuse).await?;
        let mine = |token: &Token| {
            token.id == args.id && account.as_ref().is_none_or(|account| *account == token.account)
        };
        // Looked for first: what is not there must not be revoked in another account.
        if !store.tokens().await?.iter().any(mine) {
            return Err(unknown());
        }
        let newly = store.revoke_token(&args.id).await?;
        let token = store.tokens().await?.into_iter().find(mine).ok_or_else(unknown)?;
        store.close().await;
        Ok((token, newly))
    })?;
    let shown = Shown::of(&token);
    if context.out.json {
        context.out.json(&shown)?;
    } else if newly {
        context.out.line(format!("revoked {}", token.id))?;
    } else {
        context.out.line(format!("{} was revoked before", token.id))?;
    }
    Ok(Exit::Done)
}

fn unknown() -> CommandError {
    CommandError::new(
        Kind::Refused,
        "there is no such token",
        "`counterfoil token list` shows the IDs; the text of a token is none",
    )
}
