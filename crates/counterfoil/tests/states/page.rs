//! `docs/reference/states.md`, made from what the machine answers: for each state and event every outcome, and the
//! shortest condition under which it comes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use counterfoil::operation::RejectionCode;
use counterfoil::state::{Event, Open, State, Suspicion};

use super::cases::{Case, events};

const STATES: [&str; 5] = ["prepared", "in_progress", "unknown", "succeeded", "rejected"];

const HEAD: &str = "\
# States

<!-- Made from the transition function by its own test; change that, not this page. -->

An operation is in exactly one of five states. The state says what is *known*; `next` says what happens now.

| State | What is known | `next.action` can be |
|---|---|---|
| `prepared` | The action and its exact arguments are stored. Nothing is on its way, and whatever was tried before had no effect for certain. | `execute` (say that it shall run), `approve` (a person decides), `wait_for_operation` (another one is settled first), `retry` (it runs by itself, at `next.at`), `review` (a person must look) |
| `in_progress` | One worker holds a claim, and the request may be out. | `wait` |
| `unknown` | Something was tried, and nobody can confirm what became of it. Never read it as a failure. | `reconcile` (it is being established, at `next.at`), `review` (only a person can settle it), `none` (a person closed it and accepted the risk) |
| `succeeded` | A receipt names what was created. | `none`, or `review` where a second effect is suspected |
| `rejected` | Nothing happened, and that is certain; `rejection.code` says why. | `correct` (a changed action is a new operation), `report` (tell the user), or `review` where proof of the opposite turned up |

`succeeded` and `rejected` are final. Only proof of success can speak against `rejected`, and then a person decides.

## What moves an operation

Each row is an event, each column the state it meets. *Refused* means that the event cannot happen there: whoever
brings it is told so, and nothing changes. *Flagged* means that a second effect is suspected from then on and a person
looks. *Others settled* means that every attempt but the one that the event is about is certain to have no effect.

";

const TAIL: &str = "
What the events mean:

| Event | Meaning |
|---|---|
";

/// The page.
pub(crate) fn make(cases: &[Case]) -> String {
    let mut page = HEAD.to_owned();
    page.push_str("| Event |");
    for state in STATES {
        let _ = write!(page, " `{state}` |");
    }
    page.push_str("\n|---|---|---|---|---|---|\n");
    let mut labels: Vec<&str> = Vec::new();
    for event in events() {
        if labels.last() != Some(&event.label()) {
            labels.push(event.label());
        }
    }
    for label in &labels {
        let _ = write!(page, "| {label} |");
        for state in STATES {
            let met: Vec<&Case> = cases
                .iter()
                .filter(|case| case.event.label() == *label && case.state.label() == state)
                .collect();
            let _ = write!(page, " {} |", cell(&met));
        }
        page.push('\n');
    }
    page.push_str(TAIL);
    let mut told: Vec<&str> = Vec::new();
    for event in events() {
        if told.last() != Some(&event.label()) {
            told.push(event.label());
            let _ = writeln!(page, "| {} | {} |", event.label(), meaning(&event));
        }
    }
    page
}

fn outcome(case: &Case) -> String {
    let Ok(next) = &case.next else { return "refused".to_owned() };
    let mut text = match &next.state {
        None => "stays".to_owned(),
        Some(State::Unknown(Open { closed: Some(_), .. })) => "closed".to_owned(),
        Some(state) if state.label() == case.state.label() => "stays".to_owned(),
        Some(state) => format!("→ `{}`", state.label()),
    };
    match next.suspect {
        Suspicion::AsBefore => {}
        Suspicion::Raised => text.push_str(", flagged"),
        Suspicion::Cleared => text.push_str(", flag cleared"),
    }
    text
}

type Holds = fn(&Case) -> bool;
type Condition = (&'static str, &'static str, Holds);

/// What the machine tells apart: in words, if it holds and if it does not.
const CONDITIONS: [Condition; 9] = [
    ("others settled", "others open", |case| case.facts.others_unsettled == 0),
    ("flagged before", "not flagged", |case| case.facts.duplicate_suspected),
    ("with attempts", "without attempts", |case| case.facts.attempts > 0),
    ("another one started past it", "none started past it", |case| case.facts.overtaken),
    ("closed by a person", "not closed", |case| {
        matches!(&case.state, State::Unknown(Open { closed: Some(_), .. }))
    }),
    (
        "budget spent",
        "for another reason",
        |case| matches!(&case.state, State::Rejected(rejection) if rejection.code == RejectionCode::BudgetExhausted),
    ),
    (
        "same claim",
        "another claim",
        |case| matches!((&case.state, &case.event), (State::InProgress(held), Event::Renewed(claim)) if held.fence == claim.fence),
    ),
    ("no other reference", "another reference", |case| match (&case.state, &case.event) {
        (State::Succeeded(known), Event::Proved(receipt)) => {
            known.reference.is_none() || receipt.reference.is_none() || known.reference == receipt.reference
        }
        _ => false,
    }),
    ("budget left", "budget spent or refused", |case| {
        matches!(
            &case.event,
            Event::EndedWithoutEffect(counterfoil::state::AfterSettled::Again(_))
                | Event::AllSettled(counterfoil::state::AfterSettled::Again(_))
        )
    }),
];

