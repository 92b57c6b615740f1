//! Real processes that end at a fail point, as by `kill -9`: what they acknowledged is there, and what they did not is
//! there whole or not at all.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use counterfoil::conformance::{Insert, tool};
use counterfoil::faults::Faults;
use counterfoil::store::sqlite::{SqliteOptions, SqliteStore};
use counterfoil::{Account, OperationId};

const LEDGER: &str = "COUNTERFOIL_TEST_LEDGER";

fn account() -> Account {
    Account::parse("kitchen").unwrap()
}

/// The process that is ended: inserts operations one after the other and prints each that was acknowledged.
#[tokio::test]
#[ignore = "it is the child of the other test"]
async fn child() {
    let path = std::env::var(LEDGER).unwrap();
    let options = SqliteOptions { faults: Arc::new(Faults::from_environment()), ..SqliteOptions::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    let declared = Arc::new(store.register(vec![tool("t.one")]).await.unwrap());
    for number in 0.. {
        if store.commit(Insert::new(&account(), &format!("op-{number}"), &declared)).await.is_err() {
            break;
        }
        let mut out = std::io::stderr().lock();
        writeln!(out, "acknowledged op-{number}").unwrap();
        out.flush().unwrap();
    }
}

/// How many operations the child acknowledged.
fn run_child(path: &Path, failpoint: &str) -> usize {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child", "--nocapture", "--test-threads=1"])
        .env(LEDGER, path)
        .env("COUNTERFOIL_FAILPOINT", failpoint)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| line.starts_with("acknowledged ")).count()
}

#[tokio::test]
async fn what_was_acknowledged_survives_and_nothing_is_half_there() {
    let folder = tempfile::tempdir().unwrap();
    // The first visit belongs to the declarations, except at the point inside a verb's own work.
    for (failpoint, acknowledged, present) in [
        ("before_begin:1:abort", 0, 0),
        ("job:1:abort", 0, 0),
        ("before_begin:5:abort", 3, 3),
        ("job:5:abort", 3, 3),
        ("before_commit:5:abort", 3, 3),
        ("commit:5:abort", 3, 3),
        // The commit is durable and nobody was told: the retry with the same ID finds it.
        ("after_commit:5:abort", 3, 4),
        ("commit:5:io", 3, 3),
        ("commit:5:io-late", 3, 4),
    ] {
        let path = folder.path().join(failpoint.replace(':', "-"));
        assert_eq!(run_child(&path, failpoint), acknowledged, "{failpoint}");
        let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
        let declared = Arc::new(store.register(vec![tool("t.one")]).await.unwrap());
        let report = store.verify().await.unwrap();
        assert_eq!((report.rows, report.faults), (present, vec![]), "{failpoint}");
        for number in 0..present {
            let id = OperationId::parse(&format!("op-{number}")).unwrap();
            let snapshot = store.snapshot(&account(), &id, declared.clone()).await.unwrap();
            assert_eq!(snapshot.operation().unwrap().version, 1, "{failpoint}");
            let again = store.commit(Insert::new(&account(), id.as_str(), &declared)).await.unwrap();
            assert!(!again, "{failpoint}: a retry is the same operation");
        }
        store.close().await;
    }
}
