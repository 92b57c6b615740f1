//! The command line: one file per command, whose doc comment is the help.

pub mod audit;
pub mod check;
pub mod completions;
pub mod config;
pub mod database;
pub mod demo;
pub mod dev;
pub mod error;
pub mod exit;
pub mod explain;
pub mod globals;
pub mod init;
pub mod op;
pub mod output;
pub mod reference;
pub mod review;
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
    /// Run everything on this machine to try it, with faults on purpose.
    Dev(dev::DevArgs),
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
    /// Work through what only a person can move.
    Review(review::ReviewArgs),
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
            let failed = if error.exit_code() != 0 && wants_json() {
                writeln!(io::stderr(), "{}", misread(&error).as_json()).is_err()
            } else {
                error.print().is_err()
            };
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
                let _ = if context.out.json {
                    writeln!(io::stderr(), "{}", error.as_json())
                } else {
                    writeln!(io::stderr(), "{error}")
                };
            }
            error.exit().into()
        }
    }
}

/// Whether a command line that cannot be read asks for JSON.
fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// A command line that cannot be read, as the error that it is.
fn misread(error: &clap::Error) -> CommandError {
    let text = error.to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or_default().trim();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    CommandError::usage(message, "add --help to the command for what it takes")
}

/// Commands that work on files of this folder, or on nothing but themselves.
fn refuse_server(command: &Command, context: &Context<'_>) -> Result<(), CommandError> {
    let (name, instead) = match command {
        Command::Check(_) => ("check", "it reads the configuration file, which a server does not hand out"),
        Command::Init(_) => ("init", "it writes files here"),
        Command::Serve(_) => ("serve", "it is the server; --listen says where"),
        Command::Dev(_) => ("dev", "it is a server; --port says where"),
        Command::Demo(_) => ("demo", "it starts a server of its own"),
        Command::Completions(_) => ("completions", "it prints what this program knows"),
        Command::Explain(_) => {
            ("explain", "it prints what this program knows; a server has pages at /problems/SLUG")
        }
        Command::Config(_) => ("config schema", "it prints what this program knows"),
        Command::DemoSupplier(_)
        | Command::Status(_)
        | Command::Review(_)
        | Command::Tool(_)
        | Command::Op(_)
        | Command::Token(_)
        | Command::Audit(_) => return Ok(()),
    };
    match context.globals.server {
        None => Ok(()),
        Some(_) => Err(CommandError::usage(
            format!("{name} does not work through a server"),
            format!("leave --server out: {instead}"),
        )),
    }
}

/// Runs one command.
///
/// # Errors
/// As the command says.
pub fn run(command: &Command, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    refuse_server(command, context)?;
    match command {
        Command::Dev(args) => dev::run(args, context),
        Command::Demo(args) => demo::run(args, context),
        Command::DemoSupplier(args) => demo::run_supplier(args),
        Command::Init(args) => init::run(args, context),
        Command::Serve(args) => serve::run(args, context),
        Command::Check(args) => check::run(args, context),
        Command::Status(args) => status::run(args, context),
        Command::Review(args) => review::run(args, context),
        Command::Explain(args) => explain::run(args, context),
        Command::Tool(command) => tool::run(command, context),
        Command::Op(command) => op::run(command, context),
        Command::Token(command) => token::run(command, context),
        Command::Audit(command) => audit::run(command, context),
        Command::Config(command) => config::run(command, context),
        Command::Completions(args) => completions::run(args, context),
    }
}
