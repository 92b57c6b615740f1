//! Look-ups: a hit settles at once, a miss only once nothing can arrive any more, and no look-up ever allows a send
//! that could double the effect.

use counterfoil::decide::Action;
use counterfoil::destination::LookedUp;
use counterfoil::error::Refusal;
use counterfoil::id::{FencingToken, WorkerName};
use counterfoil::operation::{LookUpAnswer, ReceiptSource};
use counterfoil::pointer::Pointer;
use counterfoil::recovery::{HoldReason, KeyFacts, LookUpBy, LookUpFacts, LookUpRequest, Place, Recovery};
use counterfoil::time::Timestamp;
use counterfoil::verbs::{
    Asked, Begun, Investigate, Investigated, LookUpNow, LookUpReport, Resolve, Verdict, Words,
};
use counterfoil::{KeyFormat, policy::Meaning};

use crate::support::*;

fn with_look_up(authoritative: bool, lifetime: Option<u64>) -> counterfoil::policy::Tool {
    tool(Recovery::LookUp(LookUpFacts {
        reference: Place::Body("/client_reference".parse::<Pointer>().unwrap()),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        lookup: LookUpBy::Http(Box::new(LookUpRequest {
            method: "GET".to_owned(),
            url: "https://supplier.example/orders?ref={reference}".to_owned(),
            found: "/0/id".parse().unwrap(),
            count: None,
            must_match: Vec::new(),
        })),
        authoritative,
        request_lifetime: lifetime.map(seconds),
        queue_time: seconds(30),
        skew: seconds(60),
        lookup_for: seconds(3600),
    }))
}

fn looked(answer: LookUpAnswer) -> LookedUp {
    let reference = (answer == LookUpAnswer::Found).then(|| "po_4711".to_owned());
    LookedUp { answer, reference, error: None, ..LookedUp::failed("") }
}

/// A kitchen whose order was sent once, with its reply lost.
fn reply_lost(tool: counterfoil::policy::Tool) -> Kitchen {
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen
}

fn investigate(kitchen: &mut Kitchen) -> Investigated {
    let verb = Investigate {
        account: account(),
        id: id("a"),
        worker: WorkerName::parse("node-2").unwrap(),
        random: 0,
        declared: kitchen.world.declared(),
    };
    kitchen.world.run(&verb).unwrap()
}

fn claimed(kitchen: &mut Kitchen) -> (FencingToken, Timestamp) {
    match investigate(kitchen) {
        Investigated::Ask(question) => (question.fence, kitchen.world.now()),
        other @ (Investigated::Wait | Investigated::Nothing) => panic!("no look-up is due: {other:?}"),
    }
}

fn tell(kitchen: &mut Kitchen, claim: (FencingToken, Timestamp), waited: u64, looked: LookedUp) {
    let verb = LookUpReport {
        account: account(),
        id: id("a"),
        fence: claim.0,
        worker: WorkerName::parse("node-2").unwrap(),
        began_at: claim.1,
        waited: seconds(waited),
        looked,
        random: 0,
        declared: kitchen.world.declared(),
    };
    kitchen.world.run(&verb).unwrap();
}

#[test]
fn a_hit_settles_at_once() {
    let mut kitchen = reply_lost(with_look_up(false, None));
    let claim = claimed(&mut kitchen);
    tell(&mut kitchen, claim, 0, looked(LookUpAnswer::Found));
    let receipt = kitchen.row("a").state.receipt().unwrap();
    assert_eq!((receipt.source, receipt.reference.as_deref()), (ReceiptSource::Lookup, Some("po_4711")));
}

#[test]
fn a_hit_under_an_outranked_claim_settles_too() {
    let mut kitchen = reply_lost(with_look_up(true, Some(300)));
    let old = claimed(&mut kitchen);
    kitchen.wait(3600 - 60);
    claimed(&mut kitchen);
    tell(&mut kitchen, old, 0, looked(LookUpAnswer::Found));
    assert_eq!(kitchen.state("a"), "succeeded");
}

