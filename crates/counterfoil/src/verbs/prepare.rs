//! The acceptance of an action: its identity and exact arguments are kept before anything else happens.

use std::sync::{Arc, OnceLock};

use serde_json::json;

use super::draft::{Draft, rejection};
use super::start::{Begun, Offer, begin, spend};
use crate::caller::{Caller, Need};
use crate::decide;
use crate::error::Refusal;
use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::{self, Peer, Stage};
use crate::id::{Account, FencingToken, OperationId, Subject, Task, ToolName};
use crate::keys::KeyFormat;
use crate::operation::{Distinct, Operation, RejectionCode};
use crate::pointer::Pointer;
use crate::policy::Tool;
use crate::recovery::Recovery;
use crate::safeguard::Safeguard;
use crate::snapshot::{
    Actor, Changes, Decided, Declarations, EvidenceDraft, Existing, Link, Needs, Noted, Other, Predecessor,
    Snapshot, Verb, View,
};
use crate::state::{AfterSettled, Event, State, Waiting};
use crate::time::Timestamp;
use crate::waits::{self, LONGEST_LINE, Taken};

/// Prepares an operation, or finds the one that the ID already names.
#[derive(Clone, Debug)]
pub struct Prepare {
    /// Who asks.
    pub caller: Caller,
    /// The identity that the application minted.
    pub id: OperationId,
    /// Which kind of action.
    pub tool: ToolName,
    /// The exact arguments.
    pub arguments: Arguments,
    /// Their fingerprint under the declaration in force ([`Prepare::fingerprint`]).
    pub fingerprint: OnceLock<Fingerprint>,
    /// The agent run it belongs to.
    pub task: Option<Task>,
    /// What it is about: one started, unsettled operation at a time.
    pub subject: Option<Subject>,
    /// The proposal that this one changes.
    pub replaces: Option<OperationId>,
    /// Operations that this is deliberately distinct from.
    pub distinct_from: Vec<OperationId>,
    /// Who or what accepted the proposal: a JSON object of at most 1 KiB.
    pub accepted_by: Option<String>,
    /// Whether it shall run as soon as it may.
    pub execute: bool,
    /// A sender that stands ready to run it in the same commit.
    pub offer: Option<Offer>,
    /// Say what would happen, store nothing.
    pub dry_run: bool,
    /// Picks the points of delays.
    pub random: u64,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
}

/// What became of a prepare.
#[derive(Clone, Debug)]
pub struct PrepareReply {
    /// The operation.
    pub view: View,
    /// Whether this call created it.
    pub created: bool,
    /// Whether an attempt was recorded in the same commit.
    pub begun: Begun,
}

impl Prepare {
    /// The fingerprint that `arguments` have under the declaration in force; without one, over all of them.
    #[must_use]
    pub fn fingerprint(declared: &Declarations, tool: &ToolName, arguments: &Arguments) -> Fingerprint {
        let volatile = declared.get(tool).map(|(_, tool)| tool.volatile.as_slice()).unwrap_or_default();
        arguments.fingerprint(tool.as_str(), volatile)
    }

