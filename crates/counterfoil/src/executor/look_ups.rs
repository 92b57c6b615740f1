//! The one way to look up: claim, ask, record. Nothing in here sends.

use std::sync::PoisonError;
use std::time::Duration;

use super::Executor;
use crate::caller::Caller;
use crate::destination::LookedUp;
use crate::error::Error;
use crate::id::{Account, OperationId};
use crate::snapshot::View;
use crate::state::State;
use crate::verbs::{Asked, Investigate, Investigated, LookUpNow, LookUpReport, Question};

/// How many operations this process remembers the last attempt of. One that is forgotten is waited for anew.
const SEEN: usize = 10_000;

/// The last attempt that this process saw of an operation.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    attempts: usize,
    /// When it was first seen, on the monotonic clock.
    since: Duration,
}

/// What became of the wish to look something up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Investigation {
    /// A look-up is what the operation waits for: nothing else is done for it now.
    GoesOn,
    /// No look-up is due.
    NotWanted,
}

/// What a wish for a look-up led to.
#[derive(Clone, Debug)]
pub struct LookUpBegun {
    /// The operation when the question went out, or as it is where none did.
    pub view: View,
    /// Whether the destination is being asked.
    pub asks: bool,
}

impl Executor {
    /// How long this process has seen the last of `attempts` attempts.
    pub(super) fn waited(&self, account: &Account, id: &OperationId, attempts: usize) -> Duration {
        let now = self.inner.ledger.clock().monotonic();
        let mut seen = self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (account.clone(), id.clone());
        let known = seen.get(&key).filter(|known| known.attempts == attempts).copied();
        if known.is_none() && seen.len() >= SEEN {
            seen.clear();
        }
        let since = known.map_or(now, |known| known.since);
        seen.insert(key, Seen { attempts, since });
        now.saturating_sub(since)
    }

    /// Looks up what became of an operation, where that is what it waits for.
    pub(super) async fn investigate(&self, view: &View) -> Result<Investigation, Error> {
        let (operation, ledger) = (&view.operation, &self.inner.ledger);
        let askable = matches!(operation.state, State::Unknown(_)) && view.tool.recovery.lookup().is_some();
        if !askable || view.tool.http().is_none() {
            return Ok(Investigation::NotWanted);
        }
        self.waited(&operation.account, &operation.id, operation.attempts.len());
        let verb = Investigate {
            account: operation.account.clone(),
            id: operation.id.clone(),
            worker: self.inner.worker.clone(),
            random: ledger.random(),
            declared: ledger.declared(),
        };
        match ledger.store().commit(verb).await? {
            Investigated::Nothing => Ok(Investigation::NotWanted),
            Investigated::Wait => Ok(Investigation::GoesOn),
            Investigated::Ask(question) => {
                self.ask(&operation.account, &operation.id, *question).await;
                Ok(Investigation::GoesOn)
            }
        }
    }

    /// Asks the destination now, where that can tell anything and the last question is long enough ago. It returns as
    /// soon as the question is on its way; wait for a newer version with [`Ledger::wait`]. A caller that stops listening
    /// changes nothing.
    ///
    /// [`Ledger::wait`]: crate::ledger::Ledger::wait
    ///
    /// # Errors
    /// As [`LookUpNow`].
    pub async fn look_up_now(&self, caller: &Caller, id: &OperationId) -> Result<LookUpBegun, Error> {
        let ledger = &self.inner.ledger;
        let verb = LookUpNow {
            caller: caller.clone(),
            id: id.clone(),
            worker: self.inner.worker.clone(),
            random: ledger.random(),
            declared: ledger.declared(),
        };
        let (executor, caller, id) = (self.clone(), caller.clone(), id.clone());
        self.detached(async move {
            let Asked { view, question } = executor.inner.ledger.submit(verb).await?;
            let asks = question.is_some();
            if let Some(question) = question {
                let asking = executor.clone();
                executor.inner.attempts.spawn(async move {
                    asking.ask(&caller.account, &id, *question).await;
                });
            }
            Ok(LookUpBegun { view, asks })
        })
        .await
    }

    /// Asks the destination under a durable claim, and records what it said. A crash anywhere in here changes nothing:
    /// the claim runs out, and somebody asks again.
    async fn ask(&self, account: &Account, id: &OperationId, question: Question) {
        let Question { tool, arguments, key, scope, fence, attempts } = question;
        let ledger = &self.inner.ledger;
        // Read after the claim is durable: what is found can only speak of the time before.
        let began_at = ledger.clock().now();
        let waited = self.waited(account, id, attempts);
        self.pass("c10_look_up_begun");
        let timeout = tool.http().map(|http| http.timeout).unwrap_or_default();
        let asked =
            self.inner.destination.look_up(tool, account, &arguments, key.as_deref(), scope.as_deref());
        let looked = tokio::time::timeout(timeout, asked)
            .await
            .unwrap_or_else(|_| LookedUp::failed("no answer within the tool's timeout"));
        self.pass("c11_look_up_answered");
        let mut wait = Duration::from_millis(10);
        loop {
            let verb = LookUpReport {
                account: account.clone(),
                id: id.clone(),
                fence,
                worker: self.inner.worker.clone(),
                began_at,
                waited,
                looked: looked.clone(),
                random: ledger.random(),
                declared: ledger.declared(),
            };
            match ledger.store().commit(verb).await {
                Ok(_) => return,
                // It can be asked again, so a look-up that cannot be recorded holds up no shutdown.
                Err(Error::Store(error)) if error.wrote_nothing() && !self.inner.stopping.is_cancelled() => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(1));
                }
                Err(error) => {
                    tracing::warn!(operation = %id, code = error.code(), "look-up not recorded");
                    return;
                }
            }
        }
    }
}
