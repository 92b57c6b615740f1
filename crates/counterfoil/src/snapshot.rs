//! What a verb may look at, and what it wants written. The store loads the one and writes the other, in one commit;
//! between them stands a pure decision.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::BucketLevel;
use crate::caller::Caller;
use crate::decide::{Context, NextStep, PauseReason, next_step};
use crate::error::Refusal;
use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::{Peer, Stage};
use crate::id::{Account, OperationId, Principal, Subject, ToolName};
use crate::operation::{Distinct, Operation};
use crate::policy::Tool;
use crate::state::State;
use crate::time::Timestamp;

/// The tools that are declared now, each with the version under which its declaration is stored.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    tools: HashMap<ToolName, (u32, Arc<Tool>)>,
}

impl Declarations {
    /// Declarations with their stored versions.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = (u32, Arc<Tool>)>) -> Self {
        Self {
            tools: tools.into_iter().map(|(version, tool)| (tool.name.clone(), (version, tool))).collect(),
        }
    }

    /// The declaration of one tool.
    #[must_use]
    pub fn get(&self, name: &ToolName) -> Option<(u32, &Arc<Tool>)> {
        self.tools.get(name).map(|(version, tool)| (*version, tool))
    }

    /// Every declaration, by name.
    #[must_use]
    pub fn all(&self) -> Vec<(u32, Arc<Tool>)> {
        let mut all: Vec<_> = self.tools.values().cloned().collect();
        all.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        all
    }
}

/// What the store must load for a verb.
#[derive(Clone, Debug)]
pub struct Needs<'a> {
    /// Whose operation.
    pub account: &'a Account,
    /// Which one.
    pub id: &'a OperationId,
    /// The action to look for peers of, where the operation may not exist yet.
    pub action: Option<(&'a ToolName, Fingerprint)>,
    /// The arguments that make it this action: where the declaration of what makes an action the same changed, peers
    /// are compared anew.
    pub arguments: Option<&'a Arguments>,
    /// Whether unresolved peers with the same action matter.
    pub peers: bool,
    /// Other operations that are named.
    pub named: &'a [OperationId],
    /// The operation whose place is taken: it is needed whole, with what it waits for.
    pub replaces: Option<&'a OperationId>,
    /// The subject to look for holders of, where the operation may not exist yet.
    pub subject: Option<&'a Subject>,
    /// The scope of the credential that a send would use. Where none is named, pauses and credential refusals are
    /// those of the scope that the operation's last attempt was made under.
    pub scope: Option<&'a str>,
    /// The token bucket that a send would use.
    pub bucket: Option<&'a str>,
    /// The event of a webhook: whether the operation has heard of it before, and how many it has heard of.
    pub event: Option<&'a str>,
}

impl<'a> Needs<'a> {
    /// The operation alone.
    #[must_use]
    pub fn of(account: &'a Account, id: &'a OperationId) -> Self {
        Self {
            account,
            id,
            action: None,
            arguments: None,
            peers: false,
            named: &[],
            replaces: None,
            subject: None,
            scope: None,
            bucket: None,
            event: None,
        }
    }
}

/// What is left of an operation after its retention, as far as a verb may look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grave {
    /// The state that it ended in.
    pub stage: Stage,
    /// Its tool.
    pub tool: ToolName,
}

/// What the ledger holds about an ID.
#[derive(Clone, Debug)]
pub enum Existing {
    /// Nothing.
    Nothing,
    /// The operation.
    Operation(Box<Operation>),
    /// What is left after retention.
    Tombstone(Grave),
}

/// What an operation has heard from its destination by webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Webhooks {
    /// How many webhooks stand in its evidence.
    pub kept: u64,
    /// Whether the event in question is one of them.
    pub this_one: bool,
}

/// The operation whose place is taken.
#[derive(Clone, Debug)]
pub struct Predecessor {
    /// The operation.
    pub operation: Operation,
    /// The declaration that it was prepared under.
    pub stored: Option<Arc<Tool>>,
    /// Operations with its subject that hold it, or succeeded since it was prepared.
    pub subject_peers: Vec<Peer>,
}

