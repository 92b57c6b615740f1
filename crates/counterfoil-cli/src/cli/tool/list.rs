//! `counterfoil tool list`

use clap::Args;
use serde_json::value::RawValue;

use super::body::ToolBody;
use crate::api::undeployed;
use crate::cli::database::{self, Missing};
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::target::{Target, Whose};
use crate::config::Config;

/// List the declared tools
#[derive(Clone, Debug, Args)]
pub struct ListArgs {}

/// Runs the command.
///
/// # Errors
/// Where the configuration does not load, or the server does not answer.
pub(super) fn run(_args: &ListArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let items = items(context)?;
    if context.out.json {
        context.out.json_list(&items, None)?;
    } else {
        let mut rows =
            vec![["TOOL", "RECOVERY", "APPROVAL", "SENDS", "CARRIED OUT BY"].map(str::to_owned).to_vec()];
        for item in &items {
            rows.push(ToolBody::read(item)?.row());
        }
        context.out.table(&rows)?;
    }
    Ok(Exit::Done)
}

fn items(context: &mut Context<'_>) -> Result<Vec<Box<RawValue>>, CommandError> {
    if context.remote()?.is_none() {
        let config = context.config()?;
        // What is declared can be shown before there is a ledger; listing begins none.
        if database::must_exist(&config, Missing::Refuse).is_err() {
            return declared(&config);
        }
    }
    database::block_on(async {
        let target = Target::open(context, Missing::Refuse, Whose::Nobody).await?;
        let (_, listing) = target.page("/v1/tools".to_owned()).await?;
        target.close().await;
        Ok(listing.items)
    })
}

fn declared(config: &Config) -> Result<Vec<Box<RawValue>>, CommandError> {
    let body = |tool| Ok(serde_json::value::to_raw_value(&tool)?);
    config.tools.values().map(|declared| body(undeployed(&declared.tool))).collect()
}
