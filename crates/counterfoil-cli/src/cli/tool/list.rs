//! `counterfoil tool list`

use clap::Args;
use serde_json::json;

use counterfoil::policy::{ApprovalRule, Carrier, Tool};

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;

/// List the declared tools
#[derive(Clone, Debug, Args)]
pub struct ListArgs {}

/// Runs the command.
///
/// # Errors
/// Where the configuration does not load, or the server does not answer.
pub(super) fn run(_args: &ListArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    if context.remote()?.is_some() {
        return list_of_server();
    }
    let config = context.config()?;
    let account = context.globals.account.clone();
    let tools: Vec<&Tool> = config
        .tools
        .values()
        .map(|declared| &declared.tool)
        .filter(|tool| account.as_ref().is_none_or(|account| tool.serves(account)))
        .collect();
    if context.out.json {
        let items: Vec<_> = tools.iter().map(|tool| object(tool)).collect();
        context.out.json_list(&items, None)?;
    } else {
        let mut rows =
            vec![["TOOL", "RECOVERY", "APPROVAL", "ACCOUNTS", "CARRIED OUT BY"].map(str::to_owned).to_vec()];
        rows.extend(tools.iter().map(|tool| row(tool)));
        context.out.table(&rows)?;
    }
    Ok(Exit::Done)
}

fn row(tool: &Tool) -> Vec<String> {
    let accounts = tool.accounts.as_ref().map_or_else(
        || "all".to_owned(),
        |accounts| accounts.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    );
    let kind = tool.recovery.kind().to_owned();
    vec![tool.name.to_string(), kind, approval(tool).to_owned(), accounts, carrier(tool)]
}

fn approval(tool: &Tool) -> &'static str {
    match tool.approval {
        ApprovalRule::None => "none",
        ApprovalRule::Required => "required",
    }
}

fn carrier(tool: &Tool) -> String {
    match &tool.carrier {
        Carrier::Http(http) => format!("{} {}", http.method, http.url),
        Carrier::Transaction => "the application's transaction".to_owned(),
    }
}

fn object(tool: &Tool) -> serde_json::Value {
    let (method, url) = match &tool.carrier {
        Carrier::Http(http) => (Some(&http.method), Some(&http.url)),
        Carrier::Transaction => (None, None),
    };
    json!({
        "name": tool.name, "description": tool.description, "recovery": { "kind": tool.recovery.kind() },
        "approval": approval(tool), "accounts": tool.accounts, "method": method, "url": url,
    })
}

/// The tools as a running server has them.
fn list_of_server() -> Result<Exit, CommandError> {
    not_wired("tool list --server")
}