#[test]
fn a_miss_right_after_the_timeout_settles_nothing_and_nothing_is_sent() {
    let mut kitchen = reply_lost(with_look_up(true, Some(300)));
    let claim = claimed(&mut kitchen);
    tell(&mut kitchen, claim, 10_000, looked(LookUpAnswer::Absent));
    assert_eq!((kitchen.state("a"), kitchen.hold("a")), ("unknown", None));
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert!(!kitchen.row("a").look_ups[0].counts);
}

#[test]
fn a_miss_counts_only_after_the_bound_on_both_clocks_and_under_the_newest_claim() {
    // send_before (15) + lifetime (300) + queue (30) + skew (60)
    for (after, waited, counts) in [(405, 406, false), (406, 405, false), (406, 406, true)] {
        let mut kitchen = reply_lost(with_look_up(true, Some(300)));
        kitchen.wait(after);
        let claim = claimed(&mut kitchen);
        tell(&mut kitchen, claim, waited, looked(LookUpAnswer::Absent));
        let state = if counts { "prepared" } else { "unknown" };
        assert_eq!(kitchen.state("a"), state, "{after} {waited}");
        assert_eq!(kitchen.row("a").attempts[0].settled, counts);
        if counts {
            assert_eq!(kitchen.carry("a"), Begun::Started(2), "budget is left, so it is tried again");
        }
    }
    let mut kitchen = reply_lost(with_look_up(true, Some(300)));
    kitchen.wait(406);
    let old = claimed(&mut kitchen);
    kitchen.wait(60);
    claimed(&mut kitchen);
    tell(&mut kitchen, old, 10_000, looked(LookUpAnswer::Absent));
    assert_eq!(kitchen.state("a"), "unknown", "somebody else investigates");
}

#[test]
fn an_old_miss_that_is_read_late_counts_for_nothing() {
    let mut kitchen = reply_lost(with_look_up(true, Some(300)));
    let claim = claimed(&mut kitchen);
    kitchen.wait(1_000);
    tell(&mut kitchen, claim, 1_000, looked(LookUpAnswer::Absent));
    assert_eq!(kitchen.state("a"), "unknown");
}

#[test]
fn where_clock_or_ledger_are_in_doubt_no_miss_counts_and_a_hit_settles() {
    for restored in [false, true] {
        let mut kitchen = reply_lost(with_look_up(true, Some(300)));
        kitchen.wait(1_000);
        kitchen.world.clock_in_doubt = !restored;
        kitchen.world.restored = restored;
        let claim = claimed(&mut kitchen);
        tell(&mut kitchen, claim, 10_000, looked(LookUpAnswer::Absent));
        assert_eq!((kitchen.state("a"), kitchen.row("a").look_ups[0].counts), ("unknown", false));
        kitchen.wait(60);
        let claim = claimed(&mut kitchen);
        tell(&mut kitchen, claim, 10_000, looked(LookUpAnswer::Found));
        assert_eq!(kitchen.state("a"), "succeeded");
    }
}

#[test]
fn one_look_up_runs_at_a_time() {
    let mut kitchen = reply_lost(with_look_up(true, Some(300)));
    claimed(&mut kitchen);
    assert!(matches!(investigate(&mut kitchen), Investigated::Wait));
    kitchen.wait(31);
    claimed(&mut kitchen);
}

#[test]
fn a_slow_answer_comes_under_the_claim_that_it_was_asked_for() {
    let mut tool = with_look_up(true, Some(300));
    tool.lease = seconds(2);
    let mut kitchen = reply_lost(tool);
    kitchen.wait(410);
    let claim = claimed(&mut kitchen);
    // The tool's timeout is 20 seconds.
    kitchen.wait(20);
    assert!(matches!(investigate(&mut kitchen), Investigated::Wait));
    tell(&mut kitchen, claim, 1_000, looked(LookUpAnswer::Absent));
    assert_eq!(kitchen.state("a"), "prepared", "the miss counts");
}

