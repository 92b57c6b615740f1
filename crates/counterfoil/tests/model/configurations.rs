//! Destinations and networks, each with the declaration that states what it can do.

use std::time::Duration;

use counterfoil::id::ToolName;
use counterfoil::keys::KeyFormat;
use counterfoil::pointer::Pointer;
use counterfoil::policy::{Budget, Carrier, HttpDeclaration, Tool};
use counterfoil::recovery::{
    KeyFacts, LookUpBy, LookUpFacts, LookUpRequest, NoneFacts, Place, Recovery, ReferenceFacts, StoredErrors,
};

use super::book::TICK;
use super::rules::Wrong;
use super::system::{Found, Packet, Shelf};

/// What bounds the life of a request between the first byte and its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Nothing.
    Unbounded,
    /// It arrives within so many ticks or never.
    Bounded(u8),
}

/// How the destination refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuses {
    /// It does not.
    Never,
    /// And keeps the refusal under the key.
    Sticky,
    /// And forgets that it did.
    Loosely,
}

/// One closed world.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// Its name.
    pub(crate) name: &'static str,
    /// The declared recovery.
    pub(crate) recovery: Recovery,
    /// How many operations with one action there are.
    pub(crate) operations: usize,
    /// The second operation may take the place of the first, at any instant.
    pub(crate) replaces: bool,
    /// How often each may be tried.
    pub(crate) attempts: u32,
    /// The last instant.
    pub(crate) horizon: u8,
    /// How many workers may die.
    pub(crate) crashes: u8,
    /// How many copies the network may make.
    pub(crate) copies: u8,
    /// What bounds a request.
    pub(crate) network: Network,
    /// The destination refuses what is older than this, counted from `send_before`.
    pub(crate) deadline: Option<u8>,
    /// The destination says so, instead of saying nothing.
    pub(crate) says_stale: bool,
    /// How far the destination's clock is behind.
    pub(crate) clock_behind: u8,
    /// How long it remembers a key, from first arrival.
    pub(crate) memory: Option<u8>,
    /// It refuses a second record with the same reference, for ever.
    pub(crate) unique: bool,
    /// Whether and how it refuses.
    pub(crate) refuses: Refuses,
    /// Gateways fail, with and without effect.
    pub(crate) gateway: bool,
    /// It throttles.
    pub(crate) throttles: bool,
    /// It answers 202, and the effect is visible within so many ticks.
    pub(crate) queue: u8,
    /// Senders read on after they told their callers that there is no answer.
    pub(crate) linger: bool,
    /// Somebody looks up.
    pub(crate) looks: bool,
    /// A look-up may miss what exists.
    pub(crate) incomplete: bool,
    /// A person may establish absence.
    pub(crate) person: bool,
    /// A caller comes back after retention.
    pub(crate) late_retry: bool,
    /// The effect is rows in the ledger's own database.
    pub(crate) transaction: bool,
    /// What an operation must be able to end up as, with how many effects.
    pub(crate) reaches: &'static [(&'static str, u8)],
}

const LIFE: u8 = 2;

fn ticks(count: u8) -> Duration {
    TICK * u32::from(count)
}

fn base(name: &'static str, recovery: Recovery) -> Configuration {
    Configuration {
        name,
        recovery,
        operations: 1,
        replaces: false,
        attempts: 2,
        horizon: 6,
        crashes: 1,
        copies: 0,
        network: Network::Unbounded,
        deadline: None,
        says_stale: false,
        clock_behind: 0,
        memory: None,
        unique: false,
        refuses: Refuses::Never,
        gateway: false,
        throttles: false,
        queue: 0,
        linger: false,
        looks: false,
        incomplete: false,
        person: false,
        late_retry: false,
        transaction: false,
        reaches: &[("succeeded", 1), ("unknown", 0), ("unknown", 1)],
    }
}

fn header() -> Place {
    Place::Header("Idempotency-Key".to_owned())
}

fn key(retention: u8, skew: u8) -> Recovery {
    Recovery::IdempotencyKey(KeyFacts {
        key: header(),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        retention: ticks(retention),
        request_lifetime: ticks(LIFE),
        stored_errors: StoredErrors::All,
        rolls_back: false,
        skew: ticks(skew),
        lookup: None,
        lookup_for: Duration::ZERO,
    })
}

fn request() -> LookUpBy {
    LookUpBy::Http(Box::new(LookUpRequest {
        method: "GET".to_owned(),
        url: "http://127.0.0.1/orders/{reference}".to_owned(),
        found: Pointer::parse("/id").unwrap(),
        count: None,
        must_match: Vec::new(),
    }))
}

