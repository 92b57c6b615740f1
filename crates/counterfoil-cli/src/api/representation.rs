//! The operation as every face of the product shows it. Arguments, `accepted_by` and JSON results go out as the bytes
//! that were stored; members that a tool declares sensitive do not go out at all.

use std::borrow::Cow;

use counterfoil::decide::Action;
use counterfoil::operation::{Attempt, Body, LookUp, Marker, Operation, ResultBody};
use counterfoil::policy::Tool;
use counterfoil::recovery::Recovery;
use counterfoil::snapshot::View;
use counterfoil::state::State;
use counterfoil::{OperationId, Timestamp};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// Stands where a sensitive member was.
const REDACTED: &str = r#"{"redacted":true}"#;

/// What must be escaped in a path segment, and a little more.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'[')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// An operation ID as one segment of a path.
#[must_use]
pub fn segment(id: &OperationId) -> String {
    utf8_percent_encode(id.as_str(), SEGMENT).to_string()
}

/// An operation as it is now.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Operation)]
pub struct Representation<'v> {
    /// The identity that the application minted.
    #[schema(value_type = String)]
    id: &'v OperationId,
    /// The tenant.
    account: &'v str,
    /// Which kind of action.
    tool: &'v str,
    /// The exact arguments of the first prepare; sensitive members are `{"redacted": true}`.
    #[schema(value_type = Object)]
    arguments: Raw<'v>,
    /// `v1:` and the SHA-256 of the canonical form of tool and arguments.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String)]
    fingerprint: counterfoil::Fingerprint,
    /// Grows with each evidence row.
    version: u64,
    /// The agent run or conversation.
    task: Option<&'v str>,
    /// What it is about.
    subject: Option<&'v str>,
    /// The proposal that this one changes.
    replaces: Option<&'v str>,
    /// The newest operation that replaces this one.
    replaced_by: Option<&'v str>,
    /// Operations that this one was declared distinct from, in either direction.
    #[schema(value_type = Vec<String>)]
    distinct_from: Vec<&'v OperationId>,
    /// Who or what accepted the proposal.
    #[schema(value_type = Option<Object>)]
    accepted_by: Option<Raw<'v>>,
    /// `prepared`, `in_progress`, `succeeded`, `rejected` or `unknown`.
    #[schema(value_type = String)]
    state: &'static str,
    /// Whether only a person can settle or send it.
    held: bool,
    /// What happens or must happen now.
    next: Next,
    /// Where to look at it.
    links: Links,
    /// The approval.
    approval: Approval<'v>,
    /// Every try, oldest first.
    attempts: Vec<AttemptBody<'v>>,
    /// The newest look-ups, oldest first.
    lookups: Vec<LookUpBody>,
    /// What proves success.
    receipt: Option<ReceiptBody<'v>>,
    /// Why nothing happened.
    rejection: Option<RejectionBody<'v>>,
    /// How a person closed what nobody could settle.
    closed: Option<ClosedBody<'v>>,
    /// Who can establish whether it happened.
    recovery: RecoveryBody,
    /// The version of the declaration it was prepared under.
    policy_version: u32,
    /// Whether it was final when the call arrived.
    replayed: bool,
    /// Whether more than one effect may exist.
    duplicate_suspected: bool,
    /// When it was prepared.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When its newest evidence was written.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// From when on every call with this ID is answered 410.
    #[serde(serialize_with = "instant")]
    #[schema(value_type = Option<String>, format = DateTime)]
    receipt_expires_at: Option<Timestamp>,
}

/// What happens or must happen now.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Next {
    /// `approve`, `execute`, `wait_for_operation`, `retry`, `wait`, `reconcile`, `review`, `correct`, `report` or
    /// `none`.
    #[schema(value_type = String)]
    action: &'static str,
    /// When, if it happens by itself.
    #[serde(serialize_with = "instant", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<Timestamp>,
    /// Which other operation it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    operation: Option<OperationId>,
    /// Why, as a stable word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    reason: Option<&'static str>,
    /// The earliest instant at which a person may establish absence.
    #[serde(serialize_with = "instant", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) not_before: Option<Timestamp>,
    /// One fixed sentence for a model or a person.
    message: String,
}

