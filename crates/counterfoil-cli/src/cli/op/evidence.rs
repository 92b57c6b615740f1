//! The rows of an operation's evidence.

use serde::Deserialize;
use serde_json::value::RawValue;

use counterfoil::OperationId;

use crate::cli::error::CommandError;
use crate::cli::globals::Context;
use crate::cli::target::{Target, path_of, with_query};

/// Rows of one page.
const PAGE: &str = "200";

/// What is shown of a row.
#[derive(Deserialize)]
struct Row {
    seq: u64,
    at: String,
    kind: String,
    by: By,
    data: Box<RawValue>,
    digest: String,
}

#[derive(Deserialize)]
struct By {
    principal: String,
    kind: String,
}

/// Prints every row, oldest first.
pub(super) async fn print(
    target: &Target,
    id: &OperationId,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let mut items = Vec::new();
    let mut cursor = None;
    loop {
        let parameters = [("limit", Some(PAGE.to_owned())), ("cursor", cursor)];
        let (_, page) = target.page(with_query(&path_of(id, "/evidence"), &parameters)).await?;
        items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    if context.out.json {
        return context.out.json_list(&items, None);
    }
    let mut rows = vec![["SEQ", "AT", "KIND", "BY", "DIGEST", "DATA"].map(str::to_owned).to_vec()];
    for item in &items {
        let row: Row = serde_json::from_str(item.get())?;
        let by = format!("{} ({})", row.by.principal, row.by.kind);
        // As much of the digest as tells rows apart; the whole is in the JSON.
        let digest = row.digest.chars().take("sha256:".len() + 12).collect();
        rows.push(vec![row.seq.to_string(), row.at, row.kind, by, digest, row.data.get().to_owned()]);
    }
    context.out.table(&rows)
}
