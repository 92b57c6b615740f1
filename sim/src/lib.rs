//! The outside world, for tests and the demo: destinations that count their effects, and networks
//! that lose, cut, delay and repeat what passes through them.
//!
//! * [`supplier`]: a real HTTP supplier with a durable log of effects and scripted faults.
//! * [`proxy`]: a TCP proxy that cuts, holds, delays and duplicates.
//! * [`postgres`]: a real PostgreSQL server, one per process.
//! * [`raw`]: a listener that records exactly the bytes it was sent.
//! * [`auditor`]: compares what the ledger claims with what the supplier did.
//! * [`seed`]: a small generator, so that a run can be repeated from its seed.
//! * `simulator` (with the feature of that name): the whole product on a virtual clock, from a seed.
//! * [`wire`]: the little HTTP/1.1 that the above share, with a client for tests.
//!
//! Every server here binds `127.0.0.1`, runs on a thread and a runtime of its own, and stops when
//! its handle is dropped. So the handles work from plain and from async code, and a test that
//! pauses its own runtime's time does not stop the world around it.

pub mod auditor;
mod host;
pub mod postgres;
pub mod proxy;
pub mod raw;
pub mod seed;
#[cfg(feature = "simulator")]
pub mod simulator;
pub mod supplier;
pub mod wire;
