//! `counterfoil op resolve`, `op release` and `op note`

use std::time::Duration;

use clap::{Args, ValueEnum};
use counterfoil::OperationId;
use serde_json::{Map, Value};

use super::IdArg;
use super::execute::shown;
use super::operation::Operation;
use super::which::{Which, ended};
use crate::cli::database::{self, Missing};
use crate::cli::error::{CommandError, Kind};
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::output::visible;
use crate::cli::target::{Target, Whose, path_of};

/// What a person established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerdictArg {
    /// It happened; `--reference` says what the destination calls it.
    Succeeded,
    /// Nothing happened, and nothing that was sent can still take effect.
    ConfirmedAbsent,
    /// Nobody can tell; the risk is accepted.
    Abandoned,
    /// A suspected duplicate was looked at: the state stays as it is.
    Acknowledged,
}

impl VerdictArg {
    fn label(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::ConfirmedAbsent => "confirmed_absent",
            Self::Abandoned => "abandoned",
            Self::Acknowledged => "acknowledged",
        }
    }
}

/// Say what became of an operation that no rule can settle
#[derive(Clone, Debug, Args)]
pub struct ResolveArgs {
    /// Which operations.
    #[command(flatten)]
    pub which: Which,
    /// What was established
    #[arg(long, value_name = "VERDICT")]
    pub verdict: VerdictArg,
    /// What the destination calls the thing that was found
    #[arg(long, value_name = "REFERENCE", required_if_eq("verdict", "succeeded"))]
    pub reference: Option<String>,
    /// How it was established
    #[arg(long, value_name = "TEXT")]
    pub note: String,
    /// Exactly one more attempt may be made
    #[arg(long)]
    pub allow_another_attempt: bool,
}

/// Let later operations with this action pass: what is released is never sent again
#[derive(Clone, Debug, Args)]
pub struct ReleaseArgs {
    /// Which operations.
    #[command(flatten)]
    pub which: Which,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub note: String,
}

/// Write down what was found so far, without a verdict
#[derive(Clone, Debug, Args)]
pub struct NoteArgs {
    /// The operation ID
    #[arg(value_name = "ID")]
    pub id: IdArg,
    /// What was found
    #[arg(long, value_name = "TEXT")]
    pub text: String,
    /// When to be reminded, such as `2026-11-30T08:00:00Z`
    #[arg(long, value_name = "TIME")]
    pub remind_at: Option<String>,
}

/// Runs `op resolve`.
///
/// # Errors
/// Where the verdict cannot be given now, or by this principal.
pub(super) fn resolve(args: &ResolveArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    // One thing at the destination is the proof of one operation.
    if args.which.id.is_none() && args.reference.is_some() {
        return Err(CommandError::new(
            Kind::Usage,
            "a reference proves one operation only",
            "name the operation by its ID",
        ));
    }
    let mut body = Map::new();
    body.insert("verdict".to_owned(), args.verdict.label().into());
    body.insert("note".to_owned(), args.note.clone().into());
    if let Some(reference) = &args.reference {
        body.insert("reference".to_owned(), reference.clone().into());
    }
    if args.allow_another_attempt {
        body.insert("allow_another_attempt".to_owned(), true.into());
    }
    decide(&args.which, "/resolve", body, context)
}

/// Runs `op release`.
///
/// # Errors
/// Where there is nothing to release, or not by this principal.
pub(super) fn release(args: &ReleaseArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let body = Map::from_iter([("note".to_owned(), args.note.clone().into())]);
    decide(&args.which, "/release", body, context)
}

/// Runs `op note`.
///
/// # Errors
/// Where the operation is not known, or not to this principal.
pub(super) fn note(args: &NoteArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let mut body = Map::from_iter([("text".to_owned(), args.text.clone().into())]);
    if let Some(at) = &args.remind_at {
        body.insert("remind_at".to_owned(), at.clone().into());
    }
    super::decision::run(&args.id.read()?, "/notes", body, context)
}

fn decide(
    which: &Which,
    what: &str,
    body: Map<String, Value>,
    context: &mut Context<'_>,
) -> Result<Exit, CommandError> {
    let one = which.id.as_ref().map(IdArg::read).transpose()?;
    database::block_on(async {
        let target = Target::open(context, Missing::Refuse, Whose::OneAccount).await?;
        let exit = match one {
            Some(id) => {
                let answer = target.get(path_of(&id, "")).await?;
                decide_one(&target, &Operation::read(&answer.body)?, what, &body, context).await?;
                Exit::Done
            }
            None => decide_all(&target, which, what, &body, context).await?,
        };
        target.close().await;
        Ok(exit)
    })
}

/// Decides about what was just read: had it changed since, the decision would be about something else.
async fn decide_one(
    target: &Target,
    seen: &Operation,
    what: &str,
    body: &Map<String, Value>,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let id = OperationId::parse(&seen.id)?;
    let mut body = body.clone();
    body.insert("if_version".to_owned(), seen.version.into());
    let answer = target.post(path_of(&id, what), body, Duration::ZERO).await?;
    shown(&answer, context).map(drop)
}

/// All that fit: counted first, and decided one by one. A refusal of one leaves the others.
async fn decide_all(
    target: &Target,
    which: &Which,
    what: &str,
    body: &Map<String, Value>,
    context: &mut Context<'_>,
) -> Result<Exit, CommandError> {
    let Some(found) = which.meant(target, "decide about", context).await? else { return Ok(Exit::Waiting) };
    let mut refused = 0_usize;
    for operation in &found {
        if let Err(error) = decide_one(target, operation, what, body, context).await {
            refused += 1;
            context.out.note(format!("{}: {}", visible(&operation.id), error.message))?;
        }
    }
    ended(refused, found.len())
}
