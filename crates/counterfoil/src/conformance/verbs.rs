//! The suite's own verbs.

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::BucketLevel;
use crate::error::Refusal;
use crate::fingerprint::{Arguments, Fingerprint};
use crate::id::{Account, FencingToken, OperationId, Principal, Task, ToolName};
use crate::operation::{Attempt, Distinct, Operation};
use crate::policy::Tool;
use crate::snapshot::{
    Actor, Changes, Decided, Declarations, EvidenceDraft, Existing, Link, Needs, Noted, PauseDraft,
    RefusalCount, Snapshot, Verb, Write,
};
use crate::state::{State, Waiting};
use crate::time::Timestamp;

/// A tool whose effect is rows in the ledger's own database.
#[must_use]
pub fn tool(name: &str) -> Tool {
    Tool::in_transaction(ToolName::parse(name).unwrap())
}

/// A line of evidence.
pub(super) fn note(kind: &'static str) -> EvidenceDraft {
    EvidenceDraft {
        kind,
        by: Actor::Caller(Principal::parse("cook").unwrap()),
        data: serde_json::json!({ "kind": kind, "of": 1 }),
    }
}

/// Inserts an operation unless its ID is used; says whether it was new.
#[derive(Clone, Debug)]
pub struct Insert {
    /// Whose.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// Its tool.
    pub tool: ToolName,
    /// Its arguments.
    pub arguments: Arguments,
    /// Its task.
    pub task: Option<Task>,
    /// Whether it shall run.
    pub wish: bool,
    /// Operations that it is declared distinct from.
    pub distinct_from: Vec<OperationId>,
    /// The declarations.
    pub declared: Arc<Declarations>,
}

