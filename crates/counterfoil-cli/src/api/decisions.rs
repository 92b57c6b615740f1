//! Decisions before a start.

use axum::extract::{Request, State};
use axum::response::Response;
use counterfoil::caller::Need;
use counterfoil::decide::Action;
use counterfoil::snapshot::View;
use counterfoil::{Error, OperationId};
use http::StatusCode;

use super::auth::Session;
use super::body::{self, ApproveBody};
use super::operations::shown;
use super::problem::Problem;
use super::{App, operation_id, refuse_query};

/// `POST /v1/operations/{id}/approve`.
pub(super) async fn approve(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Approver).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let ApproveBody { fingerprint, acknowledges, if_version } = ApproveBody::parse(&bytes)?;
    let decided =
        app.ledger().approve(&session.caller, id.clone(), fingerprint, acknowledges, if_version).await;
    // A command that only decides does not stay to see an attempt through.
    carry_on(&app, &session, &decided);
    told(&app, &session, decided, &id).await
}

/// An approval, or a verdict that allows another attempt, starts what carries a standing wish. Nobody waits for it here;
/// where it fails, the executor's next round finds the operation due.
pub(super) fn carry_on(app: &App, session: &Session, decided: &Result<View, Error>) {
    let Ok(view) = decided else { return };
    if session.is_own() || !view.operation.wish || view.next.action != Action::Retry {
        return;
    }
    let (executor, account, id) =
        (app.executor().clone(), view.operation.account.clone(), view.operation.id.clone());
    tokio::spawn(async move {
        if let Err(error) = executor.carry(&account, &id).await {
            tracing::warn!(operation = %id, code = error.code(), "not started after a decision");
        }
    });
}

/// `POST /v1/operations/{id}/deny`.
pub(super) async fn deny(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Approver).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let reason = body::one_text(&bytes, "reason")?;
    let decided = app.ledger().deny(&session.caller, id.clone(), reason).await;
    told(&app, &session, decided, &id).await
}

/// `POST /v1/operations/{id}/withdraw`.
pub(super) async fn withdraw(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Agent).await?;
    let id = operation_id(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    body::nothing(&bytes)?;
    let decided = app.ledger().withdraw(&session.caller, id.clone()).await;
    told(&app, &session, decided, &id).await
}

/// The operation after a decision, or why there is none.
pub(super) async fn told(
    app: &App,
    session: &Session,
    decided: Result<View, Error>,
    id: &OperationId,
) -> Result<Response, Problem> {
    match decided {
        Ok(view) => Ok(shown(StatusCode::OK, &view)),
        Err(error) => Err(app.refused(session, error, id).await),
    }
}
