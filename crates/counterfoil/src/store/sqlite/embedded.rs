//! The ledger inside a transaction of the application.

use rusqlite::{Connection, Transaction};

use super::rows::SqliteRows;
use super::{SqliteStore, schema};
use crate::error::{Error, StoreError};
use crate::snapshot::Verb;
use crate::store::chain::Tips;
use crate::store::commit::Commit;
use crate::store::failure::Failure;

/// Runs `verb` inside a transaction of the application: its own rows, the operation and the evidence become durable
/// together, or not at all. The transaction's file must be `store`'s.
///
/// The evidence goes to a chain of its own, whose end is read from the file each time, since nobody says whether the
/// application commits. Listeners hear of it within 250 ms after that.
///
/// # Errors
/// A refusal, or a failure of the store; what the verb wrote is then taken back, and the application's own statements
/// stay as they are. [`StoreError::Unusable`] for a connection to another file, or one whose commits would not be
/// durable (`synchronous` below `FULL`).
pub fn commit_in<V: Verb>(
    transaction: &Transaction<'_>,
    store: &SqliteStore,
    verb: V,
) -> Result<V::Reply, Error> {
    if let Some(error) = store.inner.shared.fatal() {
        return Err(error.into());
    }
    let connection: &Connection = transaction;
    check(connection, store).map_err(Failure::into_error)?;
    let run = |sql: &str| connection.execute_batch(sql).map_err(|error| Failure::from(error).into_error());
    run("SAVEPOINT counterfoil_verb")?;
    match decide(connection, store, &verb) {
        Ok(reply) => {
            run("RELEASE counterfoil_verb")?;
            reply
        }
        Err(failure) => {
            // Where even this fails, the transaction is gone, and with it everything that was written in it.
            let _gone = run("ROLLBACK TO counterfoil_verb; RELEASE counterfoil_verb");
            Err(failure.into_error())
        }
    }
}

fn decide<V: Verb>(
    connection: &Connection,
    store: &SqliteStore,
    verb: &V,
) -> Result<Result<V::Reply, Error>, Failure> {
    let (shared, writer) = (&store.inner.shared, format!("{}-tx", store.inner.writer));
    let mut tips = Tips::default();
    let rows = SqliteRows::of(connection);
    let mut commit = Commit::begin(rows, &shared.policies, &shared.clocks, &writer, &mut tips);
    let reply = commit.run(verb)?;
    commit.finish()?;
    Ok(reply)
}

/// The application's connection must lead to this ledger and make its commits durable.
fn check(connection: &Connection, store: &SqliteStore) -> Result<(), Failure> {
    let durable: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
    if durable < 2 {
        let text = "the application's connection does not make its commits durable: set synchronous = FULL";
        return Err(StoreError::Unusable(text.to_owned()).into());
    }
    if schema::meta(connection, "ledger")? != store.inner.ledger.as_bytes() {
        return Err(
            StoreError::Unusable("the application's connection leads to another ledger".to_owned()).into()
        );
    }
    Ok(())
}
