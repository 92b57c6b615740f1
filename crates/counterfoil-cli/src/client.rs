//! A small client of a running server: one connection per call, no redirects, nothing sent twice.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How long an answer may take beyond what the call itself asked the server to wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The largest answer that is read, in bytes: more than a full page of the largest operations.
const LARGEST_ANSWER: usize = 512 * 1024 * 1024;

/// One call of the API.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path and query, escaped.
    pub path: String,
    /// The JSON body; none for a read.
    pub body: Option<String>,
    /// How long the call asks the server to wait.
    pub wait: Duration,
}

/// An answer of the API.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body, which is UTF-8 like all JSON.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is none of a server.
    #[error("this is no URL of a server")]
    Url,
    /// No connection; nothing reached the server.
    #[error("the server cannot be reached: {0}")]
    Unreachable(io::Error),
    /// The connection ended before the answer was complete. Whatever was asked may have been done.
    #[error("the server's answer was lost: {0}")]
    Lost(String),
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Tcp { tls: bool, host: String, port: u16, prefix: String },
    Unix(PathBuf),
}

/// A client of one server, with one token.
pub struct Client {
    place: Place,
    token: HeaderValue,
}

impl Client {
    /// A client for `http://HOST:PORT`, `https://HOST` or `unix:PATH`.
    ///
    /// # Errors
    /// The URL is none of these, or the token cannot stand in a header.
    pub fn new(url: &str, token: &str) -> Result<Self, ClientError> {
        let mut header = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::Url)?;
        header.set_sensitive(true);
        Ok(Self { place: place(url).ok_or(ClientError::Url)?, token: header })
    }

    /// Whether the token would cross a network in clear.
    #[must_use]
    pub fn in_clear(&self) -> bool {
        match &self.place {
            Place::Tcp { tls: false, host, .. } => {
                let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
                host != "localhost" && !address.is_ok_and(|address| address.is_loopback())
            }
            Place::Tcp { tls: true, .. } | Place::Unix(_) => false,
        }
    }

    /// Makes one call.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn call(&self, call: Call) -> Result<Answer, ClientError> {
        let connecting = tokio::time::timeout(CONNECT_WITHIN, self.connect());
        let stream = connecting.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let stream = stream.map_err(ClientError::Unreachable)?;
        let within = call.wait + ANSWER_WITHIN;
        match tokio::time::timeout(within, exchange(stream, self.request(call)?)).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::Lost("it did not come in time".to_owned())),
        }
    }

    fn request(&self, call: Call) -> Result<Request<Full<Bytes>>, ClientError> {
        let (host, path) = match &self.place {
            Place::Tcp { host, port, prefix, .. } => {
                (format!("{host}:{port}"), format!("{prefix}{}", call.path))
            }
            Place::Unix(_) => ("localhost".to_owned(), call.path),
        };
        let mut request = Request::builder()
            .method(call.method)
            .uri(path)
            .header(header::HOST, host)
            .header(header::AUTHORIZATION, self.token.clone());
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(call.body.unwrap_or_default()));
        request.body(body).map_err(|_| ClientError::Url)
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match &self.place {
            Place::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Place::Tcp { tls, host, port, .. } => {
                let bare = host.trim_start_matches('[').trim_end_matches(']');
                let stream = TcpStream::connect((bare, *port)).await?;
                stream.set_nodelay(true)?;
                if !tls {
                    return Ok(Box::new(stream));
                }
                let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
                Ok(Box::new(tls_connector()?.connect(name, stream).await?))
            }
        }
    }
}

/// A connection of any kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// TLS against the certificates of this host.
fn tls_connector() -> io::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    // A single bad certificate in the host's store is no reason to trust none.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn exchange(stream: Box<dyn Stream>, request: Request<Full<Bytes>>) -> Result<Answer, ClientError> {
    let lost = |error: hyper::Error| ClientError::Lost(error.to_string());
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let connection = tokio::spawn(connection);
    let answered = async {
        let response = sender.send_request(request).await.map_err(lost)?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| ClientError::Lost(error.to_string()))?.to_bytes();
        let body = String::from_utf8(body.into()).map_err(|error| ClientError::Lost(error.to_string()))?;
        Ok(Answer { status, body })
    }
    .await;
    connection.abort();
    answered
}

fn place(url: &str) -> Option<Place> {
    if let Some(path) = url.strip_prefix("unix:") {
        return (!path.is_empty()).then(|| Place::Unix(PathBuf::from(path)));
    }
    let uri: Uri = url.parse().ok()?;
    let tls = match uri.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    if uri.query().is_some() {
        return None;
    }
    Some(Place::Tcp {
        tls,
        host: authority.host().to_owned(),
        port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        prefix: uri.path().trim_end_matches('/').to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_url_or_socket() {
        let tcp = |tls, host: &str, port, prefix: &str| {
            Some(Place::Tcp { tls, host: host.into(), port, prefix: prefix.into() })
        };
        assert_eq!(place("http://127.0.0.1:8787"), tcp(false, "127.0.0.1", 8787, ""));
        assert_eq!(place("https://ledger.example/a/"), tcp(true, "ledger.example", 443, "/a"));
        assert_eq!(place("http://[::1]:8787"), tcp(false, "[::1]", 8787, ""));
        assert_eq!(place("unix:/run/cf.sock"), Some(Place::Unix("/run/cf.sock".into())));
        for bad in ["", "127.0.0.1:8787", "ftp://x", "http://u:p@x", "unix:", "http://x?y=z", "/v1"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_token_in_clear_is_noticed() {
        let clear = |url: &str| Client::new(url, "cf_x").unwrap().in_clear();
        assert!(clear("http://ledger.example:8787"));
        for fine in ["http://127.0.0.1:8787", "http://[::1]:1", "http://localhost:1", "https://x", "unix:a"] {
            assert!(!clear(fine), "{fine}");
        }
        assert!(Client::new("http://x", "a\nb").is_err());
    }
}
