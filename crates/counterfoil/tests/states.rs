//! The whole machine, every state against every event under every combination of facts, and the page made from it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::wildcard_enum_match_arm, reason = "what is asserted concerns few of the events")]

#[path = "states/cases.rs"]
mod cases;
#[path = "states/page.rs"]
mod page;

use cases::{Case, all};
use counterfoil::operation::RejectionCode;
use counterfoil::state::{AfterSettled, Event, Open, State, Suspicion};

/// Whether an event says that nothing happened.
fn negative(event: &Event) -> bool {
    match event {
        Event::EndedWithoutEffect(_)
        | Event::Refused(_)
        | Event::AllSettled(_)
        | Event::Denied(_)
        | Event::Withdrawn(_)
        | Event::Lapsed(_)
        | Event::Replaced(_)
        | Event::ConfirmedAbsent(_)
        | Event::AnotherAllowed(_)
        | Event::LeaseExpired
        | Event::Unconfirmed(_) => true,
        Event::Started(_)
        | Event::Investigated
        | Event::Renewed(_)
        | Event::CommittedTogether(_)
        | Event::Proved(_)
        | Event::Replanned(_)
        | Event::Deferred(_)
        | Event::Approved
        | Event::Vouched(_)
        | Event::Abandoned(_)
        | Event::Acknowledged
        | Event::Released => false,
    }
}

/// Whether an event brings proof of success.
fn positive(event: &Event) -> bool {
    matches!(event, Event::Proved(_) | Event::Vouched(_) | Event::CommittedTogether(_))
}

fn after(case: &Case) -> Option<State> {
    case.next.as_ref().ok().and_then(|next| next.state.clone())
}

#[test]
fn every_pair_is_listed_or_refused_in_words() {
    let cases = all();
    assert!(cases.len() > 5_000, "{}", cases.len());
    for case in &cases {
        if let Err(illegal) = &case.next {
            assert_eq!((illegal.state, illegal.event), (case.state.label(), case.event.label()));
            assert!(illegal.to_string().contains(case.state.label()));
        }
    }
}

#[test]
fn only_proof_moves_what_is_final() {
    for case in all().iter().filter(|case| case.state.is_final()) {
        if let Some(state) = after(case) {
            let vouched = matches!(case.event, Event::Vouched(_)) && case.facts.duplicate_suspected;
            assert!(vouched && matches!(state, State::Succeeded(_)), "{case:?}");
        }
        assert!(!negative(&case.event) || case.next.is_err(), "a negative event in a final state: {case:?}");
    }
}

#[test]
fn an_attempt_starts_only_from_prepared_or_open_and_never_flagged_or_closed() {
    for case in all() {
        if let Event::Started(claim) = &case.event {
            let open = match &case.state {
                State::Prepared(_) => case.facts.others_unsettled == 0,
                State::Unknown(Open { closed, .. }) => closed.is_none(),
                State::InProgress(_) | State::Succeeded(_) | State::Rejected(_) => false,
            };
            let may = open && !case.facts.duplicate_suspected;
            assert_eq!(case.next.is_ok(), may, "{case:?}");
            assert!(!may || after(&case) == Some(State::InProgress(claim.clone())), "{case:?}");
        } else {
            let fresh = matches!(after(&case), Some(State::InProgress(_)));
            assert!(!fresh || matches!(case.event, Event::Renewed(_)), "another way into a claim: {case:?}");
        }
    }
}

#[test]
fn nothing_is_over_while_another_attempt_may_have_worked() {
    for case in all() {
        let person = matches!(case.event, Event::ConfirmedAbsent(_) | Event::AnotherAllowed(_));
        let opened = matches!(after(&case), Some(State::Rejected(_) | State::Prepared(_)));
        let was_open = matches!(case.state, State::InProgress(_) | State::Unknown(_));
        assert!(!(was_open && opened && !person) || case.facts.others_unsettled == 0, "{case:?}");
    }
}

