//! Notices what other processes of this host commit on the same file, and moves the mark.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rusqlite::Connection;

use super::head::Head;
use super::mark::{self, MarkFile};
use super::pauses;
use crate::id::{Account, OperationId};
use crate::store::Change;
use crate::store::failure::{Failure, signed, unsigned};
use crate::store::shared::Shared;

/// How often the file is looked at.
const TICK: Duration = Duration::from_millis(100);

/// How many looks lie between two marks.
const TICKS_PER_MARK: u32 = 10;

/// How many rows are read at once.
const ROWS: i64 = 1_000;

/// The thread's belongings.
pub(super) struct Watcher {
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) writer: String,
    pub(super) ledger: String,
    pub(super) mark: Option<MarkFile>,
    pub(super) head: Head,
    pub(super) marked: u64,
}

impl Watcher {
    /// Watches until the other end of `stop` is gone, and then leaves a mark.
    pub(super) fn work(mut self, stop: &Receiver<()>) {
        let (mut seen, mut ticks) = (None, 0_u32);
        while let Ok(()) | Err(RecvTimeoutError::Timeout) = stop.recv_timeout(TICK) {
            if self.shared.fatal().is_some() {
                break;
            }
            ticks = ticks.wrapping_add(1);
            let looked = self.look(&mut seen);
            self.report(looked);
            if ticks.is_multiple_of(TICKS_PER_MARK) {
                let marked = self.advance();
                self.report(marked);
            }
        }
        if self.shared.fatal().is_none() {
            let marked = self.advance();
            self.report(marked);
        }
        let failed = self.shared.fatal().is_some();
        super::file::close(self.connection, failed);
    }

    fn report(&self, outcome: Result<(), Failure>) {
        match outcome {
            Ok(()) => {}
            Err(Failure::Fatal(error)) => self.shared.poison(error),
            // The next look sees what this one missed.
            Err(Failure::Batch(error)) => tracing::debug!(%error, "the ledger could not be looked at"),
            Err(failure @ (Failure::Missing | Failure::Race)) => {
                tracing::warn!(error = %failure.into_error(), "the ledger could not be looked at");
            }
            Err(Failure::Job(error)) => tracing::warn!(%error, "the ledger could not be looked at"),
        }
    }

    /// Publishes what others wrote since the last look.
    fn look(&mut self, seen: &mut Option<i64>) -> Result<(), Failure> {
        let version: i64 = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        if *seen == Some(version) {
            return Ok(());
        }
        let head = Head::read(&self.connection)?;
        while self.head.position < head.position {
            self.head.position = self.publish_after(self.head.position, head.position)?;
        }
        if head.pauses != self.head.pauses {
            self.shared.pauses_changed();
        }
        if head.tokens != self.head.tokens {
            self.shared.tokens_changed();
        }
        self.head = head;
        *seen = Some(version);
        Ok(())
    }

    fn publish_after(&self, after: u64, end: u64) -> Result<u64, Failure> {
        let mut statement = self.connection.prepare_cached(
            "SELECT position, account, operation_id FROM counterfoil_evidence \
             WHERE position > ?1 AND position <= ?2 AND writer <> ?3 AND operation_id IS NOT NULL \
             ORDER BY position LIMIT ?4",
        )?;
        let mut rows = statement.query((signed(after), signed(end), &self.writer, ROWS))?;
        let (mut reached, mut count) = (after, 0);
        while let Some(row) = rows.next()? {
            reached = unsigned(row.get(0)?);
            count += 1;
            self.shared.publish(Change {
                account: Account::from_stored(&row.get::<_, String>(1)?),
                id: OperationId::from_stored(&row.get::<_, String>(2)?),
            });
        }
        Ok(if count < ROWS { end } else { reached })
    }

    /// Moves the mark to what is durable, unless the ledger is paused because it lies behind it.
    fn advance(&mut self) -> Result<(), Failure> {
        let Some(file) = &self.mark else { return Ok(()) };
        let mark = mark::earned(&self.connection, &self.ledger)?;
        if mark.position <= self.marked
            || pauses::in_force(&self.connection)?.iter().any(|pause| pause.restored)
        {
            return Ok(());
        }
        match file.advance(&mark, false) {
            Ok(true) => self.marked = mark.position,
            Ok(false) => {}
            // The mark may lag. A ledger without one starts paused, so this fails towards caution.
            Err(error) => tracing::warn!(%error, "the high-water mark could not be written"),
        }
        Ok(())
    }
}
