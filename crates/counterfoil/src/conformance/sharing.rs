//! Several stores on one file, as several processes of one host would be, and the application's own transaction.

use std::time::Duration;

use super::bench::{Bench, Open, account};
use super::commits::stored;
use super::verbs::{Append, Insert};
use crate::error::{Error, Refusal, StoreError};
use crate::id::OperationId;
use crate::snapshot::PauseDraft;
use crate::store::Change;
use crate::store::sqlite::{SqliteStore, commit_in};

pub(super) async fn exercise(bench: &Bench<'_>) {
    racing_processes_make_one_operation_of_one_id(bench).await;
    others_are_heard_of(bench).await;
}

pub(super) async fn exercise_file(bench: &Bench<'_>) {
    the_applications_transaction_decides(bench).await;
}

async fn racing_processes_make_one_operation_of_one_id(bench: &Bench<'_>) {
    let (one, other) = (bench.open("race.db").await, bench.open("race.db").await);
    let mut calls = Vec::new();
    for number in 0..100 {
        for open in [&one, &other] {
            let insert = Insert::new(&account(), &format!("op-{number}"), &open.declared);
            let store = open.store.clone();
            calls.push(tokio::spawn(async move { store.commit(insert).await.unwrap() }));
        }
    }
    let mut fresh = 0;
    for call in calls {
        fresh += u32::from(call.await.unwrap());
    }
    assert_eq!(fresh, 100);
    let report = one.store.verify().await.unwrap();
    assert_eq!((report.rows, report.faults), (100, vec![]));
}

async fn others_are_heard_of(bench: &Bench<'_>) {
    let (one, other) = (bench.open("heard.db").await, bench.open("heard.db").await);
    let (mut changes, mut pauses) = (other.store.changes(), other.store.pauses_changed());
    let mut tokens = other.store.tokens_changed();
    one.store.commit(Insert::new(&account(), "op-1", &one.declared)).await.unwrap();
    let expected = Change { account: account(), id: OperationId::parse("op-1").unwrap() };
    assert_eq!(soon(changes.recv()).await.unwrap(), expected);
    let draft = PauseDraft { tool: None, scope: None, by: "anna".to_owned(), note: String::new() };
    one.store.pause(draft).await.unwrap();
    soon(pauses.changed()).await.unwrap();
    assert!(!one.store.revoke_token("none").await.unwrap());
    let token = crate::store::Token {
        id: "tok-1".to_owned(),
        principal: crate::Principal::parse("cook").unwrap(),
        account: account(),
        roles: Vec::new(),
        tools: Vec::new(),
        digest: [1; 32],
        created_at: one.store.now(),
        expires_at: None,
        revoked_at: None,
    };
    one.store.create_token(token).await.unwrap();
    soon(tokens.changed()).await.unwrap();
}

/// Far longer than it ever takes: it ends a test that would hang.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future).await.unwrap()
}

fn file(open: &Open) -> SqliteStore {
    match &open.store {
        crate::store::Store::Sqlite(store) => store.clone(),
        #[cfg(feature = "postgres")]
        crate::store::Store::Postgres(_) => panic!("only a file has a transaction of this kind"),
    }
}

fn connect(open: &Open) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(&open.path).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection.execute_batch("PRAGMA synchronous = FULL").unwrap();
    connection
}

async fn the_applications_transaction_decides(bench: &Bench<'_>) {
    let open = bench.open("door.db").await;
    let mut changes = open.store.changes();
    let mut connection = connect(&open);
    connection.execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)").unwrap();
    let insert = |id: &str| Insert::new(&account(), id, &open.declared);
    let immediate = rusqlite::TransactionBehavior::Immediate;

    let transaction = connection.transaction_with_behavior(immediate).unwrap();
    transaction.execute("INSERT INTO orders VALUES ('a')", []).unwrap();
    assert!(commit_in(&transaction, &file(&open), insert("op-1")).unwrap());
    transaction.rollback().unwrap();
    assert!(stored(&open, "op-1").await.is_none());

    let transaction = connection.transaction_with_behavior(immediate).unwrap();
    transaction.execute("INSERT INTO orders VALUES ('b')", []).unwrap();
    assert!(commit_in(&transaction, &file(&open), insert("op-1")).unwrap());
    let refused = commit_in(&transaction, &file(&open), Append::new(&account(), "op-2", 1, &open.declared));
    assert!(matches!(refused, Err(Error::Refused(Refusal::UnknownOperation))));
    commit_in(&transaction, &file(&open), Append::new(&account(), "op-1", 1, &open.declared)).unwrap();
    transaction.commit().unwrap();
    assert_eq!(stored(&open, "op-1").await.unwrap().version, 2);
    let heard = soon(changes.recv()).await.unwrap();
    assert_eq!(heard.id.as_str(), "op-1");
    let orders: i64 = connection.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1);

    // The store and the application take turns on one ledger.
    open.store.commit(insert("op-2")).await.unwrap();
    let transaction = connection.transaction_with_behavior(immediate).unwrap();
    assert!(!commit_in(&transaction, &file(&open), insert("op-2")).unwrap());
    assert!(commit_in(&transaction, &file(&open), insert("op-3")).unwrap());
    transaction.commit().unwrap();
    let report = open.store.verify().await.unwrap();
    assert_eq!((report.rows, report.chains, report.faults), (4, 2, vec![]));

    connection.execute_batch("PRAGMA synchronous = NORMAL").unwrap();
    let transaction = connection.transaction_with_behavior(immediate).unwrap();
    let refused = commit_in(&transaction, &file(&open), insert("op-4"));
    assert!(matches!(refused, Err(Error::Store(StoreError::Unusable(_)))));
    drop(transaction);
    let elsewhere = bench.open("door-2.db").await;
    let mut connection = connect(&elsewhere);
    let transaction = connection.transaction_with_behavior(immediate).unwrap();
    let refused = commit_in(&transaction, &file(&open), insert("op-4"));
    assert!(matches!(refused, Err(Error::Store(StoreError::Unusable(_)))));
}
