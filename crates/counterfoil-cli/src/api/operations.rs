//! Prepare, execute, read. Whoever hangs up stops listening; what was begun goes on in the executor's own tasks.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use counterfoil::caller::Need;
use counterfoil::decide::Action;
use counterfoil::executor::ClaimAsked;
use counterfoil::ledger::NewOperation;
use counterfoil::snapshot::View;
use counterfoil::verbs::{Begun, PrepareReply};
use counterfoil::{Error, OperationId, Refusal};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::auth::Session;
use super::body::{self, PutBody};
use super::problem::{Problem, Sent};
use super::query::{FILTERS, Query};
use super::representation::{Representation, segment};
use super::{App, Listed, json, json_of, millis, operation_id, refuse_query};

/// How long an execution is waited for where the caller names no number.
const EXECUTE_WAIT: u64 = 30_000;

/// The longest that a caller is told to stay away: a look costs little, and the state may change early.
const LONGEST_AWAY: Duration = Duration::from_secs(60);

/// `PUT /v1/operations/{id}`.
pub(super) async fn put(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Agent).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::large(&parts.headers, stream, app.limits()).await?;
    let asked = PutBody::parse(&bytes, &id, app.limits())?;
    let new = NewOperation {
        id: id.clone(),
        tool: asked.tool,
        arguments: asked.arguments,
        task: asked.task,
        subject: asked.subject,
        replaces: asked.replaces,
        distinct_from: asked.distinct_from,
        accepted_by: asked.accepted_by,
        execute: asked.execute,
    };
    if asked.dry_run {
        return Box::pin(dry_run(&app, &session, new, asked.claim.as_ref())).await;
    }
    let execute = asked.execute;
    let wait = asked.wait_ms.unwrap_or(if execute { EXECUTE_WAIT } else { 0 });
    if let Some(claim) = &asked.claim {
        return Box::pin(super::claims::put(&app, &session, new, claim, millis(wait))).await;
    }
    let reply = match app.executor().prepare(&session.caller, new).await {
        Ok(reply) => reply,
        Err(error) => return Err(Box::pin(app.refused(&session, error, &id)).await),
    };
    let PrepareReply { mut view, created, begun } = reply;
    if execute && !matches!(begun, Begun::Started(_)) && due(&app, &view) {
        Box::pin(carry(&app, &session, &view)).await?;
        view = look_again(&app, &session, view).await?;
    }
    let view = settle(&app, &session, view, millis(wait)).await?;
    Ok(answer(&app, &view, created, execute))
}

/// `POST /v1/operations/{id}/execute`.
pub(super) async fn execute(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Agent).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let wait = body::wait_only(&bytes, app.limits())?.unwrap_or(EXECUTE_WAIT);
    let view = match app.executor().execute(&session.caller, &id).await {
        Ok(view) => view,
        Err(error) => return Err(Box::pin(app.refused(&session, error, &id)).await),
    };
    let view = settle(&app, &session, view, millis(wait)).await?;
    Ok(answer(&app, &view, false, true))
}

/// `GET /v1/operations/{id}`.
pub(super) async fn get(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let session = app.enter(&parts, Need::Look).await?;
    let id = operation_id(&parts)?;
    let wait = Query::parse(parts.uri.query(), &["wait_ms"])?.wait(app.limits())?.unwrap_or(0);
    let view = match app.ledger().find(&session.caller, &id).await {
        Ok(view) => view,
        Err(error) => return Err(Box::pin(app.refused(&session, error, &id)).await),
    };
    let over = view.operation.state.is_final() || view.next.action == Action::None;
    if wait == 0 || over {
        return Ok(shown(StatusCode::OK, &view));
    }
    let view = Box::pin(wait_for_change(&app, &session, view, millis(wait))).await?;
    Ok(shown(StatusCode::OK, &view))
}

/// Waits until the operation is newer than `view`, at most for `wait`.
pub(super) async fn wait_for_change(
    app: &App,
    session: &Session,
    view: View,
    wait: Duration,
) -> Result<View, Problem> {
    let (id, since) = (view.operation.id.clone(), Some(view.operation.version));
    let waited = tokio::select! {
        waited = app.ledger().wait(&session.caller, &id, wait, since) => waited,
        () = app.draining().cancelled() => Ok(view),
    };
    let session = app.authority().again(session).await?;
    session.caller.needs(Need::Look)?;
    match waited {
        Ok(view) => {
            session.caller.may_use(&view.operation.tool)?;
            Ok(view)
        }
        Err(error) => Err(app.refused(&session, error, &id).await),
    }
}

/// `GET /v1/operations`.
pub(super) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let session = app.enter(&parts, Need::States).await?;
    let filter = Query::parse(parts.uri.query(), &FILTERS)?.filter(app.limits())?;
    let page = app.ledger().list(&session.caller, filter).await.map_err(|error| match error {
        Error::Refused(refusal) => Problem::from(refusal),
        Error::Store(error) => Problem::from(error),
    })?;
    let items = page.items.iter().map(Representation::of).collect();
    Ok(json_of(&Listed { items, next_cursor: page.next_cursor }))
}

/// What a prepare would lead to.
#[derive(Serialize)]
struct Would<'v> {
    would: &'static str,
    #[serde(flatten)]
    operation: Option<Representation<'v>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

