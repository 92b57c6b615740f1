//! Stories: small inputs, a fault, the right outcome. Each runs the real binary in real processes against a supplier
//! that counts its effects, and asserts that count beside every status.
//!
//! Every story is named after its case. Where a story depends on a seed it prints the seed when it fails;
//! `STORY_SEED=N cargo test -p counterfoil-cli --test stories NAME` runs that one again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, outside of test functions"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "these tests wait for other processes, which share no clock with them"
)]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a failing story says how to repeat it")]

mod support;

mod approval;
mod bodies;
mod budget;
mod chaos;
mod clocks;
mod commits;
mod crashes;
mod frozen;
mod guard;
mod held;
mod identity;
mod look_ups;
mod looked_up;
mod lost_reply;
mod notices;
mod on_demand;
mod reloads;
mod replacement;
mod restored;
mod retention_and_authorization;
mod review;
mod subject;
mod syscalls;
mod two_at_once;
mod webhooks;
mod wire;
mod workers;
