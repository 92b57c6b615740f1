//! What a server for development serves besides the API: the story, the switches for faults, the supplier's portal.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::{HeaderValue, Method, StatusCode, header};
use serde::{Deserialize, Serialize};
use sim::supplier::read_effects;

use super::faults::{Fault, Faults};
use super::page::{self, Order};
use super::story::Story;
use crate::api::Problem;

/// What the pages show. Clones share it.
#[derive(Clone)]
pub struct Shown {
    /// What is armed.
    pub faults: Arc<Faults>,
    /// What happened.
    pub story: Story,
    /// How to try it.
    pub help: Arc<Vec<String>>,
    /// The practice supplier's own database.
    pub orders: PathBuf,
    /// The longest body that may arrive twice.
    pub body_limit: usize,
}

/// `api`, with the pages beside it and calls that may arrive twice.
pub fn around(api: Router, shown: Shown) -> Router {
    let pages = Router::new()
        .route("/", get(front))
        .route("/dev/story", get(lines))
        .route("/dev/faults", get(armed).post(arm))
        .route("/dev/orders", get(orders))
        .route("/dev/style.css", get(style))
        .layer(middleware::from_fn(only_here))
        .with_state(shown.clone());
    api.layer(middleware::from_fn_with_state(shown, twice)).merge(pages)
}

/// The pages need no token, so they answer this host's browsers alone, and take nothing from other sites: a page
/// elsewhere could have its name resolve to this address, or post a form to it.
async fn only_here(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let local = |authority: &str| {
        let name = authority.rsplit_once(':').map_or(authority, |(name, port)| {
            if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { authority }
        });
        matches!(name, "127.0.0.1" | "localhost" | "[::1]")
    };
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let here = text(header::HOST).is_some_and(local);
    let ours = match text(header::ORIGIN) {
        Some(origin) => {
            origin.strip_prefix("http://").is_some_and(|origin| Some(origin) == text(header::HOST))
        }
        None => !headers.contains_key(header::ORIGIN),
    };
    if !here || (request.method() != Method::GET && !ours) {
        return Problem::new("forbidden", "This page answers only this host, and forms of its own.")
            .into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let policy =
        "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A call that carries an operation out may arrive twice at once, as an agent that lost patience sends it.
async fn twice(State(shown): State<Shown>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let carries_out = path.starts_with("/v1/operations/")
        && (request.method() == Method::PUT
            || (request.method() == Method::POST && path.ends_with("/execute")));
    if !carries_out || shown.faults.take(&[Fault::Twice]).is_none() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, shown.body_limit).await else {
        return Problem::new("too-large", "The body is too large.").into_response();
    };
    shown.story.tell("the call arrives twice at once, on purpose");
    let again = Request::from_parts(parts.clone(), Body::from(bytes.clone()));
    let once = Request::from_parts(parts, Body::from(bytes));
    let (answer, _same) = tokio::join!(next.clone().run(once), next.run(again));
    answer
}

async fn front(State(shown): State<Shown>) -> Response {
    let lines = shown.story.lines(page::LINES);
    html(page::story(&lines, &shown.faults.armed(), &shown.help))
}

async fn lines(State(shown): State<Shown>) -> Response {
    let mut text = shown.story.lines(usize::MAX).join("\n");
    text.push('\n');
    typed("text/plain; charset=utf-8", text)
}

async fn style() -> Response {
    typed("text/css; charset=utf-8", page::STYLE.to_owned())
}

/// What is armed, the next one first.
#[derive(Serialize)]
struct Armed {
    armed: Vec<Fault>,
}

async fn armed(State(shown): State<Shown>) -> Response {
    axum::Json(Armed { armed: shown.faults.armed() }).into_response()
}

/// A fault for the next call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arm {
    fault: Fault,
    #[serde(default = "one")]
    times: u32,
}

/// Bytes of a body that arms faults.
const ASKED_BYTES: usize = 1_024;

fn one() -> u32 {
    1
}

async fn arm(State(shown): State<Shown>, request: Request) -> Response {
    let bytes = to_bytes(request.into_body(), ASKED_BYTES).await.unwrap_or_default();
    // The page's own buttons have one value each, a word.
    let button = bytes.strip_prefix(b"fault=").map(|name| std::str::from_utf8(name).unwrap_or_default());
    let asked = match button {
        Some(name) => Fault::named(name).map(|fault| Arm { fault, times: 1 }),
        None => serde_json::from_slice(&bytes).ok(),
    };
    let Some(asked) = asked else {
        let detail = "The body is {\"fault\": \"drop\" | \"kill\" | \"twice\", \"times\": N}.";
        return Problem::new("invalid-request", detail).into_response();
    };
    for _ in 0..asked.times {
        if !shown.faults.arm(asked.fault) {
            return Problem::new("invalid-request", "Too many faults are armed; let some happen first.")
                .into_response();
        }
        shown.story.tell(&format!("armed: {}", asked.fault.says()));
    }
    if button.is_some() { Redirect::to("/").into_response() } else { armed(State(shown)).await }
}

async fn orders(State(shown): State<Shown>, Query(query): Query<HashMap<String, String>>) -> Response {
    let searched = query.get("q").cloned().unwrap_or_default();
    let (database, wanted) = (shown.orders.clone(), searched.clone());
    let read = tokio::task::spawn_blocking(move || read_orders(&database, &wanted)).await;
    match read {
        Ok(Ok(found)) => html(page::orders(&found, &searched)),
        Ok(Err(_)) | Err(_) => {
            Problem::new("store-unavailable", "The practice supplier's orders cannot be read.")
                .into_response()
        }
    }
}

fn read_orders(database: &Path, wanted: &str) -> std::io::Result<Vec<Order>> {
    let effects = read_effects(database)?;
    let orders = effects.into_iter().map(|effect| Order {
        number: effect.order,
        reference: effect.reference.or(effect.key).unwrap_or_default(),
        body: String::from_utf8_lossy(&effect.body).into_owned(),
    });
    Ok(orders.filter(|order| order.reference.contains(wanted)).collect())
}

fn html(text: String) -> Response {
    typed("text/html; charset=utf-8", text)
}

fn typed(kind: &'static str, text: String) -> Response {
    let mut response = (StatusCode::OK, text).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
