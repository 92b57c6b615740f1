//! An application's own workers: claims, heartbeats and reports.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use counterfoil::caller::{Caller, Need};
use counterfoil::executor::ClaimAsked;
use counterfoil::ledger::NewOperation;
use counterfoil::recovery::Recovery;
use counterfoil::stated::Stated;
use counterfoil::store::Change;
use counterfoil::verbs::{Granted, PrepareReply};
use counterfoil::{Error, OperationId, Refusal, Timestamp, ToolName};
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::auth::Session;
use super::operations::{answer, settle, shown};
use super::problem::Problem;
use super::representation::{AttemptBody, Raw, Representation, display, instant};
use super::worker_body::{self, ClaimsBody};
use super::{App, Listed, body, json_of, millis, operation_id, refuse_query};

/// How many workers may wait for work at once; further ones are answered at once.
pub(super) const WAITING: usize = 500;

/// How long a round of looking for work lasts at the least: changes that come together are looked at together.
const ROUND: Duration = Duration::from_millis(25);

/// How long nothing is looked for where no change is told of: what falls due by time alone, or beside this process.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A claim in force, with what its holder needs.
#[derive(Serialize, ToSchema)]
#[schema(as = Claim)]
pub(super) struct ClaimShown<'v> {
    /// The operation.
    #[schema(value_type = String)]
    operation_id: &'v OperationId,
    /// The tenant.
    account: &'v str,
    /// Which kind of action.
    tool: &'v str,
    /// The exact arguments, byte for byte, sensitive members included.
    #[schema(value_type = Object)]
    arguments: Raw<'v>,
    /// `send`: the attempt is recorded, send it. `investigate`: find out what became of the attempts, and send nothing.
    #[schema(value_type = String)]
    mode: &'static str,
    /// The attempt; the last one for an investigation.
    attempt: u32,
    /// Goes into every heartbeat and report.
    fencing_token: u64,
    /// When the claim ends without a heartbeat.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    lease_expires_at: Timestamp,
    /// No first byte after this, however long the claim lasts; `null` for an investigation.
    #[serde(serialize_with = "instant")]
    #[schema(value_type = Option<String>, format = DateTime)]
    send_before: Option<Timestamp>,
    /// The idempotency key to send, the same in every attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'v str>,
    /// The reference to send, or to look for; the same in every attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'v str>,
    /// The attempts before this one; all of them for an investigation.
    earlier_attempts: Vec<AttemptBody<'v>>,
}

impl<'v> ClaimShown<'v> {
    fn of(granted: &'v Granted) -> Self {
        let operation = &granted.view.operation;
        let attempt = operation.attempts.iter().find(|attempt| attempt.number == granted.attempt);
        let sent = attempt.and_then(|attempt| attempt.key.as_deref());
        let (key, reference) = match granted.view.tool.recovery {
            Recovery::IdempotencyKey(_) => (sent, None),
            Recovery::UniqueReference(_) | Recovery::LookUp(_) => (None, sent),
            Recovery::Transaction | Recovery::None(_) => (None, None),
        };
        let earlier = operation.attempts.iter().filter(|attempt| attempt.fence < granted.claim.fence);
        Self {
            operation_id: &operation.id,
            account: operation.account.as_str(),
            tool: operation.tool.as_str(),
            arguments: Raw::borrowed(operation.arguments.as_str()),
            mode: granted.mode.label(),
            attempt: granted.attempt,
            fencing_token: granted.claim.fence.0,
            lease_expires_at: granted.claim.lease_expires_at,
            send_before: granted.send_before,
            key,
            reference,
            earlier_attempts: earlier.map(|attempt| AttemptBody::of(attempt, &granted.view.tool)).collect(),
        }
    }
}

/// An operation with the claim that was granted with it.
#[derive(Serialize)]
struct WithClaim<'v> {
    #[serde(flatten)]
    operation: Representation<'v>,
    claim: ClaimShown<'v>,
}

/// `PUT /v1/operations/{id}` with the member `claim`.
pub(super) async fn put(
    app: &App,
    session: &Session,
    new: NewOperation,
    asked: &ClaimAsked,
    wait: Duration,
) -> Result<Response, Problem> {
    session.caller.needs(Need::Worker)?;
    let id = new.id.clone();
    let (reply, granted) = match app.executor().prepare_claimed(&session.caller, new, asked).await {
        Ok(done) => done,
        Err(error) => return Err(Box::pin(app.refused(session, error, &id)).await),
    };
    let PrepareReply { view, created, begun: _ } = reply;
    let Some(granted) = granted else {
        let view = settle(app, session, view, wait).await?;
        return Ok(answer(app, &view, false, true));
    };
    let both = WithClaim { operation: Representation::of(&view), claim: ClaimShown::of(&granted) };
    let mut response = json_of(&both);
    if created {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

/// `POST /v1/operations/{id}/claim`.
pub(super) async fn claim(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Worker).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let asked = worker_body::claim(&bytes)?;
    match app.executor().claim(&session.caller, &id, &asked).await {
        Ok(granted) => Ok(json_of(&ClaimShown::of(&granted))),
        Err(error) => Err(Box::pin(app.refused(&session, error, &id)).await),
    }
}

/// `POST /v1/claims`: takes what is due, and waits for it where there is nothing.
pub(super) async fn claims(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Worker).await?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let asked = ClaimsBody::parse(&bytes, app.limits())?;
    check_tools(&app, &session.caller, &asked.tools)?;
    let granted = Box::pin(take(&app, session, &asked)).await?;
    let items = granted.iter().map(ClaimShown::of).collect();
    Ok(json_of(&Listed { items, next_cursor: None }))
}

