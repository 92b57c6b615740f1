//! A changed proposal takes the place of the former one, and never runs beside it.

use counterfoil::decide::Action;
use counterfoil::error::Refusal;
use counterfoil::operation::RejectionCode;
use counterfoil::policy::Meaning;
use counterfoil::recovery::HoldReason;
use counterfoil::state::State;
use counterfoil::verbs::{Begun, Prepare, PrepareReply, Verdict};

use super::support::*;
use super::verdicts::{ABSENT, ANOTHER, bounded};

const TWELVE: &str = r#"{"sku":"flour-25kg","quantity":12}"#;

impl Kitchen {
    fn changed(&self, operation: &str, former: &str) -> Prepare {
        Prepare { replaces: Some(id(former)), ..self.draft(operation, TWELVE) }
    }

    fn replace(&mut self, operation: &str, former: &str) -> Result<PrepareReply, Refusal> {
        let verb = self.changed(operation, former);
        self.world.run(&verb)
    }

    fn why(&self, operation: &str) -> RejectionCode {
        match &self.row(operation).state {
            State::Rejected(rejection) => rejection.code,
            other @ (State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Unknown(_)) => {
                panic!("{operation} is {other}")
            }
        }
    }

    /// What it waits for: the step, the operation, the word.
    fn waits(&mut self, operation: &str) -> Told {
        let next = self.tick(operation).view.next;
        (next.action, next.operation.map(|id| id.to_string()), next.reason)
    }
}

fn unknown() -> Kitchen {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen
}

type Told = (Action, Option<String>, Option<&'static str>);

fn waits_for_a() -> Told {
    (Action::WaitForOperation, Some("a".to_owned()), Some("predecessor-unresolved"))
}

#[test]
fn what_never_started_ends_in_the_same_commit() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    let mut changed = kitchen.changed("b", "a");
    (changed.execute, changed.offer) = (true, Some(kitchen.offer("b")));
    let reply = kitchen.world.run(&changed).unwrap();
    assert_eq!(reply.begun, Begun::Started(1), "in one commit");
    assert_eq!(kitchen.why("a"), RejectionCode::Replaced);
    assert_eq!(kitchen.row("a").replaced_by, Some(id("b")));
    assert!(kitchen.row("a").receipt_expires_at.is_some());
    let on_both = kitchen.world.evidence().iter().filter(|told| {
        (told.operation.as_str(), told.evidence.kind) == ("a", "replaced")
            || (told.operation.as_str() == "b" && told.evidence.data["replaces"] == "a")
    });
    assert_eq!(on_both.count(), 2);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
}

#[test]
fn while_the_former_one_is_unresolved_the_changed_one_waits() {
    let mut kitchen = unknown();
    let mut changed = kitchen.changed("b", "a");
    (changed.execute, changed.offer) = (true, Some(kitchen.offer("b")));
    let reply = kitchen.world.run(&changed).unwrap();
    assert!(matches!(reply.begun, Begun::Blocked(_)), "{:?}", reply.begun);
    assert_eq!(kitchen.waits("b"), waits_for_a());
    assert!(kitchen.row("b").wish, "the wish stands");
    let Begun::Blocked(_) = kitchen.carry("b") else { panic!() };
    let Refusal::BlockedByOperation { blockers } = kitchen.execute("b").unwrap_err() else { panic!() };
    assert_eq!(blockers[0].id, id("a"));
    assert!(kitchen.row("b").wish && kitchen.row("b").attempts.is_empty());
    assert_eq!(kitchen.state("a"), "unknown");

    // A person establishes that nothing happened: the changed one is free, and its wish still stands.
    kitchen.wait(3600);
    kitchen.resolve("a", ABSENT).unwrap();
    assert_eq!(kitchen.carry("b"), Begun::Started(1));
}

#[test]
fn an_execute_that_must_wait_sets_no_wish() {
    let mut kitchen = unknown();
    kitchen.replace("b", "a").unwrap();
    assert!(matches!(kitchen.execute("b"), Err(Refusal::BlockedByOperation { .. })));
    assert!(!kitchen.row("b").wish);
    kitchen.wait(3600);
    kitchen.resolve("a", ABSENT).unwrap();
    assert_eq!(kitchen.carry("b"), Begun::NotNow, "nobody wished it");
    kitchen.begin("b", 1);
}