impl Insert {
    /// An operation of the tool `t.one`.
    #[must_use]
    pub fn new(account: &Account, id: &str, declared: &Arc<Declarations>) -> Self {
        Self {
            account: account.clone(),
            id: OperationId::parse(id).unwrap(),
            tool: ToolName::parse("t.one").unwrap(),
            arguments: Arguments::parse(br#"{"item": "flour", "kg": 25}"#).unwrap(),
            task: None,
            wish: true,
            distinct_from: Vec::new(),
            declared: declared.clone(),
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        self.arguments.fingerprint(self.tool.as_str(), &[])
    }
}

impl Verb for Insert {
    type Reply = bool;

    fn needs(&self) -> Needs<'_> {
        Needs {
            account: &self.account,
            id: &self.id,
            action: Some((&self.tool, self.fingerprint())),
            arguments: Some(&self.arguments),
            peers: true,
            named: &self.distinct_from,
            replaces: None,
            subject: None,
            scope: None,
            bucket: None,
            event: None,
        }
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<bool>, Refusal> {
        match &snapshot.existing {
            Existing::Operation(_) => return Ok(Decided::reply(false)),
            Existing::Tombstone(grave) => return Err(Refusal::ReceiptExpired { stage: grave.stage }),
            Existing::Nothing if snapshot.restored => return Err(Refusal::LedgerRestored),
            Existing::Nothing => {}
        }
        let (policy_version, _) = self.declared.get(&self.tool).ok_or(Refusal::UnknownTool)?;
        let operation = Operation {
            account: self.account.clone(),
            id: self.id.clone(),
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            fingerprint: self.fingerprint(),
            action: self.fingerprint(),
            task: self.task.clone(),
            distinct_declared: self.distinct_from.clone(),
            distinct_from: self.named().collect(),
            accepted_by: Some(r#"{"by": "cook"}"#.to_owned()),
            prepared_by: Principal::parse("cook").unwrap(),
            policy_version,
            wish: self.wish,
            state: State::Prepared(Waiting::default()),
            fence: FencingToken::default(),
            attempts: Vec::new(),
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
            subject: None,
            replaces: None,
            inherits: Vec::new(),
            replaced_by: None,
            overtaken: false,
            earlier_keys: 0,
            look_ups: Vec::new(),
            investigation: None,
            asks: false,
            another_allowed: false,
            contradiction: None,
            remind_at: None,
        };
        let links = self.distinct_from.iter().map(|id| Link {
            id: id.clone(),
            noted: Noted::Distinct(false),
            evidence: note("distinct_declared"),
        });
        let changes = Changes {
            operation: Some(Write::Insert(Box::new(operation))),
            evidence: vec![note("prepared")],
            links: links.collect(),
            ..Changes::default()
        };
        Ok(Decided { changes, reply: true })
    }
}

impl Insert {
    fn named(&self) -> impl Iterator<Item = Distinct> + '_ {
        self.distinct_from.iter().map(|id| Distinct { id: id.clone(), by_approver: false })
    }
}

type Edit = Box<dyn Fn(&mut Operation, Timestamp) + Send>;

/// Changes an operation as a test says.
pub struct Update {
    account: Account,
    id: OperationId,
    declared: Arc<Declarations>,
    edit: Edit,
}

impl std::fmt::Debug for Update {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Update").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Update {
    /// The change that `edit` makes.
    pub fn new(
        account: &Account,
        id: &str,
        declared: &Arc<Declarations>,
        edit: impl Fn(&mut Operation, Timestamp) + Send + 'static,
    ) -> Self {
        Self {
            account: account.clone(),
            id: OperationId::parse(id).unwrap(),
            declared: declared.clone(),
            edit: Box::new(edit),
        }
    }
}

impl Verb for Update {
    type Reply = u64;

    fn needs(&self) -> Needs<'_> {
        Needs::of(&self.account, &self.id)
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<u64>, Refusal> {
        let mut operation = snapshot.operation()?.clone();
        (self.edit)(&mut operation, snapshot.now);
        let reply = operation.version + 1;
        let changes = Changes {
            operation: Some(Write::Update(Box::new(operation))),
            evidence: vec![note("changed")],
            ..Changes::default()
        };
        Ok(Decided { changes, reply })
    }
}

/// Appends evidence, and whatever else a test wants written beside it; gives back what it saw.
#[derive(Clone, Debug)]
pub struct Append {
    /// Whose.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// How many rows.
    pub rows: usize,
    /// The scope.
    pub scope: Option<String>,
    /// The bucket, and how full it is to be.
    pub bucket: Option<(String, u64)>,
    /// The count of refusals that is to be kept.
    pub refusals: Option<u32>,
    /// The pause that is to begin.
    pub pause: Option<PauseDraft>,
    /// The declarations.
    pub declared: Arc<Declarations>,
}

impl Append {
    /// `rows` rows and nothing else.
    #[must_use]
    pub fn new(account: &Account, id: &str, rows: usize, declared: &Arc<Declarations>) -> Self {
        Self {
            account: account.clone(),
            id: OperationId::parse(id).unwrap(),
            rows,
            scope: None,
            bucket: None,
            refusals: None,
            pause: None,
            declared: declared.clone(),
        }
    }
}

impl Verb for Append {
    type Reply = Snapshot;

    fn needs(&self) -> Needs<'_> {
        Needs {
            account: &self.account,
            id: &self.id,
            action: None,
            arguments: None,
            peers: true,
            named: &[],
            replaces: None,
            subject: None,
            scope: self.scope.as_deref(),
            bucket: self.bucket.as_ref().map(|(name, _)| name.as_str()),
            event: None,
        }
    }

    fn declared(&self) -> Arc<Declarations> {
        self.declared.clone()
    }

    fn decide(&self, snapshot: &Snapshot) -> Result<Decided<Snapshot>, Refusal> {
        let operation = snapshot.operation()?;
        let refusals = self.refusals.zip(self.scope.clone()).map(|(count, scope)| RefusalCount {
            tool: operation.tool.clone(),
            scope,
            count,
        });
        let level = |level: u64| BucketLevel { level, at: snapshot.now };
        let changes = Changes {
            evidence: (0..self.rows).map(|_| note("seen")).collect(),
            bucket: self.bucket.clone().map(|(name, units)| (name, level(units))),
            refusals,
            pause: self.pause.clone(),
            ..Changes::default()
        };
        Ok(Decided { changes, reply: snapshot.clone() })
    }
}

/// An attempt that runs.
pub(super) fn attempt(number: u32, key: Option<&str>, now: Timestamp) -> Attempt {
    Attempt {
        number,
        worker: crate::id::WorkerName::parse("w1").unwrap(),
        fence: FencingToken(u64::from(number)),
        held_by: None,
        looked_up_by: Vec::new(),
        started_at: now,
        send_before: now.plus(Duration::from_secs(15)),
        lingers_until: None,
        ended_at: None,
        outcome: None,
        settled: false,
        counts: true,
        marker: None,
        status: None,
        error: None,
        duplicate_of_ours: false,
        key: key.map(str::to_owned),
        scope: None,
        request_digest: String::new(),
    }
}