impl Next {
    /// The `next` of an operation.
    #[must_use]
    pub(super) fn of(view: &View) -> Self {
        let next = &view.next;
        Self {
            action: next.action.label(),
            at: next.at,
            operation: next.operation.clone(),
            reason: next.reason,
            not_before: next.not_before,
            message: next.message(&view.operation),
        }
    }
}

/// Where to look at an operation.
#[derive(Debug, Serialize, ToSchema)]
struct Links {
    /// In the console.
    console: String,
}

/// The approval of an operation.
#[derive(Debug, Serialize, ToSchema)]
struct Approval<'v> {
    /// Whether a person must say yes before it may start.
    required: bool,
    /// Who said yes.
    by: Option<&'v str>,
    /// When.
    #[serde(serialize_with = "instant")]
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<Timestamp>,
    /// Until when it is good.
    #[serde(serialize_with = "instant")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// One try to carry an operation out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(super) struct AttemptBody<'v> {
    /// From 1.
    number: u32,
    /// Who made it.
    worker: &'v str,
    /// The claim it was made under.
    fencing_token: u64,
    /// When it was recorded.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When its outcome was recorded.
    #[serde(serialize_with = "instant")]
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// How it ended; `null` while it runs.
    #[schema(value_type = Option<String>)]
    outcome: Option<&'static str>,
    /// Whether it is certain that it has no effect and cannot get one.
    settled: bool,
    /// How far the sender got.
    #[schema(value_type = Option<String>)]
    marker: Option<&'static str>,
    /// The status of the answer.
    status: Option<u16>,
    /// What went wrong, in our own words.
    error: Option<&'v str>,
    /// The idempotency key that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'v str>,
    /// The reference that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'v str>,
    /// The vendor account that the credential belongs to.
    scope: Option<&'v str>,
    /// Digest of what was sent.
    request_digest: &'v str,
}

/// One question put to the destination.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LookUp)]
struct LookUpBody {
    /// When it began: what it found can only speak of the time before.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    began_at: Timestamp,
    /// When its answer was recorded.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    ended_at: Timestamp,
    /// `found`, `several`, `differs`, `absent`, `unclear` or `failed`.
    #[schema(value_type = String)]
    answer: &'static str,
    /// Whether the answer settled the attempts.
    counts: bool,
}

/// What proves success.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Receipt)]
struct ReceiptBody<'v> {
    /// What the destination calls the thing that was created.
    reference: Option<&'v str>,
    /// What the destination answered.
    result: Option<ResultShown<'v>>,
    /// `response`, `lookup`, `late_report`, `evidence`, `person` or `transaction`.
    #[schema(value_type = String)]
    source: &'static str,
    /// When it was recorded.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    recorded_at: Timestamp,
    /// Whether the body was too large to keep.
    truncated: bool,
}

/// What a destination answered.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Result)]
struct ResultShown<'v> {
    /// The status.
    status: Option<u16>,
    /// The content type as it came.
    content_type: Option<&'v str>,
    /// JSON as it came; another text as a string; anything else in base64, with `encoding`.
    #[schema(value_type = Object)]
    body: Option<Raw<'v>>,
    /// `base64`, where the body is neither JSON nor text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    encoding: Option<&'static str>,
    /// How many bytes came, where the body was too large to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// SHA-256 of them, where the body was too large to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'v str>,
}

/// Why nothing happened.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Rejection)]
struct RejectionBody<'v> {
    /// What decided it.
    #[schema(value_type = String)]
    code: &'static str,
    /// More about it.
    detail: Option<&'v str>,
}

/// How a person closed what nobody could settle.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Closed)]
struct ClosedBody<'v> {
    /// Who.
    by: &'v str,
    /// When.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Why.
    note: &'v str,
    /// Always true: nobody proved anything.
    risk_accepted: bool,
}

