//! The feed as server-sent events: one `data` line of JSON for each change, its cursor as the ID.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body_util::channel::{Channel, Sender};

use super::feed::{Event, Listener};

/// How often a stream says that it lives, and asks whether its token does.
const PULSE: Duration = Duration::from_millis(500);

/// How many pulses go by between two signs of life.
const QUIET_PULSES: u32 = 30;

/// How many changes are read at once.
const AT_ONCE: u32 = 100;

/// A stream of the changes after `after`. It ends when the token is revoked, the caller goes away or the server ends.
pub(super) fn answer(listener: Listener, after: u64) -> Response {
    let (sender, body) = Channel::<Bytes, Infallible>::new(16);
    tokio::spawn(follow(listener, after, sender));
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn follow(mut listener: Listener, mut after: u64, mut sender: Sender<Bytes, Infallible>) {
    let mut quiet = 0;
    if sender.send_data(Bytes::from_static(b": open\n\n")).await.is_err() {
        return;
    }
    while !listener.draining() {
        let Ok(page) = listener.next(after, AT_ONCE, PULSE).await else { return };
        after = page.next_cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(after);
        let text = if page.items.is_empty() {
            quiet += 1;
            if quiet < QUIET_PULSES {
                continue;
            }
            Bytes::from_static(b": here\n\n")
        } else {
            page.items.iter().map(line).collect::<String>().into()
        };
        quiet = 0;
        // A caller that went away.
        if sender.send_data(text).await.is_err() {
            return;
        }
    }
}

fn line(event: &Event) -> String {
    // JSON text has no line break in it.
    let data = serde_json::to_string(event).unwrap_or_default();
    format!("id: {}\nevent: operation\ndata: {data}\n\n", event.cursor)
}
