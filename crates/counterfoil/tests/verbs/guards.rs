//! One unresolved action at a time.

use counterfoil::decide::Action;
use counterfoil::error::Refusal;
use counterfoil::guard::Stage;
use counterfoil::policy::Meaning;
use counterfoil::verbs::Begun;

use super::support::*;

fn blocked(begun: &Begun) -> Vec<String> {
    match begun {
        Begun::Blocked(peers) => peers.iter().map(|peer| peer.id.to_string()).collect(),
        Begun::Started(_) | Begun::NotNow | Begun::Rebuild => panic!("{begun:?}"),
    }
}

#[test]
fn a_second_id_for_an_unconfirmed_action_is_refused_by_name() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    let Refusal::ActionUnresolved { blockers } = kitchen.prepare("b").unwrap_err() else { panic!() };
    assert_eq!((blockers[0].id.as_str(), blockers[0].stage), ("a", Stage::Unknown));
    assert!(kitchen.world.operation(&account(), &id("b")).is_none(), "a refused prepare leaves the ID free");

    let mut by_agent = kitchen.draft("b", FLOUR);
    by_agent.distinct_from = vec![id("a")];
    let refused = kitchen.world.run(&by_agent).unwrap_err();
    assert_eq!(refused, Refusal::DistinctForbidden { id: id("a"), stage: Stage::Unknown });

    let mut by_approver = by_agent;
    by_approver.caller = caller("boss", &["agent", "approver"]);
    kitchen.world.run(&by_approver).unwrap();
    assert_eq!(kitchen.row("a").distinct_from[0].id, id("b"), "recorded on both");
    kitchen.begin("b", 1);
}

#[test]
fn other_tasks_and_other_actions_are_free() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    let other = kitchen.draft("b", r#"{"sku":"flour-25kg","quantity":12}"#);
    kitchen.world.run(&other).unwrap();
    let mut task = kitchen.draft("c", FLOUR);
    task.task = Some(counterfoil::id::Task::parse("run-42").unwrap());
    kitchen.world.run(&task).unwrap();
    let mut none = kitchen.draft("d", FLOUR);
    none.task = None;
    assert!(matches!(kitchen.world.run(&none), Err(Refusal::ActionUnresolved { .. })));
}

#[test]
fn of_two_prepared_operations_the_second_waits_and_then_needs_a_person() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    let mut second = kitchen.draft("b", FLOUR);
    second.execute = true;
    kitchen.world.run(&second).unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());

    assert_eq!(blocked(&kitchen.execute("b").unwrap().begun), ["a"]);
    assert!(!kitchen.row("b").wish, "what is held back wishes no longer");
    let next = kitchen.tick("b").view.next;
    assert_eq!((next.action, next.operation), (Action::WaitForOperation, Some(id("a"))));

    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.state("a"), "succeeded");
    let next = kitchen.tick("b").view.next;
    assert_eq!((next.action, next.operation), (Action::Approve, Some(id("a"))));
    assert_eq!(kitchen.execute("b").unwrap_err(), Refusal::ApprovalRequired);
    assert_eq!(kitchen.carry("b"), Begun::NotNow);
    // A yes that does not name the holder does not help.
    kitchen.approve_as(ann(), "b", None).unwrap();
    assert_eq!(kitchen.execute("b").unwrap_err(), Refusal::ApprovalRequired);
    assert_eq!(kitchen.approve_as(app(), "b", Some("a")).unwrap_err(), Refusal::RoleForbidden("approver"));
    kitchen.approve_as(ann(), "b", Some("a")).unwrap();
    assert_eq!(kitchen.next("b"), (Action::Execute, None));
    kitchen.begin("b", 1);
}

#[test]
fn a_holder_that_ends_without_effect_sets_the_other_free() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.prepare("b").unwrap();
    kitchen.begin("a", 1);
    blocked(&kitchen.execute("b").unwrap().begun);
    kitchen.report("a", 1, answer(Meaning::Rejected, 422));
    assert_eq!(kitchen.carry("b"), Begun::NotNow, "nobody asked again");
    assert_eq!(kitchen.next("b"), (Action::Execute, None));
    kitchen.begin("b", 1);
}

#[test]
fn identical_actions_after_a_success_simply_run() {
    let mut kitchen = Kitchen::with(with_nothing());
    for operation in ["a", "b"] {
        kitchen.prepare(operation).unwrap();
        kitchen.begin(operation, 1);
        kitchen.report(operation, 1, answer(Meaning::Succeeded, 201));
    }
    assert_eq!((kitchen.state("a"), kitchen.state("b")), ("succeeded", "succeeded"));
}

