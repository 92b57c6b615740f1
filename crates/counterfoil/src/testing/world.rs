//! A ledger in memory: it runs any verb as a store does, in one step and without durability.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::BucketLevel;
use crate::decide::{self, PauseReason};
use crate::error::Refusal;
use crate::guard::{self, Peer, Stage};
use crate::id::{Account, OperationId, Subject, ToolName};
use crate::operation::Operation;
use crate::policy::{Tool, stricter};
use crate::safeguard::Safeguard;
use crate::snapshot::{
    Changes, Declarations, EvidenceDraft, Existing, Grave, Link, Needs, PauseDraft, Predecessor, Snapshot,
    Verb, View, Webhooks, Write,
};
use crate::time::Timestamp;

type Key = (Account, OperationId);

/// One row of evidence, in the order in which it was written.
#[derive(Clone, Debug)]
pub struct Told {
    /// About which operation.
    pub operation: OperationId,
    /// The row.
    pub evidence: EvidenceDraft,
}

/// A pause and when it ended.
#[derive(Clone, Debug)]
struct Stopped {
    draft: PauseDraft,
    began: Timestamp,
    ended: Option<Timestamp>,
}

impl Stopped {
    fn covers(&self, tool: Option<&ToolName>, scope: Option<&str>) -> bool {
        let tools = self.draft.tool.as_ref().is_none_or(|paused| Some(paused) == tool);
        let scopes = self.draft.scope.as_deref().is_none_or(|paused| Some(paused) == scope);
        tools && scopes
    }
}

/// A ledger in memory. Time stands still until a test moves it.
#[derive(Debug, Default)]
pub struct World {
    now: Timestamp,
    operations: HashMap<Key, Operation>,
    tombstones: HashMap<Key, (Peer, ToolName)>,
    policies: HashMap<(ToolName, u32), Arc<Tool>>,
    tools: HashMap<ToolName, u32>,
    pauses: Vec<Stopped>,
    refusals: HashMap<(ToolName, String), u32>,
    buckets: HashMap<String, BucketLevel>,
    evidence: Vec<Told>,
    /// The two clocks disagree.
    pub clock_in_doubt: bool,
    /// The ledger is older than its mark.
    pub restored: bool,
}

impl World {
    /// An empty ledger at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    /// Store time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets store time, as a clock that is set does.
    pub fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Lets time pass.
    pub fn advance(&mut self, duration: Duration) {
        self.now = self.now.plus(duration);
    }

    /// Puts a declaration in force, under a new version.
    pub fn declare(&mut self, tool: Tool) -> u32 {
        // Also past one that is out of force: what was stored under a version is never replaced.
        let newest = self.policies.keys().filter(|(name, _)| *name == tool.name).map(|(_, version)| *version);
        let version = newest.max().map_or(1, |version| version + 1);
        self.tools.insert(tool.name.clone(), version);
        self.policies.insert((tool.name.clone(), version), Arc::new(tool));
        version
    }

    /// Takes a tool out of force. What was prepared under it stays.
    pub fn undeclare(&mut self, name: &ToolName) {
        self.tools.remove(name);
    }

    /// The declarations in force.
    #[must_use]
    pub fn declared(&self) -> Arc<Declarations> {
        let tools = self.tools.iter().filter_map(|(name, version)| {
            self.policies.get(&(name.clone(), *version)).map(|tool| (*version, tool.clone()))
        });
        Arc::new(Declarations::new(tools))
    }

    /// The stored operation, whatever its age.
    #[must_use]
    pub fn operation(&self, account: &Account, id: &OperationId) -> Option<&Operation> {
        self.operations.get(&(account.clone(), id.clone()))
    }

