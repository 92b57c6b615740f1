//! The HTTP API against the real ledger, the real sender and a supplier that counts its effects.

mod answers;
mod fuzz;
mod lifecycle;
mod support;
mod tokens;
