//! The acceptance of an action: its identity and exact arguments are kept before anything else happens.

use std::sync::{Arc, OnceLock};

use serde_json::json;

use super::draft::Draft;
use super::start::{Begun, Offer, begin, spend};
use crate::caller::{Caller, Need};
use crate::error::Refusal;
use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::{self, Candidate, Peer, Stage};
use crate::id::{Account, FencingToken, OperationId, Task, ToolName};
use crate::keys::KeyFormat;
use crate::operation::{Distinct, Operation};
use crate::pointer::Pointer;
use crate::policy::Tool;
use crate::recovery::Recovery;
use crate::safeguard::Safeguard;
use crate::snapshot::{
    Actor, Changes, Decided, Declarations, EvidenceDraft, Existing, Link, Needs, Snapshot, Verb, View,
};
use crate::state::{State, Waiting};

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
                let peer =
                    snapshot.named.iter().find(|peer| peer.id == *id).ok_or_else(|| snapshot.missing())?;
                let allowed = by_approver || peer.released || peer.stage == Stage::InProgress;
                match allowed {
                    true => Ok(Distinct { id: id.clone(), by_approver }),
                    false => Err(Refusal::DistinctForbidden { id: id.clone(), stage: peer.stage }),
                }
            })
            .collect()
    }

    fn create(&self, snapshot: &Snapshot) -> Result<Decided<PrepareReply>, Refusal> {
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
        let candidate = Candidate {
            id: &self.id,
            task: self.task.as_ref(),
            distinct_from: &distinct_from,
            settled_since: None,
        };
        let blockers = guard::blockers(candidate, &snapshot.peers);
        if !blockers.is_empty() && Safeguard::TaskGuardAtPrepare.stands() {
            return Err(Refusal::ActionUnresolved { blockers: blockers.into_iter().cloned().collect() });
        }
        let operation = self.operation(version, distinct_from, snapshot);
        let context = snapshot.context(&self.tool)?;
        let mut draft = Draft::new(operation, snapshot.now);
        let by = Actor::Caller(self.caller.principal.clone());
        let data = json!({
            "tool": self.tool.as_str(),
            "fingerprint": self.print().to_string(),
            "arguments_digest": digest(self.arguments.as_str()),
            "policy_version": version,
            "execute": self.execute,
        });
        draft.note("prepared", by.clone(), data);
        for other in &self.distinct_from {
            let data = json!({ "operation": self.id.as_str(), "by_approver": self.caller.roles.approver });
            let evidence = EvidenceDraft { kind: "distinct", by: by.clone(), data };
            draft.changes.links.push(Link {
                id: other.clone(),
                by_approver: self.caller.roles.approver,
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
        Ok(Decided { changes, reply: PrepareReply { view, created: true, begun } })
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
            subject: None,
            replaces: None,
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
            whole: None,
            subject: None,
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
        self.caller.needs(Need::Agent)?;
        let mut decided = match &snapshot.existing {
            Existing::Nothing => self.create(snapshot),
            Existing::Operation(operation) => self.existing(snapshot, operation),
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
        Ok(decided)
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
