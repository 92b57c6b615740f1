//! The OpenAPI document: schemas from the types that answer, paths from one table.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use utoipa::{OpenApi, ToSchema};

mod workers;

use self::workers::{ClaimSchema, ClaimedToolSchema, ClaimsSchema, HeartbeatSchema, OutcomeSchema};
use super::claims::ClaimShown;
use super::feed::{Event, Evidence};
use super::problem::Details;
use super::query::FILTERS;
use super::representation::Representation;
use super::tools::ToolBody;
use crate::problems;

/// Body of a prepare.
#[derive(ToSchema)]
#[schema(as = PrepareBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
struct PrepareSchema {
    /// Which kind of action.
    tool: String,
    /// The exact arguments, a JSON object of at most 256 KiB and 64 levels. Its bytes are stored and sent as written.
    #[schema(value_type = Object)]
    arguments: Value,
    /// The agent run or conversation, at most 255 bytes.
    task: Option<String>,
    /// What it is about, at most 255 bytes: of the operations with one subject only one may be started and unsettled.
    subject: Option<String>,
    /// The operation whose place this changed proposal takes.
    replaces: Option<String>,
    /// Operations that this is deliberately distinct from.
    distinct_from: Option<Vec<String>>,
    /// Who or what accepted the proposal, at most 1 KiB.
    #[schema(value_type = Option<Object>)]
    accepted_by: Option<Value>,
    /// A standing wish: it runs as soon as it may.
    execute: Option<bool>,
    /// Milliseconds to wait, at most 120000; 30000 with `execute`, else 0.
    wait_ms: Option<u32>,
    /// Say what would happen, store nothing.
    dry_run: Option<bool>,
    /// Prepare, claim and attempt 1 in one commit, for a tool that workers carry out; implies `execute` and needs the
    /// role worker too.
    claim: Option<ClaimSchema>,
}

/// Body of an execute.
#[derive(ToSchema)]
#[schema(as = ExecuteBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
struct ExecuteSchema {
    /// Milliseconds to wait, at most 120000; default 30000.
    wait_ms: Option<u32>,
}

/// Body of an approval.
#[derive(ToSchema)]
#[schema(as = ApproveBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
struct ApproveSchema {
    /// The fingerprint that was shown.
    fingerprint: String,
    /// A succeeded operation that is no obstacle.
    acknowledges: Option<String>,
    /// The version that was shown.
    if_version: Option<u64>,
}

/// Body of a denial.
#[derive(ToSchema)]
#[schema(as = DenyBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
struct DenySchema {
    /// Why, at most 4096 bytes.
    reason: String,
}

/// Body of a verdict.
#[derive(ToSchema)]
#[schema(as = ResolveBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
struct ResolveSchema {
    /// `succeeded` (with `reference`), `confirmed_absent`, `abandoned` or `acknowledged`.
    verdict: String,
    /// What the destination calls the thing that was found; only with `succeeded`.
    reference: Option<String>,
    /// How it was established, at most 4096 bytes.
    note: String,
    /// Exactly one more attempt, outside the budget; only with `confirmed_absent`.
    allow_another_attempt: Option<bool>,
    /// The version that was shown.
    if_version: Option<u64>,
}

/// Body of a release.
#[derive(ToSchema)]
#[schema(as = ReleaseBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
struct ReleaseSchema {
    /// Why, at most 4096 bytes.
    note: String,
    /// The version that was shown.
    if_version: Option<u64>,
}

/// Body of a person's note.
#[derive(ToSchema)]
#[schema(as = TextBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
struct TextSchema {
    /// What was found so far, at most 4096 bytes.
    text: String,
    /// When to be reminded.
    #[schema(format = DateTime)]
    remind_at: Option<String>,
}

/// Body of a pause or a resume.
#[derive(ToSchema)]
#[schema(as = NoteBody)]
#[allow(dead_code, reason = "a schema; bodies are read by the strict reader")]
struct NoteSchema {
    /// Why, at most 4096 bytes.
    note: String,
}

