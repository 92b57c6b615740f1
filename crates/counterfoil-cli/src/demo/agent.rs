//! An agent as agents are: it asks, and when it hears nothing it asks again. It keeps one operation
//! ID per action and leaves the rest to Counterfoil.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use sim::wire::{Reply, exchange};
use tokio::time::Instant;

use super::actions::Action;
use super::product::Product;
use super::story::{Story, Tone};

/// How long it listens before it gives up on a call.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it asks Counterfoil to wait for the outcome.
const WAIT_MS: u64 = 5_000;
/// Between two calls for one action.
const PAUSE: Duration = Duration::from_millis(150);
/// After this it leaves the action as it is.
const CARRY_LIMIT: Duration = Duration::from_secs(40);
/// One call while nothing is wrong.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// An operation as the API shows it.
#[derive(Debug, Clone)]
pub(crate) struct Shown(Value);

impl Shown {
    pub(crate) fn state(&self) -> &str {
        self.0.get("state").and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn held(&self) -> bool {
        self.0.get("held").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Nothing moves it any more, except a person.
    pub(crate) fn settled(&self) -> bool {
        matches!(self.state(), "succeeded" | "rejected") || self.held()
    }

    pub(crate) fn receipt(&self) -> Option<&str> {
        self.0.pointer("/receipt/reference")?.as_str()
    }

    /// Whether the receipt came as the answer to the send that it belongs to, in time.
    fn answered_in_time(&self) -> bool {
        self.0.pointer("/receipt/source").and_then(Value::as_str) == Some("response")
    }

    /// Each attempt's outcome; `None` for one that has not been reported, or never was.
    pub(crate) fn outcomes(&self) -> Vec<Option<&str>> {
        let attempts = self.0.get("attempts").and_then(Value::as_array);
        attempts.into_iter().flatten().map(|attempt| attempt.get("outcome").and_then(Value::as_str)).collect()
    }

    /// Sends after which the sender could not know.
    pub(crate) fn replies_lost(&self) -> usize {
        let unheard =
            self.outcomes().iter().filter(|outcome| matches!(outcome, None | Some("unknown"))).count();
        let late = self.state() == "succeeded" && !self.answered_in_time();
        unheard.max(usize::from(late))
    }

    /// It ended with a receipt although a reply was lost on the way.
    pub(crate) fn receipt_recovered(&self) -> bool {
        self.state() == "succeeded" && self.receipt().is_some() && self.replies_lost() > 0
    }
}

/// The agent.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    address: std::net::SocketAddr,
    authorization: String,
    story: Story,
}

impl Agent {
    pub(crate) fn new(product: &Product, story: Story) -> Self {
        Self { address: product.address, authorization: format!("Bearer {}", product.token), story }
    }

