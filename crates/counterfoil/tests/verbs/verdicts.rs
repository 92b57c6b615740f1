//! What a person says: each verdict where it may be given, and every refusal where it may not.

use counterfoil::caller::Caller;
use counterfoil::decide::Action;
use counterfoil::destination::Finding;
use counterfoil::error::Refusal;
use counterfoil::operation::{ReceiptSource, RejectionCode};
use counterfoil::policy::Meaning;
use counterfoil::recovery::{NoneFacts, Recovery};
use counterfoil::snapshot::View;
use counterfoil::state::State;
use counterfoil::time::Timestamp;
use counterfoil::verbs::{AddNote, Begun, Release, Resolve, Verdict, Words};

use super::support::*;

pub(crate) const ABSENT: Verdict = Verdict::ConfirmedAbsent { allow_another_attempt: false };
pub(crate) const ANOTHER: Verdict = Verdict::ConfirmedAbsent { allow_another_attempt: true };

fn words(text: &str) -> Words {
    Words::parse(text).unwrap()
}

fn succeeded(reference: &str) -> Verdict {
    Verdict::Succeeded { reference: words(reference) }
}

impl Kitchen {
    fn resolve_as(
        &mut self,
        caller: Caller,
        operation: &str,
        verdict: Verdict,
        if_version: Option<u64>,
    ) -> Result<View, Refusal> {
        let verb = Resolve {
            caller,
            id: id(operation),
            verdict,
            note: words("looked in the portal"),
            if_version,
            declared: self.world.declared(),
        };
        self.world.run(&verb)
    }

    pub(crate) fn resolve(&mut self, operation: &str, verdict: Verdict) -> Result<View, Refusal> {
        self.resolve_as(ann(), operation, verdict, None)
    }

    pub(crate) fn release(&mut self, caller: Caller, operation: &str) -> Result<View, Refusal> {
        let declared = self.world.declared();
        let note = words("the supplier will not answer");
        self.world.run(&Release { caller, id: id(operation), note, if_version: None, declared })
    }

    fn annotate(&mut self, operation: &str, remind_at: Option<Timestamp>) -> Result<View, Refusal> {
        let (text, declared) = (words("called, nobody there"), self.world.declared());
        self.world.run(&AddNote { caller: ann(), id: id(operation), text, remind_at, declared })
    }

    fn attempts(&self, operation: &str) -> usize {
        self.row(operation).attempts.len()
    }

    fn told(&self, kind: &str) -> usize {
        self.world.evidence().iter().filter(|told| told.evidence.kind == kind).count()
    }
}

/// Nobody can look, and a request is at most five minutes under way.
pub(crate) fn bounded() -> counterfoil::policy::Tool {
    tool(Recovery::None(NoneFacts { request_lifetime: Some(seconds(300)), queue_time: seconds(30) }))
}

/// An attempt whose reply was lost.
fn lost_reply(tool: counterfoil::policy::Tool) -> Kitchen {
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    assert_eq!(kitchen.state("a"), "unknown");
    kitchen
}

/// A rejection that a proof of success contradicts.
fn contradicted() -> Kitchen {
    let mut kitchen = lost_reply(bounded());
    kitchen.wait(3600);
    kitchen.resolve("a", ABSENT).unwrap();
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert!(kitchen.row("a").duplicate_suspected);
    assert_eq!(kitchen.row("a").receipt_expires_at, None);
    kitchen
}

#[test]
fn a_reference_settles_what_nobody_could_tell() {
    let mut kitchen = lost_reply(with_nothing());
    let view = kitchen.resolve("a", succeeded("po_9")).unwrap();
    let receipt = view.operation.state.receipt().unwrap();
    assert_eq!((receipt.reference.as_deref(), receipt.source), (Some("po_9"), ReceiptSource::Person));
    assert!(view.operation.receipt_expires_at.is_some());
    let version = kitchen.row("a").version;
    kitchen.resolve("a", succeeded("po_9")).unwrap();
    assert_eq!(kitchen.row("a").version, version, "the same decision again writes nothing");
    let bob = caller("bob", &["approver"]);
    assert_eq!(
        kitchen.resolve_as(bob, "a", succeeded("po_10"), None).unwrap_err(),
        Refusal::WrongState("succeeded")
    );
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
}

