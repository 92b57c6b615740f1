//! What a command about operations works on: a running server, or the ledger of the configuration. Both are asked by
//! the same calls of the API and answer with the same bytes; a ledger is served by the API inside this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counterfoil::caller::{Caller, Roles};
use counterfoil::executor::Executor;
use counterfoil::http::HttpDestination;
use counterfoil::ledger::{Ledger, LedgerOptions};
use counterfoil::snapshot::View;
use counterfoil::store::MarkState;
use counterfoil::{Account, OperationId, WorkerName};
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::database::{self, Missing};
use super::error::{CommandError, Kind};
use super::globals::Context;
use crate::api::auth::Own;
use crate::api::{App, router, segment};
use crate::client::{Answer, Call, Client, ClientError};
use crate::problems;

/// How long an attempt may take to be recorded once its answer is there.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);

/// How often it is looked whether it was.
const RECORDED_SOON: Duration = Duration::from_millis(20);

/// What a command works on.
pub enum Target {
    /// The ledger of the configuration.
    Here(Here),
    /// A running server.
    Server(Client),
    /// A running `counterfoil dev`, with its tokens of a person who decides and of the application.
    Dev(Client, Client),
}

/// A ledger that this process opened.
#[derive(Clone)]
pub struct Here {
    routes: Router,
    executor: Executor,
    caller: Arc<Caller>,
    /// Whether somebody interrupted the wait for what is on its way: then nothing is waited for any more.
    insisted: Arc<AtomicBool>,
}

/// How the wait for an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// By itself, or with the time that was given.
    Through,
    /// Somebody asked the process to end.
    Interrupted,
}

/// Whose operations a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of one account.
    OneAccount,
    /// Nobody's in particular: tools and pauses.
    Nobody,
}

/// A page of a list, with its items as they came.
#[derive(Debug, serde::Deserialize)]
pub struct Listing {
    /// What is on it.
    pub items: Vec<Box<serde_json::value::RawValue>>,
    /// Where the next one begins.
    pub next_cursor: Option<String>,
}

impl Target {
    /// What the options name.
    ///
    /// # Errors
    /// Where the server's URL makes no sense, or the ledger cannot be opened.
    pub async fn open(
        context: &mut Context<'_>,
        missing: Missing,
        whose: Whose,
    ) -> Result<Self, CommandError> {
        let Some(remote) = context.remote()? else {
            return Ok(Self::Here(Here::open(context, missing, whose).await?));
        };
        if context.globals.account.is_some() {
            return Err(CommandError::usage(
                "--account is for a database; on a server the token says which account it is",
                "leave --account out, or use a token of that account",
            ));
        }
        let client = Client::new(&remote.url, remote.token.expose()).map_err(no_answer)?;
        if let Some(token) = &remote.application {
            if context.config_path().exists() {
                let more = "--config works on the configuration's database";
                context.out.note(format!("on `counterfoil dev` at {}; {more}", remote.url))?;
            }
            return Ok(Self::Dev(client, Client::new(&remote.url, token.expose()).map_err(no_answer)?));
        }
        if client.in_clear() {
            context.out.note("warning: the token crosses a network in clear; use https:// or unix:PATH")?;
        }
        Ok(Self::Server(client))
    }

    /// The ledger that this process opened, if it did.
    #[must_use]
    pub fn here(&self) -> Option<&Here> {
        match self {
            Self::Here(here) => Some(here),
            Self::Server(_) | Self::Dev(..) => None,
        }
    }

    /// Makes one call; anything but a success is an error with the problem's words.
    ///
    /// # Errors
    /// The problem that was answered, or no answer.
    pub async fn call(&self, call: Call) -> Result<Answer, CommandError> {
        let answer = match self {
            Self::Here(here) => here.call(call).await?,
            Self::Server(client) => client.call(call).await.map_err(no_answer)?,
            Self::Dev(_, application) if of_application(&call) => {
                application.call(call).await.map_err(no_answer)?
            }
            Self::Dev(person, _) => person.call(call).await.map_err(no_answer)?,
        };
        if (200..300).contains(&answer.status) { Ok(answer) } else { Err(refused(&answer)) }
    }