#[test]
fn one_that_turns_out_to_have_worked_must_be_named_by_another_principal() {
    let mut kitchen = unknown();
    kitchen.replace("b", "a").unwrap();
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.state("a"), "succeeded");
    assert!(!kitchen.row("a").duplicate_suspected, "nothing was started past it");
    assert_eq!(kitchen.waits("b"), (Action::Approve, Some("a".to_owned()), Some("predecessor-succeeded")));
    assert_eq!(kitchen.execute("b").unwrap_err(), Refusal::ApprovalRequired);
    kitchen.approve_as(ann(), "b", None).unwrap();
    assert_eq!(kitchen.execute("b").unwrap_err(), Refusal::ApprovalRequired, "it must be named");
    let both = caller("app", &["agent", "approver"]);
    assert_eq!(kitchen.approve_as(both, "b", Some("a")).unwrap_err(), Refusal::SamePrincipal);
    assert_eq!(kitchen.approve_as(app(), "b", Some("a")).unwrap_err(), Refusal::RoleForbidden("approver"));
    kitchen.approve_as(ann(), "b", Some("a")).unwrap();
    kitchen.begin("b", 1);
}

#[test]
fn one_that_has_worked_already_must_be_named_as_well() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    kitchen.replace("b", "a").unwrap();
    assert_eq!(kitchen.execute("b").unwrap_err(), Refusal::ApprovalRequired);
    kitchen.approve_as(ann(), "b", Some("a")).unwrap();
    kitchen.begin("b", 1);
    assert_eq!(kitchen.approve_as(ann(), "b", Some("b")).unwrap_err(), Refusal::WrongState("in_progress"));
}

#[test]
fn what_is_waited_for_is_inherited() {
    let mut kitchen = unknown();
    kitchen.replace("b", "a").unwrap();
    kitchen.replace("c", "b").unwrap();
    assert_eq!((kitchen.why("b"), kitchen.state("a")), (RejectionCode::Replaced, "unknown"));
    assert_eq!(kitchen.row("c").inherits, [id("a")]);
    assert_eq!(kitchen.waits("c"), waits_for_a());
    // The place of a and b is taken: by c.
    for former in ["a", "b"] {
        assert_eq!(kitchen.replace("d", former).unwrap_err(), Refusal::AlreadyReplaced { by: id("c") });
    }
    assert!(kitchen.world.operation(&account(), &id("d")).is_none(), "a refused prepare leaves the ID free");
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.execute("c").unwrap_err(), Refusal::ApprovalRequired);
    // Whoever takes its place needs the same word, until somebody said it.
    kitchen.replace("d", "c").unwrap();
    assert_eq!(kitchen.execute("d").unwrap_err(), Refusal::ApprovalRequired);
    kitchen.approve_as(ann(), "d", Some("a")).unwrap();
    kitchen.replace("e", "d").unwrap();
    assert!(kitchen.row("e").inherits.is_empty(), "acknowledged");
    kitchen.begin("e", 1);
}

#[test]
fn what_the_task_guard_held_back_hands_its_wait_on() {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.prepare("h").unwrap();
    kitchen.prepare("b").unwrap();
    kitchen.begin("h", 1);
    kitchen.report("h", 1, lost());
    let Begun::Blocked(_) = kitchen.execute("b").unwrap().begun else { panic!() };
    // Another action: the task guard has nothing against it, and it waits all the same.
    kitchen.replace("c", "b").unwrap();
    assert_eq!(kitchen.row("c").inherits, [id("h")]);
    assert!(matches!(kitchen.execute("c"), Err(Refusal::BlockedByOperation { .. })));
    kitchen.report("h", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.execute("c").unwrap_err(), Refusal::ApprovalRequired);
    kitchen.approve_as(ann(), "c", Some("h")).unwrap();
    kitchen.begin("c", 1);
}

