//! Refusals and faults as RFC 9457 problem details: one shape, stable codes, and always whether something may have been
//! sent.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use counterfoil::guard::{Peer, Stage};
use counterfoil::snapshot::View;
use counterfoil::{Error, Operation, OperationId, Refusal, StoreError, Timestamp};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::representation::Next;
use crate::problems::{self, CATALOGUE};

/// The longest text of a caller that a problem repeats.
const LONGEST_NAME: usize = 64;

/// What helps a token that is limited to other tools; a role would not.
const TOOL_FORBIDDEN_HINT: &str = "This token is limited to other tools (`counterfoil token list` shows its patterns). Use one \
     whose patterns fit the tool: `counterfoil token create --tools PATTERN` makes it, without --tools for all tools.";

/// Whether the call may have led to a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// It is certain that the call recorded no attempt.
    No,
    /// The call may have recorded an attempt: only the same ID is safe.
    Maybe,
}

/// A refusal or a fault, as the whole answer.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Problem(Box<Details>);

/// What went wrong. `type` is `urn:counterfoil:problem:` and a stable code.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct Details {
    /// `urn:counterfoil:problem:CODE`.
    #[serde(rename = "type", serialize_with = "urn")]
    #[schema(value_type = String)]
    code: &'static str,
    /// What this kind of problem is, in a few words.
    #[schema(value_type = String)]
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What happened here.
    #[schema(value_type = String)]
    detail: Cow<'static, str>,
    /// What to do about it.
    #[schema(value_type = String)]
    hint: Cow<'static, str>,
    /// Whether the call may have led to a send.
    sent: Sent,
    /// Where this kind of problem is explained, on this server.
    doc: String,
    /// The operation it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    operation_id: Option<OperationId>,
    /// The state of that operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    state: Option<&'static str>,
    /// What happens next to that operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Next>,
    /// The members that differ from what is stored, never their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differs: Vec<String>,
    /// Every operation that stands in the way, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    operations: Vec<OperationId>,
    /// Goes into the header `Retry-After`, in seconds.
    #[serde(skip)]
    retry_after: Option<u64>,
}

fn urn<S: serde::Serializer>(code: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("urn:counterfoil:problem:{code}"))
}

impl Problem {
    /// A problem of this code, with the words of the catalogue.
    #[must_use]
    pub fn new(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        // A code without an entry is a mistake in this program, which a test finds.
        let entry =
            problems::find(code).or_else(|| problems::find("internal-error")).unwrap_or(&CATALOGUE[0]);
        Self(Box::new(Details {
            code: entry.slug,
            title: entry.title,
            status: entry.status,
            detail: detail.into(),
            hint: Cow::Borrowed(entry.hint),
            sent: Sent::No,
            doc: format!("/problems/{code}"),
            operation_id: None,
            state: None,
            next: None,
            differs: Vec::new(),
            operations: Vec::new(),
            retry_after: None,
        }))
    }