/// Says what a prepare would do. Who may not ask is refused as ever; what the ledger would refuse is the answer.
async fn dry_run(
    app: &App,
    session: &Session,
    new: NewOperation,
    claim: Option<&ClaimAsked>,
) -> Result<Response, Problem> {
    let id = new.id.clone();
    let would = match claim {
        Some(claim) => app.executor().dry_run_claimed(&session.caller, new, claim).await,
        None => app.executor().dry_run(&session.caller, new).await,
    };
    match would {
        Ok(reply) => {
            let would = if reply.created { "create" } else { "replay" };
            let operation = Some(Representation::of(&reply.view));
            Ok(json_of(&Would { would, operation, problem: None }))
        }
        Err(error) => {
            let may_not = match &error {
                Error::Refused(Refusal::ToolForbidden | Refusal::RoleForbidden(_)) | Error::Store(_) => true,
                Error::Refused(_) => false,
            };
            let problem = app.refused(session, error, &id).await;
            if may_not {
                return Err(problem);
            }
            Ok(json_of(&Would { would: "refuse", operation: None, problem: Some(problem) }))
        }
    }
}

/// Whether a standing wish can be carried on right now.
fn due(app: &App, view: &View) -> bool {
    let startable = match view.next.action {
        Action::Retry | Action::Reconcile => true,
        Action::Approve
        | Action::Execute
        | Action::WaitForOperation
        | Action::Wait
        | Action::Review
        | Action::Correct
        | Action::Report
        | Action::None => false,
    };
    startable && view.next.at.is_some_and(|at| at <= app.ledger().store().now())
}

/// Carries the operation on now, in place of the next round of the executor.
async fn carry(app: &App, session: &Session, view: &View) -> Result<(), Problem> {
    let (executor, account, id) =
        (app.executor().clone(), session.caller.account.clone(), view.operation.id.clone());
    // In a task of its own: a caller that hangs up must not part the commit from the send that follows it.
    match app.executor().detached(async move { executor.carry(&account, &id).await }).await {
        Ok(()) => Ok(()),
        Err(Error::Refused(refusal)) => {
            tracing::debug!(operation = %view.operation.id, code = refusal.code(), "not carried on");
            Ok(())
        }
        Err(Error::Store(error)) => Err(Problem::from(error).sent(Sent::Maybe)),
    }
}

async fn look_again(app: &App, session: &Session, before: View) -> Result<View, Problem> {
    let view = app.ledger().find(&session.caller, &before.operation.id).await;
    view.map_err(|error| Problem::of(error, &before.operation.id).sent(Sent::Maybe))
}

/// Waits until the operation is final or only somebody else can move it, at most for `wait`. From here on an attempt
/// may have been recorded by the call.
pub(super) async fn settle(
    app: &App,
    session: &Session,
    view: View,
    wait: Duration,
) -> Result<View, Problem> {
    if wait.is_zero() || view.ends_wait(app.ledger().store().now()) {
        return Ok(view);
    }
    Box::pin(wait_for(app, session, &view.operation.id, wait))
        .await
        .map_err(|problem| problem.sent(Sent::Maybe))
}

async fn wait_for(app: &App, session: &Session, id: &OperationId, wait: Duration) -> Result<View, Problem> {
    let waited = tokio::select! {
        waited = app.ledger().wait(&session.caller, id, wait, None) => waited,
        () = app.draining().cancelled() => app.ledger().find(&session.caller, id).await,
    };
    let session = app.authority().again(session).await?;
    let waited = waited.map_err(|error| Problem::of(error, id))?;
    session.caller.may_use(&waited.operation.tool)?;
    Ok(waited)
}

/// 201 for a new operation, 200 for what is over or was not to run, 202 for what goes on.
pub(super) fn answer(app: &App, view: &View, created: bool, execute: bool) -> Response {
    let over = view.operation.state.is_final();
    let status = match (execute, over, created) {
        (true, true, _) | (false, _, false) => StatusCode::OK,
        (true, false, _) => StatusCode::ACCEPTED,
        (false, _, true) => StatusCode::CREATED,
    };
    let mut response = shown(status, view);
    let headers = response.headers_mut();
    if status == StatusCode::ACCEPTED
        && let Some(seconds) = come_back(app, view)
    {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::CREATED
        && let Ok(place) = HeaderValue::try_from(format!("/v1/operations/{}", segment(&view.operation.id)))
    {
        headers.insert(header::LOCATION, place);
    }
    response
}

/// In how many seconds it is worth asking again; never where only a person can move the operation.
fn come_back(app: &App, view: &View) -> Option<u64> {
    match view.next.action {
        Action::Approve | Action::Review | Action::None | Action::Correct | Action::Report => None,
        Action::Execute | Action::WaitForOperation | Action::Wait => Some(1),
        // Only a resume can move what is paused.
        Action::Retry | Action::Reconcile if view.next.at.is_none() => None,
        Action::Retry | Action::Reconcile => {
            let away = view.next.at.map(|at| at.since(app.ledger().store().now())).unwrap_or_default();
            let away = away.min(LONGEST_AWAY);
            Some(away.as_millis().div_ceil(1000).try_into().unwrap_or(1).max(1))
        }
    }
}

/// An operation as the whole answer.
pub(super) fn shown(status: StatusCode, view: &View) -> Response {
    json(status, Representation::of(view).to_bytes())
}
