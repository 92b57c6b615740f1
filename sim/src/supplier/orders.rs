//! What the supplier does about a request: places an order, finds orders, shows one.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use super::fault::{Fault, Later};
use super::gate::Point;
use super::request::SeenRequest;
use super::state::State;
use super::store::{Effect, Write};
use crate::wire::Reply;

/// Does what is asked, under the request's fault, and says what is to be answered.
///
/// # Errors
/// If the database failed.
pub(super) async fn carry_out(state: &Arc<State>, request: &SeenRequest) -> io::Result<Reply> {
    if !known(request.path()) {
        return Ok(Reply::error(404, "not_found"));
    }
    if request.is_lookup() {
        return match request.fault.as_ref().and_then(Fault::answer_in_place) {
            Some(reply) => Ok(reply),
            None => look_up(state, request).await,
        };
    }
    write(state, request).await
}

fn known(path: &str) -> bool {
    path == "/orders"
        || path.starts_with("/orders/")
        || path.strip_prefix("/tools/").is_some_and(|name| !name.is_empty())
}

async fn write(state: &Arc<State>, request: &SeenRequest) -> io::Result<Reply> {
    let (write, later) = prepare(state, request);
    let accepted = state.accept(write.clone()).await?;
    if accepted.effect {
        state.gates.pass(Point::EffectCommitted, request).await;
    }
    match (accepted.order, later) {
        (Some(order), Some(later)) => state.queue(later, order, write),
        (Some(_), None) => {}
        // A repeat or a used reference: what is injected stands in front of that answer too.
        (None, _) => {
            if let Some(answer) = request.fault.as_ref().and_then(Fault::answer_in_place) {
                return Ok(answer);
            }
        }
    }
    Ok(accepted.reply)
}

fn prepare(state: &State, request: &SeenRequest) -> (Write, Option<Later>) {
    let flavour = &state.options.flavour;
    let fault = request.fault.as_ref();
    let later = match fault {
        Some(Fault::Accepted202(later)) => Some(*later),
        Some(fault) if !fault.has_effect() => None,
        Some(_) | None => state.options.queue,
    };
    let queued = later.is_some();
    let effect_now = !queued && fault.is_none_or(Fault::has_effect);
    let answer = fault.and_then(Fault::answer_in_place);
    let store_answer = answer.as_ref().is_some_and(|answer| match fault {
        // "Come back later" is not an outcome, and no supplier stores it.
        Some(Fault::RetryAfter(..)) => false,
        Some(_) | None if answer.status < 400 => effect_now || queued,
        Some(_) | None => flavour.stores_errors(),
    });
    let key = request.named(flavour.key_name());
    let key = key.or_else(|| if request.method == "PUT" { request.last_segment() } else { None });
    let write = Write {
        request: request.clone(),
        key,
        reference: request.named(&state.options.reference),
        effect_now,
        queued,
        answer,
        store_answer,
        now: state.now(),
    };
    (write, later)
}

async fn look_up(state: &State, request: &SeenRequest) -> io::Result<Reply> {
    if let Some(reference) = request.named(&state.options.reference) {
        let found = state.search(request.path().to_owned(), reference).await?;
        let orders: Vec<Value> = found.iter().map(document).collect();
        return Ok(Reply::json(200, &json!({ "orders": orders })));
    }
    let Some(order) = request.path().strip_prefix("/orders/").map(str::to_owned) else {
        return Ok(Reply::error(400, "reference_required"));
    };
    let found = state.on_store(move |store| store.by_order(&order)).await?;
    Ok(found.map_or_else(|| Reply::error(404, "not_found"), |effect| Reply::json(200, &document(&effect))))
}

fn document(effect: &Effect) -> Value {
    json!({
        "id": effect.order,
        "status": "created",
        "client_reference": effect.reference,
        "order": effect.value(),
    })
}