fn cell(cases: &[&Case]) -> String {
    let outcomes: BTreeSet<String> = cases.iter().map(|case| outcome(case)).collect();
    if outcomes.len() == 1 {
        return outcomes.into_iter().next().unwrap_or_default();
    }
    let mut parts = Vec::new();
    let mut rest = None;
    for wanted in outcomes {
        match condition(cases, &wanted) {
            Some(words) => parts.push(format!("{wanted} ({words})")),
            None => {
                assert!(rest.is_none(), "two outcomes without a condition: {wanted} and {rest:?}");
                rest = Some(wanted);
            }
        }
    }
    // What is allowed comes first.
    parts.sort_by_key(|part| part.starts_with("refused"));
    parts.extend(rest.map(|wanted| format!("otherwise {wanted}")));
    parts.join("; ")
}

/// The shortest conjunction that holds exactly where the outcome is `wanted`.
fn condition(cases: &[&Case], wanted: &str) -> Option<String> {
    let literals: Vec<(&str, bool, Holds)> =
        CONDITIONS.iter().flat_map(|(yes, no, holds)| [(*yes, true, *holds), (*no, false, *holds)]).collect();
    let fits = |chosen: &[usize]| {
        cases.iter().all(|case| {
            let holds = chosen.iter().all(|at| literals[*at].2(case) == literals[*at].1);
            holds == (outcome(case) == wanted)
        })
    };
    let words = |chosen: &[usize]| chosen.iter().map(|at| literals[*at].0).collect::<Vec<_>>().join(", ");
    let all = 0..literals.len();
    for one in all.clone() {
        if fits(&[one]) {
            return Some(words(&[one]));
        }
    }
    for one in all.clone() {
        for two in one + 1..literals.len() {
            if fits(&[one, two]) {
                return Some(words(&[one, two]));
            }
        }
    }
    for one in all {
        for two in one + 1..literals.len() {
            for three in two + 1..literals.len() {
                if fits(&[one, two, three]) {
                    return Some(words(&[one, two, three]));
                }
            }
        }
    }
    None
}

fn meaning(event: &Event) -> &'static str {
    match event {
        Event::Started(_) => "An attempt is recorded under a fresh claim; only after that is anything sent.",
        Event::Investigated => "A worker takes a claim to find out. It may not send.",
        Event::Renewed(_) => "The holder is still at work.",
        Event::LeaseExpired => "The holder went silent. That proves nothing.",
        Event::EndedWithoutEffect(_) => {
            "The running attempt had no effect, for certain: not sent, not processed, throttled."
        }
        Event::Refused(_) => "The destination refused the running attempt as such.",
        Event::Unconfirmed(_) => {
            "The running attempt ended, or nobody waits for it any longer, without proof."
        }
        Event::CommittedTogether(_) => "Effect and receipt are one commit in the ledger's own database.",
        Event::Proved(_) => "Somebody brings proof of success, however late and under whatever claim.",
        Event::AllSettled(_) => "The last attempt that was open turned out to have no effect.",
        Event::Replanned(_) => "It was decided when to go on with an open operation, or that a person must.",
        Event::Deferred(_) => {
            "It was decided when to go on with a prepared operation, or that a person must."
        }
        Event::Approved => "An approver says yes.",
        Event::Denied(_) => "An approver says no.",
        Event::Withdrawn(_) => "The application takes it back.",
        Event::Lapsed(_) => {
            "Its time ran out: nobody approved or started it, or its budget ended between attempts."
        }
        Event::Replaced(_) => "A changed proposal takes its place.",
        Event::Vouched(_) => "A person says that it happened, and what shows it.",
        Event::ConfirmedAbsent(_) => {
            "A person established that nothing happened, after everything sent had to have arrived."
        }
        Event::AnotherAllowed(_) => "The same, and one more attempt is wanted.",
        Event::Abandoned(_) => "A person closes it without proof and accepts the risk.",
        Event::Acknowledged => "An approver looked at a suspected duplicate and keeps the state.",
        Event::Released => "An approver lets later operations with the same action pass.",
    }
}
