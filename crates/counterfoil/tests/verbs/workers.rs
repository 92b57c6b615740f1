//! Claims of an application's own workers: who may send, until when, and what late reports are worth.

use counterfoil::caller::Caller;
use counterfoil::destination::Finding;
use counterfoil::error::Refusal;
use counterfoil::id::{FencingToken, ToolName, WorkerName};
use counterfoil::operation::LookUpAnswer;
use counterfoil::operation::{Marker, ReceiptSource};
use counterfoil::policy::{Carrier, Meaning, Tool, WorkerDeclaration};
use counterfoil::recovery::{HoldReason, KeyFacts, LookUpBy, LookUpFacts, Place, Recovery};
use counterfoil::snapshot::PauseDraft;
use counterfoil::stated::{Fact, Stated};
use counterfoil::verbs::{
    ByWorker, Claimed, Granted, Heartbeat, LookUpNow, Mode, Offer, Outcome, ReportReply, TakeClaim, Told,
};

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
    /// A node that has seen every attempt since it was made.
    fn seen(&self) -> (usize, std::time::Duration) {
        let attempts = &self.row("a").attempts;
        let since = attempts.last().map_or(self.world.now(), |last| last.started_at);
        (attempts.len(), self.world.now().since(since))
    }

    fn pause(&mut self) {
        let tool = ToolName::parse(TOOL).ok();
        let (by, note) = ("ops".to_owned(), "stop".to_owned());
        self.world.pause(PauseDraft { tool, scope: None, by, note });
    }

    fn claim(&self, worker: &str, claim_id: &str, lease: u64) -> TakeClaim {
        TakeClaim {
            caller: hand(),
            id: id("a"),
            worker: WorkerName::parse(worker).unwrap(),
            lease: std::time::Duration::from_millis(lease),
            claim_id: Some(claim_id.to_owned()),
            stated: Stated::default(),
            scope: Some("vendor-1".to_owned()),
            bucket: None,
            seen: self.seen(),
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

    fn heartbeat(&mut self, attempt: u32, fence: FencingToken) -> Result<Granted, Refusal> {
        let declared = self.world.declared();
        self.world.run(&Heartbeat { caller: hand(), id: id("a"), attempt, fence, declared })
    }

    fn outcome(
        &mut self,
        attempt: u32,
        fence: FencingToken,
        finding: Finding,
    ) -> Result<ReportReply, Refusal> {
        self.tell(attempt, fence, Told::Sent(finding))
    }

    fn tell(&mut self, attempt: u32, fence: FencingToken, told: Told) -> Result<ReportReply, Refusal> {
        let declared = self.world.declared();
        let verb = Outcome { caller: hand(), id: id("a"), attempt, fence, told, random: 0, declared };
        self.world.run(&verb)
    }
}

#[test]
fn a_claim_is_the_start_and_a_repeat_of_it_gets_the_same_claim() {
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    kitchen.prepare("a").unwrap();
    let first = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    assert_eq!((first.attempt, kitchen.state("a")), (1, "in_progress"));
    assert_eq!(first.send_before, Some(kitchen.world.now().plus(seconds(5))));
    assert_eq!(first.mode, Mode::Send);
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
    assert_eq!(granted.send_before, Some(kitchen.world.now().plus(seconds(1))), "no later than the approval");
}

#[test]
fn heartbeats_extend_the_lease_and_never_the_window() {
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    kitchen.prepare("a").unwrap();
    let granted = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    let fence = granted.claim.fence;
    for _ in 0..5 {
        kitchen.wait(9);
        let view = kitchen.heartbeat(1, fence).unwrap().view;
        let until = view.operation.state.claim().unwrap().lease_expires_at;
        assert_eq!(until, kitchen.world.now().plus(seconds(10)));
        assert_eq!(Some(view.operation.attempts[0].send_before), granted.send_before);
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

/// A tool whose worker can ask the destination, completely, about requests that live for a minute.
fn with_worker_look_up() -> Tool {
    let mut tool = by_worker(tool(Recovery::LookUp(LookUpFacts {
        reference: Place::Worker,
        key_format: counterfoil::KeyFormat::Hex32,
        key_max_len: None,
        lookup: LookUpBy::Worker,
        authoritative: true,
        request_lifetime: Some(seconds(60)),
        queue_time: seconds(0),
        skew: seconds(10),
        lookup_for: seconds(3600),
    })));
    tool.budget.elapsed = seconds(3600);
    tool
}

/// A kitchen whose worker went silent after it was granted the first attempt.
fn silent(tool: Tool) -> (Kitchen, Granted) {
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    let granted = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    kitchen.wait(10);
    (kitchen, granted)
}

fn one(reference: &str) -> Told {
    Told::Found { reference: Some(reference.to_owned()), result: None, count: 1 }
}

#[test]
fn a_second_worker_investigates_and_its_hit_settles() {
    let (mut kitchen, first) = silent(with_worker_look_up());
    let second = kitchen.try_claim("w2", "c2", 10_000).unwrap();
    assert_eq!((second.mode, second.attempt, second.send_before), (Mode::Investigate, 1, None));
    assert!(second.claim.fence > first.claim.fence);
    assert_eq!((kitchen.state("a"), kitchen.row("a").attempts.len()), ("unknown", 1));
    // The same call again gets the same claim, another one none.
    assert_eq!(kitchen.try_claim("w2", "c2", 10_000).unwrap().claim, second.claim);
    assert_eq!(kitchen.try_claim("w3", "c3", 10_000).unwrap_err(), Refusal::InProgress);
    for _ in 0..2 {
        assert!(!kitchen.tell(1, second.claim.fence, one("po_1")).unwrap().stale);
    }
    let receipt = kitchen.row("a").state.receipt().unwrap().clone();
    assert_eq!((receipt.reference.as_deref(), receipt.source), (Some("po_1"), ReceiptSource::Lookup));
    assert_eq!(kitchen.row("a").look_ups.len(), 1, "told twice, kept once");
    // The first worker wakes: the same record changes nothing, another one is a second effect.
    assert!(!kitchen.tell(1, first.claim.fence, one("po_1")).unwrap().stale);
    assert!(!kitchen.row("a").duplicate_suspected);
    kitchen.tell(1, first.claim.fence, one("po_2")).unwrap();
    assert!(kitchen.row("a").duplicate_suspected);
}

#[test]
fn a_miss_counts_only_if_the_claim_was_granted_after_the_wait_on_both_clocks() {
    // Half the lease of 10 s, a minute of life, 10 s of skew: 75 s after the attempt.
    let (mut kitchen, _) = silent(with_worker_look_up());
    let early = kitchen.try_claim("w2", "c2", 600_000).unwrap();
    kitchen.wait(300);
    assert!(!kitchen.tell(1, early.claim.fence, Told::Absent).unwrap().stale);
    assert!(!kitchen.row("a").look_ups[0].counts, "granted too early, however late it reports");
    assert_eq!(kitchen.state("a"), "unknown");
    // A node that was started after the attempt has not waited yet.
    kitchen.wait(60);
    let mut verb = kitchen.claim("w2", "c3", 10_000);
    verb.seen = (1, seconds(5));
    let Claimed::Granted(hasty) = kitchen.world.run(&verb).unwrap() else { panic!("not granted") };
    kitchen.tell(1, hasty.claim.fence, Told::Absent).unwrap();
    assert_eq!((kitchen.state("a"), kitchen.row("a").look_ups[1].counts), ("unknown", false));
    kitchen.wait(60);
    let counted = kitchen.try_claim("w2", "c4", 10_000).unwrap();
    for _ in 0..2 {
        assert!(!kitchen.tell(1, counted.claim.fence, Told::Absent).unwrap().stale);
    }
    assert_eq!(
        kitchen.row("a").look_ups.last().map(|last| (last.answer, last.counts)),
        Some((LookUpAnswer::Absent, true))
    );
    assert_eq!(kitchen.state("a"), "prepared");
    assert!(kitchen.row("a").attempts[0].settled && kitchen.row("a").investigation.is_none());
    kitchen.wait(60);
    let again = kitchen.try_claim("w3", "c5", 10_000).unwrap();
    assert_eq!((again.mode, again.attempt), (Mode::Send, 2));
    let keys: Vec<_> = kitchen.row("a").attempts.iter().map(|attempt| attempt.key.clone()).collect();
    assert!(keys[0].is_some() && keys[0] == keys[1], "a reference never changes");
}

#[test]
fn an_investigation_that_ran_out_or_was_outranked_brings_only_proof() {
    let (mut kitchen, _) = silent(with_worker_look_up());
    kitchen.wait(600);
    let slow = kitchen.try_claim("w2", "c2", 10_000).unwrap();
    kitchen.wait(10);
    assert_eq!(kitchen.state("a"), "unknown", "its end proves nothing");
    assert!(kitchen.tell(1, slow.claim.fence, Told::Absent).unwrap().stale);
    assert_eq!(kitchen.heartbeat(1, slow.claim.fence).unwrap_err(), Refusal::StaleClaim);
    let next = kitchen.try_claim("w3", "c3", 10_000).unwrap();
    assert!(kitchen.tell(1, slow.claim.fence, Told::Absent).unwrap().stale);
    assert_eq!((kitchen.state("a"), kitchen.row("a").look_ups.len()), ("unknown", 0));
    kitchen.wait(9);
    let renewed = kitchen.heartbeat(1, next.claim.fence).unwrap();
    assert_eq!(renewed.claim.lease_expires_at, kitchen.world.now().plus(seconds(10)));
    assert_eq!(renewed.claim.look_up, next.claim.look_up, "the look-up did not begin later");
    assert!(!kitchen.tell(1, slow.claim.fence, one("po_1")).unwrap().stale);
    assert_eq!(kitchen.state("a"), "succeeded");
    // A fence that was never granted is nobody's.
    assert_eq!(kitchen.tell(1, FencingToken(99), one("po_1")).unwrap_err(), Refusal::StaleClaim);
    assert_eq!(kitchen.tell(1, FencingToken(0), one("po_1")).unwrap_err(), Refusal::StaleClaim);
}

#[test]
fn more_than_one_record_is_held_for_a_person() {
    let (mut kitchen, _) = silent(with_worker_look_up());
    let second = kitchen.try_claim("w2", "c2", 10_000).unwrap();
    let two = Told::Found { reference: Some("po_1".to_owned()), result: None, count: 2 };
    assert!(!kitchen.tell(1, second.claim.fence, two).unwrap().stale);
    assert_eq!(kitchen.hold("a"), Some(HoldReason::DuplicateSuspected));
    assert_eq!(kitchen.try_claim("w3", "c3", 10_000).unwrap_err(), Refusal::WrongState("unknown"));
    assert_eq!(kitchen.row("a").attempts.len(), 1);
}

#[test]
fn a_sender_that_finds_nothing_proves_nothing() {
    let (mut kitchen, first) = silent(with_worker_look_up());
    kitchen.wait(600);
    kitchen.tick("a");
    assert!(kitchen.tell(1, first.claim.fence, Told::Absent).unwrap().stale);
    assert_eq!((kitchen.state("a"), kitchen.row("a").attempts[0].settled), ("unknown", false));
    let second = kitchen.try_claim("w2", "c2", 10_000).unwrap();
    let refused = kitchen.outcome(1, second.claim.fence, refused_connection()).unwrap_err();
    assert!(matches!(refused, Refusal::InvalidArguments(_)), "an investigation sends nothing: {refused}");
    assert!(!kitchen.outcome(1, second.claim.fence, lost()).unwrap().stale);
    assert_eq!(kitchen.row("a").look_ups[0].answer, LookUpAnswer::Failed);
}

#[test]
fn what_the_code_states_must_be_what_the_file_declares() {
    let mut kitchen = Kitchen::with(with_worker_key());
    kitchen.prepare("a").unwrap();
    let mut verb = kitchen.claim("w1", "c1", 10_000);
    verb.stated = Stated(vec![
        ("recovery.kind", Fact::Word("idempotency_key".to_owned())),
        ("recovery.retention", Fact::Length(seconds(60))),
    ]);
    let differs = vec!["recovery.retention".to_owned()];
    assert_eq!(kitchen.world.run(&verb).unwrap_err(), Refusal::DeclarationMismatch { differs });
    assert_eq!(kitchen.row("a").attempts.len(), 0);
    verb.stated.0.pop();
    assert!(matches!(kitchen.world.run(&verb).unwrap(), Claimed::Granted(_)));
}

#[test]
fn another_principal_does_not_get_or_keep_a_claim() {
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    kitchen.prepare("a").unwrap();
    let granted = kitchen.try_claim("w1", "c1", 10_000).unwrap();
    let other = caller("other-hand", &["worker"]);
    let verb = TakeClaim { caller: other.clone(), ..kitchen.claim("w1", "c1", 10_000) };
    assert_eq!(kitchen.world.run(&verb).unwrap_err(), Refusal::InProgress);
    let declared = kitchen.world.declared();
    let verb = Heartbeat { caller: other, id: id("a"), attempt: 1, fence: granted.claim.fence, declared };
    assert_eq!(kitchen.world.run(&verb).unwrap_err(), Refusal::StaleClaim);
}

#[test]
fn prepare_with_a_claim_is_one_commit_or_stores_nothing() {
    let offer = |stated| Offer {
        worker: WorkerName::parse("w1").unwrap(),
        policy_version: 1,
        request_digest: "v1:x".to_owned(),
        scope: Some("vendor-1".to_owned()),
        bucket: None,
        lease: Some(seconds(10)),
        claim: Some(ByWorker { claim_id: Some("c1".to_owned()), held_by: hand().principal, stated }),
    };
    let both = caller("hand", &["agent", "worker"]);
    let wrong = Stated(vec![("budget.attempts", Fact::Number(9))]);
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    let mut verb = kitchen.draft("a", FLOUR);
    (verb.caller, verb.execute) = (both.clone(), true);
    verb.offer = Some(offer(wrong));
    assert!(matches!(kitchen.world.run(&verb).unwrap_err(), Refusal::DeclarationMismatch { .. }));
    verb.offer = Some(offer(Stated::default()));
    verb.caller = app();
    assert_eq!(kitchen.world.run(&verb).unwrap_err(), Refusal::RoleForbidden("worker"));
    assert!(kitchen.world.operation(&account(), &id("a")).is_none(), "the ID is free");
    verb.caller = both.clone();
    let reply = kitchen.world.run(&verb).unwrap();
    let granted = Granted::now(reply.view).unwrap();
    assert_eq!((reply.created, granted.attempt, kitchen.state("a")), (true, 1, "in_progress"));
    assert_eq!(granted.claim.claim_id.as_deref(), Some("c1"));
    // Not a worker's tool: nothing is stored either.
    let mut kitchen = Kitchen::with(with_nothing());
    let mut verb = kitchen.draft("a", FLOUR);
    (verb.caller, verb.execute, verb.offer) = (both, true, Some(offer(Stated::default())));
    assert_eq!(kitchen.world.run(&verb).unwrap_err(), Refusal::NotAWorkerTool);
    assert!(kitchen.world.operation(&account(), &id("a")).is_none());
}

#[test]
fn a_pause_stops_sends_and_lets_look_ups_go_on() {
    let mut kitchen = Kitchen::with(with_worker_look_up());
    kitchen.prepare("a").unwrap();
    kitchen.pause();
    assert_eq!(kitchen.try_claim("w1", "c1", 10_000).unwrap_err(), Refusal::Paused);
    kitchen.world.resume(Some(&ToolName::parse(TOOL).unwrap()));
    kitchen.try_claim("w1", "c1", 10_000).unwrap();
    kitchen.wait(10);
    kitchen.pause();
    assert_eq!(kitchen.try_claim("w2", "c2", 10_000).unwrap().mode, Mode::Investigate);
    // With a key a repeat would be the next step: that is a send.
    let mut kitchen = Kitchen::with(with_worker_key());
    kitchen.prepare("a").unwrap();
    kitchen.try_claim("w1", "c1", 10_000).unwrap();
    kitchen.wait(11);
    kitchen.pause();
    assert_eq!(kitchen.try_claim("w2", "c2", 10_000).unwrap_err(), Refusal::Paused);
    assert_eq!(kitchen.row("a").attempts.len(), 1);
}

#[test]
fn a_look_up_on_demand_is_left_to_the_worker() {
    let (mut kitchen, _) = silent(with_worker_look_up());
    let verb = LookUpNow {
        caller: ann(),
        id: id("a"),
        worker: WorkerName::parse("node-1").unwrap(),
        random: 0,
        declared: kitchen.world.declared(),
    };
    let asked = kitchen.world.run(&verb).unwrap();
    assert!(asked.question.is_none() && kitchen.row("a").investigation.is_none(), "this process asks nobody");
    let granted = kitchen.try_claim("w2", "c2", 10_000).unwrap();
    assert_eq!(granted.mode, Mode::Investigate);
    let asked = kitchen.world.run(&verb).unwrap();
    assert!(asked.question.is_none());
    assert_eq!(kitchen.row("a").fence, granted.claim.fence, "nobody is outranked");
}

#[test]
fn nobody_reports_for_somebody_elses_claim() {
    let mut kitchen = Kitchen::with(by_worker(with_nothing()));
    kitchen.prepare("a").unwrap();
    let fence = kitchen.try_claim("w1", "c1", 10_000).unwrap().claim.fence;
    for late in [false, true] {
        if late {
            kitchen.wait(60);
            kitchen.tick("a");
        }
        let before = kitchen.row("a").clone();
        for told in [
            Told::Sent(Finding::not_sent(counterfoil::operation::Marker::NotConnected, "")),
            Told::Sent(answer(Meaning::Rejected, 400)),
            Told::Sent(answer(Meaning::Succeeded, 201)),
            Told::Found { reference: Some("po-1".to_owned()), result: None, count: 1 },
            Told::Absent,
        ] {
            let (caller, declared) = (caller("another", &["worker"]), kitchen.world.declared());
            for fence in [fence, FencingToken(fence.0 + 1)] {
                let (told, caller, declared) = (told.clone(), caller.clone(), declared.clone());
                let verb = Outcome { caller, id: id("a"), attempt: 1, fence, told, random: 0, declared };
                assert_eq!(kitchen.world.run(&verb).unwrap_err(), Refusal::StaleClaim);
            }
        }
        assert_eq!(kitchen.row("a"), &before, "late: {late}");
    }
    kitchen.outcome(1, fence, answer(Meaning::Succeeded, 201)).unwrap();
    assert_eq!(kitchen.state("a"), "succeeded");
}

#[test]
fn whoever_ever_looked_brings_proof_however_late() {
    for absent_meanwhile in [false, true] {
        let (mut kitchen, _) = silent(with_worker_look_up());
        let mine = kitchen.try_claim("w2", "c2", 10_000).unwrap();
        assert_eq!(mine.mode, Mode::Investigate);
        kitchen.wait(20);
        kitchen.tick("a");
        // Somebody with another token looks next, and may have said by now what it found.
        let other = caller("another", &["worker"]);
        let verb = TakeClaim { caller: other.clone(), ..kitchen.claim("w3", "c3", 10_000) };
        let Claimed::Granted(theirs) = kitchen.world.run(&verb).unwrap() else { panic!("it is due") };
        assert!(theirs.mode == Mode::Investigate && theirs.claim.fence > mine.claim.fence);
        let declared = kitchen.world.declared();
        let absent = Outcome {
            caller: other,
            id: id("a"),
            attempt: 1,
            fence: theirs.claim.fence,
            told: Told::Absent,
            random: 0,
            declared,
        };
        if absent_meanwhile {
            kitchen.world.run(&absent).unwrap();
        }
        let found = Told::Found { reference: Some("po-1".to_owned()), result: None, count: 1 };
        let stranger = Outcome {
            caller: caller("third", &["worker"]),
            fence: mine.claim.fence,
            told: found.clone(),
            ..absent.clone()
        };
        assert_eq!(kitchen.world.run(&stranger).unwrap_err(), Refusal::StaleClaim);
        assert!(kitchen.tell(1, mine.claim.fence, Told::Absent).unwrap().stale, "a miss moves nothing");
        assert_eq!(kitchen.state("a"), "unknown");
        kitchen.tell(1, mine.claim.fence, found).unwrap();
        assert_eq!(kitchen.state("a"), "succeeded", "absent meanwhile: {absent_meanwhile}");
    }
}

/// The end of the look-ups passes while nobody looks: no evidence that plans nothing may hide it.
#[test]
fn what_plans_nothing_does_not_hide_the_end_of_the_look_ups() {
    type Say = fn(&mut Kitchen, FencingToken, FencingToken);
    let sayings: [(&str, Say); 3] = [
        ("a heartbeat", |kitchen, _, looks| {
            kitchen.heartbeat(1, looks).unwrap();
        }),
        ("a late miss", |kitchen, sends, _| {
            assert!(kitchen.tell(1, sends, Told::Absent).unwrap().stale);
        }),
        ("a note", |kitchen, _, _| {
            let verb = counterfoil::verbs::AddNote {
                caller: ann(),
                id: id("a"),
                text: counterfoil::verbs::Words::parse("asked them").unwrap(),
                remind_at: None,
                declared: kitchen.world.declared(),
            };
            kitchen.world.run(&verb).unwrap();
        }),
    ];
    for (name, say) in sayings {
        let (mut kitchen, first) = silent(with_worker_look_up());
        let looks = kitchen.try_claim("w2", "c2", 3_600_000).unwrap();
        assert_eq!(looks.mode, Mode::Investigate);
        kitchen.wait(3595);
        say(&mut kitchen, first.claim.fence, looks.claim.fence);
        let due = kitchen.world.due_at(&account(), &id("a"));
        assert!(due.is_some_and(|due| due <= kitchen.world.now()), "{name}: {due:?}");
        assert_eq!(kitchen.tick("a").view.next.action, counterfoil::decide::Action::Review, "{name}");
        let due = kitchen.world.due_at(&account(), &id("a"));
        assert!(due.is_none_or(|due| due > kitchen.world.now()), "{name}: looked at, {due:?}");
    }
}
