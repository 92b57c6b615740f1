//! What happened: the evidence of one operation, and the changes of an account as pages, long polls or a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use counterfoil::caller::Need;
use counterfoil::store::{Change, EvidenceRow, Page};
use counterfoil::{Error, OperationId, Timestamp};
use http::header;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use utoipa::ToSchema;

use super::auth::Session;
use super::problem::Problem;
use super::query::Query;
use super::{App, Listed, json_of, millis, operation_id, sse};

/// How many callers may wait for events at once; further ones are told to come back.
const LISTENERS: usize = 1_000;

static LISTENING: AtomicUsize = AtomicUsize::new(0);

/// One row of evidence.
#[derive(Serialize, ToSchema)]
pub(super) struct Evidence {
    /// Its place in its chain, from 1.
    seq: u64,
    /// Store time of the commit.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// What kind of thing was seen.
    kind: String,
    /// Who brought it.
    by: By,
    /// About which operation.
    #[schema(value_type = Option<String>)]
    operation_id: Option<OperationId>,
    /// Details.
    #[schema(value_type = Object)]
    data: Box<RawValue>,
    /// Digest of this row and the one before.
    digest: String,
    /// Digest of the row before in the chain.
    previous: String,
}

/// Who brought a row of evidence.
#[derive(Serialize, ToSchema)]
struct By {
    /// The name.
    principal: String,
    /// `caller`, `worker` or `rule`.
    kind: String,
}

/// One change of an operation.
#[derive(Serialize, ToSchema)]
pub(super) struct Event {
    /// Where the feed goes on after this one.
    pub(super) cursor: String,
    /// Store time of the commit.
    #[serde(serialize_with = "display")]
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Which operation.
    #[schema(value_type = Option<String>)]
    operation_id: Option<OperationId>,
    /// Its version after the change.
    version: u64,
    /// Its state after the change.
    state: Option<String>,
    /// What kind of thing was seen.
    reason: String,
}

/// `GET /v1/operations/{id}/evidence`.
pub(super) async fn evidence(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let session = app.enter(&parts, Need::Evidence).await?;
    let id = operation_id(&parts)?;
    let query = Query::parse(parts.uri.query(), &["cursor", "limit"])?;
    let (after, limit) = (query.position("cursor")?, query.limit(app.limits())?);
    let page = match app.ledger().evidence(&session.caller, &id, Some(after), limit).await {
        Ok(page) => page,
        Err(error) => return Err(app.refused(&session, error, &id).await),
    };
    let items = page.items.into_iter().map(shown).collect();
    Ok(json_of(&Listed { items, next_cursor: page.next_cursor }))
}

fn shown(row: EvidenceRow) -> Evidence {
    Evidence {
        seq: row.seq,
        at: row.at,
        kind: row.kind,
        by: By { principal: row.by.0, kind: row.by.1 },
        operation_id: row.operation,
        // Purged or damaged details are shown as none.
        data: RawValue::from_string(row.data).unwrap_or_else(|_| RawValue::NULL.to_owned()),
        digest: prefixed(row.digest),
        previous: prefixed(row.previous),
    }
}

fn prefixed(digest: String) -> String {
    if digest.starts_with("sha256:") { digest } else { format!("sha256:{digest}") }
}

/// `GET /v1/events`.
pub(super) async fn events(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let session = app.enter(&parts, Need::Read).await?;
    let query = Query::parse(parts.uri.query(), &["after", "limit", "wait_ms"])?;
    let (after, limit) = (query.position("after")?, query.limit(app.limits())?);
    let wait = query.wait(app.limits())?.unwrap_or(0);
    let stream = parts.headers.get(header::ACCEPT).is_some_and(|accept| accept == "text/event-stream");
    if stream {
        let resumed = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
        let listener = Listener::enter(&app, session)?;
        return Ok(sse::answer(listener, resumed.unwrap_or(after)));
    }
    let page = if wait == 0 {
        Reader { app: app.clone(), session }.page(after, limit).await?
    } else {
        Listener::enter(&app, session)?.next(after, limit, millis(wait)).await?
    };
    Ok(json_of(&Listed { items: page.items, next_cursor: page.next_cursor }))
}

/// Reads the feed for one caller.
pub(super) struct Reader {
    app: App,
    session: Session,
}

impl Reader {
    /// The changes after `after` that the caller may see. The cursor goes on past those that it may not.
    async fn page(&self, after: u64, limit: u32) -> Result<Page<Event>, Problem> {
        let caller = &self.session.caller;
        let rows = self.app.ledger().store().events(&caller.account, Some(after), limit).await?;
        let reached = rows.items.last().map_or(after, |row| row.position);
        let mut items = Vec::with_capacity(rows.items.len());
        for row in rows.items {
            if self.may_see(row.operation.as_ref()).await? {
                items.push(event(row));
            }
        }
        let next_cursor = (reached > 0).then(|| reached.to_string());
        Ok(Page { items, next_cursor })
    }

