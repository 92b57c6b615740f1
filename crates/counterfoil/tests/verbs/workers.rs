//! Claims of an application's own workers: who may send, until when, and what late reports are worth.

use counterfoil::caller::Caller;
use counterfoil::destination::Finding;
use counterfoil::error::Refusal;
use counterfoil::id::{FencingToken, WorkerName};
use counterfoil::operation::{Marker, ReceiptSource};
use counterfoil::policy::{Carrier, Meaning, Tool, WorkerDeclaration};
use counterfoil::recovery::{HoldReason, KeyFacts, Place, Recovery};
use counterfoil::snapshot::View;
use counterfoil::verbs::{Claimed, Granted, Heartbeat, Outcome, ReportReply, TakeClaim};

use super::support::*;

fn by_worker(mut tool: Tool) -> Tool {
    let scope = Some("vendor-1".to_owned());
    tool.carrier = Carrier::Worker(WorkerDeclaration { scope, destination: None, bucket: None });
    tool
}

fn with_worker_key() -> Tool {
    by_worker(tool(Recovery::IdempotencyKey(KeyFacts { key: Place::Worker, ..key_facts() })))
}

fn hand() -> Caller {
    caller("hand", &["worker"])
}

impl Kitchen {
    fn claim(&self, worker: &str, claim_id: &str, lease: u64) -> TakeClaim {
        TakeClaim {
            caller: hand(),
            id: id("a"),
            worker: WorkerName::parse(worker).unwrap(),
            lease: std::time::Duration::from_millis(lease),
            claim_id: Some(claim_id.to_owned()),
            scope: Some("vendor-1".to_owned()),
            bucket: None,
            random: 0,
            declared: self.world.declared(),
        }
    }

    fn try_claim(&mut self, worker: &str, claim_id: &str, lease: u64) -> Result<Granted, Refusal> {
        let verb = self.claim(worker, claim_id, lease);
        match self.world.run(&verb)? {
            Claimed::Granted(granted) => Ok(*granted),
            Claimed::Refused(refusal) => Err(refusal),
            Claimed::Rebuild => panic!("bound to another declaration"),
        }
    }

    fn heartbeat(&mut self, attempt: u32, fence: FencingToken) -> Result<View, Refusal> {
        let declared = self.world.declared();
        self.world.run(&Heartbeat { caller: hand(), id: id("a"), attempt, fence, declared })
    }

    fn outcome(
        &mut self,
        attempt: u32,
        fence: FencingToken,
        finding: Finding,
    ) -> Result<ReportReply, Refusal> {
        let declared = self.world.declared();
        let verb = Outcome { caller: hand(), id: id("a"), attempt, fence, finding, random: 0, declared };
        self.world.run(&verb)
    }
}

#[test]
fn a_claim_is_the_start_and_a_repeat_of_it_gets_the_same_claim() {
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    kitchen.prepare("a").unwrap();
    let first = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    assert_eq!((first.attempt, kitchen.state("a")), (1, "in_progress"));
    assert_eq!(first.send_before, kitchen.world.now().plus(seconds(5)));
    let (version, again) = (kitchen.row("a").version, kitchen.try_claim("w1", "c1", 10_000).unwrap());
    assert_eq!((again.claim, kitchen.row("a").version), (first.claim.clone(), version));
    for (worker, claim_id) in [("w1", "c2"), ("w2", "c1"), ("w2", "c3")] {
        assert_eq!(kitchen.try_claim(worker, claim_id, 10_000).unwrap_err(), Refusal::InProgress);
    }
    for _ in 0..2 {
        let reply = kitchen.outcome(1, first.claim.fence, answer(Meaning::Succeeded, 201)).unwrap();
        assert!(!reply.stale);
    }
    assert_eq!((kitchen.state("a"), kitchen.row("a").attempts.len()), ("succeeded", 1));
    assert_eq!(kitchen.try_claim("w1", "c1", 10_000).unwrap_err(), Refusal::WrongState("succeeded"));
}

#[test]
fn a_lease_of_nothing_of_a_millisecond_or_above_the_limit_is_refused() {
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    kitchen.prepare("a").unwrap();
    for lease in [0, 1, 999, 3_600_001] {
        let refusal = kitchen.try_claim("w1", "c1", lease).unwrap_err();
        assert!(matches!(refusal, Refusal::InvalidArguments(_)), "{lease}: {refusal}");
    }
    assert_eq!((kitchen.state("a"), kitchen.row("a").attempts.len()), ("prepared", 0));
    kitchen.try_claim("w1", "c1", 3_600_000).unwrap();
}

#[test]
fn only_worker_tools_are_claimed_and_only_by_workers() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    assert_eq!(kitchen.try_claim("w1", "c1", 10_000).unwrap_err(), Refusal::NotAWorkerTool);
    let mut verb = kitchen.claim("w1", "c1", 10_000);
    verb.caller = app();
    assert_eq!(kitchen.world.run(&verb).unwrap_err(), Refusal::RoleForbidden("worker"));
    assert_eq!(kitchen.row("a").attempts.len(), 0);
}

