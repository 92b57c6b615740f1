//! One connection through the proxy.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::plan::{Copy, Hold, Limit, Plan, Then};
use super::state::State;
use crate::wire::{Frame, Role, frame};

const PIECE_BYTES: usize = 16 * 1024;
/// A request longer than this is passed on, and not copied.
const COPY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Which way a direction carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Request,
    Reply,
}

/// How a direction ended.
enum End {
    /// The sender said that it has finished.
    Finished,
    Cut(Then),
}

/// What one direction is told to do.
struct Course {
    way: Way,
    connection: usize,
    delay: Duration,
    held: bool,
    limit: Option<Limit>,
    copy: Option<Copy>,
}

/// Carries one connection to its end.
pub(super) async fn relay(state: Arc<State>, mut client: TcpStream, plan: Plan, connection: usize) {
    let Ok(mut server) = TcpStream::connect(state.upstream()).await else {
        // The client sees its connection closed; a destination that is down looks like this.
        return;
    };
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    let request = Course {
        way: Way::Request,
        connection,
        delay: plan.delay_request,
        held: plan.hold == Some(Hold::Request),
        limit: plan.limit_request,
        copy: plan.copy,
    };
    let reply = Course {
        way: Way::Reply,
        connection,
        delay: plan.delay_reply,
        held: plan.hold == Some(Hold::Reply),
        limit: plan.limit_reply,
        copy: plan.copy,
    };
    let reset = {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        let up = carry(&state, request, client_read, server_write);
        let down = carry(&state, reply, server_read, client_write);
        both(up, down).await
    };
    if reset {
        drop((client.set_zero_linger(), server.set_zero_linger()));
    }
}

/// Runs both directions; a cut or an error in either ends both. True if it is to end with a reset.
async fn both(
    up: impl Future<Output = io::Result<End>>,
    down: impl Future<Output = io::Result<End>>,
) -> bool {
    tokio::pin!(up, down);
    let (mut up_open, mut down_open) = (true, true);
    while up_open || down_open {
        let end = tokio::select! {
            end = &mut up, if up_open => { up_open = false; end }
            end = &mut down, if down_open => { down_open = false; end }
        };
        match end {
            Ok(End::Finished) => {}
            Ok(End::Cut(then)) => return then == Then::Reset,
            Err(_broken) => return false,
        }
    }
    false
}

async fn carry(
    state: &Arc<State>,
    course: Course,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> io::Result<End> {
    let mut captured = (course.way == Way::Request && course.copy.is_some()).then(Vec::new);
    let mut piece = vec![0; PIECE_BYTES];
    let mut carried = 0_u64;
    let mut first = true;
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            to.shutdown().await?;
            return Ok(End::Finished);
        }
        if first {
            first = false;
            if course.held {
                state.hold().await;
            }
            if !course.delay.is_zero() {
                tokio::time::sleep(course.delay).await;
            }
        }
        let whole = piece.get(..length).unwrap_or_default();
        let room = course.limit.map_or(u64::MAX, |limit| limit.bytes - carried);
        let passed = whole.get(..usize::try_from(room).unwrap_or(usize::MAX).min(length)).unwrap_or(whole);
        // Counted first: whoever has received a byte finds it in the counters.
        carried += passed.len() as u64;
        state.count(course.connection, course.way, passed.len() as u64);
        to.write_all(passed).await?;
        if let Some(request) = capture(&mut captured, whole) {
            state.copy(course.connection, course.copy, request);
        }
        if course.way == Way::Reply && course.copy == Some(Copy::AfterReply) {
            state.deliver_after_reply(course.connection);
        }
        match course.limit {
            Some(Limit { bytes, then: Then::Swallow }) if carried >= bytes => return swallow(from).await,
            Some(Limit { bytes, then }) if carried >= bytes => return Ok(End::Cut(then)),
            Some(_) | None => {}
        }
    }
}

/// The first whole request, once it is whole.
fn capture(captured: &mut Option<Vec<u8>>, piece: &[u8]) -> Option<Vec<u8>> {
    let bytes = captured.as_mut()?;
    bytes.extend_from_slice(piece);
    match frame(bytes, Role::Request) {
        Ok(Frame::Complete(message)) => {
            let mut request = captured.take()?;
            request.truncate(message.length);
            Some(request)
        }
        Ok(Frame::NeedHead | Frame::NeedBody(_) | Frame::UntilClose(..)) if bytes.len() <= COPY_BYTES_MAX => {
            None
        }
        Ok(_) | Err(_) => {
            *captured = None;
            None
        }
    }
}

/// Takes everything and passes nothing. The other side is not told of the end either.
async fn swallow(mut from: impl AsyncRead + Unpin) -> io::Result<End> {
    let mut piece = vec![0; PIECE_BYTES];
    while from.read(&mut piece).await? > 0 {}
    std::future::pending().await
}