#[derive(OpenApi)]
#[openapi(components(schemas(
    Representation<'_>,
    Details,
    Evidence,
    Event,
    ToolBody,
    PrepareSchema,
    ClaimSchema,
    ClaimsSchema,
    ClaimedToolSchema,
    HeartbeatSchema,
    OutcomeSchema,
    ClaimShown<'_>,
    ExecuteSchema,
    ApproveSchema,
    DenySchema,
    ResolveSchema,
    ReleaseSchema,
    TextSchema,
    NoteSchema
)))]
struct Schemas;

/// What a call answers with.
#[derive(Clone, Copy)]
enum Gives {
    /// One thing of this schema.
    One(&'static str),
    /// A page of things of this schema.
    Page(&'static str),
    /// A text of this type.
    Text(&'static str),
    /// JSON without a schema of its own.
    Json,
}

/// One call.
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    does: &'static str,
    /// The roles that may call it; none means anybody, without a token.
    roles: &'static str,
    query: &'static [&'static str],
    body: Option<&'static str>,
    gives: Gives,
    statuses: &'static [u16],
    problems: &'static [&'static str],
}

const WITH_ID: [&str; 3] = ["invalid-operation-id", "unknown-operation", "receipt-expired"];
const ALWAYS: [&str; 6] = [
    "invalid-request",
    "unauthenticated",
    "forbidden",
    "too-many-requests",
    "store-unavailable",
    "store-full",
];
const WITH_BODY: [&str; 2] = ["too-large", "unsupported-media-type"];

