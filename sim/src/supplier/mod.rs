//! A supplier over HTTP/1.1 with a durable log of its effects, and faults at named places.
//!
//! ```text
//! first byte ─ read ─ RequestRead ─ commit ─ EffectCommitted ─ ReplyReady ─ write ─ ReplySent
//!     │         │         │                                       │           │
//!  CloseBefore  Reset   Status, RetryAfter, Redirect,        SlowReply    ReplyDropped, ReplyReset,
//!  Read         After   RequestLost, HangBeforeEffect        Hang         TruncatedBody, GarbageBody, …
//!               HeadersRead
//! ```
//!
//! `POST /orders` and `POST /tools/NAME` (also PUT, PATCH, DELETE) make one effect each, committed
//! before anything is answered: 201 with `{"id", "status", "client_reference"}`.
//! `GET` on the same path with `?client_reference=` answers `{"orders": […]}`, and `GET /orders/ID`
//! one order. What a repeat does depends on the [`Flavour`].
//!
//! The supplier's time starts at zero, or where its database left off, runs with real time, and can
//! be moved on with [`Supplier::advance`]. Search lag and the retention of keys are measured in it.

mod connection;
mod control;
mod fault;
mod gate;
mod options;
mod orders;
mod request;
mod script;
mod state;
mod store;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use fault::{Fault, Later};
pub use gate::{Gate, Point};
pub use options::{Flavour, SupplierOptions};
pub use request::SeenRequest;
pub use script::{RandomFaults, Target};
pub use store::{Effect, read_effects};

use crate::host::{Host, lock, wait};
use state::State;

/// How long the listener rests when the system refuses it another socket.
const ACCEPT_REST: Duration = Duration::from_millis(20);

/// A supplier on a thread of its own. It stops, with all its connections, when dropped.
///
/// What reads the database ([`Supplier::effects`] and its kin, [`Supplier::forget_keys`]) blocks for
/// the length of one query.
#[derive(Debug)]
pub struct Supplier {
    state: Arc<State>,
    address: SocketAddr,
    host: Host,
}

impl Supplier {
    /// Opens the database and starts to serve.
    ///
    /// # Errors
    /// If the port is taken or the database cannot be opened.
    pub fn start(options: SupplierOptions) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = State::open(options)?;
        let host = Host::start("sim-supplier")?;
        let listener = {
            let _entered = host.handle().enter();
            TcpListener::from_std(listener)?
        };
        host.handle().spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { state, address, host })
    }

    /// The address it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Queues a fault for the next write.
    ///
    /// # Errors
    /// As [`Supplier::fault_on`].
    pub fn fault(&self, fault: Fault) -> io::Result<()> {
        self.fault_on(Target::Writes, fault)
    }

    /// Queues a fault for the next request that fits.
    ///
    /// # Errors
    /// `InvalidInput` if the target depends on text and the fault strikes before it is read.
    pub fn fault_on(&self, target: Target, fault: Fault) -> io::Result<()> {
        lock(&self.state.script).push(target, fault)
    }

    /// Takes back all faults that have not struck yet, the random ones too.
    pub fn clear_faults(&self) {
        lock(&self.state.script).clear();
    }

    /// How many queued faults have not struck yet.
    #[must_use]
    pub fn faults_pending(&self) -> usize {
        lock(&self.state.script).pending()
    }

    /// The faults that struck, with the number of the request; the latest, if there were more than
    /// requests are kept.
    #[must_use]
    pub fn faults_struck(&self) -> Vec<(u64, Fault)> {
        lock(&self.state.seen).faults.iter().cloned().collect()
    }

    /// Holds the next request that fits at that point. Gates and faults combine.
    #[must_use]
    pub fn hold(&self, point: Point, target: Target) -> Gate {
        self.state.gates.hold(self.host.handle(), point, target)
    }

    /// Releases the requests that hang ([`Fault::Hang`], [`Fault::HangBeforeEffect`]) and the
    /// accepted ones that wait for it ([`Later::OnRelease`]). A request hangs, in this sense, from
    /// [`Point::RequestRead`] on, and is accepted when its answer is ready.
    pub fn release(&self) {
        self.state.release();
    }

    /// Waits until that point has been passed (or reached and held) `times` times since the start.
    ///
    /// # Errors
    /// `TimedOut` after 30 seconds.
    pub async fn wait_for(&self, point: Point, times: u64) -> io::Result<()> {
        let mut passed = self.state.gates.passed();
        wait(self.host.handle(), "the supplier did not get there", async move {
            drop(passed.wait_for(|passed| passed.at(point) >= times).await);
        })
        .await
    }

    /// As [`Supplier::wait_for`], from code that is not async.
    ///
    /// # Errors
    /// As [`Supplier::wait_for`].
    pub fn wait_for_blocking(&self, point: Point, times: u64) -> io::Result<()> {
        self.host.handle().block_on(self.wait_for(point, times))
    }

    /// Moves the supplier's time on.
    pub fn advance(&self, by: Duration) {
        self.state.advance(by);
    }

    /// Empties the table of keys, as a supplier does at the end of their retention.
    ///
    /// # Errors
    /// If the database failed.
    pub fn forget_keys(&self) -> io::Result<()> {
        self.state.with_store(|store| store.forget_keys())
    }

    /// Every effect, in order.
    ///
    /// # Errors
    /// If the database failed.
    pub fn effects(&self) -> io::Result<Vec<Effect>> {
        self.state.with_store(|store| store.effects())
    }

    /// How many effects there are.
    ///
    /// # Errors
    /// If the database failed.
    pub fn effect_count(&self) -> io::Result<usize> {
        Ok(self.effects()?.len())
    }

    /// The effects with this key, this reference or exactly this body.
    ///
    /// # Errors
    /// If the database failed.
    pub fn effects_for(&self, what: &str) -> io::Result<Vec<Effect>> {
        let mut effects = self.effects()?;
        effects.retain(|effect| {
            effect.key.as_deref() == Some(what)
                || effect.reference.as_deref() == Some(what)
                || effect.body == what.as_bytes()
        });
        Ok(effects)
    }

    /// The requests seen, in order; the latest ones, if there were more than are kept.
    #[must_use]
    pub fn requests(&self) -> Vec<SeenRequest> {
        lock(&self.state.seen).kept.iter().cloned().collect()
    }

    /// How many requests were seen, lookups included.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        lock(&self.state.seen).total
    }

    /// How many connections were accepted.
    #[must_use]
    pub fn connection_count(&self) -> u64 {
        lock(&self.state.seen).connections
    }
}

/// Serves on `listener` until `shutdown` completes: the supplier as its own process, with its effects
/// in the database file that `options` name. Set [`SupplierOptions::control`] to steer it from outside.
///
/// When it returns, every answered effect is in the file; connections are closed as they are.
///
/// # Errors
/// If the database cannot be opened.
pub async fn run_until(
    listener: TcpListener,
    options: SupplierOptions,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let state = tokio::task::spawn_blocking(|| State::open(options)).await.map_err(io::Error::other)??;
    tokio::select! {
        () = accept(listener, state) => {}
        () = shutdown => {}
    }
    Ok(())
}

/// Accepts for ever. Dropping this future ends every connection.
async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => {
                // Small answers must not wait for an acknowledgement; without it they are only slower.
                drop(stream.set_nodelay(true));
                connections.spawn(connection::serve(Arc::clone(&state), stream));
            }
            Err(_refused) => tokio::time::sleep(ACCEPT_REST).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
