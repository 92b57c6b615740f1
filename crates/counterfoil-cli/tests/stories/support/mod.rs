//! The world of a story: a supplier, a configuration, a ledger, servers, callers.

mod cli;
mod client;
mod clock;
mod config;
mod hook;
mod ledger;
mod listener;
mod server;
mod worker;
mod world;

pub(crate) use cli::{Talk, command, finish, spawn};
pub(crate) use client::{Answer, Api};
pub(crate) use clock::Clock;
pub(crate) use config::{Setup, ToolText};
pub(crate) use hook::{Hook, SECRET, SECRET_VARIABLES, now, stripe_signature};
pub(crate) use ledger::{column, count};
pub(crate) use listener::{Message, Receiver, relay};
pub(crate) use server::Server;
pub(crate) use server::signal;
pub(crate) use worker::{Worker, work as worker_process};
pub(crate) use world::on_postgres;
pub(crate) use world::{World, order};

use std::time::{Duration, Instant};

/// How long a story waits for something that must happen. It asserts that things happen, never how fast.
pub(crate) const PATIENCE: Duration = Duration::from_secs(45);

/// Asks again until there is an answer.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    eventually_or(&mut ask).unwrap_or_else(|| panic!("never: {what}"))
}

/// As [`eventually`], with nothing in place of a failure.
pub(crate) fn eventually_or<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        std::thread::sleep(Duration::from_millis(15));
    }
    None
}

/// Lets real time pass: for claims that something does not happen, or is over after a documented time.
pub(crate) fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// The seeds of a story: the one in `STORY_SEED`, or these.
pub(crate) fn seeds(default: &[u64]) -> Vec<u64> {
    match std::env::var("STORY_SEED") {
        Ok(text) => vec![text.parse().expect("STORY_SEED is a number")],
        Err(_) => default.to_vec(),
    }
}

/// Says how to repeat a story if it fails while this is alive.
pub(crate) struct Replay {
    story: &'static str,
    seed: u64,
}

impl Replay {
    pub(crate) fn new(story: &'static str, seed: u64) -> Self {
        Self { story, seed }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { story, seed } = self;
            eprintln!(
                "failed with seed {seed}; repeat: STORY_SEED={seed} cargo test -p counterfoil-cli --test stories {story}"
            );
        }
    }
}
