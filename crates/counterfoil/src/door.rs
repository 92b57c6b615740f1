//! The transaction door over the application's own SQLite transaction.

use crate::caller::Caller;
use crate::error::StoreError;
use crate::ledger::{Effect, Ledger, NewOperation, TransactionError};
use crate::snapshot::View;
use crate::store::Store;
use crate::store::sqlite::commit_in;
use crate::verbs::{Enter, Entered, Finish};

const SAVEPOINT: &str = "SAVEPOINT counterfoil_door";
const UNDO: &str = "ROLLBACK TO counterfoil_door; RELEASE counterfoil_door";
const KEEP: &str = "RELEASE counterfoil_door";

/// The effect's own savepoint: whatever ends the transaction under it, or takes back what was written before it, takes
/// this away as well.
const EFFECT: &str = "SAVEPOINT counterfoil_effect";
const EFFECT_STANDS: &str = "RELEASE counterfoil_effect";

/// See [`Ledger::in_transaction`]. A crash anywhere in here, and any time before the application's commit, leaves
/// neither effect nor receipt; after it, both.
pub(crate) fn in_transaction<E>(
    ledger: &Ledger,
    transaction: &rusqlite::Transaction<'_>,
    caller: &Caller,
    new: NewOperation,
    effect: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<Effect, E>,
) -> Result<View, TransactionError<E>> {
    let run = |sql: &str| {
        transaction.execute_batch(sql).map_err(|error| StoreError::Unavailable(error.to_string()))
    };
    run(SAVEPOINT)?;
    let done = walk_through(ledger, transaction, caller, new, effect);
    match &done {
        Ok(_) | Err(TransactionError::Unsettled(_)) => run(KEEP)?,
        Err(TransactionError::Effect(_) | TransactionError::Refused(_)) => run(UNDO)?,
        // The transaction may be gone, and then there is nothing to undo: what is told is why.
        Err(TransactionError::Store(_)) => drop(run(UNDO)),
    }
    done
}

fn walk_through<E>(
    ledger: &Ledger,
    transaction: &rusqlite::Transaction<'_>,
    caller: &Caller,
    new: NewOperation,
    effect: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<Effect, E>,
) -> Result<View, TransactionError<E>> {
    let store = match ledger.store() {
        Store::Sqlite(store) => store,
        #[cfg(feature = "postgres")]
        Store::Postgres(_) => {
            let text = "the ledger lies in PostgreSQL, and the transaction is one of SQLite";
            return Err(StoreError::Unusable(text.to_owned()).into());
        }
    };
    let id = new.id.clone();
    let enter = Enter(ledger.prepare_verb(caller, NewOperation { execute: true, ..new }, None, false));
    match commit_in(transaction, store, enter)? {
        Entered::Replay(view) => Ok(view),
        Entered::NotNow(view) => Err(TransactionError::Unsettled(Box::new(view))),
        Entered::Go(_) => {
            begin_effect(transaction)?;
            let Effect { reference, result } = effect(transaction).map_err(TransactionError::Effect)?;
            effect_stands(transaction)?;
            let declared = ledger.declared();
            let finish = Finish { caller: caller.clone(), id, reference, result, declared };
            Ok(commit_in(transaction, store, finish)?)
        }
    }
}

fn begin_effect(transaction: &rusqlite::Transaction<'_>) -> Result<(), StoreError> {
    transaction.execute_batch(EFFECT).map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// An effect that ended its transaction, by `COMMIT`, by `ROLLBACK` or by a conflict that rolls back, says nothing
/// about rows any more: no receipt may join what is no longer there.
fn effect_stands(transaction: &rusqlite::Transaction<'_>) -> Result<(), StoreError> {
    transaction.execute_batch(EFFECT_STANDS).map_err(|_| {
        let text = "the effect ended the transaction that it was given: it must neither commit nor roll back";
        StoreError::Unusable(text.to_owned())
    })
}
