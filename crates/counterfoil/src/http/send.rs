//! One attempt on the wire: connect, ask the gate, write, read the answer. Exactly one request or none.
//!
//! A crash anywhere in here leaves a recorded attempt without a report, and that counts as sent.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use rustls::RootCertStore;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::{Instant, timeout_at};

use super::address::{Resolve, SystemResolver};
use super::classify::{self, Answer, AnswerBody, BodyEnd, MAX_KEPT, classify};
use super::connect::{Connector, Lane};
use super::look_up::Question;
use super::pool::Pool;
use super::request::{InvalidArguments, Request, build, header_value};
use super::secrets::{self, SecretError, Secrets, SystemSecrets};
use super::target::Target;
use super::wire::Fate;
use crate::destination::{Boxed, Destination, Finding, Gate, LookedUp, Made};
use crate::fingerprint::Arguments;
use crate::id::Account;
use crate::operation::Marker;
use crate::policy::{HttpDeclaration, Tool};
use crate::time::Clock;

/// Bounds of one send. The defaults suit everything but tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long resolving, connecting and the TLS handshake may take together.
    pub connect: Duration,
    /// The most bytes of a body that are read.
    pub body: u64,
    /// How long a body may come at any rate.
    pub body_grace: Duration,
    /// After that, the fewest bytes per second.
    pub body_rate: u64,
    /// How many answers larger than 1 MiB are held in memory at once.
    pub large: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            body: 64 * 1024 * 1024,
            body_grace: Duration::from_secs(30),
            body_rate: 64,
            large: 2,
        }
    }
}

/// Destinations over HTTP/1.1, with TLS where the URL says so. Clones share connections.
#[derive(Clone)]
pub struct HttpDestination {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    clock: Arc<dyn Clock>,
    secrets: Arc<dyn Secrets>,
    ledger_secret: [u8; 32],
    pub(super) connector: Connector,
    pool: Pool,
    limits: Limits,
    large: Semaphore,
}

impl std::fmt::Debug for HttpDestination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpDestination").field("limits", &self.inner.limits).finish_non_exhaustive()
    }
}

/// The scope of an attempt whose credential cannot be read.
const UNREADABLE: &str = "unreadable";

/// The longest `timeout` and `linger`.
pub(super) const MAX_PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

impl HttpDestination {
    /// Destinations as the host resolves and trusts them, with the secrets of its environment and files.
    /// `ledger_secret` keys the digests that stand for undeclared scopes.
    ///
    /// # Errors
    /// Where TLS cannot be set up at all.
    pub fn new(clock: Arc<dyn Clock>, ledger_secret: [u8; 32]) -> Result<Self, rustls::Error> {
        let (secrets, resolver) = (Arc::new(SystemSecrets), Arc::new(SystemResolver));
        Self::with(clock, ledger_secret, secrets, resolver, None, Limits::default())
    }