#[test]
fn only_an_approver_who_may_use_the_tool_decides_about_what_was_shown() {
    let mut kitchen = lost_reply(with_nothing());
    let version = kitchen.row("a").version;
    assert_eq!(
        kitchen.resolve_as(app(), "a", Verdict::Abandoned, None).unwrap_err(),
        Refusal::RoleForbidden("approver")
    );
    let elsewhere = Caller { tools: vec!["mail.*".to_owned()], ..ann() };
    assert_eq!(
        kitchen.resolve_as(elsewhere.clone(), "a", Verdict::Abandoned, None).unwrap_err(),
        Refusal::ToolForbidden
    );
    assert_eq!(kitchen.release(elsewhere, "a").unwrap_err(), Refusal::ToolForbidden);
    assert_eq!(kitchen.release(app(), "a").unwrap_err(), Refusal::RoleForbidden("approver"));
    assert_eq!(
        kitchen.resolve_as(ann(), "a", Verdict::Abandoned, Some(version - 1)).unwrap_err(),
        Refusal::ChangedMeanwhile
    );
    assert_eq!(kitchen.row("a").version, version);
    kitchen.resolve_as(ann(), "a", Verdict::Abandoned, Some(version)).unwrap();
}

#[test]
fn words_say_something_and_are_not_a_book() {
    assert!(Words::parse(" \n").is_none());
    assert!(Words::parse(&"x".repeat(Words::MOST + 1)).is_none());
    assert!(Words::parse(&"x".repeat(Words::MOST)).is_some());
}

#[test]
fn absence_is_established_only_after_the_last_request_cannot_arrive_any_more() {
    let mut kitchen = lost_reply(with_nothing());
    kitchen.wait(365 * 24 * 3600);
    for verdict in [ABSENT, ANOTHER] {
        assert_eq!(kitchen.resolve("a", verdict).unwrap_err(), Refusal::TooEarly { not_before: None });
    }

    let mut kitchen = lost_reply(bounded());
    let bound = kitchen.row("a").attempts[0].send_before.plus(seconds(300 + 30 + 60));
    let too_early = Refusal::TooEarly { not_before: Some(bound) };
    assert_eq!(kitchen.resolve("a", ABSENT).unwrap_err(), too_early);
    let left = bound.since(kitchen.world.now());
    kitchen.world.advance(left);
    assert_eq!(kitchen.resolve("a", ABSENT).unwrap_err(), too_early, "the instant itself is too early");
    kitchen.world.advance(std::time::Duration::from_millis(1));
    kitchen.world.clock_in_doubt = true;
    assert_eq!(kitchen.resolve("a", ABSENT).unwrap_err(), too_early, "by a clock that is in doubt");
    assert!(kitchen.row("a").attempts.iter().all(|attempt| !attempt.settled));
    kitchen.world.clock_in_doubt = false;
    kitchen.world.restored = true;
    assert_eq!(
        kitchen.resolve("a", ABSENT).unwrap_err(),
        too_early,
        "by a ledger that may have forgotten a send"
    );
    kitchen.world.restored = false;
    let view = kitchen.resolve("a", ABSENT).unwrap();
    let State::Rejected(ended) = &view.operation.state else { panic!("{:?}", view.operation.state) };
    assert_eq!((ended.code, ended.by.as_ref().unwrap().as_str()), (RejectionCode::ConfirmedAbsent, "ann"));
    assert_eq!(view.operation.unsettled(), 0);
    assert!(view.operation.receipt_expires_at.is_some());
    let version = kitchen.row("a").version;
    kitchen.resolve("a", ABSENT).unwrap();
    assert_eq!(kitchen.row("a").version, version);
    assert_eq!(kitchen.resolve("a", ANOTHER).unwrap_err(), Refusal::WrongState("rejected"));
    let bob = caller("bob", &["approver"]);
    assert_eq!(kitchen.resolve_as(bob, "a", ABSENT, None).unwrap_err(), Refusal::WrongState("rejected"));
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
}

#[test]
fn a_stricter_declaration_in_force_moves_the_bound() {
    let mut kitchen = lost_reply(bounded());
    kitchen.wait(3600);
    kitchen.world.declare(with_nothing());
    assert_eq!(kitchen.resolve("a", ABSENT).unwrap_err(), Refusal::TooEarly { not_before: None });
}

