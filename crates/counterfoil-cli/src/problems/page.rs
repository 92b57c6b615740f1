//! The offline page of a problem, made from the catalogue.

use std::fmt::Write as _;

use super::catalogue::{CATALOGUE, Problem, Sent};

/// The page as Markdown.
#[must_use]
pub fn page(problem: &Problem) -> String {
    let sent = match problem.sent {
        Sent::No => "`sent: no`. The call recorded no attempt, and nothing was sent because of it.",
        Sent::Maybe => {
            "`sent: maybe`. Something may have been sent. Only the same operation ID is safe from here on; a new one \
             could do the action a second time."
        }
    };
    format!(
        "# {}\n\n{}\n\nHTTP status {}, type `{}`\n\n## What it means\n\n{}\n\n## What to do\n\n{}\n\n## Was anything sent?\n\n{sent}\n",
        problem.slug,
        problem.title,
        problem.status,
        problem.type_uri(),
        problem.meaning,
        problem.hint,
    )
}

/// The list of all pages as Markdown.
#[must_use]
pub fn index() -> String {
    let mut text = String::from(
        "# Problems\n\nEvery refusal carries one of these slugs. `counterfoil explain SLUG` prints the page, a server \
         serves it at `/problems/SLUG`.\n\nNo answer invites a retry with a new operation ID. 409, 429, 503 and 504 are \
         always safe to repeat with the same one.\n\n| slug | status | title |\n|---|---|---|\n",
    );
    for problem in CATALOGUE {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "| [{0}]({0}.md) | {1} | {2} |", problem.slug, problem.status, problem.title);
    }
    text
}