    /// The same with every seam in the caller's hand. `roots`: the certificates to trust in place of the host's.
    ///
    /// # Errors
    /// Where TLS cannot be set up at all.
    pub fn with(
        clock: Arc<dyn Clock>,
        ledger_secret: [u8; 32],
        secrets: Arc<dyn Secrets>,
        resolver: Arc<dyn Resolve>,
        roots: Option<RootCertStore>,
        limits: Limits,
    ) -> Result<Self, rustls::Error> {
        let connector = Connector::new(resolver, roots, limits.connect)?;
        let (pool, large) = (Pool::default(), Semaphore::new(limits.large));
        let inner = Inner { clock, secrets, ledger_secret, connector, pool, limits, large };
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// A request with the scope that its attempt is recorded under, where that is a digest of the credential.
struct Prepared {
    request: Request,
    credential: Option<String>,
}

impl Destination for HttpDestination {
    /// Secrets are looked at only where no scope is declared: then the scope is a digest of them, and without it
    /// nobody could tell that a resend goes to another vendor account.
    fn make(
        &self,
        tool: &Tool,
        account: &Account,
        arguments: &Arguments,
        key: Option<&str>,
    ) -> Result<Made, String> {
        let http = tool.http().ok_or_else(|| InvalidArguments::NotHttp.to_string())?;
        let request = build(tool, account, arguments, key, None).map_err(|error| error.to_string())?;
        // A secret that cannot be read is no fault of the arguments: the send finds it missing, and nothing goes out.
        let scope = secrets::scope(tool, account, &self.inner.ledger_secret, &*self.inner.secrets)
            .unwrap_or_else(|_| UNREADABLE.to_owned());
        let credential = http.scope.is_none().then(|| scope.clone());
        Ok(Made {
            digest: request.digest.clone(),
            scope: Some(scope),
            bucket: http.destination.clone(),
            request: Box::new(Prepared { request, credential }),
        })
    }

    fn send(
        &self,
        made: Made,
        tool: Arc<Tool>,
        first: bool,
        gate: Arc<dyn Gate>,
        late: oneshot::Sender<()>,
    ) -> Boxed<Finding> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let Ok(prepared) = made.request.downcast::<Prepared>() else {
                return Finding::not_sent(
                    Marker::NotConnected,
                    "the request was made for another destination",
                );
            };
            inner.send(*prepared, &tool, gate, Caller { first, late: Some(late) }).await
        })
    }

    fn look_up(
        &self,
        tool: Arc<Tool>,
        account: &Account,
        arguments: &Arguments,
        key: Option<&str>,
        scope: Option<&str>,
    ) -> Boxed<LookedUp> {
        let question = Question::make(tool, account, arguments, key, scope);
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            match question {
                Ok(question) => inner.look_up(question).await,
                Err(words) => LookedUp::failed(words),
            }
        })
    }
}

/// Who waits for the finding.
struct Caller {
    /// Whether no earlier attempt of the operation exists.
    first: bool,
    /// Used at the tool's timeout; dropped only when there is a finding.
    late: Option<oneshot::Sender<()>>,
}

impl Inner {
    async fn send(&self, prepared: Prepared, tool: &Tool, gate: Arc<dyn Gate>, caller: Caller) -> Finding {
        let not_sent = |error: &str| Finding::not_sent(Marker::NotConnected, error);
        let Prepared { request, credential } = prepared;
        let Some(http) = tool.http() else { return not_sent("the tool is not carried over HTTP") };
        let Ok((target, path)) = Target::split(&request.url) else {
            return not_sent("the URL cannot be read");
        };
        let pooled = tool.recovery.destination_dedupes();
        let headers = match self.headers(&request, credential).await {
            Ok(Some(headers)) => headers,
            Ok(None) => {
                let words = "stopped before the first byte: the credential changed meanwhile";
                return Finding::stopped(Marker::NotConnected, words);
            }
            // As good as a refused credential: it uses up no attempt, and three in a row pause the tool.
            Err(error) => return Finding { credential_refused: true, ..not_sent(&error.to_string()) },
        };
        let Some(message) = message(&request, &target, path, headers, pooled) else {
            return not_sent("the request cannot be written as HTTP");
        };
        let place = (target, http.allow_private);
        if let Some(lane) = pooled.then(|| self.pool.take(&place)).flatten() {
            lane.wire.arm_again(Arc::clone(&gate));
            match self.exchange(lane, message.clone(), tool, http, caller, &place).await {
                // The idle connection ended before a byte was handed to it: that was no send. The gate is asked again.
                Exchange::Unwritten(caller) => self.on_fresh(message, tool, http, gate, caller, &place).await,
                Exchange::Over(finding) => *finding,
            }
        } else {
            self.on_fresh(message, tool, http, gate, caller, &place).await
        }
    }

