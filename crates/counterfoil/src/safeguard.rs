//! The guards that stand between one action and a second effect, each by name, so that a simulator can take one away
//! and show that its absence is found.
//!
//! Without the feature `testing` there is nothing to switch: [`Safeguard::stands`] is a constant, and what asks it is
//! compiled as if it had not asked.

/// One guard. What each one prevents is said where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Safeguard {
    /// An attempt is durable before anything is sent.
    RecordBeforeSend,
    /// A negative report counts only under the newest fencing token.
    FenceOnReports,
    /// Proof of success settles, however late it comes.
    LateProof,
    /// No copy after the destination may have forgotten the first one.
    KeyWindow,
    /// What nothing protects from a second effect is not sent again.
    Unprotected,
    /// A destination that does not store its failures is no protection.
    StoredErrors,
    /// A miss counts only when nothing that was sent can still take effect.
    Quiescence,
    /// A miss counts only if the look-up began after that, not if it was merely read after it.
    BeganAfter,
    /// The wait must have passed on the looking node's own clock too.
    BothClocks,
    /// A miss counts only where the answer is complete and current.
    Authoritative,
    /// A person's word waits as a look-up does.
    PersonWaits,
    /// "It already exists" means to look it up.
    ConflictMeansLookUp,
    /// A refusal ends an operation only where no other attempt may have worked.
    RefusalNeedsAllSettled,
    /// A lease that ran out proves nothing.
    LeaseProvesNothing,
    /// The same action is not prepared anew while it is unresolved.
    TaskGuardAtPrepare,
    /// Nor started.
    TaskGuardAtStart,
    /// An ID that was used stays used for ever.
    Tombstone,
    /// No first byte after the attempt's window.
    SendBefore,
    /// Nothing is sent again to another vendor account.
    Scope,
    /// One ID, one intent.
    Fingerprint,
    /// No attempt without a valid approval.
    ApprovalAtStart,
    /// A server's failure proves nothing.
    ServerErrors,
    /// No attempt while sends are paused.
    PauseAtStart,
    /// No first byte either.
    PauseAtFirstByte,
    /// No more attempts than the budget has.
    Budget,
    /// A webhook speaks only of what was sent under its reference, for the tool that it is signed for.
    EvidenceIsOurs,
    /// Only a webhook that says success, and says all of what was declared, proves it.
    EvidenceProves,
    /// Each event is heard once.
    EvidenceOnce,
    /// What makes an action the same may have changed since: either declaration holds it back.
    SameActionUnderEither,
    /// One started and unsettled operation per subject.
    SubjectWaits,
    /// A changed proposal waits for the former one.
    PredecessorWaits,
    /// Where what was waited for worked, a person says that there shall be another.
    Acknowledged,
    /// At most one live proposal takes the place of another.
    OneReplacement,
    /// What was replaced is never sent again.
    ReplacedIsNotSent,
    /// Only whoever holds a claim reports on it.
    HolderReports,
    /// A sender that looks around proves nothing with what it does not find.
    SenderProvesNoAbsence,
    /// Where the vendor account changed since somebody set out to look, a miss says nothing.
    ScopeOfMisses,
}

impl Safeguard {
    /// Every one.
    pub const ALL: [Self; 37] = [
        Self::RecordBeforeSend,
        Self::FenceOnReports,
        Self::LateProof,
        Self::KeyWindow,
        Self::Unprotected,
        Self::StoredErrors,
        Self::Quiescence,
        Self::BeganAfter,
        Self::BothClocks,
        Self::Authoritative,
        Self::PersonWaits,
        Self::ConflictMeansLookUp,
        Self::RefusalNeedsAllSettled,
        Self::LeaseProvesNothing,
        Self::TaskGuardAtPrepare,
        Self::TaskGuardAtStart,
        Self::Tombstone,
        Self::SendBefore,
        Self::Scope,
        Self::Fingerprint,
        Self::ApprovalAtStart,
        Self::ServerErrors,
        Self::PauseAtStart,
        Self::PauseAtFirstByte,
        Self::Budget,
        Self::EvidenceIsOurs,
        Self::EvidenceProves,
        Self::EvidenceOnce,
        Self::SameActionUnderEither,
        Self::SubjectWaits,
        Self::PredecessorWaits,
        Self::Acknowledged,
        Self::OneReplacement,
        Self::ReplacedIsNotSent,
        Self::HolderReports,
        Self::SenderProvesNoAbsence,
        Self::ScopeOfMisses,
    ];

