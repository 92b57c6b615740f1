//! One transaction on the file: loads, lets verbs decide, and writes what they decided together with its evidence.

use rusqlite::Connection;
use std::borrow::Cow;

use super::chain::{self, Entry, LEDGER, Tips};
use super::failure::{Failure, signed};
use super::load::{Clocks, Head, View};
use super::notices;
use super::pauses::{self, InForce};
use super::policies::Policies;
use super::row::{self, Times};
use crate::error::{Error, StoreError};
use crate::guard::Peer;
use crate::id::{Account, OperationId};
use crate::operation::Operation;
use crate::policy::Tool;
use crate::recovery::HoldReason;
use crate::snapshot::{
    Changes, Decided, Declarations, EvidenceDraft, Existing, Link, Other, PauseDraft, Snapshot, Verb, Write,
};
use crate::state::State;
use crate::store::Change;
use crate::time::Timestamp;
use crate::waits::LONGEST_LINE;

/// How many standing wishes about one subject are woken in one commit; further ones look again by themselves.
const WOKEN_AT_ONCE: u32 = 100;

/// What became different, for whoever listens once it is durable.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) operations: Vec<Change>,
    pub(super) pauses: bool,
    pub(super) tokens: bool,
}

/// A running transaction. Nothing of it is told to anybody before it is durable.
pub(super) struct Commit<'a> {
    pub(super) connection: &'a Connection,
    policies: &'a Policies,
    clocks: &'a Clocks,
    writer: &'a str,
    tips: &'a mut Tips,
    head: Head,
    pauses: Option<Vec<InForce>>,
    /// What became different.
    pub(super) news: News,
    /// Whether there is anything to make durable.
    pub(super) wrote: bool,
}

impl<'a> Commit<'a> {
    /// Takes up a transaction that holds the write lock.
    pub(super) fn begin(
        connection: &'a Connection,
        policies: &'a Policies,
        clocks: &'a Clocks,
        writer: &'a str,
        tips: &'a mut Tips,
    ) -> Result<Self, Failure> {
        let head = Head::read(connection)?;
        Ok(Self {
            connection,
            policies,
            clocks,
            writer,
            tips,
            head,
            pauses: None,
            news: News::default(),
            wrote: false,
        })
    }

    /// Store time.
    pub(super) fn now(&self) -> Timestamp {
        self.clocks.now()
    }

    /// Loads, decides and applies one verb. A refusal has written nothing.
    pub(super) fn run<V: Verb>(&mut self, verb: &V) -> Result<Result<V::Reply, Error>, Failure> {
        let needs = verb.needs();
        let pauses = match self.pauses.take() {
            Some(pauses) => pauses,
            None => pauses::in_force(self.connection)?,
        };
        let view = View {
            connection: self.connection,
            policies: self.policies,
            clocks: self.clocks,
            pauses: &pauses,
            newest: self.head.newest,
        };
        let snapshot = view.snapshot(&needs, verb.declared())?;
        self.pauses = Some(pauses);
        match verb.decide(&snapshot) {
            Err(refusal) => Ok(Err(refusal.into())),
            Ok(Decided { changes, reply }) => {
                self.apply(needs.account, needs.id, &snapshot, changes)?;
                Ok(Ok(reply))
            }
        }
    }