fn reference() -> Recovery {
    Recovery::UniqueReference(ReferenceFacts {
        reference: header(),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        unique_for: None,
        request_lifetime: ticks(LIFE),
        skew: Duration::ZERO,
        lookup: Some(request()),
        lookup_for: ticks(3),
    })
}

fn look_up(authoritative: bool, lifetime: Option<u8>, queue: u8, skew: u8) -> Recovery {
    Recovery::LookUp(LookUpFacts {
        reference: header(),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        lookup: request(),
        authoritative,
        request_lifetime: lifetime.map(ticks),
        queue_time: ticks(queue),
        skew: ticks(skew),
        lookup_for: ticks(3),
    })
}

fn none(lifetime: Option<u8>) -> Recovery {
    Recovery::None(NoneFacts { request_lifetime: lifetime.map(ticks), queue_time: Duration::ZERO })
}

/// Every world that the rules must hold in.
pub(crate) fn all() -> Vec<Configuration> {
    let open: &[(&str, u8)] = &[("succeeded", 1), ("unknown", 0), ("unknown", 1), ("held", 0), ("held", 1)];
    let held: &[(&str, u8)] = &[("succeeded", 1), ("held", 0), ("held", 1)];
    let full: &[(&str, u8)] =
        &[("succeeded", 1), ("rejected", 0), ("unknown", 0), ("unknown", 1), ("held", 0), ("held", 1)];
    let refused: &[(&str, u8)] = &[("succeeded", 1), ("rejected", 0), ("held", 0), ("held", 1)];
    vec![
        Configuration {
            transaction: true,
            operations: 2,
            late_retry: true,
            reaches: &[("prepared", 0), ("succeeded", 1)],
            ..base("A own transaction", Recovery::Transaction)
        },
        Configuration {
            refuses: Refuses::Loosely,
            throttles: true,
            gateway: true,
            linger: true,
            reaches: refused,
            ..base("D nobody can tell", none(None))
        },
        Configuration {
            person: true,
            deadline: Some(LIFE),
            reaches: refused,
            ..base("D a person decides", none(Some(LIFE)))
        },
        Configuration {
            late_retry: true,
            refuses: Refuses::Loosely,
            reaches: refused,
            ..base("D callers that come back late", none(None))
        },
        Configuration {
            operations: 2,
            horizon: 4,
            refuses: Refuses::Loosely,
            throttles: true,
            reaches: refused,
            ..base("D two operations with one action", none(None))
        },
        Configuration {
            operations: 2,
            replaces: true,
            horizon: 5,
            person: true,
            deadline: Some(LIFE),
            reaches: &[("prepared", 0), ("succeeded", 1), ("rejected", 0), ("held", 0), ("held", 1)],
            ..base("D a changed proposal, a person decides", none(Some(LIFE)))
        },
        Configuration {
            operations: 2,
            replaces: true,
            attempts: 1,
            horizon: 5,
            crashes: 0,
            looks: true,
            deadline: Some(LIFE),
            reaches: &[("prepared", 0), ("succeeded", 1), ("rejected", 0), ("held", 0), ("held", 1)],
            ..base("C2 a changed proposal", look_up(true, Some(LIFE), 0, 0))
        },
        Configuration {
            operations: 2,
            replaces: true,
            horizon: 4,
            crashes: 0,
            deadline: Some(LIFE),
            memory: Some(5),
            refuses: Refuses::Loosely,
            reaches: &[("prepared", 0), ("succeeded", 1), ("rejected", 0), ("unknown", 1), ("held", 0)],
            ..base("B key, a changed proposal", key(5, 0))
        },
        Configuration {
            deadline: Some(LIFE),
            memory: Some(5),
            copies: 1,
            refuses: Refuses::Sticky,
            gateway: true,
            reaches: full,
            ..base("B key, deadline, a copy, sticky refusals", key(5, 0))
        },
        Configuration {
            deadline: Some(LIFE),
            memory: Some(5),
            refuses: Refuses::Loosely,
            throttles: true,
            reaches: full,
            ..base("B key, refusals not kept, throttling", key(5, 0))
        },
        Configuration {
            network: Network::Bounded(LIFE),
            memory: Some(5),
            gateway: true,
            linger: true,
            reaches: open,
            ..base("B key, bounded network, late answers", key(5, 0))
        },
        Configuration {
            deadline: Some(LIFE),
            says_stale: true,
            copies: 1,
            memory: Some(5),
            reaches: open,
            ..base("B key, a copy, says that it is too late", key(5, 0))
        },
        Configuration {
            deadline: Some(LIFE),
            memory: Some(7),
            clock_behind: 1,
            horizon: 8,
            crashes: 0,
            reaches: open,
            ..base("B key, clock behind", key(7, 1))
        },
        Configuration {
            operations: 2,
            horizon: 4,
            crashes: 0,
            deadline: Some(LIFE),
            memory: Some(5),
            refuses: Refuses::Loosely,
            reaches: &[("succeeded", 1), ("rejected", 0), ("unknown", 0), ("unknown", 1), ("held", 0)],
            ..base("B key, two operations", key(5, 0))
        },
        Configuration {
            unique: true,
            copies: 1,
            looks: true,
            horizon: 4,
            reaches: held,
            ..base("C1 unique reference, a copy", reference())
        },
        Configuration {
            copies: 1,
            looks: true,
            horizon: 4,
            crashes: 0,
            unique: true,
            refuses: Refuses::Loosely,
            reaches: held,
            ..base("C1 unique reference, a copy, refusals", reference())
        },
        Configuration {
            looks: true,
            reaches: held,
            ..base("C2 complete look-up, nothing bounds a request", look_up(true, None, 0, 0))
        },
        Configuration {
            looks: true,
            deadline: Some(LIFE),
            horizon: 7,
            reaches: held,
            ..base("C2 complete look-up, deadline", look_up(true, Some(LIFE), 0, 0))
        },
        Configuration {
            looks: true,
            deadline: Some(LIFE),
            queue: 1,
            horizon: 8,
            crashes: 0,
            reaches: held,
            ..base("C2 complete look-up, queue", look_up(true, Some(LIFE), 1, 0))
        },
        Configuration {
            looks: true,
            deadline: Some(LIFE),
            clock_behind: 1,
            horizon: 8,
            crashes: 0,
            reaches: held,
            ..base("C2 complete look-up, clock behind", look_up(true, Some(LIFE), 0, 1))
        },
        Configuration {
            looks: true,
            network: Network::Bounded(LIFE),
            horizon: 8,
            reaches: held,
            ..base("C2 complete look-up, bounded pause and network", look_up(true, Some(LIFE), 0, 0))
        },
        Configuration {
            looks: true,
            incomplete: true,
            deadline: Some(LIFE),
            horizon: 8,
            reaches: held,
            ..base("C3 incomplete look-up", look_up(false, Some(LIFE), 0, 0))
        },
    ]
}

