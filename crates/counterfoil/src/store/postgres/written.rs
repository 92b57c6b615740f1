//! What a transaction will write, and how its own verbs already see it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use super::page::{End, Found, Page, action};
use crate::backoff::BucketLevel;
use crate::fingerprint::Fingerprint;
use crate::guard::Peer;
use crate::id::{Account, OperationId, Subject, ToolName};
use crate::notice::Notice;
use crate::operation::{Attempt, Operation};
use crate::snapshot::{Grave, PauseDraft, RefusalCount, Webhooks};
use crate::state::State;
use crate::store::Pause;
use crate::store::cells::{self, Times};
use crate::store::chain::{Hash, LEDGER, Link, Tip};
use crate::store::failure::Failure;
use crate::store::in_force::InForce;
use crate::store::rows::{Rows, SameAction};
use crate::time::Timestamp;

/// An operation that is written.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) operation: Operation,
    pub(super) times: Times,
    /// The version that is replaced; `None` for a new operation.
    pub(super) replaces: Option<u64>,
}

/// A row of evidence that is written.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) position: u64,
    pub(super) account: String,
    pub(super) writer: String,
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) kind: String,
    pub(super) by: (String, String),
    pub(super) operation: Option<String>,
    pub(super) version: u64,
    pub(super) state: Option<String>,
    pub(super) data: String,
    pub(super) data_digest: Hash,
    pub(super) digest: Hash,
    pub(super) previous: Hash,
}

/// A version of a tool's declaration that is written.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) tool: ToolName,
    pub(super) version: u32,
    pub(super) body: String,
    pub(super) digest: Hash,
    pub(super) at: Timestamp,
}

/// A change of pauses, in the order of the changes.
#[derive(Clone, Debug)]
pub(super) enum Paused {
    /// One begins.
    Begins(PauseDraft, Timestamp, bool),
    /// All of a tool end, or all of everything.
    Ends { tool: Option<ToolName>, by: String, note: String, at: Timestamp },
}

/// What a transaction will write.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) operations: BTreeMap<(Account, OperationId), Row>,
    pub(super) keys: Vec<(Account, String, OperationId)>,
    pub(super) evidence: Vec<Entry>,
    pub(super) notices: Vec<Notice>,
    pub(super) buckets: BTreeMap<String, BucketLevel>,
    pub(super) refusals: BTreeMap<(ToolName, String), u32>,
    pub(super) policies: Vec<Policy>,
    pub(super) paused: Vec<Paused>,
    pub(super) ends: BTreeMap<Account, End>,
    pub(super) pauses_changed: bool,
    pub(super) tokens_changed: bool,
    in_force: Option<Vec<InForce>>,
}

/// The page and what is written on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRows<'a> {
    pub(super) page: &'a Page,
    pub(super) written: &'a RefCell<Written>,
}

impl PageRows<'_> {
    fn found(&self, account: &Account, id: &OperationId) -> Result<Found, Failure> {
        let key = (account.clone(), id.clone());
        if let Some(row) = self.written.borrow().operations.get(&key) {
            return Ok(Found::Operation(Box::new(row.operation.clone()), row.times));
        }
        self.page.operations.get(&key).cloned()
    }

    /// What was loaded, with what this transaction has changed since.
    fn with_written(
        &self,
        account: &Account,
        loaded: impl Iterator<Item = Peer>,
        fits: impl Fn(&Operation) -> Result<bool, Failure>,
    ) -> Result<Vec<Peer>, Failure> {
        let written = self.written.borrow();
        let untouched = |peer: &Peer| !written.operations.contains_key(&(account.clone(), peer.id.clone()));
        let mut peers: Vec<Peer> =
            if written.operations.is_empty() { loaded.collect() } else { loaded.filter(untouched).collect() };
        for row in written.operations.values().filter(|row| row.operation.account == *account) {
            if fits(&row.operation)? {
                peers.push(Peer::from(&row.operation));
            }
        }
        Ok(peers)
    }

    /// Pauses, tokens and declarations are changed by one transaction at a time.
    fn alone(&self) -> Result<(), Failure> {
        if self.page.exclusive {
            return Ok(());
        }
        self.page.wants_exclusive.set(true);
        Err(Failure::Missing)
    }

    fn put(&self, operation: &Operation, times: Times) -> Result<(), Failure> {
        let key = (operation.account.clone(), operation.id.clone());
        let mut written = self.written.borrow_mut();
        if let Some(row) = written.operations.get_mut(&key) {
            row.operation = operation.clone();
            row.times = times;
            return Ok(());
        }
        let replaces = match self.page.operations.get(&key)? {
            Found::Operation(loaded, _) => loaded.version,
            Found::Nothing | Found::Tombstone(..) => {
                return Err(Failure::damaged("an operation changed that was not loaded"));
            }
        };
        let row = Row { operation: operation.clone(), times, replaces: Some(replaces) };
        written.operations.insert(key, row);
        Ok(())
    }
}

