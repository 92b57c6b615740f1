//! Connections for whoever speaks to the outside without being a destination: under the same rules for addresses and
//! certificates.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::address::SystemResolver;
use super::connect::{ConnectError, Connector};
use super::target::Target;

/// Makes connections to checked addresses.
pub struct Dialer {
    connector: Connector,
}

impl Dialer {
    /// As the host resolves and trusts; connecting may take this long.
    ///
    /// # Errors
    /// Where TLS cannot be set up at all.
    pub fn new(timeout: Duration) -> Result<Self, rustls::Error> {
        Ok(Self { connector: Connector::new(Arc::new(SystemResolver), None, timeout)? })
    }

    /// A connection without TLS to an address that may be reached: a public one, one that was written as loopback, or
    /// any where `allow_private`.
    ///
    /// # Errors
    /// As [`ConnectError`] lists.
    pub async fn plain(&self, target: &Target, allow_private: bool) -> Result<TcpStream, ConnectError> {
        self.connector.dial(target, allow_private).await
    }

    /// TLS over a connection, with the host's name checked against its certificate.
    ///
    /// # Errors
    /// As [`ConnectError`] lists.
    pub async fn tls(
        &self,
        target: &Target,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, ConnectError> {
        self.connector.secure(target, stream).await
    }
}