    /// A body member, a query parameter or a wait that is not as it should be.
    #[must_use]
    pub fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid-request", detail)
    }

    /// With another hint than the catalogue's.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = hint.into();
        self
    }

    /// With how long to wait, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after = Some(seconds);
        self
    }

    /// With what is known about a send.
    #[must_use]
    pub fn sent(mut self, sent: Sent) -> Self {
        self.0.sent = sent;
        self
    }

    /// About this operation as it is now.
    #[must_use]
    pub fn about(mut self, view: &View) -> Self {
        self.0.operation_id = Some(view.operation.id.clone());
        self.0.state = Some(view.operation.state.label());
        self.0.next = Some(Next::of(view));
        if let ("approval-required", Some(holder)) = (self.0.code, &view.next.operation) {
            let Operation { id, fingerprint, .. } = &view.operation;
            self.0.hint = Cow::Owned(format!(
                "An approver who knows that {holder} has succeeded says so: `counterfoil op approve {id} --fingerprint \
                 {fingerprint} --acknowledges {holder}`; then execute the same ID again."
            ));
        }
        self
    }

    /// With the earliest instant at which it would not come.
    #[must_use]
    pub fn not_before(mut self, instant: Option<Timestamp>) -> Self {
        if let Some(next) = self.0.next.as_mut().filter(|_| instant.is_some()) {
            next.not_before = instant;
        }
        self
    }

    /// With the `next` of the operation that it is already about.
    #[must_use]
    pub fn next(mut self, view: &View) -> Self {
        self.0.next = Some(Next::of(view));
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The operation it is about.
    #[must_use]
    pub fn operation_id(&self) -> Option<&OperationId> {
        self.0.operation_id.as_ref()
    }

    fn names(mut self, id: &OperationId, stage: Stage) -> Self {
        self.0.operation_id = Some(id.clone());
        self.0.state = Some(stage.label());
        self
    }

    fn blocked_by(self, blockers: &[Peer]) -> Self {
        let mut problem = match blockers.first() {
            Some(newest) => self.names(&newest.id, newest.stage),
            None => self,
        };
        problem.0.operations = blockers.iter().map(|peer| peer.id.clone()).collect();
        problem
    }

    /// What the ledger said about a call for `id`.
    #[must_use]
    pub fn of(error: Error, id: &OperationId) -> Self {
        match error {
            Error::Refused(refusal) => Self::refused(refusal, id),
            Error::Store(error) => Self::from(error),
        }
    }

    fn refused(refusal: Refusal, id: &OperationId) -> Self {
        let mut problem = Self::from(refusal.clone());
        match refusal {
            Refusal::ReceiptExpired { stage } => problem.names(id, stage),
            Refusal::OperationIdReused { differs, stage } => {
                let tool = differs.iter().any(|member| member == "tool");
                let arguments = differs.iter().any(|member| member.starts_with("arguments"));
                let what = match (tool, arguments) {
                    (true, _) => "for another tool",
                    (false, true) => "with other arguments",
                    (false, false) => "with another subject, replaces or distinct_from",
                };
                problem.0.detail = Cow::Owned(format!("{id} was prepared {what}."));
                problem.0.differs = differs;
                problem.names(id, stage)
            }
            Refusal::DistinctForbidden { id, stage } => problem.names(&id, stage),
            Refusal::UnknownNamed { id } => {
                let what = "which this call names to replace it or to be distinct from it";
                problem.0.detail = Cow::Owned(format!("There is no operation {id}, {what}."));
                problem.0.operation_id = Some(id);
                problem
            }
            Refusal::AlreadyReplaced { by } => {
                problem.0.operation_id = Some(by);
                problem
            }
            Refusal::ActionUnresolved { blockers } | Refusal::BlockedByOperation { blockers } => {
                problem.blocked_by(&blockers)
            }
            Refusal::LedgerRestored => problem.retry_after(30),
            Refusal::TooEarly { not_before } => {
                if let Some(at) = not_before {
                    problem.0.detail = Cow::Owned(format!("It can be established from {at} on."));
                }
                problem
            }
            Refusal::InvalidArguments(why) => {
                problem.0.detail = Cow::Owned(sentence(&why));
                problem
            }
            Refusal::UnknownOperation
            | Refusal::UnknownTool
            | Refusal::ToolForbidden
            | Refusal::RoleForbidden(_)
            | Refusal::SamePrincipal
            | Refusal::ApprovalRequired
            | Refusal::WrongState(_)
            | Refusal::FingerprintMismatch
            | Refusal::ChangedMeanwhile
            | Refusal::StaleClaim
            | Refusal::Paused
            | Refusal::InProgress
            | Refusal::NotAWorkerTool
            | Refusal::DeclarationMismatch { .. }
            | Refusal::InvalidCursor => problem,
        }
    }
}

impl From<Refusal> for Problem {
    /// For refusals that name no operation, such as a missing role.
    fn from(refusal: Refusal) -> Self {
        let detail = Cow::Owned(sentence(&refusal.to_string()));
        // A cursor is a parameter like any other.
        let code = if refusal == Refusal::InvalidCursor { "invalid-request" } else { refusal.code() };
        let mut problem = Self::new(code, detail);
        if let Refusal::DeclarationMismatch { differs } = refusal {
            problem.0.differs = differs;
            return problem;
        }
        if refusal == Refusal::ToolForbidden {
            return problem.hint(TOOL_FORBIDDEN_HINT);
        }
        problem
    }
}

impl From<StoreError> for Problem {
    /// Paths, statements and messages of the system stay in the log.
    fn from(error: StoreError) -> Self {
        let sent = if error.wrote_nothing() { Sent::No } else { Sent::Maybe };
        let detail = match error {
            StoreError::Full => "The ledger has no room left; nothing was written.",
            StoreError::Unavailable(_) => "The ledger is busy or closed; nothing was written.",
            StoreError::Unusable(_) => "The ledger cannot be used.",
            StoreError::Poisoned(_) => {
                "The ledger's disk failed while it was written to; what became of this call is known only after a restart."
            }
            StoreError::Uncertain(_) => {
                "The connection to the database was lost while it committed; ask again with the same ID to learn what became \
                 of this call."
            }
            StoreError::Corrupt(_) => "The ledger could not be read back.",
        };
        Self::new(error.code(), detail).sent(sent).retry_after(1)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Fails for no value of this type.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        let mut set = |name: HeaderName, value: HeaderValue| headers.insert(name, value);
        set(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        set(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.0.retry_after {
            set(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.0.status == 401 {
            let scheme = match self.0.code {
                "bad-signature" => "Signature realm=\"counterfoil\"",
                _ => "Bearer realm=\"counterfoil\"",
            };
            set(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
        }
        response
    }
}

/// A phrase as a sentence.
pub(super) fn sentence(phrase: &str) -> String {
    let mut characters = phrase.chars();
    let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if phrase.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", characters.as_str())
}

/// A name that a caller wrote, where it is short and plain enough to be repeated.
#[must_use]
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let fits = !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(plain);
    if fits && counterfoil::secret_shapes::looks_sensitive(name).is_none() {
        Cow::Owned(format!("`{name}`"))
    } else {
        Cow::Borrowed("of a name that is not repeated here")
    }
}
