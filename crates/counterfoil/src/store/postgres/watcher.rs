//! Notices what other nodes commit, and moves this node's mark.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::load::{instant, number, text};
use super::mark::{self, Mark};
use super::wire::{Bound, Wire};
use crate::id::{Account, OperationId};
use crate::store::Change;
use crate::store::failure::{Failure, signed, unsigned};
use crate::time::Timestamp;

/// How often the database is looked at.
const TICK: Duration = Duration::from_millis(100);

/// How many looks lie between two marks.
const TICKS_PER_MARK: u32 = 10;

/// How far back a look reaches: no transaction that holds an account lasts longer.
const REACH: Duration = Duration::from_secs(20);

/// How many rows are read at once.
const ROWS: i64 = 1_000;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    head: Option<(u64, u64)>,
    newest: Option<Timestamp>,
    accounts: HashMap<String, u64>,
    marked: u64,
}

/// What is there already: whoever opens the ledger reads it, and hears of everything that comes after.
pub(super) async fn begin(inner: &Inner) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    look(inner, &mut seen).await?;
    Ok(seen)
}

/// Watches until the ledger closes, and then leaves a mark.
pub(super) async fn work(inner: Arc<Inner>, mut seen: Seen) {
    let mut ticks = 0_u32;
    loop {
        let stopped = tokio::select! {
            () = inner.stopping.cancelled() => true,
            () = tokio::time::sleep(TICK) => false,
        };
        ticks = ticks.wrapping_add(1);
        report(look(&inner, &mut seen).await);
        if stopped || ticks.is_multiple_of(TICKS_PER_MARK) {
            report(advance(&inner, &mut seen).await);
        }
        if stopped {
            return;
        }
    }
}

fn report(outcome: Result<(), Failure>) {
    if let Err(failure) = outcome {
        // The next look sees what this one missed.
        tracing::debug!(error = %failure.into_error(), "the ledger could not be looked at");
    }
}

async fn look(inner: &Inner, seen: &mut Seen) -> Result<(), Failure> {
    let held = inner.reads.take(inner).await?;
    let outcome = look_over(inner, &held, seen).await;
    inner.reads.give_back(held, outcome.is_ok());
    outcome
}

async fn look_over(inner: &Inner, wire: &Wire, seen: &mut Seen) -> Result<(), Failure> {
    let sql =
        "SELECT pauses, tokens, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM counterfoil.head";
    let row = wire.row(sql, Bound::new()).await?.ok_or_else(|| Failure::damaged("the ledger has no head"))?;
    let head = (number(&row, 0)?, number(&row, 1)?);
    inner.tell_time(instant(&row, 2)?);
    if let Some(before) = seen.head.replace(head) {
        if before.0 != head.0 {
            inner.pauses_changed();
        }
        if before.1 != head.1 {
            inner.tokens_changed();
        }
    }
    let after = seen.newest.map_or(i64::MIN, |newest| newest.minus(REACH).as_millis());
    let sql = "SELECT account, position, newest FROM counterfoil.accounts WHERE newest >= $1";
    let first = seen.newest.is_none();
    for row in wire.rows(sql, Bound::new().number(after)).await? {
        let (account, position, newest) = (text(&row, 0)?, number(&row, 1)?, instant(&row, 2)?);
        seen.newest = Some(seen.newest.map_or(newest, |known| known.max(newest)));
        // What was there before the first look is read by whoever needs it.
        let known = seen.accounts.get(&account).copied().unwrap_or(if first { position } else { 0 });
        let reached =
            if position > known { publish(inner, wire, &account, known, position).await? } else { known };
        seen.accounts.insert(account, reached);
    }
    seen.newest.get_or_insert(Timestamp::from_millis(0));
    Ok(())
}

async fn publish(inner: &Inner, wire: &Wire, account: &str, after: u64, end: u64) -> Result<u64, Failure> {
    let sql = "SELECT position, operation_id FROM counterfoil.evidence WHERE account = $1 AND position > $2 \
         AND position <= $3 AND writer <> $4 AND operation_id IS NOT NULL ORDER BY position LIMIT $5";
    let mut reached = after;
    loop {
        let bound = Bound::new()
            .text(account)
            .number(signed(reached))
            .number(signed(end))
            .text(inner.writer.as_str())
            .number(ROWS);
        let rows = wire.rows(sql, bound).await?;
        for row in &rows {
            reached = number(row, 0)?;
            let id = OperationId::from_stored(&text(row, 1)?);
            inner.publish(Change { account: Account::from_stored(account), id });
        }
        if rows.len() < usize::try_from(ROWS).unwrap_or(usize::MAX) {
            return Ok(end);
        }
    }
}

/// Moves the mark to what is durable, unless the ledger is paused because it lies behind it.
async fn advance(inner: &Inner, seen: &mut Seen) -> Result<(), Failure> {
    let Some(path) = inner.mark.clone() else { return Ok(()) };
    let held = inner.reads.take(inner).await?;
    let outcome = standing(inner, &held).await;
    inner.reads.give_back(held, outcome.is_ok());
    let Some(commits) = outcome?.filter(|commits| *commits > seen.marked || !path.exists()) else {
        return Ok(());
    };
    let system = inner.identity.lock().unwrap_or_else(std::sync::PoisonError::into_inner).system.clone();
    let (ledger, writer) = (inner.ledger.clone(), inner.writer.clone());
    let written = tokio::task::spawn_blocking(move || {
        // Other processes of this host may keep their marks in the same file.
        let known = mark::read(&path).ok().flatten();
        let known = known.filter(|mark| mark.ledger == ledger && mark.system == system);
        let mut mark = known.unwrap_or(Mark { ledger, system, nodes: BTreeMap::new() });
        mark.note(&writer, commits);
        mark::write(&path, &mark)
    })
    .await;
    match written {
        Ok(Ok(())) => seen.marked = commits,
        // The mark may lag.
        Ok(Err(error)) => tracing::warn!(%error, "the high-water mark could not be written"),
        Err(_) => {}
    }
    Ok(())
}

async fn standing(inner: &Inner, wire: &Wire) -> Result<Option<u64>, Failure> {
    let sql = "SELECT count(*)::bigint FROM counterfoil.pauses WHERE ended_at IS NULL AND restored";
    let row = wire.row(sql, Bound::new()).await?;
    let restored = row.map(|row| number(&row, 0)).transpose()?.unwrap_or(0);
    if restored > unsigned(0) {
        return Ok(None);
    }
    mark::commits_of(wire, &inner.writer).await
}

/// Forgets a mark that the ledger lies behind: a person has said that it is what it is. A crash before leaves it behind
/// its mark: it starts paused once more.
pub(super) async fn mark_anew(inner: &Inner) {
    let Some(path) = inner.mark.clone() else { return };
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_file(path)).await;
    if let Ok(Err(error)) = removed
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "the high-water mark could not be removed");
    }
}