#[test]
fn what_was_replaced_is_never_sent_again() {
    // The destination would collapse a repeat: a replaced operation does not get one.
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.wait(1);
    kitchen.replace("b", "a").unwrap();
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    kitchen.wait(60);
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert_eq!((kitchen.row("a").attempts.len(), kitchen.hold("a")), (1, Some(HoldReason::Replaced)));
    kitchen.wait(3600);
    assert_eq!(kitchen.resolve("a", ANOTHER).unwrap_err(), Refusal::WrongState("unknown"));
    // What took its place came to nothing: it is free again.
    kitchen.withdraw("b").unwrap();
    assert_eq!(kitchen.next("a").0, Action::Review, "its budget is over");
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.wait(60);
    kitchen.replace("b", "a").unwrap();
    kitchen.tick("a");
    assert_eq!(kitchen.hold("a"), Some(HoldReason::Replaced));
    kitchen.withdraw("b").unwrap();
    kitchen.tick("a");
    assert_eq!(kitchen.hold("a"), None);
    kitchen.wait(1);
    kitchen.begin("a", 2);
    kitchen.replace("c", "a").unwrap();
    assert!(matches!(kitchen.execute("c"), Err(Refusal::BlockedByOperation { .. })));
}

#[test]
fn a_settled_former_one_ends_as_replaced_however_it_was_settled() {
    // Refused by the destination while its place was taken.
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.replace("b", "a").unwrap();
    assert_eq!(kitchen.waits("b"), waits_for_a());
    kitchen.report("a", 1, answer(Meaning::Rejected, 422));
    assert_eq!(kitchen.why("a"), RejectionCode::Replaced);
    kitchen.begin("b", 1);
    // Throttled, with budget left: there is no other attempt.
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.replace("b", "a").unwrap();
    kitchen.report("a", 1, answer(Meaning::Throttled, 429));
    assert_eq!(kitchen.why("a"), RejectionCode::Replaced);
    // Between settled attempts it ends at once.
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, refused_connection());
    assert_eq!(kitchen.state("a"), "prepared");
    kitchen.replace("b", "a").unwrap();
    assert_eq!(kitchen.why("a"), RejectionCode::Replaced);
    kitchen.begin("b", 1);
}

#[test]
fn a_spent_budget_guards_the_same_action_and_no_other() {
    let mut tool = with_nothing();
    tool.budget.attempts = 1;
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Throttled, 429));
    assert_eq!(kitchen.why("a"), RejectionCode::BudgetExhausted);
    let same = Prepare { replaces: Some(id("a")), ..kitchen.draft("b", FLOUR) };
    assert!(matches!(kitchen.world.run(&same), Err(Refusal::ActionUnresolved { .. })));
    assert_eq!(kitchen.row("a").replaced_by, None, "a refused prepare changes nothing");
    kitchen.replace("b", "a").unwrap();
    kitchen.begin("b", 1);
}

#[test]
fn the_task_guard_leaves_the_former_one_to_the_replacement() {
    // The same action, as a replacement: it waits instead of being refused.
    let mut kitchen = unknown();
    let same = Prepare { replaces: Some(id("a")), ..kitchen.draft("b", FLOUR) };
    kitchen.world.run(&same).unwrap();
    assert_eq!(kitchen.waits("b"), waits_for_a());
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.execute("b").unwrap_err(), Refusal::ApprovalRequired);
}

#[test]
fn released_it_lets_the_changed_one_pass_and_a_late_proof_is_suspect() {
    let mut kitchen = unknown();
    kitchen.replace("b", "a").unwrap();
    kitchen.release(ann(), "a").unwrap();
    kitchen.begin("b", 1);
    assert!(kitchen.row("a").overtaken);
    kitchen.report("b", 1, answer(Meaning::Succeeded, 201));
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert!(kitchen.row("a").duplicate_suspected);
}

