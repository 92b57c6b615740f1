//! What happens when: the only clock of the simulated world.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use counterfoil::caller::Caller;
use counterfoil::destination::{Finding, LookedUp};
use counterfoil::verbs::{Question, Verdict};

use super::notices::Notice;
use super::site::{Packet, Reply};
use super::worker::Step;

/// Milliseconds of true time since the episode began.
pub(super) type Instant = i64;

/// Which operation, by its place in the episode.
pub(super) type Op = usize;

/// One thing that happens.
#[derive(Debug)]
pub(super) enum Event {
    /// A caller does something.
    Caller(Op, Act),
    /// A node goes on with something, unless it died meanwhile.
    Node(usize, u32, Work),
    /// A worker of the application goes on with something, unless it died meanwhile.
    Worker(usize, u32, Step),
    /// A worker starts again.
    WorkerStarts(usize),
    /// The workers' queue holds an operation.
    Offered(Op),
    /// A webhook arrives.
    Notified(Box<Notice>),
    /// A request reaches its destination.
    Arrives(Box<Packet>),
    /// What was accepted takes effect.
    Applies(Box<Packet>),
    /// A look-up reaches its destination.
    Asked(Box<Asking>),
    /// Something may be due to an operation.
    Due(Op),
    /// The auditor looks whether a person was asked in time.
    Check(Op),
    /// An approver looks at an operation.
    Approver(Op),
    /// A person looks at an operation that is held.
    Reviewer(Op),
    /// That person decides.
    Decides(Op, Verdict, u64),
    /// That person lets later ones pass.
    Releases(Op),
    /// A node starts again.
    Restart(usize),
    /// An operator ends the processes that no longer trust their clocks.
    Operator,
    /// Every node stops, with its clock, as a host that sleeps.
    Sleep(i64),
    /// Store time is set.
    ClockTo(i64),
    /// Sends of a tool are paused for so long.
    Pause(usize, i64),
    /// Sends of a tool go on.
    Resume(usize),
    /// The configuration is read anew.
    Reload(usize),
    /// The credential of a tool is another vendor account's from now on.
    Moves(usize),
    /// A tool that was taken out is declared again.
    Declare(usize),
    /// The store purges what is past its retention.
    Purge,
}

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Prepares, or asks again with the same ID.
    Put,
    /// Uses the ID for something else.
    Conflict,
    /// Says that it shall run.
    Execute,
    /// Takes it back.
    Withdraw,
}

/// A request that was made before its attempt is recorded.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// The declaration it was made from.
    pub(super) version: u32,
    /// The key or reference.
    pub(super) key: Option<String>,
    /// Its digest.
    pub(super) digest: String,
    /// The scope that it is recorded under.
    pub(super) scope: Option<String>,
    /// The vendor account that its credential belongs to.
    pub(super) vendor: u8,
    /// What is sent.
    pub(super) body: String,
}

/// A step of a node. Between two steps it may die or stand still.
#[derive(Debug)]
pub(super) enum Work {
    /// Commits a prepare.
    Prepare(Op, Act, Option<Made>, i64),
    /// Lets time take effect, as the first step of carrying on.
    Carry(Op),
    /// Claims a look-up, if that is due.
    Investigate(Op, bool),
    /// Reads the operation and makes the request.
    Start(Op, Option<Caller>, u8),
    /// Commits the start; the monotonic clock was read before.
    Begin(Op, Option<Caller>, u8, Made, i64),
    /// The attempt is durable: connects.
    Connect(u64),
    /// The connection stands, or does not.
    Connected(u64, bool),
    /// No answer in time.
    Timeout(u64),
    /// Nobody reads on.
    LingerEnd(u64),
    /// The claim is renewed.
    Renew(u64),
    /// The answer is here.
    Answer(u64, Reply),
    /// What was found is recorded.
    Report(u64, Box<Finding>, u32),
    /// The claim to look up is durable: asks.
    Ask(Op, Box<Question>),
    /// The destination's word is here.
    Answered(Box<Asking>, Box<LookedUp>),
    /// It is recorded.
    Keep(Box<Asking>, Box<LookedUp>, u32),
    /// Commits a start that was sent already (only without its guard).
    RecordLate(Op, Box<counterfoil::verbs::Start>),
}

/// A look-up under way.
#[derive(Debug)]
pub(super) struct Asking {
    /// Which node asks.
    pub(super) node: (usize, u32),
    /// About which operation.
    pub(super) op: Op,
    /// Under what.
    pub(super) question: Question,
    /// Store time when it began.
    pub(super) began_at: counterfoil::Timestamp,
    /// True time when it began.
    pub(super) since: Instant,
    /// What the node had waited.
    pub(super) waited: std::time::Duration,
    /// The vendor account that the credential belongs to.
    pub(super) vendor: u8,
}

struct Entry {
    at: Instant,
    order: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Everything that is still to happen, in order.
#[derive(Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    order: u64,
}

impl Agenda {
    /// Lets `event` happen at `at`. Of two at the same instant the first one written goes first.
    pub(super) fn at(&mut self, at: Instant, event: Event) {
        self.order += 1;
        self.heap.push(Reverse(Entry { at, order: self.order, event }));
    }

    /// What happens next.
    pub(super) fn next(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}
