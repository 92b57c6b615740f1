//! The guards of recovery, fact by fact: what may be sent again, from when on an absence is final, and which of two
//! declarations is the stricter one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use counterfoil::id::{FencingToken, ToolName, WorkerName};
use counterfoil::keys::KeyFormat;
use counterfoil::operation::{Attempt, AttemptOutcome};
use counterfoil::pointer::Pointer;
use counterfoil::policy::{self, Carrier, Tool};
use counterfoil::recovery::{
    HoldReason, KeyFacts, LookUpBy, LookUpFacts, LookUpRequest, NoneFacts, Place, Recovery, ReferenceFacts,
    StoredErrors, stricter,
};
use counterfoil::time::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Seconds after some beginning.
fn at(count: u64) -> Timestamp {
    Timestamp::from_millis(1_000_000).plus(seconds(count))
}

fn attempt(number: u32, started: u64, outcome: Option<AttemptOutcome>) -> Attempt {
    let settled = match outcome {
        Some(
            AttemptOutcome::NotSent
            | AttemptOutcome::NotProcessed
            | AttemptOutcome::Throttled
            | AttemptOutcome::Rejected,
        ) => true,
        Some(AttemptOutcome::Succeeded | AttemptOutcome::Pending | AttemptOutcome::Unknown) | None => false,
    };
    Attempt {
        number,
        worker: WorkerName::parse("node-1").unwrap(),
        fence: FencingToken(u64::from(number)),
        held_by: None,
        looked_up_by: Vec::new(),
        started_at: at(started),
        send_before: at(started).plus(seconds(15)),
        lingers_until: None,
        ended_at: None,
        outcome,
        settled,
        counts: true,
        marker: None,
        status: None,
        error: None,
        duplicate_of_ours: false,
        key: None,
        scope: None,
        request_digest: String::new(),
    }
}

fn lost(number: u32, started: u64) -> Attempt {
    attempt(number, started, Some(AttemptOutcome::Unknown))
}

fn place() -> Place {
    Place::Header("Idempotency-Key".to_owned())
}

fn key_facts() -> KeyFacts {
    KeyFacts {
        key: place(),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        retention: seconds(24 * HOUR),
        request_lifetime: seconds(15 * MINUTE),
        stored_errors: StoredErrors::All,
        rolls_back: false,
        skew: seconds(MINUTE),
        lookup: None,
        lookup_for: seconds(24 * HOUR),
    }
}

fn key() -> Recovery {
    Recovery::IdempotencyKey(key_facts())
}

fn request() -> LookUpBy {
    LookUpBy::Http(Box::new(LookUpRequest {
        method: "GET".to_owned(),
        url: "http://127.0.0.1/orders/{reference}".to_owned(),
        found: Pointer::parse("/id").unwrap(),
        count: None,
        must_match: Vec::new(),
    }))
}

fn reference_facts(unique_for: Option<u64>) -> ReferenceFacts {
    ReferenceFacts {
        reference: place(),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        unique_for: unique_for.map(seconds),
        request_lifetime: seconds(15 * MINUTE),
        skew: seconds(MINUTE),
        lookup: Some(request()),
        lookup_for: seconds(24 * HOUR),
    }
}

fn look_up_facts(authoritative: bool, lifetime: Option<u64>) -> LookUpFacts {
    LookUpFacts {
        reference: place(),
        key_format: KeyFormat::Hex32,
        key_max_len: None,
        lookup: request(),
        authoritative,
        request_lifetime: lifetime.map(seconds),
        queue_time: seconds(30),
        skew: seconds(MINUTE),
        lookup_for: seconds(24 * HOUR),
    }
}

fn look_up(authoritative: bool, lifetime: Option<u64>) -> Recovery {
    Recovery::LookUp(look_up_facts(authoritative, lifetime))
}

#[test]
fn the_window_is_retention_less_lifetime_and_skew_from_the_first_attempt() {
    assert_eq!(key().send_allowed_until(&[]), None);
    let until = |attempts: &[Attempt]| key().send_allowed_until(attempts);
    assert_eq!(until(&[lost(1, 0)]), Some(at(24 * HOUR - 16 * MINUTE)));
    assert_eq!(until(&[lost(1, 0), lost(2, HOUR)]), Some(at(24 * HOUR - 16 * MINUTE)));
}

