//! What the connections of one proxy share.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::plan::{Copy, Plan};
use super::relay::Way;
use crate::host::lock;
use crate::wire::{Reply, read_reply};

/// What went through one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes passed on to the server, copies not counted.
    pub request_bytes: u64,
    /// Bytes passed back to the client.
    pub reply_bytes: u64,
}

/// A request to be delivered a second time.
struct Kept {
    connection: usize,
    when: Copy,
    request: Vec<u8>,
}

/// Counters that can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) held: u64,
    pub(super) kept: u64,
    pub(super) delivered: u64,
}

pub(super) struct State {
    upstream: Mutex<SocketAddr>,
    plans: Mutex<VecDeque<Plan>>,
    standing: Mutex<Plan>,
    traffic: Mutex<Vec<Traffic>>,
    kept: Mutex<Vec<Kept>>,
    replies: Mutex<Vec<io::Result<Reply>>>,
    pub(super) counts: watch::Sender<Counts>,
    releases: watch::Sender<u64>,
    handle: Handle,
}

impl State {
    pub(super) fn new(upstream: SocketAddr, handle: Handle) -> Arc<Self> {
        Arc::new(Self {
            upstream: Mutex::new(upstream),
            plans: Mutex::default(),
            standing: Mutex::default(),
            traffic: Mutex::default(),
            kept: Mutex::default(),
            replies: Mutex::default(),
            counts: watch::Sender::new(Counts::default()),
            releases: watch::Sender::new(0),
            handle,
        })
    }

    pub(super) fn upstream(&self) -> SocketAddr {
        *lock(&self.upstream)
    }

    pub(super) fn set_upstream(&self, upstream: SocketAddr) {
        *lock(&self.upstream) = upstream;
    }

    pub(super) fn push_plan(&self, plan: Plan) {
        lock(&self.plans).push_back(plan);
    }

    pub(super) fn set_standing(&self, plan: Plan) {
        *lock(&self.standing) = plan;
    }

    /// Numbers a new connection and says what is to happen to it.
    pub(super) fn open(&self) -> (usize, Plan) {
        let number = {
            let mut traffic = lock(&self.traffic);
            traffic.push(Traffic::default());
            traffic.len() - 1
        };
        let scripted = lock(&self.plans).pop_front();
        (number, scripted.unwrap_or_else(|| lock(&self.standing).clone()))
    }

    pub(super) fn traffic(&self) -> Vec<Traffic> {
        lock(&self.traffic).clone()
    }

    pub(super) fn count(&self, connection: usize, way: Way, bytes: u64) {
        if let Some(traffic) = lock(&self.traffic).get_mut(connection) {
            match way {
                Way::Request => traffic.request_bytes += bytes,
                Way::Reply => traffic.reply_bytes += bytes,
            }
        }
    }

    /// Waits for the next release.
    pub(super) async fn hold(&self) {
        let mut releases = self.releases.subscribe();
        self.counts.send_modify(|counts| counts.held += 1);
        // An error means that the proxy is being dropped.
        drop(releases.changed().await);
    }

    pub(super) fn release(&self) {
        self.releases.send_modify(|releases| *releases += 1);
    }

    pub(super) fn copy(self: &Arc<Self>, connection: usize, when: Option<Copy>, request: Vec<u8>) {
        match when {
            None => {}
            Some(Copy::AtOnce) => self.deliver(request),
            Some(when @ (Copy::AfterReply | Copy::Kept)) => {
                lock(&self.kept).push(Kept { connection, when, request });
                self.counts.send_modify(|counts| counts.kept += 1);
            }
        }
    }

    pub(super) fn deliver_after_reply(self: &Arc<Self>, connection: usize) {
        self.deliver_kept(|kept| kept.when == Copy::AfterReply && kept.connection == connection);
    }

    /// Sends the copies that were kept; returns how many.
    pub(super) fn deliver_all(self: &Arc<Self>) -> u64 {
        self.deliver_kept(|kept| kept.when == Copy::Kept)
    }

    fn deliver_kept(self: &Arc<Self>, which: impl Fn(&Kept) -> bool) -> u64 {
        let due: Vec<Kept> = lock(&self.kept).extract_if(.., |kept| which(kept)).collect();
        let number = due.len() as u64;
        for kept in due {
            self.deliver(kept.request);
        }
        number
    }

    fn deliver(self: &Arc<Self>, request: Vec<u8>) {
        let state = Arc::clone(self);
        self.handle.spawn(async move {
            let reply = send(state.upstream(), &request).await;
            lock(&state.replies).push(reply);
            state.counts.send_modify(|counts| counts.delivered += 1);
        });
    }

    /// The status of the answer to each copy; `None` where there was no answer.
    pub(super) fn copy_statuses(&self) -> Vec<Option<u16>> {
        lock(&self.replies).iter().map(|reply| reply.as_ref().ok().map(|reply| reply.status)).collect()
    }
}

async fn send(upstream: SocketAddr, request: &[u8]) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(upstream).await?;
    stream.write_all(request).await?;
    read_reply(&mut stream).await
}