    /// The fingerprint, made when it is first asked for: a repeat with the same bytes needs none.
    fn print(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| Self::fingerprint(&self.declared, &self.tool, &self.arguments))
    }

    /// What makes another operation the same action under the declaration in force.
    fn action(&self) -> Fingerprint {
        match self.declared.get(&self.tool) {
            Some((_, tool)) if tool.guard_on.is_some() => tool.action(&self.arguments),
            Some(_) | None => self.print(),
        }
    }

    fn existing(&self, snapshot: &Snapshot, operation: &Operation) -> Result<Decided<PrepareReply>, Refusal> {
        self.caller.may_use(&operation.tool)?;
        self.caller.may_use(&self.tool)?;
        // Before arguments are compared: a late retry learns how it ended and nothing else.
        snapshot.operation()?;
        self.same_intent(snapshot, operation)?;
        let declared = self.declared.get(&operation.tool).map(|(_, tool)| &**tool);
        self.claimable(snapshot.stored.as_deref().or(declared), declared)?;
        let replayed = operation.state.is_final();
        let mut draft = Draft::of(operation, snapshot.now);
        if self.execute && !operation.wish && !replayed {
            draft.operation.wish = true;
            draft.note("wished", Actor::Caller(self.caller.principal.clone()), json!({}));
        }
        let (operation, changes) = draft.into_changes();
        let mut view = snapshot.view_of(operation)?;
        view.replayed = replayed;
        Ok(Decided { changes, reply: PrepareReply { view, created: false, begun: Begun::NotNow } })
    }

    /// Compares with what is stored, under the declaration that is stored with it, so that a later change of
    /// `volatile` does not refuse an honest retry.
    fn same_intent(&self, snapshot: &Snapshot, operation: &Operation) -> Result<(), Refusal> {
        let mut differs = self.differing_arguments(snapshot, operation);
        if self.subject != operation.subject {
            differs.push("subject".to_owned());
        }
        if self.replaces != operation.replaces {
            differs.push("replaces".to_owned());
        }
        if sorted(&self.distinct_from) != sorted(&operation.distinct_declared) {
            differs.push("distinct_from".to_owned());
        }
        match differs.is_empty() || !Safeguard::Fingerprint.stands() {
            true => Ok(()),
            false => Err(Refusal::OperationIdReused { differs, stage: Peer::from(operation).stage }),
        }
    }

    /// The names of what differs in tool and arguments.
    fn differing_arguments(&self, snapshot: &Snapshot, operation: &Operation) -> Vec<String> {
        if operation.tool != self.tool {
            let mut differs = operation.arguments.differing_members(&self.arguments, &[]);
            differs.push("tool".to_owned());
            return differs;
        }
        // The same bytes are the same intent under any declaration.
        if self.arguments == operation.arguments {
            return Vec::new();
        }
        let volatile = snapshot.stored.as_deref().map(|tool| tool.volatile.as_slice()).unwrap_or_default();
        let same = self.fingerprint_without(volatile);
        // An approval may have bound it to a later declaration than it was fingerprinted under.
        if same == operation.fingerprint
            || same == operation.arguments.fingerprint(self.tool.as_str(), volatile)
        {
            return Vec::new();
        }
        let mut differs = operation.arguments.differing_members(&self.arguments, volatile);
        if differs.is_empty() {
            differs.push("arguments".to_owned());
        }
        differs
    }

    /// The fingerprint without these members: known already, unless the declaration in force leaves out others.
    fn fingerprint_without(&self, volatile: &[Pointer]) -> Fingerprint {
        let current = self.declared.get(&self.tool).map(|(_, tool)| tool.volatile.as_slice());
        match current.unwrap_or_default() == volatile {
            true => self.print(),
            false => self.arguments.fingerprint(self.tool.as_str(), volatile),
        }
    }

    /// What an agent may declare itself distinct from: what is running now, or what an approver released. Anything
    /// else that is unresolved may have worked.
    fn distinct(&self, snapshot: &Snapshot) -> Result<Vec<Distinct>, Refusal> {
        let by_approver = self.caller.roles.approver;
        self.distinct_from
            .iter()
            .map(|id| {
                let peer = snapshot
                    .named
                    .iter()
                    .find(|peer| peer.id == *id)
                    .ok_or_else(|| snapshot.missing_named(id))?;
                let allowed = by_approver || peer.released || peer.stage == Stage::InProgress;
                match allowed {
                    true => Ok(Distinct { id: id.clone(), by_approver }),
                    false => Err(Refusal::DistinctForbidden { id: id.clone(), stage: peer.stage }),
                }
            })
            .collect()
    }

    /// The operation whose place is taken. Whoever may not use its tool may not end it either.
    fn predecessor<'s>(&self, snapshot: &'s Snapshot) -> Result<Option<&'s Predecessor>, Refusal> {
        let Some(replaces) = &self.replaces else { return Ok(None) };
        // One that is past its retention cannot be marked as replaced.
        let kept = |end: Option<Timestamp>| end.is_none_or(|end| snapshot.now < end);
        let found = snapshot.predecessor.as_deref();
        let found = found.filter(|found| kept(found.operation.receipt_expires_at));
        let found = found.ok_or_else(|| snapshot.missing_named(replaces))?;
        self.caller.may_use(&found.operation.tool)?;
        match waits::may_be_replaced(&found.operation, &snapshot.named) {
            Ok(()) => Ok(Some(found)),
            Err(Taken::By(_)) if !Safeguard::OneReplacement.stands() => Ok(Some(found)),
            Err(Taken::By(by)) => Err(Refusal::AlreadyReplaced { by }),
            Err(Taken::TooLong) => Err(Refusal::InvalidArguments(format!(
                "more than {LONGEST_LINE} changed proposals follow each other"
            ))),
        }
    }

    /// What becomes of the operation whose place is taken: one that never started, or of which every attempt is settled,
    /// ends here; any other one is never sent again.
    fn take_place(&self, found: &Predecessor, snapshot: &Snapshot) -> Result<Other, Refusal> {
        let mut other = Draft::of(&found.operation, snapshot.now);
        other.operation.replaced_by = Some(self.id.clone());
        let ended = rejection(RejectionCode::Replaced, snapshot.now);
        let open = found.operation.unsettled() == 0 && !found.operation.duplicate_suspected;
        let event = match found.operation.state {
            State::Prepared(_) if open => Some(Event::Replaced(ended)),
            State::Unknown(_) if open => Some(Event::AllSettled(AfterSettled::Over(ended))),
            State::Prepared(_)
            | State::Unknown(_)
            | State::InProgress(_)
            | State::Succeeded(_)
            | State::Rejected(_) => None,
        };
        if let Some(event) = event {
            let declared = snapshot.declared.get(&found.operation.tool).map(|(_, tool)| tool);
            let tool = found.stored.as_ref().or(declared).ok_or(Refusal::UnknownTool)?;
            other.apply(&event, None)?;
            other.finish(tool.retention);
        }
        let data = json!({ "by": self.id.as_str(), "state": other.operation.state.label() });
        other.note("replaced", Actor::Caller(self.caller.principal.clone()), data);
        let (operation, changes) = other.into_changes();
        Ok(Other { operation: Box::new(operation), evidence: changes.evidence })
    }

    /// What the new operation sees, once the place is taken.
    fn create(&self, snapshot: &Snapshot) -> Result<(Decided<PrepareReply>, Option<Snapshot>), Refusal> {
        self.caller.may_use(&self.tool)?;
        let (version, tool) = self.declared.get(&self.tool).ok_or(Refusal::UnknownTool)?;
        if !tool.serves(&self.caller.account) {
            return Err(Refusal::UnknownTool);
        }
        self.claimable(Some(tool), Some(tool))?;
        if let Some((KeyFormat::Raw, Some(most))) = tool.recovery.key_format()
            && self.id.as_str().len() > usize::try_from(most).unwrap_or(usize::MAX)
        {
            let why = format!("the operation ID is the key here, and longer than {most} bytes");
            return Err(Refusal::InvalidArguments(why));
        }
        // In the part of the ledger that was lost this ID may have been used: only a destination that recognises the
        // repeat makes another send harmless.
        if snapshot.restored && !tool.recovery.destination_dedupes() {
            return Err(Refusal::LedgerRestored);
        }
        let distinct_from = self.distinct(snapshot)?;
        let predecessor = self.predecessor(snapshot)?;
        let mut operation = self.operation(version, distinct_from, snapshot);
        if let Some(found) = predecessor {
            operation.inherits = waits::inherited(&found.operation, &snapshot.named, &found.subject_peers);
        }
        let blockers = guard::blockers(decide::candidate(&operation), &snapshot.peers);
        if !blockers.is_empty() && Safeguard::TaskGuardAtPrepare.stands() {
            return Err(Refusal::ActionUnresolved { blockers: blockers.into_iter().cloned().collect() });
        }
        let replaced = predecessor.map(|found| self.take_place(found, snapshot)).transpose()?;
        let mut seen = replaced.as_ref().map(|other| snapshot.with(Peer::from(&*other.operation)));
        if let (Some(seen), Some(found)) = (&mut seen, predecessor) {
            // Whoever held the former one's subject is waited for in this very commit, whatever this one is about.
            seen.know(&found.subject_peers);
        }
        let snapshot = seen.as_ref().unwrap_or(snapshot);
        let context = snapshot.context(&self.tool)?;
        let by = Actor::Caller(self.caller.principal.clone());
        let data = json!({
            "tool": self.tool.as_str(),
            "fingerprint": self.print().to_string(),
            "arguments_digest": digest(self.arguments.as_str()),
            "policy_version": version,
            "execute": self.execute,
            "replaces": self.replaces.as_ref().map(OperationId::as_str),
            "inherits": operation.inherits.iter().map(OperationId::as_str).collect::<Vec<_>>(),
        });
        let mut draft = Draft::new(operation, snapshot.now);
        draft.note("prepared", by.clone(), data);
        draft.changes.others.extend(replaced);
        for other in &self.distinct_from {
            let data = json!({ "operation": self.id.as_str(), "by_approver": self.caller.roles.approver });
            let evidence = EvidenceDraft { kind: "distinct", by: by.clone(), data };
            draft.changes.links.push(Link {
                id: other.clone(),
                noted: Noted::Distinct(self.caller.roles.approver),
                evidence,
            });
        }
        let begun = match (&self.offer, self.execute && !self.dry_run && !self.is_transaction()) {
            (Some(offer), true) => begin(&mut draft, snapshot, &context, offer, self.random)?,
            (Some(_) | None, _) => Begun::NotNow,
        };
        let (operation, mut changes) = draft.into_changes();
        if let (Begun::Started(_), Some(offer)) = (&begun, &self.offer) {
            changes.bucket = spend(offer, snapshot, &context.facts());
        }
        let view = snapshot.view_of(operation)?;
        Ok((Decided { changes, reply: PrepareReply { view, created: true, begun } }, seen))
    }

    /// Whether the worker that prepares in order to claim could be given the claim: a refusal stores nothing.
    fn claimable(&self, stored: Option<&Tool>, declared: Option<&Tool>) -> Result<(), Refusal> {
        let Some(claim) = self.offer.as_ref().and_then(|offer| offer.claim.as_ref()) else { return Ok(()) };
        self.caller.needs(Need::Worker)?;
        let declared = declared.ok_or(Refusal::UnknownTool)?;
        if stored.is_none_or(|tool| tool.worker().is_none()) {
            return Err(Refusal::NotAWorkerTool);
        }
        match claim.stated.differs(declared) {
            differs if differs.is_empty() => Ok(()),
            differs => Err(Refusal::DeclarationMismatch { differs }),
        }
    }

    fn is_transaction(&self) -> bool {
        self.declared.get(&self.tool).is_some_and(|(_, tool)| tool.recovery == Recovery::Transaction)
    }

    fn operation(&self, version: u32, distinct_from: Vec<Distinct>, snapshot: &Snapshot) -> Operation {
        Operation {
            account: self.caller.account.clone(),
            id: self.id.clone(),
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            fingerprint: self.print(),
            action: self.action(),
            task: self.task.clone(),
            subject: self.subject.clone(),
            replaces: self.replaces.clone(),
            inherits: Vec::new(),
            replaced_by: None,
            overtaken: false,
            distinct_declared: self.distinct_from.clone(),
            distinct_from,
            accepted_by: self.accepted_by.clone(),
            prepared_by: self.caller.principal.clone(),
            policy_version: version,
            wish: self.execute,
            state: State::Prepared(Waiting::default()),
            fence: FencingToken::default(),
            attempts: Vec::new(),
            earlier_keys: 0,
            look_ups: Vec::new(),
            investigation: None,
            asks: self.declared.get(&self.tool).is_some_and(|(_, tool)| tool.asks_for(&self.arguments)),
            another_allowed: false,
            contradiction: None,
            remind_at: None,
            approval: None,
            blocked_by: Vec::new(),
            acknowledged: Vec::new(),
            key_generation: 1,
            duplicate_suspected: false,
            released: None,
            version: 0,
            created_at: snapshot.now,
            updated_at: snapshot.now,
            receipt_expires_at: None,
        }
    }
}