fn lesser(operation: &Operation, since: Timestamp) -> bool {
    cells::open(operation) || Peer::from(operation).succeeded_at.is_some_and(|at| at >= since)
}

impl Rows for PageRows<'_> {
    fn operation(&self, account: &Account, id: &OperationId) -> Result<Option<Operation>, Failure> {
        Ok(match self.found(account, id)? {
            Found::Operation(operation, _) => Some(*operation),
            Found::Nothing | Found::Tombstone(..) => None,
        })
    }

    fn tombstone(&self, account: &Account, id: &OperationId) -> Result<Option<Grave>, Failure> {
        Ok(match self.found(account, id)? {
            Found::Tombstone(grave, _) => Some(grave),
            Found::Nothing | Found::Operation(..) => None,
        })
    }

    fn peer(&self, account: &Account, id: &OperationId) -> Result<Option<Peer>, Failure> {
        Ok(match self.found(account, id)? {
            Found::Operation(operation, _) => Some(Peer::from(&*operation)),
            Found::Tombstone(grave, closed_at) => Some(Peer {
                id: id.clone(),
                task: None,
                stage: grave.stage,
                unresolved: false,
                released: false,
                suspected: false,
                created_at: closed_at,
                succeeded_at: None,
                rejected_as: None,
                replaces: None,
                replaced_by: None,
            }),
            Found::Nothing => None,
        })
    }

    fn peers(&self, account: &Account, tool: &ToolName, print: Fingerprint) -> Result<Vec<Peer>, Failure> {
        let loaded = self.page.peers.get(&action(account, tool, print))?;
        self.with_written(account, loaded.iter().cloned(), |operation| {
            Ok(operation.tool == *tool && operation.action == print && cells::open(operation))
        })
    }

    fn peers_compared_anew(
        &self,
        account: &Account,
        tool: &ToolName,
        stored: Fingerprint,
        same: &SameAction<'_>,
    ) -> Result<Vec<Peer>, Failure> {
        let mut loaded = Vec::new();
        for (peer, arguments, version) in self.page.others.get(&action(account, tool, stored))? {
            if same(arguments, *version)? {
                loaded.push(peer.clone());
            }
        }
        self.with_written(account, loaded.into_iter(), |operation| {
            let candidate = operation.tool == *tool && operation.action != stored && cells::open(operation);
            Ok(candidate && same(&operation.arguments, operation.policy_version)?)
        })
    }

    fn subject_peers(
        &self,
        account: &Account,
        subject: &Subject,
        since: Timestamp,
    ) -> Result<Vec<Peer>, Failure> {
        let loaded = self.page.subjects.get(&(account.clone(), subject.clone(), since))?;
        self.with_written(account, loaded.iter().cloned(), |operation| {
            Ok(operation.subject.as_ref() == Some(subject) && lesser(operation, since))
        })
    }

    fn wishes_about(
        &self,
        account: &Account,
        subject: &Subject,
        most: u32,
    ) -> Result<Vec<OperationId>, Failure> {
        let loaded = self.page.wishes.get(&(account.clone(), subject.clone(), most))?;
        let written = self.written.borrow();
        let untouched = |id: &OperationId| !written.operations.contains_key(&(account.clone(), id.clone()));
        let mut wishes: Vec<_> = loaded.iter().filter(|(_, id)| untouched(id)).cloned().collect();
        for row in written.operations.values() {
            let operation = &row.operation;
            let about = operation.account == *account && operation.subject.as_ref() == Some(subject);
            if about && operation.wish && matches!(operation.state, State::Prepared(_)) {
                wishes.push((operation.created_at, operation.id.clone()));
            }
        }
        wishes.sort();
        Ok(wishes.into_iter().map(|(_, id)| id).take(most as usize).collect())
    }

    fn times(&self, account: &Account, id: &OperationId) -> Result<Times, Failure> {
        match self.found(account, id)? {
            Found::Operation(_, times) => Ok(times),
            Found::Nothing | Found::Tombstone(..) => {
                Err(Failure::damaged("the times of an operation that is not there"))
            }
        }
    }

    fn policy(&self, tool: &ToolName, version: u32) -> Result<Option<String>, Failure> {
        let written = self.written.borrow();
        let fresh = written.policies.iter().find(|policy| policy.tool == *tool && policy.version == version);
        match fresh {
            Some(policy) => Ok(Some(policy.body.clone())),
            None => self.page.policies.get(&(tool.clone(), version)).cloned(),
        }
    }

    fn newest_policy(&self, tool: &ToolName) -> Result<Option<(u32, Hash)>, Failure> {
        let written = self.written.borrow();
        let fresh = written.policies.iter().rev().find(|policy| policy.tool == *tool);
        match fresh {
            Some(policy) => Ok(Some((policy.version, policy.digest))),
            None => self.page.newest_policies.get(tool).copied(),
        }
    }

    fn users_of(&self, tool: &ToolName) -> Result<Vec<Account>, Failure> {
        self.page.users.get(tool).cloned()
    }

    fn pauses(&self) -> Result<Vec<InForce>, Failure> {
        match &self.written.borrow().in_force {
            Some(changed) => Ok(changed.clone()),
            None => self.page.pauses.get(&()).cloned(),
        }
    }

    /// A pause that begins in this transaction has lasted for no time yet.
    fn pauses_since(
        &self,
        tool: &ToolName,
        scope: Option<&str>,
        since: Timestamp,
    ) -> Result<Vec<(Timestamp, Option<Timestamp>)>, Failure> {
        self.page.paused.get(&(tool.clone(), scope.map(str::to_owned), since)).cloned()
    }

    fn webhooks(&self, account: &Account, id: &OperationId, event: &str) -> Result<Webhooks, Failure> {
        let mut heard = *self.page.webhooks.get(&(account.clone(), id.clone(), event.to_owned()))?;
        for entry in &self.written.borrow().evidence {
            let about = entry.account == account.as_str() && entry.operation.as_deref() == Some(id.as_str());
            if about && entry.kind == "webhook" {
                heard.kept += 1;
                heard.this_one |= event_of(&entry.data).as_deref() == Some(event);
            }
        }
        Ok(heard)
    }

    fn refusals(&self, tool: &ToolName, scope: &str) -> Result<u32, Failure> {
        let key = (tool.clone(), scope.to_owned());
        match self.written.borrow().refusals.get(&key) {
            Some(refused) => Ok(*refused),
            None => self.page.refusals.get(&key).copied(),
        }
    }

    fn bucket(&self, name: &str) -> Result<Option<BucketLevel>, Failure> {
        match self.written.borrow().buckets.get(name) {
            Some(level) => Ok(Some(*level)),
            None => self.page.buckets.get(&name.to_owned()).copied(),
        }
    }

    fn tip(&self, account: &Account, writer: &str) -> Result<Option<Tip>, Failure> {
        self.page.tips.get(&(account.clone(), writer.to_owned())).copied()
    }

    /// The newest of the accounts that the transaction looks at.
    fn newest(&self) -> Result<Timestamp, Failure> {
        let newest = self.page.ends.values().map(|end| end.newest).max();
        Ok(newest.unwrap_or(Timestamp::from_millis(0)))
    }

    fn place(&self, account: &Account, at: Timestamp) -> Result<u64, Failure> {
        if account.as_str() == LEDGER {
            self.alone()?;
        }
        let mut written = self.written.borrow_mut();
        let known = written.ends.get(account).or_else(|| self.page.ends.get(account)).copied();
        let end = known.ok_or_else(|| Failure::damaged("evidence of an account that is not held"))?;
        let end = End { position: end.position + 1, newest: end.newest.max(at) };
        written.ends.insert(account.clone(), end);
        Ok(end.position)
    }

    fn insert(&self, operation: &Operation, times: Times) -> Result<(), Failure> {
        let key = (operation.account.clone(), operation.id.clone());
        match self.found(&key.0, &key.1)? {
            Found::Nothing => {}
            Found::Operation(..) | Found::Tombstone(..) => {
                return Err(Failure::damaged("an operation that is new is there already"));
            }
        }
        let row = Row { operation: operation.clone(), times, replaces: None };
        self.written.borrow_mut().operations.insert(key, row);
        Ok(())
    }

    fn update(&self, operation: &Operation, times: Times, expected: u64) -> Result<bool, Failure> {
        let current = self.operation(&operation.account, &operation.id)?;
        if current.is_none_or(|current| current.version != expected) {
            return Ok(false);
        }
        self.put(operation, times).map(|()| true)
    }

    fn touch(&self, operation: &Operation, version: u64, now: Timestamp) -> Result<(), Failure> {
        let current = self.operation(&operation.account, &operation.id)?;
        let mut current = current.ok_or_else(|| Failure::damaged("evidence of no operation"))?;
        let times = self.times(&operation.account, &operation.id)?;
        current.version = version;
        current.updated_at = now;
        self.put(&current, times)
    }

    fn put_times(&self, operation: &Operation, times: Times) -> Result<(), Failure> {
        let current = self.operation(&operation.account, &operation.id)?;
        match current {
            Some(current) => self.put(&current, times),
            None => Err(Failure::damaged("the times of an operation that is not there")),
        }
    }

    fn insert_keys(&self, operation: &Operation, known: &[Attempt]) -> Result<(), Failure> {
        let fresh = operation.attempts.get(known.len()..).unwrap_or_default();
        let keys = fresh.iter().filter_map(|attempt| attempt.key.clone());
        let rows = keys.map(|key| (operation.account.clone(), key, operation.id.clone()));
        self.written.borrow_mut().keys.extend(rows);
        Ok(())
    }

    fn append(&self, link: &Link<'_>, data: &str, digest: &Hash) -> Result<(), Failure> {
        self.written.borrow_mut().evidence.push(Entry {
            position: link.position,
            account: link.account.to_owned(),
            writer: link.writer.to_owned(),
            seq: link.seq,
            at: link.at,
            kind: link.kind.to_owned(),
            by: (link.by_name.to_owned(), link.by_kind.to_owned()),
            operation: link.operation.map(str::to_owned),
            version: link.version,
            state: link.state.map(str::to_owned),
            data: data.to_owned(),
            data_digest: *link.data_digest,
            digest: *digest,
            previous: *link.previous,
        });
        Ok(())
    }

    fn append_notice(&self, notice: &Notice) -> Result<(), Failure> {
        self.written.borrow_mut().notices.push(notice.clone());
        Ok(())
    }

    fn set_bucket(&self, name: &str, level: BucketLevel) -> Result<(), Failure> {
        self.written.borrow_mut().buckets.insert(name.to_owned(), level);
        Ok(())
    }

    fn set_refusals(&self, count: &RefusalCount) -> Result<(), Failure> {
        let key = (count.tool.clone(), count.scope.clone());
        self.written.borrow_mut().refusals.insert(key, count.count);
        Ok(())
    }

    fn insert_policy(
        &self,
        (tool, version): (&ToolName, u32),
        body: &str,
        digest: &Hash,
        now: Timestamp,
    ) -> Result<(), Failure> {
        self.alone()?;
        let policy = Policy { tool: tool.clone(), version, body: body.to_owned(), digest: *digest, at: now };
        self.written.borrow_mut().policies.push(policy);
        Ok(())
    }

    fn begin_pause(&self, draft: &PauseDraft, now: Timestamp, restored: bool) -> Result<(), Failure> {
        self.alone()?;
        let mut in_force = self.pauses()?;
        let pause = Pause {
            tool: draft.tool.clone(),
            scope: draft.scope.clone(),
            at: now,
            by: draft.by.clone(),
            note: draft.note.clone(),
        };
        in_force.push(InForce { pause, restored });
        let mut written = self.written.borrow_mut();
        written.in_force = Some(in_force);
        written.paused.push(Paused::Begins(draft.clone(), now, restored));
        Ok(())
    }

    fn end_pauses(
        &self,
        tool: Option<&ToolName>,
        by: &str,
        note: &str,
        now: Timestamp,
    ) -> Result<usize, Failure> {
        self.alone()?;
        let mut in_force = self.pauses()?;
        let before = in_force.len();
        in_force.retain(|known| known.pause.tool.as_ref() != tool);
        let ended = before - in_force.len();
        let mut written = self.written.borrow_mut();
        written.in_force = Some(in_force);
        let (tool, by, note) = (tool.cloned(), by.to_owned(), note.to_owned());
        written.paused.push(Paused::Ends { tool, by, note, at: now });
        Ok(ended)
    }

    fn pauses_changed(&self) -> Result<(), Failure> {
        self.alone()?;
        self.written.borrow_mut().pauses_changed = true;
        Ok(())
    }

    fn tokens_changed(&self) -> Result<(), Failure> {
        self.alone()?;
        self.written.borrow_mut().tokens_changed = true;
        Ok(())
    }

    fn finish(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The tips of the chains that a transaction moved on.
pub(super) fn moved_tips(written: &Written) -> HashMap<(Account, String), Tip> {
    let tips = written.evidence.iter().map(|entry| {
        let key = (Account::from_stored(&entry.account), entry.writer.clone());
        (key, Tip { seq: entry.seq, digest: entry.digest })
    });
    tips.collect()
}

/// The event that a webhook's evidence names.
pub(super) fn event_of(data: &str) -> Option<String> {
    let data: serde_json::Value = serde_json::from_str(data).ok()?;
    data.get("event").and_then(serde_json::Value::as_str).map(str::to_owned)
}