/// Which world shows what a wrong rule breaks.
pub(crate) fn shown_by(wrong: Wrong) -> Configuration {
    let name = match wrong {
        Wrong::MissOfAnIncompleteLookUp => "C3 incomplete look-up",
        Wrong::LeaseExpiryIsFailure | Wrong::LeaseExpiryRejects | Wrong::TakeoverForgets => {
            "D nobody can tell"
        }
        Wrong::BadGatewayRejects => "D nobody can tell",
        Wrong::DeleteAtRetentionEnd => "D callers that come back late",
        Wrong::MissRightAfterTimeout | Wrong::OldMissUsedLater => "C2 complete look-up, deadline",
        Wrong::NoSkew => "C2 complete look-up, clock behind",
        Wrong::NoQueueTime => "C2 complete look-up, queue",
        Wrong::NoSendBefore => "C2 complete look-up, bounded pause and network",
        Wrong::RefusalClosesAll | Wrong::OutrankedRefusal => "B key, refusals not kept, throttling",
        Wrong::DuplicateRejects => "C1 unique reference, a copy",
        Wrong::RecordAfterSend | Wrong::RetentionIgnored | Wrong::RetentionAtSend => {
            "B key, deadline, a copy, sticky refusals"
        }
        Wrong::UnboundedLife => "B key, deadline, a copy, sticky refusals",
        Wrong::SlowWorkerClock => "B key, deadline, a copy, sticky refusals",
        Wrong::ReplacementWhileUnknown => "D a changed proposal, a person decides",
        Wrong::PersonTooEarly => "D a person decides",
        Wrong::LateReceiptDropped => "B key, bounded network, late answers",
        Wrong::TwoTransactions => "A own transaction",
        Wrong::NoTaskGuard => "D two operations with one action",
        Wrong::RefusalDespiteCopies => "C1 unique reference, a copy, refusals",
        Wrong::StaleSettlesDespiteCopies => "B key, a copy, says that it is too late",
        Wrong::RetentionRestarts => "B key, refusals not kept, throttling",
    };
    let found = all().into_iter().find(|configuration| configuration.name == name);
    let mut shown = found.expect("a configuration of this name");
    if wrong == Wrong::UnboundedLife {
        // The declaration says that old requests are refused; nothing refuses them.
        shown.deadline = None;
    }
    shown
}