/// What a verb may look at: one consistent read inside the commit that it will be part of.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Store time.
    pub now: Timestamp,
    /// The operation itself.
    pub existing: Existing,
    /// The declaration that it was prepared under.
    pub stored: Option<Arc<Tool>>,
    /// The declarations in force.
    pub declared: Arc<Declarations>,
    /// Unresolved operations with the same action.
    pub peers: Vec<Peer>,
    /// The named operations, those that held a start back, those that this one replaces or inherits, and the chain of
    /// those that replace it.
    pub named: Vec<Peer>,
    /// Operations with the same subject that hold it, or succeeded since this one was prepared.
    pub subject_peers: Vec<Peer>,
    /// The operation whose place is taken.
    pub predecessor: Option<Box<Predecessor>>,
    /// Why sends of the tool stand still, under the scope in question.
    pub paused: Option<PauseReason>,
    /// How long the tool was paused since the operation's first attempt.
    pub paused_for: Duration,
    /// Credential refusals in a row under the scope in question.
    pub refusals: u32,
    /// How full the bucket is.
    pub bucket: Option<BucketLevel>,
    /// What the operation has heard from its destination, where that was asked for.
    pub webhooks: Webhooks,
    /// Whether the ledger is older than its mark: IDs that it does not know may have been used.
    pub restored: bool,
}

impl Snapshot {
    /// The operation, as long as its receipt is kept.
    ///
    /// # Errors
    /// [`Refusal::UnknownOperation`] or [`Refusal::ReceiptExpired`]; [`Refusal::LedgerRestored`] where the operation may
    /// have been in the part of the ledger that was lost: nobody is told that it was never prepared.
    pub fn operation(&self) -> Result<&Operation, Refusal> {
        match &self.existing {
            Existing::Nothing => Err(self.missing()),
            Existing::Tombstone(grave) => Err(Refusal::ReceiptExpired { stage: grave.stage }),
            Existing::Operation(operation) => match operation.receipt_expires_at {
                // Purged yet or not: from this instant on every answer is the same.
                Some(end) if self.now >= end => {
                    Err(Refusal::ReceiptExpired { stage: Peer::from(&**operation).stage })
                }
                Some(_) | None => Ok(operation),
            },
        }
    }

    /// The operation as long as it is kept, also past its retention: what a sender or a destination knows is never
    /// thrown away.
    ///
    /// # Errors
    /// [`Refusal::UnknownOperation`] or [`Refusal::ReceiptExpired`].
    pub fn kept_operation(&self) -> Result<&Operation, Refusal> {
        match &self.existing {
            Existing::Operation(operation) => Ok(operation),
            Existing::Nothing => Err(Refusal::UnknownOperation),
            Existing::Tombstone(grave) => Err(Refusal::ReceiptExpired { stage: grave.stage }),
        }
    }

    /// The same, with another operation as it is from now on.
    #[must_use]
    pub(crate) fn with(&self, changed: Peer) -> Self {
        let mut after = self.clone();
        for peers in [&mut after.named, &mut after.peers, &mut after.subject_peers] {
            for peer in peers.iter_mut().filter(|peer| peer.id == changed.id) {
                *peer = changed.clone();
            }
        }
        after
    }

    /// Other operations that the operation names from now on.
    pub(crate) fn know(&mut self, peers: &[Peer]) {
        for peer in peers {
            if !self.named.iter().any(|known| known.id == peer.id) {
                self.named.push(peer.clone());
            }
        }
    }

    /// What an ID that the ledger does not know is answered with.
    #[must_use]
    pub fn missing(&self) -> Refusal {
        if self.restored { Refusal::LedgerRestored } else { Refusal::UnknownOperation }
    }

    /// [`Snapshot::missing`], for an operation that a call names beside its own.
    #[must_use]
    pub fn missing_named(&self, id: &OperationId) -> Refusal {
        if self.restored { Refusal::LedgerRestored } else { Refusal::UnknownNamed { id: id.clone() } }
    }

    /// [`Snapshot::operation`] for somebody who must be allowed to use its tool: who is not learns nothing of it, also
    /// not how it ended.
    ///
    /// # Errors
    /// [`Refusal::ToolForbidden`], or as [`Snapshot::operation`].
    pub fn operation_for(&self, caller: &Caller) -> Result<&Operation, Refusal> {
        match &self.existing {
            Existing::Operation(operation) => caller.may_use(&operation.tool)?,
            Existing::Tombstone(grave) => caller.may_use(&grave.tool)?,
            Existing::Nothing => {}
        }
        self.operation()
    }

