//! One suite that every store passes: what a commit keeps, what a crash or a fault at each named point leaves, and what
//! several processes on one ledger see of each other.
//!
//! It is driven with small verbs of its own, so that it says something about stores and nothing about the product's
//! decisions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test suite: a broken promise ends it"
)]

mod bench;
mod commits;
mod faults;
mod lists;
mod marks;
mod pauses;
mod retention;
mod sharing;
mod tampering;
mod tokens;
mod verbs;

use std::path::Path;

pub use bench::{Bench, Setup};
pub use verbs::{Append, Insert, Update, tool};

use crate::error::StoreError;
pub use crate::store::Store;

/// Runs every topic that is the same for every store, each on ledgers of its own: their paths lie under `folder`, which
/// only names them where a store is no file. `make` opens a store as a test wants it.
///
/// # Panics
/// Where a promise is broken.
pub async fn exercise(folder: &Path, make: impl Fn(&Path, &Setup) -> Result<Store, StoreError>) {
    let bench = |name: &str| Bench::new(&folder.join(name), &make);
    commits::exercise(&bench("commits")).await;
    lists::exercise(&bench("lists")).await;
    pauses::exercise(&bench("pauses")).await;
    tokens::exercise(&bench("tokens")).await;
    retention::exercise(&bench("retention")).await;
    sharing::exercise(&bench("sharing")).await;
    faults::exercise(&bench("faults")).await;
}

/// Runs the topics that are about one file: the application's own transaction on it, its mark, and what is done to it.
///
/// # Panics
/// Where a promise is broken.
pub async fn exercise_file(folder: &Path, make: impl Fn(&Path, &Setup) -> Result<Store, StoreError>) {
    let bench = |name: &str| Bench::new(&folder.join(name), &make);
    sharing::exercise_file(&bench("door")).await;
    marks::exercise(&bench("marks")).await;
    tampering::exercise(&bench("tampering")).await;
}