    async fn on_fresh(
        &self,
        message: Message,
        tool: &Tool,
        http: &HttpDeclaration,
        gate: Arc<dyn Gate>,
        caller: Caller,
        place: &(Target, bool),
    ) -> Finding {
        let lane = match self.connector.connect(&place.0, place.1).await {
            Ok(lane) => lane,
            Err(error) => return Finding::not_sent(Marker::NotConnected, &error.to_string()),
        };
        lane.wire.arm(gate);
        match self.exchange(lane, message, tool, http, caller, place).await {
            Exchange::Over(finding) => *finding,
            Exchange::Unwritten(_) => {
                Finding::not_sent(Marker::Connected, "the connection ended before the request was written")
            }
        }
    }

    /// The headers with their secrets; `None` where those belong to another credential than the attempt was recorded
    /// under. Read off the async threads: a file may be slow, and nothing is sent if it is too slow.
    pub(super) async fn headers(
        &self,
        request: &Request,
        credential: Option<String>,
    ) -> Result<Option<Vec<(HeaderName, HeaderValue)>>, SecretError> {
        let templates = request.headers.clone();
        let (source, ledger_secret) = (Arc::clone(&self.secrets), self.ledger_secret);
        let secret = templates.iter().any(|(_, template)| secrets::is_secret(template));
        let resolve = move || resolve_headers(&templates, &*source, credential.as_deref(), &ledger_secret);
        if !secret {
            return resolve();
        }
        let read = tokio::time::timeout(self.limits.connect, tokio::task::spawn_blocking(resolve)).await;
        read.map_or(Err(SecretError::Missing), |read| read.unwrap_or(Err(SecretError::Missing)))
    }

    /// Hands the request over and reads the answer. The lane is given up at every exit but one: a whole answer on a
    /// connection that may be used again.
    async fn exchange(
        &self,
        mut lane: Lane,
        message: Message,
        tool: &Tool,
        http: &HttpDeclaration,
        caller: Caller,
        place: &(Target, bool),
    ) -> Exchange {
        let written = Instant::now();
        let (timeout, linger) = (http.timeout.min(MAX_PATIENCE), http.linger.min(MAX_PATIENCE));
        let mut patience = Patience {
            timeout: written + timeout,
            end: written + timeout + linger,
            linger,
            late: caller.late,
        };
        let sending = lane.sender.send_request(message);
        let response = match patience.wait(sending, || lane.wire.is_written()).await {
            // A peer that answers what it was never asked proves nothing.
            Some(Ok(response)) if lane.wire.is_written() => response,
            outcome => {
                let words = match outcome {
                    Some(_) => "the connection ended before an answer",
                    None => "no answer in time",
                };
                return match lane.wire.close() {
                    Fate::Refused(reason) => Exchange::over(Finding::stopped(Marker::Connected, reason)),
                    Fate::Unwritten => {
                        Exchange::Unwritten(Caller { first: caller.first, late: patience.late.take() })
                    }
                    Fate::Written => Exchange::over(Finding::unknown(Marker::BytesWritten, words)),
                };
            }
        };
        let (answer, held) = self.read(response, &mut patience).await;
        if answer.body.end == BodyEnd::Complete
            && (200..300).contains(&answer.status)
            && tool.recovery.destination_dedupes()
        {
            self.keep(lane, place).await;
        }
        let key_sent = tool.recovery.place().is_some();
        let finding = classified(tool, answer, caller.first, key_sent).await;
        drop(held);
        Exchange::over(finding)
    }

    /// Reads an answer to its end, or as far as patience goes. The permit is kept until the answer is judged.
    pub(super) async fn read(
        &self,
        response: http::Response<Incoming>,
        patience: &mut Patience,
    ) -> (Answer, Option<SemaphorePermit<'_>>) {
        let (head, body) = response.into_parts();
        let mut answer = Answer {
            status: head.status.as_u16(),
            content_type: text_of(&head.headers, &http::header::CONTENT_TYPE),
            encoded: is_encoded(&head.headers),
            retry_after: self.retry_after(&head.headers),
            body: AnswerBody {
                bytes: Vec::new(),
                held: true,
                size: 0,
                digest: String::new(),
                end: BodyEnd::Complete,
            },
        };
        let framed = is_framed(&head.headers) || answer.status == 204;
        let json = answer.says_json();
        let (body, held) = patience.read(body, framed, json, &self.limits, &self.large).await;
        answer.body = body;
        (answer, held)
    }