    /// The surroundings of `operation`.
    ///
    /// # Errors
    /// [`Refusal::UnknownTool`] where the stored declaration is missing, which only a damaged ledger can show.
    pub fn context<'a>(&'a self, tool: &ToolName) -> Result<Context<'a>, Refusal> {
        let declared = self.declared.get(tool).map(|(version, tool)| (version, &**tool));
        // To an account that the tool was taken from it is no longer declared.
        let current = declared.filter(|(_, tool)| match &self.existing {
            Existing::Operation(operation) => tool.serves(&operation.account),
            Existing::Nothing | Existing::Tombstone(_) => true,
        });
        let stored = self.stored.as_deref().or(declared.map(|(_, tool)| tool)).ok_or(Refusal::UnknownTool)?;
        Ok(Context {
            now: self.now,
            stored,
            current,
            paused: self.paused,
            paused_for: self.paused_for,
            holders: &self.named,
            about: &self.subject_peers,
        })
    }

    /// The operation with its `next`.
    ///
    /// # Errors
    /// As [`Snapshot::operation`] and [`Snapshot::context`].
    pub fn view(&self) -> Result<View, Refusal> {
        let operation = self.operation()?;
        self.view_of(operation.clone())
    }

    /// What happens next to `operation`, seen from here.
    ///
    /// # Errors
    /// As [`Snapshot::context`].
    pub fn next_of(&self, operation: &Operation) -> Result<NextStep, Refusal> {
        let tool = self.bound_tool(operation)?;
        Ok(next_step(operation, &Context { stored: tool, ..self.context(&operation.tool)? }))
    }

    /// The declaration that an operation is bound to. An approval may have bound it to the one in force.
    fn bound_tool(&self, operation: &Operation) -> Result<&Arc<Tool>, Refusal> {
        let current = self.declared.get(&operation.tool);
        let bound = current.filter(|(version, _)| *version == operation.policy_version).map(|(_, tool)| tool);
        bound.or(self.stored.as_ref()).or(current.map(|(_, tool)| tool)).ok_or(Refusal::UnknownTool)
    }

    /// `operation` with its `next`, seen from here.
    ///
    /// # Errors
    /// As [`Snapshot::context`].
    pub fn view_of(&self, operation: Operation) -> Result<View, Refusal> {
        let tool = self.bound_tool(&operation)?.clone();
        let context = Context { stored: &tool, ..self.context(&operation.tool)? };
        let next = next_step(&operation, &context);
        let facts = context.facts();
        let sendable = !operation.state.is_final() && next.action != crate::decide::Action::Review;
        let send_allowed_until =
            facts.recovery.send_allowed_until(operation.attempts_under_key()).filter(|_| sendable);
        let approval_required = crate::decide::asks(&operation, &facts);
        drop(facts);
        let (replayed, states_only) = (false, false);
        Ok(View { operation, next, send_allowed_until, approval_required, tool, replayed, states_only })
    }
}

/// An operation as it is now, with what happens next.
#[derive(Clone, Debug)]
pub struct View {
    /// The operation.
    pub operation: Operation,
    /// What happens next.
    pub next: NextStep,
    /// Until when the destination's memory of the key covers another send, while another one may come at all.
    pub send_allowed_until: Option<Timestamp>,
    /// Whether an approval is needed.
    pub approval_required: bool,
    /// The declaration that it was prepared under.
    pub tool: Arc<Tool>,
    /// Whether it was final when the call arrived.
    pub replayed: bool,
    /// Whether the caller may see how it stands, and neither arguments nor receipts nor decisions.
    pub states_only: bool,
}

impl View {
    /// Whether only a person can move it.
    #[must_use]
    pub fn held(&self) -> bool {
        let open = match self.operation.state {
            State::Prepared(_) | State::Unknown(_) => true,
            State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => false,
        };
        open && self.next.action == crate::decide::Action::Review
    }

    /// Whether waiting longer is of no use to a caller: it is final, or nothing happens to it by itself for now.
    #[must_use]
    pub fn ends_wait(&self, now: Timestamp) -> bool {
        self.operation.state.is_final()
            || self.next.action.waits_for_somebody()
            || self.next.at.is_none() && self.next.action != crate::decide::Action::Wait
            || self.only_lingers(now)
    }

    /// Whether all that may still come by itself is a late answer.
    fn only_lingers(&self, now: Timestamp) -> bool {
        let lingers = crate::decide::lingers_until(&self.operation, now);
        match &self.operation.state {
            State::Unknown(open) => lingers.is_some() && open.not_before == lingers,
            State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => false,
        }
    }
}

/// What a verb wants written, in one commit with everything else of it.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The operation.
    pub operation: Option<Write>,
    /// What was seen, and what followed, oldest first.
    pub evidence: Vec<EvidenceDraft>,
    /// What is noted on other operations: the other side of a declared difference, and who was overtaken. Written after
    /// `others`.
    pub links: Vec<Link>,
    /// Other operations that change with it.
    pub others: Vec<Other>,
    /// The bucket after a send was taken from it.
    pub bucket: Option<(String, BucketLevel)>,
    /// Credential refusals in a row under a scope.
    pub refusals: Option<RefusalCount>,
    /// A pause that begins.
    pub pause: Option<PauseDraft>,
    /// When the operation is looked at again although nothing of it changed: its standing wish waits for another one.
    pub look_again: Option<Timestamp>,
}