/// Every tool must be one that the caller may use and that workers carry out, as its code says it is.
fn check_tools(app: &App, caller: &Caller, tools: &[(ToolName, Stated)]) -> Result<(), Problem> {
    for (name, _) in tools {
        caller.may_use(name)?;
    }
    let declared = app.ledger().declared();
    for (name, stated) in tools {
        let tool = declared.get(name).map(|(_, tool)| tool).filter(|tool| tool.serves(&caller.account));
        let tool = tool.ok_or(Refusal::UnknownTool)?;
        if tool.worker().is_none() {
            return Err(Refusal::NotAWorkerTool.into());
        }
        let differs = stated.differs(tool);
        if !differs.is_empty() {
            return Err(Refusal::DeclarationMismatch { differs }.into());
        }
    }
    Ok(())
}

/// Takes what is due; where there is nothing, looks again whenever something changes or falls due. Nobody is given
/// anything whose token was revoked meanwhile.
async fn take(app: &App, session: Session, asked: &ClaimsBody) -> Result<Vec<Granted>, Problem> {
    let deadline = Instant::now() + millis(asked.wait_ms);
    let place = app.wait_for_work();
    let mut changes = app.ledger().store().changes();
    let mut session = session;
    loop {
        let began = Instant::now();
        let taken = app.executor().claims(&session.caller, &asked.tools, &asked.asked, asked.max).await;
        let taken = taken.map_err(|error| match error {
            Error::Refused(refusal) => Problem::from(refusal),
            Error::Store(error) => Problem::from(error),
        })?;
        if !taken.is_empty() || place.is_none() || Instant::now() >= deadline || app.draining().is_cancelled()
        {
            return Ok(taken);
        }
        let look_at = (began + until_due(app, &session.caller, &asked.tools).await?).min(deadline);
        tokio::select! {
            () = tokio::time::sleep_until(look_at) => {}
            () = changed(&mut changes, &session.caller) => tokio::time::sleep_until(began + ROUND).await,
            () = app.draining().cancelled() => return Ok(Vec::new()),
        }
        // What changed up to here is seen by the look that follows.
        changes = changes.resubscribe();
        session = app.authority().again(&session).await?;
        session.caller.needs(Need::Worker)?;
        check_tools(app, &session.caller, &asked.tools)?;
    }
}

/// How long it is until something falls due by itself.
async fn until_due(app: &App, caller: &Caller, tools: &[(ToolName, Stated)]) -> Result<Duration, Problem> {
    let now = app.ledger().clock().now();
    let mut wait = LOOK_AGAIN;
    for (tool, _) in tools {
        if let Some(at) = app.ledger().store().next_work(&caller.account, tool, now).await? {
            wait = wait.min(at.since(now));
        }
    }
    Ok(wait.max(ROUND))
}

/// Ends when something of the caller's account changed, or changes were missed.
async fn changed(changes: &mut tokio::sync::broadcast::Receiver<Change>, caller: &Caller) {
    loop {
        match changes.recv().await {
            Ok(change) if change.account == caller.account => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            // The ledger is closing: the wait ends by its own time.
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// The number in `/v1/operations/{id}/attempts/{n}/…`.
fn attempt(parts: &Parts) -> Result<u32, Problem> {
    let text = parts.uri.path().split('/').nth(5).unwrap_or_default();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| digits && *number > 0);
    number.ok_or_else(|| Problem::invalid("The attempt in the path is no number from 1 on."))
}

/// `POST /v1/operations/{id}/attempts/{n}/heartbeat`.
pub(super) async fn heartbeat(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Worker).await?;
    let id = operation_id(&parts)?;
    let number = attempt(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let fence = worker_body::heartbeat(&bytes)?;
    match app.executor().heartbeat(&session.caller, id.clone(), number, fence).await {
        Ok(granted) => Ok(json_of(&ClaimShown::of(&granted))),
        Err(error) => Err(Box::pin(app.refused(&session, error, &id)).await),
    }
}

/// `POST /v1/operations/{id}/attempts/{n}/outcome`.
pub(super) async fn outcome(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Worker).await?;
    let id = operation_id(&parts)?;
    let number = attempt(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::report(&parts.headers, stream).await?;
    let (fence, told) = worker_body::outcome(&bytes, app.limits())?;
    match app.executor().outcome(&session.caller, id.clone(), number, fence, told).await {
        Ok(reply) if reply.stale => {
            let detail =
                "The claim ran out or was outranked. The report is kept as evidence and moves nothing.";
            Err(Problem::new("stale-claim", detail).about(&reply.view))
        }
        Ok(reply) => Ok(shown(StatusCode::OK, &reply.view)),
        Err(error) => Err(Box::pin(app.refused(&session, error, &id)).await),
    }
}