    /// The guard as a command line names it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::RecordBeforeSend => "record-before-send",
            Self::FenceOnReports => "fence-on-reports",
            Self::LateProof => "late-proof",
            Self::KeyWindow => "key-window",
            Self::Unprotected => "unprotected",
            Self::StoredErrors => "stored-errors",
            Self::Quiescence => "quiescence",
            Self::BeganAfter => "began-after",
            Self::BothClocks => "both-clocks",
            Self::Authoritative => "authoritative",
            Self::PersonWaits => "person-waits",
            Self::ConflictMeansLookUp => "conflict-means-look-up",
            Self::RefusalNeedsAllSettled => "refusal-needs-all-settled",
            Self::LeaseProvesNothing => "lease-proves-nothing",
            Self::TaskGuardAtPrepare => "task-guard-at-prepare",
            Self::TaskGuardAtStart => "task-guard-at-start",
            Self::Tombstone => "tombstone",
            Self::SendBefore => "send-before",
            Self::Scope => "scope",
            Self::Fingerprint => "fingerprint",
            Self::ApprovalAtStart => "approval-at-start",
            Self::ServerErrors => "server-errors",
            Self::PauseAtStart => "pause-at-start",
            Self::PauseAtFirstByte => "pause-at-first-byte",
            Self::Budget => "budget",
            Self::EvidenceIsOurs => "evidence-is-ours",
            Self::EvidenceProves => "evidence-proves",
            Self::EvidenceOnce => "evidence-once",
            Self::SameActionUnderEither => "same-action-under-either",
            Self::SubjectWaits => "subject-waits",
            Self::PredecessorWaits => "predecessor-waits",
            Self::Acknowledged => "acknowledged",
            Self::OneReplacement => "one-replacement",
            Self::ReplacedIsNotSent => "replaced-is-not-sent",
            Self::HolderReports => "holder-reports",
            Self::SenderProvesNoAbsence => "sender-proves-no-absence",
            Self::ScopeOfMisses => "scope-of-misses",
        }
    }

    /// Reads a label back.
    #[must_use]
    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|guard| guard.label() == label)
    }

    /// Always.
    #[cfg(not(any(test, feature = "testing")))]
    #[inline(always)]
    #[must_use]
    pub const fn stands(self) -> bool {
        true
    }
}

#[cfg(any(test, feature = "testing"))]
mod removed {
    use std::cell::Cell;

    use super::Safeguard;

    thread_local! {
        static REMOVED: Cell<Option<Safeguard>> = const { Cell::new(None) };
    }

    impl Safeguard {
        /// Whether it stands: always, unless this thread took it away.
        #[must_use]
        pub fn stands(self) -> bool {
            REMOVED.get() != Some(self)
        }

        /// Runs `work` without this guard, on this thread alone.
        pub fn without<T>(self, work: impl FnOnce() -> T) -> T {
            let _back = Restore(REMOVED.replace(Some(self)));
            work()
        }
    }

    /// Puts back what stood before, also where the work panicked.
    struct Restore(Option<Safeguard>);

    impl Drop for Restore {
        fn drop(&mut self) {
            REMOVED.set(self.0);
        }
    }

    #[test]
    fn a_guard_is_missing_only_inside() {
        let [one, other] = [Safeguard::Scope, Safeguard::KeyWindow];
        assert!(one.without(|| !one.stands() && other.stands()));
        assert!(one.stands());
        for guard in Safeguard::ALL {
            assert_eq!(Safeguard::parse(guard.label()), Some(guard));
        }
    }
}
