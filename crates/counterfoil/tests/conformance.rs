//! The conformance suite on SQLite.

use std::path::Path;

use counterfoil::conformance::{Setup, Store, exercise};
use counterfoil::store::sqlite::{SqliteOptions, SqliteStore};

fn open(path: &Path, setup: &Setup) -> Result<Store, counterfoil::StoreError> {
    let options = SqliteOptions {
        clock: setup.clock(),
        faults: setup.faults.clone(),
        queue: setup.queue,
        mark: setup.mark,
        ..SqliteOptions::default()
    };
    SqliteStore::open(path, options)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_passes() {
    let folder = tempfile::tempdir().unwrap();
    exercise(folder.path(), open).await;
}
