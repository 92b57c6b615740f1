//! `counterfoil token create`

use clap::Args;

use counterfoil::Principal;
use counterfoil::store::Token;

use super::RoleArg;
use super::shown::Shown;
use crate::cli::database::{self, Missing};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::config::Config;
use crate::config::duration::Length;
use crate::secret;

/// Create a token and print it once
///
/// The text goes to standard output, alone, and is never shown again: the ledger keeps a digest. It works in the account
/// of `--account` only.
#[derive(Clone, Debug, Args)]
pub struct CreateArgs {
    /// What it may do
    #[arg(long = "role", value_enum, value_name = "ROLE", required = true, num_args = 1..)]
    pub roles: Vec<RoleArg>,
    /// Who it acts for; default: the token itself. All tokens of one name are one principal
    #[arg(long, value_name = "NAME")]
    pub principal: Option<Principal>,
    /// The tools that it may use, as patterns with `*`; default: all
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    pub tools: Vec<String>,
    /// After what time it ends, such as `90d`; default: never
    #[arg(long, value_name = "DURATION", value_parser = Length::parse)]
    pub expires: Option<Length>,
}

/// The longest pattern, in bytes: the longest name of a tool.
const LONGEST_PATTERN: usize = 128;

/// Runs the command.
///
/// # Errors
/// Where no account is named, or the ledger cannot be written.
pub(super) fn run(args: &CreateArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    database::only_here(context, "token create")?;
    let config = context.config()?;
    check_patterns(&args.tools, &config, context)?;
    let (text, digest) = secret::mint()?;
    let id = secret::new_id()?;
    let principal = match &args.principal {
        Some(principal) => principal.clone(),
        None => Principal::parse(&id)?,
    };
    let mut roles: Vec<&str> = args.roles.iter().map(|role| role.name()).collect();
    roles.sort_unstable();
    roles.dedup();
    let token = database::block_on(async {
        let store = database::open(&config, Missing::Create).await?;
        let now = store.now();
        let token = Token {
            id,
            principal,
            account: database::account(context, &store).await?,
            roles: roles.into_iter().map(str::to_owned).collect(),
            tools: args.tools.clone(),
            digest,
            created_at: now,
            expires_at: args.expires.map(|length| now.plus(length.0)),
            revoked_at: None,
        };
        store.create_token(token.clone()).await?;
        store.close().await;
        Ok(token)
    })?;
    let shown = Shown::of(&token);
    if context.out.json {
        context.out.json(&shown.with_text(&text))?;
    } else {
        context.out.line(&text)?;
        context.out.note(format!("{shown}; this is the only time that its text is shown"))?;
    }
    Ok(Exit::Done)
}

/// Patterns are of the grammar of names, with `*` for any run of characters. One that fits no declared tool is most
/// likely a mistake, but tools may be declared later.
fn check_patterns(
    patterns: &[String],
    config: &Config,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    for pattern in patterns {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-*".contains(&byte);
        if pattern.is_empty() || pattern.len() > LONGEST_PATTERN || !pattern.bytes().all(fits) {
            return Err(CommandError::usage(
                "a pattern of --tools may hold only letters, digits, and . _ - *",
                "write it as in --tools 'supplier.*' mail.send",
            ));
        }
        if !config.tools.keys().any(|tool| counterfoil::caller::matches(pattern, tool.as_str())) {
            context.out.note(format!("no declared tool fits {pattern}"))?;
        }
    }
    Ok(())
}