#[test]
fn it_counts_from_the_first_attempt_that_may_have_arrived() {
    use AttemptOutcome::{NotProcessed, NotSent, Pending, Rejected, Throttled, Unknown};
    let shifted = Some(at(HOUR + 24 * HOUR - 16 * MINUTE));
    let first = Some(at(24 * HOUR - 16 * MINUTE));
    for (outcome, expected) in [
        (Some(NotSent), shifted),
        (Some(NotProcessed), first),
        (Some(Throttled), first),
        (Some(Rejected), first),
        (Some(Pending), first),
        (Some(Unknown), first),
        (None, first),
    ] {
        let attempts = [attempt(1, 0, outcome), lost(2, HOUR)];
        assert_eq!(key().send_allowed_until(&attempts), expected, "{outcome:?}");
    }
    assert_eq!(key().send_allowed_until(&[attempt(1, 0, Some(NotSent))]), None);
}

#[test]
fn the_last_byte_must_stay_below_the_window_also_after_settled_attempts() {
    let window = seconds(15);
    let until = 24 * HOUR - 16 * MINUTE;
    for attempts in [vec![lost(1, 0)], vec![attempt(1, 0, Some(AttemptOutcome::Throttled))]] {
        assert_eq!(key().may_send_again(&attempts, at(until - 16), window), Ok(()));
        for late in [until - 15, until, 24 * HOUR, 1_000 * HOUR] {
            let refused = key().may_send_again(&attempts, at(late), window);
            assert_eq!(refused, Err(HoldReason::WindowClosed), "{late}");
        }
    }
    let never_sent = [attempt(1, 0, Some(AttemptOutcome::NotSent))];
    assert_eq!(key().may_send_again(&never_sent, at(1_000 * HOUR), window), Ok(()));
}

#[test]
fn a_reference_is_remembered_as_long_as_it_is_unique() {
    let forever = Recovery::UniqueReference(reference_facts(None));
    assert_eq!(forever.send_allowed_until(&[lost(1, 0)]), None);
    assert_eq!(forever.may_send_again(&[lost(1, 0)], at(10_000 * HOUR), seconds(15)), Ok(()));
    let a_day = Recovery::UniqueReference(reference_facts(Some(24 * HOUR)));
    assert_eq!(a_day.send_allowed_until(&[lost(1, 0)]), Some(at(24 * HOUR - 16 * MINUTE)));
    let late = a_day.may_send_again(&[lost(1, 0)], at(24 * HOUR), seconds(15));
    assert_eq!(late, Err(HoldReason::WindowClosed));
    let conflict = Attempt { duplicate_of_ours: true, ..lost(1, 0) };
    let open = forever.may_send_again(&[conflict], at(1), seconds(15));
    assert_eq!(open, Err(HoldReason::ConflictOpen), "the record exists: fetch it");
}

#[test]
fn what_may_have_worked_is_repeated_only_where_the_destination_collapses_it() {
    let refused = [lost(1, 0), attempt(2, 1, Some(AttemptOutcome::Rejected))];
    let settled = [attempt(1, 0, Some(AttemptOutcome::Throttled))];
    let cases = [
        (key(), Ok(()), Err(HoldReason::RefusedAfterUnknown)),
        (look_up(true, Some(MINUTE)), Err(HoldReason::NotProtected), Err(HoldReason::RefusedAfterUnknown)),
        (
            Recovery::None(NoneFacts::default()),
            Err(HoldReason::NoRecovery),
            Err(HoldReason::RefusedAfterUnknown),
        ),
        (Recovery::Transaction, Err(HoldReason::NoRecovery), Err(HoldReason::RefusedAfterUnknown)),
    ];
    for (recovery, open, after_refusal) in cases {
        let ask = |attempts: &[Attempt]| recovery.may_send_again(attempts, at(5), seconds(15));
        assert_eq!(ask(&[lost(1, 0)]), open, "{}", recovery.kind());
        assert_eq!(ask(&[attempt(1, 0, None)]), open, "nobody reported: it counts as sent");
        assert_eq!(ask(&refused), after_refusal, "{}", recovery.kind());
        assert_eq!(ask(&settled), Ok(()), "{}", recovery.kind());
    }
}

