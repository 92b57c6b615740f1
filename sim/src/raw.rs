//! A listener that records exactly the bytes it was sent, and says what it was told to say.
//!
//! For claims such as "zero bytes reached the destination" and "one request was on the wire".

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::host::{Host, lock, wait};
use crate::wire::{Frame, Role, frame};

const PIECE_BYTES: usize = 16 * 1024;
/// How long the listener rests when the system refuses it another socket.
const ACCEPT_REST: Duration = Duration::from_millis(20);

/// One thing to do on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Reads until one more whole HTTP request is there.
    ReadRequest,
    /// Reads until this many more bytes are there.
    ReadBytes(usize),
    /// Writes these bytes.
    Write(Vec<u8>),
    /// Waits for [`RawListener::release`].
    Hold,
    /// Tells the peer that nothing more will be written, and goes on reading.
    Finish,
    /// Closes.
    Close,
    /// Closes with a reset.
    Reset,
}

/// What came on one connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// Every byte, in order.
    pub bytes: Vec<u8>,
    /// Whether the connection has ended, from whichever side.
    pub ended: bool,
}

impl Received {
    /// How many whole HTTP requests the bytes hold.
    #[must_use]
    pub fn requests(&self) -> usize {
        let mut rest = self.bytes.as_slice();
        let mut requests = 0;
        while let Ok(Frame::Complete(message)) = frame(rest, Role::Request) {
            rest = rest.get(message.length..).unwrap_or_default();
            requests += 1;
        }
        requests
    }
}

#[derive(Debug)]
struct State {
    scripts: Mutex<VecDeque<Vec<Step>>>,
    standing: Mutex<Vec<Step>>,
    received: watch::Sender<Vec<Received>>,
    holds: watch::Sender<u64>,
    releases: watch::Sender<u64>,
}

/// A listener on a thread of its own. It stops, with all its connections, when dropped.
///
/// After its steps a connection is read until the peer closes it.
#[derive(Debug)]
pub struct RawListener {
    state: Arc<State>,
    address: SocketAddr,
    host: Host,
}

impl RawListener {
    /// Listens on a free port, and only reads until told otherwise.
    ///
    /// # Errors
    /// If no port can be opened.
    pub fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let host = Host::start("sim-raw")?;
        let listener = {
            let _entered = host.handle().enter();
            TcpListener::from_std(listener)?
        };
        let state = Arc::new(State {
            scripts: Mutex::default(),
            standing: Mutex::default(),
            received: watch::Sender::new(Vec::new()),
            holds: watch::Sender::new(0),
            releases: watch::Sender::new(0),
        });
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

    /// Queues the steps of the next connection that has none.
    pub fn script(&self, steps: Vec<Step>) {
        lock(&self.state.scripts).push_back(steps);
    }

    /// The steps of every connection without a script of its own.
    pub fn script_for_all(&self, steps: Vec<Step>) {
        *lock(&self.state.standing) = steps;
    }

    /// Lets every connection go on that stands at [`Step::Hold`].
    pub fn release(&self) {
        self.state.releases.send_modify(|releases| *releases += 1);
    }

    /// What came on each connection, in the order in which they were accepted.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.state.received.borrow().clone()
    }

    /// How many bytes came in all.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.state.received.borrow().iter().map(|received| received.bytes.len()).sum()
    }

    /// How many whole HTTP requests came in all.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.state.received.borrow().iter().map(Received::requests).sum()
    }

    /// Waits until what was received is as wanted, and returns it.
    ///
    /// # Errors
    /// `TimedOut` after 30 seconds.
    pub async fn wait_until(
        &self,
        mut wanted: impl FnMut(&[Received]) -> bool + Send + 'static,
    ) -> io::Result<Vec<Received>> {
        let mut received = self.state.received.subscribe();
        let seen = wait(self.host.handle(), "the bytes did not come", async move {
            received.wait_for(|received| wanted(received)).await.map(|received| received.clone())
        })
        .await?;
        seen.map_err(|_stopped| io::ErrorKind::NotConnected.into())
    }

    /// Waits until connections have stood at [`Step::Hold`] `times` times since the start.
    ///
    /// # Errors
    /// `TimedOut` after 30 seconds.
    pub async fn wait_for_holds(&self, times: u64) -> io::Result<()> {
        let mut holds = self.state.holds.subscribe();
        wait(self.host.handle(), "nothing was held", async move {
            drop(holds.wait_for(|holds| *holds >= times).await);
        })
        .await
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        let mut number = 0;
        state.received.send_modify(|received| {
            number = received.len();
            received.push(Received::default());
        });
        let scripted = lock(&state.scripts).pop_front();
        let steps = scripted.unwrap_or_else(|| lock(&state.standing).clone());
        connections.spawn(serve(Arc::clone(&state), stream, steps, number));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(state: Arc<State>, stream: TcpStream, steps: Vec<Step>, number: usize) {
    // How it ended is what the peer did; the bytes until then are recorded.
    drop(Connection { state: &state, stream, number, unread: Vec::new() }.run(steps).await);
    state.received.send_modify(|received| {
        if let Some(received) = received.get_mut(number) {
            received.ended = true;
        }
    });
}

struct Connection<'a> {
    state: &'a State,
    stream: TcpStream,
    number: usize,
    /// Received bytes that no step has used up.
    unread: Vec<u8>,
}

impl Connection<'_> {
    async fn run(mut self, steps: Vec<Step>) -> io::Result<()> {
        for step in steps {
            match step {
                Step::ReadRequest => self.read_request().await?,
                Step::ReadBytes(bytes) => {
                    while self.unread.len() < bytes {
                        self.read_some().await?;
                    }
                    self.unread.drain(..bytes);
                }
                Step::Write(bytes) => self.stream.write_all(&bytes).await?,
                Step::Hold => self.hold().await,
                Step::Finish => self.stream.shutdown().await?,
                Step::Close => return Ok(()),
                Step::Reset => return self.stream.set_zero_linger(),
            }
        }
        loop {
            self.read_some().await?;
        }
    }

    async fn read_request(&mut self) -> io::Result<()> {
        loop {
            if let Frame::Complete(message) = frame(&self.unread, Role::Request)? {
                self.unread.drain(..message.length);
                return Ok(());
            }
            self.read_some().await?;
        }
    }

    async fn read_some(&mut self) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        let length = self.stream.read(&mut piece).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        piece.truncate(length);
        self.unread.extend_from_slice(&piece);
        let number = self.number;
        self.state.received.send_modify(|received| {
            if let Some(received) = received.get_mut(number) {
                received.bytes.extend_from_slice(&piece);
            }
        });
        Ok(())
    }

    async fn hold(&self) {
        let mut releases = self.state.releases.subscribe();
        self.state.holds.send_modify(|holds| *holds += 1);
        // An error means that the listener is being dropped.
        drop(releases.changed().await);
    }
}
