//! `counterfoil init`

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use clap::Args;

use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use crate::config::schema;

/// The file as it is written.
pub const TEMPLATE: &str = include_str!("init.toml");

/// The name of the schema that the first line of the file names.
const SCHEMA: &str = "counterfoil.schema.json";

/// Write a commented configuration with one tool
///
/// Writes the file of `--config` and its JSON schema beside it, and prints lines to paste. Nothing that exists is
/// overwritten.
#[derive(Clone, Debug, Args)]
pub struct InitArgs {}

const NEXT: &str = r#"# 1. Point the tool in the file at your destination, then check it:
counterfoil check
counterfoil tool plan supplier.create_order

# 2. Make a token for the application and start the server:
export COUNTERFOIL_TOKEN="$(counterfoil token create --account kitchen --role agent)"
counterfoil serve

# 3. Do something exactly once. Run this line as often as you like: one order, one receipt.
curl -sS -X PUT http://127.0.0.1:8787/v1/operations/approved-action-17 \
  -H "Authorization: Bearer $COUNTERFOIL_TOKEN" -H "Content-Type: application/json" \
  -d '{"tool":"supplier.create_order","arguments":{"sku":"flour-25kg","quantity":10},"execute":true}'

# 4. Ask what became of it:
curl -sS http://127.0.0.1:8787/v1/operations/approved-action-17 -H "Authorization: Bearer $COUNTERFOIL_TOKEN"
"#;

/// Runs the command.
///
/// # Errors
/// Where the file exists already, or cannot be written.
pub fn run(_args: &InitArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let path = context.config_path().to_owned();
    if !write_new(&path, TEMPLATE)? {
        let hint = "edit it, or name another with --config";
        return Err(CommandError::environment(format!("{} exists already", path.display()), hint));
    }
    let schema_path = path.with_file_name(SCHEMA);
    let schema_written = write_new(&schema_path, &schema::text())?;
    let shown = |path: &Path| path.display().to_string();
    if context.out.json {
        let written: Vec<String> =
            if schema_written { vec![shown(&path), shown(&schema_path)] } else { vec![shown(&path)] };
        context.out.json(&serde_json::json!({ "written": written, "next": NEXT }))?;
    } else {
        context.out.note(format!("wrote {}", shown(&path)))?;
        if schema_written {
            context.out.note(format!("wrote {}", shown(&schema_path)))?;
        }
        context.out.text(NEXT)?;
    }
    Ok(Exit::Done)
}

/// Writes a file that does not exist yet; `false` where it does. There is no moment in which an existing file could be
/// lost.
fn write_new(path: &Path, text: &str) -> io::Result<bool> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}