#[test]
fn an_agents_distinction_ends_when_the_other_one_becomes_unknown() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let mut second = kitchen.draft("b", FLOUR);
    second.distinct_from = vec![id("a")];
    kitchen.world.run(&second).unwrap();
    kitchen.report("a", 1, lost());
    assert_eq!(blocked(&kitchen.execute("b").unwrap().begun), ["a"]);
}

#[test]
fn between_settled_attempts_the_older_one_goes_first() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.prepare("b").unwrap();
    kitchen.begin("a", 1);
    let boss = caller("boss", &["agent", "approver"]);
    kitchen.report("a", 1, refused_connection());
    assert_eq!(blocked(&kitchen.execute("b").unwrap().begun), ["a"], "a is tried again");
    let mut third = kitchen.draft("c", FLOUR);
    (third.distinct_from, third.caller) = (vec![id("a")], boss);
    kitchen.world.run(&third).unwrap();
    kitchen.begin("c", 1);
    kitchen.report("c", 1, refused_connection());
    kitchen.begin("a", 2);
}

#[test]
fn a_deliberate_second_action_is_no_suspicion() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let mut second = kitchen.draft("b", FLOUR);
    second.distinct_from = vec![id("a")];
    kitchen.world.run(&second).unwrap();
    kitchen.begin("b", 1);
    kitchen.report("a", 1, lost());
    kitchen.report("b", 1, answer(Meaning::Succeeded, 201));
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert!(!kitchen.row("a").duplicate_suspected && !kitchen.row("b").duplicate_suspected);
}

#[test]
fn a_spent_budget_guards_until_its_retention_ends() {
    let mut tool = with_nothing();
    tool.budget.attempts = 1;
    tool.retention = seconds(3600);
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Throttled, 429));
    assert_eq!(kitchen.state("a"), "rejected");
    assert!(matches!(kitchen.prepare("b"), Err(Refusal::ActionUnresolved { .. })));
    kitchen.wait(3600);
    kitchen.prepare("b").unwrap();
}

#[test]
fn a_restored_ledger_takes_new_ids_only_where_a_repeat_is_harmless() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.world.restored = true;
    assert_eq!(kitchen.prepare("a").unwrap_err(), Refusal::LedgerRestored);
    let mut kitchen = Kitchen::with(with_key());
    kitchen.world.restored = true;
    kitchen.prepare("a").unwrap();
}

const TWELVE: &str = r#"{"sku":"flour-25kg","quantity":12}"#;
const SUGAR: &str = r#"{"sku":"sugar-1kg","quantity":12}"#;

/// A tool whose orders are the same action when they have the same members at these places.
fn guarding(members: &[&str]) -> counterfoil::policy::Tool {
    let members = members.iter().map(|text| counterfoil::Pointer::parse(text).unwrap());
    counterfoil::policy::Tool { guard_on: Some(members.collect()), ..with_nothing() }
}

#[test]
fn the_tool_may_name_what_makes_it_the_same_action() {
    let mut kitchen = Kitchen::with(guarding(&["/sku", "/week"]));
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    let twelve = kitchen.draft("b", TWELVE);
    assert!(matches!(kitchen.world.run(&twelve), Err(Refusal::ActionUnresolved { .. })));
    let sugar = kitchen.draft("c", SUGAR);
    kitchen.world.run(&sugar).unwrap();
    // An absent member is a value of its own, and not the same as null.
    for (operation, week) in [("d", "null"), ("e", "32")] {
        let other =
            kitchen.draft(operation, &format!(r#"{{"sku":"flour-25kg","quantity":10,"week":{week}}}"#));
        kitchen.world.run(&other).unwrap();
    }
}

#[test]
fn a_change_of_what_makes_it_the_same_action_opens_no_way_around() {
    for (before, after) in [
        (guarding(&["/sku"]), with_nothing()),
        (with_nothing(), guarding(&["/sku"])),
        (guarding(&["/sku"]), guarding(&["/quantity"])),
    ] {
        let mut kitchen = Kitchen::with(before);
        kitchen.prepare("a").unwrap();
        // Prepared while the first declaration was in force, and started under the second.
        let early = kitchen.draft("b", TWELVE);
        kitchen.world.run(&early).unwrap();
        kitchen.begin("a", 1);
        kitchen.report("a", 1, lost());
        kitchen.world.declare(after);
        assert_eq!(blocked(&kitchen.execute("b").unwrap().begun), ["a"]);
        let late = kitchen.draft("c", TWELVE);
        assert!(matches!(kitchen.world.run(&late), Err(Refusal::ActionUnresolved { .. })));
    }
}
