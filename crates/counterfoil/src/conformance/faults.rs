//! What a fault at each named point leaves: who is told what, what is durable, and whether the store goes on.

use std::sync::Arc;
use std::time::Duration;

use super::Store;
use super::bench::{Bench, Open, account};
use super::commits::stored;
use super::verbs::Insert;
use crate::error::{Error, StoreError};
use crate::faults::{Action, Fault, Gate};

pub(super) async fn exercise(bench: &Bench<'_>) {
    a_busy_or_full_disk_writes_nothing_and_passes(bench).await;
    a_job_that_fails_alone_fails_nobody_else(&bench.open("alone.db").await).await;
    an_error_while_flushing_ends_the_store(bench, Fault::Io).await;
    an_error_while_flushing_ends_the_store(bench, Fault::IoLate).await;
    a_full_queue_refuses_at_once(bench).await;
    a_closed_store_refuses(&bench.open("closed.db").await).await;
}

fn insert(open: &Open, id: &str) -> Insert {
    Insert::new(&account(), id, &open.declared)
}

async fn rows(store: &Store) -> u64 {
    let report = store.verify().await.unwrap();
    assert_eq!(report.faults, []);
    report.rows
}

async fn a_busy_or_full_disk_writes_nothing_and_passes(bench: &Bench<'_>) {
    let open = bench.open("passing.db").await;
    let mut expected = 0;
    for (point, fault) in [
        ("before_begin", Fault::Busy),
        ("job", Fault::Full),
        ("before_commit", Fault::Full),
        ("commit", Fault::Full),
        ("commit", Fault::Busy),
    ] {
        open.setup.faults.arm(point, 1, 1, Action::Fail(fault));
        let id = format!("op-{expected}");
        let error = open.store.commit(insert(&open, &id)).await.unwrap_err();
        let Error::Store(error) = error else { panic!("{error}") };
        assert!(error.wrote_nothing(), "{point}: {error}");
        assert_eq!(error == StoreError::Full, fault == Fault::Full, "{point}: {error}");
        assert_eq!(rows(&open.store).await, expected, "{point}");
        assert!(open.store.commit(insert(&open, &id)).await.unwrap(), "{point}");
        expected += 1;
        assert_eq!(rows(&open.store).await, expected, "{point}");
    }
}

/// Lets calls pile up behind a gate, so that they share the commit after it.
async fn pile_up(open: &Open, calls: usize) -> Vec<tokio::task::JoinHandle<Result<bool, Error>>> {
    let gate = Arc::new(Gate::default());
    open.setup.faults.arm("before_begin", 1, 1, Action::Wait(gate.clone()));
    let first = open.store.clone();
    let leader = insert(open, "leader");
    let mut waiting = vec![tokio::spawn(async move { first.commit(leader).await })];
    let reached = gate.clone();
    tokio::task::spawn_blocking(move || reached.wait_reached()).await.unwrap();
    for number in 1..calls {
        let mut call = Box::pin({
            let (store, verb) = (open.store.clone(), insert(open, &format!("op-{number}")));
            async move { store.commit(verb).await }
        });
        // Polled once, it stands in the queue.
        let polled = futures_poll(&mut call).await;
        waiting.push(tokio::spawn(async move {
            match polled {
                Some(answer) => answer,
                None => call.await,
            }
        }));
    }
    gate.open();
    waiting
}

async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

async fn a_job_that_fails_alone_fails_nobody_else(open: &Open) {
    // The leader's commit passes the point once, the next commit once for each of its calls.
    open.setup.faults.arm("job", 6, 1, Action::Fail(Fault::Job));
    let (mut written, mut failed) = (0, 0);
    for call in pile_up(open, 10).await {
        match call.await.unwrap() {
            Ok(fresh) => written += u64::from(fresh),
            Err(error) => {
                assert!(matches!(&error, Error::Store(StoreError::Unavailable(_))), "{error}");
                failed += 1;
            }
        }
    }
    assert_eq!((written, failed), (9, 1));
    assert_eq!(rows(&open.store).await, 9);
    assert!(open.store.commit_stats().largest >= 8, "{:?}", open.store.commit_stats());
}

async fn an_error_while_flushing_ends_the_store(bench: &Bench<'_>, fault: Fault) {
    let name = format!("{fault:?}.db");
    let open = bench.open(&name).await;
    open.store.commit(insert(&open, "before")).await.unwrap();
    open.setup.faults.arm("commit", 2, 1, Action::Fail(fault));
    let (mut acknowledged, mut in_doubt) = (0, 0);
    for call in pile_up(&open, 10).await {
        match call.await.unwrap() {
            Ok(_) => acknowledged += 1,
            Err(Error::Store(StoreError::Poisoned(_))) => in_doubt += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((acknowledged, in_doubt), (1, 9));
    assert!(open.store.poisoned());
    assert!(matches!(open.store.until_poisoned().await, StoreError::Poisoned(_)));
    // Neither writes nor reads are answered, also through another handle.
    let handle = open.store.clone();
    let later = handle.commit(insert(&open, "later")).await.unwrap_err();
    assert!(matches!(later, Error::Store(StoreError::Poisoned(_))), "{later}");
    let read = handle.snapshot(&account(), &insert(&open, "before").id, open.declared.clone()).await;
    assert!(matches!(read, Err(StoreError::Poisoned(_))));
    assert!(matches!(handle.pauses().await, Err(StoreError::Poisoned(_))));
    handle.close().await;
    let again = bench.open(&name).await;
    let expected = match fault {
        Fault::IoLate => 11,
        Fault::Io | Fault::Full | Fault::Busy | Fault::Job => 2,
    };
    assert_eq!(rows(&again.store).await, expected);
    assert!(stored(&again, "before").await.is_some() && stored(&again, "leader").await.is_some());
}

async fn a_full_queue_refuses_at_once(bench: &Bench<'_>) {
    let setup = super::Setup { queue: 4, ..Bench::setup() };
    let open = bench.open_with("queue.db", setup).await;
    let (mut written, mut refused) = (0, 0);
    for call in pile_up(&open, 12).await {
        match call.await.unwrap() {
            Ok(_) => written += 1,
            Err(Error::Store(error @ StoreError::Unavailable(_))) => {
                assert!(error.wrote_nothing());
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    // One was at work, four waited.
    assert_eq!((written, refused), (5, 7));
    assert_eq!(rows(&open.store).await, 5);
}

async fn a_closed_store_refuses(open: &Open) {
    let calls = pile_up(open, 5).await;
    tokio::time::timeout(Duration::from_secs(60), open.store.close()).await.unwrap();
    for call in calls {
        assert!(call.await.unwrap().unwrap(), "what waited is finished");
    }
    let late = open.store.commit(insert(open, "late")).await.unwrap_err();
    assert!(matches!(late, Error::Store(StoreError::Unavailable(_))), "{late}");
    assert!(matches!(open.store.pauses().await, Err(StoreError::Unavailable(_))));
    open.store.close().await;
}
