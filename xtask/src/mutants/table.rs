//! The wrong lines.

/// One change of one place.
pub(super) struct Mutant {
    /// What it gets wrong.
    pub(super) name: &'static str,
    /// Where.
    pub(super) file: &'static str,
    /// What stands there, exactly once.
    pub(super) old: &'static str,
    /// What stands there instead.
    pub(super) new: &'static str,
}

const RECOVERY: &str = "crates/counterfoil/src/recovery.rs";
const STATE: &str = "crates/counterfoil/src/state.rs";
const GUARD: &str = "crates/counterfoil/src/guard.rs";
const REPORT: &str = "crates/counterfoil/src/verbs/report.rs";
const START: &str = "crates/counterfoil/src/verbs/start.rs";
const PASS: &str = "crates/counterfoil/src/verbs/pass.rs";
const DRAFT: &str = "crates/counterfoil/src/verbs/draft.rs";
const PREPARE: &str = "crates/counterfoil/src/verbs/prepare.rs";
const SNAPSHOT: &str = "crates/counterfoil/src/snapshot.rs";
const OPERATION: &str = "crates/counterfoil/src/operation.rs";
const WAITS: &str = "crates/counterfoil/src/waits.rs";
const BACKOFF: &str = "crates/counterfoil/src/backoff.rs";
const DECIDE: &str = "crates/counterfoil/src/decide.rs";
const WEBHOOK: &str = "crates/counterfoil/src/verbs/webhook.rs";

