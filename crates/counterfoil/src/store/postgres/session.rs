//! One writing transaction, from its locks to the certainty that it was committed.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use tokio_postgres::types::Type;

use super::Inner;
use super::flush::flush;
use super::load::{self, instant, number, text};
use super::page::{End, Page};
use super::wire::{Bound, LIMITS, Sent, pipelined};
use super::wires::Held;
use super::written::{PageRows, Written};
use crate::error::StoreError;
use crate::faults::Fault;
use crate::id::Account;
use crate::store::chain::{LEDGER, Tip, Tips};
use crate::store::commit::{Commit, News};
use crate::store::failure::{Failure, signed};

/// What other statements of a batch would cost without their indexes: the planner knows nothing of arrays, and a table
/// that was never analysed looks small to it.
const PLAN: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; \
     SET LOCAL enable_bitmapscan = off; SET LOCAL synchronous_commit = on;";

/// What nobody else changes while it is held: pauses, tokens, declarations.
const LEDGER_LOCK: i64 = 0x0063_6f75_6e74_6572;

/// How far a transaction reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// These accounts.
    pub(super) accounts: BTreeSet<Account>,
    /// And what belongs to no account.
    pub(super) ledger: bool,
}

impl Reach {
    /// These accounts.
    pub(super) fn of(accounts: impl IntoIterator<Item = Account>) -> Self {
        Self { accounts: accounts.into_iter().collect(), ledger: false }
    }

    /// What belongs to no account.
    pub(super) fn ledger() -> Self {
        Self { accounts: BTreeSet::new(), ledger: true }
    }
}

/// A writing transaction that holds what it may change.
pub(super) struct Session<'a> {
    pub(super) inner: &'a Inner,
    pub(super) wire: Held,
    pub(super) page: Box<Page>,
    /// What is written once the transaction ends.
    pub(super) written: Box<Written>,
    /// Whether a statement outside of `written` wrote something.
    pub(super) wrote: bool,
    commits: u64,
}

