//! Destinations over HTTP/1.1: how a request is made from stored argument bytes, how it is sent so that the sender
//! always knows whether a byte of it went out, and what its answer proves.
//!
//! [`request`], [`declaration`] and [`mod@classify`] are pure. [`send`] connects first, asks its gate second and writes
//! third. A look-up asks instead of sending, on a connection of its own. Nothing in here sends a request twice, follows a redirect or decides about another attempt.

pub mod address;
pub mod classify;
pub mod connect;
pub mod declaration;
pub mod dial;
mod found;
mod look_up;
mod pool;
mod probe;
pub mod request;
mod said;
pub mod secrets;
pub mod send;
pub mod target;
mod template;
pub mod webhook;
mod wire;

#[cfg(test)]
mod test_tool;
#[cfg(test)]
mod wire_tests;

pub use address::{Resolve, SystemResolver};
pub use classify::{Answer, classify};
pub use declaration::{DeclarationProblem, RESERVED_HEADERS, check_declaration};
pub use dial::Dialer;
pub use request::{InvalidArguments, Request, build};
pub use said::{LONGEST_EVENT, hear};
pub use secrets::{Secret, SecretError, Secrets, SystemSecrets, scope};
pub use send::{HttpDestination, Limits};