impl Configuration {
    /// The tool as it is declared, with the one fact that a wrong rule reads wrongly.
    pub(crate) fn declared(&self, wrong: Option<Wrong>) -> Tool {
        let http = HttpDeclaration {
            method: "POST".to_owned(),
            url: "http://127.0.0.1/orders".to_owned(),
            body: counterfoil::policy::BodyKind::Json,
            path_only: Vec::new(),
            headers: std::collections::BTreeMap::new(),
            query: counterfoil::policy::QueryMode::Refuse,
            scope: None,
            destination: None,
            bucket: None,
            timeout: TICK,
            linger: TICK * 2,
            receipt_reference: None,
            allow_private: true,
        };
        let carrier = match self.transaction {
            true => Carrier::Transaction,
            false => Carrier::Http(Box::new(http)),
        };
        let mut tool =
            Tool::new(ToolName::parse("supplier.create_order").unwrap(), carrier, self.recovery.clone());
        tool.lease = ticks(2);
        tool.retention = if self.late_retry { ticks(2) } else { ticks(100) };
        tool.budget = Budget {
            attempts: self.attempts,
            elapsed: ticks(100),
            first_delay: Duration::ZERO,
            max_delay: Duration::ZERO,
        };
        match (&mut tool.recovery, wrong) {
            (Recovery::LookUp(facts), Some(Wrong::MissOfAnIncompleteLookUp)) => facts.authoritative = true,
            (Recovery::LookUp(facts), Some(Wrong::NoSkew)) => facts.skew = Duration::ZERO,
            (Recovery::LookUp(facts), Some(Wrong::NoQueueTime)) => facts.queue_time = Duration::ZERO,
            (Recovery::IdempotencyKey(facts), Some(Wrong::RetentionIgnored)) => facts.retention = ticks(200),
            (Recovery::IdempotencyKey(facts), Some(Wrong::RetentionAtSend)) => {
                facts.request_lifetime = Duration::ZERO;
            }
            _ => {}
        }
        tool
    }

    /// How long a request may live after `send_before`.
    pub(crate) fn life(&self) -> u8 {
        match self.network {
            Network::Bounded(life) => life,
            Network::Unbounded => self.deadline.unwrap_or(0),
        }
    }

    /// Everything that the destination may do with a request that arrives now, and what it answers.
    pub(crate) fn arrives(&self, now: u8, packet: Packet, shelf: Shelf) -> Vec<(Shelf, Option<Found>)> {
        let its_clock = now.saturating_sub(self.clock_behind);
        if self.deadline.is_some_and(|life| its_clock > packet.job.send_before + life) {
            return vec![(shelf, self.says_stale.then_some(Found::Stale))];
        }
        let remembered = match self.memory {
            Some(memory) => shelf.memory.filter(|(first, _)| now < first + memory),
            None if self.unique && shelf.effects > 0 => return vec![(shelf, Some(Found::Duplicate))],
            None => None,
        };
        match remembered {
            Some((_, true)) => return vec![(shelf, Some(Found::Refused))],
            Some((_, false)) => return vec![(shelf, Some(Found::Success))],
            None => {}
        }
        self.anew(now, shelf)
    }

    fn anew(&self, now: u8, shelf: Shelf) -> Vec<(Shelf, Option<Found>)> {
        let kept = |refused| self.memory.map(|_| (now, refused));
        let mut outcomes = Vec::new();
        let done = if self.queue > 0 {
            // Two copies that wait at once both take effect.
            match shelf.queued {
                None => Shelf { queued: Some(now), ..shelf },
                Some(_) => Shelf { effects: shelf.effects + 1, ..shelf },
            }
        } else {
            Shelf { effects: shelf.effects + 1, memory: kept(false), ..shelf }
        };
        let answer = if self.queue > 0 { Found::Pending } else { Found::Success };
        outcomes.push((done, Some(answer)));
        match self.refuses {
            Refuses::Never => {}
            Refuses::Sticky => outcomes.push((Shelf { memory: kept(true), ..shelf }, Some(Found::Refused))),
            Refuses::Loosely => outcomes.push((shelf, Some(Found::Refused))),
        }
        if self.gateway {
            outcomes.push((done, Some(Found::BadGateway)));
            outcomes.push((shelf, Some(Found::BadGateway)));
        }
        if self.throttles {
            outcomes.push((shelf, Some(Found::Throttled)));
        }
        outcomes
    }
}
