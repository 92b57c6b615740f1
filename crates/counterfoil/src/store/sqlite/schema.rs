//! Numbered migrations, embedded, each with its checksum in the file.

use rusqlite::{Connection, OptionalExtension as _};

use crate::error::StoreError;
use crate::store::chain::{Hash, hash_of};
use crate::store::failure::Failure;
use crate::time::Timestamp;

/// Every migration, by number from 1. A published one never changes.
const MIGRATIONS: [&str; 4] =
    [include_str!("0001.sql"), include_str!("0002.sql"), include_str!("0003.sql"), include_str!("0004.sql")];

const VERSIONS: &str = "CREATE TABLE counterfoil_migrations (
    number     INTEGER PRIMARY KEY,
    checksum   BLOB NOT NULL,
    applied_at INTEGER NOT NULL
)";

/// The tables that later migrations added: number, table.
const ADDED: [(usize, &str); 2] = [(4, "counterfoil_listeners"), (4, "counterfoil_notices")];

/// The tables that a ledger has from the first migration on.
const TABLES: [&str; 12] = [
    "counterfoil_buckets",
    "counterfoil_evidence",
    "counterfoil_head",
    "counterfoil_keys",
    "counterfoil_meta",
    "counterfoil_migrations",
    "counterfoil_operations",
    "counterfoil_pauses",
    "counterfoil_policies",
    "counterfoil_refusals",
    "counterfoil_tokens",
    "counterfoil_tombstones",
];

/// The statements that make a ledger, for whoever runs migrations with a tool of their own.
#[must_use]
pub fn sql() -> String {
    MIGRATIONS.concat()
}

/// Brings the file to this build's schema: in one transaction, or not at all. A crash before its commit leaves the
/// file as it was.
pub(super) fn migrate(connection: &Connection, now: Timestamp) -> Result<(), Failure> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let outcome = apply(connection, now).and_then(|()| Ok(connection.execute_batch("COMMIT")?));
    if outcome.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    outcome
}

fn apply(connection: &Connection, now: Timestamp) -> Result<(), Failure> {
    let present = tables(connection)?;
    if present.is_empty() {
        connection.execute_batch(VERSIONS)?;
    } else {
        require(&present, TABLES)?;
    }
    let done: i64 =
        connection.query_row("SELECT count(*) FROM counterfoil_migrations", [], |row| row.get(0))?;
    let done = usize::try_from(done).unwrap_or(usize::MAX);
    if done > 0 {
        require(&present, ADDED.iter().filter(|(number, _)| *number <= done).map(|(_, table)| *table))?;
        check(connection)?;
    }
    for (number, sql) in (1_i64..).zip(MIGRATIONS).skip(done) {
        connection.execute_batch(sql)?;
        connection.execute(
            "INSERT INTO counterfoil_migrations (number, checksum, applied_at) VALUES (?1, ?2, ?3)",
            (number, hash_of(sql), now.as_millis()),
        )?;
    }
    if done == 0 {
        identify(connection)?;
    }
    Ok(())
}

/// Gives a new ledger its identity and its secret.
fn identify(connection: &Connection) -> Result<(), Failure> {
    let mut secret = [0_u8; 32];
    getrandom::fill(&mut secret)
        .map_err(|_| StoreError::Unusable("the system has no randomness".to_owned()))?;
    let id = uuid::Uuid::now_v7().to_string();
    let mut insert = connection.prepare("INSERT INTO counterfoil_meta (key, value) VALUES (?1, ?2)")?;
    insert.execute(("secret", &secret[..]))?;
    insert.execute(("ledger", id.as_bytes()))?;
    Ok(())
}

fn tables(connection: &Connection) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'counterfoil\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Refuses a file that lost a part.
fn require(present: &[String], tables: impl IntoIterator<Item = &'static str>) -> Result<(), Failure> {
    let missing = tables.into_iter().find(|table| !present.iter().any(|name| name == table));
    match missing {
        Some(table) => Err(StoreError::Corrupt(format!("the table {table} is missing")).into()),
        None => Ok(()),
    }
}

/// Refuses a file that this build did not make.
fn check(connection: &Connection) -> Result<(), Failure> {
    let mut statement =
        connection.prepare("SELECT number, checksum FROM counterfoil_migrations ORDER BY number")?;
    let mut rows = statement.query([])?;
    let mut known = (1_i64..).zip(MIGRATIONS);
    while let Some(row) = rows.next()? {
        let (number, checksum): (i64, Hash) = (row.get(0)?, row.get(1)?);
        match known.next() {
            None => {
                let text = format!("a newer version of the program made it (migration {number})");
                return Err(StoreError::Unusable(text).into());
            }
            Some((expected, sql)) if expected == number && hash_of(sql) == checksum => {}
            Some((expected, _)) => {
                let text = format!("migration {expected} is not the one that this program knows");
                return Err(StoreError::Unusable(text).into());
            }
        }
    }
    Ok(())
}

/// A value that the ledger keeps about itself.
pub(super) fn meta(connection: &Connection, key: &str) -> Result<Vec<u8>, Failure> {
    connection
        .query_row("SELECT value FROM counterfoil_meta WHERE key = ?1", [key], |row| row.get(0))
        .optional()?
        .ok_or_else(|| Failure::damaged("the ledger does not know its own identity"))
}
