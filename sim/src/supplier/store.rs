//! The supplier's own database: what it did, and which keys it has seen.

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::options::Flavour;
use super::request::SeenRequest;
use crate::wire::Reply;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT OR IGNORE INTO counter VALUES ('order', 0);
CREATE TABLE IF NOT EXISTS effects (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL,
    method TEXT NOT NULL,
    key TEXT,
    reference TEXT,
    body BLOB NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS effects_by_reference ON effects (reference, path);
CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    body BLOB NOT NULL,
    reply TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;
";

/// Something that happened at the supplier. There is one row per accepted write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Counts the effects, from 1.
    pub number: i64,
    /// The identifier that the caller is told, `po_000001` and so on.
    pub order: String,
    /// The path it was sent to, without query.
    pub path: String,
    /// The method.
    pub method: String,
    /// The key it came with.
    pub key: Option<String>,
    /// The client reference it came with.
    pub reference: Option<String>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// When it was committed, in the supplier's time.
    pub at: Duration,
}

impl Effect {
    /// The body as JSON; `null` when it is not.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A write as it is put to the store.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) request: SeenRequest,
    pub(super) key: Option<String>,
    pub(super) reference: Option<String>,
    /// Whether the effect is committed in this transaction.
    pub(super) effect_now: bool,
    /// Whether it is committed by [`Store::apply_later`].
    pub(super) queued: bool,
    /// Answered, and stored with the key, in place of the flavour's own answer.
    pub(super) answer: Option<Reply>,
    /// Whether `answer` is stored with the key; otherwise the flavour's own is.
    pub(super) store_answer: bool,
    pub(super) now: Duration,
}

/// What the store made of a write.
#[derive(Debug, Clone)]
pub(super) struct Accepted {
    pub(super) reply: Reply,
    /// The order, unless the write was refused or answered from the key.
    pub(super) order: Option<String>,
    /// Whether an effect was committed just now.
    pub(super) effect: bool,
}

#[derive(Debug)]
pub(super) struct Store {
    connection: Connection,
}

impl Store {
    /// Opens the database file, or one in memory.
    pub(super) fn open(path: Option<&Path>) -> io::Result<Self> {
        let connection = match path {
            Some(path) => Connection::open(path),
            None => Connection::open_in_memory(),
        }
        .map_err(failed)?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
        // FULL: an effect that was answered survives the power cut, as it would at a real supplier.
        connection
            .execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {SCHEMA}"))
            .map_err(failed)?;
        Ok(Self { connection })
    }

    /// Carries a write out in one transaction. A crash before its end leaves neither effect nor
    /// key; a crash after it is the lost reply.
    pub(super) fn accept(&mut self, flavour: &Flavour, write: &Write) -> io::Result<Accepted> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let accepted = accept(&transaction, flavour, write).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(accepted)
    }

    /// Commits the effect of a write that was accepted earlier. False if the reference has been
    /// used meanwhile and must be unique.
    pub(super) fn apply_later(&mut self, flavour: &Flavour, order: &str, write: &Write) -> io::Result<bool> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let taken = reference_taken(&transaction, flavour, write).map_err(failed)?;
        if !taken {
            append(&transaction, order, write).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(!taken)
    }

    pub(super) fn forget_keys(&self) -> io::Result<()> {
        self.connection.execute("DELETE FROM keys", []).map(drop).map_err(failed)
    }

    pub(super) fn effects(&self) -> io::Result<Vec<Effect>> {
        effects(&self.connection).map_err(failed)
    }

    /// Effects under `path` with that reference, committed at `until` or before.
    pub(super) fn search(&self, path: &str, reference: &str, until: Duration) -> io::Result<Vec<Effect>> {
        let run = || -> rusqlite::Result<Vec<Effect>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT * FROM effects WHERE reference = ?1 AND path = ?2 AND at_ms <= ?3 ORDER BY id",
            )?;
            statement.query_map(params![reference, path, millis(until)], effect)?.collect()
        };
        run().map_err(failed)
    }

    pub(super) fn by_order(&self, order: &str) -> io::Result<Option<Effect>> {
        self.connection
            .query_row("SELECT * FROM effects WHERE order_id = ?1", [order], effect)
            .optional()
            .map_err(failed)
    }

    /// The latest time in the log: the supplier's time goes on from there after a restart.
    pub(super) fn latest(&self) -> io::Result<Duration> {
        let sql = "SELECT MAX(COALESCE((SELECT MAX(at_ms) FROM effects), 0),
                              COALESCE((SELECT MAX(at_ms) FROM keys), 0))";
        let millis: i64 = self.connection.query_row(sql, [], |row| row.get(0)).map_err(failed)?;
        Ok(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
    }
}

/// The effects in a supplier's database file, read beside the running supplier or after its end.
///
/// # Errors
/// If the file is missing or is not a supplier's.
pub fn read_effects(path: &Path) -> io::Result<Vec<Effect>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
    effects(&connection).map_err(failed)
}

