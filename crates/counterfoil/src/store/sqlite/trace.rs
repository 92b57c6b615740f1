//! What the writer says to SQLite, for measurements: a loop without the ledger can then do the very same.

use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};

use crate::store::failure::Failure;

/// Called with the text of every statement that begins, and with the same text with its values in place.
pub type Trace = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Shows every statement of `connection` to `trace`.
pub(super) fn attach(connection: &mut Connection, trace: Trace) -> Result<(), Failure> {
    let see = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(statement, _) = event {
            trace(&statement.sql(), statement.expanded_sql().as_deref().unwrap_or_default());
        }
    };
    Ok(connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(see))?)
}
