//! What PostgreSQL alone can do to a ledger: connections that break at any statement, calls that are cancelled, a database
//! that was restored.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests, in real time, that say what they met"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counterfoil::conformance::{Append, Insert, tool};
use counterfoil::snapshot::{Declarations, Existing};
use counterfoil::store::postgres::{PostgresOptions, PostgresStore};
use counterfoil::store::{Change, MarkState};
use counterfoil::{Account, Error, OperationId, StoreError};
use sim::postgres::Server;

/// How many operations race against the breaking of connections.
const OPERATIONS: usize = 400;

fn account(number: usize) -> Account {
    Account::parse(&format!("kitchen-{}", number % 3)).unwrap()
}

async fn open(url: &str) -> (PostgresStore, Arc<Declarations>) {
    let store = PostgresStore::open(url, PostgresOptions::default()).await.unwrap();
    let declared = Arc::new(store.register(vec![tool("t.one")]).await.unwrap());
    (store, declared)
}

/// What a caller was told of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Written,
    NothingWritten,
    NobodyKnows,
}

fn told(outcome: &Result<bool, Error>) -> Told {
    match outcome {
        Ok(fresh) => {
            assert!(fresh, "somebody else made it");
            Told::Written
        }
        Err(Error::Store(error)) if error.wrote_nothing() => Told::NothingWritten,
        Err(Error::Store(_)) => Told::NobodyKnows,
        Err(Error::Refused(refusal)) => panic!("{refusal}"),
    }
}