impl<'a> Session<'a> {
    /// Begins one that holds what it reaches.
    pub(super) async fn begin(inner: &'a Inner, reach: &Reach) -> Result<Self, Failure> {
        inner.faults.hit("before_begin")?;
        let wire = inner.wires.take(inner).await?;
        let mut accounts: Vec<String> =
            reach.accounts.iter().map(|account| account.as_str().to_owned()).collect();
        if reach.ledger {
            accounts.push(LEDGER.to_owned());
        }
        accounts.sort();
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED; {LIMITS} {PLAN}");
        let lock = if reach.ledger {
            "SELECT pg_advisory_xact_lock($1)"
        } else {
            "SELECT pg_advisory_xact_lock_shared($1)"
        };
        let add = "INSERT INTO counterfoil.accounts (account, position, newest) \
             SELECT account, 0, 0 FROM unnest($1) AS k (account) \
             WHERE NOT EXISTS (SELECT 1 FROM counterfoil.accounts a WHERE a.account = k.account) \
             ORDER BY account ON CONFLICT DO NOTHING";
        let hold = "SELECT account, position, newest FROM counterfoil.accounts WHERE account = ANY($1) \
             ORDER BY account FOR UPDATE";
        let node = "SELECT commits FROM counterfoil.nodes WHERE writer = $1 FOR UPDATE";
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let sent: Vec<Sent<'_, Vec<tokio_postgres::Row>>> = vec![
            Box::pin(async { wire.run(&begin).await.map(|()| Vec::new()) }),
            Box::pin(wire.rows(lock, Bound::new().number(LEDGER_LOCK))),
            Box::pin(wire.rows(add, Bound::new().texts(accounts.clone()))),
            Box::pin(wire.rows(hold, Bound::new().texts(accounts.clone()))),
            Box::pin(wire.rows(node, Bound::new().text(inner.writer.as_str()))),
            Box::pin(wire.rows(now, Bound::new())),
        ];
        let answers = match pipelined(sent).await {
            Ok(answers) => answers,
            Err(failure) => {
                inner.wires.give_back(wire, false);
                return Err(failure);
            }
        };
        let mut session = Self {
            inner,
            wire,
            page: Box::new(Page { exclusive: reach.ledger, ..Page::default() }),
            written: Box::default(),
            wrote: false,
            commits: 0,
        };
        match session.begun(&answers, accounts.len()) {
            Ok(()) => Ok(session),
            Err(failure) => {
                session.roll_back().await;
                Err(failure)
            }
        }
    }

    fn begun(&mut self, answers: &[Vec<tokio_postgres::Row>], accounts: usize) -> Result<(), Failure> {
        let [_, _, _, held, node, now] = answers else {
            return Err(Failure::damaged("a transaction that did not begin"));
        };
        for row in held {
            let end = End { position: number(row, 1)?, newest: instant(row, 2)? };
            self.page.ends.insert(Account::from_stored(&text(row, 0)?), end);
        }
        if self.page.ends.len() != accounts {
            return Err(Failure::Batch(StoreError::Unavailable("an account could not be held".to_owned())));
        }
        let node = node.first().ok_or_else(|| {
            Failure::Fatal(StoreError::Corrupt("the ledger no longer knows this process".to_owned()))
        })?;
        self.commits = number(node, 0)?;
        if let Some(row) = now.first() {
            self.inner.tell_time(instant(row, 0)?);
        }
        for (key, tip) in self.inner.tips(self.page.ends.keys()) {
            self.page.tips.put(key, Some(tip));
        }
        Ok(())
    }

    /// Runs something against the page until it misses nothing, and keeps what it wrote.
    pub(super) async fn with<R>(
        &mut self,
        mut work: impl FnMut(&mut Commit<'_, PageRows<'_>>) -> Result<R, Failure>,
    ) -> Result<(R, News), Failure> {
        loop {
            let written = RefCell::new(Written::default());
            let outcome = {
                let mut tips = Tips::default();
                let rows = PageRows { page: &self.page, written: &written };
                let inner = self.inner;
                let mut commit =
                    Commit::begin(rows, &inner.policies, &inner.clocks, &inner.writer, &mut tips);
                work(&mut commit).and_then(|reply| Ok((reply, commit.wrote, commit.finish()?)))
            };
            match outcome {
                Ok((reply, wrote, news)) => {
                    self.wrote |= wrote;
                    *self.written = written.into_inner();
                    return Ok((reply, news));
                }
                Err(Failure::Missing) => self.load().await?,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Loads what was missed.
    pub(super) async fn load(&mut self) -> Result<(), Failure> {
        if self.page.wants_exclusive.get() {
            return Err(Failure::Missing);
        }
        load::load(&self.wire, &mut self.page, true).await
    }

    /// Writes everything and makes it durable.
    pub(super) async fn commit(mut self) -> Result<(), Failure> {
        if !self.wrote {
            self.roll_back().await;
            return Ok(());
        }
        match self.write().await {
            Ok(()) => {}
            Err(failure) => {
                self.roll_back().await;
                return Err(failure);
            }
        }
        let (inner, commits) = (self.inner, self.commits + 1);
        let fault = inner.faults.hit("commit");
        if let Err(fault @ (Fault::Io | Fault::Full | Fault::Busy | Fault::Job)) = fault {
            self.roll_back().await;
            return Err(fault.into());
        }
        inner.forget_tips(&self.written);
        let committed = self.wire.commit().await;
        let warned = self.wire.warned();
        match committed {
            Ok(()) if !warned => {
                inner.wires.give_back(self.wire, true);
            }
            // The server took it back: a rule that is checked at the end, or a race that was lost.
            Err(error) if error.code().is_some_and(|code| is_refusal(code.code())) => {
                inner.wires.give_back(self.wire, false);
                return Err(super::failure::failed(error));
            }
            Ok(()) | Err(_) => {
                drop(self.wire);
                if !inner.came_about(commits).await? {
                    let text = "the connection was lost before the commit".to_owned();
                    return Err(Failure::Batch(StoreError::Unavailable(text)));
                }
            }
        }
        inner.keep_tips(&self.written);
        fault.map_err(Failure::from)?;
        inner.faults.hit("after_commit")?;
        Ok(())
    }

    async fn write(&mut self) -> Result<(), Failure> {
        flush(&self.wire, &self.written).await?;
        let sql = "UPDATE counterfoil.nodes SET commits = $2, seen_at = $3 WHERE writer = $1";
        let bound = Bound::new()
            .text(self.inner.writer.as_str())
            .number(signed(self.commits + 1))
            .number(self.inner.clocks.now().as_millis());
        if self.wire.change(sql, bound).await? != 1 {
            return Err(Failure::Fatal(StoreError::Corrupt(
                "the ledger no longer knows this process".to_owned(),
            )));
        }
        self.inner.faults.hit("before_commit")?;
        Ok(())
    }

    /// Takes everything back.
    pub(super) async fn roll_back(self) {
        let clean = self.wire.run("ROLLBACK").await.is_ok();
        self.inner.wires.give_back(self.wire, clean);
    }

    /// Runs a statement of its own and says how many rows it changed.
    pub(super) async fn change(&mut self, sql: &str, bound: Bound) -> Result<u64, Failure> {
        let changed = self.wire.change(sql, bound).await?;
        self.wrote |= changed > 0;
        Ok(changed)
    }
}

/// Codes with which a server says that it took a transaction back for a reason of its own. After any other error at
/// COMMIT nobody knows: an administrator who ends the process may do so after the commit was written.
fn is_refusal(code: &str) -> bool {
    matches!(code.get(..2), Some("23" | "25" | "40" | "53"))
}

/// The ends of a node's chains, by account and writer.
pub(super) type KnownTips = HashMap<(Account, String), Tip>;

/// A bytea.
pub(super) fn bytes(bound: Bound, bytes: &[u8]) -> Bound {
    bound.and(bytes.to_vec(), Type::BYTEA)
}
