//! The wrong rules. Each is one decision replaced, while everything else stays the real code: the search has to find
//! what it breaks.

/// A plausible rule that doubles a write, loses a receipt or says something that is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wrong {
    /// Send again after a look-up that is not complete found nothing.
    MissOfAnIncompleteLookUp,
    /// A lease that ran out counts as a failure, so send again.
    LeaseExpiryIsFailure,
    /// A lease that ran out counts as a refusal.
    LeaseExpiryRejects,
    /// The record is deleted when its receipt's retention ends.
    DeleteAtRetentionEnd,
    /// A takeover deletes and inserts, and so forgets the attempts.
    TakeoverForgets,
    /// A gateway's error counts as a refusal.
    BadGatewayRejects,
    /// A complete look-up that finds nothing right after the timeout settles.
    MissRightAfterTimeout,
    /// A look-up that was read too early is used later.
    OldMissUsedLater,
    /// No margin for the destination's clock.
    NoSkew,
    /// The wait does not cover the destination's queue.
    NoQueueTime,
    /// The sender does not look at the clock before its first byte.
    NoSendBefore,
    /// A refusal of the second attempt closes the operation while the first is open.
    RefusalClosesAll,
    /// "The reference is already used" counts as a refusal.
    DuplicateRejects,
    /// A negative outcome is taken from an outranked worker.
    OutrankedRefusal,
    /// The attempt is recorded after the send.
    RecordAfterSend,
    /// The destination's retention is ignored.
    RetentionIgnored,
    /// Retention is checked for the send and not for the arrival.
    RetentionAtSend,
    /// A finite retention is trusted although nothing bounds the life of a request.
    UnboundedLife,
    /// A person closes before the request can no longer arrive.
    PersonTooEarly,
    /// Proof of success from an outranked worker is dropped.
    LateReceiptDropped,
    /// Effect and receipt are two transactions.
    TwoTransactions,
    /// A changed proposal is sent while the former one is unknown.
    ReplacementWhileUnknown,
    /// A new ID for the same action runs while the first is open.
    NoTaskGuard,
    /// A refusal is final although something may send the same bytes again.
    RefusalDespiteCopies,
    /// Retention is checked with a clock that is three ticks behind.
    SlowWorkerClock,
    /// "Too old" settles the attempt although a copy exists.
    StaleSettlesDespiteCopies,
    /// After a settled refusal the key's clock starts again.
    RetentionRestarts,
}

impl Wrong {
    /// Every one.
    pub(crate) const ALL: [Self; 27] = [
        Self::MissOfAnIncompleteLookUp,
        Self::LeaseExpiryIsFailure,
        Self::LeaseExpiryRejects,
        Self::DeleteAtRetentionEnd,
        Self::TakeoverForgets,
        Self::BadGatewayRejects,
        Self::MissRightAfterTimeout,
        Self::OldMissUsedLater,
        Self::NoSkew,
        Self::NoQueueTime,
        Self::NoSendBefore,
        Self::RefusalClosesAll,
        Self::DuplicateRejects,
        Self::OutrankedRefusal,
        Self::RecordAfterSend,
        Self::RetentionIgnored,
        Self::RetentionAtSend,
        Self::UnboundedLife,
        Self::ReplacementWhileUnknown,
        Self::PersonTooEarly,
        Self::LateReceiptDropped,
        Self::TwoTransactions,
        Self::NoTaskGuard,
        Self::RefusalDespiteCopies,
        Self::SlowWorkerClock,
        Self::StaleSettlesDespiteCopies,
        Self::RetentionRestarts,
    ];

    /// Its number in the table of counterexamples.
    pub(crate) fn number(self) -> &'static str {
        match self {
            Self::MissOfAnIncompleteLookUp => "X1",
            Self::LeaseExpiryIsFailure => "X2",
            Self::LeaseExpiryRejects => "X3",
            Self::DeleteAtRetentionEnd => "X4",
            Self::TakeoverForgets => "X5",
            Self::BadGatewayRejects => "X6",
            Self::MissRightAfterTimeout => "X7",
            Self::OldMissUsedLater => "X8",
            Self::NoSkew => "X9",
            Self::NoQueueTime => "X10",
            Self::NoSendBefore => "X11",
            Self::RefusalClosesAll => "X12",
            Self::DuplicateRejects => "X13",
            Self::OutrankedRefusal => "X14",
            Self::RecordAfterSend => "X15",
            Self::RetentionIgnored => "X16",
            Self::RetentionAtSend => "X17",
            Self::UnboundedLife => "X18",
            Self::ReplacementWhileUnknown => "X19",
            Self::PersonTooEarly => "X20",
            Self::LateReceiptDropped => "X21",
            Self::TwoTransactions => "X22",
            Self::NoTaskGuard => "X23",
            Self::RefusalDespiteCopies => "X24",
            Self::SlowWorkerClock => "X25",
            Self::StaleSettlesDespiteCopies => "X26",
            Self::RetentionRestarts => "X27",
        }
    }
}
