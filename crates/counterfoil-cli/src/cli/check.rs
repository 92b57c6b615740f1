//! `counterfoil check`

use clap::Args;

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use crate::config;
use crate::config::report::Report;

/// Check the configuration
///
/// Reports everything that keeps it from loading, and everything that somebody should look at, with line and hint. Ends
/// with 1 if it does not load.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {}

/// Runs the command.
///
/// # Errors
/// Where the report cannot be written.
pub fn run(_args: &CheckArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let (report, tools) = match config::load(context.config_path(), &context.overrides) {
        Ok(config) => (Report { path: config.path, findings: config.warnings }, Some(config.tools.len())),
        Err(report) => (report, None),
    };
    let loads = !report.has_errors();
    if context.out.json {
        context.out.json(&serde_json::json!({
            "path": report.path.display().to_string(), "loads": loads, "tools": tools, "findings": report.findings,
        }))?;
    } else if !report.findings.is_empty() {
        context.out.line(report.to_string())?;
    }
    match tools {
        Some(1) => context.out.note("loads, with 1 tool")?,
        Some(tools) => context.out.note(format!("loads, with {tools} tools"))?,
        None => context.out.note("does not load")?,
    }
    Ok(if loads { Exit::Done } else { Exit::Error })
}
