//! An operation as cells: columns for what is queried, JSON for the rest.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::failure::Failure;
use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::{Peer, Stage};
use crate::id::{Account, FencingToken, OperationId, Principal, Subject, Task, ToolName};
use crate::operation::{
    Approval, Attempt, Body, Claim, Decision, Distinct, LookUp, Operation, Receipt, RejectionCode,
};
use crate::policy::Tool;
use crate::state::State;
use crate::time::Timestamp;

/// What has no column of its own.
#[derive(Serialize, Deserialize)]
struct Rest<'a> {
    #[serde(default, skip_serializing_if = "is_none")]
    replaces: Cow<'a, Option<OperationId>>,
    #[serde(default, skip_serializing_if = "is_empty")]
    inherits: Cow<'a, [OperationId]>,
    #[serde(default, skip_serializing_if = "is_none")]
    replaced_by: Cow<'a, Option<OperationId>>,
    #[serde(default, skip_serializing_if = "not")]
    overtaken: bool,
    #[serde(default)]
    earlier_keys: u32,
    #[serde(default, skip_serializing_if = "is_empty")]
    look_ups: Cow<'a, [LookUp]>,
    #[serde(default, skip_serializing_if = "is_none")]
    investigation: Cow<'a, Option<Claim>>,
    #[serde(default, skip_serializing_if = "not")]
    asks: bool,
    #[serde(default, skip_serializing_if = "not")]
    another_allowed: bool,
    #[serde(default, skip_serializing_if = "is_none")]
    contradiction: Cow<'a, Option<Receipt>>,
    #[serde(default)]
    remind_at: Option<Timestamp>,
    distinct_declared: Cow<'a, [OperationId]>,
    distinct_from: Cow<'a, [Distinct]>,
    accepted_by: Cow<'a, Option<String>>,
    prepared_by: Cow<'a, Principal>,
    state: Cow<'a, State>,
    fence: FencingToken,
    attempts: Cow<'a, [Attempt]>,
    approval: Cow<'a, Option<Approval>>,
    blocked_by: Cow<'a, [OperationId]>,
    acknowledged: Cow<'a, [OperationId]>,
    key_generation: u32,
    duplicate_suspected: bool,
    released: Cow<'a, Option<Decision>>,
}

#[allow(clippy::ptr_arg, reason = "the signature that serde asks for")]
fn is_none<T: Clone>(value: &Cow<'_, Option<T>>) -> bool {
    value.is_none()
}

#[allow(clippy::ptr_arg, reason = "the signature that serde asks for")]
fn is_empty<T: Clone>(list: &Cow<'_, [T]>) -> bool {
    list.is_empty()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn not(flag: &bool) -> bool {
    !*flag
}

/// An operation cut into its columns.
pub(super) struct Cells<'a> {
    /// What has no column of its own, one JSON object.
    pub(super) body: String,
    /// The body of the receipt.
    pub(super) result: Option<String>,
    /// The receipt's reference.
    pub(super) reference: Option<&'a str>,
    /// Whether it waits for a person.
    pub(super) held: bool,
    /// Whether it stands in others' way: unresolved, or released while nobody knows whether it worked.
    pub(super) open: bool,
    /// When it succeeded.
    pub(super) succeeded_at: Option<Timestamp>,
    /// As what it was rejected.
    pub(super) rejected_as: Option<&'static str>,
    /// Its state.
    pub(super) stage: Stage,
}

