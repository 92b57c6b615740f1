//! What goes over the wire, against listeners that count it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::SystemResolver;
use super::address::Resolve;
use super::secrets::{Secret, SecretError, Secrets};
use super::send::{HttpDestination, Limits};
use super::test_tool::{Setup, account, keyed, unkeyed};
use crate::destination::{Destination as _, Finding, Gate, Made};
use crate::fingerprint::Arguments;
use crate::operation::{Body, Marker};
use crate::policy::{Meaning, Tool};
use crate::time::{Clock, ManualClock, Timestamp};

mod exchange;
mod look_up;
mod reach;

const KEY: &str = "34709695c54c93bf67da7aa0502747ef";
const CREATED: &str =
    "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"id\":\"po_1\"}";

/// What a listener does with one connection once it has read a request.
#[derive(Clone)]
enum Act {
    /// Writes this and closes.
    Reply(Vec<u8>),
    /// Writes this for every request on the connection.
    KeepAlive(Vec<u8>),
    /// Answers the first request with this, and closes after it has read the second.
    Once(Vec<u8>),
    /// Closes, in order.
    Close,
    /// Closes with a reset.
    Reset,
    /// Writes the second after the first, when it is told to.
    After(Vec<u8>, Vec<u8>, Arc<tokio::sync::Notify>),
    /// Writes this, then a byte at a time until the peer is gone.
    Drip(Vec<u8>),
    /// Writes this, then so many bytes.
    Bulk(Vec<u8>, usize),
    /// Writes this before it reads anything.
    Unasked(Vec<u8>),
}

/// A listener, and everything that was ever sent to it.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Every byte of each connection.
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Server {
    async fn start(act: Act) -> Self {
        Self::with_tls(act, None).await
    }

    async fn with_tls(act: Act, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            seen: Arc::default(),
        };
        let (connections, seen) = (Arc::clone(&server.connections), Arc::clone(&server.seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let at = connections.fetch_add(1, Ordering::SeqCst);
                seen.lock().unwrap().push(Vec::new());
                let record = Record { seen: Arc::clone(&seen), at };
                let (act, tls) = (act.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None if matches!(act, Act::Reset) => reset(stream, &record).await,
                        None => serve(stream, act, &record).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, act, &record).await;
                            }
                        }
                    }
                });
            }
        });
        server
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Every byte that arrived, as text.
    fn text(&self) -> String {
        self.seen.lock().unwrap().iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// How many requests began.
    fn requests(&self) -> usize {
        self.text().matches(" HTTP/1.1\r\n").count()
    }
}

struct Record {
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    at: usize,
}

impl Record {
    /// Reads one request to its end. `None` if the peer is gone.
    async fn request<S: AsyncRead + Unpin>(&self, stream: &mut S) -> Option<()> {
        let mut request = Vec::new();
        loop {
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).await.ok().filter(|read| *read > 0)?;
            self.seen.lock().unwrap()[self.at].extend_from_slice(&bytes[..read]);
            request.extend_from_slice(&bytes[..read]);
            let text = String::from_utf8_lossy(&request).to_lowercase();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(());
            }
        }
    }
}

