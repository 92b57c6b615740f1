//! How well callers share commits, printed: `cargo test --test sharing_commits -- --nocapture`.

use std::sync::Arc;

use counterfoil::Account;
use counterfoil::conformance::{Insert, tool};
use counterfoil::store::sqlite::{SqliteOptions, SqliteStore};

const CALLERS: usize = 64;
const EACH: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_callers_share_flushes() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("ledger.db"), SqliteOptions::default()).unwrap();
    let declared = Arc::new(store.register(vec![tool("t.one")]).await.unwrap());
    let before = store.commit_stats().commits;
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (store, declared) = (store.clone(), declared.clone());
            tokio::spawn(async move {
                let account = Account::parse("kitchen").unwrap();
                for number in 0..EACH {
                    let insert = Insert::new(&account, &format!("{caller}/{number}"), &declared);
                    assert!(store.commit(insert).await.unwrap());
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let stats = store.commit_stats();
    let (calls, commits) = ((CALLERS * EACH) as u64, stats.commits - before);
    println!("{calls} calls of {CALLERS} callers in {commits} commits, at most {} in one", stats.largest);
    // One flush for each call would be no sharing at all.
    assert!(commits * 2 <= calls, "{stats:?}");
    assert_eq!(store.verify().await.unwrap().rows, calls);
    store.close().await;
}
