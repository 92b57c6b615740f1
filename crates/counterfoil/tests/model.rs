//! An exhaustive model of two workers, a network and a destination around the real decisions: everything that can
//! happen in small closed worlds does happen, and the invariants are asked after every step.
//!
//! It also has to bite: each wrong rule, put in place of one decision, must be found.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "a test, whose helpers are no test functions"
)]

#[path = "model/book.rs"]
mod book;
#[path = "model/configurations.rs"]
mod configurations;
#[path = "model/rules.rs"]
mod rules;
#[path = "model/search.rs"]
mod search;
#[path = "model/system.rs"]
mod system;

use rules::Wrong;
use search::{MOST_STATES, explore};

#[test]
fn holds_in_every_world() {
    // Where only the answer matters, the first problem is enough.
    let first_only = std::env::var_os("MODEL_FIRST_PROBLEM").is_some();
    let mut problems = Vec::new();
    for configuration in configurations::all() {
        let outcome = explore(&configuration, None);
        println!(
            "{:55} {:>8} states {:>9} transitions {:>5} operations {:>6} decisions",
            configuration.name, outcome.states, outcome.transitions, outcome.book.0, outcome.book.1
        );
        if let Some((invariant, trace)) = &outcome.violation {
            problems.push(format!("{}: {invariant} after {trace:?}", configuration.name));
        }
        for end in configuration.reaches.iter().filter(|end| !outcome.ends.contains(end)) {
            if outcome.violation.is_some() {
                break;
            }
            problems.push(format!("{}: never ends up {end:?}: {:?}", configuration.name, outcome.ends));
        }
        if outcome.states > MOST_STATES {
            problems.push(format!("{}: {} states", configuration.name, outcome.states));
        }
        if first_only && !problems.is_empty() {
            break;
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn finds_every_wrong_rule() {
    let mut missed = Vec::new();
    for wrong in Wrong::ALL {
        let configuration = configurations::shown_by(wrong);
        let outcome = explore(&configuration, Some(wrong));
        match outcome.violation {
            Some((invariant, trace)) => println!(
                "{:4} {:27} {} after {} steps, {} states: {:?}",
                wrong.number(),
                format!("{wrong:?}"),
                invariant,
                trace.len(),
                outcome.states,
                trace
            ),
            None => missed.push(wrong),
        }
    }
    assert!(missed.is_empty(), "wrong rules that nothing found: {missed:?}");
}
