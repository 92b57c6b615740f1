//! What an application's own workers ask for. The ledger decides; nothing in here sends.

use std::time::Duration;

use tokio::task::JoinSet;

use super::Executor;
use crate::caller::Caller;
use crate::error::{Error, Refusal};
use crate::id::{FencingToken, OperationId, ToolName, WorkerName};
use crate::ledger::{NewOperation, Read};
use crate::snapshot::View;
use crate::stated::Stated;
use crate::store::{Due, WorkAsked};
use crate::verbs::{
    Begun, ByWorker, Claimed, Granted, Heartbeat, Offer, Outcome, Prepare, PrepareReply, ReportReply,
    TakeClaim, Told,
};

/// How many operations one call takes at the most.
pub const CLAIMS_AT_ONCE: usize = 100;

/// How many operations one call looks at before it gives up for now.
const TRIED: usize = 1_000;

/// How many operations are read from a queue at once.
const PAGE: u32 = 64;

/// Who would hold a claim, and how.
#[derive(Clone, Debug)]
pub struct ClaimAsked {
    /// The worker.
    pub worker: WorkerName,
    /// How long the claim lasts without a heartbeat.
    pub lease: Duration,
    /// Minted for this one call.
    pub claim_id: Option<String>,
    /// What the worker's code says of the tool.
    pub stated: Stated,
}

impl Executor {
    /// Claims one operation of a worker tool: to send where a send is due, to investigate where only a look-up is.
    ///
    /// # Errors
    /// Why it is not granted: as [`TakeClaim`].
    pub async fn claim(
        &self,
        caller: &Caller,
        id: &OperationId,
        asked: &ClaimAsked,
    ) -> Result<Granted, Error> {
        let ledger = &self.inner.ledger;
        let mut tries = 0;
        loop {
            let snapshot = ledger.store().snapshot(&caller.account, id, ledger.declared()).await?;
            let operation = snapshot.operation_for(caller)?;
            let worker = snapshot.stored.as_deref().and_then(crate::policy::Tool::worker);
            let attempts = operation.attempts.len();
            let waits = snapshot.stored.as_ref().is_some_and(|tool| tool.recovery.miss_can_count());
            let waited = match waits && attempts > 0 {
                true => self.waited(&caller.account, id, attempts),
                false => Duration::ZERO,
            };
            let verb = TakeClaim {
                caller: caller.clone(),
                id: id.clone(),
                worker: asked.worker.clone(),
                lease: asked.lease,
                claim_id: asked.claim_id.clone(),
                stated: asked.stated.clone(),
                scope: worker.and_then(|worker| worker.scope.clone()),
                bucket: worker.and_then(|worker| worker.destination.clone()),
                seen: (attempts, waited),
                random: ledger.random(),
                declared: ledger.declared(),
            };
            match ledger.store().commit(verb).await? {
                Claimed::Granted(granted) => {
                    self.remember(&granted.view);
                    return Ok(*granted);
                }
                Claimed::Refused(refusal) => return Err(refusal.into()),
                Claimed::Rebuild if tries < 3 => tries += 1,
                Claimed::Rebuild => return Err(Refusal::ChangedMeanwhile.into()),
            }
        }
    }

    /// From now on this node counts the wait for a miss that may settle the last attempt.
    fn remember(&self, view: &View) {
        let operation = &view.operation;
        if view.tool.recovery.miss_can_count() {
            self.waited(&operation.account, &operation.id, operation.attempts.len());
        }
    }

    /// Prepares an operation and claims it: a new one with its first attempt in the same commit. Without a claim where
    /// it may not run now, or somebody else holds one.
    ///
    /// # Errors
    /// As [`Executor::prepare`]; [`Refusal::NotAWorkerTool`] and [`Refusal::DeclarationMismatch`], with which nothing is
    /// stored.
    pub async fn prepare_claimed(
        &self,
        caller: &Caller,
        new: NewOperation,
        asked: &ClaimAsked,
    ) -> Result<(PrepareReply, Option<Granted>), Error> {
        let ledger = &self.inner.ledger;
        let verb = self.claiming(caller, new, asked, false);
        if let Read::Answered(reply) = ledger.read(&verb).await? {
            return Ok((reply, None));
        }
        let id = verb.id.clone();
        self.pass("c1_before_prepare_commit");
        let mut reply = ledger.store().commit(verb).await?;
        match reply.begun {
            Begun::Started(_) => {
                self.remember(&reply.view);
                let granted = Granted::now(reply.view.clone())?;
                return Ok((reply, Some(granted)));
            }
            Begun::NotNow | Begun::Blocked(_) | Begun::Rebuild if reply.created => return Ok((reply, None)),
            Begun::NotNow | Begun::Blocked(_) | Begun::Rebuild => {}
        }
        match self.claim(caller, &id, asked).await {
            Ok(granted) => {
                reply.view = granted.view.clone();
                Ok((reply, Some(granted)))
            }
            // It is what it is; the caller is told what it waits for.
            Err(Error::Refused(
                Refusal::InProgress
                | Refusal::WrongState(_)
                | Refusal::Paused
                | Refusal::ApprovalRequired
                | Refusal::ChangedMeanwhile
                | Refusal::BlockedByOperation { .. },
            )) => {
                reply.view = View { replayed: reply.view.replayed, ..ledger.find(caller, &id).await? };
                Ok((reply, None))
            }
            Err(error) => Err(error),
        }
    }