    /// The library may need a moment to see that a connection is ready again; nobody waits long for it.
    async fn keep(&self, mut lane: Lane, place: &(Target, bool)) {
        let soon = Duration::from_millis(50);
        if let Ok(Ok(())) = tokio::time::timeout(soon, lane.sender.ready()).await {
            lane.wire.disarm();
            self.pool.put(place.clone(), lane);
        }
    }

    fn retry_after(&self, headers: &http::HeaderMap) -> Option<Duration> {
        let values = headers.get_all(http::header::RETRY_AFTER).iter();
        values.filter_map(|value| classify::retry_after(value.to_str().ok()?, self.clock.now())).max()
    }
}

pub(super) type Message = http::Request<Full<Bytes>>;

/// What became of handing a request to a connection.
enum Exchange {
    /// No byte was handed over, and nobody was told anything.
    Unwritten(Caller),
    /// Whatever there is to find was found.
    Over(Box<Finding>),
}

impl Exchange {
    fn over(finding: Finding) -> Self {
        Self::Over(Box::new(finding))
    }
}

/// Up to so many bytes a body is read in passing.
pub(super) const SMALL: usize = 64 * 1024;

/// Large bodies are read where it disturbs nobody.
async fn classified(tool: &Tool, answer: Answer, first_send: bool, key_sent: bool) -> Finding {
    if answer.body.bytes.len() <= SMALL {
        return classify(tool, &answer, first_send, key_sent);
    }
    let (tool, status) = (tool.clone(), answer.status);
    let work = move || classify(&tool, &answer, first_send, key_sent);
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Finding {
        status: Some(status),
        ..Finding::unknown(Marker::BytesWritten, "the answer could not be read to its end")
    })
}

/// Every header with its value, if the credential is still the recorded one.
fn resolve_headers(
    templates: &[(String, String)],
    source: &dyn Secrets,
    credential: Option<&str>,
    ledger_secret: &[u8; 32],
) -> Result<Option<Vec<(HeaderName, HeaderValue)>>, SecretError> {
    let mut headers = Vec::with_capacity(templates.len());
    let mut credentials = Vec::new();
    for (name, template) in templates {
        let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| SecretError::NotAHeader)?;
        let resolved = secrets::resolve(template, source)?;
        let mut value = header_value(resolved.expose()).ok_or(SecretError::NotAHeader)?;
        if secrets::is_secret(template) {
            value.set_sensitive(true);
            credentials.push((name.clone(), resolved));
        }
        headers.push((known, value));
    }
    let Some(recorded) = credential else { return Ok(Some(headers)) };
    let same = secrets::scope_digest(credentials, ledger_secret)? == recorded;
    Ok(same.then_some(headers))
}

/// The message as it goes out. `None` where something in it cannot be written.
pub(super) fn message(
    request: &Request,
    target: &Target,
    path: &str,
    headers: Vec<(HeaderName, HeaderValue)>,
    pooled: bool,
) -> Option<Message> {
    let body = Bytes::from(request.body.clone().unwrap_or_default());
    let mut message = http::Request::builder()
        .method(request.method.as_str())
        .uri(path)
        .header(http::header::HOST, target.authority.as_str())
        .header(http::header::ACCEPT_ENCODING, "identity")
        .header(CONTENT_LENGTH, body.len());
    if !pooled {
        message = message.header(CONNECTION, "close");
    }
    for (name, value) in headers {
        message = message.header(name, value);
    }
    message.body(Full::new(body)).ok()
}

