//! One connection: reads requests, and strikes them with the faults meant for them.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::control;
use super::fault::{Fault, Stage};
use super::gate::Point;
use super::orders;
use super::request::SeenRequest;
use super::state::State;
use crate::host::lock;
use crate::wire::{Frame, Head, Message, Reply, Role, frame};

/// Enough of a request line to tell a lookup from a write and the control paths from the rest.
const GLANCE_BYTES: usize = 32;
/// A huge body is written in pieces of this many bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// What becomes of the connection.
enum Next {
    Keep,
    Close,
}

struct Connection {
    state: Arc<State>,
    stream: TcpStream,
    buffer: Vec<u8>,
    number: u64,
}

/// Serves a connection to its end. How it ended interests the client only.
pub(super) async fn serve(state: Arc<State>, stream: TcpStream) {
    let number = {
        let mut seen = lock(&state.seen);
        seen.connections += 1;
        seen.connections
    };
    let mut connection = Connection { state, stream, buffer: Vec::new(), number };
    while let Ok(Next::Keep) = connection.one_request().await {}
}

impl Connection {
    async fn one_request(&mut self) -> io::Result<Next> {
        let glance = self.glance().await?;
        if glance.is_empty() {
            return Ok(Next::Close);
        }
        if self.state.options.control && control::is_for(&glance) {
            return self.control().await;
        }
        let lookup = glance.starts_with(b"G") || glance.starts_with(b"H");
        let number = self.arrive();
        if let Some(fault) = self.take_early(Stage::BeforeRead, number, lookup) {
            self.state.struck(number, &fault);
            return Ok(Next::Close);
        }
        let head = self.read_head().await?;
        if let Some(fault) = self.take_early(Stage::HeadRead, number, lookup) {
            self.state.struck(number, &fault);
            self.state.record(self.seen(number, head, Vec::new(), false, Some(fault)));
            return self.reset();
        }
        let message = self.read_message().await?;
        let mut request = self.seen(number, message.head, message.body, true, None);
        request.fault = lock(&self.state.script).take(&request);
        if let Some(fault) = &request.fault {
            self.state.struck(number, fault);
        }
        self.state.record(request.clone());
        self.answer(request).await
    }

    /// The number of a request that is arriving.
    fn arrive(&self) -> u64 {
        let mut seen = lock(&self.state.seen);
        seen.arrived += 1;
        seen.arrived
    }

    fn take_early(&self, stage: Stage, number: u64, lookup: bool) -> Option<Fault> {
        lock(&self.state.script).take_early(stage, number, lookup)
    }

    /// The first bytes of the next request, left where they are; none at the end of the connection.
    async fn glance(&mut self) -> io::Result<Vec<u8>> {
        if !self.buffer.is_empty() {
            return Ok(self.buffer.iter().copied().take(GLANCE_BYTES).collect());
        }
        let mut glance = [0; GLANCE_BYTES];
        let length = self.stream.peek(&mut glance).await?;
        Ok(glance.iter().copied().take(length).collect())
    }

    async fn read_head(&mut self) -> io::Result<Head> {
        loop {
            match frame(&self.buffer, Role::Request)? {
                Frame::NeedHead => self.read_some().await?,
                Frame::NeedBody(head) | Frame::UntilClose(head, _) => return Ok(head),
                Frame::Complete(message) => return Ok(message.head),
            }
        }
    }

    async fn read_message(&mut self) -> io::Result<Message> {
        let mut asked = false;
        loop {
            match frame(&self.buffer, Role::Request)? {
                Frame::Complete(message) => {
                    self.buffer.drain(..message.length);
                    return Ok(message);
                }
                Frame::NeedBody(head) if !asked && head.header("expect").is_some() => {
                    asked = true;
                    self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                }
                Frame::NeedHead | Frame::NeedBody(_) | Frame::UntilClose(..) => self.read_some().await?,
            }
        }
    }

