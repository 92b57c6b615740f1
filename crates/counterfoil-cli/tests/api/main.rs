//! The HTTP API against the real ledger, the real sender and a supplier that counts its effects.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails ends its test")]

mod answers;
mod errors;
mod fuzz;
mod lifecycle;
mod support;
mod tokens;
mod verdicts;
mod workers;
