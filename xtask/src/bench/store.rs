//! The store and the ledger, without a server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use counterfoil::caller::Caller;
use counterfoil::ledger::{LedgerOptions, NewOperation};
use counterfoil::store::sqlite::SqliteOptions;
use counterfoil::{Arguments, Ledger, OperationId, State, ToolName};

use super::fixture::{self, Orders};
use super::load::{Load, Pace};

/// A ledger and the next order.
pub(super) struct Stored {
    pub(super) ledger: Ledger,
    orders: Orders,
    caller: Caller,
    run: String,
    next: AtomicU64,
}

impl Stored {
    /// Opens a new ledger in the file `path`. Orders of different runs are different.
    pub(super) async fn open(path: &Path, run: &str, url: &str, batch: usize) -> Result<Arc<Self>> {
        let defaults = LedgerOptions::default();
        let queue = batch.max(SqliteOptions::default().queue);
        let store = SqliteOptions { batch, queue, ..defaults.store };
        let options = LedgerOptions { store, ..defaults };
        let ledger = Ledger::open(path, vec![fixture::tool(url)?], options).await?;
        let orders = Orders::new(ledger.declared(), run)?;
        let caller = fixture::caller()?;
        Ok(Arc::new(Self { ledger, orders, caller, run: run.to_owned(), next: AtomicU64::new(0) }))
    }

    /// Whole lifecycles: prepared and begun in one durable commit, then the receipt in another.
    pub(super) async fn lifecycles(self: &Arc<Self>, callers: usize, pace: Pace) -> Result<Load> {
        let stored = self.clone();
        super::load::run(callers, pace, move || {
            let stored = stored.clone();
            async move {
                let number = stored.next.fetch_add(1, Ordering::Relaxed);
                let store = stored.ledger.store();
                let prepared = store.commit(stored.orders.prepare(number)?).await?;
                let reported = store.commit(stored.orders.report(number, &prepared)?).await?;
                let state = &reported.view.operation.state;
                ensure!(matches!(state, State::Succeeded(_)), "no receipt: {state:?}");
                Ok(())
            }
        })
        .await
    }

    /// Repeats of stored orders, in no order, answered with their receipts.
    pub(super) async fn replays(self: &Arc<Self>, callers: usize, pace: Pace) -> Result<Load> {
        let stored = self.clone();
        let orders = stored.count();
        let asked = Arc::new(AtomicU64::new(1));
        super::load::run(callers, pace, move || {
            let (stored, asked) = (stored.clone(), asked.clone());
            async move {
                let number = scattered(asked.fetch_add(1, Ordering::Relaxed), orders);
                let id = OperationId::parse(&fixture::id(&stored.run, number))?;
                let arguments = Arguments::parse(fixture::arguments(number).as_bytes())?;
                let new = NewOperation::new(id, ToolName::parse(fixture::TOOL)?, arguments);
                let reply = stored.ledger.prepare(&stored.caller, new).await?;
                ensure!(reply.view.replayed, "not a replay");
                Ok(())
            }
        })
        .await
    }

    /// How many orders there are.
    pub(super) fn count(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Ends the ledger's threads.
    pub(super) async fn close(&self) {
        self.ledger.store().close().await;
    }
}

/// Some number below `end`, far from the one before.
pub(super) fn scattered(step: u64, end: u64) -> u64 {
    step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % end.max(1)
}
