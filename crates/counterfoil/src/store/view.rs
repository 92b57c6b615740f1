//! What a verb may look at, from one consistent view of what is kept.

use std::sync::Arc;
use std::time::Duration;

use super::clocks::Clocks;
use super::failure::Failure;
use super::in_force::{self, InForce};
use super::policies::Policies;
use super::rows::Rows;
use crate::decide::PauseReason;
use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::{self, Peer};
use crate::id::{Account, OperationId, ToolName};
use crate::operation::Operation;
use crate::policy::Tool;
use crate::snapshot::{Declarations, Existing, Needs, Predecessor, Snapshot, Webhooks};
use crate::state::State;
use crate::time::Timestamp;
use crate::waits::LONGEST_LINE;

/// The operation where it is final, in one statement: nothing around it matters any more, and replays are what is asked
/// for most.
pub(super) fn of_final<R: Rows>(
    rows: &R,
    policies: &Policies,
    clocks: &Clocks,
    account: &Account,
    id: &OperationId,
    declared: &Arc<Declarations>,
) -> Result<Option<Snapshot>, Failure> {
    let now = clocks.now();
    let Some(operation) = rows.operation(account, id)?.filter(|found| found.state.is_final()) else {
        return Ok(None);
    };
    let stored = policies.get(rows, &operation.tool, operation.policy_version)?;
    Ok(Some(Snapshot {
        now,
        existing: Existing::Operation(Box::new(operation)),
        stored,
        declared: declared.clone(),
        peers: Vec::new(),
        named: Vec::new(),
        subject_peers: Vec::new(),
        predecessor: None,
        paused: None,
        paused_for: Duration::ZERO,
        refusals: 0,
        bucket: None,
        webhooks: Webhooks::default(),
        restored: false,
    }))
}

/// One consistent view of what is kept.
pub(super) struct View<'a, R> {
    pub(super) rows: &'a R,
    pub(super) policies: &'a Policies,
    pub(super) clocks: &'a Clocks,
    pub(super) pauses: &'a [InForce],
    /// The newest instant in the ledger.
    pub(super) newest: Timestamp,
}