    async fn read_some(&mut self) -> io::Result<()> {
        self.buffer.reserve(PIECE_BYTES);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn seen(
        &self,
        number: u64,
        head: Head,
        body: Vec<u8>,
        complete: bool,
        fault: Option<Fault>,
    ) -> SeenRequest {
        let mut words = head.start.split(' ');
        SeenRequest {
            number,
            connection: self.number,
            method: words.next().unwrap_or_default().to_owned(),
            target: words.next().unwrap_or_default().to_owned(),
            headers: head.headers,
            body,
            complete,
            at: self.state.now(),
            fault,
        }
    }

    async fn control(&mut self) -> io::Result<Next> {
        let message = self.read_message().await?;
        let request = self.seen(0, message.head, message.body, true, None);
        let reply = control::answer(&self.state, &request).await;
        self.stream.write_all(&reply.to_bytes()).await?;
        Ok(Next::Keep)
    }

    async fn answer(&mut self, request: SeenRequest) -> io::Result<Next> {
        let state = Arc::clone(&self.state);
        // From before the first place that can be waited for: a release after it is never missed.
        let mut releases = state.releases.subscribe();
        state.gates.pass(Point::RequestRead, &request).await;
        match &request.fault {
            Some(Fault::RequestLost) => return Ok(Next::Close),
            // An error means that the supplier is being dropped.
            Some(Fault::HangBeforeEffect) => drop(releases.changed().await),
            Some(_) | None => {}
        }
        // From here on a failing supplier must not look like one that did nothing: it closes.
        let reply = orders::carry_out(&state, &request).await?;
        if request.fault == Some(Fault::DeliveredTwice) {
            self.deliver_copy(&request).await?;
        }
        match &request.fault {
            Some(Fault::Hang) => drop(releases.changed().await),
            Some(Fault::SlowReply(time)) => tokio::time::sleep(*time).await,
            Some(_) | None => {}
        }
        state.gates.pass(Point::ReplyReady, &request).await;
        let next = self.send(&request, reply).await?;
        state.gates.pass(Point::ReplySent, &request).await;
        Ok(next)
    }

    /// Carries the request out once more. Nobody hears the answer.
    async fn deliver_copy(&self, request: &SeenRequest) -> io::Result<()> {
        let number = self.arrive();
        let copy = SeenRequest { number, at: self.state.now(), fault: None, ..request.clone() };
        self.state.record(copy.clone());
        orders::carry_out(&self.state, &copy).await.map(drop)
    }

    async fn send(&mut self, request: &SeenRequest, mut reply: Reply) -> io::Result<Next> {
        if request.method == "HEAD" {
            reply.body.clear();
        }
        match &request.fault {
            Some(Fault::ReplyDropped) => return Ok(Next::Close),
            Some(Fault::ReplyReset) => return self.reset(),
            Some(Fault::TruncatedBody) => {
                let mut bytes = reply.head_bytes(reply.body.len());
                bytes.extend(reply.body.iter().take(reply.body.len() / 2));
                self.stream.write_all(&bytes).await?;
                return Ok(Next::Close);
            }
            Some(Fault::HugeBody(bytes)) => return self.send_huge(&reply, *bytes).await,
            Some(Fault::GarbageBody) => reply.body = b"{\"id\": \xff\xfe\x00 \"po_".to_vec(),
            Some(Fault::WrongContentType) => {
                reply.headers = vec![("Content-Type".to_owned(), "text/html".to_owned())];
                reply.body = b"<html><body>Please sign in to the network.</body></html>".to_vec();
            }
            Some(Fault::EmptyBody) => reply.body.clear(),
            Some(Fault::NoContent204) => reply = Reply { status: 204, headers: Vec::new(), body: Vec::new() },
            Some(_) | None => {}
        }
        self.stream.write_all(&reply.to_bytes()).await?;
        let asked = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if asked || request.fault == Some(Fault::CloseAfterReply) { Ok(Next::Close) } else { Ok(Next::Keep) }
    }

    /// A JSON object that is exactly `length` bytes long (at least the empty one), without ever
    /// being in memory as a whole.
    async fn send_huge(&mut self, reply: &Reply, length: u64) -> io::Result<Next> {
        const OPEN: &[u8] = b"{\"filler\":\"";
        const CLOSE: &[u8] = b"\"}";
        let frame = (OPEN.len() + CLOSE.len()) as u64;
        let mut filler = length.saturating_sub(frame);
        let announced = usize::try_from(filler + frame).map_err(io::Error::other)?;
        self.stream.write_all(&reply.head_bytes(announced)).await?;
        self.stream.write_all(OPEN).await?;
        let piece = vec![b'x'; PIECE_BYTES];
        while filler > 0 {
            let take = usize::try_from(filler).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            self.stream.write_all(piece.get(..take).unwrap_or(&piece)).await?;
            filler -= take as u64;
        }
        self.stream.write_all(CLOSE).await?;
        Ok(Next::Keep)
    }

    /// The connection ends with a reset in place of an orderly close.
    fn reset(&self) -> io::Result<Next> {
        self.stream.set_zero_linger()?;
        Ok(Next::Close)
    }
}
