//! `counterfoil op prepare`

use std::io::{self, Read};

use clap::Args;

use counterfoil::{OperationId, Task, ToolName};

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::not_wired::not_wired;
use crate::config::duration::Length;

/// The most that is read as arguments, in bytes: well over every limit, so that the limit's own refusal is seen.
const READ_AT_MOST: u64 = 4 * 1024 * 1024;

/// Store an accepted action under its ID
///
/// The same ID with the same arguments gives back the operation as it is. The same ID with other arguments is refused.
#[derive(Clone, Debug, Args)]
pub struct PrepareArgs {
    /// The tool
    #[arg(value_name = "TOOL")]
    pub tool: ToolName,
    /// The operation ID, minted when the action was accepted and kept with the pending work
    #[arg(long, value_name = "ID")]
    pub id: OperationId,
    /// The arguments: a JSON object, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub arguments: String,
    /// The agent run or conversation that it belongs to
    #[arg(long, value_name = "TASK")]
    pub task: Option<Task>,
    /// Operations with the same action that this one is deliberately a second of
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub distinct_from: Vec<OperationId>,
    /// Who or what accepted the proposal: a JSON object of at most 1 KiB
    #[arg(long, value_name = "JSON")]
    pub accepted_by: Option<String>,
    /// Carry it out as soon as it is allowed
    #[arg(long)]
    pub execute: bool,
    /// How long to wait for the outcome, such as `30s`; at most 2m
    #[arg(long, value_name = "DURATION", value_parser = Length::parse, requires = "execute")]
    pub wait: Option<Length>,
    /// Say what would happen and store nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl PrepareArgs {
    /// The bytes of the arguments, from where the option says.
    ///
    /// # Errors
    /// Where the file or standard input cannot be read, or holds more than 4 MiB.
    pub fn argument_bytes(&self) -> Result<Vec<u8>, CommandError> {
        match self.arguments.as_str() {
            "-" => read_all(io::stdin().lock()),
            text => match text.strip_prefix('@') {
                Some(path) => read_all(std::fs::File::open(path)?),
                None => Ok(text.as_bytes().to_vec()),
            },
        }
    }
}

fn read_all(source: impl Read) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    source.take(READ_AT_MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > READ_AT_MOST {
        return Err(CommandError::usage(
            "the arguments are larger than 4 MiB",
            "hand large content over by reference",
        ));
    }
    Ok(bytes)
}

/// Runs the command.
///
/// # Errors
/// Where the operation is refused, or the ledger cannot be used.
pub(super) fn run(_args: &PrepareArgs, _context: &mut Context<'_>) -> Result<Exit, CommandError> {
    not_wired("op prepare")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_exactly_as_they_are_and_not_without_end() {
        assert_eq!(read_all(&b"{\"n\": 1.0}\n"[..]).unwrap(), b"{\"n\": 1.0}\n");
        assert!(read_all(io::repeat(b'x')).is_err());
    }
}
