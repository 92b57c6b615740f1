//! `counterfoil completions`

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;

/// Print the completions of a shell
///
/// As in `counterfoil completions bash > ~/.local/share/bash-completion/completions/counterfoil`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Runs the command.
///
/// # Errors
/// Where the text cannot be written.
pub fn run(args: &CompletionsArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    // The generator ends the process where its writer fails; memory does not fail, and a pipe may.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "counterfoil", &mut script);
    context.out.text(String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
