//! Who can establish whether an action happened, and what follows from it: when the same request may be sent again,
//! and from when on a look-up that finds nothing proves that nothing happened. Pure: no I/O, no clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::keys::KeyFormat;
use crate::operation::{Attempt, AttemptOutcome};
use crate::pointer::Pointer;
use crate::safeguard::Safeguard;
use crate::time::{Timestamp, millis};

/// The life of a request that is assumed where the destination remembers keys or references and none is declared.
/// The sender connects first, checks second and writes third, so a late first byte is bounded far below it.
pub const ASSUMED_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// The clock difference that is allowed for where none is declared.
pub const DEFAULT_SKEW: Duration = Duration::from_secs(60);

/// How long look-ups go on where nothing is declared.
pub const DEFAULT_LOOKUP_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The declared way to establish whether an action happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Recovery {
    /// The effect is rows in the ledger's own database.
    Transaction,
    /// The destination recognises a repeat by its key, for a while.
    IdempotencyKey(KeyFacts),
    /// The destination refuses a second record with the same reference.
    UniqueReference(ReferenceFacts),
    /// The destination can be asked.
    #[serde(rename = "lookup")]
    LookUp(LookUpFacts),
    /// Nobody can tell.
    None(NoneFacts),
}

/// What a destination with idempotency keys promises.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyFacts {
    /// Where the key goes.
    pub key: Place,
    /// How it is spelled.
    #[serde(default)]
    pub key_format: KeyFormat,
    /// The longest key that the destination takes.
    #[serde(default)]
    pub key_max_len: Option<u32>,
    /// How long the destination remembers a key, from its first arrival.
    #[serde(with = "millis")]
    pub retention: Duration,
    /// The longest that a request can be under way.
    #[serde(with = "millis")]
    pub request_lifetime: Duration,
    /// What the destination does with a key whose first request failed.
    #[serde(default)]
    pub stored_errors: StoredErrors,
    /// Whether a failed request leaves nothing behind.
    #[serde(default)]
    pub rolls_back: bool,
    /// The largest difference between clocks.
    #[serde(with = "millis")]
    pub skew: Duration,
    /// How the record can be found, where it can.
    #[serde(default)]
    pub lookup: Option<LookUpBy>,
    /// How long look-ups go on.
    #[serde(with = "millis")]
    pub lookup_for: Duration,
}

/// What a destination with enforced references promises.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReferenceFacts {
    /// Where the reference goes.
    pub reference: Place,
    /// How it is spelled.
    #[serde(default)]
    pub key_format: KeyFormat,
    /// The longest reference that the destination takes.
    #[serde(default)]
    pub key_max_len: Option<u32>,
    /// How long a used reference stays refused; `None` means for ever.
    #[serde(default, with = "millis::option")]
    pub unique_for: Option<Duration>,
    /// The longest that a request can be under way.
    #[serde(with = "millis")]
    pub request_lifetime: Duration,
    /// The largest difference between clocks.
    #[serde(with = "millis")]
    pub skew: Duration,
    /// How the record can be found.
    #[serde(default)]
    pub lookup: Option<LookUpBy>,
    /// How long look-ups go on.
    #[serde(with = "millis")]
    pub lookup_for: Duration,
}

/// What a destination that can be asked promises.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LookUpFacts {
    /// Where the reference goes in the request.
    pub reference: Place,
    /// How it is spelled.
    #[serde(default)]
    pub key_format: KeyFormat,
    /// The longest reference that the destination takes.
    #[serde(default)]
    pub key_max_len: Option<u32>,
    /// How to ask.
    pub lookup: LookUpBy,
    /// Whether the answer is complete and current.
    #[serde(default)]
    pub authoritative: bool,
    /// The longest that a request can be under way; `None` means that nothing bounds it.
    #[serde(default, with = "millis::option")]
    pub request_lifetime: Option<Duration>,
    /// How long an accepted request may stay invisible.
    #[serde(with = "millis")]
    pub queue_time: Duration,
    /// The largest difference between clocks.
    #[serde(with = "millis")]
    pub skew: Duration,
    /// How long look-ups go on.
    #[serde(with = "millis")]
    pub lookup_for: Duration,
}