/// Another operation of the account that changes in the same commit: the one whose place is taken.
#[derive(Clone, Debug)]
pub struct Other {
    /// As it is from now on.
    pub operation: Box<Operation>,
    /// Its evidence.
    pub evidence: Vec<EvidenceDraft>,
}

/// How the operation's row is written.
#[derive(Clone, Debug)]
pub enum Write {
    /// A new row; the unique key decides between racing creators.
    Insert(Box<Operation>),
    /// The row as it was loaded is replaced; the store checks that its version is still the loaded one.
    Update(Box<Operation>),
}

/// One row of evidence before the store gives it its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceDraft {
    /// What kind of thing was seen; a stable word.
    pub kind: &'static str,
    /// Who brings it.
    pub by: Actor,
    /// Details as one JSON object. Payloads are covered by digest, so that purging them leaves the chain verifiable.
    pub data: serde_json::Value,
}

/// Who brings evidence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// An authenticated caller.
    Caller(Principal),
    /// A worker or a node.
    Worker(String),
    /// The destination of a tool, by webhook.
    Destination(ToolName),
    /// The ledger's own rules, as time passes.
    Rule,
}

impl Actor {
    /// The kind as it is stored and shown.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Caller(_) => "caller",
            Self::Worker(_) => "worker",
            Self::Destination(_) => "destination",
            Self::Rule => "rule",
        }
    }

    /// The name as it is stored and shown.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Caller(principal) => principal.as_str(),
            Self::Worker(name) => name,
            Self::Destination(tool) => tool.as_str(),
            Self::Rule => "counterfoil",
        }
    }
}

/// What is noted on another operation.
#[derive(Clone, Debug)]
pub struct Link {
    /// The other operation.
    pub id: OperationId,
    /// What.
    pub noted: Noted,
    /// Its evidence.
    pub evidence: EvidenceDraft,
}

/// What may be noted on another operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// This one was declared distinct from it; `true` where an approver said so.
    Distinct(bool),
    /// This one was started past it.
    Overtaken,
}

impl Noted {
    /// Writes it down on `other`; `false` where that says nothing new.
    #[must_use]
    pub fn on(self, other: &mut Operation, from: &OperationId) -> bool {
        match self {
            Self::Distinct(by_approver) => {
                match other.distinct_from.iter_mut().find(|distinct| distinct.id == *from) {
                    Some(known) => known.by_approver |= by_approver,
                    None => other.distinct_from.push(Distinct { id: from.clone(), by_approver }),
                }
                true
            }
            Self::Overtaken => !std::mem::replace(&mut other.overtaken, true),
        }
    }
}

/// A count of credential refusals.
#[derive(Clone, Debug)]
pub struct RefusalCount {
    /// The tool.
    pub tool: ToolName,
    /// The scope.
    pub scope: String,
    /// How many in a row.
    pub count: u32,
}

/// A pause that begins. It lies in the ledger, and only a resume ends it.
#[derive(Clone, Debug)]
pub struct PauseDraft {
    /// The tool; `None` means everything.
    pub tool: Option<ToolName>,
    /// Only sends under this scope; `None` means all.
    pub scope: Option<String>,
    /// Who.
    pub by: String,
    /// Why.
    pub note: String,
}

/// A decision: what is written, and what the caller is told once that is durable.
#[derive(Clone, Debug)]
pub struct Decided<R> {
    /// What is written.
    pub changes: Changes,
    /// What the caller is told.
    pub reply: R,
}

impl<R> Decided<R> {
    /// Nothing is written.
    pub fn reply(reply: R) -> Self {
        Self { changes: Changes::default(), reply }
    }
}

/// One thing that can be asked of the ledger: what it must see, and a pure decision over that.
pub trait Verb: Send + 'static {
    /// What the caller is told.
    type Reply: Send + 'static;

    /// What the store must load.
    fn needs(&self) -> Needs<'_>;

    /// Which operation it is about.
    fn subject(&self) -> (&Account, &OperationId) {
        let needs = self.needs();
        (needs.account, needs.id)
    }

    /// The declarations that the caller knew.
    fn declared(&self) -> Arc<Declarations>;

    /// Decides. It is called inside the commit, and again where the commit had to be replayed.
    ///
    /// # Errors
    /// A refusal writes nothing.
    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<Self::Reply>, Refusal>;
}
