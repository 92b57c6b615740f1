//! A connection to a checked address. Everything that fails in here proves that nothing was sent: no early data, no
//! fast open, no proxy in between, and the request does not exist yet as far as the network is concerned.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{Resolve, is_one_host, is_public};
use super::target::{Host, Target};
use super::wire::{GatedStream, Quiet, Wire};

/// The most addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// The library looks at its limit after each read, and a read is no larger than the limit: of a status line and
/// headers never more than twice this, 64 KiB, are read.
const MAX_HEAD_READ: usize = 32 * 1024;

/// Why there is no connection, in fixed words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name could not be resolved.
    #[error("the host's name could not be resolved")]
    Resolve,
    /// The address may not be reached.
    #[error("the host is at an address that the tool may not reach")]
    Forbidden,
    /// Nobody answers there.
    #[error("the connection was refused or the host could not be reached")]
    Unreachable,
    /// It took too long.
    #[error("no connection within the connect timeout")]
    Timeout,
    /// The handshake failed, or the certificate is not that host's.
    #[error("the TLS handshake failed")]
    Tls,
    /// Certificates of this host could not be read.
    #[error("the host's certificates could not be set up")]
    TlsSetup,
    /// HTTP could not be set up.
    #[error("the connection could not be set up")]
    Handshake,
}

/// A connection that no request was written to yet, or that is ready for another one.
pub(super) struct Lane {
    pub(super) sender: SendRequest<Full<Bytes>>,
    pub(super) wire: Wire,
    driver: JoinHandle<()>,
}

impl Drop for Lane {
    /// The socket goes with the lane, whatever the library is about to do with it.
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Makes connections.
pub(super) struct Connector {
    resolver: Arc<dyn Resolve>,
    tls: tokio::sync::OnceCell<Arc<ClientConfig>>,
    timeout: Duration,
}

impl Connector {
    /// `roots` are the certificates that are trusted; the host's own where `None`.
    pub(super) fn new(
        resolver: Arc<dyn Resolve>,
        roots: Option<RootCertStore>,
        timeout: Duration,
    ) -> Result<Self, rustls::Error> {
        let tls = match roots {
            Some(roots) => tokio::sync::OnceCell::new_with(Some(client_config(roots)?)),
            None => tokio::sync::OnceCell::new(),
        };
        Ok(Self { resolver, tls, timeout })
    }

    /// Resolves, checks, connects, speaks TLS and sets up HTTP, all within the connect timeout.
    pub(super) async fn connect(&self, target: &Target, allow_private: bool) -> Result<Lane, ConnectError> {
        tokio::time::timeout(self.timeout, self.connect_in_time(target, allow_private))
            .await
            .unwrap_or(Err(ConnectError::Timeout))
    }

    async fn connect_in_time(&self, target: &Target, allow_private: bool) -> Result<Lane, ConnectError> {
        let addresses = self.addresses(target, allow_private).await?;
        let stream = self.open(&addresses).await?;
        if !target.tls {
            return lane(stream).await;
        }
        lane(self.handshake(target, stream).await?).await
    }

    /// A connection without TLS, within the connect timeout.
    pub(super) async fn dial(&self, target: &Target, allow_private: bool) -> Result<TcpStream, ConnectError> {
        let dialled = async { self.open(&self.addresses(target, allow_private).await?).await };
        tokio::time::timeout(self.timeout, dialled).await.unwrap_or(Err(ConnectError::Timeout))
    }

    /// TLS over a connection, within the connect timeout.
    pub(super) async fn secure(
        &self,
        target: &Target,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, ConnectError> {
        let secured = self.handshake(target, stream);
        tokio::time::timeout(self.timeout, secured).await.unwrap_or(Err(ConnectError::Timeout))
    }

    async fn handshake(
        &self,
        target: &Target,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, ConnectError> {
        let name = match &target.host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| ConnectError::Tls)?,
            Host::Address(address) => ServerName::IpAddress((*address).into()),
        };
        let config = self.tls.get_or_try_init(native_config).await?;
        let connector = TlsConnector::from(Arc::clone(config));
        connector.connect(name, stream).await.map_err(|_| ConnectError::Tls)
    }

    /// The addresses that may be connected to. A loopback address that the operator wrote as such was meant.
    async fn addresses(&self, target: &Target, allow_private: bool) -> Result<Vec<SocketAddr>, ConnectError> {
        let may = |address: IpAddr| is_one_host(address) && (allow_private || is_public(address));
        match &target.host {
            Host::Address(address) if address.is_loopback() || may(*address) => {
                Ok(vec![SocketAddr::new(*address, target.port)])
            }
            Host::Address(_) => Err(ConnectError::Forbidden),
            Host::Name(name) => {
                let found =
                    self.resolver.resolve(name, target.port).await.map_err(|_| ConnectError::Resolve)?;
                if found.is_empty() {
                    return Err(ConnectError::Resolve);
                }
                let checked = found.into_iter().filter(|address| may(address.ip())).take(MAX_ADDRESSES);
                let checked: Vec<_> =
                    checked.map(|address| SocketAddr::new(address.ip(), target.port)).collect();
                if checked.is_empty() { Err(ConnectError::Forbidden) } else { Ok(checked) }
            }
        }
    }

    /// The first address that answers; each gets its share of the time.
    async fn open(&self, addresses: &[SocketAddr]) -> Result<TcpStream, ConnectError> {
        let share = self.timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = ConnectError::Unreachable;
        for address in addresses {
            match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Only a delay would be lost with it.
                    stream.set_nodelay(true).ok();
                    return Ok(stream);
                }
                Ok(Err(_)) => last = ConnectError::Unreachable,
                Err(_) => last = ConnectError::Timeout,
            }
        }
        Err(last)
    }
}

async fn lane<S>(stream: S) -> Result<Lane, ConnectError>
where
    S: AsyncRead + AsyncWrite + Quiet + Unpin + Send + 'static,
{
    let wire = Wire::new();
    let io = TokioIo::new(GatedStream::new(stream, wire.clone()));
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_READ)
        .handshake(io)
        .await
        .map_err(|_| ConnectError::Handshake)?;
    let driver = tokio::spawn(async move {
        // Its end is seen at the request; what it says proves nothing.
        connection.await.ok();
    });
    Ok(Lane { sender, wire, driver })
}

async fn native_config() -> Result<Arc<ClientConfig>, ConnectError> {
    let loaded = tokio::task::spawn_blocking(|| {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            tracing::warn!("the host has no root certificates: no https destination can be reached");
        }
        client_config(roots)
    });
    loaded.await.map_err(|_| ConnectError::TlsSetup)?.map_err(|_| ConnectError::TlsSetup)
}

/// HTTP/1.1 only, and nothing of the request in the handshake.
fn client_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.enable_early_data = false;
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}
