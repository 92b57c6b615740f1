//! `counterfoil init`

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use clap::Args;
use counterfoil::store::Token;
use counterfoil::{Account, Principal};
use serde_json::json;

use super::database::{self, Missing};
use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;
use super::output::quoted;
use crate::config::{self, Config, Database, Listen, schema};
use crate::secret;

/// The file as it is written.
pub const TEMPLATE: &str = include_str!("init.toml");

/// The lines to paste, with what differs in braces.
const NEXT: &str = include_str!("init.txt");

/// The name of the schema that the first line of the file names.
const SCHEMA: &str = "counterfoil.schema.json";

/// Write a commented configuration with one tool, and begin its ledger with a token
///
/// Writes the file of `--config` and its JSON schema beside it, makes the ledger's first token (role agent, account
/// `kitchen` or that of `--account`), and prints lines of shell, curl and Python to paste, with the token in them: it is
/// shown this once. Nothing that exists is overwritten, and a ledger that has a token gets no other.
#[derive(Clone, Debug, Args)]
pub struct InitArgs {}

/// The account of the first token where `--account` names none.
const ACCOUNT: &str = "kitchen";

/// Runs the command.
///
/// # Errors
/// Where the file exists already, cannot be written, or the ledger cannot be begun.
pub fn run(_args: &InitArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    let path = context.config_path().to_owned();
    if !write_new(&path, TEMPLATE)? {
        let hint = "edit it, or name another with --config";
        return Err(CommandError::environment(format!("{} exists already", path.display()), hint));
    }
    let mut written = vec![path.clone()];
    let schema_path = path.with_file_name(SCHEMA);
    if write_new(&schema_path, &schema::text())? {
        written.push(schema_path);
    }
    let config = context.config()?;
    let file = match &config.server.database {
        Database::Sqlite(ledger) => Some(ledger.clone()).filter(|ledger| !ledger.exists()),
        Database::Postgres(_) => None,
    };
    let account = match &context.globals.account {
        Some(account) => account.clone(),
        None => Account::parse(ACCOUNT)?,
    };
    let token = first_token(&config, &account)?;
    written.extend(file);
    let next = next(&path, &config, &account, token.as_deref());
    let written: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    if context.out.json {
        return context
            .out
            .json(&json!({ "written": written, "account": account.as_str(), "token": token, "next": next }))
            .map(|()| Exit::Done);
    }
    for path in written {
        context.out.note(format!("wrote {path}"))?;
    }
    if token.is_none() {
        let place = match &config.server.database {
            Database::Sqlite(ledger) => ledger.display().to_string(),
            Database::Postgres(address) => address.to_string(),
        };
        context.out.note(format!("{place} has tokens already: no other was made"))?;
    }
    context.out.text(next)?;
    Ok(Exit::Done)
}

/// Makes the first token of a ledger, for the application; none where the ledger has one.
fn first_token(config: &Config, account: &Account) -> Result<Option<String>, CommandError> {
    let (text, digest) = secret::mint()?;
    let id = secret::new_id()?;
    database::block_on(async {
        let store = database::open(config, Missing::Create).await?;
        let first = store.tokens().await?.is_empty();
        if first {
            let token = Token {
                principal: Principal::parse(&id)?,
                id,
                account: account.clone(),
                roles: vec!["agent".to_owned()],
                tools: Vec::new(),
                digest,
                created_at: store.now(),
                expires_at: None,
                revoked_at: None,
            };
            store.create_token(token).await?;
        }
        store.close().await;
        Ok(first.then_some(text))
    })
}

/// The lines to paste. Each runs as it stands in the folder of the command, the last steps in a second terminal.
fn next(path: &Path, config: &Config, account: &Account, token: Option<&str>) -> String {
    let option = if path.as_os_str() == config::DEFAULT_PATH {
        String::new()
    } else {
        format!(" --config {}", quoted(&path.to_string_lossy()))
    };
    let (why, token) = match token {
        Some(token) => {
            ("It is shown this once: keep it where the application keeps its secrets.", token.to_owned())
        }
        None => (
            "This ledger has tokens; this makes one more.",
            format!("\"$(counterfoil{option} token create --account {account} --role agent --quiet)\""),
        ),
    };
    let url = match &config.server.listen {
        Listen::Tcp(address) if address.port() != 0 => format!("http://{address}"),
        Listen::Tcp(_) | Listen::Unix(_) => "http://127.0.0.1:8787".to_owned(),
    };
    NEXT.replace("{option}", &option)
        .replace("{file}", &path.display().to_string())
        .replace("{account}", account.as_str())
        .replace("{why}", why)
        .replace("{token}", &token)
        .replace("{url}", &url)
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
