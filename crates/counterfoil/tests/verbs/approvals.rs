//! A person's yes: to these arguments, to go there, for a while.

use counterfoil::decide::Action;
use counterfoil::error::Refusal;
use counterfoil::keys::KeyFormat;
use counterfoil::operation::RejectionCode;
use counterfoil::policy::Meaning;
use counterfoil::recovery::{HoldReason, KeyFacts, Recovery};
use counterfoil::state::State;
use counterfoil::verbs::{Approve, Begun};

use super::support::*;

fn code(kitchen: &Kitchen, operation: &str) -> RejectionCode {
    let State::Rejected(rejection) = &kitchen.row(operation).state else {
        panic!("{:?}", kitchen.row(operation).state)
    };
    rejection.code
}

#[test]
fn nothing_is_sent_without_a_yes_and_a_wish_waits_for_it() {
    let mut kitchen = Kitchen::with(approved(with_key()));
    let mut draft = kitchen.draft("a", FLOUR);
    (draft.execute, draft.offer) = (true, Some(kitchen.offer("a")));
    assert_eq!(kitchen.world.run(&draft).unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.next("a"), (Action::Approve, Some("approval-required")));
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert_eq!(kitchen.execute("a").unwrap_err(), Refusal::ApprovalRequired);
    // Hours after the caller went home.
    kitchen.wait(3000);
    let view = kitchen.approve_as(ann(), "a", None).unwrap();
    assert_eq!(view.next.action, Action::Retry);
    assert_eq!(kitchen.carry("a"), Begun::Started(1));
}

#[test]
fn only_another_principal_with_the_role_decides_about_what_was_shown() {
    let mut kitchen = Kitchen::with(approved(with_key()));
    kitchen.prepare("a").unwrap();
    assert_eq!(kitchen.approve_as(app(), "a", None).unwrap_err(), Refusal::RoleForbidden("approver"));
    let own = caller("app", &["agent", "approver"]);
    assert_eq!(kitchen.approve_as(own, "a", None).unwrap_err(), Refusal::SamePrincipal);
    let other = kitchen.draft("x", r#"{"sku":"sugar"}"#).fingerprint.into_inner().unwrap();
    let mut verb = Approve {
        caller: ann(),
        id: id("a"),
        fingerprint: other,
        acknowledges: None,
        if_version: None,
        declared: kitchen.world.declared(),
    };
    assert_eq!(kitchen.world.run(&verb).unwrap_err(), Refusal::FingerprintMismatch);
    (verb.fingerprint, verb.if_version) = (kitchen.row("a").fingerprint, Some(99));
    assert_eq!(kitchen.world.run(&verb).unwrap_err(), Refusal::ChangedMeanwhile);
    assert_eq!(kitchen.execute("a").unwrap_err(), Refusal::ApprovalRequired);
}

#[test]
fn the_first_decision_wins_and_its_repeat_is_the_same_answer() {
    let mut kitchen = Kitchen::with(approved(with_key()));
    kitchen.prepare("a").unwrap();
    kitchen.approve_as(ann(), "a", None).unwrap();
    let version = kitchen.row("a").version;
    kitchen.approve_as(ann(), "a", None).unwrap();
    assert_eq!(kitchen.row("a").version, version);
    let bob = caller("bob", &["approver"]);
    assert_eq!(kitchen.approve_as(bob, "a", None).unwrap_err(), Refusal::WrongState("prepared"));
    assert_eq!(kitchen.row("a").approval.as_ref().unwrap().by.as_str(), "ann");
    assert_eq!(
        kitchen.deny("a").unwrap_err(),
        Refusal::WrongState("prepared"),
        "a no after a yes is too late"
    );

    let mut kitchen = Kitchen::with(approved(with_key()));
    kitchen.prepare("a").unwrap();
    kitchen.deny("a").unwrap();
    kitchen.deny("a").unwrap();
    assert_eq!(code(&kitchen, "a"), RejectionCode::ApprovalDenied);
    assert_eq!(kitchen.approve_as(ann(), "a", None).unwrap_err(), Refusal::WrongState("rejected"));
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
}

#[test]
fn nobody_said_yes_in_time() {
    for passed in [true, false] {
        let mut kitchen = Kitchen::with(approved(with_key()));
        kitchen.prepare("a").unwrap();
        kitchen.wait(3600);
        if passed {
            kitchen.tick("a");
            assert_eq!(code(&kitchen, "a"), RejectionCode::ApprovalExpired);
        }
        assert_eq!(kitchen.approve_as(ann(), "a", None).unwrap_err(), Refusal::WrongState("rejected"));
    }
}

#[test]
fn a_yes_runs_out() {
    let mut kitchen = Kitchen::with(approved(with_key()));
    kitchen.prepare("a").unwrap();
    kitchen.approve_as(ann(), "a", None).unwrap();
    kitchen.wait(3600);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(code(&kitchen, "a"), RejectionCode::ApprovalExpired);

    // While an attempt may have worked it is held instead.
    let mut kitchen = Kitchen::with(approved(with_key()));
    kitchen.prepare("a").unwrap();
    kitchen.approve_as(ann(), "a", None).unwrap();
    kitchen.wait(3590);
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.wait(10);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.hold("a"), Some(HoldReason::ApprovalExpired));
}

