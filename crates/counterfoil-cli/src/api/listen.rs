//! Sockets and connections: accepted up to a number, served over HTTP/1.1, ended gracefully.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{App, Peer};
use crate::config::Listen;

/// Connections at once; further ones wait in the system's queue.
const CONNECTIONS: usize = 4_096;

/// How long a request's head may take to arrive, and how long a connection may stay idle.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// Bytes of a request's head.
const HEAD_BYTES: usize = 32 * 1024;

/// How long after an error of the system (no file descriptors, say) the next connection is taken.
const BREATH: Duration = Duration::from_millis(50);

/// A socket that takes connections.
pub enum Socket {
    /// Of the network.
    Tcp(TcpListener),
    /// In the file system; the file goes away with it.
    Unix(UnixListener, SocketFile),
}

/// A socket's file.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that is gone already is as good as removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Socket {
    /// Listens.
    ///
    /// # Errors
    /// The address is taken or not this host's.
    pub async fn bind(listen: &Listen) -> std::io::Result<Self> {
        match listen {
            Listen::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            Listen::Unix(path) => bind_unix(path),
        }
    }

    /// A listener that somebody else bound.
    ///
    /// # Errors
    /// The system refuses.
    pub fn of(listener: std::net::TcpListener) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(TcpListener::from_std(listener)?))
    }

    /// Where it listens, as a client writes it.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("http://{address}"),
                Err(_) => "http://unknown".to_owned(),
            },
            Self::Unix(_, SocketFile(path)) => format!("unix:{}", path.display()),
        }
    }
}

/// Only the file's owner may connect, from the first instant on: the socket gets its name after its permissions.
fn bind_unix(path: &Path) -> std::io::Result<Socket> {
    use std::os::unix::fs::PermissionsExt as _;
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(std::io::ErrorKind::AddrInUse.into());
    }
    let mut nameless = path.as_os_str().to_owned();
    nameless.push(format!(".{}", std::process::id()));
    let nameless = PathBuf::from(nameless);
    let listener = UnixListener::bind(&nameless)?;
    let file = SocketFile(nameless.clone());
    std::fs::set_permissions(&nameless, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&nameless, path)?;
    drop(file);
    Ok(Socket::Unix(listener, SocketFile(path.to_owned())))
}

/// Whether only this host can reach the address.
#[must_use]
pub fn is_local(listen: &Listen) -> bool {
    match listen {
        Listen::Tcp(address) => address.ip().is_loopback(),
        Listen::Unix(_) => true,
    }
}

/// Serves the `routes` of `app` until `stop`, then finishes the calls that run, at most for `patience`.
pub async fn serve(socket: Socket, app: App, routes: Router, stop: CancellationToken, patience: Duration) {
    let server = Server { app, routes, stop: stop.clone(), connections: TaskTracker::new() };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = match places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                server.app.metrics().refuse();
                tokio::select! {
                    place = places.clone().acquire_owned() => match place {
                        Ok(place) => place,
                        Err(_) => break,
                    },
                    () = stop.cancelled() => break,
                }
            }
        };
        let accepted = tokio::select! {
            accepted = server.accept(&socket) => accepted,
            () = stop.cancelled() => break,
        };
        if accepted(place).is_err() {
            tokio::time::sleep(BREATH).await;
        }
    }
    drop(socket);
    server.connections.close();
    if tokio::time::timeout(patience, server.connections.wait()).await.is_err() {
        tracing::warn!(connections = server.connections.len(), "connections did not end in time");
    }
}

struct Server {
    app: App,
    routes: Router,
    stop: CancellationToken,
    connections: TaskTracker,
}

type Place = tokio::sync::OwnedSemaphorePermit;

impl Server {
    /// The next connection; what is returned serves it in a task of its own.
    async fn accept(&self, socket: &Socket) -> Box<dyn FnOnce(Place) -> std::io::Result<()> + Send + '_> {
        match socket {
            Socket::Tcp(listener) => {
                let accepted = listener.accept().await;
                Box::new(move |place| {
                    let (stream, address): (_, SocketAddr) = accepted?;
                    // Answers are small and complete: they must not wait for more.
                    stream.set_nodelay(true)?;
                    self.spawn(stream, Some(address.ip()), place);
                    Ok(())
                })
            }
            Socket::Unix(listener, _) => {
                let accepted = listener.accept().await;
                Box::new(move |place| {
                    self.spawn(accepted?.0, None, place);
                    Ok(())
                })
            }
        }
    }

    fn spawn<S>(&self, stream: S, address: Option<IpAddr>, place: Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (app, stop) = (self.app.clone(), self.stop.clone());
        let routes = TowerToHyperService::new(self.routes.clone());
        self.connections.spawn(async move {
            let open = app.metrics().connect();
            let peer = Peer(address.map(|address| address.to_canonical()));
            let service = service_fn(move |request: Request<Incoming>| {
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(peer);
                routes.call(request)
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(open);
            drop(place);
        });
    }
}