#[test]
fn no_claim_is_taken_from_a_sender_that_still_reads() {
    let mut kitchen = Kitchen::with(with_look_up(true, Some(300)));
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let until = kitchen.world.now().plus(seconds(60));
    let lingers = counterfoil::destination::Finding { lingers_until: Some(until), ..lost() };
    kitchen.report("a", 1, lingers);
    assert!(!matches!(investigate(&mut kitchen), Investigated::Ask(_)));
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.state("a"), "succeeded");
}

#[test]
fn where_no_miss_can_count_a_person_is_asked_and_a_later_hit_still_settles() {
    let mut kitchen = reply_lost(with_look_up(false, None));
    assert_eq!(kitchen.hold("a"), None, "the first look-up comes before a person");
    let claim = claimed(&mut kitchen);
    tell(&mut kitchen, claim, 0, looked(LookUpAnswer::Absent));
    assert_eq!(kitchen.next("a"), (Action::Review, Some("not-found")));
    let claim = claimed(&mut kitchen);
    tell(&mut kitchen, claim, 0, looked(LookUpAnswer::Found));
    assert_eq!(kitchen.state("a"), "succeeded");
}

#[test]
fn a_person_is_asked_after_three_seconds_without_any_look_up() {
    let mut kitchen = reply_lost(with_look_up(false, None));
    kitchen.wait(2);
    assert_eq!(kitchen.next("a").0, Action::Reconcile);
    kitchen.wait(1);
    assert_eq!(kitchen.next("a"), (Action::Review, Some("not-protected")));
    claimed(&mut kitchen);
}

#[test]
fn look_ups_without_an_answer_end_with_a_person() {
    let mut kitchen = reply_lost(with_look_up(true, Some(300)));
    let claim = claimed(&mut kitchen);
    tell(&mut kitchen, claim, 0, looked(LookUpAnswer::Unclear));
    assert_eq!(kitchen.hold("a"), None);
    kitchen.wait(3600);
    assert_eq!(kitchen.next("a"), (Action::Review, Some("look-up-failed")));
    assert!(matches!(investigate(&mut kitchen), Investigated::Nothing));
}

#[test]
fn what_is_not_plainly_ours_is_for_a_person() {
    for (answer, hold) in [
        (LookUpAnswer::Several, HoldReason::DuplicateSuspected),
        (LookUpAnswer::Differs, HoldReason::FoundDiffers),
    ] {
        let mut kitchen = reply_lost(with_look_up(true, Some(300)));
        kitchen.wait(1_000);
        let claim = claimed(&mut kitchen);
        tell(&mut kitchen, claim, 1_000, looked(answer));
        assert_eq!((kitchen.state("a"), kitchen.hold("a")), ("unknown", Some(hold)));
        assert_eq!(kitchen.carry("a"), Begun::NotNow);
    }
}

#[test]
fn another_vendor_account_is_not_believed() {
    let mut kitchen = reply_lost(with_look_up(true, Some(300)));
    kitchen.wait(1_000);
    let claim = claimed(&mut kitchen);
    let elsewhere = LookedUp { scope_changed: true, ..looked(LookUpAnswer::Absent) };
    tell(&mut kitchen, claim, 1_000, elsewhere);
    assert_eq!((kitchen.state("a"), kitchen.hold("a")), ("unknown", Some(HoldReason::ScopeChanged)));
}

fn ask_as(caller: counterfoil::caller::Caller, kitchen: &mut Kitchen) -> Result<Asked, Refusal> {
    let verb = LookUpNow {
        caller,
        id: id("a"),
        worker: WorkerName::parse("node-3").unwrap(),
        random: 0,
        declared: kitchen.world.declared(),
    };
    kitchen.world.run(&verb)
}