    async fn may_see(&self, operation: Option<&OperationId>) -> Result<bool, Problem> {
        let caller = &self.session.caller;
        let Some(id) = operation.filter(|_| !caller.tools.is_empty()) else { return Ok(true) };
        match self.app.ledger().find(caller, id).await {
            Ok(_) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(Error::Store(error)) => Err(error.into()),
        }
    }
}

fn event(row: EvidenceRow) -> Event {
    Event {
        cursor: row.position.to_string(),
        at: row.at,
        operation_id: row.operation,
        version: row.version,
        state: row.state,
        reason: row.kind,
    }
}

/// A caller that waits for changes, in one of the bounded places for that.
pub(super) struct Listener {
    reader: Reader,
    changes: broadcast::Receiver<Change>,
    _place: Place,
}

struct Place;

impl Drop for Place {
    fn drop(&mut self) {
        LISTENING.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Listener {
    fn enter(app: &App, session: Session) -> Result<Self, Problem> {
        if LISTENING.fetch_add(1, Ordering::SeqCst) >= LISTENERS {
            LISTENING.fetch_sub(1, Ordering::SeqCst);
            return Err(Problem::new("too-many-requests", "Too many callers wait for events.").retry_after(1));
        }
        let changes = app.ledger().store().changes();
        Ok(Self { reader: Reader { app: app.clone(), session }, changes, _place: Place })
    }

    /// The next changes; an empty page when the wait is over or the server ends. The token is asked for again before
    /// anything is shown.
    pub(super) async fn next(
        &mut self,
        after: u64,
        limit: u32,
        wait: Duration,
    ) -> Result<Page<Event>, Problem> {
        let deadline = tokio::time::Instant::now() + wait;
        let mut after = after;
        loop {
            // Also where no wait lies between two pages: a caller that reads slowly may have been gone for long.
            let app = self.reader.app.clone();
            self.reader.session = app.authority().again(&self.reader.session).await?;
            self.reader.session.caller.needs(Need::Read)?;
            let page = self.reader.page(after, limit).await?;
            let over = tokio::time::Instant::now() >= deadline || self.draining();
            if !page.items.is_empty() || over {
                return Ok(page);
            }
            // Past changes that the caller may not see.
            after = page.next_cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(after);
            self.woken(deadline).await;
        }
    }

    pub(super) fn draining(&self) -> bool {
        self.reader.app.draining().is_cancelled()
    }

    /// Until something of the account changed, the deadline, or the end of the server.
    async fn woken(&mut self, deadline: tokio::time::Instant) {
        let account = Arc::clone(&self.reader.session.caller);
        let changed = async {
            loop {
                match self.changes.recv().await {
                    Ok(change) if change.account == account.account => return,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return,
                    // The store is closed: nothing changes any more.
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep_until(deadline) => {}
            () = self.reader.app.draining().cancelled() => {}
        }
    }
}

fn display<S: Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use counterfoil::executor::Executor;
    use counterfoil::http::HttpDestination;
    use counterfoil::ledger::{Ledger, LedgerOptions, NewOperation};
    use counterfoil::policy::Tool;
    use counterfoil::store::Token;
    use counterfoil::{Account, Arguments, Principal, ToolName, WorkerName};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_page_that_is_there_at_once_is_kept_from_a_revoked_token_too() {
        let folder = tempfile::tempdir().unwrap();
        let tool = ToolName::parse("items.create").unwrap();
        let tools = vec![Tool::in_transaction(tool.clone())];
        let options = LedgerOptions::default();
        let ledger = Ledger::open(folder.path().join("ledger.db"), tools, options).await.unwrap();
        let destination = HttpDestination::new(ledger.clock().clone(), [7; 32]).unwrap();
        let worker = WorkerName::parse("node-1").unwrap();
        let app = App::new(
            Executor::new(ledger.clone(), Arc::new(destination), worker),
            crate::config::Limits::default(),
        );
        let (text, digest) = crate::secret::mint().unwrap();
        let token = Token {
            id: "reader".to_owned(),
            principal: Principal::parse("reader").unwrap(),
            account: Account::parse("kitchen").unwrap(),
            roles: vec!["agent".to_owned()],
            tools: Vec::new(),
            digest,
            created_at: ledger.store().now(),
            expires_at: None,
            revoked_at: None,
        };
        ledger.store().create_token(token).await.unwrap();
        let request = Request::builder().header(header::AUTHORIZATION, format!("Bearer {text}"));
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let session = app.enter(&parts, Need::Read).await.unwrap();
        for id in ["a", "b"] {
            let arguments = Arguments::parse(b"{}").unwrap();
            let new = NewOperation::new(OperationId::parse(id).unwrap(), tool.clone(), arguments);
            ledger.prepare(&session.caller, new).await.unwrap();
        }
        let mut listener = Listener::enter(&app, session).unwrap();
        let first = listener.next(0, 1, Duration::ZERO).await.unwrap();
        assert_eq!(first.items.len(), 1);
        ledger.store().revoke_token("reader").await.unwrap();
        tokio::time::sleep(Duration::from_millis(600)).await;
        let after = first.next_cursor.unwrap().parse().unwrap();
        let refused = listener.next(after, 1, Duration::ZERO).await.err().unwrap();
        assert_eq!(refused.code(), "unauthenticated");
    }
}
