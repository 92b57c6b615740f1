//! Lost replies, refusals, late reports.

use counterfoil::decide::Action;
use counterfoil::destination::Finding;
use counterfoil::error::Refusal;
use counterfoil::id::FencingToken;
use counterfoil::operation::{AttemptOutcome, Marker, ReceiptSource, RejectionCode};
use counterfoil::policy::Meaning;
use counterfoil::recovery::{HoldReason, Recovery, StoredErrors};
use counterfoil::state::{Open, State};
use counterfoil::time::Timestamp;
use counterfoil::verbs::Begun;

use super::support::*;

#[test]
fn a_lost_reply_with_a_key_is_sent_again_under_the_same_key() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let told = kitchen.report("a", 1, lost()).view;
    assert_eq!((told.operation.state.label(), told.next.action), ("unknown", Action::Reconcile));
    let until = Timestamp::parse("2026-11-30T13:46:11.020Z");
    assert_eq!((told.send_allowed_until, told.held()), (until, false));
    kitchen.begin("a", 2);
    kitchen.report("a", 2, answer(Meaning::Succeeded, 201));
    let row = kitchen.row("a");
    assert_eq!(row.attempts[0].key, row.attempts[1].key);
    assert_eq!(row.state.receipt().unwrap().source, ReceiptSource::Response);
    assert!(kitchen.execute("a").unwrap().view.replayed);
    assert_eq!(kitchen.row("a").attempts.len(), 2);
}

#[test]
fn after_the_destinations_memory_nothing_is_sent() {
    let mut kitchen = Kitchen::with(with_key());
    let mut tool = with_key();
    tool.budget.elapsed = seconds(48 * 3600);
    kitchen.world.declare(tool);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    // Half a lease before the last instant the last byte would still be in time; then no longer.
    kitchen.wait(24 * 3600 - 16 * 60 - 15);
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.hold("a"), Some(HoldReason::WindowClosed));
    assert_eq!(kitchen.row("a").attempts.len(), 1);
}

#[test]
fn one_instant_earlier_it_is_sent() {
    let mut tool = with_key();
    tool.budget.elapsed = seconds(48 * 3600);
    let mut kitchen = Kitchen::with(tool);
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.wait(24 * 3600 - 16 * 60 - 15 - 1);
    kitchen.begin("a", 2);
}

#[test]
fn without_recovery_it_is_held_and_further_calls_send_nothing() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    assert!(kitchen.report("a", 1, lost()).view.held());
    for _ in 0..3 {
        let version = kitchen.row("a").version;
        assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
        assert_eq!(kitchen.next("a"), (Action::Review, Some("no-recovery")));
        assert_eq!((kitchen.row("a").attempts.len(), kitchen.row("a").version), (1, version));
    }
}

#[test]
fn a_refusal_of_the_second_attempt_says_nothing_about_the_first() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    kitchen.begin("a", 2);
    kitchen.report("a", 2, answer(Meaning::Rejected, 400));
    assert_eq!(kitchen.state("a"), "unknown");
    assert_eq!(kitchen.hold("a"), Some(HoldReason::RefusedAfterUnknown));
    assert_eq!(kitchen.execute("a").unwrap().begun, Begun::NotNow);
    assert_eq!(kitchen.row("a").attempts.len(), 2);
}

#[test]
fn a_refusal_counts_once_nothing_else_may_have_worked() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.wait(31);
    kitchen.tick("a");
    kitchen.begin("a", 2);
    kitchen.report("a", 2, answer(Meaning::Rejected, 422));
    assert_eq!(kitchen.state("a"), "unknown");
    // The maker of the first attempt comes back: it never sent it.
    kitchen.report("a", 1, refused_connection());
    kitchen.tick("a");
    let State::Rejected(rejection) = &kitchen.row("a").state else { panic!("{:?}", kitchen.row("a").state) };
    assert_eq!(rejection.code, RejectionCode::DestinationRejected);
}

#[test]
fn refused_connections_settle_and_the_fourth_attempt_works() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    for number in 1..=3 {
        kitchen.begin("a", number);
        kitchen.report("a", number, refused_connection());
        assert_eq!(kitchen.state("a"), "prepared");
    }
    kitchen.begin("a", 4);
    kitchen.report("a", 4, answer(Meaning::Succeeded, 201));
    let outcomes: Vec<_> = kitchen.row("a").attempts.iter().map(|attempt| attempt.outcome.unwrap()).collect();
    let not_sent = AttemptOutcome::NotSent;
    assert_eq!(outcomes, [not_sent, not_sent, not_sent, AttemptOutcome::Succeeded]);
}