/// The claim of a look-up that was asked for, if one was granted.
fn asked(kitchen: &mut Kitchen) -> Option<(FencingToken, Timestamp)> {
    let now = kitchen.world.now();
    ask_as(app(), kitchen).unwrap().question.map(|question| (question.fence, now))
}

#[test]
fn agents_and_approvers_may_ask_for_a_look_up() {
    let mut kitchen = reply_lost(with_look_up(true, Some(300)));
    for roles in [["worker"], ["auditor"], ["operator"]] {
        let refused = ask_as(caller("eve", &roles), &mut kitchen).map(|asked| asked.question.is_some());
        assert_eq!(refused, Err(Refusal::RoleForbidden("agent or approver")), "{roles:?}");
    }
    assert!(ask_as(ann(), &mut kitchen).unwrap().question.is_some());
    assert!(asked(&mut kitchen).is_none(), "one look-up runs at a time");
}

#[test]
fn look_ups_on_demand_keep_the_first_delay() {
    let mut tool = with_look_up(true, Some(300));
    tool.budget.first_delay = seconds(2);
    tool.budget.max_delay = seconds(60);
    let mut kitchen = reply_lost(tool);
    let mut made = 0;
    for second in 0..20 {
        if let Some(claim) = asked(&mut kitchen) {
            tell(&mut kitchen, claim, 0, looked(LookUpAnswer::Unclear));
            assert_eq!(second % 2, 0);
            made += 1;
        }
        assert!(asked(&mut kitchen).is_none(), "twice within the delay");
        kitchen.wait(1);
    }
    assert_eq!(made, 10);
}

#[test]
fn a_look_up_that_is_asked_for_too_soon_comes_as_soon_as_it_may() {
    let mut tool = with_look_up(true, Some(300));
    tool.budget.first_delay = seconds(10);
    tool.budget.max_delay = seconds(60);
    let mut kitchen = reply_lost(tool);
    for _ in 0..3 {
        let claim = asked(&mut kitchen).unwrap();
        tell(&mut kitchen, claim, 0, looked(LookUpAnswer::Unclear));
        kitchen.wait(10);
    }
    let claim = asked(&mut kitchen).unwrap();
    let verb = LookUpReport {
        account: account(),
        id: id("a"),
        fence: claim.0,
        worker: WorkerName::parse("node-3").unwrap(),
        began_at: claim.1,
        waited: seconds(0),
        looked: looked(LookUpAnswer::Unclear),
        // As late as it may be.
        random: u64::MAX,
        declared: kitchen.world.declared(),
    };
    kitchen.world.run(&verb).unwrap();
    kitchen.wait(1);
    let view = ask_as(app(), &mut kitchen).unwrap().view;
    assert_eq!(view.next.at, Some(claim.1.plus(seconds(10))));
    assert!(matches!(investigate(&mut kitchen), Investigated::Nothing));
    kitchen.wait(9);
    claimed(&mut kitchen);
}

#[test]
fn a_miss_on_demand_counts_by_the_same_rule() {
    for (after, waited, counts) in [(100, 10_000, false), (406, 405, false), (406, 406, true)] {
        let mut kitchen = reply_lost(with_look_up(true, Some(300)));
        kitchen.wait(after);
        let claim = asked(&mut kitchen).unwrap();
        tell(&mut kitchen, claim, waited, looked(LookUpAnswer::Absent));
        assert_eq!(kitchen.row("a").attempts[0].settled, counts, "{after} {waited}");
        assert_eq!(kitchen.state("a"), if counts { "prepared" } else { "unknown" });
    }
}

#[test]
fn asking_never_moves_a_send() {
    let facts = KeyFacts { lookup: with_look_up(true, None).recovery.lookup().cloned(), ..key_facts() };
    let mut kitchen = reply_lost(tool(Recovery::IdempotencyKey(facts)));
    let before = kitchen.row("a").clone();
    assert!(asked(&mut kitchen).is_none(), "a copy is due, and its answer tells more");
    assert_eq!(*kitchen.row("a"), before);
    kitchen.begin("a", 2);
    assert!(asked(&mut kitchen).is_none(), "an attempt runs");
    let mut kitchen = reply_lost(with_nothing());
    assert!(asked(&mut kitchen).is_none(), "there is nobody to ask");
}