#[test]
fn abandoned_it_is_still_waited_for() {
    let mut kitchen = unknown();
    kitchen.resolve("a", Verdict::Abandoned).unwrap();
    kitchen.replace("b", "a").unwrap();
    assert_eq!(kitchen.waits("b"), waits_for_a());
    // The same action without `replaces` is refused until somebody lets it pass.
    assert!(matches!(kitchen.prepare("c"), Err(Refusal::ActionUnresolved { .. })));
    kitchen.release(ann(), "a").unwrap();
    kitchen.prepare("c").unwrap();
    kitchen.begin("b", 1);
}

#[test]
fn a_line_has_one_end() {
    let mut kitchen = unknown();
    kitchen.replace("b", "a").unwrap();
    kitchen.withdraw("b").unwrap();
    kitchen.replace("c", "a").unwrap();
    // b was left behind: a second proposal in the place of a is refused, alive or not.
    assert_eq!(kitchen.replace("d", "b").unwrap_err(), Refusal::AlreadyReplaced { by: id("c") });
    kitchen.withdraw("c").unwrap();
    assert_eq!(kitchen.replace("d", "b").unwrap_err(), Refusal::AlreadyReplaced { by: id("c") });
    kitchen.replace("d", "c").unwrap();
    assert_eq!(kitchen.row("d").inherits, [id("a")]);
    assert_eq!(kitchen.waits("d"), waits_for_a());
    assert_eq!(kitchen.replace("e", "a").unwrap_err(), Refusal::AlreadyReplaced { by: id("d") });
}

#[test]
fn a_line_has_a_limit() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("p-0").unwrap();
    let most = counterfoil::waits::LONGEST_LINE;
    for number in 1..=most {
        kitchen.replace(&format!("p-{number}"), &format!("p-{}", number - 1)).unwrap();
    }
    let refused = kitchen.replace("one-more", &format!("p-{most}")).unwrap_err();
    assert!(matches!(refused, Refusal::InvalidArguments(_)), "{refused}");
}

#[test]
fn what_is_not_there_or_not_ones_own_is_not_replaced() {
    let mut kitchen = Kitchen::with(with_key());
    assert_eq!(kitchen.replace("b", "a").unwrap_err(), Refusal::UnknownNamed { id: id("a") });
    kitchen.prepare("a").unwrap();
    let mut stranger = kitchen.changed("b", "a");
    stranger.caller.account = counterfoil::Account::parse("bakery").unwrap();
    assert_eq!(kitchen.world.run(&stranger).unwrap_err(), Refusal::UnknownNamed { id: id("a") });
    assert_eq!(kitchen.state("a"), "prepared");
    // Past its retention it is as good as gone: it cannot be marked, so nothing takes its place.
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    kitchen.wait(90 * 24 * 3600);
    assert_eq!(kitchen.replace("b", "a").unwrap_err(), Refusal::UnknownNamed { id: id("a") });
}

#[test]
fn a_repeat_names_the_same() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.replace("b", "a").unwrap();
    kitchen.replace("b", "a").unwrap();
    let other = kitchen.draft("b", TWELVE);
    let Refusal::OperationIdReused { differs, .. } = kitchen.world.run(&other).unwrap_err() else { panic!() };
    assert_eq!(differs, ["replaces"]);
    let mut about = kitchen.changed("b", "a");
    about.subject = Some(counterfoil::id::Subject::parse("week-32").unwrap());
    let Refusal::OperationIdReused { differs, .. } = kitchen.world.run(&about).unwrap_err() else { panic!() };
    assert_eq!(differs, ["subject"]);
}

#[test]
fn a_dry_run_replaces_nothing() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    let dry = Prepare { dry_run: true, ..kitchen.changed("b", "a") };
    assert!(kitchen.world.run(&dry).unwrap().created);
    assert_eq!((kitchen.state("a"), &kitchen.row("a").replaced_by), ("prepared", &None));
}

#[test]
fn a_flagged_former_one_gives_its_place_once_somebody_has_looked() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Rejected, 422));
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert!(kitchen.row("a").duplicate_suspected, "rejected, and it may have worked");
    kitchen.replace("b", "a").unwrap();
    assert_eq!(kitchen.waits("b"), waits_for_a());
    kitchen.resolve("a", Verdict::Acknowledged).unwrap();
    kitchen.begin("b", 1);
}