/// What bounds a request whose fate nobody can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NoneFacts {
    /// The longest that a request can be under way; `None` means that nothing bounds it.
    #[serde(default, with = "millis::option")]
    pub request_lifetime: Option<Duration>,
    /// How long an accepted request may stay invisible.
    #[serde(default, with = "millis")]
    pub queue_time: Duration,
}

/// Who asks the destination, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookUpBy {
    /// The executor, with this request.
    Http(Box<LookUpRequest>),
    /// The application's own worker, under a claim to investigate.
    Worker,
}

impl LookUpBy {
    /// The request, where the executor asks.
    #[must_use]
    pub fn http(&self) -> Option<&LookUpRequest> {
        match self {
            Self::Http(request) => Some(request),
            Self::Worker => None,
        }
    }
}

/// A request that finds the record again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LookUpRequest {
    /// The method.
    pub method: String,
    /// The URL, with `{reference}` in it.
    pub url: String,
    /// Where the answer names the record.
    pub found: Pointer,
    /// What counts the records; an array or a number.
    #[serde(default)]
    pub count: Option<Pointer>,
    /// Members of the arguments that the record must repeat.
    #[serde(default)]
    pub must_match: Vec<Pointer>,
}

/// Where a key or reference goes in the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A header of this name.
    Header(String),
    /// A member of the body.
    Body(Pointer),
    /// A query parameter, appended.
    Query(String),
    /// The placeholder `{NAME}` in the URL's path.
    Path(String),
    /// Wherever the application's own worker puts it.
    Worker,
}

/// What a destination does with a key whose first request failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredErrors {
    /// It replays the stored failure.
    #[default]
    All,
    /// It forgets failures, so a repeat runs again.
    SuccessOnly,
    /// It continues the failed request, by design.
    Reruns,
}

/// Why nothing may be sent and no rule can settle an operation: a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoldReason {
    /// Nobody can establish whether it happened.
    NoRecovery,
    /// The destination may have forgotten the key or reference.
    WindowClosed,
    /// The retry budget is spent while an attempt may have worked.
    BudgetSpent,
    /// The destination replays a stored failure: the same key cannot heal it.
    StoredFailure,
    /// The destination forgets failures, so a repeat could run a second time.
    FailureNotStored,
    /// A later attempt was refused while an earlier one may have worked.
    RefusedAfterUnknown,
    /// Nothing at the destination would stop a second effect; only a look-up can tell.
    NotProtected,
    /// The destination says that the record exists, and it was not found yet.
    ConflictOpen,
    /// Look-ups found nothing, and that proves nothing: the answer is not authoritative, or nothing bounds the request.
    NotFound,
    /// Look-ups got no usable answer for as long as they were to go on.
    LookUpFailed,
    /// A look-up found a record that carries our reference and other values than ours.
    FoundDiffers,
    /// The tool is no longer declared.
    ToolNotDeclared,
    /// The credential belongs to another vendor account now.
    ScopeChanged,
    /// The request would no longer be the one that was sent first.
    RequestChanged,
    /// More than one effect may exist.
    DuplicateSuspected,
    /// The declared recovery changed its kind while an attempt may have worked.
    RecoveryChanged,
    /// The approval ran out while an attempt may have worked.
    ApprovalExpired,
    /// No approval covers another attempt, while one may have worked: the destination changed under it, or the tool asks
    /// for one only since.
    ApprovalVoid,
    /// An approver let later operations pass: it is never sent again.
    Released,
    /// A changed proposal takes its place: it is never sent again.
    Replaced,
}

