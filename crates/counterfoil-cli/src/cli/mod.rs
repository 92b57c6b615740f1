//! The command line: one file per command, whose doc comment is the help.

pub mod audit;
pub mod check;
pub mod completions;
pub mod config;
pub mod database;
pub mod demo;
pub mod error;
pub mod exit;
pub mod explain;
pub mod globals;
pub mod init;
pub mod op;
pub mod output;
pub mod reference;
pub mod serve;
pub mod status;
pub mod target;
pub mod token;
pub mod tool;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use self::error::{CommandError, Kind};
pub use self::exit::Exit;
pub use self::globals::{Context, Globals};
pub use self::output::Output;

/// Makes an agent's write actions safe to retry: one operation ID, one effect, one receipt.
#[derive(Debug, Parser)]
#[command(name = "counterfoil", version, propagate_version = false, subcommand_required = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = false, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 succeeded or done, 1 error, 2 usage, 3 outcome unknown or held, 4 rejected, \
                        5 in progress, 6 waiting (approval, blocked, retry later).\n\
                        Data goes to stdout, everything else to stderr."
)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub globals: Globals,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a lost reply that ends with one order and one receipt.
    Demo(demo::DemoArgs),
    /// Be a supplier of the demo.
    #[command(hide = true)]
    DemoSupplier(demo::DemoSupplierArgs),
    /// Write a commented configuration with one tool.
    Init(init::InitArgs),
    /// Run the server.
    Serve(serve::ServeArgs),
    /// Check the configuration.
    Check(check::CheckArgs),
    /// Show what needs attention now.
    Status(status::StatusArgs),
    /// Explain a problem by its slug.
    Explain(explain::ExplainArgs),
    /// List tools, show what one promises, pause and resume their sends.
    #[command(subcommand)]
    Tool(tool::ToolCommand),
    /// Prepare, execute, read and decide operations.
    #[command(subcommand)]
    Op(op::OpCommand),
    /// Create, list and revoke tokens.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Check the evidence.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// About the configuration file itself.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print the completions of a shell.
    Completions(completions::CompletionsArgs),
}

/// Runs the command line of this process and gives its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are data on stdout, everything else is a usage error on stderr.
            let failed = error.print().is_err();
            return if error.exit_code() == 0 && !failed { Exit::Done.into() } else { Exit::Usage.into() };
        }
    };
    // Not locked: what runs on threads of its own (the demo's story) writes to stdout as well.
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    let output = Output::new(&mut stdout, &mut stderr, cli.globals.json, cli.globals.quiet);
    let mut context = Context::new(cli.globals, crate::config::Overrides::from_process(), output);
    let ended = run(&cli.command, &mut context)
        .and_then(|exit| context.out.flush().map(|()| exit).map_err(CommandError::from));
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            if error.kind != Kind::BrokenPipe {
                // Where stderr is gone there is nobody left to tell.
                let _ = writeln!(io::stderr(), "{error}");
            }
            error.exit().into()
        }
    }
}

/// Runs one command.
///
/// # Errors
/// As the command says.
pub fn run(command: &Command, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    match command {
        Command::Demo(args) => demo::run(args, context),
        Command::DemoSupplier(args) => demo::run_supplier(args),
        Command::Init(args) => init::run(args, context),
        Command::Serve(args) => serve::run(args, context),
        Command::Check(args) => check::run(args, context),
        Command::Status(args) => status::run(args, context),
        Command::Explain(args) => explain::run(args, context),
        Command::Tool(command) => tool::run(command, context),
        Command::Op(command) => op::run(command, context),
        Command::Token(command) => token::run(command, context),
        Command::Audit(command) => audit::run(command, context),
        Command::Config(command) => config::run(command, context),
        Command::Completions(args) => completions::run(args, context),
    }
}