#[test]
fn a_sender_that_still_reads_is_not_outranked_on_demand() {
    let mut kitchen = Kitchen::with(with_look_up(true, Some(300)));
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let until = kitchen.world.now().plus(seconds(60));
    kitchen.report("a", 1, counterfoil::destination::Finding { lingers_until: Some(until), ..lost() });
    assert!(asked(&mut kitchen).is_none());
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.state("a"), "succeeded");
    let again = ask_as(app(), &mut kitchen).unwrap();
    assert!(again.view.replayed && again.question.is_none());
}

#[test]
fn what_nothing_looks_up_any_more_can_still_be_asked_for() {
    for abandoned in [false, true] {
        let mut kitchen = reply_lost(with_look_up(true, Some(300)));
        kitchen.wait(3600);
        kitchen.tick("a");
        assert!(matches!(investigate(&mut kitchen), Investigated::Nothing));
        if abandoned {
            let verb = Resolve {
                caller: ann(),
                id: id("a"),
                verdict: Verdict::Abandoned,
                note: Words::parse("nobody knows").unwrap(),
                if_version: None,
                declared: kitchen.world.declared(),
            };
            kitchen.world.run(&verb).unwrap();
        }
        let claim = asked(&mut kitchen).unwrap();
        tell(&mut kitchen, claim, 0, looked(LookUpAnswer::Unclear));
        let held = kitchen.next("a").0;
        assert_eq!(held, if abandoned { Action::None } else { Action::Review });
        assert_eq!(kitchen.carry("a"), Begun::NotNow);
        kitchen.wait(60);
        let claim = asked(&mut kitchen).unwrap();
        tell(&mut kitchen, claim, 0, looked(LookUpAnswer::Found));
        assert_eq!(kitchen.state("a"), "succeeded");
    }
}

/// Between the claim and the report another vendor account came into force: whoever asked may have asked there.
#[test]
fn a_miss_does_not_count_where_the_vendor_account_changed_since_the_claim() {
    for back in [false, true] {
        let mut kitchen = reply_lost(with_look_up(true, Some(300)));
        kitchen.wait(600);
        let claim = claimed(&mut kitchen);
        let mut changed = with_look_up(true, Some(300));
        if let counterfoil::policy::Carrier::Http(http) = &mut changed.carrier {
            http.scope = Some("vendor-2".to_owned());
        }
        kitchen.world.declare(changed);
        if back {
            kitchen.world.declare(with_look_up(true, Some(300)));
        }
        tell(&mut kitchen, claim, 600, looked(LookUpAnswer::Absent));
        let hold = kitchen.tick("a").view.next.reason;
        match back {
            // Declared as before: the miss is good.
            true => assert_eq!(kitchen.state("a"), "prepared"),
            false => {
                assert_eq!((kitchen.state("a"), hold), ("unknown", Some(HoldReason::ScopeChanged.label())));
            }
        }
        assert_eq!(kitchen.row("a").unsettled(), usize::from(!back));
    }
    // A record that carries our reference is proof all the same.
    let mut kitchen = reply_lost(with_look_up(true, Some(300)));
    kitchen.wait(600);
    let claim = claimed(&mut kitchen);
    let mut changed = with_look_up(true, Some(300));
    if let counterfoil::policy::Carrier::Http(http) = &mut changed.carrier {
        http.scope = Some("vendor-2".to_owned());
    }
    kitchen.world.declare(changed);
    tell(&mut kitchen, claim, 600, looked(LookUpAnswer::Found));
    assert_eq!(kitchen.state("a"), "succeeded");
}