    /// Reads.
    ///
    /// # Errors
    /// As [`Target::call`].
    pub async fn get(&self, path: String) -> Result<Answer, CommandError> {
        self.call(Call { method: Method::GET, path, body: None, wait: Duration::ZERO }).await
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// As [`Target::call`].
    pub async fn post(
        &self,
        path: String,
        body: Map<String, Value>,
        wait: Duration,
    ) -> Result<Answer, CommandError> {
        let body = Some(serde_json::to_string(&body)?);
        self.call(Call { method: Method::POST, path, body, wait }).await
    }

    /// Reads one page of a list.
    ///
    /// # Errors
    /// As [`Target::call`].
    pub async fn page(&self, path: String) -> Result<(Answer, Listing), CommandError> {
        let answer = self.get(path).await?;
        let listing = serde_json::from_str(&answer.body)?;
        Ok((answer, listing))
    }

    /// Lets go of the ledger: whatever is on its way is recorded first.
    pub async fn close(self) {
        match self {
            Self::Here(here) => here.close().await,
            Self::Server(_) | Self::Dev(..) => {}
        }
    }
}

/// Whether it is the application that asks for this: to prepare, to run, to take back.
fn of_application(call: &Call) -> bool {
    call.method == Method::PUT || ["/execute", "/withdraw"].iter().any(|verb| call.path.ends_with(verb))
}

impl Here {
    async fn open(context: &mut Context<'_>, missing: Missing, whose: Whose) -> Result<Self, CommandError> {
        let config = context.config()?;
        database::must_exist(&config, missing)?;
        let tools = config.tools.values().map(|declared| declared.tool.clone()).collect();
        let ledger = database::open_ledger(&config, tools, LedgerOptions::default()).await?;
        let account = match whose {
            Whose::OneAccount => database::account(context, ledger.store()).await?,
            // Operators see all tools; the account decides nothing.
            Whose::Nobody => {
                context.globals.account.clone().map_or_else(|| Account::parse("operator"), Ok)?
            }
        };
        let doubt = match ledger.store().mark_state() {
            MarkState::Current => None,
            MarkState::Missing => Some("the ledger's mark is missing"),
            MarkState::Behind => Some("the ledger is older than its mark"),
        };
        if let Some(doubt) = doubt {
            let more = "`counterfoil explain ledger-restored` says what to do";
            context.out.note(format!("warning: {doubt}; {more}"))?;
        }
        let principal = database::principal(context)?;
        let caller = Arc::new(Caller { account, principal, roles: Roles::all(), tools: Vec::new() });
        let store = ledger.store().clone();
        let destination = HttpDestination::new(ledger.clock().clone(), store.ledger_secret());
        let destination = destination.map_err(|error| {
            CommandError::environment(
                format!("TLS cannot be set up: {error}"),
                "check the host's certificates",
            )
        })?;
        // The name of this process's evidence chains is new for every process.
        let worker = WorkerName::parse(store.writer())?;
        let executor = Executor::new(ledger, Arc::new(destination), worker);
        let routes = router(App::new(executor.clone(), config.limits));
        Ok(Self { routes, executor, caller, insisted: Arc::default() })
    }

    /// The same ledger, seen from another account.
    #[must_use]
    pub fn of_account(&self, account: Account) -> Self {
        let caller = Caller { account, ..Caller::clone(&self.caller) };
        Self { caller: Arc::new(caller), ..self.clone() }
    }

    /// Who acts.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.executor.ledger()
    }

    async fn call(&self, call: Call) -> Result<Answer, CommandError> {
        let internal = |what: String| {
            CommandError::new(Kind::Internal, what, "this should not happen; please report it")
        };
        let mut request = Request::builder().method(call.method).uri(call.path);
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let mut request = request
            .body(Body::from(call.body.unwrap_or_default()))
            .map_err(|error| internal(error.to_string()))?;
        request.extensions_mut().insert(Own(self.caller.clone()));
        let answered = TowerToHyperService::new(self.routes.clone()).call(request).await;
        let response = match answered {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| internal(error.to_string()))?;
        let body = String::from_utf8(body.to_bytes().into()).map_err(|error| internal(error.to_string()))?;
        Ok(Answer { status, body })
    }