/// Runs writers on two nodes while `disturb` is run on the server again and again, and compares what was told with what
/// is there.
async fn disturbed(name: &str, disturb: &'static str) {
    let url = Server::shared().database(name);
    let nodes = [open(&url).await, open(&url).await];
    let over = Arc::new(AtomicBool::new(false));
    let disturber = std::thread::spawn({
        let (url, over) = (url.clone(), over.clone());
        move || {
            let mut hit = 0_usize;
            while !over.load(Ordering::SeqCst) {
                let count = Server::shared().sql(&url, disturb);
                hit += count.parse::<usize>().unwrap_or(0);
                std::thread::sleep(Duration::from_millis(3));
            }
            hit
        }
    });
    let mut answers = BTreeMap::new();
    let mut number = 0;
    while number < OPERATIONS {
        let mut calls = Vec::new();
        for (store, declared) in nodes.iter().cycle().take(16) {
            let insert = Insert::new(&account(number), &format!("op-{number}"), declared);
            let store = store.clone();
            calls.push((number, tokio::spawn(async move { store.commit(insert).await })));
            number += 1;
        }
        for (number, call) in calls {
            answers.insert(number, told(&call.await.unwrap()));
        }
    }
    over.store(true, Ordering::SeqCst);
    let hit = disturber.join().unwrap();
    let (store, declared) = open(&url).await;
    let mut seen: BTreeMap<Told, usize> = BTreeMap::new();
    for (number, told) in &answers {
        let id = OperationId::parse(&format!("op-{number}")).unwrap();
        let found = store.snapshot(&account(*number), &id, declared.clone()).await.unwrap();
        let there = !matches!(found.existing, Existing::Nothing);
        match told {
            Told::Written => assert!(there, "op-{number} was acknowledged and is gone"),
            Told::NothingWritten => assert!(!there, "op-{number} was said not to be written and is there"),
            Told::NobodyKnows => {}
        }
        *seen.entry(*told).or_default() += 1;
    }
    println!("{name}: {hit} disturbances, {seen:?}");
    assert!(hit >= 10, "only {hit} disturbances");
    assert!(seen.get(&Told::Written).is_some_and(|written| *written > 0), "{seen:?}");
    let report = store.verify().await.unwrap();
    assert_eq!(report.faults, [], "the evidence is whole");
    // And the nodes work on as before.
    for (place, (store, declared)) in nodes.iter().enumerate() {
        let insert = Insert::new(&account(0), &format!("after-{place}"), declared);
        assert!(store.commit(insert).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_ended_at_any_statement_lose_nothing_and_repeat_nothing() {
    disturbed(
        "terminated",
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_cancelled_lose_nothing_and_repeat_nothing() {
    disturbed(
        "cancelled",
        "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_behind_its_mark_starts_paused_until_a_person_resumes_everything() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("node.mark");
    let server = Server::shared();
    let (url, backup) = (server.database("restored"), server.database("backup"));
    let admin = server.database("admin");
    let open = || async {
        let options = PostgresOptions { mark: Some(mark.clone()), ..PostgresOptions::default() };
        let store = PostgresStore::open(&url, options).await.unwrap();
        let declared = Arc::new(store.register(vec![tool("t.one")]).await.unwrap());
        (store, declared)
    };
    let name = |url: &str| url.rsplit('/').next().unwrap().to_owned();
    let copy = |from: &str, to: &str| {
        let (from, to) = (name(from), name(to));
        server.sql(&admin, &format!("DROP DATABASE {to} WITH (FORCE)"));
        server.sql(&admin, &format!("CREATE DATABASE {to} TEMPLATE {from}"));
    };
    let (store, declared) = open().await;
    assert_eq!(store.mark_state(), MarkState::Current, "a new node has no mark yet");
    assert!(store.commit(Insert::new(&account(0), "kept", &declared)).await.unwrap());
    store.close().await;
    drop(store);
    gone(server, &admin, &name(&url)).await;
    copy(&url, &backup);

    let (store, declared) = open().await;
    assert_eq!(store.mark_state(), MarkState::Current);
    assert!(store.commit(Insert::new(&account(0), "lost", &declared)).await.unwrap());
    store.close().await;
    drop(store);
    gone(server, &admin, &name(&url)).await;
    copy(&backup, &url);

    for _ in 0..2 {
        let (store, declared) = open().await;
        assert_eq!(store.mark_state(), MarkState::Behind);
        let id = OperationId::parse("lost").unwrap();
        assert!(store.snapshot(&account(0), &id, declared).await.unwrap().restored);
        store.close().await;
    }
    let (store, _) = open().await;
    assert!(store.resume(None, "anna", "compared with the destinations").await.unwrap() > 0);
    store.close().await;
    let (store, _) = open().await;
    assert_eq!(store.mark_state(), MarkState::Current);
    assert_eq!(store.pauses().await.unwrap(), []);
}

/// Waits until nobody is connected to a database any more.
async fn gone(server: &Server, admin: &str, name: &str) {
    let query = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
    for _ in 0..100 {
        if server.sql(admin, &query) == "0" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.sql(
        admin,
        &format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'"),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_commits_are_not_durable_is_refused() {
    let weak = Server::start(&[("fsync", "off")]);
    let refused = PostgresStore::open(&weak.database("weak"), PostgresOptions::default()).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Unusable(text) if text.contains("fsync")), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_that_postgresql_cannot_keep_fail_alone() {
    let url = Server::shared().database("texts");
    let (store, declared) = open(&url).await;
    assert!(store.commit(Insert::new(&account(0), "op", &declared)).await.unwrap());
    let mut changes = store.changes();
    let odd = Append {
        scope: Some("a\0b".to_owned()),
        refusals: Some(1),
        ..Append::new(&account(0), "op", 1, &declared)
    };
    let calls = [
        tokio::spawn({
            let store = store.clone();
            async move { store.commit(odd).await.map(drop) }
        }),
        tokio::spawn({
            let (store, insert) = (store.clone(), Insert::new(&account(0), "other", &declared));
            async move { store.commit(insert).await.map(drop) }
        }),
    ];
    let [odd, even] = calls;
    assert!(odd.await.unwrap().is_err());
    assert_eq!(even.await.unwrap(), Ok(()));
    let id = OperationId::parse("other").unwrap();
    assert_eq!(changes.recv().await.unwrap(), Change { account: account(0), id });
    assert!(!store.poisoned());
}