#[test]
fn an_unapproved_operation_is_not_claimed() {
    let mut kitchen = Kitchen::with(approved(by_worker(with_nothing())));
    kitchen.prepare("a").unwrap();
    assert_eq!(kitchen.try_claim("w1", "c1", 10_000).unwrap_err(), Refusal::ApprovalRequired);
    kitchen.approve_as(ann(), "a", None).unwrap();
    kitchen.wait(3599);
    let granted = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    assert_eq!(granted.send_before, kitchen.world.now().plus(seconds(1)), "no later than the approval");
}

#[test]
fn heartbeats_extend_the_lease_and_never_the_window() {
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    kitchen.prepare("a").unwrap();
    let granted = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    let fence = granted.claim.fence;
    for _ in 0..5 {
        kitchen.wait(9);
        let view = kitchen.heartbeat(1, fence).unwrap();
        let until = view.operation.state.claim().unwrap().lease_expires_at;
        assert_eq!(until, kitchen.world.now().plus(seconds(10)));
        assert_eq!(view.operation.attempts[0].send_before, granted.send_before);
    }
    assert_eq!(kitchen.heartbeat(1, FencingToken(fence.0 + 1)).unwrap_err(), Refusal::StaleClaim);
    assert_eq!(kitchen.heartbeat(2, fence).unwrap_err(), Refusal::StaleClaim);
    kitchen.wait(10);
    assert_eq!(kitchen.heartbeat(1, fence).unwrap_err(), Refusal::StaleClaim, "it is not revived");
}

#[test]
fn a_silent_worker_is_not_followed_by_a_second_send_without_proof() {
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    kitchen.prepare("a").unwrap();
    let slow = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    kitchen.wait(10);
    assert_eq!(kitchen.try_claim("w2", "c2", 10_000).unwrap_err(), Refusal::WrongState("unknown"));
    assert_eq!((kitchen.hold("a"), kitchen.row("a").attempts.len()), (Some(HoldReason::NoRecovery), 1));
    // Its late refusal is kept and moves nothing; its late success settles.
    assert!(kitchen.outcome(1, slow.claim.fence, answer(Meaning::Rejected, 422)).unwrap().stale);
    assert_eq!(kitchen.state("a"), "unknown");
    assert!(!kitchen.outcome(1, slow.claim.fence, answer(Meaning::Succeeded, 201)).unwrap().stale);
    assert_eq!(kitchen.row("a").state.receipt().unwrap().source, ReceiptSource::LateReport);
}

#[test]
fn a_late_not_sent_of_the_maker_settles_its_attempt() {
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    kitchen.prepare("a").unwrap();
    let frozen = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    kitchen.wait(10);
    kitchen.tick("a");
    let not_sent = Finding::not_sent(Marker::NotConnected, "never connected");
    assert!(!kitchen.outcome(1, frozen.claim.fence, not_sent).unwrap().stale);
    assert_eq!(kitchen.try_claim("w2", "c2", 10_000).unwrap().attempt, 2);
}

#[test]
fn with_a_key_the_next_worker_sends_the_same_text_and_outranks_the_first() {
    let mut kitchen = Kitchen::with(with_worker_key());
    kitchen.prepare("a").unwrap();
    let frozen = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    kitchen.wait(11);
    let second = kitchen.try_claim("w2", "c2", 10_000).unwrap();
    assert_eq!((second.attempt, second.claim.fence > frozen.claim.fence), (2, true));
    let row = kitchen.row("a");
    assert!(row.attempts[0].key.is_some() && row.attempts[0].key == row.attempts[1].key);
    assert_eq!(kitchen.heartbeat(1, frozen.claim.fence).unwrap_err(), Refusal::StaleClaim);
    assert!(kitchen.outcome(1, frozen.claim.fence, lost()).unwrap().stale);
    assert_eq!(kitchen.state("a"), "in_progress");
    // A fence of the one attempt under the number of the other is nobody's claim.
    let crossed = kitchen.outcome(2, frozen.claim.fence, answer(Meaning::Succeeded, 201));
    assert_eq!(crossed.unwrap_err(), Refusal::StaleClaim);
}

#[test]
fn a_long_lease_is_refused_where_its_window_would_outlive_the_key() {
    let mut tool = with_worker_key();
    tool.budget.elapsed = seconds(48 * 3600);
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    kitchen.try_claim("w1", "c1", 1_000).unwrap();
    // Memory of a day, less lifetime and skew: 16 minutes before its end nothing may still be written.
    kitchen.wait(24 * 3600 - 16 * 60 - 100);
    assert_eq!(kitchen.try_claim("w2", "c2", 600_000).unwrap_err(), Refusal::WrongState("unknown"));
    assert_eq!(kitchen.hold("a"), None, "nothing is given up for it");
    assert_eq!(kitchen.try_claim("w2", "c3", 60_000).unwrap().attempt, 2, "a shorter one still fits");
}
