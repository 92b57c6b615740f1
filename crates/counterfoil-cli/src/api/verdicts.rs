//! What a person says of an operation that no rule can settle, and the question to the destination that may spare them
//! the answer.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use counterfoil::caller::Need;
use counterfoil::executor::LookUpBegun;

use super::body::{self, ResolveBody};
use super::decisions::{carry_on, told};
use super::operations::{answer, wait_for_change};
use super::problem::Problem;
use super::{App, operation_id, refuse_query};

/// How long the destination's answer to a look-up is waited for. A later one is recorded all the same.
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(5);

/// `POST /v1/operations/{id}/reconcile`: asks the destination now, where that is of use. It never sends.
pub(super) async fn reconcile(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Reconcile).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    body::nothing(&bytes)?;
    let view = match app.executor().look_up_now(&session.caller, &id).await {
        Ok(LookUpBegun { view, asks: true }) => {
            wait_for_change(&app, &session, view, LOOKED_UP_WITHIN).await?
        }
        Ok(LookUpBegun { view, asks: false }) => view,
        Err(error) => return Err(Box::pin(app.refused(&session, error, &id)).await),
    };
    Ok(answer(&app, &view, false, true))
}

/// `POST /v1/operations/{id}/resolve`.
pub(super) async fn resolve(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Approver).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let ResolveBody { verdict, note, if_version } = ResolveBody::parse(&bytes)?;
    let decided = app.ledger().resolve(&session.caller, id.clone(), verdict, note, if_version).await;
    // A command that only decides does not stay to see an attempt through.
    carry_on(&app, &session, &decided);
    told(&app, &session, decided, &id).await
}

/// `POST /v1/operations/{id}/release`.
pub(super) async fn release(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Approver).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let (note, if_version) = body::release(&bytes)?;
    let decided = app.ledger().release(&session.caller, id.clone(), note, if_version).await;
    told(&app, &session, decided, &id).await
}

/// `POST /v1/operations/{id}/notes`.
pub(super) async fn note(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Approver).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let (text, remind_at) = body::note(&bytes)?;
    let decided = app.ledger().add_note(&session.caller, id.clone(), text, remind_at).await;
    told(&app, &session, decided, &id).await
}
