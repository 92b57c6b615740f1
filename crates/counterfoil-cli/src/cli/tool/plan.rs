//! `counterfoil tool plan`

use clap::Args;

use counterfoil::ToolName;

use crate::cli::error::{CommandError, Kind};
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::plan;
use crate::suggest::nearest;

/// Show who can establish whether an action of this tool happened, and what follows
///
/// Which identifier the destination sees, when the system stops trying, what a person will be asked, which assumptions
/// all of that rests on, and which retries in between must be off.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// The tool
    #[arg(value_name = "TOOL")]
    pub tool: ToolName,
}

/// Runs the command.
///
/// # Errors
/// Where there is no such tool, the configuration does not load, or a server is named.
pub(super) fn run(args: &PlanArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    if context.globals.server.is_some() {
        return Err(CommandError::usage(
            "a plan is made from the configuration, which a server does not hand out",
            "run it where the file is, without --server; `counterfoil tool list` works on both",
        ));
    }
    let config = context.config()?;
    let Some(declared) = config.tools.get(&args.tool) else {
        let hint = match nearest(args.tool.as_str(), config.tools.keys().map(ToolName::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`counterfoil tool list` shows the declared ones".to_owned(),
        };
        let mut error = CommandError::new(Kind::Refused, format!("there is no tool {}", args.tool), hint);
        error.slug = Some("unknown-tool");
        return Err(error);
    };
    let plan = plan::plan(declared);
    if context.out.json {
        context.out.json(&plan)?;
    } else {
        context.out.text(plan.to_string())?;
    }
    Ok(Exit::Done)
}
