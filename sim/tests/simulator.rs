//! The simulator finds nothing in the product, repeats itself from its seed, and misses every guard that is taken away.

#![cfg(feature = "simulator")]
#![allow(clippy::unwrap_used, reason = "a test")]

use sim::simulator::{Options, run};

const SEED: u64 = 1;

#[test]
fn nothing_is_found_and_the_same_seed_gives_the_same_run() {
    let options = Options { seed: SEED, operations: 600, world: None, without: None };
    let once = run(options).unwrap_or_else(|found| panic!("{found}"));
    assert!(once.operations >= 600 && once.effects > 300 && once.crashes > 100, "{once}");
    assert!(once.held > 20 && once.late_retries > 5 && once.copies > 2 && once.conflicts > 5, "{once}");
    assert!(once.slowest_hold_millis <= 5_000, "{once}");
    assert_eq!(run(options).unwrap(), once);
}