impl HoldReason {
    /// The reason as it is stored and shown.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NoRecovery => "no-recovery",
            Self::WindowClosed => "window-closed",
            Self::BudgetSpent => "budget-spent",
            Self::StoredFailure => "stored-failure",
            Self::FailureNotStored => "failure-not-stored",
            Self::RefusedAfterUnknown => "refused-after-unknown",
            Self::NotProtected => "not-protected",
            Self::ConflictOpen => "conflict-open",
            Self::NotFound => "not-found",
            Self::LookUpFailed => "look-up-failed",
            Self::FoundDiffers => "found-differs",
            Self::ToolNotDeclared => "tool-not-declared",
            Self::ScopeChanged => "scope-changed",
            Self::RequestChanged => "request-changed",
            Self::DuplicateSuspected => "duplicate-suspected",
            Self::RecoveryChanged => "recovery-changed",
            Self::ApprovalExpired => "approval-expired",
            Self::ApprovalVoid => "approval-void",
            Self::Released => "released",
            Self::Replaced => "replaced",
        }
    }
}

impl Recovery {
    /// The kind as the configuration spells it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::IdempotencyKey(_) => "idempotency_key",
            Self::UniqueReference(_) => "unique_reference",
            Self::LookUp(_) => "lookup",
            Self::None(_) => "none",
        }
    }

    /// Where the key or reference goes.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::IdempotencyKey(facts) => Some(&facts.key),
            Self::UniqueReference(facts) => Some(&facts.reference),
            Self::LookUp(facts) => Some(&facts.reference),
            Self::Transaction | Self::None(_) => None,
        }
    }

    /// How the key or reference is spelled, and its longest length.
    #[must_use]
    pub fn key_format(&self) -> Option<(KeyFormat, Option<u32>)> {
        match self {
            Self::IdempotencyKey(facts) => Some((facts.key_format, facts.key_max_len)),
            Self::UniqueReference(facts) => Some((facts.key_format, facts.key_max_len)),
            Self::LookUp(facts) => Some((facts.key_format, facts.key_max_len)),
            Self::Transaction | Self::None(_) => None,
        }
    }

    /// The longest that a request can be under way, where something says so.
    #[must_use]
    pub fn declared_lifetime(&self) -> Option<Duration> {
        match self {
            Self::IdempotencyKey(facts) => Some(facts.request_lifetime),
            Self::UniqueReference(facts) => Some(facts.request_lifetime),
            Self::LookUp(facts) => facts.request_lifetime,
            Self::None(facts) => facts.request_lifetime,
            Self::Transaction => None,
        }
    }

    /// How the record can be found, where it can.
    #[must_use]
    pub fn lookup(&self) -> Option<&LookUpBy> {
        match self {
            Self::IdempotencyKey(facts) => facts.lookup.as_ref(),
            Self::UniqueReference(facts) => facts.lookup.as_ref(),
            Self::LookUp(facts) => Some(&facts.lookup),
            Self::Transaction | Self::None(_) => None,
        }
    }

    /// How long look-ups go on, from the last attempt.
    #[must_use]
    pub fn lookup_for(&self) -> Duration {
        match self {
            Self::IdempotencyKey(facts) => facts.lookup_for,
            Self::UniqueReference(facts) => facts.lookup_for,
            Self::LookUp(facts) => facts.lookup_for,
            Self::Transaction | Self::None(_) => Duration::ZERO,
        }
    }

    /// Whether a look-up that finds nothing can ever settle anything: its answer is complete and current.
    #[must_use]
    pub fn miss_can_count(&self) -> bool {
        match self {
            Self::LookUp(facts) => facts.authoritative || !Safeguard::Authoritative.stands(),
            Self::IdempotencyKey(_) | Self::UniqueReference(_) | Self::Transaction | Self::None(_) => false,
        }
    }

    /// Whether the destination itself collapses two copies of one request.
    #[must_use]
    pub fn destination_dedupes(&self) -> bool {
        match self {
            Self::IdempotencyKey(_) | Self::UniqueReference(_) => true,
            Self::Transaction | Self::LookUp(_) | Self::None(_) => false,
        }
    }

    /// The instant that the last byte window of any further attempt must stay below, so that no copy of a request can
    /// arrive after the destination has forgotten the first one. `None` where nothing was sent yet or nothing is ever
    /// forgotten.
    ///
    /// Counted from the first attempt that is not `not_sent`: key retention runs from first arrival, and a later
    /// refusal does not restart it.
    #[must_use]
    pub fn send_allowed_until(&self, attempts: &[Attempt]) -> Option<Timestamp> {
        let (memory, lifetime, skew) = match self {
            Self::IdempotencyKey(facts) => (facts.retention, facts.request_lifetime, facts.skew),
            Self::UniqueReference(facts) => (facts.unique_for?, facts.request_lifetime, facts.skew),
            Self::Transaction | Self::LookUp(_) | Self::None(_) => return None,
        };
        let first = attempts.iter().find(|attempt| attempt.outcome != Some(AttemptOutcome::NotSent))?;
        Some(first.started_at.plus(memory).minus(lifetime).minus(skew))
    }

    /// Whether another attempt may be committed at `now`, given what the earlier ones left behind. Budget, approval and
    /// guards are asked elsewhere; this is only about what the destination could do with one more copy.
    ///
    /// # Errors
    /// The reason for which only a look-up or a person can go on.
    pub fn may_send_again(
        &self,
        attempts: &[Attempt],
        now: Timestamp,
        send_window: Duration,
    ) -> Result<(), HoldReason> {
        if let Some(until) = self.send_allowed_until(attempts)
            && now.plus(send_window) >= until
            && Safeguard::KeyWindow.stands()
        {
            return Err(HoldReason::WindowClosed);
        }
        if attempts.iter().all(|attempt| attempt.settled) {
            return Ok(());
        }
        if attempts.iter().any(|attempt| attempt.outcome == Some(AttemptOutcome::Rejected)) {
            return Err(HoldReason::RefusedAfterUnknown);
        }
        match self {
            Self::IdempotencyKey(facts) => facts.protects(attempts),
            Self::UniqueReference(_) => match attempts.iter().any(|attempt| attempt.duplicate_of_ours) {
                // The conflict says that the record exists: fetch it, never send again.
                true => Err(HoldReason::ConflictOpen),
                false => Ok(()),
            },
            Self::LookUp(_) | Self::None(_) | Self::Transaction if !Safeguard::Unprotected.stands() => Ok(()),
            Self::LookUp(_) => Err(HoldReason::NotProtected),
            Self::None(_) | Self::Transaction => Err(HoldReason::NoRecovery),
        }
    }

    /// From when on nothing that was sent can still take effect: a look-up that begins later and finds nothing is
    /// final, if it is complete and current. `None` where nothing bounds the request.
    #[must_use]
    pub fn absence_final_at(&self, attempts: &[Attempt]) -> Option<Timestamp> {
        let last = attempts.iter().map(|attempt| attempt.send_before).max()?;
        let (lifetime, queue, skew) = match self {
            Self::LookUp(facts) => (facts.request_lifetime?, facts.queue_time, facts.skew),
            Self::None(facts) => (facts.request_lifetime?, facts.queue_time, DEFAULT_SKEW),
            Self::IdempotencyKey(facts) => (facts.request_lifetime, Duration::ZERO, facts.skew),
            Self::UniqueReference(facts) => (facts.request_lifetime, Duration::ZERO, facts.skew),
            Self::Transaction => return None,
        };
        if !Safeguard::Quiescence.stands() {
            return Some(last);
        }
        Some(last.plus(lifetime).plus(queue).plus(skew))
    }

    /// Whether a look-up that found nothing settles every attempt. It counts only if the declaration says that the
    /// answer is complete and current, and if the look-up *began* after the wait had passed on both clocks: an older
    /// miss is never used, however late it is read.
    ///
    /// `waited` is the monotonic time that the looking node has seen pass since the last attempt, or since its own
    /// start where that is later.
    #[must_use]
    pub fn miss_counts(&self, attempts: &[Attempt], began_at: Timestamp, waited: Duration) -> bool {
        let (Some(final_at), Some(last)) =
            (self.absence_final_at(attempts), attempts.iter().map(|attempt| attempt.started_at).max())
        else {
            return false;
        };
        if !Safeguard::BothClocks.stands() {
            return self.miss_can_count() && began_at > final_at;
        }
        self.miss_can_count() && began_at > final_at && waited > final_at.since(last)
    }
}

