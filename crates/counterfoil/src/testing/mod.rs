//! What tests need to drive the domain without a database, a network or a clock.

mod world;

pub use world::{Told, World};
