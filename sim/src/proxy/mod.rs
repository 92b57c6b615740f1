//! A TCP proxy that cuts, holds, delays and repeats, scripted per connection.
//!
//! It knows nothing of HTTP except where a request ends, which it needs to deliver one twice.

mod plan;
mod relay;
mod state;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub use plan::{Copy, Hold, Limit, Plan, Then};
pub use state::Traffic;

use crate::host::{Host, lock, wait};
use state::State;

/// How long closing the port may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
const ACCEPT_REST: Duration = Duration::from_millis(20);

/// An open port.
struct Open {
    close: oneshot::Sender<Close>,
    closed: mpsc::Receiver<()>,
}

/// What becomes of the connections when the port closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Close {
    KeepConnections,
    CutConnections,
}

/// A proxy on a thread of its own. It stops, with all its connections, when dropped.
pub struct Proxy {
    state: Arc<State>,
    address: SocketAddr,
    open: Mutex<Option<Open>>,
    host: Host,
}

impl Proxy {
    /// Listens on a free port and passes everything to `upstream`.
    ///
    /// # Errors
    /// If no port can be opened.
    pub fn start(upstream: SocketAddr) -> io::Result<Self> {
        let host = Host::start("sim-proxy")?;
        let state = State::new(upstream, host.handle().clone());
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let proxy = Self { state, address, open: Mutex::new(None), host };
        proxy.listen(listener)?;
        Ok(proxy)
    }

    /// The address that clients connect to. It stays the same over [`Proxy::refuse`] and
    /// [`Proxy::reopen`].
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends new connections elsewhere.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.state.set_upstream(upstream);
    }

    /// Queues a plan for the next connection that nothing is planned for.
    pub fn plan(&self, plan: Plan) {
        self.state.push_plan(plan);
    }

    /// The plan for every connection without one of its own.
    pub fn plan_for_all(&self, plan: Plan) {
        self.state.set_standing(plan);
    }

    /// Closes the port: connecting is refused from now on. Open connections go on.
    ///
    /// # Errors
    /// If the port did not close in time.
    pub fn refuse(&self) -> io::Result<()> {
        self.close(Close::KeepConnections)
    }

    /// Closes the port and all connections.
    ///
    /// # Errors
    /// If the port did not close in time.
    pub fn cut(&self) -> io::Result<()> {
        self.close(Close::CutConnections)
    }

    fn close(&self, how: Close) -> io::Result<()> {
        let Some(open) = lock(&self.open).take() else { return Ok(()) };
        // An error means that the task has ended, and the port is closed.
        open.close.send(how).ok();
        match open.closed.recv_timeout(CLOSE_LIMIT) {
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Opens the same port again. Does nothing while it is open.
    ///
    /// # Errors
    /// If somebody else took the port meanwhile.
    pub fn reopen(&self) -> io::Result<()> {
        if lock(&self.open).is_some() {
            return Ok(());
        }
        self.listen(std::net::TcpListener::bind(self.address)?)
    }

    fn listen(&self, listener: std::net::TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = {
            let _entered = self.host.handle().enter();
            TcpListener::from_std(listener)?
        };
        let (close, closing) = oneshot::channel();
        let (tell, closed) = mpsc::channel();
        *lock(&self.open) = Some(Open { close, closed });
        self.host.handle().spawn(accept(Arc::clone(&self.state), listener, closing, tell));
        Ok(())
    }

    /// Releases every connection that is held.
    pub fn release(&self) {
        self.state.release();
    }

    /// Waits until connections have been held `times` times since the start.
    ///
    /// # Errors
    /// `TimedOut` after 30 seconds.
    pub async fn wait_for_held(&self, times: u64) -> io::Result<()> {
        let mut counts = self.state.counts.subscribe();
        wait(self.host.handle(), "nothing was held", async move {
            drop(counts.wait_for(|counts| counts.held >= times).await);
        })
        .await
    }

    /// Waits until `times` whole requests have been kept for a second delivery since the start.
    ///
    /// # Errors
    /// `TimedOut` after 30 seconds.
    pub async fn wait_for_kept(&self, times: u64) -> io::Result<()> {
        let mut counts = self.state.counts.subscribe();
        wait(self.host.handle(), "nothing was kept", async move {
            drop(counts.wait_for(|counts| counts.kept >= times).await);
        })
        .await
    }

    /// Sends the copies of [`Copy::Kept`] and returns how many there were.
    pub fn deliver_copies(&self) -> u64 {
        self.state.deliver_all()
    }

    /// Waits until `times` copies have been delivered and answered (or failed) since the start.
    ///
    /// # Errors
    /// `TimedOut` after 30 seconds.
    pub async fn wait_for_copies(&self, times: u64) -> io::Result<()> {
        let mut counts = self.state.counts.subscribe();
        wait(self.host.handle(), "the copy was not answered", async move {
            drop(counts.wait_for(|counts| counts.delivered >= times).await);
        })
        .await
    }

    /// The status that answered each copy; `None` where no answer came.
    #[must_use]
    pub fn copy_statuses(&self) -> Vec<Option<u16>> {
        self.state.copy_statuses()
    }

    /// What went through each connection, in the order in which they were accepted.
    #[must_use]
    pub fn traffic(&self) -> Vec<Traffic> {
        self.state.traffic()
    }

    /// How many connections were accepted.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.state.traffic().len()
    }
}

/// Accepts until told to close. Dropping this future, as the end of the runtime does, ends all.
async fn accept(
    state: Arc<State>,
    listener: TcpListener,
    mut closing: oneshot::Receiver<Close>,
    closed: mpsc::Sender<()>,
) {
    let mut connections = JoinSet::new();
    let how = loop {
        tokio::select! {
            biased;
            how = &mut closing => break how.unwrap_or(Close::CutConnections),
            accepted = listener.accept() => match accepted {
                Ok((client, _peer)) => {
                    let (number, plan) = state.open();
                    connections.spawn(relay::relay(Arc::clone(&state), client, plan, number));
                }
                Err(_refused) => tokio::time::sleep(ACCEPT_REST).await,
            },
        }
        while connections.try_join_next().is_some() {}
    };
    drop(listener);
    if how == Close::CutConnections {
        connections.shutdown().await;
    }
    // The receiver has gone if closing took too long; it knows.
    closed.send(()).ok();
    while connections.join_next().await.is_some() {}
}
