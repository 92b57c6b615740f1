//! When the destination is asked next whether it has a record of what was sent, and when a person is asked instead.
//! Pure; nothing here ever allows a send.

use std::time::Duration;

use crate::backoff;
use crate::operation::{LookUp, LookUpAnswer, Operation};
use crate::policy::Tool;
use crate::recovery::{HoldReason, Recovery};
use crate::time::Timestamp;

/// How long the first look-up may take before a person is asked without it: with a pass each second, well within the
/// five seconds in which a person is asked about what nothing can settle.
pub const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// What look-ups still have to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// When the next one is due; `None` where they are over.
    pub next: Option<Timestamp>,
    /// Why a person is asked as well, if one is.
    pub hold: Option<HoldReason>,
}

/// The look-ups since the last attempt began: an older one says nothing of it.
fn since_last_attempt(operation: &Operation) -> Vec<&LookUp> {
    let last = operation.attempts.iter().map(|attempt| attempt.started_at).max();
    operation.look_ups.iter().filter(|look_up| last.is_some_and(|last| look_up.began_at >= last)).collect()
}

/// What look-ups can still do for an open operation of which `why` forbids another send. `None` where the destination
/// cannot be asked, or nothing was sent.
#[must_use]
pub fn outlook(
    operation: &Operation,
    facts: &Tool,
    why: HoldReason,
    now: Timestamp,
    random: u64,
) -> Option<Outlook> {
    facts.recovery.lookup()?;
    let last = operation.attempts.last()?;
    let ended = last.ended_at.unwrap_or(last.started_at);
    let over_at = last.started_at.plus(facts.recovery.lookup_for());
    let final_at = facts.recovery.absence_final_at(&operation.attempts);
    let can_count = final_at.is_some() && facts.recovery.miss_can_count();
    let asked = since_last_attempt(operation);
    let next = match asked.last() {
        None => ended,
        Some(newest) => {
            let tries = u32::try_from(asked.len()).unwrap_or(u32::MAX);
            let next = now.plus(backoff::delay(&facts.budget, tries, random));
            // The first one whose miss is final.
            match final_at.map(|at| at.plus(Duration::from_millis(1))) {
                Some(at) if can_count && newest.began_at < at => next.min(at.max(now)),
                Some(_) | None => next,
            }
        }
    };
    let over = now >= over_at;
    let bothers = !asked.is_empty() || now >= ended.plus(FIRST_ANSWER);
    let missed_for_good = final_at.is_some_and(|at| {
        asked.iter().any(|look_up| look_up.answer == LookUpAnswer::Absent && look_up.began_at > at)
    });
    let differs = asked.last().is_some_and(|newest| newest.answer == LookUpAnswer::Differs);
    let undecidable = !can_count && (final_at.is_none() || missed_for_good);
    let next = Some(next).filter(|next| !over && *next < over_at);
    let held = next.is_none() || differs || (bothers && undecidable);
    Some(Outlook { next, hold: held.then(|| reason(&asked, facts, why)) })
}

/// Why a person is asked: what the look-ups said where they are the only way to know, else why nothing may be sent.
fn reason(asked: &[&LookUp], facts: &Tool, why: HoldReason) -> HoldReason {
    if asked.last().is_some_and(|newest| newest.answer == LookUpAnswer::Differs) {
        return HoldReason::FoundDiffers;
    }
    match facts.recovery {
        Recovery::LookUp(_) if asked.iter().any(|look_up| look_up.answer == LookUpAnswer::Absent) => {
            HoldReason::NotFound
        }
        Recovery::LookUp(_) if !asked.is_empty() => HoldReason::LookUpFailed,
        Recovery::LookUp(_)
        | Recovery::IdempotencyKey(_)
        | Recovery::UniqueReference(_)
        | Recovery::Transaction
        | Recovery::None(_) => why,
    }
}
