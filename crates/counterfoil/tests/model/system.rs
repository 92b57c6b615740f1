//! One instant of the whole system: ledger, two workers, the wire, the destination. Small and plain, so that millions
//! of them can be told apart.

/// What a worker learned about its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Found {
    /// Accepted, with a reference.
    Success,
    /// Refused as such.
    Refused,
    /// A gateway failed.
    BadGateway,
    /// Refused before work.
    Throttled,
    /// Accepted, not done.
    Pending,
    /// The reference is already used.
    Duplicate,
    /// Refused because the request is too old.
    Stale,
    /// No byte went out.
    NotSent,
    /// No answer.
    Nothing,
}

/// What one worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Worker {
    /// Nothing.
    Idle,
    /// Its attempt is recorded; nothing was sent.
    Ready(Job),
    /// It decided to send and has recorded nothing yet (only under a wrong rule).
    Sneaking(Job),
    /// It sent and has recorded nothing yet (only under a wrong rule).
    Sneaked(Job),
    /// It sent and waits; callers may have been told that there is no answer yet.
    Waiting(Job, bool),
    /// It knows something that is not recorded.
    Knows(Job, Found),
    /// It asks the destination; the question began at this instant, under this fencing token.
    Looking(u8, u8, u8),
    /// It has the answer.
    Saw(u8, u8, u8, bool),
    /// Its effect is committed, its receipt is not (only under a wrong rule).
    HalfDone(u8),
}

/// One attempt in a worker's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Job {
    /// Which operation.
    pub(crate) op: u8,
    /// Which attempt.
    pub(crate) number: u8,
    /// Its fencing token.
    pub(crate) fence: u8,
    /// No first byte after this instant.
    pub(crate) send_before: u8,
}

/// A request on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Packet {
    /// What it carries out.
    pub(crate) job: Job,
    /// When its first byte went out.
    pub(crate) sent: u8,
}

/// What the destination holds about one operation's key or reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shelf {
    /// How often it took effect.
    pub(crate) effects: u8,
    /// Accepted and not yet visible, since when.
    pub(crate) queued: Option<u8>,
    /// The first arrival that it remembers, and whether that was refused.
    pub(crate) memory: Option<(u8, bool)>,
}

/// The whole system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct System {
    /// Store time, in ticks.
    pub(crate) now: u8,
    /// The operations, as places in the book; 0 is none, or none yet.
    pub(crate) ops: [u32; 2],
    /// Two workers that are alike.
    pub(crate) workers: [Worker; 2],
    /// Requests under way.
    pub(crate) wire: [Option<Packet>; 3],
    /// The destination.
    pub(crate) shelves: [Shelf; 2],
    /// How many workers may still die.
    pub(crate) crashes: u8,
    /// How many copies the network may still make.
    pub(crate) copies: u8,
    /// What a person last read: which operation was absent, when they began to look.
    pub(crate) person: Option<(u8, u8)>,
    /// The second operation began while the first one was open, or the other way round.
    pub(crate) overlapped: bool,
}

impl System {
    /// The same system with what is alike in a fixed order.
    pub(crate) fn canonical(mut self) -> Self {
        self.workers.sort_unstable();
        self.wire.sort_unstable();
        self
    }

    /// The first worker that does nothing.
    pub(crate) fn idle(&self) -> Option<usize> {
        self.workers.iter().position(|worker| *worker == Worker::Idle)
    }

    /// Puts a request on the wire, if there is room.
    pub(crate) fn put(&mut self, packet: Packet) -> bool {
        match self.wire.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(packet);
                true
            }
            None => false,
        }
    }
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A tick of time.
    Time,
    /// The second operation takes the place of the first.
    Replace,
    /// The second one is taken back before it starts.
    Withdraw,
    /// A worker asks to start an operation.
    Start(u8),
    /// A worker writes its first byte.
    Send(u8),
    /// A worker stops before its first byte.
    GiveUp(u8),
    /// A worker waits no longer.
    Timeout(u8),
    /// A worker tells its callers that there is no answer yet, and reads on.
    Linger(u8),
    /// A worker reports what it knows.
    Report(u8),
    /// A worker records what it has already sent.
    RecordLate(u8),
    /// A worker dies.
    Crash(u8),
    /// The network copies a request.
    Copy(u8),
    /// A request arrives: what the destination does and answers.
    Deliver(u8, Found, bool),
    /// What was accepted becomes visible.
    Apply(u8),
    /// A worker begins to ask.
    Look(u8),
    /// The destination answers.
    Read(u8),
    /// A worker uses the answer.
    UseLook(u8),
    /// A person looks and finds nothing.
    PersonLooks(u8),
    /// A person says that it did not happen.
    PersonDecides,
    /// A caller comes back after the receipt's retention.
    LateRetry(u8),
    /// Effect and receipt in one transaction.
    Transact(u8),
    /// The second of two transactions.
    SecondTransaction(u8),
}
