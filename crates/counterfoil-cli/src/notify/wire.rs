//! One POST to a listener: to a checked address, without redirects, in bounded time.

use bytes::Bytes;
use counterfoil::http::secrets::{SystemSecrets, resolve};
use counterfoil::http::target::Target;
use counterfoil::http::{Dialer, Secret};
use http::{Request, header};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Undelivered;

/// Bytes of an answer's head that are read; its body is of no interest.
const HEAD: usize = 16 * 1024;

/// Statuses that say that this notice will never be taken, rather than that the listener is in trouble.
const REFUSED: [u16; 4] = [400, 413, 415, 422];

/// The value of a template, read anew so that a changed secret is picked up, and where it disturbs nobody.
pub(super) async fn secret(template: &str) -> Result<Secret, Undelivered> {
    let template = template.to_owned();
    let read = tokio::task::spawn_blocking(move || resolve(&template, &SystemSecrets)).await;
    read.ok().and_then(Result::ok).ok_or(Undelivered::Secret)
}

/// Posts `body`. Only a 2xx says that it arrived.
pub(super) async fn post(
    dialer: &Dialer,
    url: &str,
    allow_private: bool,
    headers: &[(&'static str, String)],
    body: Vec<u8>,
) -> Result<(), Undelivered> {
    let (target, path) = Target::split(url).map_err(|_| Undelivered::Secret)?;
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut request = Request::post(path)
        .header(header::HOST, target.authority.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .header(header::USER_AGENT, concat!("counterfoil/", env!("CARGO_PKG_VERSION")));
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(|_| Undelivered::Secret)?;
    let stream = dialer.plain(&target, allow_private).await.map_err(|_| Undelivered::Connect)?;
    let status = if target.tls {
        let stream = dialer.tls(&target, stream).await.map_err(|_| Undelivered::Connect)?;
        exchange(stream, request).await?
    } else {
        exchange(stream, request).await?
    };
    match status {
        200..=299 => Ok(()),
        status if REFUSED.contains(&status) => Err(Undelivered::Refused),
        _ => Err(Undelivered::NotTaken),
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<u16, Undelivered> {
    let made =
        hyper::client::conn::http1::Builder::new().max_buf_size(HEAD).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = made.map_err(|_| Undelivered::Lost)?;
    let driver = tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    driver.abort();
    answer.map(|answer| answer.status().as_u16()).map_err(|_| Undelivered::Lost)
}