#[test]
fn a_silent_worker_proves_nothing_and_its_success_still_counts() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.wait(29);
    assert!(!kitchen.tick("a").changed);
    kitchen.wait(1);
    assert!(kitchen.tick("a").changed);
    assert_eq!((kitchen.state("a"), kitchen.hold("a")), ("unknown", Some(HoldReason::NoRecovery)));
    let reply = kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert!(!reply.stale);
    assert_eq!(kitchen.row("a").state.receipt().unwrap().source, ReceiptSource::LateReport);
}

#[test]
fn an_outranked_negative_is_kept_and_moves_nothing() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.wait(31);
    kitchen.tick("a");
    kitchen.begin("a", 2);
    let rows = kitchen.world.evidence().len();
    for finding in [answer(Meaning::Rejected, 422), answer(Meaning::Throttled, 429), lost()] {
        let reply = kitchen.report("a", 1, finding);
        assert!(reply.stale);
        assert_eq!(reply.view.operation.state.label(), "in_progress");
        assert!(!reply.view.operation.attempts[0].settled);
    }
    assert_eq!(kitchen.world.evidence().len(), rows + 3);
}

#[test]
fn an_outranked_success_wins_while_a_newer_attempt_runs() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.wait(31);
    kitchen.tick("a");
    kitchen.begin("a", 2);
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.state("a"), "succeeded");
    // The newer one brings the same reference: nothing new.
    kitchen.report("a", 2, answer(Meaning::Succeeded, 200));
    assert!(!kitchen.row("a").duplicate_suspected);
}

#[test]
fn a_second_success_with_another_reference_is_flagged() {
    for same_attempt in [true, false] {
        let mut kitchen = Kitchen::with(with_key());
        kitchen.prepare("a").unwrap();
        kitchen.begin("a", 1);
        kitchen.report("a", 1, lost());
        kitchen.begin("a", 2);
        kitchen.report("a", 2, answer(Meaning::Succeeded, 201));
        let second = Finding { reference: Some("po_4712".to_owned()), ..answer(Meaning::Succeeded, 201) };
        kitchen.report("a", if same_attempt { 2 } else { 1 }, second);
        assert!(kitchen.row("a").duplicate_suspected);
        assert_eq!(kitchen.row("a").state.receipt().unwrap().reference.as_deref(), Some("po_4711"));
        assert_eq!(kitchen.next("a"), (Action::Review, Some("duplicate-suspected")));
        assert_eq!(kitchen.row("a").receipt_expires_at, None, "kept until somebody has looked");
    }
}

#[test]
fn a_late_not_sent_settles_its_own_attempt_and_the_next_pass_decides() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.wait(31);
    kitchen.tick("a");
    assert_eq!(kitchen.hold("a"), Some(HoldReason::NoRecovery));
    assert!(!kitchen.report("a", 1, refused_connection()).stale);
    kitchen.tick("a");
    assert_eq!(kitchen.state("a"), "prepared");
    kitchen.begin("a", 2);
}

#[test]
fn who_said_that_it_was_sent_cannot_say_that_it_was_not() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    let reply = kitchen.report("a", 1, refused_connection());
    assert!(reply.stale && !reply.view.operation.attempts[0].settled);
    kitchen.tick("a");
    assert_eq!(kitchen.state("a"), "unknown");
}

#[test]
fn an_answer_read_after_callers_left_counts_as_if_in_time() {
    for (finding, expected) in [
        (answer(Meaning::Succeeded, 201), "succeeded"),
        (answer(Meaning::Rejected, 422), "rejected"),
        (answer(Meaning::Throttled, 429), "prepared"),
        (lost(), "unknown"),
    ] {
        let mut kitchen = Kitchen::with(with_nothing());
        kitchen.prepare("a").unwrap();
        kitchen.begin("a", 1);
        let until = kitchen.world.now().plus(seconds(60));
        kitchen.report("a", 1, Finding { lingers_until: Some(until), ..lost() });
        assert_eq!((kitchen.state("a"), kitchen.hold("a")), ("unknown", None));
        kitchen.wait(50);
        kitchen.report("a", 1, finding);
        assert_eq!(kitchen.state("a"), expected);
    }
}

#[test]
fn a_refusal_read_late_under_an_older_claim_moves_nothing() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let until = kitchen.world.now().plus(seconds(60));
    kitchen.report("a", 1, Finding { lingers_until: Some(until), ..lost() });
    kitchen.begin("a", 2);
    assert!(kitchen.report("a", 1, answer(Meaning::Rejected, 422)).stale);
    kitchen.report("a", 2, lost());
    assert!(kitchen.report("a", 1, answer(Meaning::Rejected, 422)).stale);
    assert_eq!(kitchen.state("a"), "unknown");
}

#[test]
fn while_somebody_reads_nothing_is_held_and_afterwards_it_is() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    let until = kitchen.world.now().plus(seconds(60));
    kitchen.report("a", 1, Finding { lingers_until: Some(until), ..lost() });
    assert_eq!(kitchen.row("a").state, State::Unknown(Open { not_before: Some(until), ..Open::default() }));
    kitchen.wait(60);
    kitchen.tick("a");
    assert_eq!(kitchen.hold("a"), Some(HoldReason::NoRecovery));
}

