//! `counterfoil op prepare`

use std::io::{self, Read};
use std::time::Duration;

use clap::Args;

use counterfoil::id::Subject;
use counterfoil::{OperationId, Task, ToolName};
use http::Method;
use serde::Serialize;
use serde_json::value::RawValue;

use super::IdArg;
use super::execute::{SERVER_WAITS, about_wait, see_through};
use super::operation::Operation;
use crate::cli::database::{self, Missing};
use crate::cli::error::{CommandError, Kind};
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::target::{Target, Whose, path_of};
use crate::client::Call;
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
    pub id: IdArg,
    /// The arguments: a JSON object, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub arguments: String,
    /// The agent run or conversation that it belongs to
    #[arg(long, value_name = "TASK")]
    pub task: Option<Task>,
    /// What it is about: of the operations with one subject only one may be started and unsettled
    #[arg(long, value_name = "SUBJECT")]
    pub subject: Option<Subject>,
    /// The operation whose place this changed proposal takes
    #[arg(long, value_name = "ID")]
    pub replaces: Option<OperationId>,
    /// Operations with the same action that this one is deliberately a second of
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub distinct_from: Vec<OperationId>,
    /// Who or what accepted the proposal: a JSON object of at most 1 KiB
    #[arg(long, value_name = "JSON")]
    pub accepted_by: Option<String>,
    /// Carry it out as soon as it is allowed
    #[arg(long)]
    pub execute: bool,
    /// How long to wait for the outcome, such as `30s`; on a server at most 2m, and 30s by default
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
                Some(path) => {
                    match std::fs::File::open(path).map_err(CommandError::from).and_then(read_all) {
                        Ok(bytes) => Ok(bytes),
                        Err(error) => {
                            Err(CommandError { message: format!("{path}: {}", error.message), ..error })
                        }
                    }
                }
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

/// The body of the call. Arguments go out exactly as they were given.
#[derive(Serialize)]
struct Body<'a> {
    tool: &'a str,
    arguments: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    distinct_from: &'a [OperationId],
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_by: Option<&'a RawValue>,
    execute: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    dry_run: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the operation is refused, or the ledger cannot be used.
pub(super) fn run(args: &PrepareArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let id = args.id.read()?;
    let arguments = args.argument_bytes()?;
    database::block_on(async {
        let target = Target::open(context, Missing::Create, Whose::OneAccount).await?;
        let wait = args.wait.map(|length| length.0);
        let asked = match target {
            Target::Server(_) | Target::Dev(..) if args.execute && !args.dry_run => {
                wait.unwrap_or(SERVER_WAITS)
            }
            Target::Server(_) | Target::Dev(..) | Target::Here(_) => Duration::ZERO,
        };
        let call = Call {
            method: Method::PUT,
            path: path_of(&id, ""),
            body: Some(body(args, &arguments, asked)?),
            wait: asked,
        };
        let answered = match target.call(call).await {
            Ok(answer) if args.execute && !args.dry_run => {
                see_through(&target, &id, answer, wait, context).await
            }
            Ok(answer) => Ok(answer),
            Err(error) => Err(about_wait(error)),
        };
        target.close().await;
        let answer = answered?;
        if args.dry_run {
            would(&answer.body, context)
        } else {
            prepared(&answer.body, args.execute, context)
        }
    })
}

fn body(args: &PrepareArgs, arguments: &[u8], wait: Duration) -> Result<String, CommandError> {
    let accepted_by = args.accepted_by.as_deref().map(|text| one_value(text.as_bytes(), "--accepted-by"));
    let accepted_by = accepted_by.transpose()?;
    let body = Body {
        tool: args.tool.as_str(),
        arguments: one_value(arguments, "--arguments")?,
        task: args.task.as_ref().map(Task::as_str),
        subject: args.subject.as_ref().map(Subject::as_str),
        replaces: args.replaces.as_ref().map(OperationId::as_str),
        distinct_from: &args.distinct_from,
        accepted_by,
        execute: args.execute,
        wait_ms: args.execute.then(|| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        dry_run: args.dry_run,
    };
    Ok(serde_json::to_string(&body)?)
}

/// The one JSON value that a text is. Anything after it could add members to the call.
fn one_value<'a>(text: &'a [u8], option: &str) -> Result<&'a RawValue, CommandError> {
    serde_json::from_slice(text).map_err(|error| {
        let message = format!("{option} is no JSON: line {}, column {}", error.line(), error.column());
        let hint = "give one JSON object, `@FILE`, or `-` for standard input";
        CommandError { slug: Some("invalid-arguments"), ..CommandError::new(Kind::Refused, message, hint) }
    })
}

/// A new operation is what was asked for, even if nothing is to happen to it yet; one that waits for somebody is not.
fn prepared(body: &str, execute: bool, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let operation = Operation::read(body)?;
    if context.out.json {
        context.out.line(body)?;
    } else {
        operation.print(&mut context.out)?;
    }
    if !execute && operation.state == "prepared" && operation.next.action == "execute" {
        return Ok(Exit::Done);
    }
    operation.exit()
}

/// What a prepare would do.
#[derive(serde::Deserialize)]
struct Would {
    would: String,
    problem: Option<Refused>,
}

#[derive(serde::Deserialize)]
struct Refused {
    detail: String,
    hint: String,
}

fn would(body: &str, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let Would { would, problem } = serde_json::from_str(body)?;
    if context.out.json {
        context.out.line(body)?;
    } else {
        context.out.line(format!("would {}", crate::cli::output::visible(&would)))?;
        if let Some(Refused { detail, hint }) = &problem {
            context.out.line(crate::cli::output::visible(detail))?;
            context.out.note(format!("hint: {}", crate::cli::output::visible(hint)))?;
        }
    }
    Ok(if problem.is_some() { Exit::Error } else { Exit::Done })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_exactly_as_they_are_and_not_without_end() {
        assert_eq!(read_all(&b"{\"n\": 1.0}\n"[..]).unwrap(), b"{\"n\": 1.0}\n");
        assert!(read_all(io::repeat(b'x')).is_err());
    }

    #[test]
    fn arguments_cannot_add_members_to_the_call() {
        for bad in [r#"{},"execute":true"#, r#"{}}"#, "", "{", "{} {}"] {
            assert!(one_value(bad.as_bytes(), "--arguments").is_err(), "{bad}");
        }
        let exact = r#"{"n":1.0, "big":123456789012345678901234567890,"e":1E+2}"#;
        assert_eq!(one_value(format!(" {exact}\n").as_bytes(), "--arguments").unwrap().get(), exact);
    }
}
