//! The product binary `counterfoil`, as a library so that its parts can be tested and documented: configuration,
//! problems, command line.

pub mod api;
pub mod cli;
pub mod client;
pub mod config;
pub mod demo;
pub mod dev;
pub mod notify;
pub mod plan;
pub mod problems;
pub mod review;
pub mod secret;
mod suggest;
