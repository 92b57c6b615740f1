//! Opens a ledger: what it must be, whether it is older than its mark, and its threads.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::file::{self, Place, Role};
use super::head::Head;
use super::mark::{self, Found, MarkFile};
use super::readers::Readers;
use super::rows::SqliteRows;
use super::threads::Threads;
use super::watcher::Watcher;
use super::writer::Writer;
use super::{Inner, SqliteOptions, schema, unusable};
use crate::error::StoreError;
use crate::snapshot::PauseDraft;
use crate::store::MarkState;
use crate::store::clocks::Clocks;
use crate::store::commit::Commit;
use crate::store::failure::Failure;
use crate::store::shared::Shared;
use crate::store::{chain, in_force};

/// Starts the ledger's threads on a file that was checked and brought to this build's schema.
pub(super) fn start(
    place: &Place,
    options: SqliteOptions,
    mark: Option<MarkFile>,
    found: &Found,
) -> Result<Inner, Failure> {
    #[cfg(feature = "testing")]
    let trace = options.trace.clone();
    let SqliteOptions { clock, writer, readers, queue, batch, mark: _, skew, faults, .. } = options;
    let connection = file::connect(place, Role::Writer)?;
    file::quick_check(&connection)?;
    schema::migrate(&connection, clock.now())?;
    let ledger = String::from_utf8(schema::meta(&connection, "ledger")?)
        .map_err(|_| Failure::damaged("the ledger's name is no text"))?;
    let secret = schema::meta(&connection, "secret")?
        .try_into()
        .map_err(|_| Failure::damaged("the ledger's secret is not 32 bytes"))?;
    let mark_state = match &mark {
        Some(file) => standing(&connection, &ledger, file, found)?,
        None => MarkState::Current,
    };
    let shared = Arc::new(Shared::new(Clocks::start(clock, skew), faults));
    let mut tips = chain::Tips::default();
    match mark_state {
        MarkState::Current => first_mark(&connection, &ledger, mark.as_ref(), found)?,
        MarkState::Missing | MarkState::Behind => {
            quarantine(&connection, &shared, &writer, &mut tips)?;
        }
    }
    let head = Head::read(&connection)?;
    let mut threads = Threads::default();
    match place {
        Place::Memory => {}
        Place::File(_) => {
            let (reads, tasks) = Readers::new(queue.max(1));
            for _ in 0..readers.max(1) {
                let (tasks, shared) = (tasks.clone(), shared.clone());
                let connection = file::connect(place, Role::Reader)?;
                threads.reader(&reads, move || tasks.work(connection, &shared))?;
            }
            let watcher = Watcher {
                connection: file::connect(place, Role::Reader)?,
                shared: shared.clone(),
                writer: writer.clone(),
                ledger: ledger.clone(),
                mark: mark.clone(),
                head,
                marked: 0,
            };
            threads.watcher(move |stop| watcher.work(stop))?;
        }
    }
    #[cfg(feature = "testing")]
    let connection = match trace {
        Some(trace) => {
            let mut connection = connection;
            super::trace::attach(&mut connection, trace)?;
            connection
        }
        None => connection,
    };
    let work = Writer { connection, shared: shared.clone(), name: writer.clone(), batch: batch.max(1), tips };
    threads.writer(queue.max(1), move |jobs| work.work(jobs))?;
    let inner = Inner { shared, threads, mark, mark_state, ledger, secret, writer };
    Ok(inner)
}

/// How the ledger stands to its mark. The mark is read before the ledger, which may only have grown since. Another
/// process may have made the very first mark in between: one that is not there is looked for again.
fn standing(
    connection: &Connection,
    ledger: &str,
    file: &MarkFile,
    found: &Found,
) -> Result<MarkState, Failure> {
    match mark::compare(connection, ledger, found)? {
        MarkState::Missing => {
            let found = file.read().map_err(|error| unusable("its mark cannot be read", &error))?;
            mark::compare(connection, ledger, &found)
        }
        state @ (MarkState::Current | MarkState::Behind) => Ok(state),
    }
}

/// A ledger has a mark before it has its first attempt; otherwise a second process that opens it at that moment would
/// take it for a restored one.
fn first_mark(
    connection: &Connection,
    ledger: &str,
    file: Option<&MarkFile>,
    found: &Found,
) -> Result<(), Failure> {
    match (file, found) {
        (Some(file), Found::Nothing | Found::Broken) => {
            let earned = mark::earned(connection, ledger)?;
            // Where another process is at it, that one makes the mark.
            file.advance(&earned, false).map_err(|error| unusable("its mark cannot be written", &error))?;
            Ok(())
        }
        (Some(_), Found::Mark(_)) | (None, _) => Ok(()),
    }
}

/// An empty file whose mark says that there was something in it was truncated; it must not become a new ledger.
pub(super) fn refuse_emptied(path: &Path, found: &Found) -> Result<(), StoreError> {
    let emptied = std::fs::metadata(path).is_ok_and(|file| file.len() == 0);
    match found {
        Found::Mark(mark) if mark.position > 0 && emptied => Err(StoreError::Corrupt(format!(
            "the file is empty although its mark says that it held {} rows of evidence; restore a backup",
            mark.position
        ))),
        Found::Mark(_) | Found::Broken | Found::Nothing => Ok(()),
    }
}

/// Pauses everything: IDs that the ledger does not know may have been used in the part that was lost. Only a person
/// who resumes everything ends it.
fn quarantine(
    connection: &Connection,
    shared: &Shared,
    writer: &str,
    tips: &mut chain::Tips,
) -> Result<(), Failure> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let draft = PauseDraft {
        tool: None,
        scope: None,
        by: in_force::BY_LEDGER.to_owned(),
        note: in_force::OLDER_THAN_MARK.to_owned(),
    };
    let rows = SqliteRows::of(connection);
    let mut commit = Commit::begin(rows, &shared.policies, &shared.clocks, writer, tips);
    let outcome = commit
        .pause(&draft, true)
        .and_then(|()| commit.finish())
        .and_then(|_| Ok(connection.execute_batch("COMMIT")?));
    if outcome.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    outcome
}
