//! A server for development: one command, no file, no token to copy, and faults on purpose. Everything but the faults is
//! the real thing: the real ledger, the real executor, the real API.

pub mod clock;
pub mod destination;
pub mod faults;
pub mod folder;
pub mod keys;
pub mod page;
pub mod practice;
pub mod routes;
pub mod story;
pub mod tools;
pub mod words;