#[test]
fn a_repeated_report_changes_nothing_and_a_forged_one_is_refused() {
    let mut kitchen = Kitchen::with(with_key());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    let version = kitchen.row("a").version;
    kitchen.report("a", 1, lost());
    assert_eq!(kitchen.row("a").version, version);
    for (attempt, fence) in [(1, 7), (2, 1), (0, 1)] {
        let forged = kitchen.report_under("a", attempt, FencingToken(fence), answer(Meaning::Succeeded, 201));
        assert_eq!(forged.unwrap_err(), Refusal::StaleClaim);
    }
    assert_eq!(kitchen.state("a"), "unknown");
}

#[test]
fn proof_against_a_rejection_is_flagged_and_overwrites_nothing() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Rejected, 422));
    kitchen.report("a", 1, answer(Meaning::Succeeded, 201));
    assert_eq!(kitchen.state("a"), "rejected");
    assert!(kitchen.row("a").duplicate_suspected && kitchen.row("a").unresolved());
    assert_eq!(kitchen.next("a"), (Action::Review, Some("duplicate-suspected")));
}

#[test]
fn stored_errors_decide_whether_a_repeat_can_help() {
    let cases = [
        (StoredErrors::All, false, [500, 500], Some(HoldReason::StoredFailure)),
        (StoredErrors::All, false, [500, 503], None),
        (StoredErrors::Reruns, false, [500, 500], None),
        (StoredErrors::SuccessOnly, true, [500, 500], None),
    ];
    for (stored_errors, rolls_back, statuses, held) in cases {
        let facts = Recovery::IdempotencyKey(counterfoil::recovery::KeyFacts {
            stored_errors,
            rolls_back,
            ..key_facts()
        });
        let mut kitchen = Kitchen::with(tool(facts));
        kitchen.prepare("a").unwrap();
        for (number, status) in (1..).zip(statuses) {
            kitchen.begin("a", number);
            kitchen.report("a", number, answer(Meaning::Unknown, status));
        }
        assert_eq!(kitchen.hold("a"), held, "{stored_errors:?} {statuses:?}");
    }
    let facts = Recovery::IdempotencyKey(counterfoil::recovery::KeyFacts {
        stored_errors: StoredErrors::SuccessOnly,
        ..key_facts()
    });
    let mut kitchen = Kitchen::with(tool(facts));
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, lost());
    assert_eq!(kitchen.hold("a"), Some(HoldReason::FailureNotStored));
}

#[test]
fn another_vendor_account_or_another_request_is_never_sent_after_an_unknown() {
    for (scope, digest, reason) in [
        ("vendor-2", "sha256:one", HoldReason::ScopeChanged),
        ("vendor-1", "sha256:two", HoldReason::RequestChanged),
    ] {
        let mut kitchen = Kitchen::with(with_key());
        kitchen.prepare("a").unwrap();
        kitchen.begin("a", 1);
        kitchen.report("a", 1, lost());
        let mut offer = kitchen.offer("a");
        (offer.scope, offer.request_digest) = (Some(scope.to_owned()), digest.to_owned());
        assert_eq!(kitchen.start_as(Some(app()), "a", Some(offer)).unwrap().begun, Begun::NotNow);
        assert_eq!(kitchen.hold("a"), Some(reason));
    }
}

#[test]
fn accepted_is_not_done() {
    let mut kitchen = Kitchen::with(with_nothing());
    kitchen.prepare("a").unwrap();
    kitchen.begin("a", 1);
    kitchen.report("a", 1, answer(Meaning::Pending, 202));
    assert_eq!((kitchen.state("a"), kitchen.hold("a")), ("unknown", Some(HoldReason::NoRecovery)));
    assert_eq!(kitchen.row("a").attempts[0].marker, Some(Marker::BytesWritten));
}

/// Sent with the new credential it would stand in the ledger as sent to the former vendor account.
#[test]
fn the_first_attempt_does_not_go_to_another_vendor_account_either() {
    let mut kitchen = Kitchen::with(with_key());
    let elsewhere = || {
        let mut tool = with_key();
        if let counterfoil::policy::Carrier::Http(http) = &mut tool.carrier {
            http.scope = Some("vendor-2".to_owned());
        }
        tool
    };
    kitchen.prepare("a").unwrap();
    kitchen.world.declare(elsewhere());
    let reply = kitchen.execute("a").unwrap();
    assert_eq!(reply.begun, Begun::NotNow);
    assert_eq!((reply.view.next.action, reply.view.next.reason), (Action::Review, Some("scope-changed")));
    assert_eq!(kitchen.row("a").attempts.len(), 0);
    // Nothing was held for good: declared as before, it runs.
    kitchen.world.declare(with_key());
    kitchen.begin("a", 1);
}
