//! The rows of one transaction on the file.

use std::cell::Cell;

use rusqlite::{Connection, OptionalExtension as _};

use super::head::Head;
use super::{chain, notices, pauses, policies, row};
use crate::backoff::BucketLevel;
use crate::fingerprint::Fingerprint;
use crate::guard::Peer;
use crate::id::{Account, OperationId, Subject, ToolName};
use crate::notice::Notice;
use crate::operation::{Attempt, Operation};
use crate::snapshot::{Grave, PauseDraft, RefusalCount, Webhooks};
use crate::store::cells::Times;
use crate::store::chain::{Hash, Link, Tip};
use crate::store::failure::{Failure, signed, unsigned};
use crate::store::in_force::InForce;
use crate::store::rows::{Rows, SameAction};
use crate::time::Timestamp;

/// A transaction that holds the write lock, or a consistent view that is only read.
pub(super) struct SqliteRows<'a> {
    pub(super) connection: &'a Connection,
    head: Cell<Option<Head>>,
}

impl<'a> SqliteRows<'a> {
    /// The file as it is now. Where the ledger ends is read once it matters.
    pub(super) fn of(connection: &'a Connection) -> Self {
        Self { connection, head: Cell::new(None) }
    }

    fn head(&self) -> Result<Head, Failure> {
        if let Some(head) = self.head.get() {
            return Ok(head);
        }
        let head = Head::read(self.connection)?;
        self.head.set(Some(head));
        Ok(head)
    }

    fn moved(&self, change: impl FnOnce(&mut Head)) -> Result<Head, Failure> {
        let mut head = self.head()?;
        change(&mut head);
        self.head.set(Some(head));
        Ok(head)
    }
}

