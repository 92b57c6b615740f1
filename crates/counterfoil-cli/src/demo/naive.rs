//! The loop that Counterfoil replaces: send, and when nothing comes back send again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use sim::wire::exchange;
use tokio::time::Instant;

use super::actions::Action;
use super::story::{Story, Tone};
use super::supplier::LABEL_HEADER;

/// As patient as the tools of the configuration are.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);
const CARRY_LIMIT: Duration = Duration::from_secs(40);

/// What it has done so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Requests that reached a supplier.
    pub(crate) attempts: AtomicUsize,
    /// Of these, the ones whose answer it did not get, or not believe.
    pub(crate) replies_lost: AtomicUsize,
    /// Connections that were refused.
    pub(crate) refused: AtomicUsize,
}

/// The loop.
#[derive(Debug, Clone)]
pub(crate) struct Naive {
    pub(crate) tally: Arc<Tally>,
    story: Story,
}

impl Naive {
    pub(crate) fn new(story: Story) -> Self {
        Self { tally: Arc::default(), story }
    }

    /// Sends until a success is answered, and returns the order it names.
    ///
    /// # Errors
    /// If the supplier refuses it.
    pub(crate) async fn carry(
        &self,
        action: &Action,
        supplier: SocketAddr,
    ) -> anyhow::Result<Option<String>> {
        let label = label(action);
        let headers = [("Content-Type", "application/json"), (LABEL_HEADER, label.as_str())];
        let deadline = Instant::now() + CARRY_LIMIT;
        while Instant::now() < deadline {
            let sent = exchange(supplier, "POST", &action.path, &headers, action.arguments.as_bytes());
            let why = match tokio::time::timeout(PATIENCE, sent).await {
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.tally.refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Ok(Ok(reply)) if (200..300).contains(&reply.status) => {
                    self.tally.attempts.fetch_add(1, Ordering::Relaxed);
                    return Ok(reply.value().get("id").and_then(|id| id.as_str()).map(str::to_owned));
                }
                Ok(Ok(reply)) if reply.status >= 500 => format!("answer {}", reply.status),
                Ok(Ok(reply)) => {
                    bail!("{}: unexpected answer {}: {}", action.id, reply.status, reply.value())
                }
                Ok(Err(error)) => error.to_string(),
                Err(_elapsed) => "no answer within a second".to_owned(),
            };
            self.tally.attempts.fetch_add(1, Ordering::Relaxed);
            self.tally.replies_lost.fetch_add(1, Ordering::Relaxed);
            self.story.event(&action.id, Tone::Quiet, &format!("loop: {why}; sends it again"));
            tokio::time::sleep(PAUSE).await;
        }
        Ok(None)
    }

    /// A send whose sender was killed.
    pub(crate) fn count_killed(&self) {
        self.tally.attempts.fetch_add(1, Ordering::Relaxed);
        self.tally.replies_lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the loop calls the action before the suppliers. No label occurs within another one.
pub(crate) fn label(action: &Action) -> String {
    format!("{}.", action.id)
}
