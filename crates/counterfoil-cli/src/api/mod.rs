//! The HTTP API, version 1. Every answer goes out after the commit that it tells of, and says whether anything may have
//! been sent.

pub mod auth;
mod body;
mod claims;
mod decisions;
mod evidence;
mod feed;
pub mod listen;
pub mod metrics;
mod openapi;
mod operations;
mod problem;
mod query;
mod representation;
mod service;
mod sse;
mod tools;
mod verdicts;
mod worker_body;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use counterfoil::caller::Need;
use counterfoil::executor::Executor;
use counterfoil::ledger::Ledger;
use counterfoil::{Error, OperationId, Refusal};
use http::request::Parts;
use http::{HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use self::auth::{Authority, Session};
use self::metrics::Metrics;
pub use self::openapi::document;
pub use self::problem::{Problem, Sent};
pub use self::representation::{Representation, segment};
pub use self::tools::undeployed;
use crate::config::Limits;

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Who is at the other end of a connection; `None` for a socket in the file system.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub Option<IpAddr>);

/// What every call shares. Clones share it.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

struct Inner {
    executor: Executor,
    authority: Authority,
    limits: Limits,
    metrics: Metrics,
    draining: CancellationToken,
    /// Places for workers that wait for work.
    waiting: Arc<Semaphore>,
    /// Tells request IDs of this process from those of others.
    run: u32,
    requests: AtomicU32,
}

impl App {
    /// An API over `executor` and its ledger.
    #[must_use]
    pub fn new(executor: Executor, limits: Limits) -> Self {
        let ledger = executor.ledger().clone();
        let run = u32::try_from(ledger.random() >> 32).unwrap_or_default();
        Self {
            inner: Arc::new(Inner {
                authority: Authority::new(ledger),
                executor,
                limits,
                metrics: Metrics::default(),
                draining: CancellationToken::new(),
                waiting: Arc::new(Semaphore::new(claims::WAITING)),
                run,
                requests: AtomicU32::new(0),
            }),
        }
    }

    /// From now on callers that wait are answered with what is known, and nothing is ready any more.
    pub fn drain(&self) {
        self.inner.draining.cancel();
    }

    /// What the calls add up to.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The longest body that any call may have, in bytes.
    #[must_use]
    pub fn longest_body(&self) -> usize {
        body::longest(self.limits())
    }

    fn executor(&self) -> &Executor {
        &self.inner.executor
    }

    fn ledger(&self) -> &Ledger {
        self.inner.executor.ledger()
    }

    fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    fn authority(&self) -> &Authority {
        &self.inner.authority
    }

    /// A place for a worker that waits for work, as long as there is one.
    fn wait_for_work(&self) -> Option<OwnedSemaphorePermit> {
        self.inner.waiting.clone().try_acquire_owned().ok()
    }

    fn draining(&self) -> &CancellationToken {
        &self.inner.draining
    }

    /// The caller of a request, with the role that the call needs: the first two checks of every call.
    async fn enter(&self, parts: &Parts, need: Need) -> Result<Session, Problem> {
        let session = self.authority().authenticate(parts, peer(parts)).await?;
        session.caller.needs(need)?;
        Ok(session)
    }

    /// What the ledger refused, with what the caller may know of the operations that it is about. Guesses at IDs are
    /// counted.
    async fn refused(&self, session: &Session, error: Error, id: &OperationId) -> Problem {
        if matches!(&error, Error::Refused(Refusal::UnknownOperation | Refusal::UnknownNamed { .. }))
            && let Err(too_many) = self.authority().missed_id(&session.caller.account)
        {
            return too_many;
        }
        let itself = match &error {
            Error::Refused(
                Refusal::ApprovalRequired
                | Refusal::WrongState(_)
                | Refusal::FingerprintMismatch
                | Refusal::ChangedMeanwhile
                | Refusal::TooEarly { .. }
                | Refusal::SamePrincipal
                | Refusal::InProgress
                | Refusal::Paused
                | Refusal::NotAWorkerTool
                | Refusal::StaleClaim,
            ) => true,
            Error::Refused(_) | Error::Store(_) => false,
        };
        let not_before = match &error {
            Error::Refused(Refusal::TooEarly { not_before }) => *not_before,
            Error::Refused(_) | Error::Store(_) => None,
        };
        let problem = Problem::of(error, id);
        let named = if itself { Some(id) } else { problem.operation_id() };
        let Some(named) = named.cloned() else { return problem };
        match self.ledger().stand(&session.caller, &named).await {
            Ok(view) if itself => problem.about(&view).not_before(not_before),
            Ok(view) if problem.code() != "operation-id-reused" => problem.next(&view),
            Ok(_) | Err(_) => problem,
        }
    }

