//! One look-up on the wire: one question on a fresh connection, and one answer or none. It changes nothing at the
//! destination, so no gate stands before it; it carries the tool's own credential, so it keeps the rules of a send.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::classify::Answer;
use super::found::{self, Asked};
use super::request::{Request, make_headers};
use super::send::{Inner, MAX_PATIENCE, Message, Patience, SMALL, message};
use super::target::Target;
use super::template::{MAX_URL, UrlTemplate};
use crate::destination::{Gate, LookedUp};
use crate::fingerprint::Arguments;
use crate::id::Account;
use crate::operation::LookUpAnswer;
use crate::policy::Tool;

/// A look-up that is ready but for its secrets.
pub(super) struct Question {
    tool: Arc<Tool>,
    request: Request,
    asked: Asked,
    arguments: Arguments,
    /// The scope of what was sent, where that is not the declared one.
    scope: Option<String>,
}

impl Question {
    /// Fills the declared request. `key` is exactly the text that was sent.
    pub(super) fn make(
        tool: Arc<Tool>,
        account: &Account,
        arguments: &Arguments,
        key: Option<&str>,
        scope: Option<&str>,
    ) -> Result<Self, &'static str> {
        const UNREADABLE: &str = "the look-up's declaration cannot be read";
        const UNFILLED: &str = "the look-up's request cannot be made of these arguments";
        let http = tool.http().ok_or("the tool is not carried over HTTP")?;
        let by = tool.recovery.lookup().and_then(|by| by.http()).ok_or("no look-up is declared over HTTP")?;
        if !matches!(by.method.as_str(), "GET" | "POST") {
            return Err(UNREADABLE);
        }
        let template = UrlTemplate::parse(&by.url, tool.recovery.place()).map_err(|_| UNREADABLE)?;
        let node = arguments.node().map_err(|_| UNFILLED)?;
        let url = template.fill(&node, key).map_err(|_| UNFILLED)?;
        if url.len() > MAX_URL {
            return Err(UNFILLED);
        }
        let headers = make_headers(http, account, None, false).map_err(|_| UNREADABLE)?;
        let request = Request { method: by.method.clone(), url, headers, body: None, digest: String::new() };
        let asked = Asked {
            found: by.found.clone(),
            count: by.count.clone(),
            must_match: by.must_match.clone(),
            by_address: template.path_names_key(),
        };
        let (arguments, scope) = (arguments.clone(), scope.map(str::to_owned));
        Ok(Self { tool, request, asked, arguments, scope })
    }
}

/// A question takes no effect, so it may always be asked.
struct Free;

impl Gate for Free {
    fn may_write(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

impl Inner {
    /// Asks once. The tool's timeout bounds all of it.
    pub(super) async fn look_up(&self, question: Question) -> LookedUp {
        let Some(http) = question.tool.http() else {
            return LookedUp::failed("the tool is not carried over HTTP");
        };
        let (allow_private, end) = (http.allow_private, Instant::now() + http.timeout.min(MAX_PATIENCE));
        let credential = match (&http.scope, &question.scope) {
            (Some(declared), Some(recorded)) if declared != recorded => return scope_changed(),
            (Some(_), _) | (None, None) => None,
            (None, Some(recorded)) => Some(recorded.clone()),
        };
        let headers = match timeout_at(end, self.headers(&question.request, credential)).await {
            Ok(Ok(Some(headers))) => headers,
            Ok(Ok(None)) => return scope_changed(),
            Ok(Err(error)) => return LookedUp::failed(&error.to_string()),
            Err(_) => return LookedUp::failed("no answer in time"),
        };
        let Ok((target, path)) = Target::split(&question.request.url) else {
            return LookedUp::failed("the URL cannot be read");
        };
        let Some(message) = message(&question.request, &target, path, headers, false) else {
            return LookedUp::failed("the request cannot be written as HTTP");
        };
        self.ask(message, &target, allow_private, end, question.asked, question.arguments).await
    }

    async fn ask(
        &self,
        message: Message,
        target: &Target,
        allow_private: bool,
        end: Instant,
        asked: Asked,
        arguments: Arguments,
    ) -> LookedUp {
        let mut lane = match timeout_at(end, self.connector.connect(target, allow_private)).await {
            Ok(Ok(lane)) => lane,
            Ok(Err(error)) => return LookedUp::failed(&error.to_string()),
            Err(_) => return LookedUp::failed("no connection in time"),
        };
        lane.wire.arm(Arc::new(Free));
        let mut patience = Patience::until(end);
        let sending = lane.sender.send_request(message);
        let response = match patience.wait(sending, || lane.wire.is_written()).await {
            // A peer that answers what it was never asked says nothing.
            Some(Ok(response)) if lane.wire.is_written() => response,
            Some(_) => return LookedUp::failed("the connection ended before an answer"),
            None => return LookedUp::failed("no answer in time"),
        };
        let (answer, held) = self.read(response, &mut patience).await;
        let looked = judged(asked, answer, arguments).await;
        drop(held);
        looked
    }
}

fn scope_changed() -> LookedUp {
    LookedUp {
        scope_changed: true,
        ..LookedUp::failed("the credential belongs to another vendor account than the one that was sent to")
    }
}

/// Large bodies are read where it disturbs nobody.
async fn judged(asked: Asked, answer: Answer, arguments: Arguments) -> LookedUp {
    if answer.body.bytes.len() <= SMALL {
        return found::judge(&asked, &answer, &arguments);
    }
    let work = move || found::judge(&asked, &answer, &arguments);
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| LookedUp {
        answer: LookUpAnswer::Unclear,
        ..LookedUp::failed("the answer could not be read to its end")
    })
}
