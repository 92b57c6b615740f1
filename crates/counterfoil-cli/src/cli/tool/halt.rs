//! Pausing and resuming sends, of one tool or of all.

use std::time::Duration;

use counterfoil::ToolName;
use counterfoil::snapshot::PauseDraft;
use serde_json::Map;
use serde_json::value::RawValue;

use super::OneOrAll;
use super::body::{Pause, ToolBody};
use crate::cli::database::{self, Missing};
use crate::cli::error::{CommandError, Kind};
use crate::cli::exit::Exit;
use crate::cli::globals::Context;
use crate::cli::output::visible;
use crate::cli::target::{Here, Target, Whose};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Stop sends.
    Pause,
    /// Let them go on.
    Resume,
}

/// Does it, and prints the tools as they are then.
///
/// # Errors
/// Where there is no such tool, or the ledger cannot be written.
pub(super) fn run(
    what: What,
    which: &OneOrAll,
    note: &str,
    context: &mut Context<'_>,
) -> Result<Exit, CommandError> {
    if note.trim().is_empty() {
        return Err(CommandError::usage("the note is empty", "say why: whoever is woken next reads it"));
    }
    database::block_on(async {
        let target = Target::open(context, Missing::Create, Whose::Nobody).await?;
        let items = match &which.tool {
            Some(tool) => vec![one(&target, what, tool, note).await?],
            None => all(&target, what, note).await?,
        };
        target.close().await;
        print(&items, which.tool.is_some(), context)?;
        for said in beside(what, which, note, &items)? {
            context.out.note(said)?;
        }
        let stays = which.tool.is_none() && what == What::Resume;
        if stays && items.iter().any(|item| ToolBody::read(item).is_ok_and(|tool| tool.is_paused())) {
            context
                .out
                .note("pauses of single tools stay: `counterfoil tool resume TOOL --note \"…\"` ends each")?;
        }
        Ok(Exit::Done)
    })
}

/// What the caller may not expect: an earlier pause that stands in place of the new one, or a pause of everything that
/// holds a tool which was just resumed.
fn beside(
    what: What,
    which: &OneOrAll,
    note: &str,
    items: &[Box<RawValue>],
) -> Result<Vec<String>, CommandError> {
    let mut said = Vec::new();
    for item in items {
        let tool = ToolBody::read(item)?;
        match what {
            What::Pause => {
                // A pause for a credential's scope is another one.
                let alike = |pause: &&Pause| pause.scope.is_none() && (which.all || !pause.everything);
                let alike: Vec<&Pause> = tool.paused.iter().filter(alike).collect();
                if !alike.iter().any(|pause| pause.note == note) {
                    said.extend(
                        alike.iter().map(|pause| format!("the earlier pause stands: {}", pause.told())),
                    );
                }
            }
            What::Resume => {
                if let (Some(_), Some(pause)) = (&which.tool, tool.everything_paused()) {
                    said.push(format!(
                        "{} still stands still: {}; `counterfoil tool resume --all --note \"…\"` ends that where the \
                         database is",
                        tool.name,
                        pause.told()
                    ));
                }
            }
        }
    }
    said.dedup();
    Ok(said.iter().map(|text| visible(text)).collect())
}

async fn one(
    target: &Target,
    what: What,
    tool: &ToolName,
    note: &str,
) -> Result<Box<RawValue>, CommandError> {
    let rest = match what {
        What::Pause => "pause",
        What::Resume => "resume",
    };
    let body = Map::from_iter([("note".to_owned(), note.into())]);
    let answer = target.post(format!("/v1/tools/{tool}/{rest}"), body, Duration::ZERO).await?;
    Ok(serde_json::from_str(&answer.body)?)
}

/// A ledger knows a pause of everything, also of what is declared later. A server is asked tool by tool.
async fn all(target: &Target, what: What, note: &str) -> Result<Vec<Box<RawValue>>, CommandError> {
    if let Some(here) = target.here() {
        everything(here, what, note).await?;
        return Ok(target.page("/v1/tools".to_owned()).await?.1.items);
    }
    let mut items = Vec::new();
    for tool in target.page("/v1/tools".to_owned()).await?.1.items {
        let tool = ToolBody::read(&tool)?;
        items.push(one(target, what, &tool.name()?, note).await?);
    }
    let still = |item: &RawValue| ToolBody::read(item).is_ok_and(|tool| tool.everything_paused().is_some());
    if what == What::Resume && items.iter().any(|item| still(item.as_ref())) {
        return Err(CommandError::new(
            Kind::Refused,
            "everything is paused, which no call of a server ends",
            "run `counterfoil tool resume --all --note \"…\"` where the database is",
        ));
    }
    Ok(items)
}

async fn everything(here: &Here, what: What, note: &str) -> Result<(), CommandError> {
    let (store, by) = (here.ledger().store(), here.caller().principal.as_str());
    match what {
        What::Pause => {
            let draft = PauseDraft { tool: None, scope: None, by: by.to_owned(), note: note.to_owned() };
            store.pause(draft).await?;
        }
        What::Resume => {
            store.resume(None, by, note).await?;
        }
    }
    Ok(())
}

fn print(items: &[Box<RawValue>], single: bool, context: &mut Context<'_>) -> Result<(), CommandError> {
    if context.out.json {
        return match items {
            [one] if single => context.out.line(one.get()),
            several => context.out.json_list(several, None),
        };
    }
    let mut rows = vec![["TOOL", "SENDS"].map(str::to_owned).to_vec()];
    for item in items {
        let tool = ToolBody::read(item)?;
        rows.push(vec![tool.name.clone(), tool.standing()]);
    }
    context.out.table(&rows)
}
