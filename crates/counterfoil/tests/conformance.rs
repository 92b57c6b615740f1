//! The conformance suite on SQLite and on PostgreSQL.

use std::path::Path;

use counterfoil::conformance::{Setup, Store, exercise, exercise_file};
use counterfoil::store::postgres::{PostgresOptions, PostgresStore};
use counterfoil::store::sqlite::{SqliteOptions, SqliteStore};

fn open(path: &Path, setup: &Setup) -> Result<Store, counterfoil::StoreError> {
    let options = SqliteOptions {
        clock: setup.clock(),
        faults: setup.faults.clone(),
        queue: setup.queue,
        mark: setup.mark,
        ..SqliteOptions::default()
    };
    SqliteStore::open(path, options).map(Store::from)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_passes() {
    let folder = tempfile::tempdir().unwrap();
    exercise(folder.path(), open).await;
    exercise_file(folder.path(), open).await;
}

/// Every ledger is a database of its own, named by where a file would lie.
fn open_database(path: &Path, setup: &Setup) -> Result<Store, counterfoil::StoreError> {
    let options = PostgresOptions {
        clock: setup.clock(),
        clock_decides: true,
        faults: setup.faults.clone(),
        queue: setup.queue,
        ..PostgresOptions::default()
    };
    let url = sim::postgres::Server::shared().database(&path.display().to_string());
    tokio::task::block_in_place(|| {
        tokio::runtime::Handle::current().block_on(PostgresStore::open(&url, options)).map(Store::from)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_passes() {
    let folder = tempfile::tempdir().unwrap();
    exercise(folder.path(), open_database).await;
}