#[test]
fn nobody_establishes_absence_while_a_sender_still_reads() {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let until = kitchen.world.now().plus(seconds(7200));
    kitchen.report("a", 1, Finding { lingers_until: Some(until), ..lost() });
    kitchen.wait(3600);
    assert_eq!(kitchen.resolve("a", ABSENT).unwrap_err(), Refusal::TooEarly { not_before: Some(until) });
    kitchen.wait(3601);
    kitchen.resolve("a", ABSENT).unwrap();
}

#[test]
fn another_attempt_is_exactly_one_outside_the_budget() {
    let mut kitchen = lost_reply(bounded());
    // Far past the budget's elapsed time.
    kitchen.wait(24 * 3600);
    let view = kitchen.resolve("a", ANOTHER).unwrap();
    assert_eq!(view.operation.state.label(), "prepared");
    assert_eq!(view.next.action, Action::Retry, "the standing wish starts it");
    let version = kitchen.row("a").version;
    kitchen.resolve("a", ANOTHER).unwrap();
    assert_eq!(kitchen.row("a").version, version);
    assert_eq!(kitchen.carry("a"), Begun::Started(2));
    assert!(!kitchen.row("a").another_allowed);
    kitchen.report("a", 2, lost());
    kitchen.wait(60);
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!((kitchen.attempts("a"), kitchen.state("a")), (2, "unknown"));
    assert!(!kitchen.row("a").attempts[1].counts);
}

#[test]
fn one_that_fails_without_effect_is_still_the_only_one() {
    let mut kitchen = lost_reply(bounded());
    kitchen.wait(24 * 3600);
    kitchen.resolve("a", ANOTHER).unwrap();
    assert_eq!(kitchen.carry("a"), Begun::Started(2));
    kitchen.report("a", 2, refused_connection());
    let State::Rejected(ended) = &kitchen.row("a").state else { panic!("{:?}", kitchen.row("a").state) };
    assert_eq!(ended.code, RejectionCode::BudgetExhausted);
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert_eq!(kitchen.attempts("a"), 2);
}

#[test]
fn without_a_standing_wish_another_attempt_waits_for_an_execute() {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.wait(24 * 3600);
    kitchen.resolve("a", ANOTHER).unwrap();
    // A release of what may be sent anew is no release: nothing is unknown any more.
    assert_eq!(kitchen.release(ann(), "a").unwrap_err(), Refusal::WrongState("prepared"));
    kitchen.wait(30 * 24 * 3600);
    kitchen.tick("a");
    assert_eq!(kitchen.state("a"), "prepared", "the budget does not end it");
    kitchen.begin("a", 2);
}

#[test]
fn the_approval_must_be_valid_at_that_attempt() {
    let mut kitchen = Kitchen::with(approved(bounded()));
    kitchen.prepare("a").unwrap();
    kitchen.approve_as(ann(), "a", None).unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.wait(2 * 3600);
    kitchen.resolve("a", ANOTHER).unwrap();
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert_eq!((kitchen.attempts("a"), kitchen.state("a")), (1, "rejected"));
}

#[test]
fn a_forgotten_key_or_a_stored_failure_gets_another_generation() {
    // The key is still remembered: it stays.
    let mut kitchen = lost_reply(with_key());
    kitchen.wait(2 * 3600);
    kitchen.resolve("a", ANOTHER).unwrap();
    assert_eq!(kitchen.carry("a"), Begun::Started(2));
    assert_eq!(kitchen.row("a").attempts[0].key, kitchen.row("a").attempts[1].key);

    for (waited, failed) in [(48 * 3600, false), (2 * 3600, true)] {
        let mut kitchen = Kitchen::with(with_key());
        kitchen.prepare("a").unwrap();
        kitchen.begin("a", 1);
        kitchen.report("a", 1, if failed { answer(Meaning::Unknown, 500) } else { lost() });
        kitchen.wait(waited);
        kitchen.resolve("a", ANOTHER).unwrap();
        assert_eq!((kitchen.row("a").key_generation, kitchen.row("a").earlier_keys), (2, 1));
        // A request that was made before still carries the old key.
        let mut offer = kitchen.offer("a");
        assert_eq!(kitchen.carry("a"), Begun::Rebuild);
        offer.request_digest = "sha256:two".to_owned();
        assert_eq!(kitchen.start_as(None, "a", Some(offer)).unwrap().begun, Begun::Started(2));
        assert_ne!(kitchen.row("a").attempts[0].key, kitchen.row("a").attempts[1].key);
    }
}

