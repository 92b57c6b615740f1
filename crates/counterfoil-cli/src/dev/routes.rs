//! What a server for development serves besides the API: the story, the switches for faults, the supplier's portal.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use counterfoil::ledger::Ledger;
use http::{HeaderValue, Method, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sim::supplier::read_effects;

use super::clock::Moved;
use super::faults::{ARMED_MOST, Fault, Faults};
use super::page::{self, Order};
use super::story::Story;
use super::tools::{Carried, Tools, stated};
use crate::api::Problem;
use crate::config::duration::{Length, spell};

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
    /// The longest body of any call.
    pub body_limit: usize,
    /// What is declared.
    pub tools: Arc<Tools>,
    /// Where declarations of code are put in force.
    pub ledger: Ledger,
    /// The clock that can be moved on.
    pub clock: Arc<Moved>,
}

/// `api`, with the pages beside it and calls that may arrive twice.
pub fn around(api: Router, shown: Shown) -> Router {
    let pages = Router::new()
        .route("/", get(front))
        .route("/dev/story", get(lines))
        .route("/dev/faults", get(armed).post(arm).delete(disarm))
        .route("/dev/clock", post(advance))
        .route("/dev/declarations", post(write_down))
        .route("/dev/orders", get(orders))
        .route("/dev/style.css", get(style))
        .layer(middleware::from_fn(only_here))
        .with_state(shown.clone());
    api.layer(middleware::from_fn_with_state(shown.clone(), twice))
        .layer(middleware::from_fn_with_state(shown.clone(), lose_report))
        .layer(middleware::from_fn_with_state(shown, declare))
        .merge(pages)
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
            .hint("Open it as http://127.0.0.1 or http://localhost with its port, and use its own buttons.")
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
    let Ok(bytes) = to_bytes(body, shown.body_limit).await else { return too_large() };
    shown.story.tell("the call arrives twice at once, on purpose");
    let again = Request::from_parts(parts.clone(), Body::from(bytes.clone()));
    let once = Request::from_parts(parts, Body::from(bytes));
    let (answer, _same) = tokio::join!(next.clone().run(once), next.run(again));
    answer
}

/// A function's report of success may be lost on its way, as the reply of the SDK inside it is: the ledger learns that
/// something was sent, and no more.
async fn lose_report(State(shown): State<Shown>, request: Request, next: Next) -> Response {
    let report = request.method() == Method::POST && request.uri().path().ends_with("/outcome");
    if !report || shown.faults.take(&[Fault::Drop]).is_none() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, shown.body_limit).await else { return too_large() };
    let lost = serde_json::from_slice(&bytes).ok().and_then(|report: serde_json::Value| {
        let fence = report.get("fencing_token")?.as_u64()?;
        (report.get("outcome")? == "succeeded").then(|| {
            json!({ "fencing_token": fence, "outcome": "unknown", "marker": "bytes_written" }).to_string()
        })
    });
    let Some(lost) = lost else {
        // There is no success to lose: the next one is.
        shown.faults.put_back(Fault::Drop);
        return next.run(Request::from_parts(parts, Body::from(bytes))).await;
    };
    shown.story.tell("the function's reply is dropped on purpose: the work is done, and nobody can tell");
    let mut parts = parts;
    parts.headers.remove(header::CONTENT_LENGTH);
    next.run(Request::from_parts(parts, Body::from(lost))).await
}

/// Code may bring the declaration of its tool; the folder's file decides where it has the tool. Only calls with a token
/// are looked at: a page in a browser cannot send one unasked.
async fn declare(State(shown): State<Shown>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let may_state = (request.method() == Method::PUT && path.starts_with("/v1/operations/"))
        || (request.method() == Method::POST && path == "/v1/claims");
    if shown.tools.declared_only || !may_state || !request.headers().contains_key(header::AUTHORIZATION) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, shown.body_limit).await else { return too_large() };
    for (tool, declaration) in stated(&bytes) {
        if let Err(why) = take_up(&shown, tool, declaration).await {
            let hint = "The code's declaration of the tool does not load; the keys are those of the file.";
            return Problem::new("invalid-request", why).hint(hint).into_response();
        }
    }
    next.run(Request::from_parts(parts, Body::from(bytes))).await
}

