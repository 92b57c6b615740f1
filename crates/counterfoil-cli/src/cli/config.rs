//! `counterfoil config`

use clap::{Args, Subcommand};

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use crate::config::schema;

/// The commands about the configuration file.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the JSON schema of the file, for editors.
    Schema(SchemaArgs),
}

/// Print the JSON schema of the file, for editors
///
/// Save it beside the file and name it in the first line: `#:schema ./counterfoil.schema.json`.
#[derive(Clone, Debug, Args)]
pub struct SchemaArgs {}

/// Runs the command.
///
/// # Errors
/// Where the schema cannot be written.
pub fn run(command: &ConfigCommand, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    match command {
        ConfigCommand::Schema(_) => context.out.text(schema::text()).map(|()| Exit::Done),
    }
}