/// Cuts it.
pub(super) fn cells(operation: &Operation) -> Result<Cells<'_>, Failure> {
    // Named field by field, so that a new field of an operation cannot be forgotten here.
    let Operation {
        account: _,
        id: _,
        tool: _,
        arguments: _,
        fingerprint: _,
        action: _,
        task: _,
        subject: _,
        replaces,
        inherits,
        replaced_by,
        overtaken,
        earlier_keys,
        look_ups,
        investigation,
        asks,
        another_allowed,
        contradiction,
        remind_at,
        distinct_declared,
        distinct_from,
        accepted_by,
        prepared_by,
        policy_version: _,
        wish: _,
        state,
        fence,
        attempts,
        approval,
        blocked_by,
        acknowledged,
        key_generation,
        duplicate_suspected,
        released,
        version: _,
        created_at: _,
        updated_at: _,
        receipt_expires_at: _,
    } = operation;
    let (lean, result) = split(state);
    let rest = Rest {
        replaces: Cow::Borrowed(replaces),
        inherits: Cow::Borrowed(inherits),
        replaced_by: Cow::Borrowed(replaced_by),
        overtaken: *overtaken,
        earlier_keys: *earlier_keys,
        look_ups: Cow::Borrowed(look_ups),
        investigation: Cow::Borrowed(investigation),
        asks: *asks,
        another_allowed: *another_allowed,
        contradiction: Cow::Borrowed(contradiction),
        remind_at: *remind_at,
        distinct_declared: Cow::Borrowed(distinct_declared),
        distinct_from: Cow::Borrowed(distinct_from),
        accepted_by: Cow::Borrowed(accepted_by),
        prepared_by: Cow::Borrowed(prepared_by),
        state: lean,
        fence: *fence,
        attempts: Cow::Borrowed(attempts),
        approval: Cow::Borrowed(approval),
        blocked_by: Cow::Borrowed(blocked_by),
        acknowledged: Cow::Borrowed(acknowledged),
        key_generation: *key_generation,
        duplicate_suspected: *duplicate_suspected,
        released: Cow::Borrowed(released),
    };
    let peer = Peer::from(operation);
    Ok(Cells {
        body: serde_json::to_string(&rest)?,
        result: result.map(serde_json::to_string).transpose()?,
        reference: state.receipt().and_then(|receipt| receipt.reference.as_deref()),
        held: state.hold().is_some() || *duplicate_suspected,
        open: open(operation),
        succeeded_at: peer.succeeded_at,
        rejected_as: peer.rejected_as.map(RejectionCode::label),
        stage: peer.stage,
    })
}

/// Whether an operation stands in others' way: unresolved, or released while nobody knows whether it worked.
pub(super) fn open(operation: &Operation) -> bool {
    operation.unresolved() || (operation.released.is_some() && Peer::from(operation).stage == Stage::Unknown)
}

/// The state without the body of a receipt, which has a column of its own.
fn split(state: &State) -> (Cow<'_, State>, Option<&Body>) {
    let kept = state
        .receipt()
        .and_then(|receipt| receipt.result.as_ref()?.body.as_ref().map(|body| (receipt, body)));
    match kept {
        None => (Cow::Borrowed(state), None),
        Some((receipt, body)) => {
            let result = receipt.result.as_ref().map(|result| crate::operation::ResultBody {
                status: result.status,
                content_type: result.content_type.clone(),
                body: None,
                size: result.size,
                digest: result.digest.clone(),
                truncated: result.truncated,
            });
            let lean = Receipt {
                reference: receipt.reference.clone(),
                result,
                source: receipt.source,
                recorded_at: receipt.recorded_at,
            };
            (Cow::Owned(State::Succeeded(lean)), Some(body))
        }
    }
}

/// The cells of an operation as they were stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub(super) account: &'a str,
    pub(super) id: &'a str,
    pub(super) tool: &'a str,
    pub(super) action: &'a str,
    pub(super) fingerprint: &'a str,
    pub(super) task: Option<&'a str>,
    pub(super) subject: Option<&'a str>,
    pub(super) wish: bool,
    pub(super) receipt_expires_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) version: u64,
    pub(super) policy_version: u32,
    pub(super) body: &'a str,
    pub(super) arguments: &'a str,
    /// The receipt's body, where it was asked for.
    pub(super) result: Option<&'a str>,
}