/// Every one.
pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "the window is asked for now, not for the last byte",
        file: RECOVERY,
        old: "            && now.plus(send_window) >= until",
        new: "            && now >= until",
    },
    Mutant {
        name: "a settled attempt starts no retention",
        file: RECOVERY,
        old: "find(|attempt| attempt.outcome != Some(AttemptOutcome::NotSent))?",
        new: "find(|attempt| !attempt.settled)?",
    },
    Mutant {
        name: "a request has no life in the retention",
        file: RECOVERY,
        old: "first.started_at.plus(memory).minus(lifetime).minus(skew)",
        new: "first.started_at.plus(memory).minus(skew)",
    },
    Mutant {
        name: "clocks agree, for the retention",
        file: RECOVERY,
        old: "first.started_at.plus(memory).minus(lifetime).minus(skew)",
        new: "first.started_at.plus(memory).minus(lifetime)",
    },
    Mutant {
        name: "without recovery a repeat is fine",
        file: RECOVERY,
        old: "Self::None(_) | Self::Transaction => Err(HoldReason::NoRecovery),",
        new: "Self::None(_) | Self::Transaction => Ok(()),",
    },
    Mutant {
        name: "a miss counts at once",
        file: RECOVERY,
        old: "self.miss_can_count() && began_at > final_at && waited > final_at.since(last)",
        new: "self.miss_can_count()",
    },
    Mutant {
        name: "a miss of an incomplete look-up counts",
        file: RECOVERY,
        old: "self.miss_can_count() && began_at > final_at && waited > final_at.since(last)",
        new: "began_at > final_at && waited > final_at.since(last)",
    },
    Mutant {
        name: "the destination has no queue",
        file: RECOVERY,
        old: "Some(last.plus(lifetime).plus(queue).plus(skew))",
        new: "Some(last.plus(lifetime).plus(skew))",
    },
    Mutant {
        name: "clocks agree, for an absence",
        file: RECOVERY,
        old: "Some(last.plus(lifetime).plus(queue).plus(skew))",
        new: "Some(last.plus(lifetime).plus(queue))",
    },
    Mutant {
        name: "the wait counts from the commit, not from the last byte",
        file: RECOVERY,
        old: "let last = attempts.iter().map(|attempt| attempt.send_before).max()?;",
        new: "let last = attempts.iter().map(|attempt| attempt.started_at).max()?;",
    },
    Mutant {
        name: "a refusal after an unknown asks once more",
        file: RECOVERY,
        old: "return Err(HoldReason::RefusedAfterUnknown);",
        new: "return Ok(());",
    },
    Mutant {
        name: "a stored failure is asked for again",
        file: RECOVERY,
        old: "if repeated { Err(HoldReason::StoredFailure) } else { Ok(()) }",
        new: "if repeated { Ok(()) } else { Ok(()) }",
    },
    Mutant {
        name: "a failure that is not stored protects",
        file: RECOVERY,
        old: "StoredErrors::SuccessOnly => Err(HoldReason::FailureNotStored),",
        new: "StoredErrors::SuccessOnly => Ok(()),",
    },
    Mutant {
        name: "a lease that ran out means that nothing was sent",
        file: STATE,
        old: "Event::LeaseExpired => match state {\n            State::InProgress(_) => Ok(becomes(State::Unknown(Open::default()))),",
        new: "Event::LeaseExpired => match state {\n            State::InProgress(_) => Ok(becomes(State::Prepared(Waiting::default()))),",
    },
    Mutant {
        name: "a refusal closes while another attempt is open",
        file: STATE,
        old: "Event::Refused(rejection) => match state {\n            State::InProgress(_) | State::Unknown(_) if facts.others_unsettled == 0 => {",
        new: "Event::Refused(rejection) => match state {\n            State::InProgress(_) | State::Unknown(_) if facts.others_unsettled < 9 => {",
    },
    Mutant {
        name: "an end without effect closes while another attempt is open",
        file: STATE,
        old: "Event::EndedWithoutEffect(after) => match state {\n            State::InProgress(_) | State::Unknown(_) if facts.others_unsettled == 0 => {",
        new: "Event::EndedWithoutEffect(after) => match state {\n            State::InProgress(_) | State::Unknown(_) if facts.others_unsettled < 9 => {",
    },
    Mutant {
        name: "proof comes too late for what is unknown",
        file: STATE,
        old: "            State::InProgress(_) | State::Unknown(_) => Ok(succeeded(receipt, facts)),",
        new: "            State::InProgress(_) => Ok(succeeded(receipt, facts)),\n            State::Unknown(_) => Ok(STAYS),",
    },
    Mutant {
        name: "proof overwrites a rejection",
        file: STATE,
        old: "            State::Prepared(_) | State::Rejected(_) => Ok(SUSPECT),",
        new: "            State::Prepared(_) | State::Rejected(_) => Ok(succeeded(receipt, facts)),",
    },
    Mutant {
        name: "the guard looks at what is over",
        file: GUARD,
        old: "peer.id == *candidate.id || !peer.unresolved || peer.released",
        new: "peer.id == *candidate.id || peer.unresolved || peer.released",
    },
    Mutant {
        name: "an agent's word outlives an unknown",
        file: GUARD,
        old: "Stage::Prepared | Stage::Unknown => peer.released,",
        new: "Stage::Prepared | Stage::Unknown => true,",
    },
    Mutant {
        name: "any sender speaks for the running claim",
        file: REPORT,
        old: "State::InProgress(claim) if claim.fence == self.fence => Standing::Current,",
        new: "State::InProgress(_) => Standing::Current,",
    },
    Mutant {
        name: "an outranked sender that reads on is in time",
        file: REPORT,
        old: "State::Unknown(open) if newest && lingering && open.closed.is_none() => Standing::Current,",
        new: "State::Unknown(open) if lingering && open.closed.is_none() => Standing::Current,",
    },
    Mutant {
        name: "no answer settles the attempt",
        file: REPORT,
        old: "AttemptOutcome::Succeeded | AttemptOutcome::Pending | AttemptOutcome::Unknown => false,\n        };",
        new: "AttemptOutcome::Succeeded | AttemptOutcome::Pending | AttemptOutcome::Unknown => true,\n        };",
    },
    Mutant {
        name: "credential refusals use up attempts",
        file: REPORT,
        old: "attempt.counts = attempt.counts && !finding.stopped && !finding.credential_refused;",
        new: "attempt.counts = attempt.counts && !finding.stopped;",
    },
    Mutant {
        name: "the fencing token stands still",
        file: START,
        old: "let fence = operation.fence.next();",
        new: "let fence = operation.fence;",
    },
    Mutant {
        name: "the first byte may go out for the whole lease",
        file: START,
        old: "send_before: context.now.plus(facts.send_window()),",
        new: "send_before: context.now.plus(facts.lease),",
    },
    Mutant {
        name: "the guard is not asked at a start",
        file: START,
        old: "if !repeat && let Some(begun) = held_back(draft, snapshot, context) {",
        new: "if repeat && let Some(begun) = held_back(draft, snapshot, context) {",
    },
    Mutant {
        name: "a pause is not asked about",
        file: START,
        old: "if context.paused.is_some() || operation.duplicate_suspected",
        new: "if operation.duplicate_suspected",
    },
    Mutant {
        name: "another vendor account is fine",
        file: START,
        old: "if reached.is_some_and(|reached| reached.scope != offer.scope || context.scope_changed()) {",
        new: "if reached.is_some_and(|_| false) {",
    },
    Mutant {
        name: "an approval that is wanted is not waited for",
        file: START,
        old: "        ApprovalNeed::Wanted | ApprovalNeed::Expired | ApprovalNeed::Void => return Ok(Begun::NotNow),",
        new: "        ApprovalNeed::Wanted | ApprovalNeed::Expired | ApprovalNeed::Void => {}",
    },
    Mutant {
        name: "a lease lasts one instant too long",
        file: PASS,
        old: "State::InProgress(claim) if context.now < claim.lease_expires_at => Ok(()),",
        new: "State::InProgress(claim) if context.now <= claim.lease_expires_at => Ok(()),",
    },
    Mutant {
        name: "the machine is told of the settled attempts",
        file: DRAFT,
        old: "Some(other.number) != attempt && !other.settled",
        new: "Some(other.number) != attempt && other.settled",
    },
    Mutant {
        name: "a used ID begins anew",
        file: PREPARE,
        old: "            Existing::Tombstone(grave) => {\n                self.caller.may_use(&grave.tool)?;\n                self.caller.may_use(&self.tool)?;\n                Err(Refusal::ReceiptExpired { stage: grave.stage })\n            }",
        new: "            Existing::Tombstone(_) => self.create(snapshot),",
    },
    Mutant {
        name: "a receipt is shown one instant too long",
        file: SNAPSHOT,
        old: "Some(end) if self.now >= end => {",
        new: "Some(end) if self.now > end => {",
    },
    Mutant {
        name: "what is unknown holds nothing back",
        file: OPERATION,
        old: "            State::InProgress(_) | State::Unknown(_) => true,\n            State::Prepared(_) => self.started(),",
        new: "            State::InProgress(_) => true,\n            State::Unknown(_) => false,\n            State::Prepared(_) => self.started(),",
    },
    Mutant {
        name: "one attempt more than the budget",
        file: BACKOFF,
        old: "self.attempts < budget.attempts &&",
        new: "self.attempts <= budget.attempts &&",
    },
    Mutant {
        name: "what cannot be settled is over",
        file: DECIDE,
        old: "Err(_) if settled => Plan::Over,",
        new: "Err(_) => Plan::Over,",
    },
    Mutant {
        name: "an approval is good for any route",
        file: DECIDE,
        old: "if approval.fingerprint != operation.fingerprint || elsewhere {",
        new: "if approval.fingerprint != operation.fingerprint {",
    },
    Mutant {
        name: "an approval never runs out",
        file: DECIDE,
        old: "} else if now >= approval.expires_at {",
        new: "} else if now < approval.at {",
    },
    Mutant {
        name: "a webhook about another record proves ours",
        file: WEBHOOK,
        old: "} else if !self.said.record.iter().all(repeats) {",
        new: "} else if !self.said.record.iter().all(repeats) && self.said.event.is_empty() {",
    },
    Mutant {
        name: "a webhook of another vendor account proves ours",
        file: WEBHOOK,
        old: "} else if context.scope_changed() {",
        new: "} else if context.scope_changed() && self.said.event.is_empty() {",
    },
    Mutant {
        name: "an event is heard each time it comes",
        file: WEBHOOK,
        old: "let again = snapshot.webhooks.this_one &&",
        new: "let again = snapshot.webhooks.this_one && self.said.event.is_empty() &&",
    },
    Mutant {
        name: "an older key's proof speaks for the newer copy",
        file: WEBHOOK,
        old: "if open && newer && draft.operation.unsettled() > 0 {",
        new: "if open && newer && draft.operation.unsettled() > 9 {",
    },
    Mutant {
        name: "a changed proposal does not wait for the former one",
        file: WAITS,
        old: "    peer.unresolved && !ended",
        new: "    peer.suspected && !ended",
    },
    Mutant {
        name: "a success of the former proposal needs no word",
        file: WAITS,
        old: "peer.stage == Stage::Succeeded && !operation.acknowledged.contains(&peer.id)",
        new: "peer.stage == Stage::Succeeded && operation.acknowledged.contains(&peer.id)",
    },
    Mutant {
        name: "what was replaced is sent again",
        file: DECIDE,
        old: "return Err(HoldReason::Replaced);",
        new: "return Ok(());",
    },
    Mutant {
        name: "the subject is free while its holder is unknown",
        file: WAITS,
        old: "    held && !peer.released",
        new: "    held && peer.suspected",
    },
    Mutant {
        name: "the chain of replacements is not followed",
        file: WAITS,
        old: "            (Some(next), _) => live = next,",
        new: "            (Some(_), _) => return None,",
    },
];