#[test]
fn another_url_voids_a_yes_and_the_next_one_goes_where_it_was_shown() {
    let mut kitchen = Kitchen::with(approved(with_key()));
    kitchen.prepare("a").unwrap();
    kitchen.approve_as(ann(), "a", None).unwrap();
    let mut moved = approved(with_key());
    moved.carrier = http("http://127.0.0.1:9099/orders");
    let route = moved.route();
    let version = kitchen.world.declare(moved);
    assert_eq!(kitchen.next("a"), (Action::Approve, Some("destination-changed")));
    assert_eq!(kitchen.execute("a").unwrap_err(), Refusal::ApprovalRequired);
    assert_eq!(kitchen.row("a").attempts.len(), 0);
    let view = kitchen.approve_as(ann(), "a", None).unwrap();
    assert_eq!((view.next.action, view.tool.route()), (Action::Execute, route));
    assert_eq!(kitchen.row("a").policy_version, version, "what never started is bound anew");
    // A request made from the old declaration is not sent.
    let mut old = kitchen.offer("a");
    old.policy_version = 1;
    assert_eq!(kitchen.start_as(Some(app()), "a", Some(old)).unwrap().begun, Begun::Rebuild);
    kitchen.begin("a", 1);
}

#[test]
fn another_spelling_of_the_key_voids_a_yes_and_other_changes_do_not() {
    let mut kitchen = Kitchen::with(approved(with_key()));
    kitchen.prepare("a").unwrap();
    kitchen.approve_as(ann(), "a", None).unwrap();
    let mut same = approved(with_key());
    same.retention = seconds(7 * 24 * 3600);
    same.description = "Create a purchase order".to_owned();
    kitchen.world.declare(same);
    assert_eq!(kitchen.next("a"), (Action::Execute, None));
    let spelled = KeyFacts { key_format: KeyFormat::Uuid, ..key_facts() };
    kitchen.world.declare(approved(tool(Recovery::IdempotencyKey(spelled))));
    assert_eq!(kitchen.next("a"), (Action::Approve, Some("destination-changed")));
}

#[test]
fn what_was_sent_is_never_approved_to_go_elsewhere() {
    let mut kitchen = Kitchen::with(approved(with_key()));
    kitchen.prepare("a").unwrap();
    kitchen.approve_as(ann(), "a", None).unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Throttled, 429));
    let mut moved = approved(with_key());
    moved.carrier = http("http://127.0.0.1:9099/orders");
    kitchen.world.declare(moved);
    assert_eq!(kitchen.next("a"), (Action::Review, Some("approval-void")));
    assert_eq!(kitchen.approve_as(ann(), "a", None).unwrap_err(), Refusal::WrongState("prepared"));
    assert_eq!(kitchen.row("a").policy_version, 1);
    assert_eq!(kitchen.execute("a").unwrap_err(), Refusal::ApprovalRequired);
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert_eq!(kitchen.row("a").attempts.len(), 1);
}