    /// Carries the operation on in this process until it is settled or nothing more happens to it by itself, or until
    /// `wait` is over or somebody interrupts. An attempt on its way is recorded in any case when the target is closed.
    ///
    /// # Errors
    /// Where the ledger fails.
    pub async fn see_through(&self, id: &OperationId, wait: Option<Duration>) -> Result<Seen, CommandError> {
        let account = &self.caller.account;
        let carrying = self.executor.follow(account, id);
        let settled = async {
            loop {
                let view = self.ledger().find(&self.caller, id).await?;
                if over(&view) {
                    return Ok(Seen::Through);
                }
                self.ledger().wait(&self.caller, id, LOOK_AGAIN, Some(view.operation.version)).await?;
            }
        };
        let limit = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            settled = settled => settled,
            () = carrying => Ok(Seen::Through),
            () = limit => Ok(Seen::Through),
            () = interrupted() => Ok(Seen::Interrupted),
        }
    }

    /// Attempts of this process that have no recorded outcome yet.
    #[must_use]
    pub fn on_their_way(&self) -> usize {
        self.executor.running()
    }

    /// Waits until nothing of this process is on its way any more, at most for [`Here::patience`] or until somebody
    /// interrupts. More may begin afterwards.
    pub async fn answered(&self) {
        let quiet = async {
            while self.on_their_way() > 0 {
                tokio::time::sleep(RECORDED_SOON).await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(self.patience(), quiet) => {}
            () = interrupted() => {}
        }
    }

    /// How long they are waited for at most.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let declared = self.ledger().declared();
        let times = declared
            .all()
            .into_iter()
            .filter_map(|(_, tool)| tool.http().map(|http| http.timeout + http.linger));
        times.max().unwrap_or_default() + RECORDED_WITHIN
    }

    /// Starts nothing more and waits until every attempt on its way has been recorded. What has not written a byte stops;
    /// what has is read to its end, or its outcome would be lost with the process. Whoever insists gets an operation
    /// that is unknown until somebody follows it up.
    pub async fn drain(&self) {
        if self.insisted.load(Ordering::Relaxed) {
            return;
        }
        tokio::select! {
            _ = self.executor.drain(self.patience()) => {}
            () = interrupted() => self.insisted.store(true, Ordering::Relaxed),
        }
    }

    async fn close(self) {
        self.drain().await;
        self.ledger().store().close().await;
    }
}

/// Somebody asks this process to end. Where the system does not tell, the process ends as it would have.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// How long one look at an operation lasts where nothing changes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whether nothing more happens to an operation by itself. A late answer still may.
fn over(view: &View) -> bool {
    let next = &view.next;
    view.operation.state.is_final()
        || next.action.waits_for_somebody()
        || next.at.is_none() && next.action != counterfoil::decide::Action::Wait
}

/// The path of an operation, with what follows it.
#[must_use]
pub fn path_of(id: &OperationId, rest: &str) -> String {
    format!("/v1/operations/{}{rest}", segment(id))
}

/// A path with its parameters; absent ones are left out.
#[must_use]
pub fn with_query(path: &str, parameters: &[(&str, Option<String>)]) -> String {
    let mut whole = path.to_owned();
    for (name, value) in parameters {
        if let Some(value) = value {
            whole.push(if whole.contains('?') { '&' } else { '?' });
            whole.push_str(name);
            whole.push('=');
            whole.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
        }
    }
    whole
}

/// The members of a problem that a command shows.
#[derive(serde::Deserialize)]
struct Problem {
    #[serde(rename = "type")]
    kind: String,
    detail: String,
    hint: String,
    #[serde(default)]
    differs: Vec<String>,
    #[serde(default)]
    operations: Vec<String>,
    operation_id: Option<String>,
    next: Option<ProblemNext>,
}

#[derive(serde::Deserialize)]
struct ProblemNext {
    operation: Option<String>,
}

/// A problem as an error of the command.
fn refused(answer: &Answer) -> CommandError {
    let Ok(problem) = serde_json::from_str::<Problem>(&answer.body) else {
        return CommandError::environment(
            format!("the answer with status {} is none of a Counterfoil server", answer.status),
            "check the URL of --server",
        );
    };
    let code = problem.kind.strip_prefix(problems::TYPE_PREFIX).unwrap_or_default();
    let known = problems::find(code).map(|known| known.slug);
    let mut message = super::output::visible(&problem.detail);
    for (what, list) in [("differs in", &problem.differs), ("held back by", &problem.operations)] {
        if !list.is_empty() {
            message.push_str(&format!("\n  {what}: {}", super::output::visible(&list.join(", "))));
        }
    }
    let mut hints = vec![super::output::visible(&problem.hint)];
    if let (Some("approval-required"), Some(id), Some(holder)) =
        (known, &problem.operation_id, problem.next.as_ref().and_then(|next| next.operation.as_ref()))
    {
        hints.push(super::output::visible(&format!(
            "whoever approves it must have seen {holder}: `counterfoil op show {id}` prints the command"
        )));
    }
    hints.extend(known.map(|slug| format!("`counterfoil explain {slug}` says more")));
    let kind = if answer.status >= 500 { Kind::Environment } else { Kind::Refused };
    let problem = serde_json::from_str(&answer.body).unwrap_or_default();
    CommandError { kind, slug: known, message, hints, problem }
}

fn no_answer(error: ClientError) -> CommandError {
    let hint = match &error {
        ClientError::Url => "write it as http://127.0.0.1:8787, https://HOST or unix:PATH",
        ClientError::Unreachable(_) => "check that the server runs and that --server names it",
        ClientError::Lost(_) => "run the same command with the same ID again: that is always safe",
    };
    CommandError::environment(error.to_string(), hint)
}
