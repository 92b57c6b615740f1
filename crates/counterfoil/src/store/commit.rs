//! One transaction: loads, lets verbs decide, and writes what they decided together with its evidence.

use std::borrow::Cow;

use super::cells::Times;
use super::chain::{self, Entry, LEDGER, Tips};
use super::clocks::Clocks;
use super::failure::Failure;
use super::in_force::InForce;
use super::policies::Policies;
use super::rows::Rows;
use super::view::View;
use crate::error::{Error, StoreError};
use crate::guard::Peer;
use crate::id::{Account, OperationId};
use crate::notice::Notice;
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
pub(super) struct Commit<'a, R> {
    /// What is kept, inside this transaction.
    pub(super) rows: R,
    policies: &'a Policies,
    clocks: &'a Clocks,
    writer: &'a str,
    tips: &'a mut Tips,
    pauses: Option<Vec<InForce>>,
    /// What became different.
    pub(super) news: News,
    /// Whether there is anything to make durable.
    pub(super) wrote: bool,
}

impl<'a, R: Rows> Commit<'a, R> {
    /// Takes up a transaction in which nobody else changes what is loaded.
    pub(super) fn begin(
        rows: R,
        policies: &'a Policies,
        clocks: &'a Clocks,
        writer: &'a str,
        tips: &'a mut Tips,
    ) -> Self {
        Self { rows, policies, clocks, writer, tips, pauses: None, news: News::default(), wrote: false }
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
            None => self.rows.pauses()?,
        };
        let view = View {
            rows: &self.rows,
            policies: self.policies,
            clocks: self.clocks,
            pauses: &pauses,
            newest: self.rows.newest()?,
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
        let mut last = None;
        for (number, draft) in (version + 1..).zip(&evidence) {
            let about = subject.map(|subject| (subject, number));
            last = Some(self.append(account, about, draft, now)?);
        }
        if let (Some(after), Some((position, digest))) = (&written, last) {
            let kinds = evidence.iter().map(|draft| draft.kind);
            if let Some(occasion) = crate::notice::occasion(loaded, after, snapshot, kinds) {
                self.rows.append_notice(&Notice::of(occasion, (position, &digest), after, snapshot))?;
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
            self.rows.set_bucket(&name, level)?;
        }
        if let Some(count) = refusals {
            self.wrote = true;
            self.rows.set_refusals(&count)?;
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
            self.rows.insert(&operation, times)?;
        } else if !self.rows.update(&operation, times, version)? {
            return Err(Failure::damaged("an operation changed inside a commit"));
        }
        self.rows.insert_keys(&operation, loaded)?;
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
        let stored = self.policies.get(&self.rows, &operation.tool, operation.policy_version)?;
        let times = times(&operation, stored.as_deref(), &snapshot.declared, None)?;
        self.wrote = true;
        if !self.rows.update(&operation, times, version)? {
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
        let stored = self.policies.get(&self.rows, &known.tool, known.policy_version)?;
        let times = times(known, stored.as_deref(), declared, at)?;
        self.put_times(known, times)
    }

    fn put_times(&mut self, known: &Operation, times: Times) -> Result<(), Failure> {
        self.wrote = true;
        self.rows.put_times(known, times)
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
            Some(subject) => self.rows.wishes_about(account, subject, WOKEN_AT_ONCE)?,
            None => Vec::new(),
        };
        // The chain of those that take its place.
        let mut newest = after.replaced_by.clone();
        for _ in 0..=LONGEST_LINE {
            let Some(id) = newest else { break };
            newest = self.rows.peer(account, &id)?.and_then(|peer| peer.replaced_by);
            waiting.push(id);
        }
        for id in waiting {
            let found = self.rows.operation(account, &id)?;
            if let Some(found) = found.filter(|found| matches!(found.state, State::Prepared(_))) {
                self.look_again(&found, declared, None)?;
            }
        }
        // Those whose place it was to take may go on.
        for id in after.replaces.iter().chain(&after.inherits) {
            let left = self.rows.operation(account, id)?;
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
            Some(_) | None => self.policies.get(&self.rows, &operation.tool, operation.policy_version)?,
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
        self.rows.touch(loaded, version, now)
    }

    /// Notes something on another operation. One whose retention is over needs no record.
    fn link(
        &mut self,
        account: &Account,
        id: &OperationId,
        link: Link,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let Some(mut other) = self.rows.operation(account, &link.id)? else { return Ok(()) };
        if !link.noted.on(&mut other, id) {
            return Ok(());
        }
        let expected = other.version;
        other.version += 1;
        other.updated_at = now;
        let times = self.rows.times(account, &other.id)?;
        self.wrote = true;
        self.rows.update(&other, times, expected)?;
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
    ) -> Result<(u64, chain::Hash), Failure> {
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

    /// Appends one row of evidence; gives its place in the ledger and its digest.
    pub(super) fn entry(&mut self, entry: Entry<'_>) -> Result<(u64, chain::Hash), Failure> {
        self.wrote = true;
        chain::append(&self.rows, self.tips, self.writer, entry)
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
        if self.rows.pauses()?.iter().any(same) {
            return Ok(());
        }
        let now = self.now();
        self.rows.begin_pause(draft, now, restored)?;
        let data = serde_json::json!({ "tool": draft.tool, "scope": draft.scope, "note": draft.note });
        self.ledger_entry("paused", &draft.by, &data)?;
        self.pauses_changed()
    }

    /// Ends pauses, as [`Rows::end_pauses`] says.
    pub(super) fn resume(
        &mut self,
        tool: Option<&crate::id::ToolName>,
        by: &str,
        note: &str,
    ) -> Result<usize, Failure> {
        let ended = self.rows.end_pauses(tool, by, note, self.now())?;
        self.wrote = true;
        if ended > 0 {
            self.ledger_entry("resumed", by, &serde_json::json!({ "tool": tool, "note": note }))?;
            self.pauses_changed()?;
        }
        Ok(ended)
    }

    fn pauses_changed(&mut self) -> Result<(), Failure> {
        self.pauses = None;
        self.news.pauses = true;
        self.rows.pauses_changed()
    }

    /// Notes that tokens are different from now on.
    pub(super) fn tokens_changed(&mut self) -> Result<(), Failure> {
        self.wrote = true;
        self.news.tokens = true;
        self.rows.tokens_changed()
    }

    /// Hands over what the commit still lacks, if there is anything to commit. The last thing before it.
    pub(super) fn finish(self) -> Result<News, Failure> {
        if self.wrote {
            self.rows.finish()?;
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
