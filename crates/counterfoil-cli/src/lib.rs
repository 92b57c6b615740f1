//! The product binary `counterfoil`, as a library so that its parts can be tested and documented.

pub mod cli;
pub mod demo;
