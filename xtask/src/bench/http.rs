//! What callers of the server see, all with the same client in the same run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};

use super::fixture;
use super::load::{Load, Pace};
use super::store::scattered;
use super::wire::{Client, request};

/// What is asked.
#[derive(Clone)]
pub(super) enum Ask {
    /// `/healthz`: what the server costs without the ledger.
    Health,
    /// A new order, executed, with its receipt in the answer. Numbers come from the counter.
    Execute(Arc<AtomicU64>),
    /// The same `PUT` as before, for one of so many stored orders.
    Replay(u64),
    /// `GET` of one of so many stored orders.
    Read(u64),
}

/// Asks with `callers` connections that stay open.
pub(super) async fn load(
    address: SocketAddr,
    token: &str,
    run: &str,
    ask: Ask,
    callers: usize,
    pace: Pace,
) -> Result<Load> {
    let asked = Arc::new(AtomicU64::new(1));
    super::load::run_with(callers, pace, |_| {
        let (token, run, ask, asked) = (token.to_owned(), run.to_owned(), ask.clone(), asked.clone());
        async move {
            let client = Arc::new(tokio::sync::Mutex::new(Client::connect(address).await?));
            Ok(move || {
                let step = asked.fetch_add(1, Ordering::Relaxed);
                let request = ask.request(&token, &run, step);
                let (client, again) = (client.clone(), matches!(ask, Ask::Replay(_)));
                let health = matches!(ask, Ask::Health);
                async move {
                    let (status, body) = client.lock().await.call(&request).await?;
                    ensure!(status == 200, "answered {status}: {}", String::from_utf8_lossy(&body));
                    if !health {
                        let text = std::str::from_utf8(&body)?;
                        ensure!(text.contains("\"succeeded\""), "no receipt: {text}");
                        ensure!(!again || text.contains("\"replayed\":true"), "not a replay: {text}");
                    }
                    Ok(())
                }
            })
        }
    })
    .await
}

impl Ask {
    fn request(&self, token: &str, run: &str, step: u64) -> Vec<u8> {
        match self {
            Self::Health => b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
            Self::Execute(next) => put(token, run, next.fetch_add(1, Ordering::Relaxed)),
            Self::Replay(stored) => put(token, run, scattered(step, *stored)),
            Self::Read(stored) => {
                let path = format!("/v1/operations/{}", fixture::id(run, scattered(step, *stored)));
                request("GET", &path, token, "")
            }
        }
    }
}

fn put(token: &str, run: &str, number: u64) -> Vec<u8> {
    let path = format!("/v1/operations/{}", fixture::id(run, number));
    let body = format!(
        r#"{{"tool":"{}","arguments":{},"execute":true}}"#,
        fixture::TOOL,
        fixture::arguments(number)
    );
    request("PUT", &path, token, &body)
}