/// Every call of this version.
pub(super) const CALLS: &[Call] = &[
    Call {
        method: "put",
        path: "/v1/operations/{id}",
        does: "Prepare an operation, or find the one that the ID names. 201 new, 200 existing and same; with `execute` \
               200 when final, 202 otherwise; with `claim` 201 or 200 with the member `claim` where it is granted. With \
               `dry_run` 200 and `would`: `create`, `replay` or `refuse`.",
        roles: "agent",
        query: &[],
        body: Some("PrepareBody"),
        gives: Gives::One("Operation"),
        statuses: &[200, 201, 202],
        problems: &[
            "invalid-arguments",
            "unknown-tool",
            "unknown-operation",
            "action-unresolved",
            "not-a-worker-tool",
            "declaration-mismatch",
            "already-replaced",
            "operation-id-reused",
            "ledger-restored",
        ],
    },
    Call {
        method: "get",
        path: "/v1/operations/{id}",
        does: "The operation as it is; with `wait_ms` a change is waited for.",
        roles: "agent, approver, auditor, worker (what it holds)",
        query: &["wait_ms"],
        body: None,
        gives: Gives::One("Operation"),
        statuses: &[200],
        problems: &[],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/execute",
        does: "Run it or join the running attempt. 200 when final, 202 otherwise. Never brings a send before `next.at`.",
        roles: "agent",
        query: &[],
        body: Some("ExecuteBody"),
        gives: Gives::One("Operation"),
        statuses: &[200, 202],
        problems: &["approval-required", "blocked-by-operation"],
    },
    Call {
        method: "get",
        path: "/v1/operations",
        does: "Operations of the account, newest first.",
        roles: "agent, approver, auditor",
        query: &FILTERS,
        body: None,
        gives: Gives::Page("Operation"),
        statuses: &[200],
        problems: &[],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/approve",
        does: "Say yes to one fingerprint. The same decision by the same principal again is 200.",
        roles: "approver",
        query: &[],
        body: Some("ApproveBody"),
        gives: Gives::One("Operation"),
        statuses: &[200],
        problems: &["wrong-state", "fingerprint-mismatch", "changed-meanwhile"],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/deny",
        does: "Say no before a start.",
        roles: "approver",
        query: &[],
        body: Some("DenyBody"),
        gives: Gives::One("Operation"),
        statuses: &[200],
        problems: &["wrong-state"],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/withdraw",
        does: "Take back what has not started.",
        roles: "agent",
        query: &[],
        body: None,
        gives: Gives::One("Operation"),
        statuses: &[200],
        problems: &["wrong-state"],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/reconcile",
        does: "Ask the destination now, at most once per `first_delay`; never a send. A hit settles at once, a miss counts by \
               the same rule as ever. 200 when final, 202 otherwise.",
        roles: "agent, approver",
        query: &[],
        body: None,
        gives: Gives::One("Operation"),
        statuses: &[200, 202],
        problems: &[],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/resolve",
        does: "Say what became of an operation that no rule can settle. The first decision wins.",
        roles: "approver",
        query: &[],
        body: Some("ResolveBody"),
        gives: Gives::One("Operation"),
        statuses: &[200],
        problems: &["wrong-state", "too-early", "changed-meanwhile"],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/release",
        does: "Let later operations with this action pass. What was released is never sent again.",
        roles: "approver",
        query: &[],
        body: Some("ReleaseBody"),
        gives: Gives::One("Operation"),
        statuses: &[200],
        problems: &["wrong-state", "changed-meanwhile"],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/notes",
        does: "Write down what was found so far, without a verdict.",
        roles: "approver",
        query: &[],
        body: Some("TextBody"),
        gives: Gives::One("Operation"),
        statuses: &[200],
        problems: &[],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/claim",
        does: "Claim one operation of a tool that workers carry out: in mode `send` its attempt is recorded in the same \
               commit; in mode `investigate` nothing may be sent.",
        roles: "worker",
        query: &[],
        body: Some("ClaimBody"),
        gives: Gives::One("Claim"),
        statuses: &[200],
        problems: &[
            "unknown-tool",
            "in-progress",
            "wrong-state",
            "not-a-worker-tool",
            "declaration-mismatch",
            "paused",
            "approval-required",
            "blocked-by-operation",
            "changed-meanwhile",
        ],
    },
    Call {
        method: "post",
        path: "/v1/claims",
        does: "Take what is due of these tools: what is wished, and what is unknown, to send again or to investigate. An \
               empty list where there is nothing, after `wait_ms`.",
        roles: "worker",
        query: &[],
        body: Some("ClaimsBody"),
        gives: Gives::Page("Claim"),
        statuses: &[200],
        problems: &["unknown-tool", "not-a-worker-tool", "declaration-mismatch"],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/attempts/{n}/heartbeat",
        does: "Extend a claim by the lease that was asked for. It never moves `send_before`.",
        roles: "worker",
        query: &[],
        body: Some("HeartbeatBody"),
        gives: Gives::One("Claim"),
        statuses: &[200],
        problems: &["stale-claim", "not-a-worker-tool"],
    },
    Call {
        method: "post",
        path: "/v1/operations/{id}/attempts/{n}/outcome",
        does: "Report how the attempt or the investigation ended. The same report again is 200. Proof of success always \
               counts, and so does `not_sent` from the attempt's own claim; any other late report is kept as evidence.",
        roles: "worker",
        query: &[],
        body: Some("OutcomeBody"),
        gives: Gives::One("Operation"),
        statuses: &[200],
        problems: &["stale-claim", "not-a-worker-tool", "invalid-arguments"],
    },
    Call {
        method: "get",
        path: "/v1/operations/{id}/evidence",
        does: "The evidence rows of one operation, oldest first.",
        roles: "approver, auditor",
        query: &["cursor", "limit"],
        body: None,
        gives: Gives::Page("Evidence"),
        statuses: &[200],
        problems: &[],
    },
    Call {
        method: "get",
        path: "/v1/events",
        does: "Changes of the account's operations after a cursor: a page, a long poll with `wait_ms`, or a stream with \
               `Accept: text/event-stream`.",
        roles: "agent, approver, auditor",
        query: &["after", "limit", "wait_ms"],
        body: None,
        gives: Gives::Page("Event"),
        statuses: &[200],
        problems: &[],
    },
    Call {
        method: "post",
        path: "/v1/evidence/{tool}",
        does: "A destination's webhook, signed as the tool's `evidence` says. It proves success or is kept as evidence, \
               each event once. 202 for every good signature, whether or not anything was sent under its reference.",
        roles: "",
        query: &[],
        body: None,
        gives: Gives::Json,
        statuses: &[202],
        problems: &[
            "invalid-request",
            "bad-signature",
            "unknown-tool",
            "too-large",
            "too-many-requests",
            "internal-error",
            "store-unavailable",
        ],
    },
    Call {
        method: "get",
        path: "/v1/tools",
        does: "The declared tools that the token may use.",
        roles: "any",
        query: &[],
        body: None,
        gives: Gives::Page("Tool"),
        statuses: &[200],
        problems: &[],
    },
    Call {
        method: "get",
        path: "/v1/tools/{name}",
        does: "One declared tool; with `policy_version` as it was declared in that version.",
        roles: "any",
        query: &["policy_version"],
        body: None,
        gives: Gives::One("Tool"),
        statuses: &[200],
        problems: &["unknown-tool"],
    },
    Call {
        method: "post",
        path: "/v1/tools/{name}/pause",
        does: "Start no send of the tool until somebody resumes it.",
        roles: "operator",
        query: &[],
        body: Some("NoteBody"),
        gives: Gives::One("Tool"),
        statuses: &[200],
        problems: &["unknown-tool"],
    },
    Call {
        method: "post",
        path: "/v1/tools/{name}/resume",
        does: "End every pause of the tool.",
        roles: "operator",
        query: &[],
        body: Some("NoteBody"),
        gives: Gives::One("Tool"),
        statuses: &[200],
        problems: &["unknown-tool"],
    },
    Call {
        method: "get",
        path: "/healthz",
        does: "The process answers.",
        roles: "",
        query: &[],
        body: None,
        gives: Gives::Json,
        statuses: &[200],
        problems: &[],
    },
    Call {
        method: "get",
        path: "/readyz",
        does: "The ledger can be used and the server is not ending.",
        roles: "",
        query: &[],
        body: None,
        gives: Gives::Json,
        statuses: &[200],
        problems: &["store-unavailable"],
    },
    Call {
        method: "get",
        path: "/metrics",
        does: "Figures for Prometheus; without a token only to the server's own host, else to operators.",
        roles: "",
        query: &[],
        body: None,
        gives: Gives::Text("text/plain"),
        statuses: &[200],
        problems: &["unauthenticated", "forbidden"],
    },
    Call {
        method: "get",
        path: "/problems",
        does: "The list of problems.",
        roles: "",
        query: &[],
        body: None,
        gives: Gives::Text("text/markdown"),
        statuses: &[200],
        problems: &[],
    },
    Call {
        method: "get",
        path: "/problems/{slug}",
        does: "What one problem means and what to do.",
        roles: "",
        query: &[],
        body: None,
        gives: Gives::Text("text/markdown"),
        statuses: &[200],
        problems: &["not-found"],
    },
    Call {
        method: "get",
        path: "/openapi.json",
        does: "This document.",
        roles: "",
        query: &[],
        body: None,
        gives: Gives::Json,
        statuses: &[200],
        problems: &[],
    },
];