#[test]
fn an_abandoned_one_stays_unknown_until_it_is_let_go() {
    let mut kitchen = lost_reply(with_nothing());
    let view = kitchen.resolve("a", Verdict::Abandoned).unwrap();
    assert_eq!((view.operation.state.label(), view.next.action), ("unknown", Action::None));
    assert!(view.operation.unresolved());
    assert_eq!(view.operation.receipt_expires_at, None, "kept until it is released");
    let version = kitchen.row("a").version;
    kitchen.resolve("a", Verdict::Abandoned).unwrap();
    assert_eq!(kitchen.row("a").version, version);
    let bob = caller("bob", &["approver"]);
    for verdict in [Verdict::Abandoned, ABSENT, ANOTHER] {
        assert_eq!(
            kitchen.resolve_as(bob.clone(), "a", verdict, None).unwrap_err(),
            Refusal::WrongState("unknown")
        );
    }
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert!(matches!(kitchen.prepare("b").unwrap_err(), Refusal::ActionUnresolved { .. }));
    let view = kitchen.release(ann(), "a").unwrap();
    assert_eq!(view.operation.receipt_expires_at, Some(kitchen.world.now().plus(view.tool.retention)));
    kitchen.prepare("b").unwrap();
    // Proof still settles it.
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.state("a"), "succeeded");
}

#[test]
fn what_was_released_is_never_sent_again() {
    let mut kitchen = lost_reply(with_key());
    kitchen.release(ann(), "a").unwrap();
    let version = kitchen.row("a").version;
    kitchen.release(ann(), "a").unwrap();
    assert_eq!(kitchen.row("a").version, version);
    let bob = caller("bob", &["approver"]);
    assert_eq!(kitchen.release(bob, "a").unwrap_err(), Refusal::WrongState("unknown"));
    kitchen.wait(60);
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    kitchen.wait(2 * 3600);
    assert_eq!(kitchen.resolve("a", ANOTHER).unwrap_err(), Refusal::WrongState("unknown"));
    kitchen.resolve("a", ABSENT).unwrap();
    assert_eq!(kitchen.attempts("a"), 1);
}

#[test]
fn nothing_is_released_or_settled_where_there_is_nothing_to_decide() {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.prepare("a").unwrap();
    for stage in ["prepared", "in_progress", "succeeded"] {
        match stage {
            "in_progress" => kitchen.begin("a", 1),
            "succeeded" => drop(kitchen.report("a", 1, answer(Meaning::Succeeded, 201))),
            _ => {}
        }
        assert_eq!(kitchen.release(ann(), "a").unwrap_err(), Refusal::WrongState(stage));
        for verdict in [succeeded("po_9"), ABSENT, ANOTHER, Verdict::Abandoned, Verdict::Acknowledged] {
            assert_eq!(kitchen.resolve("a", verdict).unwrap_err(), Refusal::WrongState(stage));
        }
    }
    let mut kitchen = lost_reply(bounded());
    assert_eq!(kitchen.resolve("a", Verdict::Acknowledged).unwrap_err(), Refusal::WrongState("unknown"));
}

#[test]
fn proof_against_a_rejection_is_taken_with_its_own_receipt() {
    let mut kitchen = contradicted();
    assert_eq!(kitchen.resolve("a", succeeded("po_9")).unwrap_err(), Refusal::WrongState("rejected"));
    let view = kitchen.resolve("a", succeeded("po_4711")).unwrap();
    let receipt = view.operation.state.receipt().unwrap();
    assert_eq!((receipt.reference.as_deref(), receipt.source), (Some("po_4711"), ReceiptSource::LateReport));
    assert!(!view.operation.duplicate_suspected && view.operation.contradiction.is_none());
    assert!(view.operation.receipt_expires_at.is_some());
}