/// Who can establish whether it happened.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recovery)]
struct RecoveryBody {
    /// `transaction`, `idempotency_key`, `unique_reference`, `lookup` or `none`.
    #[schema(value_type = String)]
    kind: &'static str,
    /// Until when the destination's memory covers another send.
    #[serde(serialize_with = "instant")]
    #[schema(value_type = Option<String>, format = DateTime)]
    send_allowed_until: Option<Timestamp>,
}

impl<'v> Representation<'v> {
    /// The operation as seen in `view`.
    #[must_use]
    pub fn of(view: &'v View) -> Self {
        let whole = Self::whole(view);
        if view.states_only { whole.without_content(view) } else { whole }
    }

    /// How it stands, without what it holds: no arguments, receipt or decision.
    fn without_content(self, view: &'v View) -> Self {
        let message = match view.operation.state {
            State::Succeeded(_) if view.next.action == Action::None => "Done.".to_owned(),
            State::Succeeded(_)
            | State::Prepared(_)
            | State::InProgress(_)
            | State::Rejected(_)
            | State::Unknown(_) => self.next.message.clone(),
        };
        Self {
            arguments: Raw::borrowed(REDACTED),
            accepted_by: None,
            approval: Approval { by: None, at: None, ..self.approval },
            receipt: None,
            rejection: self.rejection.map(|rejection| RejectionBody { detail: None, ..rejection }),
            closed: None,
            next: Next { message, ..self.next },
            ..self
        }
    }

    fn whole(view: &'v View) -> Self {
        let operation = &view.operation;
        let approval = operation.approval.as_ref();
        Self {
            id: &operation.id,
            account: operation.account.as_str(),
            tool: operation.tool.as_str(),
            arguments: arguments(operation, &view.tool),
            fingerprint: operation.fingerprint,
            version: operation.version,
            task: operation.task.as_ref().map(counterfoil::Task::as_str),
            subject: operation.subject.as_ref().map(counterfoil::id::Subject::as_str),
            replaces: operation.replaces.as_ref().map(OperationId::as_str),
            replaced_by: operation.replaced_by.as_ref().map(OperationId::as_str),
            distinct_from: operation.distinct_from.iter().map(|distinct| &distinct.id).collect(),
            accepted_by: operation.accepted_by.as_deref().map(Raw::borrowed),
            state: operation.state.label(),
            held: view.held(),
            next: Next::of(view),
            links: Links { console: format!("/console/o/{}", segment(&operation.id)) },
            approval: Approval {
                required: view.approval_required,
                by: approval.map(|given| given.by.as_str()),
                at: approval.map(|given| given.at),
                expires_at: approval.map(|given| given.expires_at),
            },
            attempts: operation.attempts.iter().map(|attempt| AttemptBody::of(attempt, &view.tool)).collect(),
            lookups: operation.look_ups.iter().map(LookUpBody::of).collect(),
            receipt: operation.state.receipt().map(|receipt| ReceiptBody {
                reference: receipt.reference.as_deref(),
                result: receipt.result.as_ref().map(ResultShown::of),
                source: receipt.source.label(),
                recorded_at: receipt.recorded_at,
                truncated: receipt.result.as_ref().is_some_and(|result| result.truncated),
            }),
            rejection: rejection(&operation.state),
            closed: closed(&operation.state),
            recovery: RecoveryBody {
                kind: view.tool.recovery.kind(),
                send_allowed_until: view.send_allowed_until,
            },
            policy_version: operation.policy_version,
            replayed: view.replayed,
            duplicate_suspected: operation.duplicate_suspected,
            created_at: operation.created_at,
            updated_at: operation.updated_at,
            receipt_expires_at: operation.receipt_expires_at,
        }
    }

    /// The JSON text.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2048);
        // Fails for no value of this type: every raw text in it was checked.
        if serde_json::to_writer(&mut out, self).is_err() {
            tracing::error!(operation = %self.id, "an operation could not be written as JSON");
            out.clear();
        }
        out
    }
}

