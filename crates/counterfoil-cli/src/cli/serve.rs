//! `counterfoil serve`

use clap::Args;

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use super::not_wired::not_wired;

/// Run the server
///
/// Listens as the configuration says, carries operations out and follows up what is open. SIGHUP reads the tools again,
/// all or nothing; SIGTERM stops taking calls and waits for running attempts.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Start with all sends paused; only `tool resume` ends it
    #[arg(long)]
    pub paused: bool,
    /// Listen here instead: an address and port, or `unix:PATH`
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Use this ledger instead: `sqlite:PATH`
    #[arg(long, value_name = "DATABASE")]
    pub database: Option<String>,
}

impl ServeArgs {
    /// Puts the flags over environment and file.
    pub fn put_over(&self, context: &mut Context<'_>) {
        let flags = [("listen", &self.listen, "--listen"), ("database", &self.database, "--database")];
        for (key, value, flag) in flags {
            if let Some(value) = value {
                context.overrides.flags.push(("server", key, value.clone(), flag));
            }
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Where the configuration does not load, the ledger cannot be opened, or the address is taken.
pub fn run(args: &ServeArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    args.put_over(context);
    not_wired("serve")
}
