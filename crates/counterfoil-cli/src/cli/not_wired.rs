//! The error of a command whose arguments are read and whose work is not done by this program.

use super::error::{CommandError, Kind};
use super::exit::Exit;

/// Fails with the name of the command.
///
/// # Errors
/// Always.
pub fn not_wired(command: &str) -> Result<Exit, CommandError> {
    Err(CommandError::new(
        Kind::Internal,
        format!("{command} is not wired"),
        "`counterfoil help` lists the commands",
    ))
}
