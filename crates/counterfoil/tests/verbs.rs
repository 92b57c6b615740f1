//! Stories of the verbs over a ledger in memory: what callers, senders, people and time do, and what is known after.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "verbs/approvals.rs"]
mod approvals;
#[path = "verbs/attempts.rs"]
mod attempts;
#[path = "verbs/budgets.rs"]
mod budgets;
#[path = "verbs/guards.rs"]
mod guards;
#[path = "verbs/identity.rs"]
mod identity;
#[path = "verbs/look_ups.rs"]
mod look_ups;
#[path = "verbs/random.rs"]
mod random;
#[path = "verbs/replacements.rs"]
mod replacements;
#[path = "verbs/subjects.rs"]
mod subjects;
#[path = "verbs/support.rs"]
mod support;
#[path = "verbs/verdicts.rs"]
mod verdicts;
#[path = "verbs/webhooks.rs"]
mod webhooks;
#[path = "verbs/workers.rs"]
mod workers;