impl Verb for Prepare {
    type Reply = PrepareReply;

    fn needs(&self) -> Needs<'_> {
        Needs {
            account: &self.caller.account,
            id: &self.id,
            action: Some((&self.tool, self.action())),
            arguments: Some(&self.arguments),
            peers: true,
            named: &self.distinct_from,
            replaces: self.replaces.as_ref(),
            subject: self.subject.as_ref(),
            scope: self.offer.as_ref().and_then(|offer| offer.scope.as_deref()),
            bucket: self.offer.as_ref().and_then(|offer| offer.bucket.as_deref()),
            event: None,
        }
    }

    fn subject(&self) -> (&Account, &OperationId) {
        (&self.caller.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<PrepareReply>, Refusal> {
        Ok(self.decide_and_see(snapshot)?.0)
    }
}

impl Prepare {
    /// The decision, and what its operation sees where the decision itself changed that.
    pub(super) fn decide_and_see(
        &self,
        snapshot: &Snapshot,
    ) -> Result<(Decided<PrepareReply>, Option<Snapshot>), Refusal> {
        self.caller.needs(Need::Agent)?;
        let (mut decided, seen) = match &snapshot.existing {
            Existing::Nothing => self.create(snapshot),
            Existing::Operation(operation) => Ok((self.existing(snapshot, operation)?, None)),
            Existing::Tombstone(_) if !Safeguard::Tombstone.stands() => self.create(snapshot),
            Existing::Tombstone(grave) => {
                self.caller.may_use(&grave.tool)?;
                self.caller.may_use(&self.tool)?;
                Err(Refusal::ReceiptExpired { stage: grave.stage })
            }
        }?;
        if self.dry_run {
            decided.changes = Changes::default();
        }
        Ok((decided, seen))
    }
}

fn sorted(ids: &[OperationId]) -> Vec<&OperationId> {
    let mut ids: Vec<&OperationId> = ids.iter().collect();
    ids.sort();
    ids.dedup();
    ids
}

/// The digest by which evidence covers a payload.
pub(super) fn digest(text: &str) -> String {
    use sha2::Digest as _;
    format!("sha256:{}", crate::hex::encode(&sha2::Sha256::digest(text.as_bytes())))
}