impl<R: Rows> View<'_, R> {
    /// What the ledger holds about an ID.
    fn existing(&self, account: &Account, id: &OperationId) -> Result<Existing, Failure> {
        if let Some(operation) = self.rows.operation(account, id)? {
            return Ok(Existing::Operation(Box::new(operation)));
        }
        let tombstone = self.rows.tombstone(account, id)?;
        Ok(tombstone.map_or(Existing::Nothing, Existing::Tombstone))
    }

    /// What a verb with these needs may look at.
    pub(super) fn snapshot(
        &self,
        needs: &Needs<'_>,
        declared: Arc<Declarations>,
    ) -> Result<Snapshot, Failure> {
        let now = self.clocks.now();
        let existing = self.existing(needs.account, needs.id)?;
        let operation = match &existing {
            Existing::Operation(operation) => Some(&**operation),
            Existing::Nothing | Existing::Tombstone(_) => None,
        };
        let tool = operation.map(|operation| &operation.tool).or(needs.action.map(|(tool, _)| tool));
        let action = needs
            .action
            .or_else(|| operation.map(|operation| (&operation.tool, operation.action)))
            .filter(|_| needs.peers);
        let stored = match operation {
            Some(operation) => self.policies.get(self.rows, &operation.tool, operation.policy_version)?,
            None => None,
        };
        // Who names no scope asks about the one that the operation was last tried under, so that a pause of a
        // credential holds whatever was refused with it, also where its scope is not declared.
        let tried = operation.and_then(|operation| operation.attempts.last()?.scope.as_deref());
        let declared_scope = || stored.as_ref().and_then(|tool| tool.http()?.scope.as_deref());
        let scope = needs.scope.or(tried).or_else(declared_scope);
        let paused_for = match operation.and_then(|operation| Some((operation, operation.attempts.first()?)))
        {
            Some((operation, first)) => {
                let scope = first.scope.as_deref().or(scope);
                in_force::paused_for(self.rows, &operation.tool, scope, first.started_at, now)?
            }
            None => Duration::ZERO,
        };
        // A doubt of the clock goes first: a pause must not hide it from whoever waits for an instant.
        let paused = if self.clocks.in_doubt(now, self.newest) {
            Some(PauseReason::Clock)
        } else if self.pauses.iter().any(|pause| pause.restored) {
            Some(PauseReason::Restored)
        } else if self.pauses.iter().any(|pause| pause.covers(tool, scope)) {
            Some(PauseReason::Paused)
        } else {
            None
        };
        let peers = match action {
            Some((tool, action)) => {
                let current = declared.get(tool).map(|(_, tool)| tool);
                let arguments = operation.map(|operation| &operation.arguments).or(needs.arguments);
                let compared = [stored.as_deref(), current.map(|tool| &**tool)];
                self.peers(needs.account, tool, action, arguments, &compared)?
            }
            None => Vec::new(),
        };
        let refusals = match (tool, scope) {
            (Some(tool), Some(scope)) => self.rows.refusals(tool, scope)?,
            (Some(_) | None, Some(_) | None) => 0,
        };
        let bucket = needs.bucket.map(|name| self.rows.bucket(name)).transpose()?.flatten();
        let predecessor = needs.replaces.map(|id| self.predecessor(needs.account, id)).transpose()?.flatten();
        let replaced = predecessor.as_deref().map(|predecessor| &predecessor.operation);
        let named = self.named(needs, operation, replaced)?;
        let subject_peers = match operation {
            // Only what has not started asks who holds its subject.
            Some(operation) => match operation.state {
                State::Prepared(_) => self.about(needs.account, operation)?,
                State::InProgress(_) | State::Unknown(_) | State::Succeeded(_) | State::Rejected(_) => {
                    Vec::new()
                }
            },
            None => match needs.subject {
                Some(subject) => self.rows.subject_peers(needs.account, subject, now)?,
                None => Vec::new(),
            },
        };
        let webhooks = match needs.event.filter(|_| operation.is_some()) {
            Some(event) => self.rows.webhooks(needs.account, needs.id, event)?,
            None => Webhooks::default(),
        };
        let restored = self.pauses.iter().any(|pause| pause.restored);
        Ok(Snapshot {
            now,
            stored,
            declared,
            peers,
            named,
            subject_peers,
            predecessor,
            paused,
            paused_for,
            refusals,
            bucket,
            webhooks,
            restored,
            existing,
        })
    }

    /// The unresolved operations with the same action, also those that were prepared while something else made an action
    /// the same: under the operation's own declaration, the one in force, or theirs.
    fn peers(
        &self,
        account: &Account,
        tool: &ToolName,
        action: Fingerprint,
        arguments: Option<&Arguments>,
        compared: &[Option<&Tool>],
    ) -> Result<Vec<Peer>, Failure> {
        let mut peers = self.rows.peers(account, tool, action)?;
        let Some(mine) = arguments else { return Ok(peers) };
        if self.policies.compared_differently(self.rows, tool)? {
            let same = |theirs: &Arguments, version: u32| {
                let own = self.policies.get(self.rows, tool, version)?;
                let all = compared.iter().copied().flatten().chain(own.as_deref());
                Ok(guard::same_action(mine, theirs, all))
            };
            peers.extend(self.rows.peers_compared_anew(account, tool, action, &same)?);
        }
        Ok(peers)
    }

    /// The operation whose place is taken, with what it waits for.
    fn predecessor(&self, account: &Account, id: &OperationId) -> Result<Option<Box<Predecessor>>, Failure> {
        let Some(operation) = self.rows.operation(account, id)? else { return Ok(None) };
        let stored = self.policies.get(self.rows, &operation.tool, operation.policy_version)?;
        let subject_peers = self.about(account, &operation)?;
        Ok(Some(Box::new(Predecessor { operation, stored, subject_peers })))
    }

    /// The other operations with the subject of `operation` that hold it, or succeeded since it was prepared.
    fn about(&self, account: &Account, operation: &Operation) -> Result<Vec<Peer>, Failure> {
        let Some(subject) = &operation.subject else { return Ok(Vec::new()) };
        let mut peers = self.rows.subject_peers(account, subject, operation.created_at)?;
        peers.retain(|peer| peer.id != operation.id);
        Ok(peers)
    }

    /// The operations that the verb names, those that held this one back, those it was declared distinct from, and the
    /// lines of proposals that they stand in.
    fn named(
        &self,
        needs: &Needs<'_>,
        operation: Option<&Operation>,
        replaced: Option<&Operation>,
    ) -> Result<Vec<Peer>, Failure> {
        let mut ids: Vec<&OperationId> = needs.named.iter().collect();
        for operation in [operation, replaced].into_iter().flatten() {
            ids.extend(&operation.blocked_by);
            ids.extend(operation.distinct_from.iter().map(|distinct| &distinct.id));
            ids.extend(&operation.replaces);
            ids.extend(&operation.inherits);
            ids.extend(&operation.replaced_by);
        }
        ids.extend(needs.replaces);
        ids.sort();
        ids.dedup();
        let mut named = Vec::with_capacity(ids.len());
        for id in ids {
            named.extend(self.rows.peer(needs.account, id)?);
        }
        if let Some(replaced) = replaced {
            self.line(needs.account, replaced, &mut named)?;
        }
        self.replacements(needs.account, &mut named)?;
        Ok(named)
    }

    /// The proposals that `newest` follows.
    fn line(&self, account: &Account, newest: &Operation, named: &mut Vec<Peer>) -> Result<(), Failure> {
        let mut parent = newest.replaces.clone();
        for _ in 0..=LONGEST_LINE {
            let Some(id) = parent else { return Ok(()) };
            let known = named.iter().find(|known| known.id == id).cloned();
            let found = match known {
                Some(known) => Some(known),
                None => self.rows.peer(account, &id)?.inspect(|peer| named.push(peer.clone())),
            };
            parent = found.and_then(|peer| peer.replaces);
        }
        Ok(())
    }

    /// Follows the chains of replacements, so that whoever looks at `named` sees which one is live.
    fn replacements(&self, account: &Account, named: &mut Vec<Peer>) -> Result<(), Failure> {
        let mut at = 0;
        while let Some(peer) = named.get(at) {
            at += 1;
            if let Some(next) = peer.replaced_by.clone()
                && !named.iter().any(|known| known.id == next)
            {
                named.extend(self.rows.peer(account, &next)?);
            }
        }
        Ok(())
    }
}