impl KeyFacts {
    /// Whether the destination's memory of the key covers what may have happened so far.
    fn protects(&self, attempts: &[Attempt]) -> Result<(), HoldReason> {
        match self.stored_errors {
            StoredErrors::All | StoredErrors::SuccessOnly if !Safeguard::StoredErrors.stands() => Ok(()),
            StoredErrors::Reruns => Ok(()),
            // A lost reply may have been a failure that left something behind and was not stored.
            StoredErrors::SuccessOnly if self.rolls_back => Ok(()),
            StoredErrors::SuccessOnly => Err(HoldReason::FailureNotStored),
            StoredErrors::All => {
                let failures: Vec<u16> = attempts
                    .iter()
                    .filter_map(|attempt| attempt.status.filter(|status| *status >= 500))
                    .collect();
                let repeated =
                    failures.iter().enumerate().any(|(at, status)| failures[..at].contains(status));
                if repeated { Err(HoldReason::StoredFailure) } else { Ok(()) }
            }
        }
    }
}

/// The stricter of two declarations, fact by fact; where the kinds differ nothing protects a repeat.
#[must_use]
pub fn stricter(stored: &Recovery, current: &Recovery) -> Recovery {
    match (stored, current) {
        (Recovery::Transaction, Recovery::Transaction) => Recovery::Transaction,
        (Recovery::IdempotencyKey(a), Recovery::IdempotencyKey(b)) => Recovery::IdempotencyKey(KeyFacts {
            retention: a.retention.min(b.retention),
            request_lifetime: a.request_lifetime.max(b.request_lifetime),
            skew: a.skew.max(b.skew),
            stored_errors: if a.stored_errors == b.stored_errors {
                a.stored_errors
            } else {
                StoredErrors::SuccessOnly
            },
            rolls_back: a.rolls_back && b.rolls_back,
            lookup_for: a.lookup_for.min(b.lookup_for),
            ..a.clone()
        }),
        (Recovery::UniqueReference(a), Recovery::UniqueReference(b)) => {
            Recovery::UniqueReference(ReferenceFacts {
                unique_for: match (a.unique_for, b.unique_for) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (one, other) => one.or(other),
                },
                request_lifetime: a.request_lifetime.max(b.request_lifetime),
                skew: a.skew.max(b.skew),
                lookup_for: a.lookup_for.min(b.lookup_for),
                ..a.clone()
            })
        }
        (Recovery::LookUp(a), Recovery::LookUp(b)) => Recovery::LookUp(LookUpFacts {
            authoritative: a.authoritative && b.authoritative,
            request_lifetime: longer_bound(a.request_lifetime, b.request_lifetime),
            queue_time: a.queue_time.max(b.queue_time),
            skew: a.skew.max(b.skew),
            lookup_for: a.lookup_for.min(b.lookup_for),
            ..a.clone()
        }),
        (Recovery::None(a), Recovery::None(b)) => Recovery::None(NoneFacts {
            request_lifetime: longer_bound(a.request_lifetime, b.request_lifetime),
            queue_time: a.queue_time.max(b.queue_time),
        }),
        (
            Recovery::Transaction
            | Recovery::IdempotencyKey(_)
            | Recovery::UniqueReference(_)
            | Recovery::LookUp(_)
            | Recovery::None(_),
            _,
        ) => Recovery::None(NoneFacts::default()),
    }
}

/// No bound at all is the strictest.
fn longer_bound(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    Some(a?.max(b?))
}