    /// Asks for `action` under its ID, again and again, until it is settled or patience ends.
    ///
    /// # Errors
    /// If Counterfoil refuses the call.
    pub(crate) async fn carry(&self, action: &Action) -> anyhow::Result<Option<Shown>> {
        let body = request(action, &action.arguments);
        let deadline = Instant::now() + CARRY_LIMIT;
        let mut last = None;
        while Instant::now() < deadline {
            let unheard = match tokio::time::timeout(PATIENCE, self.put(&action.id, &body)).await {
                Ok(Ok(reply)) => match reply.status {
                    200..=299 => {
                        let shown = Shown(reply.value());
                        if shown.settled() {
                            return Ok(Some(shown));
                        }
                        last = Some(shown);
                        None
                    }
                    429 | 503 => Some(format!("answer {}", reply.status)),
                    status => bail!("{}: unexpected answer {status}: {}", action.id, reply.value()),
                },
                Ok(Err(error)) => Some(error.to_string()),
                Err(_elapsed) => Some("no answer within a second".to_owned()),
            };
            if let Some(why) = unheard {
                self.story.event(
                    &action.id,
                    Tone::Quiet,
                    &format!("agent: {why}; asks again with the same ID"),
                );
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(last)
    }

    /// The operation as it is now; `None` if there is none.
    ///
    /// # Errors
    /// If Counterfoil does not answer.
    pub(crate) async fn look(&self, id: &str) -> anyhow::Result<Option<Shown>> {
        let target = format!("/v1/operations/{id}");
        let reply = tokio::time::timeout(CALL_LIMIT, self.call("GET", &target, &[]))
            .await
            .context("Counterfoil does not answer")??;
        match reply.status {
            200 => Ok(Some(Shown(reply.value()))),
            404 => Ok(None),
            status => bail!("{id}: unexpected answer {status}: {}", reply.value()),
        }
    }

    /// Two mistakes on purpose, on an action whose outcome nobody knows: the same action under a new
    /// ID, and other arguments under the old one. Both must be refused.
    ///
    /// # Errors
    /// If one is not.
    pub(crate) async fn make_mistakes(&self, action: &Action) -> anyhow::Result<()> {
        let again = format!("{}-again", action.id);
        let say = |tone, text: &str| self.story.event(&action.id, tone, text);
        say(Tone::Fault, "the agent has lost the ID and asks for the same thing under a new one");
        self.refused(&again, &request(action, &action.arguments), 409, "action-unresolved").await?;
        ensure!(self.look(&again).await?.is_none(), "{again} was stored although it was refused");
        say(Tone::Good, "refused (action-unresolved): the first one may have happened; nothing was sent");

        let mut changed: Value = serde_json::from_str(&action.arguments).context("the arguments")?;
        if let Some(members) = changed.as_object_mut() {
            members.insert("note".to_owned(), json!("and be quick"));
        }
        say(Tone::Fault, "the agent changes its mind and reuses the ID with other arguments");
        self.refused(&action.id, &request(action, &changed.to_string()), 422, "operation-id-reused").await?;
        say(Tone::Good, "refused (operation-id-reused): a changed action is a new one; nothing was sent");
        Ok(())
    }

    async fn refused(&self, id: &str, body: &[u8], status: u16, slug: &str) -> anyhow::Result<()> {
        let reply = tokio::time::timeout(CALL_LIMIT, self.put(id, body))
            .await
            .context("Counterfoil does not answer")??;
        let problem = reply.value();
        let told = problem.get("type").and_then(Value::as_str).unwrap_or_default();
        ensure!(
            reply.status == status && told.ends_with(slug),
            "{id}: {status} {slug} was due, and {} came: {problem}",
            reply.status
        );
        Ok(())
    }

    async fn put(&self, id: &str, body: &[u8]) -> std::io::Result<Reply> {
        self.call("PUT", &format!("/v1/operations/{id}"), body).await
    }

    async fn call(&self, method: &str, target: &str, body: &[u8]) -> std::io::Result<Reply> {
        let headers = [("Authorization", self.authorization.as_str()), ("Content-Type", "application/json")];
        exchange(self.address, method, target, &headers, body).await
    }
}

/// The arguments go in as text: what was accepted is what is sent, to the byte.
fn request(action: &Action, arguments: &str) -> Vec<u8> {
    let (tool, task) = (json!(action.tool), json!(action.task));
    format!(r#"{{"tool":{tool},"arguments":{arguments},"task":{task},"execute":true,"wait_ms":{WAIT_MS}}}"#)
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(outcomes: &[Value], state: &str, source: &str) -> Shown {
        let attempts: Vec<Value> = outcomes.iter().map(|outcome| json!({ "outcome": outcome })).collect();
        Shown(
            json!({ "state": state, "attempts": attempts, "receipt": { "reference": "po_1", "source": source } }),
        )
    }

    #[test]
    fn a_receipt_is_recovered_only_where_a_reply_was_lost() {
        for (outcomes, state, source, lost, recovered) in [
            (vec![json!("succeeded")], "succeeded", "response", 0, false),
            (vec![json!("not_sent"), json!("succeeded")], "succeeded", "response", 0, false),
            (vec![json!("unknown"), json!("succeeded")], "succeeded", "response", 1, true),
            (vec![json!(null), json!("unknown"), json!("succeeded")], "succeeded", "response", 2, true),
            (vec![json!("succeeded")], "succeeded", "late_report", 1, true),
            (vec![json!("unknown")], "unknown", "", 1, false),
        ] {
            let shown = shown(&outcomes, state, source);
            assert_eq!((shown.replies_lost(), shown.receipt_recovered()), (lost, recovered), "{shown:?}");
        }
    }
}