    fn request_id(&self) -> HeaderValue {
        let number = self.inner.requests.fetch_add(1, Ordering::Relaxed);
        let mut text = *b"req_0000000000000000";
        let mut rest = (u64::from(self.inner.run) << 32) | u64::from(number);
        for place in text.iter_mut().skip(4).rev() {
            *place = b"0123456789abcdef"[usize::from((rest & 15) as u8)];
            rest >>= 4;
        }
        HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("req_0"))
    }
}

/// The routes of version 1.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/v1/operations", get(operations::list))
        .route("/v1/operations/{id}", put(operations::put).get(operations::get))
        .route("/v1/operations/{id}/execute", post(operations::execute))
        .route("/v1/operations/{id}/approve", post(decisions::approve))
        .route("/v1/operations/{id}/deny", post(decisions::deny))
        .route("/v1/operations/{id}/withdraw", post(decisions::withdraw))
        .route("/v1/operations/{id}/reconcile", post(verdicts::reconcile))
        .route("/v1/operations/{id}/resolve", post(verdicts::resolve))
        .route("/v1/operations/{id}/release", post(verdicts::release))
        .route("/v1/operations/{id}/notes", post(verdicts::note))
        .route("/v1/operations/{id}/claim", post(claims::claim))
        .route("/v1/operations/{id}/attempts/{n}/heartbeat", post(claims::heartbeat))
        .route("/v1/operations/{id}/attempts/{n}/outcome", post(claims::outcome))
        .route("/v1/claims", post(claims::claims))
        .route("/v1/operations/{id}/evidence", get(feed::evidence))
        .route("/v1/evidence/{tool}", post(evidence::hear))
        .route("/v1/events", get(feed::events))
        .route("/v1/tools", get(tools::list))
        .route("/v1/tools/{name}", get(tools::show))
        .route("/v1/tools/{name}/pause", post(tools::pause))
        .route("/v1/tools/{name}/resume", post(tools::resume))
        .route("/healthz", get(service::healthz))
        .route("/readyz", get(service::readyz))
        .route("/metrics", get(service::metrics))
        .route("/problems", get(service::problems))
        .route("/problems/{slug}", get(service::problem))
        .route("/console", get(service::console))
        .route("/console/", get(service::console))
        .route("/console/{*rest}", get(service::console))
        .route("/openapi.json", get(service::openapi))
        .fallback(nothing_here)
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(app.clone(), around))
        .with_state(app)
}

async fn nothing_here() -> Problem {
    Problem::new("not-found", "There is nothing at this path.")
}

async fn other_method() -> Problem {
    Problem::new(
        "method-not-allowed",
        "This path does not take this method; the header Allow says which it takes.",
    )
}

/// What every call has: an ID in the answer, and a place in the metrics.
async fn around(State(app): State<App>, request: Request, next: Next) -> Response {
    let clock = app.ledger().clock().clone();
    let began = clock.monotonic();
    let route = request.extensions().get::<MatchedPath>().map_or(0, |path| metrics::route(path.as_str()));
    let running = app.metrics().begin();
    let mut response = next.run(request).await;
    drop(running);
    app.metrics().count(route, response.status().as_u16(), clock.monotonic().saturating_sub(began));
    response.headers_mut().insert(REQUEST_ID, app.request_id());
    response
}

fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<Peer>().and_then(|peer| peer.0)
}

/// The operation ID in `/v1/operations/{id}…`. An encoded `/` belongs to the ID.
fn operation_id(parts: &Parts) -> Result<OperationId, Problem> {
    const WRONG: &str = "invalid-operation-id";
    let raw = parts.uri.path().split('/').nth(3).unwrap_or_default();
    let id = percent_decode_str(raw)
        .decode_utf8()
        .map_err(|_| Problem::new(WRONG, "The operation ID may hold only visible ASCII characters."))?;
    OperationId::parse(&id)
        .map_err(|error| Problem::new(WRONG, format!("The operation ID {}.", error.problem)))
}

fn refuse_query(parts: &Parts) -> Result<(), Problem> {
    query::Query::parse(parts.uri.query(), &[]).map(|_| ())
}

/// A JSON answer that no cache keeps.
fn json(status: http::StatusCode, body: Vec<u8>) -> Response {
    let mut response = body.into_response();
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn json_of(value: &impl serde::Serialize) -> Response {
    // Fails for no value that is given here.
    json(http::StatusCode::OK, serde_json::to_vec(value).unwrap_or_default())
}

/// A page of a list.
#[derive(serde::Serialize)]
struct Listed<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

fn millis(wait: u64) -> Duration {
    Duration::from_millis(wait)
}
