//! What a failure of PostgreSQL reaches.

use tokio_postgres::error::SqlState;

use crate::error::StoreError;
use crate::store::failure::Failure;

/// A statement before COMMIT failed: the transaction is taken back by the server, whatever happens to the connection.
pub(super) fn failed(error: tokio_postgres::Error) -> Failure {
    let Some(code) = error.code() else {
        return Failure::Batch(StoreError::Unavailable("the connection to PostgreSQL was lost".to_owned()));
    };
    if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED {
        return Failure::Race;
    }
    if *code == SqlState::DISK_FULL {
        return Failure::Batch(StoreError::Full);
    }
    // What it says may quote values; the code and the server's own fixed text are enough.
    let text = format!("PostgreSQL: {} ({})", first_words(&error), code.code());
    if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED {
        return Failure::Fatal(StoreError::Corrupt(text));
    }
    match code.code().get(..2) {
        // Data that cannot be stored, or breaks a rule of the schema: the job's own.
        Some("22" | "23") => Failure::Job(StoreError::Unavailable(text).into()),
        Some(_) | None => Failure::Batch(StoreError::Unavailable(text)),
    }
}

fn first_words(error: &tokio_postgres::Error) -> String {
    let message = error.as_db_error().map_or("", |error| error.message());
    let quoted = message.find(['"', '\'', ':', '=']).unwrap_or(message.len());
    message[..quoted].trim().to_owned()
}
