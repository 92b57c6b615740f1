//! Of the operations about one thing, one at a time.

use counterfoil::decide::Action;
use counterfoil::error::Refusal;
use counterfoil::id::{Subject, Task};
use counterfoil::policy::Meaning;
use counterfoil::verbs::{Begun, Prepare, Verdict};

use super::support::*;
use super::verdicts::{ABSENT, bounded};

impl Kitchen {
    /// An action of its own about one subject, in a task of its own.
    fn about(&mut self, operation: &str, subject: &str) {
        let draft = self.draft(operation, &format!(r#"{{"sku":"{operation}"}}"#));
        let verb = Prepare {
            subject: Some(Subject::parse(subject).unwrap()),
            task: Some(Task::parse(operation).unwrap()),
            ..draft
        };
        self.world.run(&verb).unwrap();
    }

    fn step(&mut self, operation: &str) -> (Action, Option<String>, Option<&'static str>) {
        let next = self.tick(operation).view.next;
        (next.action, next.operation.map(|id| id.to_string()), next.reason)
    }
}

fn held_by_a() -> (Action, Option<String>, Option<&'static str>) {
    (Action::WaitForOperation, Some("a".to_owned()), Some("subject-held"))
}

#[test]
fn the_first_to_start_takes_the_subject() {
    let mut kitchen = Kitchen::with(bounded());
    for operation in ["a", "b", "other"] {
        kitchen.about(operation, if operation == "other" { "week-33" } else { "week-32" });
    }
    assert_eq!(kitchen.step("b").0, Action::Execute, "neither holds it yet");
    kitchen.begin("a", 1);
    assert_eq!(kitchen.step("b"), held_by_a());
    let Refusal::BlockedByOperation { blockers } = kitchen.execute("b").unwrap_err() else { panic!() };
    assert_eq!(blockers[0].id, id("a"));
    kitchen.report("a", 1, lost());
    assert_eq!(kitchen.step("b"), held_by_a());
    kitchen.begin("other", 1);
    kitchen.wait(3600);
    kitchen.resolve("a", ABSENT).unwrap();
    kitchen.begin("b", 1);
}

#[test]
fn who_was_prepared_before_the_success_must_name_it_and_later_ones_need_not() {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.about("a", "week-32");
    kitchen.about("b", "week-32");
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    kitchen.wait(1);
    kitchen.about("c", "week-32");
    assert_eq!(kitchen.step("b"), (Action::Approve, Some("a".to_owned()), Some("subject-succeeded")));
    assert_eq!(kitchen.execute("b").unwrap_err(), Refusal::ApprovalRequired);
    kitchen.begin("c", 1);
    assert_eq!(kitchen.step("b").0, Action::WaitForOperation);
    kitchen.report("c", 1, answer(Meaning::Succeeded, 201));
    kitchen.approve_as(ann(), "b", Some("a")).unwrap();
    assert_eq!(kitchen.execute("b").unwrap_err(), Refusal::ApprovalRequired, "each of them");
    kitchen.approve_as(ann(), "b", Some("c")).unwrap();
    kitchen.begin("b", 1);
}

#[test]
fn whoever_was_first_keeps_the_subject_until_it_is_over() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.about("a", "week-32");
    kitchen.about("b", "week-32");
    kitchen.begin("a", 1);
    kitchen.report("a", 1, refused_connection());
    assert_eq!((kitchen.state("a"), kitchen.step("b")), ("prepared", held_by_a()));
    assert!(matches!(kitchen.execute("b"), Err(Refusal::BlockedByOperation { .. })));
    kitchen.wait(1);
    assert_eq!(kitchen.carry("a"), Begun::Started(2));
    // A spent budget is an end: every attempt is settled.
    kitchen.wait(1000);
    kitchen.report("a", 2, refused_connection());
    assert_eq!(kitchen.state("a"), "rejected");
    kitchen.begin("b", 1);
}

#[test]
fn released_or_settled_it_lets_go_and_a_late_proof_is_suspect() {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.about("a", "week-32");
    kitchen.about("b", "week-32");
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.resolve("a", Verdict::Abandoned).unwrap();
    assert_eq!(kitchen.step("b"), held_by_a(), "nobody knows whether it worked");
    kitchen.release(ann(), "a").unwrap();
    kitchen.begin("b", 1);
    assert!(kitchen.row("a").overtaken);
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert!(kitchen.row("a").duplicate_suspected);
}

#[test]
fn whoever_takes_a_place_inherits_the_wait_for_a_subject() {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.about("a", "week-32");
    kitchen.about("b", "week-32");
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    // About nothing in particular, and still in line.
    let changed = kitchen.draft("c", r#"{"sku":"c"}"#);
    kitchen.world.run(&Prepare { replaces: Some(id("b")), ..changed }).unwrap();
    assert_eq!(kitchen.row("c").inherits, [id("a")]);
    assert!(matches!(kitchen.execute("c"), Err(Refusal::BlockedByOperation { .. })));
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.execute("c").unwrap_err(), Refusal::ApprovalRequired);
}

#[test]
fn an_inherited_wait_holds_in_the_commit_that_takes_the_place() {
    for worked in [false, true] {
        let mut kitchen = Kitchen::with(bounded());
        kitchen.about("a", "week-32");
        kitchen.about("b", "week-32");
        kitchen.begin("a", 1);
        kitchen.report("a", 1, if worked { answer(Meaning::Succeeded, 201) } else { lost() });
        let (draft, offer) = (kitchen.draft("c", r#"{"sku":"c"}"#), Some(kitchen.offer("c")));
        let changed = Prepare { replaces: Some(id("b")), execute: true, offer, ..draft };
        let reply = kitchen.world.run(&changed).unwrap();
        assert!(!matches!(reply.begun, Begun::Started(_)), "worked: {worked}");
        assert_eq!(kitchen.row("c").attempts.len(), 0, "worked: {worked}");
        let next = if worked { Action::Approve } else { Action::WaitForOperation };
        assert_eq!(reply.view.next.action, next, "the answer says what it waits for");
    }
}

#[test]
fn a_success_that_a_person_settles_late_counts_from_then() {
    let mut kitchen = Kitchen::with(bounded());
    kitchen.about("a", "week-32");
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Rejected, 422));
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    kitchen.wait(1);
    kitchen.about("b", "week-32");
    assert_eq!(kitchen.step("b"), held_by_a(), "it contradicts itself");
    let reference = counterfoil::verbs::Words::parse("po_4711").unwrap();
    kitchen.resolve("a", Verdict::Succeeded { reference }).unwrap();
    assert_eq!(kitchen.step("b"), (Action::Approve, Some("a".to_owned()), Some("subject-succeeded")));
}
