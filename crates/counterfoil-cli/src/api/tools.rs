//! The declared tools, and their pauses.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use counterfoil::caller::{Caller, Need};
use counterfoil::policy::{ApprovalRule, Carrier, Tool};
use counterfoil::recovery::Recovery;
use counterfoil::snapshot::PauseDraft;
use counterfoil::store::Pause;
use counterfoil::{Refusal, Timestamp, ToolName};
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::problem::Problem;
use super::query::Query;
use super::{App, Listed, body, json_of, peer, refuse_query};
use crate::review::Texts;

/// A declared tool.
#[derive(Serialize, ToSchema)]
#[schema(as = Tool)]
pub(super) struct ToolBody {
    /// Its name.
    name: String,
    /// What it does, in the operator's words.
    description: String,
    /// The version of its declaration.
    policy_version: u32,
    /// Who carries it out: `http`, `worker` or `transaction`.
    #[schema(value_type = String)]
    carrier: &'static str,
    /// The method and URL, where it goes over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<HttpBody>,
    /// `required` or `none`.
    #[schema(value_type = String)]
    approval: &'static str,
    /// Who can establish whether it happened; lengths in milliseconds.
    recovery: RecoveryPlan,
    /// How often and how long it may be tried; lengths in milliseconds.
    budget: BudgetBody,
    /// Milliseconds that receipts are kept.
    retention_ms: u64,
    /// What a person sees who has to decide.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    review: Texts,
    /// Why sends stand still; empty where they do not.
    paused: Vec<PauseBody>,
}

#[derive(Serialize, ToSchema)]
struct HttpBody {
    method: String,
    url: String,
    timeout_ms: u64,
    linger_ms: u64,
}

#[derive(Serialize, ToSchema)]
struct RecoveryPlan {
    #[schema(value_type = String)]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    key_format: Option<&'static str>,
    request_lifetime_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authoritative: Option<bool>,
    lookup: bool,
}

#[derive(Serialize, ToSchema)]
struct BudgetBody {
    attempts: u32,
    elapsed_ms: u64,
    first_delay_ms: u64,
    max_delay_ms: u64,
}

/// A pause in force.
#[derive(Serialize, ToSchema)]
#[schema(as = Pause)]
struct PauseBody {
    /// Whether it holds everything, not this tool alone.
    everything: bool,
    /// Only sends under this scope.
    scope: Option<String>,
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    by: String,
    note: String,
}