    fn apply(
        &mut self,
        account: &Account,
        id: &OperationId,
        snapshot: &Snapshot,
        changes: Changes,
    ) -> Result<(), Failure> {
        let Changes { operation, evidence, links, others, bucket, refusals, pause, look_again } = changes;
        let loaded = match &snapshot.existing {
            Existing::Operation(loaded) => Some(&**loaded),
            Existing::Nothing | Existing::Tombstone(_) => None,
        };
        let version = loaded.map_or(0, |loaded| loaded.version);
        let written = match operation {
            Some(write) => {
                let grows = evidence.len() as u64;
                Some(self.write((account, id), snapshot, write, (version, grows), look_again)?)
            }
            None => None,
        };
        let now = snapshot.now;
        match (&written, loaded) {
            (None, Some(loaded)) if !evidence.is_empty() => {
                self.touch(loaded, version + evidence.len() as u64, now)?;
            }
            (Some(_), _) | (None, Some(_) | None) => {}
        }
        let subject = written.as_ref().or(loaded);
        let mut digest = None;
        for (number, draft) in (version + 1..).zip(&evidence) {
            let about = subject.map(|subject| (subject, number));
            digest = Some(self.append(account, about, draft, now)?);
        }
        if let (Some(after), Some(digest)) = (&written, digest) {
            let kinds = evidence.iter().map(|draft| draft.kind);
            if let Some(occasion) = crate::notice::occasion(loaded, after, snapshot, kinds) {
                notices::append(self.connection, self.head.position, &digest, occasion, after, snapshot)?;
            }
        }
        if let Some(subject) = subject
            && (written.is_some() || !evidence.is_empty())
        {
            self.changed(subject);
        }
        if let (None, Some(loaded), Some(_)) = (&written, loaded, look_again) {
            self.look_again(loaded, &snapshot.declared, look_again)?;
        }
        if let (Some(before), Some(after)) = (loaded, &written) {
            self.wake(before, after, &snapshot.declared, now)?;
        }
        for other in others {
            self.other(account, other, snapshot)?;
        }
        for link in links {
            self.link(account, id, link, now)?;
        }
        if let Some((name, level)) = bucket {
            self.wrote = true;
            self.connection
                .prepare_cached(
                    "INSERT INTO counterfoil_buckets (name, level, at) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (name) DO UPDATE SET level = excluded.level, at = excluded.at",
                )?
                .execute((name, signed(level.level), level.at.as_millis()))?;
        }
        if let Some(count) = refusals {
            self.wrote = true;
            self.connection
                .prepare_cached(
                    "INSERT INTO counterfoil_refusals (tool, scope, refused) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (tool, scope) DO UPDATE SET refused = excluded.refused",
                )?
                .execute((count.tool.as_str(), count.scope, count.count))?;
        }
        if let Some(draft) = pause {
            self.pause(&draft, false)?;
        }
        Ok(())
    }

    /// Writes the operation's row with the version that its new evidence gives it.
    fn write(
        &mut self,
        (account, id): (&Account, &OperationId),
        snapshot: &Snapshot,
        write: Write,
        (version, grows): (u64, u64),
        look_again: Option<Timestamp>,
    ) -> Result<Operation, Failure> {
        let (mut operation, fresh) = match write {
            Write::Insert(operation) => (*operation, true),
            Write::Update(operation) => (*operation, false),
        };
        let fits = operation.account == *account && operation.id == *id;
        let loaded: &[_] = match &snapshot.existing {
            Existing::Operation(loaded) if fits && !fresh => &loaded.attempts,
            Existing::Nothing if fits && fresh => &[],
            Existing::Operation(_) | Existing::Nothing | Existing::Tombstone(_) => {
                return Err(StoreError::Unavailable("a decision about another operation".to_owned()).into());
            }
        };
        operation.version = version + grows;
        if grows > 0 {
            operation.updated_at = snapshot.now;
        }
        let times = self.times(&operation, snapshot, look_again)?;
        self.wrote = true;
        if fresh {
            row::insert(self.connection, &operation, times)?;
        } else if !row::update(self.connection, &operation, times, version)? {
            return Err(Failure::damaged("an operation changed inside a commit"));
        }
        row::insert_keys(self.connection, &operation, loaded)?;
        Ok(operation)
    }

    /// Another operation that changes with it. It was loaded in this commit, so its version is the one that is stored.
    fn other(&mut self, account: &Account, other: Other, snapshot: &Snapshot) -> Result<(), Failure> {
        let Other { mut operation, evidence } = other;
        let loaded = snapshot.predecessor.as_deref().map(|predecessor| &predecessor.operation);
        let loaded = loaded.filter(|loaded| loaded.id == operation.id);
        let loaded =
            loaded.ok_or_else(|| Failure::damaged("a change of an operation that was not loaded"))?;
        let version = loaded.version;
        if operation.account != *account {
            return Err(StoreError::Unavailable("a decision about another account".to_owned()).into());
        }
        operation.version = version + evidence.len() as u64;
        operation.updated_at = snapshot.now;
        let stored = self.policies.get(self.connection, &operation.tool, operation.policy_version)?;
        let times = times(&operation, stored.as_deref(), &snapshot.declared, None)?;
        self.wrote = true;
        if !row::update(self.connection, &operation, times, version)? {
            return Err(Failure::damaged("an operation changed inside a commit"));
        }
        for (number, draft) in (version + 1..).zip(&evidence) {
            self.append(account, Some((&operation, number)), draft, snapshot.now)?;
        }
        self.changed(&operation);
        self.wake(loaded, &operation, &snapshot.declared, snapshot.now)
    }

    /// Puts off an operation of which nothing changed, or no longer puts it off.
    fn look_again(
        &mut self,
        known: &Operation,
        declared: &Declarations,
        at: Option<Timestamp>,
    ) -> Result<(), Failure> {
        let stored = self.policies.get(self.connection, &known.tool, known.policy_version)?;
        let times = times(known, stored.as_deref(), declared, at)?;
        self.put_times(known, times)
    }