fn effects(connection: &Connection) -> rusqlite::Result<Vec<Effect>> {
    let mut statement = connection.prepare_cached("SELECT * FROM effects ORDER BY id")?;
    statement.query_map([], effect)?.collect()
}

fn effect(row: &Row<'_>) -> rusqlite::Result<Effect> {
    Ok(Effect {
        number: row.get("id")?,
        order: row.get("order_id")?,
        path: row.get("path")?,
        method: row.get("method")?,
        key: row.get("key")?,
        reference: row.get("reference")?,
        body: row.get("body")?,
        at: Duration::from_millis(u64::try_from(row.get::<_, i64>("at_ms")?).unwrap_or(0)),
    })
}

fn accept(transaction: &Transaction<'_>, flavour: &Flavour, write: &Write) -> rusqlite::Result<Accepted> {
    if let (Flavour::Dedupe { retention, .. }, Some(key)) = (flavour, &write.key) {
        if let Some(retention) = retention {
            let oldest = millis(write.now).saturating_sub(millis(*retention));
            // Counted from the first arrival: a repeat does not extend it.
            transaction.execute("DELETE FROM keys WHERE at_ms <= ?1", [oldest])?;
        }
        if let Some(reply) = replay(transaction, key, write)? {
            return Ok(Accepted { reply, order: None, effect: false });
        }
    }
    // A write that an injected answer stopped never gets as far as the check of its reference.
    let stopped = !write.effect_now && !write.queued;
    if !stopped && reference_taken(transaction, flavour, write)? {
        return Ok(Accepted { reply: Reply::error(409, "already_exists"), order: None, effect: false });
    }
    let order = next_order(transaction)?;
    if write.effect_now {
        append(transaction, &order, write)?;
    }
    let taken_on = write.effect_now || write.queued;
    let (status, word) = if write.queued { (202, "accepted") } else { (201, "created") };
    let own = Reply::json(
        status,
        &serde_json::json!({ "id": order, "status": word, "client_reference": write.reference }),
    );
    let remembered = if write.store_answer { write.answer.as_ref() } else { taken_on.then_some(&own) };
    if let (Flavour::Dedupe { .. }, Some(key), Some(reply)) = (flavour, &write.key, remembered) {
        remember(transaction, key, write, reply)?;
    }
    let reply = write.answer.clone().unwrap_or(own);
    Ok(Accepted { reply, order: Some(order), effect: write.effect_now })
}

fn replay(transaction: &Transaction<'_>, key: &str, write: &Write) -> rusqlite::Result<Option<Reply>> {
    let seen = transaction
        .query_row("SELECT request, body, reply FROM keys WHERE key = ?1", [key], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, String>(2)?))
        })
        .optional()?;
    let Some((request, body, reply)) = seen else { return Ok(None) };
    if request != line(write) || body != write.request.body {
        return Ok(Some(Reply::error(422, "idempotency_key_reused")));
    }
    let reply: Reply = serde_json::from_str(&reply).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, error.into())
    })?;
    Ok(Some(reply.with("Idempotent-Replayed", "true")))
}

fn remember(transaction: &Transaction<'_>, key: &str, write: &Write, reply: &Reply) -> rusqlite::Result<()> {
    let reply = serde_json::to_string(reply)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    transaction.execute(
        "INSERT INTO keys (key, request, body, reply, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![key, line(write), write.request.body, reply, millis(write.now)],
    )?;
    Ok(())
}

fn line(write: &Write) -> String {
    format!("{} {}", write.request.method, write.request.path())
}

fn reference_taken(
    transaction: &Transaction<'_>,
    flavour: &Flavour,
    write: &Write,
) -> rusqlite::Result<bool> {
    match (flavour, &write.reference) {
        (Flavour::UniqueReference, Some(reference)) => transaction.query_row(
            "SELECT EXISTS (SELECT 1 FROM effects WHERE reference = ?1 AND path = ?2)",
            params![reference, write.request.path()],
            |row| row.get(0),
        ),
        (Flavour::UniqueReference, None) | (Flavour::Dedupe { .. } | Flavour::Forgetful, _) => Ok(false),
    }
}

fn next_order(transaction: &Transaction<'_>) -> rusqlite::Result<String> {
    let number: i64 = transaction.query_row(
        "UPDATE counter SET value = value + 1 WHERE name = 'order' RETURNING value",
        [],
        |row| row.get(0),
    )?;
    Ok(format!("po_{number:06}"))
}

fn append(transaction: &Transaction<'_>, order: &str, write: &Write) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO effects (order_id, path, method, key, reference, body, at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            order,
            write.request.path(),
            write.request.method,
            write.key,
            write.reference,
            write.request.body,
            millis(write.now)
        ],
    )?;
    Ok(())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn failed(error: rusqlite::Error) -> io::Error {
    io::Error::other(error)
}