/// A header's value as evidence: short, printable, or not at all.
fn text_of(headers: &http::HeaderMap, name: &HeaderName) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    (text.len() <= 255).then(|| text.to_owned())
}

fn is_encoded(headers: &http::HeaderMap) -> bool {
    let values = headers.get_all(http::header::CONTENT_ENCODING).iter();
    values.into_iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Whether the message says itself where its body ends.
fn is_framed(headers: &http::HeaderMap) -> bool {
    let mut encodings = headers.get_all(http::header::TRANSFER_ENCODING).iter();
    let chunked = encodings.next_back().is_some_and(|value| {
        let value = value.as_bytes().to_ascii_lowercase();
        value.ends_with(b"chunked")
    });
    chunked || headers.contains_key(CONTENT_LENGTH)
}

/// How long an answer is waited for, and whom to tell in between.
pub(super) struct Patience {
    timeout: Instant,
    end: Instant,
    linger: Duration,
    late: Option<oneshot::Sender<()>>,
}

impl Patience {
    /// Nobody is told anything in between.
    pub(super) fn until(end: Instant) -> Self {
        Self { timeout: end, end, linger: Duration::ZERO, late: None }
    }

    /// Waits until the end of `linger`. At `timeout` callers are told, if a byte was written; if none was by then,
    /// the wait is over.
    pub(super) async fn wait<F: Future>(
        &mut self,
        future: F,
        written: impl Fn() -> bool,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        if self.late.is_some() {
            if let Ok(output) = timeout_at(self.timeout, &mut future).await {
                return Some(output);
            }
            if self.linger.is_zero() || !written() {
                return None;
            }
            if let Some(late) = self.late.take() {
                // Nobody may listen any more; the answer is read all the same.
                late.send(()).ok();
            }
        }
        timeout_at(self.end, future).await.ok()
    }

    /// Reads a body to its end, its limit or the end of all patience. What is JSON is held as a whole, anything else
    /// up to what is kept of it.
    async fn read<'l>(
        &mut self,
        mut body: Incoming,
        framed: bool,
        json: bool,
        limits: &Limits,
        large: &'l Semaphore,
    ) -> (AnswerBody, Option<SemaphorePermit<'l>>) {
        let began = Instant::now();
        let mut hash = Sha256::new();
        let mut answer =
            AnswerBody { bytes: Vec::new(), held: true, size: 0, digest: String::new(), end: BodyEnd::Cut };
        // Kept by the caller until the answer is classified, so that large answers cannot fill the memory together.
        let mut permit = None;
        loop {
            let earned = Duration::from_secs(answer.size / limits.body_rate.max(1));
            let slow = began + limits.body_grace + earned;
            let frame = async { timeout_at(slow, body.frame()).await };
            let data = match self.wait(frame, || true).await {
                Some(Ok(Some(Ok(frame)))) => frame.into_data().unwrap_or_default(),
                Some(Ok(None)) => {
                    answer.end = if framed { BodyEnd::Complete } else { BodyEnd::Unframed };
                    break;
                }
                Some(Ok(Some(Err(_))) | Err(_)) | None => break,
            };
            let room = limits.body - answer.size;
            let over = data.len() as u64 > room;
            let data = data.slice(..data.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            hash.update(&data);
            answer.size += data.len() as u64;
            if answer.held && answer.bytes.len() + data.len() > MAX_KEPT && permit.is_none() {
                permit =
                    if json { self.wait(large.acquire(), || true).await.and_then(Result::ok) } else { None };
                answer.held = permit.is_some();
            }
            if answer.held {
                answer.bytes.extend_from_slice(&data);
            }
            if over {
                answer.end = BodyEnd::Capped;
                break;
            }
        }
        if !answer.held {
            answer.bytes = Vec::new();
        }
        answer.digest = format!("sha256:{}", crate::hex::encode(&hash.finalize()));
        (answer, permit)
    }
}
