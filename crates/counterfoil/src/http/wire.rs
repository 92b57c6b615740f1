//! The last thing between the HTTP library and the network: it asks the gate just before the first byte of a request
//! and remembers whether one was handed over. What a failure proves is read from here, never from an error's text.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::destination::Gate;

/// How far the request that a connection is for has got.
enum Progress {
    /// No request: nothing may be written.
    Idle,
    /// A request may begin if the gate lets it; on a connection that was `used` before, only if nothing waits there.
    Armed { gate: Arc<dyn Gate>, used: bool },
    /// Its first byte was handed over, or was about to be.
    Written,
    /// The gate said no; no byte was handed over and none will be.
    Refused(&'static str),
    /// Given up; no byte will be handed over any more.
    Closed { written: bool },
}

/// What became of a request once its connection was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// No byte was handed over, and none ever will be.
    Unwritten,
    /// The gate refused the first byte.
    Refused(&'static str),
    /// A byte may have left.
    Written,
}

/// The progress that the sender and the connection share.
#[derive(Clone)]
pub(super) struct Wire(Arc<Mutex<Progress>>);

impl Wire {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Progress::Idle)))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Progress) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets one request begin, as far as the gate agrees when its first byte comes.
    pub(super) fn arm(&self, gate: Arc<dyn Gate>) {
        self.with(|progress| *progress = Progress::Armed { gate, used: false });
    }

    /// The same on a connection that carried a request before. What came after its answer would be read as the answer
    /// to this one: where anything is there, not a byte is written.
    pub(super) fn arm_again(&self, gate: Arc<dyn Gate>) {
        self.with(|progress| *progress = Progress::Armed { gate, used: true });
    }

    /// The answer was read to its end: the connection may wait for another request.
    pub(super) fn disarm(&self) {
        self.with(|progress| *progress = Progress::Idle);
    }

    /// Whether a byte was handed over, without giving up.
    pub(super) fn is_written(&self) -> bool {
        self.with(|progress| match progress {
            Progress::Written | Progress::Closed { written: true } => true,
            Progress::Idle
            | Progress::Armed { .. }
            | Progress::Refused(_)
            | Progress::Closed { written: false } => false,
        })
    }

    /// Gives up. After this nothing is handed over any more, so what it returns stays true.
    pub(super) fn close(&self) -> Fate {
        self.with(|progress| {
            let fate = match progress {
                Progress::Idle | Progress::Armed { .. } | Progress::Closed { written: false } => {
                    Fate::Unwritten
                }
                Progress::Refused(reason) => Fate::Refused(reason),
                Progress::Written | Progress::Closed { written: true } => Fate::Written,
            };
            if !matches!(progress, Progress::Refused(_)) {
                *progress = Progress::Closed { written: fate == Fate::Written };
            }
            fate
        })
    }

    /// Called with bytes of the request in hand. The mark is set before they are handed over: a process that dies in
    /// between leaves a recorded attempt without a report, which counts as sent.
    fn before_write(&self, quiet: impl FnOnce() -> bool) -> io::Result<()> {
        self.with(|progress| {
            match progress {
                Progress::Written => return Ok(()),
                Progress::Armed { used: true, .. } if !quiet() => {
                    *progress = Progress::Closed { written: false };
                }
                Progress::Armed { gate, .. } => match gate.may_write() {
                    Ok(()) => {
                        *progress = Progress::Written;
                        return Ok(());
                    }
                    Err(reason) => *progress = Progress::Refused(reason),
                },
                Progress::Idle | Progress::Refused(_) | Progress::Closed { .. } => {}
            }
            Err(io::Error::new(io::ErrorKind::BrokenPipe, "nothing may be written"))
        })
    }
}

/// A connection that can be asked for what nobody has read yet.
pub(super) trait Quiet {
    /// Whether nothing waits to be read, and the peer has not closed. Asked of the system itself: what the runtime
    /// was not told of yet counts too.
    fn is_quiet(&self) -> bool;
}

impl Quiet for TcpStream {
    fn is_quiet(&self) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit()];
        let waiting = socket2::SockRef::from(self).peek(&mut byte);
        waiting.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Quiet for TlsStream<TcpStream> {
    fn is_quiet(&self) -> bool {
        self.get_ref().0.is_quiet()
    }
}

/// A connection that hands over nothing without asking. Over TLS it stands above the encryption, so the handshake
/// passes beside it and the first byte it sees is the request's.
pub(super) struct GatedStream<S> {
    inner: S,
    wire: Wire,
}

impl<S> GatedStream<S> {
    pub(super) fn new(inner: S, wire: Wire) -> Self {
        Self { inner, wire }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GatedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Quiet + Unpin> AsyncWrite for GatedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.wire.before_write(|| self.inner.is_quiet())?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        self.wire.before_write(|| self.inner.is_quiet())?;
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