#[test]
fn proof_settles_whatever_is_open_and_is_never_lost() {
    for case in all() {
        let Event::Proved(receipt) = &case.event else { continue };
        let next = case.next.as_ref().expect("proof is taken everywhere");
        let open = match &case.state {
            State::InProgress(_) | State::Unknown(_) => true,
            State::Prepared(_) => case.facts.attempts > 0,
            State::Succeeded(_) | State::Rejected(_) => false,
        };
        if open {
            assert_eq!(next.state, Some(State::Succeeded(receipt.clone())), "{case:?}");
            assert_eq!(next.suspect == Suspicion::Raised, case.facts.overtaken, "{case:?}");
        } else {
            let same = case.state.receipt().is_some_and(|known| {
                known.reference.is_none()
                    || receipt.reference.is_none()
                    || known.reference == receipt.reference
            });
            assert_eq!(next.state, None, "{case:?}");
            assert_eq!(next.suspect == Suspicion::Raised, !same, "{case:?}");
        }
    }
}

#[test]
fn success_comes_only_with_a_receipt_and_rejection_only_with_a_reason() {
    for case in all() {
        match after(&case) {
            Some(State::Succeeded(_)) => assert!(positive(&case.event), "{case:?}"),
            Some(State::Rejected(_)) => assert!(negative(&case.event), "{case:?}"),
            Some(State::Prepared(_) | State::InProgress(_) | State::Unknown(_)) | None => {}
        }
    }
}

#[test]
fn a_lease_that_runs_out_proves_nothing() {
    for case in all().into_iter().filter(|case| matches!(case.event, Event::LeaseExpired)) {
        match &case.state {
            State::InProgress(_) => assert_eq!(after(&case), Some(State::Unknown(Open::default()))),
            State::Prepared(_) | State::Succeeded(_) | State::Rejected(_) | State::Unknown(_) => {
                assert!(case.next.is_err(), "{case:?}");
            }
        }
    }
}

#[test]
fn nobody_takes_back_what_was_tried() {
    for case in all() {
        if matches!(case.event, Event::Denied(_) | Event::Withdrawn(_)) && case.next.is_ok() {
            assert_eq!(case.facts.attempts, 0, "{case:?}");
        }
    }
}

#[test]
fn what_a_person_closed_stays_closed_until_proof_or_settlement() {
    for case in all() {
        let closed = matches!(&case.state, State::Unknown(Open { closed: Some(_), .. }));
        if let (true, Some(state)) = (closed, after(&case)) {
            let ended = match &case.event {
                Event::AllSettled(AfterSettled::Over(_)) => matches!(state, State::Rejected(_)),
                Event::AllSettled(AfterSettled::Again(_)) => true,
                event => {
                    positive(event)
                        || negative(event) && matches!(state, State::Rejected(_) | State::Prepared(_))
                }
            };
            assert!(ended, "{case:?}");
        }
    }
}

#[test]
fn suspicion_is_cleared_by_a_person_only() {
    for case in all() {
        if let Ok(next) = &case.next
            && next.suspect == Suspicion::Cleared
        {
            assert!(matches!(case.event, Event::Acknowledged | Event::Vouched(_)), "{case:?}");
        }
    }
}

#[test]
fn release_lets_pass_only_what_guards() {
    for case in all().into_iter().filter(|case| matches!(case.event, Event::Released) && case.next.is_ok()) {
        let guards = match &case.state {
            State::Unknown(_) => true,
            State::Rejected(rejection) => {
                rejection.code == RejectionCode::BudgetExhausted || case.facts.duplicate_suspected
            }
            State::Prepared(_) | State::Succeeded(_) => case.facts.duplicate_suspected,
            State::InProgress(_) => false,
        };
        assert!(guards && after(&case).is_none(), "{case:?}");
    }
}

#[test]
fn the_page_is_what_the_machine_does() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/states.md");
    let made = page::make(&all());
    if std::env::var_os("UPDATE_ARTEFACTS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &made).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == made, "docs/reference/states.md is out of date: run UPDATE_ARTEFACTS=1 cargo test");
}