#[test]
fn stored_failures_end_the_sends_by_family() {
    let failed = |statuses: &[u16]| -> Vec<Attempt> {
        (1..).zip(statuses).map(|(n, status)| Attempt { status: Some(*status), ..lost(n, 0) }).collect()
    };
    type Family = (StoredErrors, bool, &'static [u16], Result<(), HoldReason>);
    let cases: [Family; 9] = [
        (StoredErrors::All, false, &[], Ok(())),
        (StoredErrors::All, false, &[500], Ok(())),
        (StoredErrors::All, false, &[500, 503], Ok(())),
        (StoredErrors::All, false, &[409, 409], Ok(())),
        (StoredErrors::All, false, &[500, 503, 500], Err(HoldReason::StoredFailure)),
        (StoredErrors::SuccessOnly, false, &[], Err(HoldReason::FailureNotStored)),
        (StoredErrors::SuccessOnly, false, &[500], Err(HoldReason::FailureNotStored)),
        (StoredErrors::SuccessOnly, true, &[500, 500], Ok(())),
        (StoredErrors::Reruns, false, &[500, 500], Ok(())),
    ];
    for (stored_errors, rolls_back, statuses, expected) in cases {
        let recovery = Recovery::IdempotencyKey(KeyFacts { stored_errors, rolls_back, ..key_facts() });
        let mut attempts = failed(statuses);
        attempts.push(lost(9, 1));
        let asked = recovery.may_send_again(&attempts, at(5), seconds(15));
        assert_eq!(asked, expected, "{stored_errors:?} {rolls_back} {statuses:?}");
    }
}

#[test]
fn an_absence_is_final_after_the_last_possible_arrival() {
    // 15 s until the last first byte, then lifetime, queue and skew.
    let two = [lost(1, 0), lost(2, 100)];
    assert_eq!(look_up(true, Some(300)).absence_final_at(&two), Some(at(100 + 15 + 300 + 30 + 60)));
    assert_eq!(look_up(true, None).absence_final_at(&two), None, "nothing bounds the request");
    assert_eq!(look_up(true, Some(300)).absence_final_at(&[]), None);
    assert_eq!(Recovery::Transaction.absence_final_at(&two), None);
    assert_eq!(Recovery::None(NoneFacts::default()).absence_final_at(&two), None);
    let bounded = NoneFacts { request_lifetime: Some(seconds(300)), queue_time: seconds(30) };
    assert_eq!(Recovery::None(bounded).absence_final_at(&two), Some(at(100 + 15 + 300 + 30 + 60)));
    // An earlier attempt whose window is longer counts as well.
    let long = Attempt { send_before: at(900), ..lost(1, 0) };
    assert_eq!(look_up(true, Some(300)).absence_final_at(&[long, lost(2, 100)]), Some(at(900 + 390)));
}

#[test]
fn a_miss_counts_only_if_it_began_after_the_wait_on_both_clocks() {
    let attempts = [lost(1, 0)];
    let wait = 15 + 300 + 30 + 60;
    let complete = look_up(true, Some(300));
    let cases = [
        (complete.clone(), wait + 1, wait + 1, true),
        (complete.clone(), wait, wait + 1, false),
        (complete.clone(), wait + 1, wait, false),
        // Store time jumped forward by an hour; the node has seen ten seconds.
        (complete.clone(), HOUR, 10, false),
        // The node waited long enough; store time went back.
        (complete.clone(), 10, HOUR, false),
        (look_up(false, Some(300)), HOUR, HOUR, false),
        (look_up(true, None), HOUR, HOUR, false),
        (key(), 100 * HOUR, 100 * HOUR, false),
        (Recovery::UniqueReference(reference_facts(None)), 100 * HOUR, 100 * HOUR, false),
        (Recovery::None(NoneFacts::default()), 100 * HOUR, 100 * HOUR, false),
    ];
    for (recovery, began, waited, expected) in cases {
        let counts = recovery.miss_counts(&attempts, at(began), seconds(waited));
        assert_eq!(counts, expected, "{} {began} {waited}", recovery.kind());
    }
    assert!(
        !complete.miss_counts(&[], at(HOUR), seconds(HOUR)),
        "nothing was sent: there is nothing to miss"
    );
    let again = [lost(1, 0), lost(2, HOUR)];
    assert!(!complete.miss_counts(&again, at(HOUR + wait), seconds(wait)), "it counts from the last attempt");
}

#[test]
fn of_two_declarations_each_fact_is_the_stricter_one() {
    let other = KeyFacts {
        retention: seconds(HOUR),
        request_lifetime: seconds(30 * MINUTE),
        skew: seconds(5),
        rolls_back: true,
        stored_errors: StoredErrors::Reruns,
        ..key_facts()
    };
    for (one, two) in [(key_facts(), other.clone()), (other, key_facts())] {
        let Recovery::IdempotencyKey(facts) =
            stricter(&Recovery::IdempotencyKey(one), &Recovery::IdempotencyKey(two))
        else {
            panic!("the kind is the same")
        };
        assert_eq!((facts.retention, facts.request_lifetime), (seconds(HOUR), seconds(30 * MINUTE)));
        assert_eq!((facts.skew, facts.rolls_back), (seconds(MINUTE), false));
        assert_eq!(facts.stored_errors, StoredErrors::SuccessOnly, "in doubt a repeat is not protected");
    }
    let reference = |unique_for| Recovery::UniqueReference(reference_facts(unique_for));
    assert_eq!(stricter(&reference(None), &reference(Some(HOUR))), reference(Some(HOUR)));
    assert_eq!(stricter(&reference(Some(HOUR)), &reference(Some(MINUTE))), reference(Some(MINUTE)));
    assert_eq!(stricter(&look_up(true, Some(5)), &look_up(false, None)), look_up(false, None));
    assert_eq!(stricter(&look_up(true, Some(5)), &look_up(true, Some(9))), look_up(true, Some(9)));
    let none = Recovery::None(NoneFacts::default());
    let bounded = NoneFacts { request_lifetime: Some(seconds(5)), queue_time: seconds(1) };
    let Recovery::None(facts) = stricter(&Recovery::None(bounded), &none) else { panic!() };
    assert_eq!((facts.request_lifetime, facts.queue_time), (None, seconds(1)));
    let kinds = [key(), reference(None), look_up(true, Some(5)), none.clone(), Recovery::Transaction];
    for one in &kinds {
        for two in kinds.iter().filter(|two| two.kind() != one.kind()) {
            assert_eq!(stricter(one, two), none, "{} {}", one.kind(), two.kind());
        }
        assert_eq!(stricter(one, one), *one);
    }
}

#[test]
fn a_stricter_declaration_never_allows_what_either_refuses() {
    let attempts = [lost(1, 0), Attempt { status: Some(500), ..lost(2, 10) }];
    let mut variants = Vec::new();
    for retention in [HOUR, 24 * HOUR] {
        for stored_errors in [StoredErrors::All, StoredErrors::SuccessOnly, StoredErrors::Reruns] {
            for rolls_back in [true, false] {
                let retention = seconds(retention);
                variants.push(KeyFacts { retention, stored_errors, rolls_back, ..key_facts() });
            }
        }
    }
    let variants: Vec<Recovery> = variants.into_iter().map(Recovery::IdempotencyKey).collect();
    for (one, two) in variants.iter().flat_map(|one| variants.iter().map(move |two| (one, two))) {
        for now in [20, 43 * MINUTE, 44 * MINUTE, 2 * HOUR, 23 * HOUR, 25 * HOUR] {
            let ask = |facts: &Recovery| facts.may_send_again(&attempts, at(now), seconds(15)).is_ok();
            assert!(!ask(&stricter(one, two)) || ask(one) && ask(two), "{one:?} {two:?} {now}");
        }
    }
}

#[test]
fn a_send_is_put_off_for_half_of_the_smaller_of_lease_and_lifetime() {
    let tool = |recovery, lease| {
        let mut tool = Tool::new(ToolName::parse("t").unwrap(), Carrier::Transaction, recovery);
        tool.lease = seconds(lease);
        tool
    };
    assert_eq!(tool(key(), 30).send_window(), seconds(15));
    assert_eq!(tool(key(), 2 * HOUR).send_window(), seconds(15 * MINUTE) / 2);
    assert_eq!(tool(look_up(true, None), 40).send_window(), seconds(20));
    assert_eq!(tool(Recovery::None(NoneFacts::default()), 30).send_window(), seconds(15));
    let stricter = policy::stricter(&tool(key(), 30), &tool(key(), 10));
    assert_eq!((stricter.lease, stricter.send_window()), (seconds(10), seconds(5)));
}
