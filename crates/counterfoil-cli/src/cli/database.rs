//! The ledger of the configuration, opened by the command itself.

use std::future::Future;
use std::path::Path;

use counterfoil::ledger::{Ledger, LedgerOptions};
use counterfoil::policy::Tool;
use counterfoil::store::Store;
use counterfoil::store::postgres::{PostgresOptions, PostgresStore};
use counterfoil::store::sqlite::{SqliteOptions, SqliteStore};
use counterfoil::{Account, Principal};

use super::error::CommandError;
use super::globals::Context;
use crate::config::{Config, Database, PostgresAddress};

/// Runs one command's asynchronous part to its end.
///
/// # Errors
/// As the part, or where the system grants no threads.
pub fn block_on<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(work)
}

/// Whether a command may begin a new ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It writes something that a ledger may begin with.
    Create,
    /// It reads or decides: a missing file is most likely the wrong one.
    Refuse,
}

/// Fails where the ledger is a file that is not there and the command needs one.
///
/// # Errors
/// There is none.
pub fn must_exist(config: &Config, missing: Missing) -> Result<(), CommandError> {
    match &config.server.database {
        Database::Sqlite(path) if missing == Missing::Refuse && !path.exists() => {
            Err(CommandError::environment(
                format!("there is no ledger at {}", path.display()),
                "`counterfoil token create` and `counterfoil serve` begin one; --config names another configuration",
            ))
        }
        // Whether a database holds a ledger is only known to whoever connects.
        Database::Sqlite(_) | Database::Postgres(_) => Ok(()),
    }
}

/// The settings of a node of this configuration.
fn node(config: &Config) -> PostgresOptions {
    PostgresOptions { mark: Some(config.server.mark.clone()), ..PostgresOptions::default() }
}

/// Opens the store without declaring tools: for what concerns no operation.
///
/// # Errors
/// Where the ledger cannot be opened.
pub async fn open(config: &Config, missing: Missing) -> Result<Store, CommandError> {
    must_exist(config, missing)?;
    match &config.server.database {
        Database::Sqlite(path) => {
            let opened = SqliteStore::open(path, SqliteOptions::default());
            opened.map(Store::from).map_err(|error| unusable(path, &error))
        }
        Database::Postgres(address) => {
            let opened = Box::pin(PostgresStore::open(address.expose(), node(config))).await;
            opened.map(Store::from).map_err(|error| unreachable(address, &error))
        }
    }
}

/// Opens the ledger with these tools.
///
/// # Errors
/// Where it cannot be opened.
pub async fn open_ledger(
    config: &Config,
    tools: Vec<Tool>,
    options: LedgerOptions,
) -> Result<Ledger, CommandError> {
    match &config.server.database {
        Database::Sqlite(path) => {
            let failed = |error| unusable(path, &error);
            let ledger = Ledger::open(path, tools.clone(), options).await.map_err(failed)?;
            // Whoever knows declarations from the file alone hears of what is no longer declared.
            ledger.declare_all(tools).await.map_err(failed)?;
            Ok(ledger)
        }
        Database::Postgres(address) => {
            let opened = Ledger::open_postgres(address.expose(), tools, node(config), options.random);
            Box::pin(opened).await.map_err(|error| unreachable(address, &error))
        }
    }
}

/// A database that cannot be opened, without its password.
fn unreachable(address: &PostgresAddress, error: &counterfoil::StoreError) -> CommandError {
    CommandError {
        slug: Some(error.code()),
        ..CommandError::environment(
            format!("{address}: {error}"),
            "the database is named by server.database in the configuration, or by --database",
        )
    }
}

/// A ledger that cannot be opened, with the file that it is about.
pub fn unusable(path: &Path, error: &counterfoil::StoreError) -> CommandError {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let hint = if path.is_dir() {
        "this is a folder: name a file in it".to_owned()
    } else if !folder.is_dir() {
        format!("there is no folder {}: create it, or name a file elsewhere", folder.display())
    } else {
        "the file must be a ledger or not exist yet, on a local disk, in a folder that you may write"
            .to_owned()
    };
    CommandError {
        slug: Some(error.code()),
        ..CommandError::environment(format!("{}: {error}", path.display()), hint)
    }
    .with_hint("the ledger is named by server.database in the configuration, or by --database")
}

/// The account to work in: the one that is named, or the only one that the ledger knows.
///
/// # Errors
/// Where none is named and the ledger knows none or several.
pub async fn account(context: &Context<'_>, store: &Store) -> Result<Account, CommandError> {
    if let Some(account) = &context.globals.account {
        return Ok(account.clone());
    }
    let known = store.accounts().await?;
    match known.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(CommandError::usage(
            "the ledger knows no account yet",
            "name one with --account NAME: its first token or operation begins it",
        )),
        several => {
            let names: Vec<&str> = several.iter().take(8).map(Account::as_str).collect();
            let more = if several.len() > names.len() { " and others" } else { "" };
            let hint = format!("choose with --account; known are {}{more}", names.join(", "));
            Err(CommandError::usage("the ledger knows several accounts", hint))
        }
    }
}

/// Who acts on a database: the user of the operating system, as `os:USER`. It is a name for the evidence, not a proof:
/// whoever can write the file can write anything into it.
///
/// # Errors
/// Where the user has no name that fits.
pub fn principal(context: &Context<'_>) -> Result<Principal, CommandError> {
    let variable = |name: &str| context.overrides.variables.get(name).filter(|value| !value.is_empty());
    let user = variable("USER").or_else(|| variable("LOGNAME")).or_else(|| variable("USERNAME"));
    let named = match user {
        Some(user) => user.clone(),
        None => numbered()?,
    };
    Principal::parse(&format!("os:{named}")).map_err(|error| {
        CommandError::environment(
            format!("the user's name is no principal: it {}", error.problem),
            "set USER to a name of letters, digits and . _ : -",
        )
    })
}

/// The user's number, from the files of the process: environments of services often name nobody.
#[cfg(target_os = "linux")]
fn numbered() -> Result<String, CommandError> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(std::fs::metadata("/proc/self")?.uid().to_string())
}

#[cfg(not(target_os = "linux"))]
fn numbered() -> Result<String, CommandError> {
    Err(CommandError::environment("the environment names no user", "set USER"))
}

/// For commands whose subject is the database itself.
///
/// # Errors
/// Where a server is named.
pub fn only_here(context: &Context<'_>, command: &str) -> Result<(), CommandError> {
    match context.globals.server {
        None => Ok(()),
        Some(_) => Err(CommandError::usage(
            format!("{command} works on the database, not through a server"),
            "run it where the database is, without --server; a running server sees the change within a second",
        )),
    }
}