/// The document as pretty JSON with a line end.
#[must_use]
pub fn document() -> String {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(write).clone()
}

fn write() -> String {
    // Fails for no value of these types.
    let schemas = serde_json::to_value(Schemas::openapi()).unwrap_or_default();
    let mut paths = Map::new();
    for call in CALLS {
        let item = paths.entry(call.path).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(item) = item {
            item.insert(call.method.to_owned(), operation(call));
        }
    }
    let mut components = schemas.get("components").cloned().unwrap_or_default();
    if let Value::Object(components) = &mut components {
        let token = json!({ "type": "http", "scheme": "bearer", "bearerFormat": "cf_ and 256 random bits" });
        components.insert("securitySchemes".to_owned(), json!({ "token": token }));
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Counterfoil",
            "version": "1",
            "description": "Makes an agent's write actions safe to retry: one operation ID, one effect, one receipt. \
                            409, 429, 503 and 504 are always safe to repeat with the same operation ID; no answer invites a \
                            retry with a new one.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": components,
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn operation(call: &Call) -> Value {
    let description = match call.roles {
        "" => call.does.to_owned(),
        "any" => format!("{} Any role.", call.does),
        roles => format!("{} Roles: {roles}.", call.does),
    };
    let id = call.path.trim_matches(['/', '}']).replace(['/', '{', '}', '.'], "_").replace("__", "_");
    let mut operation = json!({
        "operationId": format!("{}_{id}", call.method),
        "description": description,
        "parameters": parameters(call),
        "responses": responses(call),
    });
    if let Value::Object(operation) = &mut operation {
        if let Some(body) = call.body {
            let content = json!({ "application/json": { "schema": reference(body) } });
            let required = body != "ExecuteBody";
            operation.insert("requestBody".to_owned(), json!({ "content": content, "required": required }));
        }
        if !call.roles.is_empty() {
            operation.insert("security".to_owned(), json!([{ "token": [] }]));
        }
    }
    operation
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn parameters(call: &Call) -> Vec<Value> {
    let names = call.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query = call.query.iter().map(|name| {
        let kind = match *name {
            "wait_ms" | "limit" | "policy_version" => json!({ "type": "integer", "minimum": 0 }),
            "held" | "unresolved" => json!({ "type": "boolean" }),
            "state" => json!({ "enum": ["prepared", "in_progress", "succeeded", "rejected", "unknown"] }),
            "created_after" | "created_before" => json!({ "type": "string", "format": "date-time" }),
            _ => json!({ "type": "string" }),
        };
        json!({ "name": name, "in": "query", "schema": kind })
    });
    in_path.chain(in_query).collect()
}

fn responses(call: &Call) -> Value {
    let request_id =
        json!({ "schema": { "type": "string" }, "description": "Names this call in the server's log." });
    let content = match call.gives {
        Gives::One(schema) => json!({ "application/json": { "schema": reference(schema) } }),
        Gives::Page(schema) => json!({ "application/json": { "schema": {
            "type": "object",
            "required": ["items", "next_cursor"],
            "properties": {
                "items": { "type": "array", "items": reference(schema) },
                "next_cursor": { "type": ["string", "null"] },
            },
        } } }),
        Gives::Text(kind) => json!({ kind: { "schema": { "type": "string" } } }),
        Gives::Json => json!({ "application/json": { "schema": { "type": "object" } } }),
    };
    let mut all = Map::new();
    for status in call.statuses {
        let meaning = match status {
            201 => "Prepared.",
            202 if call.roles.is_empty() => "The signature is good.",
            202 => {
                "Not final yet: `state` and `next` say what happens; `Retry-After` unless only a person can move it."
            }
            _ => "As asked.",
        };
        let answer =
            json!({ "description": meaning, "headers": { "Request-Id": request_id }, "content": content });
        all.insert(status.to_string(), answer);
    }
    let mut slugs: Vec<&str> = call.problems.to_vec();
    if !call.roles.is_empty() {
        slugs.extend(ALWAYS);
    }
    if call.path.contains("{id}") {
        slugs.extend(WITH_ID);
    }
    if call.body.is_some() {
        slugs.extend(WITH_BODY);
    }
    let mut by_status = std::collections::BTreeMap::<u16, Vec<&str>>::new();
    for problem in slugs.iter().filter_map(|slug| problems::find(slug)) {
        by_status.entry(problem.status).or_default().push(problem.slug);
    }
    for (status, slugs) in by_status {
        let answer = json!({
            "description": format!("`{}`", slugs.join("`, `")),
            "headers": { "Request-Id": request_id },
            "content": { "application/problem+json": { "schema": reference("Problem") } },
        });
        all.insert(status.to_string(), answer);
    }
    Value::Object(all)
}
