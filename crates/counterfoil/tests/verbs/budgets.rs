//! How often, how long, and when sends stand still.

use counterfoil::backoff::Spent;
use counterfoil::decide::{Action, due_at};
use counterfoil::destination::Finding;
use counterfoil::error::Refusal;
use counterfoil::id::ToolName;
use counterfoil::operation::RejectionCode;
use counterfoil::policy::{Bucket, Carrier, Meaning};
use counterfoil::recovery::{HoldReason, NoneFacts, Recovery};
use counterfoil::snapshot::PauseDraft;
use counterfoil::state::State;
use counterfoil::verbs::Begun;

use super::support::*;

fn name() -> ToolName {
    ToolName::parse(TOOL).unwrap()
}

fn code(kitchen: &Kitchen) -> Option<RejectionCode> {
    match &kitchen.row("a").state {
        State::Rejected(rejection) => Some(rejection.code),
        State::Prepared(_) | State::InProgress(_) | State::Succeeded(_) | State::Unknown(_) => None,
    }
}

#[test]
fn a_budget_of_settled_attempts_ends_in_a_rejection() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    for number in 1..=5 {
        kitchen.begin("a", number);
        kitchen.report("a", number, answer(Meaning::Throttled, 429));
    }
    assert_eq!(code(&kitchen), Some(RejectionCode::BudgetExhausted));
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
}

#[test]
fn a_budget_with_an_open_attempt_ends_with_a_person() {
    let mut tool = with_key();
    tool.budget.attempts = 2;
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    for number in 1..=2 {
        kitchen.begin("a", number);
        kitchen.report("a", number, lost());
    }
    assert_eq!((kitchen.state("a"), kitchen.hold("a")), ("unknown", Some(HoldReason::BudgetSpent)));
}

#[test]
fn retry_after_is_a_lower_bound_and_beyond_the_budget_an_end() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let later = |count| Finding { retry_after: Some(seconds(count)), ..answer(Meaning::Throttled, 429) };
    kitchen.report("a", 1, later(30));
    kitchen.wait(29);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.next("a"), (Action::Retry, Some("throttled")));
    kitchen.wait(1);
    kitchen.begin("a", 2);
    kitchen.report("a", 2, later(900));
    assert_eq!(code(&kitchen), Some(RejectionCode::BudgetExhausted));
}

#[test]
fn elapsed_time_ends_what_waits_between_settled_attempts() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, refused_connection());
    kitchen.wait(15 * 60);
    assert!(!kitchen.tick("a").changed, "the last instant still counts");
    kitchen.world.advance(std::time::Duration::from_millis(1));
    kitchen.tick("a");
    assert_eq!(code(&kitchen), Some(RejectionCode::BudgetExhausted));
}

#[test]
fn three_credential_refusals_pause_the_tool_and_use_up_nothing() {
    let mut kitchen = Kitchen::with(with_nothing());
    let scope = Some("vendor-1");
    for (count, operation) in (1..).zip(["a", "b", "c"]) {
        let draft = kitchen.draft(operation, &format!(r#"{{"sku":"{operation}"}}"#));
        kitchen.world.run(&draft).unwrap();
        kitchen.begin(operation, 1);
        kitchen.report(operation, 1, bad_credential());
        assert_eq!(kitchen.state(operation), "prepared");
        assert_eq!(kitchen.world.paused(&name(), scope), count == 3);
    }
    assert!(!kitchen.world.paused(&name(), Some("vendor-2")), "another vendor account goes on");
    assert_eq!(Spent::by(&kitchen.row("a").attempts, seconds(0)).attempts, 0);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.next("a"), (Action::Retry, Some("paused")));
    // A night later none has ended, and after the credential is mended all run.
    kitchen.wait(12 * 3600);
    for operation in ["a", "b", "c"] {
        assert!(!kitchen.tick(operation).changed);
    }
    kitchen.world.resume(Some(&name()));
    for operation in ["a", "b", "c"] {
        assert!(!kitchen.tick(operation).changed);
        kitchen.begin(operation, 2);
        kitchen.report(operation, 2, answer(Meaning::Succeeded, 201));
        assert_eq!(kitchen.state(operation), "succeeded");
    }
}

#[test]
fn an_answer_in_between_begins_the_count_anew() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    let findings = [bad_credential(), bad_credential(), answer(Meaning::Throttled, 429), bad_credential()];
    for (number, finding) in (1..).zip(findings) {
        kitchen.begin("a", number);
        kitchen.report("a", number, finding);
    }
    assert!(!kitchen.world.paused(&name(), Some("vendor-1")));
}