impl<'v> AttemptBody<'v> {
    /// An attempt of an operation of this tool.
    pub(super) fn of(attempt: &'v Attempt, tool: &Tool) -> Self {
        let sent = attempt.key.as_deref();
        let (key, reference) = match tool.recovery {
            Recovery::IdempotencyKey(_) => (sent, None),
            Recovery::UniqueReference(_) | Recovery::LookUp(_) => (None, sent),
            Recovery::Transaction | Recovery::None(_) => (None, None),
        };
        Self {
            number: attempt.number,
            worker: attempt.worker.as_str(),
            fencing_token: attempt.fence.0,
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            outcome: attempt.outcome.map(counterfoil::operation::AttemptOutcome::label),
            settled: attempt.settled,
            // An attempt that ended without a report counts as sent.
            marker: attempt.marker.or(attempt.ended_at.map(|_| Marker::BytesWritten)).map(Marker::label),
            status: attempt.status,
            error: attempt.error.as_deref(),
            key,
            reference,
            scope: attempt.scope.as_deref(),
            request_digest: &attempt.request_digest,
        }
    }
}

impl LookUpBody {
    fn of(look_up: &LookUp) -> Self {
        Self {
            began_at: look_up.began_at,
            ended_at: look_up.ended_at,
            answer: look_up.answer.label(),
            counts: look_up.counts,
        }
    }
}

impl<'v> ResultShown<'v> {
    fn of(result: &'v ResultBody) -> Self {
        let (body, encoding) = match &result.body {
            None => (None, None),
            Some(Body::Json(text)) => (Some(Raw::borrowed(text)), None),
            Some(Body::Text(text)) => (Some(Raw::text(text)), None),
            Some(Body::Base64(text)) => (Some(Raw::text(text)), Some("base64")),
        };
        Self {
            status: result.status,
            content_type: result.content_type.as_deref(),
            body,
            encoding,
            size: result.truncated.then_some(result.size),
            digest: result.truncated.then_some(&result.digest),
        }
    }
}

fn rejection(state: &State) -> Option<RejectionBody<'_>> {
    match state {
        State::Rejected(rejection) => {
            Some(RejectionBody { code: rejection.code.label(), detail: rejection.detail.as_deref() })
        }
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Unknown(_) => None,
    }
}

fn closed(state: &State) -> Option<ClosedBody<'_>> {
    match state {
        State::Unknown(open) => open.closed.as_ref().map(|closed| ClosedBody {
            by: closed.by.as_str(),
            at: closed.at,
            note: &closed.note,
            risk_accepted: true,
        }),
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => None,
    }
}

/// The stored bytes, but for what the tool declares sensitive.
fn arguments<'v>(operation: &'v Operation, tool: &Tool) -> Raw<'v> {
    let text = operation.arguments.as_str();
    if tool.sensitive.is_empty() {
        return Raw::borrowed(text);
    }
    // What cannot be read cannot be told apart: all of it may be sensitive.
    let Ok(root) = operation.arguments.node() else { return Raw::borrowed(REDACTED) };
    let mut hidden: Vec<_> =
        tool.sensitive.iter().filter_map(|pointer| pointer.resolve(&root)).map(|node| node.span()).collect();
    hidden.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for span in hidden {
        // A member inside one that is hidden already.
        if span.start < at {
            continue;
        }
        shown.push_str(&text[at..span.start]);
        shown.push_str(REDACTED);
        at = span.end;
    }
    shown.push_str(&text[at..]);
    Raw(Cow::Owned(shown))
}

/// A JSON text that is written as it stands.
#[derive(Debug)]
pub(super) struct Raw<'v>(Cow<'v, str>);

impl<'v> Raw<'v> {
    pub(super) fn borrowed(text: &'v str) -> Self {
        Self(Cow::Borrowed(text))
    }

    fn text(text: &str) -> Self {
        let mut out = String::with_capacity(text.len() + 2);
        counterfoil::json::write_string(text, &mut |piece| out.push_str(piece));
        Self(Cow::Owned(out))
    }
}

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Stored text that was damaged since is shown as a string: the answer stays JSON.
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => serializer.serialize_str(&self.0),
        }
    }
}

pub(super) fn display<S: Serializer>(
    value: &impl std::fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn instant<S: Serializer>(value: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}
