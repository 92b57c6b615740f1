//! Loads what a verb may look at, from one consistent view of the file.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};

use super::failure::{Failure, unsigned};
use super::pauses::{self, InForce};
use super::policies::Policies;
use super::row;
use crate::backoff::BucketLevel;
use crate::decide::PauseReason;
use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::{self, Peer};
use crate::id::{Account, OperationId, ToolName};
use crate::operation::Operation;
use crate::policy::Tool;
use crate::snapshot::{Declarations, Existing, Needs, Predecessor, Snapshot, Webhooks};
use crate::state::State;
use crate::time::{Clock, Timestamp};
use crate::waits::LONGEST_LINE;

/// The clocks of this process, and how they stood to each other when the ledger was opened.
pub(super) struct Clocks {
    clock: Arc<dyn Clock>,
    skew: Duration,
    opened: (Timestamp, Duration),
}

impl std::fmt::Debug for Clocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clocks")
            .field("skew", &self.skew)
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}

impl Clocks {
    /// The clocks from now on.
    pub(super) fn start(clock: Arc<dyn Clock>, skew: Duration) -> Self {
        let opened = (clock.now(), clock.monotonic());
        Self { clock, skew, opened }
    }

    /// Store time.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time since some point in this process.
    pub(super) fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Whether nothing that waits for an instant may be trusted: store time lies too far below the newest instant of
    /// the ledger, or the two clocks of this process no longer agree.
    pub(super) fn in_doubt(&self, now: Timestamp, newest: Timestamp) -> bool {
        let (wall, monotonic) = self.opened;
        let wall = i128::from(now.as_millis()) - i128::from(wall.as_millis());
        let passed = self.clock.monotonic().saturating_sub(monotonic).as_millis();
        let apart = wall.abs_diff(i128::try_from(passed).unwrap_or(i128::MAX));
        apart > self.skew.as_millis() || now.plus(self.skew) < newest
    }
}

/// The operation where it is final, in one statement: nothing around it matters any more, and replays are what is asked
/// for most.
pub(super) fn final_one(
    connection: &Connection,
    shared: &super::shared::Shared,
    account: &Account,
    id: &OperationId,
    declared: &Arc<Declarations>,
) -> Result<Option<Snapshot>, Failure> {
    let now = shared.clocks.now();
    let Some(operation) = row::find(connection, account, id)?.filter(|found| found.state.is_final()) else {
        return Ok(None);
    };
    let stored = shared.policies.get(connection, &operation.tool, operation.policy_version)?;
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

/// One consistent view of the file.
pub(super) struct View<'a> {
    pub(super) connection: &'a Connection,
    pub(super) policies: &'a Policies,
    pub(super) clocks: &'a Clocks,
    pub(super) pauses: &'a [InForce],
    /// The newest instant in the ledger.
    pub(super) newest: Timestamp,
}

impl View<'_> {
    /// What the ledger holds about an ID.
    fn existing(&self, account: &Account, id: &OperationId) -> Result<Existing, Failure> {
        if let Some(operation) = row::find(self.connection, account, id)? {
            return Ok(Existing::Operation(Box::new(operation)));
        }
        let tombstone = row::tombstone(self.connection, account, id)?;
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
            Some(operation) => {
                self.policies.get(self.connection, &operation.tool, operation.policy_version)?
            }
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
                pauses::paused_for(self.connection, &operation.tool, scope, first.started_at, now)?
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
            (Some(tool), Some(scope)) => self.refusals(tool.as_str(), scope)?,
            (Some(_) | None, Some(_) | None) => 0,
        };
        let bucket = needs.bucket.map(|name| self.bucket(name)).transpose()?.flatten();
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
                Some(subject) => row::subject_peers(self.connection, needs.account, subject, now)?,
                None => Vec::new(),
            },
        };
        let webhooks = match needs.event.filter(|_| operation.is_some()) {
            Some(event) => self.webhooks(needs.account, needs.id, event)?,
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
        let mut peers = row::peers(self.connection, account, tool, action)?;
        let Some(mine) = arguments else { return Ok(peers) };
        if self.policies.compared_differently(self.connection, tool)? {
            let same = |theirs: &Arguments, version: u32| {
                let own = self.policies.get(self.connection, tool, version)?;
                let all = compared.iter().copied().flatten().chain(own.as_deref());
                Ok(guard::same_action(mine, theirs, all))
            };
            peers.extend(row::peers_compared_anew(self.connection, account, tool, action, same)?);
        }
        Ok(peers)
    }

    /// The operation whose place is taken, with what it waits for.
    fn predecessor(&self, account: &Account, id: &OperationId) -> Result<Option<Box<Predecessor>>, Failure> {
        let Some(operation) = row::find(self.connection, account, id)? else { return Ok(None) };
        let stored = self.policies.get(self.connection, &operation.tool, operation.policy_version)?;
        let subject_peers = self.about(account, &operation)?;
        Ok(Some(Box::new(Predecessor { operation, stored, subject_peers })))
    }

    /// The other operations with the subject of `operation` that hold it, or succeeded since it was prepared.
    fn about(&self, account: &Account, operation: &Operation) -> Result<Vec<Peer>, Failure> {
        let Some(subject) = &operation.subject else { return Ok(Vec::new()) };
        let mut peers = row::subject_peers(self.connection, account, subject, operation.created_at)?;
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
            named.extend(row::find_peer(self.connection, needs.account, id)?);
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
                None => {
                    row::find_peer(self.connection, account, &id)?.inspect(|peer| named.push(peer.clone()))
                }
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
                named.extend(row::find_peer(self.connection, account, &next)?);
            }
        }
        Ok(())
    }

    /// The evidence itself says which webhooks were heard: what was once committed is heard by every process.
    fn webhooks(&self, account: &Account, id: &OperationId, event: &str) -> Result<Webhooks, Failure> {
        let mut statement = self.connection.prepare_cached(
            "SELECT count(*), coalesce(max(json_extract(data, '$.event') = ?3), 0) FROM counterfoil_evidence \
             WHERE account = ?1 AND operation_id = ?2 AND kind = 'webhook'",
        )?;
        Ok(statement.query_row((account.as_str(), id.as_str(), event), |row| {
            Ok(Webhooks { kept: unsigned(row.get(0)?), this_one: row.get(1)? })
        })?)
    }

    fn refusals(&self, tool: &str, scope: &str) -> Result<u32, Failure> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT refused FROM counterfoil_refusals WHERE tool = ?1 AND scope = ?2")?;
        Ok(statement.query_row((tool, scope), |row| row.get(0)).optional()?.unwrap_or(0))
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
}

/// Where the ledger ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The newest row of evidence.
    pub(super) position: u64,
    /// The newest instant of any row.
    pub(super) newest: Timestamp,
    /// How often pauses changed.
    pub(super) pauses: u64,
    /// How often tokens changed.
    pub(super) tokens: u64,
}

impl Head {
    /// Reads it.
    pub(super) fn read(connection: &Connection) -> Result<Self, Failure> {
        let mut statement = connection
            .prepare_cached("SELECT position, newest, pauses, tokens FROM counterfoil_head WHERE one = 1")?;
        Ok(statement.query_row([], |row| {
            Ok(Self {
                position: unsigned(row.get(0)?),
                newest: Timestamp::from_millis(row.get(1)?),
                pauses: unsigned(row.get(2)?),
                tokens: unsigned(row.get(3)?),
            })
        })?)
    }
}