    /// Says what [`Executor::prepare_claimed`] would do, and stores nothing.
    ///
    /// # Errors
    /// As there.
    pub async fn dry_run_claimed(
        &self,
        caller: &Caller,
        new: NewOperation,
        asked: &ClaimAsked,
    ) -> Result<PrepareReply, Error> {
        self.inner.ledger.submit(self.claiming(caller, new, asked, true)).await
    }

    fn claiming(&self, caller: &Caller, new: NewOperation, asked: &ClaimAsked, dry_run: bool) -> Prepare {
        let ledger = &self.inner.ledger;
        let declared = ledger.declared();
        let (version, tool) =
            declared.get(&new.tool).map_or((0, None), |(version, tool)| (version, Some(tool)));
        let worker = tool.and_then(|tool| tool.worker());
        let fingerprint = Prepare::fingerprint(&declared, &new.tool, &new.arguments);
        let offer = Offer {
            worker: asked.worker.clone(),
            policy_version: version,
            request_digest: fingerprint.to_string(),
            scope: worker.and_then(|worker| worker.scope.clone()),
            bucket: worker.and_then(|worker| worker.destination.clone()),
            lease: Some(asked.lease),
            claim: Some(ByWorker {
                claim_id: asked.claim_id.clone(),
                held_by: caller.principal.clone(),
                stated: asked.stated.clone(),
            }),
        };
        let verb = ledger.prepare_verb(caller, new, Some(offer), dry_run);
        Prepare { fingerprint: fingerprint.into(), declared, ..verb }
    }

    /// Takes at most `max` operations of these tools: what is wished and due, and what is unknown and due to be sent
    /// again or looked up. Nothing where there is nothing.
    ///
    /// # Errors
    /// What the store could not do, where nothing was taken before.
    pub async fn claims(
        &self,
        caller: &Caller,
        tools: &[(ToolName, Stated)],
        asked: &ClaimAsked,
        max: usize,
    ) -> Result<Vec<Granted>, Error> {
        let mut taken = Vec::new();
        let mut left = TRIED;
        // Another first tool each time, so that none takes every place.
        let turn = usize::try_from(self.inner.ledger.random() >> 33).unwrap_or(0) % tools.len().max(1);
        for (tool, stated) in tools.iter().cycle().skip(turn).take(tools.len()) {
            let asked = ClaimAsked { stated: stated.clone(), ..asked.clone() };
            if let Err(error) = self.take(caller, tool, &asked, max, &mut left, &mut taken).await {
                return if taken.is_empty() { Err(error) } else { Ok(taken) };
            }
        }
        Ok(taken)
    }

    /// Takes operations of one tool. Those that are refused stay where they are: the next one may be free.
    async fn take(
        &self,
        caller: &Caller,
        tool: &ToolName,
        asked: &ClaimAsked,
        max: usize,
        left: &mut usize,
        taken: &mut Vec<Granted>,
    ) -> Result<(), Error> {
        let (store, now) = (self.inner.ledger.store(), self.inner.ledger.clock().now());
        let declared = self.inner.ledger.declared();
        let scope = declared.get(tool).and_then(|(_, tool)| tool.scope());
        let unknown = self.paused(tool, scope);
        let mut after: Option<Due> = None;
        while taken.len() < max && *left > 0 {
            let page =
                store.work(&caller.account, tool, now, WorkAsked { after, unknown, limit: PAGE }).await?;
            let last = page.len() < PAGE as usize;
            after = page.last().cloned();
            let mut offered = page.into_iter().map(|due| due.id);
            // Side by side, so that they share a flush; never more than are wanted.
            while taken.len() < max && *left > 0 {
                let ids: Vec<OperationId> = offered.by_ref().take((max - taken.len()).min(*left)).collect();
                if ids.is_empty() {
                    break;
                }
                *left -= ids.len();
                let mut claims = JoinSet::new();
                for id in ids {
                    let (executor, caller, asked) = (self.clone(), caller.clone(), asked.clone());
                    claims.spawn(async move { executor.claim(&caller, &id, &asked).await });
                }
                while let Some(claimed) = claims.join_next().await {
                    match claimed {
                        Ok(Ok(granted)) => taken.push(granted),
                        Ok(Err(Error::Refused(_))) | Err(_) => {}
                        Ok(Err(error @ Error::Store(_))) => return Err(error),
                    }
                }
            }
            if last {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Extends a claim by the lease that was asked for.
    ///
    /// # Errors
    /// [`Refusal::StaleClaim`], or as [`crate::ledger::Ledger::find`].
    pub async fn heartbeat(
        &self,
        caller: &Caller,
        id: OperationId,
        attempt: u32,
        fence: FencingToken,
    ) -> Result<Granted, Error> {
        let declared = self.inner.ledger.declared();
        let verb = Heartbeat { caller: caller.clone(), id, attempt, fence, declared };
        self.inner.ledger.store().commit(verb).await
    }

    /// Records what a worker found. One that came too late to move anything is kept, and says so.
    ///
    /// # Errors
    /// [`Refusal::StaleClaim`] for a claim that never was, or as [`crate::ledger::Ledger::find`].
    pub async fn outcome(
        &self,
        caller: &Caller,
        id: OperationId,
        attempt: u32,
        fence: FencingToken,
        told: Told,
    ) -> Result<ReportReply, Error> {
        let ledger = &self.inner.ledger;
        let (random, declared) = (ledger.random(), ledger.declared());
        let verb = Outcome { caller: caller.clone(), id, attempt, fence, told, random, declared };
        ledger.store().commit(verb).await
    }
}