    /// Every operation.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values()
    }

    /// An operation with its `next`, as any face shows it.
    ///
    /// # Errors
    /// As [`Snapshot::view`].
    pub fn view(&self, account: &Account, id: &OperationId) -> Result<View, Refusal> {
        self.snapshot(&Needs::of(account, id), self.declared()).view()
    }

    /// When somebody should look at an operation next, as a store keeps it.
    #[must_use]
    pub fn due_at(&self, account: &Account, id: &OperationId) -> Option<Timestamp> {
        let operation = self.operation(account, id)?;
        let stored = self.policies.get(&(operation.tool.clone(), operation.policy_version))?;
        let current = self.tools.get(&operation.tool).filter(|version| **version != operation.policy_version);
        let current = current.and_then(|version| self.policies.get(&(operation.tool.clone(), *version)));
        match current {
            None => decide::due_at(operation, stored),
            Some(current) => decide::due_at(operation, &stricter(stored, current)),
        }
    }

    /// All evidence, oldest first.
    #[must_use]
    pub fn evidence(&self) -> &[Told] {
        &self.evidence
    }

    /// Stops sends.
    pub fn pause(&mut self, draft: PauseDraft) {
        self.pauses.push(Stopped { draft, began: self.now, ended: None });
    }

    /// Lets the sends of a tool go on, or with `None` those that stood still for everything.
    pub fn resume(&mut self, tool: Option<&ToolName>) {
        for pause in &mut self.pauses {
            if pause.ended.is_none() && pause.draft.tool.as_ref() == tool {
                pause.ended = Some(self.now);
            }
        }
        self.refusals.retain(|(name, _), _| Some(name) != tool);
    }

    /// Whether sends of a tool stand still under a scope.
    #[must_use]
    pub fn paused(&self, tool: &ToolName, scope: Option<&str>) -> bool {
        self.pauses.iter().any(|pause| pause.ended.is_none() && pause.covers(Some(tool), scope))
    }

    /// Leaves tombstones of what is past its retention.
    pub fn purge(&mut self) {
        let now = self.now;
        let expired = |operation: &Operation| operation.receipt_expires_at.is_some_and(|at| now >= at);
        let keys: Vec<Key> =
            self.operations.iter().filter(|(_, row)| expired(row)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            if let Some(operation) = self.operations.remove(&key) {
                let grave = Peer { unresolved: false, ..Peer::from(&operation) };
                self.tombstones.insert(key, (grave, operation.tool));
            }
        }
    }

    /// Runs a verb: loads what it needs, lets it decide, and applies all of its changes or, where it refuses, none.
    ///
    /// # Errors
    /// What the verb refuses.
    ///
    /// # Panics
    /// Where a verb wants something written that a store would not take: another operation's row in place of a new
    /// one, a version that did not grow, a fencing token that went back.
    pub fn run<V: Verb>(&mut self, verb: &V) -> Result<V::Reply, Refusal> {
        let snapshot = self.snapshot(&verb.needs(), verb.declared());
        let decided = verb.decide(&snapshot)?;
        let needs = verb.needs();
        let key = (needs.account.clone(), needs.id.clone());
        self.apply(key, decided.changes);
        Ok(decided.reply)
    }

    /// What a verb with these needs may look at.
    #[must_use]
    pub fn snapshot(&self, needs: &Needs<'_>, declared: Arc<Declarations>) -> Snapshot {
        let key = (needs.account.clone(), needs.id.clone());
        let operation = self.operations.get(&key);
        let existing = match (operation, self.tombstones.get(&key)) {
            (Some(operation), _) => Existing::Operation(Box::new(operation.clone())),
            (None, Some((grave, tool))) => {
                Existing::Tombstone(Grave { stage: grave.stage, tool: tool.clone() })
            }
            (None, None) => Existing::Nothing,
        };
        let tool = operation.map(|operation| &operation.tool).or(needs.action.map(|(tool, _)| tool));
        let sent = operation.and_then(|operation| operation.attempts.last());
        let scope = needs.scope.or(sent.and_then(|attempt| attempt.scope.as_deref()));
        let stopped = self.pauses.iter().any(|pause| pause.ended.is_none() && pause.covers(tool, scope));
        let counted = tool.zip(scope).map(|(tool, scope)| (tool.clone(), scope.to_owned()));
        Snapshot {
            now: self.now,
            stored: operation.and_then(|operation| {
                self.policies.get(&(operation.tool.clone(), operation.policy_version)).cloned()
            }),
            declared,
            peers: self.peers(needs, operation),
            named: self.named(needs, operation),
            subject_peers: match operation {
                Some(operation) => self.about(operation),
                None => self.subject_peers(needs.account, needs.subject, self.now),
            },
            predecessor: self.predecessor(needs),
            paused: match (stopped, self.clock_in_doubt, self.restored) {
                (_, true, _) => Some(PauseReason::Clock),
                (_, false, true) => Some(PauseReason::Restored),
                (true, false, false) => Some(PauseReason::Paused),
                (false, false, false) => None,
            },
            paused_for: self.paused_for(operation),
            refusals: counted.and_then(|key| self.refusals.get(&key)).copied().unwrap_or(0),
            bucket: needs.bucket.and_then(|name| self.buckets.get(name)).copied(),
            webhooks: self.webhooks(needs),
            restored: self.restored,
            existing,
        }
    }

    fn webhooks(&self, needs: &Needs<'_>) -> Webhooks {
        let Some(event) = needs.event else { return Webhooks::default() };
        let heard: Vec<_> = self
            .evidence
            .iter()
            .filter(|told| told.operation == *needs.id && told.evidence.kind == "webhook")
            .collect();
        Webhooks {
            kept: heard.len() as u64,
            this_one: heard.iter().any(|told| told.evidence.data["event"] == event),
        }
    }

    fn peers(&self, needs: &Needs<'_>, operation: Option<&Operation>) -> Vec<Peer> {
        let action = needs.action.or(operation.map(|operation| (&operation.tool, operation.action)));
        let Some((tool, action)) = action.filter(|_| needs.peers) else { return Vec::new() };
        let declared = |version: u32| self.policies.get(&(tool.clone(), version)).map(|tool| &**tool);
        let versions = [operation.map(|operation| operation.policy_version), self.tools.get(tool).copied()];
        let mine = operation.map(|operation| &operation.arguments).or(needs.arguments);
        self.operations
            .values()
            .filter(|other| other.account == *needs.account && other.tool == *tool)
            .filter(|other| other.unresolved() || other.released.is_some())
            .filter(|other| {
                let all =
                    versions.iter().copied().flatten().chain([other.policy_version]).filter_map(declared);
                other.action == action
                    || mine.is_some_and(|mine| guard::same_action(mine, &other.arguments, all))
            })
            .filter(|other| other.receipt_expires_at.is_none_or(|at| self.now < at))
            .map(Peer::from)
            .filter(|peer| peer.unresolved || (peer.released && peer.stage == Stage::Unknown))
            .collect()
    }

    fn predecessor(&self, needs: &Needs<'_>) -> Option<Box<Predecessor>> {
        let operation = self.operations.get(&(needs.account.clone(), needs.replaces?.clone()))?;
        let stored = self.policies.get(&(operation.tool.clone(), operation.policy_version)).cloned();
        let subject_peers = self.about(operation);
        Some(Box::new(Predecessor { operation: operation.clone(), stored, subject_peers }))
    }

    /// The other operations with the subject of `operation` that hold it, or succeeded since it was prepared.
    fn about(&self, operation: &Operation) -> Vec<Peer> {
        let subject = operation.subject.as_ref();
        let mut peers = self.subject_peers(&operation.account, subject, operation.created_at);
        peers.retain(|peer| peer.id != operation.id);
        peers
    }

    fn subject_peers(&self, account: &Account, subject: Option<&Subject>, since: Timestamp) -> Vec<Peer> {
        let Some(subject) = subject else { return Vec::new() };
        self.operations
            .values()
            .filter(|other| other.account == *account)
            .filter(|other| other.subject.as_ref() == Some(subject))
            .map(Peer::from)
            .filter(|peer| {
                let open = peer.unresolved || (peer.released && peer.stage == Stage::Unknown);
                open || peer.succeeded_at.is_some_and(|at| at >= since)
            })
            .collect()
    }

    fn named(&self, needs: &Needs<'_>, operation: Option<&Operation>) -> Vec<Peer> {
        let mut ids: Vec<&OperationId> = needs.named.iter().collect();
        let replaced =
            needs.replaces.and_then(|id| self.operations.get(&(needs.account.clone(), id.clone())));
        for operation in [operation, replaced].into_iter().flatten() {
            ids.extend(&operation.blocked_by);
            ids.extend(operation.distinct_from.iter().map(|distinct| &distinct.id));
            ids.extend(&operation.replaces);
            ids.extend(&operation.inherits);
            ids.extend(&operation.replaced_by);
        }
        ids.extend(needs.replaces);
        let mut parent = replaced.and_then(|replaced| replaced.replaces.as_ref());
        while let Some(id) = parent {
            ids.push(id);
            let found = self.operations.get(&(needs.account.clone(), id.clone()));
            parent = found.and_then(|found| found.replaces.as_ref());
        }
        ids.sort();
        ids.dedup();
        let mut named: Vec<Peer> = ids.into_iter().filter_map(|id| self.peer(needs.account, id)).collect();
        let mut at = 0;
        while let Some(peer) = named.get(at) {
            at += 1;
            if let Some(next) = peer.replaced_by.clone()
                && !named.iter().any(|known| known.id == next)
            {
                named.extend(self.peer(needs.account, &next));
            }
        }
        named
    }

    fn peer(&self, account: &Account, id: &OperationId) -> Option<Peer> {
        let key = (account.clone(), id.clone());
        self.operations
            .get(&key)
            .map(Peer::from)
            .or_else(|| self.tombstones.get(&key).map(|(grave, _)| grave.clone()))
    }

    fn paused_for(&self, operation: Option<&Operation>) -> Duration {
        let Some((operation, first)) =
            operation.and_then(|row| row.attempts.first().map(|first| (row, first)))
        else {
            return Duration::ZERO;
        };
        let (mut total, mut reached) = (Duration::ZERO, first.started_at);
        for pause in &self.pauses {
            if pause.covers(Some(&operation.tool), first.scope.as_deref()) {
                let (began, ended) = (pause.began.max(reached), pause.ended.unwrap_or(self.now));
                total += ended.since(began);
                reached = reached.max(ended);
            }
        }
        total
    }

    fn apply(&mut self, key: Key, changes: Changes) {
        let Changes { operation, evidence, links, others, bucket, refusals, pause, look_again: _ } = changes;
        assert!(operation.is_some() || evidence.is_empty(), "evidence without its operation");
        match operation {
            Some(Write::Insert(row)) => {
                let used = Safeguard::Tombstone.stands()
                    && (self.tombstones.contains_key(&key) || self.operations.contains_key(&key));
                assert!(!used, "an ID began anew");
                self.operations.insert(key.clone(), *row);
            }
            Some(Write::Update(row)) => {
                let old = self.operations.insert(key.clone(), (*row).clone());
                let old = old.unwrap_or_else(|| (*row).clone());
                assert!(row.version > old.version, "a change without evidence");
                assert!(row.fence >= old.fence, "the fencing token went back");
                assert!(row.attempts.len() >= old.attempts.len(), "an attempt was lost");
            }
            None => {}
        }
        self.evidence
            .extend(evidence.into_iter().map(|evidence| Told { operation: key.1.clone(), evidence }));
        for other in others {
            let id = other.operation.id.clone();
            let (row, grown) = (*other.operation, other.evidence.len() as u64);
            let version = row.version;
            let old = self.operations.insert((key.0.clone(), id.clone()), row);
            assert!(
                old.is_some_and(|old| old.version + grown == version),
                "another operation changed meanwhile"
            );
            let told = |evidence| Told { operation: id.clone(), evidence };
            self.evidence.extend(other.evidence.into_iter().map(told));
        }
        for link in links {
            self.link(&key, link);
        }
        self.buckets.extend(bucket);
        self.refusals.extend(refusals.map(|count| ((count.tool, count.scope), count.count)));
        if let Some(draft) = pause {
            self.pause(draft);
        }
    }

    /// What is noted on another operation.
    fn link(&mut self, from: &Key, link: Link) {
        let Some(other) = self.operations.get_mut(&(from.0.clone(), link.id.clone())) else { return };
        if !link.noted.on(other, &from.1) {
            return;
        }
        other.version += 1;
        other.updated_at = self.now;
        self.evidence.push(Told { operation: link.id, evidence: link.evidence });
    }

    /// How an operation that is gone ended.
    #[must_use]
    pub fn tombstone(&self, account: &Account, id: &OperationId) -> Option<Stage> {
        self.tombstones.get(&(account.clone(), id.clone())).map(|(grave, _)| grave.stage)
    }
}