    fn put_times(&mut self, known: &Operation, times: Times) -> Result<(), Failure> {
        self.wrote = true;
        let mut statement = self.connection.prepare_cached(
            "UPDATE counterfoil_operations SET due_at = ?3, work_at = ?4 WHERE account = ?1 AND id = ?2",
        )?;
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        let (account, id) = (known.account.as_str(), known.id.as_str());
        statement.execute((account, id, millis(times.due_at), millis(times.work_at)))?;
        Ok(())
    }

    /// Where an operation is no longer in anybody's way, whoever waited for it under a standing wish is due now. A crash
    /// before this commit leaves them waiting, and the other one in the way.
    fn wake(
        &mut self,
        before: &Operation,
        after: &Operation,
        declared: &Declarations,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let ended = after.state.is_final() && !before.state.is_final();
        if !ended && !crate::waits::frees(before, after) {
            return Ok(());
        }
        let account = &after.account;
        let mut waiting = match &after.subject {
            Some(subject) => row::wishes_about(self.connection, account, subject, WOKEN_AT_ONCE)?,
            None => Vec::new(),
        };
        // The chain of those that take its place.
        let mut newest = after.replaced_by.clone();
        for _ in 0..=LONGEST_LINE {
            let Some(id) = newest else { break };
            newest = row::find_peer(self.connection, account, &id)?.and_then(|peer| peer.replaced_by);
            waiting.push(id);
        }
        for id in waiting {
            let found = row::find(self.connection, account, &id)?;
            if let Some(found) = found.filter(|found| matches!(found.state, State::Prepared(_))) {
                self.look_again(&found, declared, None)?;
            }
        }
        // Those whose place it was to take may go on.
        for id in after.replaces.iter().chain(&after.inherits) {
            let left = row::find(self.connection, account, id)?;
            if let Some(left) = left.filter(|left| left.state.hold() == Some(HoldReason::Replaced)) {
                self.put_times(&left, Times { due_at: Some(now), work_at: None })?;
            }
        }
        Ok(())
    }

    /// When the operation is due under the stricter of the stored and the current declaration.
    fn times(
        &self,
        operation: &Operation,
        snapshot: &Snapshot,
        look_again: Option<Timestamp>,
    ) -> Result<Times, Failure> {
        let stored = match &snapshot.stored {
            // An approval re-binds an operation that never started to the current version.
            Some(stored) if self.same_version(operation, snapshot) => Some(stored.clone()),
            Some(_) | None => {
                self.policies.get(self.connection, &operation.tool, operation.policy_version)?
            }
        };
        times(operation, stored.as_deref(), &snapshot.declared, look_again)
    }

    fn same_version(&self, operation: &Operation, snapshot: &Snapshot) -> bool {
        match &snapshot.existing {
            Existing::Operation(loaded) => loaded.policy_version == operation.policy_version,
            Existing::Nothing | Existing::Tombstone(_) => false,
        }
    }

    /// Evidence without a new state still moves the version.
    fn touch(&mut self, loaded: &Operation, version: u64, now: Timestamp) -> Result<(), Failure> {
        self.wrote = true;
        self.connection
            .prepare_cached(
                "UPDATE counterfoil_operations SET version = ?3, updated_at = ?4 WHERE account = ?1 AND id = ?2",
            )?
            .execute((loaded.account.as_str(), loaded.id.as_str(), signed(version), now.as_millis()))?;
        Ok(())
    }