impl Rows for SqliteRows<'_> {
    fn operation(&self, account: &Account, id: &OperationId) -> Result<Option<Operation>, Failure> {
        row::find(self.connection, account, id)
    }

    fn tombstone(&self, account: &Account, id: &OperationId) -> Result<Option<Grave>, Failure> {
        row::tombstone(self.connection, account, id)
    }

    fn peer(&self, account: &Account, id: &OperationId) -> Result<Option<Peer>, Failure> {
        row::find_peer(self.connection, account, id)
    }

    fn peers(&self, account: &Account, tool: &ToolName, action: Fingerprint) -> Result<Vec<Peer>, Failure> {
        row::peers(self.connection, account, tool, action)
    }

    fn peers_compared_anew(
        &self,
        account: &Account,
        tool: &ToolName,
        stored: Fingerprint,
        same: &SameAction<'_>,
    ) -> Result<Vec<Peer>, Failure> {
        row::peers_compared_anew(self.connection, account, tool, stored, same)
    }

    fn subject_peers(
        &self,
        account: &Account,
        subject: &Subject,
        since: Timestamp,
    ) -> Result<Vec<Peer>, Failure> {
        row::subject_peers(self.connection, account, subject, since)
    }

    fn wishes_about(
        &self,
        account: &Account,
        subject: &Subject,
        most: u32,
    ) -> Result<Vec<OperationId>, Failure> {
        row::wishes_about(self.connection, account, subject, most)
    }

    fn times(&self, account: &Account, id: &OperationId) -> Result<Times, Failure> {
        row::times(self.connection, account, id)
    }

    fn policy(&self, tool: &ToolName, version: u32) -> Result<Option<String>, Failure> {
        policies::body(self.connection, tool, version)
    }

    fn newest_policy(&self, tool: &ToolName) -> Result<Option<(u32, Hash)>, Failure> {
        policies::newest(self.connection, tool)
    }

    fn users_of(&self, tool: &ToolName) -> Result<Vec<Account>, Failure> {
        policies::users_of(self.connection, tool)
    }

    fn pauses(&self) -> Result<Vec<InForce>, Failure> {
        pauses::in_force(self.connection)
    }

    fn pauses_since(
        &self,
        tool: &ToolName,
        scope: Option<&str>,
        since: Timestamp,
    ) -> Result<Vec<(Timestamp, Option<Timestamp>)>, Failure> {
        pauses::since(self.connection, tool, scope, since)
    }

    fn webhooks(&self, account: &Account, id: &OperationId, event: &str) -> Result<Webhooks, Failure> {
        let mut statement = self.connection.prepare_cached(
            "SELECT count(*), coalesce(max(json_extract(data, '$.event') = ?3), 0) FROM counterfoil_evidence \
             WHERE account = ?1 AND operation_id = ?2 AND kind = 'webhook'",
        )?;
        Ok(statement.query_row((account.as_str(), id.as_str(), event), |row| {
            Ok(Webhooks { kept: unsigned(row.get(0)?), this_one: row.get(1)? })
        })?)
    }

    fn refusals(&self, tool: &ToolName, scope: &str) -> Result<u32, Failure> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT refused FROM counterfoil_refusals WHERE tool = ?1 AND scope = ?2")?;
        Ok(statement.query_row((tool.as_str(), scope), |row| row.get(0)).optional()?.unwrap_or(0))
    }

    fn bucket(&self, name: &str) -> Result<Option<BucketLevel>, Failure> {
        let mut statement =
            self.connection.prepare_cached("SELECT level, at FROM counterfoil_buckets WHERE name = ?1")?;
        let level = statement
            .query_row([name], |row| {
                Ok(BucketLevel { level: unsigned(row.get(0)?), at: Timestamp::from_millis(row.get(1)?) })
            })
            .optional()?;
        Ok(level)
    }

    fn tip(&self, account: &Account, writer: &str) -> Result<Option<Tip>, Failure> {
        chain::tip(self.connection, account, writer)
    }

    fn newest(&self) -> Result<Timestamp, Failure> {
        Ok(self.head()?.newest)
    }

    /// One file has one line of evidence, whoever's it is.
    fn place(&self, _account: &Account, at: Timestamp) -> Result<u64, Failure> {
        let head = self.moved(|head| {
            head.position += 1;
            head.newest = head.newest.max(at);
        })?;
        Ok(head.position)
    }

    fn insert(&self, operation: &Operation, times: Times) -> Result<(), Failure> {
        row::insert(self.connection, operation, times)
    }

    fn update(&self, operation: &Operation, times: Times, expected: u64) -> Result<bool, Failure> {
        row::update(self.connection, operation, times, expected)
    }

    fn touch(&self, operation: &Operation, version: u64, now: Timestamp) -> Result<(), Failure> {
        row::touch(self.connection, operation, version, now)
    }

    fn put_times(&self, operation: &Operation, times: Times) -> Result<(), Failure> {
        row::put_times(self.connection, operation, times)
    }

    fn insert_keys(&self, operation: &Operation, known: &[Attempt]) -> Result<(), Failure> {
        row::insert_keys(self.connection, operation, known)
    }

    fn append(&self, link: &Link<'_>, data: &str, digest: &Hash) -> Result<(), Failure> {
        chain::append(self.connection, link, data, digest)
    }

    fn append_notice(&self, notice: &Notice) -> Result<(), Failure> {
        notices::append(self.connection, notice)
    }

    fn set_bucket(&self, name: &str, level: BucketLevel) -> Result<(), Failure> {
        self.connection
            .prepare_cached(
                "INSERT INTO counterfoil_buckets (name, level, at) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (name) DO UPDATE SET level = excluded.level, at = excluded.at",
            )?
            .execute((name, signed(level.level), level.at.as_millis()))?;
        Ok(())
    }

    fn set_refusals(&self, count: &RefusalCount) -> Result<(), Failure> {
        self.connection
            .prepare_cached(
                "INSERT INTO counterfoil_refusals (tool, scope, refused) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (tool, scope) DO UPDATE SET refused = excluded.refused",
            )?
            .execute((count.tool.as_str(), &count.scope, count.count))?;
        Ok(())
    }

    fn insert_policy(
        &self,
        key: (&ToolName, u32),
        body: &str,
        digest: &Hash,
        now: Timestamp,
    ) -> Result<(), Failure> {
        policies::insert(self.connection, key, body, digest, now)
    }

    fn begin_pause(&self, draft: &PauseDraft, now: Timestamp, restored: bool) -> Result<(), Failure> {
        pauses::begin(self.connection, draft, now, restored)
    }

    fn end_pauses(
        &self,
        tool: Option<&ToolName>,
        by: &str,
        note: &str,
        now: Timestamp,
    ) -> Result<usize, Failure> {
        pauses::end(self.connection, tool, by, note, now)
    }

    fn pauses_changed(&self) -> Result<(), Failure> {
        self.moved(|head| head.pauses += 1).map(|_| ())
    }

    fn tokens_changed(&self) -> Result<(), Failure> {
        self.moved(|head| head.tokens += 1).map(|_| ())
    }

    fn finish(&self) -> Result<(), Failure> {
        self.head()?.write(self.connection)
    }
}
