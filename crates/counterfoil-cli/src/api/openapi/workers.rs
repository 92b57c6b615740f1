//! Schemas of what an application's own workers send.

use serde_json::Value;
use utoipa::ToSchema;

/// A claim by an application's own worker.
#[derive(ToSchema)]
#[schema(as = ClaimBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
pub(super) struct ClaimSchema {
    /// Who holds it: letters, digits, and `.` `_` `:` `-`, at most 128 bytes.
    worker: String,
    /// How long it lasts without a heartbeat, 1000 to 3600000; default 30000.
    lease_ms: Option<u32>,
    /// Minted for this one call: a repeat gets the same claim while it lasts, anyone else none.
    claim_id: Option<String>,
    /// What the code says of the tool, with the keys of the tool's section in the file; any of them.
    #[schema(value_type = Option<Object>)]
    declaration: Option<Value>,
}

/// Body of a call for whatever is due.
#[derive(ToSchema)]
#[schema(as = ClaimsBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
pub(super) struct ClaimsSchema {
    /// Who holds the claims.
    worker: String,
    /// Of which tools, at most 100.
    tools: Vec<ClaimedToolSchema>,
    /// How long each lasts without a heartbeat, 1000 to 3600000; default 30000.
    lease_ms: Option<u32>,
    /// How many, at most 100; default 1.
    max: Option<u32>,
    /// Milliseconds to wait where nothing is due, at most 120000; default 0.
    wait_ms: Option<u32>,
}

/// A tool that a worker carries out.
#[derive(ToSchema)]
#[schema(as = ClaimedTool)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
pub(super) struct ClaimedToolSchema {
    /// Its name.
    name: String,
    /// What the code says of it.
    #[schema(value_type = Option<Object>)]
    declaration: Option<Value>,
}

/// Body of a heartbeat.
#[derive(ToSchema)]
#[schema(as = HeartbeatBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
pub(super) struct HeartbeatSchema {
    /// The claim.
    fencing_token: u64,
}

/// Body of a report.
#[derive(ToSchema)]
#[schema(as = OutcomeBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
pub(super) struct OutcomeSchema {
    /// The claim.
    fencing_token: u64,
    /// `succeeded`, `rejected`, `not_sent`, `throttled`, `pending` or `unknown`; for investigations `found`, `absent` or
    /// `unknown`.
    outcome: String,
    /// What the destination calls the thing; with `succeeded` and `found`.
    reference: Option<String>,
    /// What is told again to every retry; with `succeeded` and `found`.
    #[schema(value_type = Option<Object>)]
    result: Option<Value>,
    /// Why it was refused, at most 4096 bytes; with `rejected`.
    reason: Option<String>,
    /// No further attempt before; with `throttled`.
    retry_after_ms: Option<u64>,
    /// `not_connected`, `connected` or `bytes_written` (the default); with `unknown`.
    marker: Option<String>,
    /// How many records there are, from 1; with `found`.
    count: Option<u64>,
}