/// Puts the operation together again.
pub(super) fn operation(stored: Stored<'_>) -> Result<Operation, Failure> {
    let print = |text: &str| Fingerprint::parse(text).map_err(|_| Failure::damaged("a fingerprint is none"));
    let rest: Rest<'_> = serde_json::from_str(stored.body)?;
    let mut state = rest.state.into_owned();
    if let State::Succeeded(Receipt { result: Some(result), .. }) = &mut state
        && let Some(body) = stored.result
    {
        result.body = Some(serde_json::from_str(body)?);
    }
    Ok(Operation {
        account: Account::from_stored(stored.account),
        id: OperationId::from_stored(stored.id),
        tool: ToolName::from_stored(stored.tool),
        arguments: Arguments::from_stored(stored.arguments.to_owned()),
        fingerprint: print(stored.fingerprint)?,
        action: print(stored.action)?,
        task: stored.task.map(Task::from_stored),
        subject: stored.subject.map(Subject::from_stored),
        replaces: rest.replaces.into_owned(),
        inherits: rest.inherits.into_owned(),
        replaced_by: rest.replaced_by.into_owned(),
        overtaken: rest.overtaken,
        earlier_keys: rest.earlier_keys,
        look_ups: rest.look_ups.into_owned(),
        investigation: rest.investigation.into_owned(),
        asks: rest.asks,
        another_allowed: rest.another_allowed,
        contradiction: rest.contradiction.into_owned(),
        remind_at: rest.remind_at,
        distinct_declared: rest.distinct_declared.into_owned(),
        distinct_from: rest.distinct_from.into_owned(),
        accepted_by: rest.accepted_by.into_owned(),
        prepared_by: rest.prepared_by.into_owned(),
        policy_version: stored.policy_version,
        wish: stored.wish,
        state,
        fence: rest.fence,
        attempts: rest.attempts.into_owned(),
        approval: rest.approval.into_owned(),
        blocked_by: rest.blocked_by.into_owned(),
        acknowledged: rest.acknowledged.into_owned(),
        key_generation: rest.key_generation,
        duplicate_suspected: rest.duplicate_suspected,
        released: rest.released.into_owned(),
        version: stored.version,
        created_at: stored.created_at,
        updated_at: stored.updated_at,
        receipt_expires_at: stored.receipt_expires_at,
    })
}

/// The cells by which the task guard knows an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredPeer<'a> {
    pub(super) id: &'a str,
    pub(super) task: Option<&'a str>,
    pub(super) stage: &'a str,
    pub(super) unresolved: bool,
    pub(super) released: bool,
    pub(super) suspected: bool,
    pub(super) created_at: Timestamp,
    pub(super) succeeded_at: Option<Timestamp>,
    pub(super) rejected_as: Option<&'a str>,
    pub(super) replaces: Option<&'a str>,
    pub(super) replaced_by: Option<&'a str>,
}

/// Puts the peer together again.
pub(super) fn peer(stored: StoredPeer<'_>) -> Result<Peer, Failure> {
    let rejection =
        |code| RejectionCode::parse(code).ok_or_else(|| Failure::damaged("a rejection has no code"));
    Ok(Peer {
        id: OperationId::from_stored(stored.id),
        task: stored.task.map(Task::from_stored),
        stage: stage(stored.stage)?,
        unresolved: stored.unresolved,
        released: stored.released,
        suspected: stored.suspected,
        created_at: stored.created_at,
        succeeded_at: stored.succeeded_at,
        rejected_as: stored.rejected_as.map(rejection).transpose()?,
        replaces: stored.replaces.map(OperationId::from_stored),
        replaced_by: stored.replaced_by.map(OperationId::from_stored),
    })
}

/// A state as it is stored.
pub(super) fn stage(label: &str) -> Result<Stage, Failure> {
    Stage::parse(label).ok_or_else(|| Failure::damaged("a state is none of the five"))
}

/// When somebody looks at an operation next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Whoever carries work on.
    pub(super) due_at: Option<Timestamp>,
    /// An application's own worker.
    pub(super) work_at: Option<Timestamp>,
}

impl Times {
    /// By these facts; not before `look_again` where a standing wish waits for another operation.
    pub(super) fn of(operation: &Operation, facts: &Tool, look_again: Option<Timestamp>) -> Self {
        let work_at = crate::queue::work_at(operation, facts);
        Self {
            due_at: crate::decide::due_or_looked_at(operation, facts, look_again),
            work_at: work_at.map(|at| look_again.map_or(at, |later| at.max(later))),
        }
    }
}