#[test]
fn a_moved_destination_holds_what_may_have_worked() {
    let mut kitchen = Kitchen::with(approved(with_key()));
    kitchen.prepare("a").unwrap();
    kitchen.approve_as(ann(), "a", None).unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    let mut moved = approved(with_key());
    moved.carrier = http("http://127.0.0.1:9099/orders");
    kitchen.world.declare(moved);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.hold("a"), Some(HoldReason::ApprovalVoid));
}

#[test]
fn what_may_have_worked_is_held_where_an_approval_is_asked_for_only_since() {
    for tool in [with_key(), with_nothing()] {
        let mut kitchen = Kitchen::with(tool.clone());
        kitchen.prepare("a").unwrap();
        kitchen.begin("a", 1);
        kitchen.report("a", 1, lost());
        kitchen.world.declare(approved(tool));
        kitchen.wait(60);
        assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
        assert_eq!(kitchen.next("a").0, Action::Review);
        assert_eq!(kitchen.row("a").attempts.len(), 1);
    }
}

#[test]
fn an_application_takes_back_only_what_never_started() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.withdraw("a").unwrap();
    kitchen.withdraw("a").unwrap();
    assert_eq!(code(&kitchen, "a"), RejectionCode::Withdrawn);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    kitchen.prepare("b").unwrap();
    kitchen.begin("b", 1);
    assert_eq!(kitchen.withdraw("b").unwrap_err(), Refusal::WrongState("in_progress"));
    kitchen.report("b", 1, answer(Meaning::Throttled, 429));
    assert_eq!(kitchen.withdraw("b").unwrap_err(), Refusal::WrongState("prepared"));
    assert_eq!(kitchen.deny("b").unwrap_err(), Refusal::WrongState("prepared"));
}

fn above(bound: &str) -> counterfoil::policy::Tool {
    use counterfoil::policy::{ApprovalRule, Comparison, Condition};
    let at = counterfoil::Pointer::parse("/quantity").unwrap();
    let mut tool = with_key();
    tool.approval = ApprovalRule::When;
    tool.approval_when = vec![Condition { at, is: Comparison::GreaterThan(bound.to_owned()) }];
    tool
}

#[test]
fn a_person_is_asked_only_where_the_exact_value_says_so() {
    for (quantity, asked) in
        [(r#"10"#, false), (r#"10.0000000000000000001"#, true), (r#""10""#, true), (r#"null"#, true)]
    {
        let mut kitchen = Kitchen::with(above("10"));
        let draft = kitchen.draft("a", &format!(r#"{{"sku":"flour-25kg","quantity":{quantity}}}"#));
        let view = kitchen.world.run(&draft).unwrap().view;
        assert_eq!(view.approval_required, asked, "{quantity}");
        match asked {
            false => kitchen.begin("a", 1),
            true => {
                assert_eq!(kitchen.execute("a").unwrap_err(), Refusal::ApprovalRequired, "{quantity}");
                kitchen.approve_as(ann(), "a", None).unwrap();
                kitchen.begin("a", 1);
            }
        }
    }
}

#[test]
fn what_was_asked_for_stays_asked_for_and_a_stricter_declaration_is_heard() {
    // A laxer declaration does not take a question back.
    let mut kitchen = Kitchen::with(above("5"));
    kitchen.prepare("a").unwrap();
    kitchen.world.declare(above("100"));
    assert_eq!(kitchen.execute("a").unwrap_err(), Refusal::ApprovalRequired);
    kitchen.world.declare(with_key());
    assert_eq!(kitchen.execute("a").unwrap_err(), Refusal::ApprovalRequired);
    // A stricter one asks about what is still open.
    for before in [above("100"), with_key()] {
        let mut kitchen = Kitchen::with(before);
        kitchen.prepare("a").unwrap();
        kitchen.world.declare(above("5"));
        assert_eq!(kitchen.execute("a").unwrap_err(), Refusal::ApprovalRequired);
    }
}
