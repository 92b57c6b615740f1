//! The simulator finds nothing in the product, repeats itself from its seed, and misses every guard that is taken away.

#![cfg(feature = "simulator")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

use counterfoil::safeguard::Safeguard;
use sim::simulator::{Options, run};

const SEED: u64 = 1;

#[test]
fn nothing_is_found_and_the_same_seed_gives_the_same_run() {
    let options = Options { seed: SEED, operations: 600, world: None, without: None };
    let once = run(options).unwrap_or_else(|found| panic!("{found}"));
    assert!(once.operations >= 600 && once.effects > 300 && once.crashes > 100, "{once}");
    assert!(once.held > 20 && once.late_retries > 5 && once.copies > 2 && once.conflicts > 5, "{once}");
    assert!(
        once.claims > 300 && once.webhooks > 50 && once.replacements > 30 && once.strangers > 5,
        "{once}"
    );
    assert!(once.slowest_hold_millis <= 5_000, "{once}");
    assert_eq!(run(options).unwrap(), once);
}

/// How many operations a missing guard may stay unnoticed.
const UNNOTICED: u64 = 40_000;

fn missed(guards: &[Safeguard]) {
    for guard in guards {
        let options = Options { seed: SEED, operations: UNNOTICED, world: None, without: Some(*guard) };
        let found = run(options).expect_err(guard.label());
        println!(
            "{:26} missed after {:>6} operations (seed {}, world {}): {}",
            guard.label(),
            found.operations,
            found.seed,
            found.world,
            found.what
        );
        // It is the guard that makes the difference.
        let with_it = Options { world: Some(found.world), without: None, ..options };
        run(with_it).unwrap_or_else(|found| panic!("{found}"));
    }
}

#[test]
fn every_guard_that_is_taken_away_is_missed() {
    let (one, other) = Safeguard::ALL.split_at(Safeguard::ALL.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| missed(one));
        missed(other);
    });
}
