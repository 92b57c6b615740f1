//! What people are told of, and when it is said again. Pure.
//!
//! A notice is written in the commit of the change that it tells of, so a crash leaves both or neither. It says where an
//! operation stands, never what is in it.

use std::time::Duration;

use crate::decide::Action;
use crate::id::{Account, OperationId, ToolName};
use crate::operation::Operation;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::time::Timestamp;

/// How long a notice is tried to be delivered, counted from the change that it tells of.
pub const GIVEN_UP_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// How long notices are kept, delivered or not.
pub const KEPT_FOR: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// The most notices that are kept; the oldest go first.
pub const MOST_KEPT: u32 = 100_000;

/// The upper end of the first delay after a delivery that failed.
pub const FIRST_DELAY: Duration = Duration::from_secs(1);

/// The longest delay.
pub const LONGEST_DELAY: Duration = Duration::from_secs(5 * 60);

/// What people are told of. Of one change only the first that applies, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occasion {
    /// More than one effect may exist, or an effect contradicts the state.
    DuplicateSuspected,
    /// No rule can settle or send it: a person looks.
    Held,
    /// What was held, unknown or suspected is settled.
    Settled,
    /// An approver decides.
    ApprovalWanted,
    /// A person asked to be reminded.
    Reminder,
}

impl Occasion {
    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::DuplicateSuspected, Self::Held, Self::Settled, Self::ApprovalWanted, Self::Reminder];

    /// The occasion as it is stored and sent.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::DuplicateSuspected => "duplicate_suspected",
            Self::Held => "held",
            Self::Settled => "settled",
            Self::ApprovalWanted => "approval_wanted",
            Self::Reminder => "reminder",
        }
    }

    /// Reads a label back.
    #[must_use]
    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|occasion| occasion.label() == label)
    }
}

/// A notice as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Its place among the ledger's changes.
    pub position: u64,
    /// Its name, the same however often it is said.
    pub event: String,
    /// Store time of the change.
    pub at: Timestamp,
    /// What it tells of.
    pub occasion: Occasion,
    /// Whose operation.
    pub account: Account,
    /// Its tool.
    pub tool: ToolName,
    /// Which.
    pub operation: OperationId,
    /// Its version with the change.
    pub version: u64,
    /// Its state after it.
    pub state: String,
    /// What happens or must happen next, and why: words of ours.
    pub next: (String, Option<String>),
}

impl Notice {
    /// What is said of `operation` as it is now. It has its place and its name from the last row of evidence of the same
    /// commit, by that row's digest: a ledger restored from a copy never says something else under one name.
    pub(crate) fn of(
        occasion: Occasion,
        (position, digest): (u64, &[u8; 32]),
        operation: &Operation,
        snapshot: &Snapshot,
    ) -> Self {
        let next = snapshot.next_of(operation).ok();
        let action = next.as_ref().map_or("none", |next| next.action.label());
        let reason = next.and_then(|next| next.reason);
        Self {
            position,
            event: format!("evt_{}", crate::hex::encode(&digest[..16])),
            at: snapshot.now,
            occasion,
            account: operation.account.clone(),
            tool: operation.tool.clone(),
            operation: operation.id.clone(),
            version: operation.version,
            state: operation.state.label().to_owned(),
            next: (action.to_owned(), reason.map(str::to_owned)),
        }
    }
}

/// What people are told of a change from `before`, which is `None` for a new operation. `evidence` are the kinds of the
/// rows that were written with it.
#[must_use]
pub fn occasion<'k>(
    before: Option<&Operation>,
    after: &Operation,
    snapshot: &Snapshot,
    mut evidence: impl Iterator<Item = &'k str>,
) -> Option<Occasion> {
    let was_flagged = before.is_some_and(|before| before.duplicate_suspected);
    let was_held = before.is_some_and(|before| before.state.hold().is_some());
    let was_unknown = before.is_some_and(|before| match before.state {
        State::Unknown(_) => true,
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => false,
    });
    if after.duplicate_suspected && !was_flagged {
        return Some(Occasion::DuplicateSuspected);
    }
    if after.state.hold().is_some() && !was_held {
        return Some(Occasion::Held);
    }
    let settled = after.state.is_final() && (was_held || was_unknown);
    if settled || (was_flagged && !after.duplicate_suspected) {
        return Some(Occasion::Settled);
    }
    if wants_approval(after, snapshot) && !before.is_some_and(|before| wants_approval(before, snapshot)) {
        return Some(Occasion::ApprovalWanted);
    }
    evidence.any(|kind| kind == "reminder").then_some(Occasion::Reminder)
}

fn wants_approval(operation: &Operation, snapshot: &Snapshot) -> bool {
    match operation.state {
        State::Prepared(_) => snapshot.next_of(operation).is_ok_and(|next| next.action == Action::Approve),
        State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) | State::Unknown(_) => false,
    }
}

/// What follows a delivery that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// It is said again, not before this instant.
    Again(Timestamp),
    /// It is not said any more.
    Never,
}

/// Whether and when a notice of `at` is said again at `now`, after it failed `tries` times: full jitter, `random` picks
/// the point.
#[must_use]
pub fn after_failure(at: Timestamp, now: Timestamp, tries: u32, random: u64) -> Later {
    if now >= at.plus(GIVEN_UP_AFTER) {
        return Later::Never;
    }
    let doubled = 2_u32.saturating_pow(tries.saturating_sub(1).min(16));
    let most = FIRST_DELAY.saturating_mul(doubled).min(LONGEST_DELAY);
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    Later::Again(now.plus(Duration::from_millis(random % (most + 1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_back() {
        for occasion in Occasion::ALL {
            assert_eq!(Occasion::parse(occasion.label()), Some(occasion));
        }
        assert_eq!(Occasion::parse("none"), None);
    }

    #[test]
    fn delays_grow_to_their_end_and_stop_after_a_day() {
        let at = Timestamp::from_millis(1_000_000);
        let delay = |tries, random| match after_failure(at, at, tries, random) {
            Later::Again(next) => next.since(at),
            Later::Never => panic!("given up at once"),
        };
        assert_eq!(delay(1, 1_000), Duration::from_secs(1));
        assert_eq!(delay(1, 1_001), Duration::ZERO);
        assert_eq!(delay(3, 4_000), Duration::from_secs(4));
        for tries in [9, 10, 40, u32::MAX] {
            assert_eq!(delay(tries, 256_000), Duration::from_secs(256), "{tries}");
            assert_eq!(delay(tries.max(10), 300_000), LONGEST_DELAY, "{tries}");
        }
        let last = at.plus(GIVEN_UP_AFTER);
        assert_eq!(after_failure(at, last, 1, 0), Later::Never);
        assert!(matches!(after_failure(at, last.minus(Duration::from_millis(1)), 99, 0), Later::Again(_)));
    }
}
