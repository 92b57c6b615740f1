//! What probes, scrapers and people look at beside the operations.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use counterfoil::caller::Need;
use counterfoil::store::Census;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::problem::Problem;
use super::{App, document, json, peer};
use crate::problems;

/// `GET /healthz`: the process answers.
pub(super) async fn healthz() -> Response {
    json(StatusCode::OK, b"{\"status\":\"ok\"}".to_vec())
}

/// `GET /readyz`: the ledger can be used and the server is not ending.
pub(super) async fn readyz(State(app): State<App>) -> Result<Response, Problem> {
    let store = app.ledger().store();
    if store.poisoned() || app.draining().is_cancelled() {
        return Err(Problem::new("store-unavailable", "The server is ending.").retry_after(1));
    }
    store.pauses().await?;
    Ok(json(StatusCode::OK, b"{\"status\":\"ready\"}".to_vec()))
}

/// `GET /metrics`: open to this host, to operators from elsewhere.
pub(super) async fn metrics(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let here = peer(&parts).is_none_or(|address| address.is_loopback()) && !forwarded(&parts.headers);
    if !here {
        app.enter(&parts, Need::Operator).await?;
    }
    let store = app.ledger().store();
    // A ledger that does not answer is no reason to show nothing.
    let census = store.census(None).await.unwrap_or_else(|_| Census::default());
    let pauses = store.pauses().await.map_or(0, |pauses| pauses.len());
    let gauges = super::metrics::Gauges {
        census,
        pauses,
        attempts: app.executor().running(),
        now: store.now(),
        poisoned: store.poisoned(),
        commits: store.commit_stats(),
    };
    let text = app.metrics().text(&gauges);
    Ok(typed("text/plain; version=0.0.4; charset=utf-8", text))
}

/// Whether a proxy on this host passes on somebody else's call.
fn forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(header::FORWARDED) || headers.contains_key("x-forwarded-for")
}

/// `GET /problems`.
pub(super) async fn problems() -> Response {
    typed("text/markdown; charset=utf-8", problems::index())
}

/// `GET /problems/{slug}`.
pub(super) async fn problem(Path(slug): Path<String>) -> Result<Response, Problem> {
    let found =
        problems::find(&slug).ok_or_else(|| Problem::new("not-found", "There is no such problem."))?;
    Ok(typed("text/markdown; charset=utf-8", problems::page(found)))
}

/// `GET /console/…`: what answers and notices link to. It shows nothing of the ledger, so it asks for no token.
pub(super) async fn console() -> Response {
    let mut response = typed("text/html; charset=utf-8", CONSOLE.to_owned());
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

const CONSOLE: &str = "<!doctype html><meta charset=utf-8><title>Counterfoil</title>\
<style>body{font:16px/1.5 system-ui;margin:3rem auto;max-width:40rem;padding:0 1rem}</style>\
<h1>No console in this version</h1>\
<p>The last part of this address is the ID of an operation. On the server's host, or with <code>--server</code> and \
<code>--token</code> from elsewhere:\
<p><code>counterfoil op show ID</code> shows it, and what it waits for;\
<p><code>counterfoil review</code> goes through everything that waits for a person.\
<p>Programs ask <code>GET /v1/operations/ID</code>.\n";

/// `GET /openapi.json`.
pub(super) async fn openapi() -> Response {
    json(StatusCode::OK, document().into_bytes())
}

fn typed(kind: &'static str, text: String) -> Response {
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
