//! What destinations say by themselves: `POST /v1/evidence/{tool}`. No token: the signature over the raw bytes says who
//! speaks, and the reference that was sent says of which operation. The answer never tells whether there is one.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use counterfoil::ToolName;
use counterfoil::http::secrets::{SystemSecrets, resolve};
use counterfoil::http::{LONGEST_EVENT, Secret, hear as read, webhook};
use counterfoil::policy::{EvidenceDeclaration, Tool};
use counterfoil::verbs::{Heard, Webhook};
use http::{HeaderMap, StatusCode};

use super::metrics::WebhookFate;
use super::problem::{Problem, sentence, shown};
use super::{App, body, json, peer, refuse_query};

/// `POST /v1/evidence/{tool}`.
pub(super) async fn hear(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, stream) = request.into_parts();
    let declared = app.ledger().declared();
    let unknown = || Problem::new("unknown-tool", format!("No tool {} hears webhooks.", shown(&name)));
    let tool = ToolName::parse(&name).ok().and_then(|name| declared.get(&name)).map(|(_, tool)| tool.clone());
    let tool = tool.ok_or_else(unknown)?;
    let evidence = tool.evidence.as_ref().ok_or_else(unknown)?;
    refuse_query(&parts)?;
    let bytes = body::raw(&parts.headers, stream, LONGEST_EVENT).await?;
    let secret = secret(evidence).await?;
    let header = |name: &str| once(&parts.headers, name);
    let now = app.ledger().store().now();
    let signed_id = match webhook::verify(evidence.scheme, &secret, header, &bytes, now) {
        Ok(signed_id) => signed_id.map(str::to_owned),
        Err(webhook::SignatureError::Secret) => return Err(no_secret()),
        Err(error) => {
            app.metrics().webhook(WebhookFate::Refused);
            app.authority().missed_signature(peer(&parts))?;
            return Err(Problem::new("bad-signature", sentence(&error.to_string())));
        }
    };
    let fate = believe(&app, &tool, evidence, signed_id.as_deref(), &bytes).await?;
    app.metrics().webhook(fate);
    Ok(json(StatusCode::ACCEPTED, b"{\"status\":\"accepted\"}".to_vec()))
}

/// Hears a webhook whose signature is good. A crash in here before the commit leaves nothing of it, and the destination,
/// which got no answer, says it again.
async fn believe(
    app: &App,
    tool: &Tool,
    evidence: &EvidenceDeclaration,
    signed_id: Option<&str>,
    bytes: &[u8],
) -> Result<WebhookFate, Problem> {
    let Some(said) = read(tool, evidence, signed_id, bytes) else {
        return Ok(WebhookFate::Unreadable);
    };
    let store = app.ledger().store();
    let mut sent = store.sent_under(&tool.name, &said.reference).await?.into_iter();
    let (account, id) = match (sent.next(), sent.next()) {
        (None, _) => return Ok(WebhookFate::Heard(Heard::Unmatched)),
        (Some(_), Some(_)) => return Ok(WebhookFate::Ambiguous),
        (Some(one), None) => one,
    };
    let declared = app.ledger().declared();
    let verb = Webhook { account, id: id.clone(), tool: tool.name.clone(), said, declared };
    let heard = store.commit(verb).await.map_err(|error| Problem::of(error, &id))?;
    Ok(WebhookFate::Heard(heard))
}

/// Read anew for each webhook, so that a changed secret is picked up, and where it disturbs nobody.
async fn secret(evidence: &EvidenceDeclaration) -> Result<Secret, Problem> {
    let template = evidence.secret.clone();
    let read = tokio::task::spawn_blocking(move || resolve(&template, &SystemSecrets)).await;
    read.ok().and_then(Result::ok).ok_or_else(no_secret)
}

/// The destination says it again later.
fn no_secret() -> Problem {
    tracing::error!("the signing secret of a tool's webhooks is missing or none of its scheme");
    Problem::new("internal-error", "The signing secret of this tool's webhooks cannot be used.")
        .sent(super::Sent::No)
}

/// The value of a header that stands there once.
fn once<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (Some(_) | None, _) => None,
    }
}