#[test]
fn a_pause_stops_every_start_and_does_not_count() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.world.pause(PauseDraft { tool: None, scope: None, by: "ops".to_owned(), note: String::new() });
    kitchen.wait(3600);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    let next = kitchen.tick("a").view.next;
    assert_eq!((next.action, next.at, next.reason), (Action::Reconcile, None, Some("paused")));
    kitchen.world.resume(None);
    kitchen.begin("a", 2);
}

#[test]
fn a_clock_in_doubt_stops_every_start() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.world.clock_in_doubt = true;
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.next("a"), (Action::Retry, Some("clock-in-doubt")));
}

#[test]
fn a_bucket_spreads_starts() {
    let mut tool = with_key();
    if let Carrier::Http(http) = &mut tool.carrier {
        http.bucket = Some(Bucket { rate_milli: 500, burst: 1 });
    }
    let mut kitchen = Kitchen::with(tool);
    for operation in ["a", "b"] {
        let draft = kitchen.draft(operation, &format!(r#"{{"sku":"{operation}"}}"#));
        kitchen.world.run(&draft).unwrap();
    }
    let offer = |kitchen: &Kitchen| {
        let mut offer = kitchen.offer("a");
        offer.bucket = Some("supplier".to_owned());
        Some(offer)
    };
    let given = offer(&kitchen);
    assert_eq!(kitchen.start_as(Some(app()), "a", given).unwrap().begun, Begun::Started(1));
    let given = offer(&kitchen);
    assert_eq!(kitchen.start_as(Some(app()), "b", given).unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.tick("b").view.next.at, Some(kitchen.world.now().plus(seconds(2))));
    kitchen.wait(2);
    let given = offer(&kitchen);
    assert_eq!(kitchen.start_as(None, "b", given).unwrap().begun, Begun::Started(1));
}

#[test]
fn what_nobody_started_ends_and_what_nobody_wishes_does_not_begin() {
    let mut tool = with_key();
    tool.retention = seconds(7200);
    let mut kitchen = Kitchen::with(tool.clone());
    kitchen.prepare("a").unwrap();
    assert_eq!(kitchen.carry("a"), Begun::NotNow);
    assert_eq!(due_at(kitchen.row("a"), &tool), Some(kitchen.world.now().plus(seconds(7200))));
    kitchen.wait(7200);
    kitchen.tick("a");
    assert_eq!(code(&kitchen), Some(RejectionCode::NotStarted));
    assert_eq!(due_at(kitchen.row("a"), &tool), None);
}

#[test]
fn a_tool_that_is_no_longer_declared_holds_its_operations() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    let draft = kitchen.draft("b", r#"{"sku":"b"}"#);
    kitchen.world.run(&draft).unwrap();
    kitchen.world.undeclare(&name());
    for operation in ["a", "b"] {
        assert_eq!(kitchen.execute(operation).unwrap().begun, Begun::NotNow);
        assert_eq!(kitchen.next(operation), (Action::Review, Some("tool-not-declared")));
    }
    assert_eq!(kitchen.prepare("c").unwrap_err(), Refusal::UnknownTool);
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.state("a"), "succeeded");
}

#[test]
fn another_kind_of_recovery_protects_nothing_that_was_sent() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.world.declare(tool(Recovery::None(NoneFacts::default())));
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.hold("a"), Some(HoldReason::RecoveryChanged));
}

#[test]
fn another_kind_of_recovery_does_not_forget_the_first_ones_window() {
    let mut kitchen = Kitchen::with({
        let mut tool = with_key();
        tool.budget.elapsed = seconds(48 * 3600);
        tool
    });
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Throttled, 429));
    let mut other = tool(Recovery::None(NoneFacts::default()));
    other.budget.elapsed = seconds(48 * 3600);
    kitchen.world.declare(other);
    kitchen.wait(24 * 3600);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(code(&kitchen), Some(RejectionCode::BudgetExhausted));
}

#[test]
fn the_stricter_declaration_decides_whether_to_send() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    let mut stricter = with_key();
    stricter.budget.attempts = 1;
    kitchen.world.declare(stricter);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.hold("a"), Some(HoldReason::BudgetSpent));
}
