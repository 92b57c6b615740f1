//! Steers a supplier that runs as its own process, over the port that it serves on.
//!
//! | Request | Does |
//! |---|---|
//! | `POST /sim/faults` with `{"target": "writes", "fault": "reply_dropped", "times": 1}` | queues a fault; `target` and `times` may be left out |
//! | `DELETE /sim/faults` | takes back all faults that have not struck, and the random ones |
//! | `POST /sim/forget-keys` | empties the table of keys |
//! | `POST /sim/release` | releases the requests that hang and the accepted ones |
//! | `POST /sim/advance` with `{"ms": 1000}` | moves the supplier's time on |
//! | `GET /sim/status` | `{"requests", "effects", "faults_pending", "faults": [[request, fault]]}` |
//!
//! These requests are not counted, and no fault strikes them.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::fault::Fault;
use super::request::SeenRequest;
use super::script::Target;
use super::state::State;
use crate::host::lock;
use crate::wire::Reply;

/// The most times that one call may queue its fault.
const TIMES_MAX: u32 = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueFault {
    #[serde(default)]
    target: Target,
    fault: Fault,
    #[serde(default = "once")]
    times: u32,
}

fn once() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    ms: u64,
}

/// Whether the first bytes of a request belong to a control path.
pub(super) fn is_for(glance: &[u8]) -> bool {
    let path = glance.split(|byte| *byte == b' ').nth(1);
    path.is_some_and(|path| path.starts_with(b"/sim/"))
}

pub(super) async fn answer(state: &State, request: &SeenRequest) -> Reply {
    match steer(state, request).await {
        Ok(reply) => reply,
        Err(error) => {
            let status = if error.kind() == io::ErrorKind::InvalidInput { 400 } else { 500 };
            Reply::json(status, &json!({ "error": { "code": "control", "message": error.to_string() } }))
        }
    }
}

async fn steer(state: &State, request: &SeenRequest) -> io::Result<Reply> {
    match (request.method.as_str(), request.path()) {
        ("POST", "/sim/faults") => {
            let wanted: QueueFault = body(request)?;
            let mut script = lock(&state.script);
            for _ in 0..wanted.times.min(TIMES_MAX) {
                script.push(wanted.target.clone(), wanted.fault.clone())?;
            }
        }
        ("DELETE", "/sim/faults") => lock(&state.script).clear(),
        ("POST", "/sim/forget-keys") => state.on_store(|store| store.forget_keys()).await?,
        ("POST", "/sim/release") => state.release(),
        ("POST", "/sim/advance") => state.advance(Duration::from_millis(body::<Advance>(request)?.ms)),
        ("GET", "/sim/status") => return status(state).await,
        _ => return Ok(Reply::error(404, "not_found")),
    }
    Ok(Reply { status: 204, headers: Vec::new(), body: Vec::new() })
}

async fn status(state: &State) -> io::Result<Reply> {
    let effects = state.on_store(|store| store.effects()).await?.len();
    let (requests, faults) = {
        let seen = lock(&state.seen);
        (seen.total, seen.faults.clone())
    };
    let pending = lock(&state.script).pending();
    let status =
        json!({ "requests": requests, "effects": effects, "faults_pending": pending, "faults": faults });
    Ok(Reply::json(200, &status))
}

fn body<T: for<'de> Deserialize<'de>>(request: &SeenRequest) -> io::Result<T> {
    serde_json::from_slice(&request.body).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
