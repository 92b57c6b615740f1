//! `counterfoil explain`

use clap::Args;
use serde_json::json;

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use crate::problems::{self, CATALOGUE, Problem};

/// Explain a problem by its slug
///
/// Prints what it means, what to do about it, and whether anything may have been sent. Without a slug it lists them all.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// The slug, such as `operation-id-reused`; the whole `type` of a problem works too
    #[arg(value_name = "SLUG")]
    pub slug: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Where there is no such problem.
pub fn run(args: &ExplainArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let Some(slug) = &args.slug else { return list(context) };
    let slug = slug.strip_prefix(problems::TYPE_PREFIX).unwrap_or(slug);
    let Some(problem) = problems::find(slug) else {
        let hint = match problems::nearest(slug) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`counterfoil explain` lists them all".to_owned(),
        };
        return Err(CommandError::usage("there is no problem with this slug", hint));
    };
    if context.out.json {
        context.out.json(&object(problem))?;
    } else {
        context.out.text(problems::page(problem))?;
    }
    Ok(Exit::Done)
}

fn list(context: &mut Context<'_>) -> Result<Exit, CommandError> {
    if context.out.json {
        let items: Vec<_> = CATALOGUE.iter().map(object).collect();
        context.out.json_list(&items, None)?;
    } else {
        let mut rows = vec![vec!["SLUG".to_owned(), "STATUS".to_owned(), "TITLE".to_owned()]];
        rows.extend(CATALOGUE.iter().map(|problem| {
            vec![problem.slug.to_owned(), problem.status.to_string(), problem.title.to_owned()]
        }));
        context.out.table(&rows)?;
    }
    Ok(Exit::Done)
}

fn object(problem: &Problem) -> serde_json::Value {
    json!({
        "slug": problem.slug, "type": problem.type_uri(), "title": problem.title, "status": problem.status,
        "sent": problem.sent.label(), "meaning": problem.meaning, "hint": problem.hint, "doc": problem.doc(),
    })
}