async fn reset(mut stream: TcpStream, record: &Record) {
    record.request(&mut stream).await;
    stream.set_zero_linger().unwrap();
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, act: Act, record: &Record) {
    if let Act::Unasked(bytes) = &act {
        stream.write_all(bytes).await.ok();
    }
    if record.request(&mut stream).await.is_none() {
        return;
    }
    match act {
        Act::Reply(bytes) => stream.write_all(&bytes).await.unwrap_or_default(),
        Act::KeepAlive(bytes) => loop {
            stream.write_all(&bytes).await.ok();
            if record.request(&mut stream).await.is_none() {
                return;
            }
        },
        Act::Once(bytes) => {
            stream.write_all(&bytes).await.ok();
            record.request(&mut stream).await;
        }
        Act::After(first, second, told) => {
            stream.write_all(&first).await.ok();
            told.notified().await;
            stream.write_all(&second).await.ok();
        }
        Act::Drip(bytes) => {
            stream.write_all(&bytes).await.ok();
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Act::Bulk(head, mut left) => {
            stream.write_all(&head).await.ok();
            let block = vec![b' '; 1 << 16];
            while left > 0 {
                let now = left.min(block.len());
                if stream.write_all(&block[..now]).await.is_err() {
                    return;
                }
                left -= now;
            }
        }
        Act::Close | Act::Reset | Act::Unasked(_) => {}
    }
    stream.shutdown().await.ok();
    // Reads what still comes, so that a second request would be seen.
    while record.request(&mut stream).await.is_some() {}
}

/// A gate that counts how often it was asked.
struct Asked {
    answer: Result<(), &'static str>,
    asked: AtomicUsize,
}

impl Asked {
    fn new(answer: Result<(), &'static str>) -> Arc<Self> {
        Arc::new(Self { answer, asked: AtomicUsize::new(0) })
    }
}

impl Gate for Asked {
    fn may_write(&self) -> Result<(), &'static str> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answer
    }
}

struct OneSecret;

impl Secrets for OneSecret {
    fn variable(&self, name: &str) -> Result<Secret, SecretError> {
        if name == "TOKEN" { Ok(Secret::new("canary-4711".to_owned())) } else { Err(SecretError::Missing) }
    }

    fn file(&self, _: &str) -> Result<Secret, SecretError> {
        Err(SecretError::Missing)
    }
}

/// Answers every name with the next of its addresses.
struct Names {
    answers: Vec<SocketAddr>,
    asked: Arc<AtomicUsize>,
}

impl Resolve for Names {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _: u16,
    ) -> std::pin::Pin<Box<dyn Future<Output = std::io::Result<Vec<SocketAddr>>> + Send + 'a>> {
        let at = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers[at.min(self.answers.len() - 1)];
        Box::pin(async move { Ok(vec![answer]) })
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::parse("2026-11-29T14:02:11Z").unwrap()))
}

fn destination() -> HttpDestination {
    limited(Limits::default())
}

fn limited(limits: Limits) -> HttpDestination {
    with(Arc::new(OneSecret), Arc::new(SystemResolver), None, limits)
}

fn with(
    secrets: Arc<dyn Secrets>,
    resolver: Arc<dyn Resolve>,
    roots: Option<rustls::RootCertStore>,
    limits: Limits,
) -> HttpDestination {
    HttpDestination::with(clock(), [7; 32], secrets, resolver, roots, limits).unwrap()
}

fn resolving(answers: Vec<SocketAddr>) -> (HttpDestination, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let names = Arc::new(Names { answers, asked: Arc::clone(&asked) });
    (with(Arc::new(OneSecret), names, None, Limits::default()), asked)
}

fn made(destination: &HttpDestination, tool: &Tool, arguments: &str) -> Result<Made, String> {
    let arguments = Arguments::parse(arguments.as_bytes()).unwrap();
    destination.make(tool, &account(), &arguments, Some(KEY))
}

async fn send(destination: &HttpDestination, tool: &Tool) -> Finding {
    send_through(destination, tool, Asked::new(Ok(()))).await.0
}

/// Sends once; also whether callers were told at the timeout.
async fn send_through(destination: &HttpDestination, tool: &Tool, gate: Arc<dyn Gate>) -> (Finding, bool) {
    let made = made(destination, tool, r#"{"sku":"flour"}"#).unwrap();
    let (late, mut told) = oneshot::channel();
    let finding = destination.send(made, Arc::new(tool.clone()), true, gate, late).await;
    (finding, told.try_recv().is_ok())
}

fn to(server: &Server) -> Setup {
    Setup { url: server.url("/orders"), ..Setup::default() }
}

fn reply(head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