async fn take_up(shown: &Shown, tool: String, declaration: serde_json::Value) -> Result<(), String> {
    let (tools, name) = (shown.tools.clone(), tool.clone());
    let carried = tokio::task::spawn_blocking(move || tools.carry(&tool, &declaration)).await;
    match carried.map_err(|error| error.to_string())?? {
        Carried::Known => Ok(()),
        Carried::New(config) => {
            let declared = config.tools.into_values().map(|declared| declared.tool).collect();
            shown.ledger.declare(declared).await.map_err(|error| error.to_string())?;
            shown.story.tell(&format!("the code declares {name} (w writes it to the configuration file)"));
            Ok(())
        }
    }
}

fn too_large() -> Response {
    Problem::new("too-large", "The body is too large.").into_response()
}

async fn write_down(State(shown): State<Shown>) -> Response {
    let (tools, story) = (shown.tools.clone(), shown.story.clone());
    match tokio::task::spawn_blocking(move || written_down(&tools, &story)).await {
        Ok(true) => Redirect::to("/").into_response(),
        Ok(false) | Err(_) => {
            Problem::new("internal-error", "The configuration file cannot be written.").into_response()
        }
    }
}

/// Writes what code declares to the file, and says so.
pub fn written_down(tools: &Tools, story: &Story) -> bool {
    let file = tools.file.display();
    match tools.write_down() {
        Ok(0) => story.tell("the code declares nothing that is not in the file"),
        Ok(1) => story.tell(&format!("wrote 1 tool to {file}, which decides from now on")),
        Ok(written) => story.tell(&format!("wrote {written} tools to {file}, which decides from now on")),
        Err(error) => {
            story.tell(&format!("{file} cannot be written: {error}"));
            return false;
        }
    }
    true
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
    if usize::try_from(asked.times).map_or(true, |times| times > shown.faults.room()) {
        return Problem::new("invalid-request", format!("At most {ARMED_MOST} faults are armed at once."))
            .hint("Let some happen first, or take them back with DELETE /dev/faults.")
            .into_response();
    }
    for _ in 0..asked.times {
        if !shown.faults.arm(asked.fault) {
            break;
        }
        shown.story.tell(&format!("armed: {}", asked.fault.says()));
    }
    if button.is_some() { Redirect::to("/").into_response() } else { armed(State(shown)).await }
}

async fn disarm(State(shown): State<Shown>) -> Response {
    shown.faults.disarm();
    shown.story.tell("nothing is armed any more");
    armed(State(shown)).await
}

/// How far to move the clock on, as `{"advance": "25h"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    advance: String,
}

async fn advance(State(shown): State<Shown>, request: Request) -> Response {
    let bytes = to_bytes(request.into_body(), ASKED_BYTES).await.unwrap_or_default();
    let asked = serde_json::from_slice::<Advance>(&bytes).ok();
    let Some(by) = asked.and_then(|asked| Length::parse(&asked.advance).ok()) else {
        return Problem::new("invalid-request", "The body is {\"advance\": \"25h\"}.").into_response();
    };
    let clock = shown.clock.clone();
    match tokio::task::spawn_blocking(move || clock.advance(by.0)).await {
        Ok(Ok(moved)) => {
            let now = counterfoil::Clock::now(&*shown.clock);
            let text = format!("the clock is moved on by {}: the ledger takes it for {now}", spell(by.0));
            shown.story.tell(&text);
            axum::Json(json!({ "moved": spell(moved) })).into_response()
        }
        Ok(Err(error)) => Problem::new("invalid-request", error.to_string()).into_response(),
        Err(_) => Problem::new("internal-error", "The clock cannot be moved.").into_response(),
    }
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