fn display<S: Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn millis(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

impl ToolBody {
    fn of(version: u32, tool: &Tool, pauses: &[Pause]) -> Self {
        let carrier = match &tool.carrier {
            Carrier::Http(_) => "http",
            Carrier::Worker(_) => "worker",
            Carrier::Transaction => "transaction",
        };
        Self {
            name: tool.name.as_str().to_owned(),
            description: tool.description.clone(),
            policy_version: version,
            carrier,
            http: tool.http().map(|http| HttpBody {
                method: http.method.clone(),
                url: http.url.clone(),
                timeout_ms: millis(http.timeout),
                linger_ms: millis(http.linger),
            }),
            approval: match tool.approval {
                ApprovalRule::None => "none",
                ApprovalRule::When => "when",
                ApprovalRule::Required => "required",
            },
            recovery: RecoveryPlan::of(&tool.recovery),
            budget: BudgetBody {
                attempts: tool.budget.attempts,
                elapsed_ms: millis(tool.budget.elapsed),
                first_delay_ms: millis(tool.budget.first_delay),
                max_delay_ms: millis(tool.budget.max_delay),
            },
            retention_ms: millis(tool.retention),
            review: Texts::of(&tool.review),
            paused: pauses
                .iter()
                .filter(|pause| pause.tool.as_ref().is_none_or(|name| *name == tool.name))
                .map(PauseBody::of)
                .collect(),
        }
    }
}

/// A tool as it would be shown by a ledger that does not exist yet: the first version of its declaration, not paused.
#[must_use]
pub fn undeployed(tool: &Tool) -> impl Serialize {
    ToolBody::of(1, tool, &[])
}

impl RecoveryPlan {
    fn of(recovery: &Recovery) -> Self {
        let place = recovery.place().map(ToString::to_string);
        let (key, reference, retention, authoritative) = match recovery {
            Recovery::IdempotencyKey(facts) => (place, None, Some(facts.retention), None),
            Recovery::UniqueReference(facts) => (None, place, facts.unique_for, None),
            Recovery::LookUp(facts) => (None, place, None, Some(facts.authoritative)),
            Recovery::Transaction | Recovery::None(_) => (None, None, None, None),
        };
        Self {
            kind: recovery.kind(),
            key,
            reference,
            key_format: recovery.key_format().map(|(format, _)| format.label()),
            request_lifetime_ms: recovery.declared_lifetime().map(millis),
            retention_ms: retention.map(millis),
            authoritative,
            lookup: recovery.lookup().is_some(),
        }
    }
}

impl PauseBody {
    fn of(pause: &Pause) -> Self {
        Self {
            everything: pause.tool.is_none(),
            scope: pause.scope.clone(),
            at: pause.at,
            by: pause.by.clone(),
            note: pause.note.clone(),
        }
    }
}

/// Whether `caller` may know of `tool`: operators of every one, others of those they may use.
fn visible(caller: &Caller, tool: &Tool) -> Result<(), Refusal> {
    if !caller.roles.operator && !tool.serves(&caller.account) {
        return Err(Refusal::UnknownTool);
    }
    caller.may_use(&tool.name)
}

fn tool_name(parts: &Parts) -> Result<ToolName, Problem> {
    let raw = parts.uri.path().split('/').nth(3).unwrap_or_default();
    let name = percent_decode_str(raw)
        .decode_utf8()
        .map_err(|_| Problem::invalid("The tool's name is not UTF-8."))?;
    ToolName::parse(&name).map_err(|error| Problem::invalid(format!("The tool's name {}.", error.problem)))
}

fn declared(app: &App, caller: &Caller, name: &ToolName) -> Result<(u32, Arc<Tool>), Problem> {
    let declared = app.ledger().declared();
    caller.may_use(name)?;
    let (version, tool) = declared.get(name).ok_or(Refusal::UnknownTool)?;
    visible(caller, tool)?;
    Ok((version, tool.clone()))
}

/// `GET /v1/tools`.
pub(super) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let session = app.authority().authenticate(&parts, peer(&parts)).await?;
    refuse_query(&parts)?;
    let pauses = app.ledger().store().pauses().await?;
    let items = app
        .ledger()
        .declared()
        .all()
        .iter()
        .filter(|(_, tool)| visible(&session.caller, tool).is_ok())
        .map(|(version, tool)| ToolBody::of(*version, tool, &pauses))
        .collect();
    Ok(json_of(&Listed::<ToolBody> { items, next_cursor: None }))
}

/// `GET /v1/tools/{name}`: as it is declared now, or as it was in the version that an operation names.
pub(super) async fn show(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let session = app.authority().authenticate(&parts, peer(&parts)).await?;
    let name = tool_name(&parts)?;
    let asked = Query::parse(parts.uri.query(), &["policy_version"])?.policy_version()?;
    let (version, tool) = match asked {
        None => declared(&app, &session.caller, &name)?,
        Some(version) => {
            session.caller.may_use(&name)?;
            let stored = app.ledger().store().declaration(&name, version).await?;
            let tool = stored.ok_or(Refusal::UnknownTool)?;
            visible(&session.caller, &tool)?;
            (version, tool)
        }
    };
    answer(&app, version, &tool).await
}

/// `POST /v1/tools/{name}/pause`: no send of the tool starts until somebody resumes it.
pub(super) async fn pause(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Operator).await?;
    let name = tool_name(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let note = body::one_text(&bytes, "note")?;
    let (version, tool) = declared(&app, &session.caller, &name)?;
    let by = session.caller.principal.as_str().to_owned();
    app.ledger().store().pause(PauseDraft { tool: Some(name), scope: None, by, note }).await?;
    answer(&app, version, &tool).await
}

/// `POST /v1/tools/{name}/resume`: ends every pause of the tool; one of everything stays.
pub(super) async fn resume(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let session = app.enter(&parts, Need::Operator).await?;
    let name = tool_name(&parts)?;
    refuse_query(&parts)?;
    let bytes = body::small(&parts.headers, stream).await?;
    let note = body::one_text(&bytes, "note")?;
    let (version, tool) = declared(&app, &session.caller, &name)?;
    app.ledger().store().resume(Some(&name), session.caller.principal.as_str(), &note).await?;
    answer(&app, version, &tool).await
}

async fn answer(app: &App, version: u32, tool: &Tool) -> Result<Response, Problem> {
    let pauses = app.ledger().store().pauses().await?;
    Ok(json_of(&ToolBody::of(version, tool, &pauses)))
}