#[test]
fn proof_that_is_not_ours_is_acknowledged_and_the_rejection_stays() {
    let mut kitchen = contradicted();
    for verdict in [ABSENT, ANOTHER, Verdict::Abandoned] {
        assert_eq!(kitchen.resolve("a", verdict).unwrap_err(), Refusal::WrongState("rejected"));
    }
    let view = kitchen.resolve("a", Verdict::Acknowledged).unwrap();
    assert_eq!((view.operation.state.label(), view.next.action), ("rejected", Action::Report));
    assert!(view.operation.contradiction.is_none());
    assert!(view.operation.receipt_expires_at.is_some());
}

#[test]
fn a_second_success_is_acknowledged_and_the_first_receipt_stays() {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    let other = Finding { reference: Some("po_4712".to_owned()), ..answer(Meaning::Succeeded, 201) };
    kitchen.report("a", 1, other);
    assert_eq!(kitchen.row("a").contradiction.as_ref().unwrap().reference.as_deref(), Some("po_4712"));
    assert_eq!(kitchen.row("a").receipt_expires_at, None);
    assert_eq!(kitchen.resolve("a", succeeded("po_4712")).unwrap_err(), Refusal::WrongState("succeeded"));
    let view = kitchen.resolve("a", Verdict::Acknowledged).unwrap();
    assert_eq!(view.operation.state.receipt().unwrap().reference.as_deref(), Some("po_4711"));
    assert_eq!(view.next.action, Action::None);
    assert!(view.operation.receipt_expires_at.is_some());
}

#[test]
fn a_note_settles_nothing_and_reminds_once() {
    let mut kitchen = lost_reply(with_nothing());
    let at = kitchen.world.now().plus(seconds(3600));
    let view = kitchen.annotate("a", Some(at)).unwrap();
    assert_eq!(view.operation.state.label(), "unknown");
    let due = counterfoil::decide::due_at(kitchen.row("a"), &view.tool);
    assert_eq!(due, Some(at));
    kitchen.tick("a");
    assert_eq!((kitchen.told("note"), kitchen.told("reminder")), (1, 0));
    kitchen.wait(3600);
    kitchen.tick("a");
    kitchen.tick("a");
    assert_eq!((kitchen.told("reminder"), kitchen.row("a").remind_at), (1, None));
    let by_app = AddNote {
        caller: app(),
        id: id("a"),
        text: words("x"),
        remind_at: None,
        declared: kitchen.world.declared(),
    };
    assert_eq!(kitchen.world.run(&by_app).unwrap_err(), Refusal::RoleForbidden("approver"));
}

/// The destination of every tool that needs approval moves after a person allowed one more attempt: an approval can
/// help no more, so none is taken, and the operation ends.
#[test]
fn an_allowed_attempt_that_can_never_be_made_ends() {
    let mut kitchen = Kitchen::with(approved(bounded()));
    kitchen.prepare("a").unwrap();
    kitchen.approve_as(ann(), "a", None).unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.wait(1000);
    kitchen.resolve("a", ANOTHER).unwrap();
    let mut moved = approved(bounded());
    moved.carrier = http("http://127.0.0.1:9099/orders");
    kitchen.world.declare(moved);
    assert_eq!(kitchen.next("a"), (Action::Review, Some("approval-void")));
    assert_eq!(kitchen.approve_as(ann(), "a", None).unwrap_err(), Refusal::WrongState("prepared"));
    assert_eq!(kitchen.execute("a").unwrap_err(), Refusal::ApprovalRequired);
    kitchen.wait(3600);
    kitchen.tick("a");
    assert_eq!(kitchen.state("a"), "rejected");
    assert_eq!(kitchen.attempts("a"), 1);
}

/// Without an approval it waits as long as an operation that never started.
#[test]
fn an_allowed_attempt_that_nobody_makes_ends_with_the_retention() {
    let mut kitchen = lost_reply(bounded());
    kitchen.wait(3600);
    kitchen.resolve("a", ANOTHER).unwrap();
    let due = kitchen.world.due_at(&account(), &id("a")).unwrap();
    kitchen.wait(80 * 24 * 3600);
    assert_eq!(kitchen.next("a").0, Action::Retry);
    kitchen.wait(11 * 24 * 3600);
    assert!(due <= kitchen.world.now());
    kitchen.tick("a");
    match &kitchen.row("a").state {
        State::Rejected(ended) => assert_eq!(ended.code, RejectionCode::BudgetExhausted),
        other @ (State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Unknown(_)) => {
            panic!("{other:?}")
        }
    }
}
