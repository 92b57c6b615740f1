//! Every combination.

use counterfoil::id::{FencingToken, Principal, WorkerName};
use counterfoil::operation::{Claim, Receipt, ReceiptSource, Rejection, RejectionCode};
use counterfoil::recovery::HoldReason;
use counterfoil::state::{
    AfterSettled, Closed, Event, Facts, IllegalEvent, Next, Open, State, Waiting, next,
};
use counterfoil::time::Timestamp;

/// One combination and what the machine makes of it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) state: State,
    pub(crate) facts: Facts,
    pub(crate) event: Event,
    pub(crate) next: Result<Next, IllegalEvent>,
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn claim(fence: u64) -> Claim {
    Claim {
        worker: WorkerName::parse("node-1").unwrap(),
        fence: FencingToken(fence),
        lease_expires_at: at(30_000),
        claim_id: None,
        lease_ms: None,
        held_by: None,
        look_up: None,
    }
}

fn receipt(reference: Option<&str>) -> Receipt {
    Receipt {
        reference: reference.map(str::to_owned),
        result: None,
        source: ReceiptSource::Response,
        recorded_at: at(5),
    }
}

fn rejection(code: RejectionCode) -> Rejection {
    Rejection { code, detail: None, by: None, at: at(7) }
}

fn closed() -> Closed {
    Closed { by: Principal::parse("ann").unwrap(), at: at(9), note: "nobody answers".to_owned() }
}

fn states() -> Vec<State> {
    let hold = Some(HoldReason::NoRecovery);
    vec![
        State::Prepared(Waiting::default()),
        State::Prepared(Waiting { not_before: Some(at(60)), hold: None }),
        State::Prepared(Waiting { not_before: None, hold: Some(HoldReason::ScopeChanged) }),
        State::InProgress(claim(1)),
        State::Succeeded(receipt(Some("po_1"))),
        State::Succeeded(receipt(None)),
        State::Rejected(rejection(RejectionCode::DestinationRejected)),
        State::Rejected(rejection(RejectionCode::ApprovalDenied)),
        State::Rejected(rejection(RejectionCode::ApprovalExpired)),
        State::Rejected(rejection(RejectionCode::Withdrawn)),
        State::Rejected(rejection(RejectionCode::Replaced)),
        State::Rejected(rejection(RejectionCode::NotStarted)),
        State::Rejected(rejection(RejectionCode::BudgetExhausted)),
        State::Rejected(rejection(RejectionCode::ConfirmedAbsent)),
        State::Unknown(Open::default()),
        State::Unknown(Open { hold, ..Open::default() }),
        State::Unknown(Open { closed: Some(closed()), ..Open::default() }),
    ]
}

/// One of each kind, in the order of the page, and the variants that the machine tells apart.
pub(crate) fn events() -> Vec<Event> {
    let again = || AfterSettled::Again(Waiting::default());
    let over = || AfterSettled::Over(rejection(RejectionCode::BudgetExhausted));
    vec![
        Event::Started(claim(2)),
        Event::Investigated,
        Event::Renewed(claim(1)),
        Event::Renewed(claim(2)),
        Event::LeaseExpired,
        Event::EndedWithoutEffect(again()),
        Event::EndedWithoutEffect(over()),
        Event::Refused(rejection(RejectionCode::DestinationRejected)),
        Event::Unconfirmed(Open::default()),
        Event::CommittedTogether(receipt(Some("row-1"))),
        Event::Proved(receipt(Some("po_1"))),
        Event::Proved(receipt(Some("po_2"))),
        Event::Proved(receipt(None)),
        Event::AllSettled(again()),
        Event::AllSettled(over()),
        Event::Replanned(Open { hold: Some(HoldReason::WindowClosed), ..Open::default() }),
        Event::Deferred(Waiting { not_before: Some(at(70)), hold: None }),
        Event::Approved,
        Event::Denied(rejection(RejectionCode::ApprovalDenied)),
        Event::Withdrawn(rejection(RejectionCode::Withdrawn)),
        Event::Lapsed(rejection(RejectionCode::NotStarted)),
        Event::Replaced(rejection(RejectionCode::Replaced)),
        Event::Vouched(receipt(Some("po_9"))),
        Event::ConfirmedAbsent(rejection(RejectionCode::ConfirmedAbsent)),
        Event::AnotherAllowed(Waiting::default()),
        Event::Abandoned(closed()),
        Event::Acknowledged,
        Event::Released,
    ]
}

fn facts() -> Vec<Facts> {
    let mut all = Vec::new();
    for attempts in 0..=2 {
        for others_unsettled in 0..=attempts {
            for flags in 0..4 {
                let (duplicate_suspected, overtaken) = (flags & 1 != 0, flags & 2 != 0);
                all.push(Facts { attempts, others_unsettled, duplicate_suspected, overtaken });
            }
        }
    }
    all
}

/// Every state against every event under every combination of facts.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for state in states() {
        for event in events() {
            for facts in facts() {
                let next = next(&state, facts, &event);
                cases.push(Case { state: state.clone(), facts, event: event.clone(), next });
            }
        }
    }
    cases
}