    /// Notes something on another operation. One whose retention is over needs no record.
    fn link(
        &mut self,
        account: &Account,
        id: &OperationId,
        link: Link,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let Some(mut other) = row::find(self.connection, account, &link.id)? else { return Ok(()) };
        if !link.noted.on(&mut other, id) {
            return Ok(());
        }
        let expected = other.version;
        other.version += 1;
        other.updated_at = now;
        let mut due = self.connection.prepare_cached(
            "SELECT due_at, work_at FROM counterfoil_operations WHERE account = ?1 AND id = ?2",
        )?;
        let (due_at, work_at): (Option<i64>, Option<i64>) =
            due.query_row((account.as_str(), other.id.as_str()), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let times = Times {
            due_at: due_at.map(Timestamp::from_millis),
            work_at: work_at.map(Timestamp::from_millis),
        };
        self.wrote = true;
        row::update(self.connection, &other, times, expected)?;
        self.append(account, Some((&other, other.version)), &link.evidence, now)?;
        self.changed(&other);
        Ok(())
    }

    fn changed(&mut self, operation: &Operation) {
        let change = Change { account: operation.account.clone(), id: operation.id.clone() };
        self.news.operations.push(change);
    }

    fn append(
        &mut self,
        account: &Account,
        about: Option<(&Operation, u64)>,
        draft: &EvidenceDraft,
        now: Timestamp,
    ) -> Result<chain::Hash, Failure> {
        let data = serde_json::to_string(&draft.data)?;
        self.entry(Entry {
            account,
            at: now,
            kind: draft.kind,
            by_name: draft.by.name(),
            by_kind: draft.by.kind(),
            operation: about.map(|(operation, _)| &operation.id),
            version: about.map_or(0, |(_, version)| version),
            state: about.map(|(operation, _)| Peer::from(operation).stage.label()),
            data: &data,
        })
    }

    /// Appends one row and moves the ledger's end behind it.
    pub(super) fn entry(&mut self, entry: Entry<'_>) -> Result<chain::Hash, Failure> {
        self.wrote = true;
        let position = self.head.position + 1;
        let digest = chain::append(self.connection, self.tips, self.writer, position, entry)?;
        self.head.position = position;
        self.head.newest = self.head.newest.max(entry.at);
        Ok(digest)
    }

    /// Evidence about the ledger itself.
    pub(super) fn ledger_entry(
        &mut self,
        kind: &str,
        by: &str,
        data: &serde_json::Value,
    ) -> Result<(), Failure> {
        let (account, now) = (Account::from_stored(LEDGER), self.now());
        let data = serde_json::to_string(data)?;
        self.entry(Entry {
            account: &account,
            at: now,
            kind,
            by_name: by,
            by_kind: "operator",
            operation: None,
            version: 0,
            state: None,
            data: &data,
        })?;
        Ok(())
    }

    /// Begins a pause, unless the same one is in force.
    pub(super) fn pause(&mut self, draft: &PauseDraft, restored: bool) -> Result<(), Failure> {
        let same = |known: &InForce| {
            known.pause.tool == draft.tool && known.pause.scope == draft.scope && known.restored == restored
        };
        if pauses::in_force(self.connection)?.iter().any(same) {
            return Ok(());
        }
        let now = self.now();
        pauses::begin(self.connection, draft, now, restored)?;
        let data = serde_json::json!({ "tool": draft.tool, "scope": draft.scope, "note": draft.note });
        self.ledger_entry("paused", &draft.by, &data)?;
        self.pauses_changed();
        Ok(())
    }

    /// Ends pauses, as [`pauses::end`] says.
    pub(super) fn resume(
        &mut self,
        tool: Option<&crate::id::ToolName>,
        by: &str,
        note: &str,
    ) -> Result<usize, Failure> {
        let ended = pauses::end(self.connection, tool, by, note, self.now())?;
        self.wrote = true;
        if ended > 0 {
            self.ledger_entry("resumed", by, &serde_json::json!({ "tool": tool, "note": note }))?;
            self.pauses_changed();
        }
        Ok(ended)
    }

    fn pauses_changed(&mut self) {
        self.pauses = None;
        self.head.pauses += 1;
        self.news.pauses = true;
    }

    /// Notes that tokens are different from now on.
    pub(super) fn tokens_changed(&mut self) {
        self.wrote = true;
        self.head.tokens += 1;
        self.news.tokens = true;
    }

    /// Writes where the ledger ends. The last thing before the commit.
    pub(super) fn finish(self) -> Result<News, Failure> {
        if self.wrote {
            self.connection
                .prepare_cached(
                    "UPDATE counterfoil_head SET position = ?1, newest = ?2, pauses = ?3, tokens = ?4 WHERE one = 1",
                )?
                .execute((
                    signed(self.head.position),
                    self.head.newest.as_millis(),
                    signed(self.head.pauses),
                    signed(self.head.tokens),
                ))?;
        }
        Ok(self.news)
    }
}

/// When the operation is due under the stricter of the stored and the current declaration.
fn times(
    operation: &Operation,
    stored: Option<&Tool>,
    declared: &Declarations,
    look_again: Option<Timestamp>,
) -> Result<Times, Failure> {
    let facts: Cow<'_, Tool> = match (stored, declared.get(&operation.tool)) {
        (Some(stored), Some((version, current))) if version != operation.policy_version => {
            Cow::Owned(crate::policy::stricter(stored, current))
        }
        (Some(stored), Some(_) | None) => Cow::Borrowed(stored),
        (None, Some((_, current))) => Cow::Borrowed(&**current),
        (None, None) => {
            return Err(Failure::damaged("the declaration of an operation's tool is not stored"));
        }
    };
    Ok(Times::of(operation, &facts, look_again))
}
