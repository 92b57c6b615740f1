//! The outbox: written with the change, taken by one process at a time, kept for a while.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::{LedgerOptions, NewOperation};
use counterfoil::notice::{KEPT_FOR, Occasion};
use counterfoil::policy::{ApprovalRule, Tool};
use counterfoil::store::sqlite::{Delivery, SqliteOptions, Waiting};
use counterfoil::time::ManualClock;
use counterfoil::{Arguments, Ledger, StoreError};

const LEASE: Duration = Duration::from_secs(15);

async fn open(file: &Path, clock: &Arc<ManualClock>) -> Result<Ledger, StoreError> {
    let mut tool = Tool::in_transaction("t".parse().unwrap());
    tool.approval = ApprovalRule::Required;
    let store = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let options = LedgerOptions { clock: clock.clone(), store, ..LedgerOptions::default() };
    Ledger::open(file, vec![tool], options).await
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(counterfoil::Timestamp::from_millis(1_795_960_931_020)))
}

async fn prepare(ledger: &Ledger, id: &str) {
    let caller = Caller {
        account: "kitchen".parse().unwrap(),
        principal: "planner".parse().unwrap(),
        roles: Roles { agent: true, ..Roles::default() },
        tools: Vec::new(),
    };
    let arguments = Arguments::parse(format!("{{\"of\":\"{id}\"}}").as_bytes()).unwrap();
    let new = NewOperation::new(id.parse().unwrap(), "t".parse().unwrap(), arguments);
    ledger.prepare(&caller, new).await.unwrap();
}

fn about(waiting: &Waiting) -> (Occasion, &str) {
    (waiting.notice.occasion, waiting.notice.operation.as_str())
}

#[tokio::test]
async fn two_processes_speak_to_a_listener_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let (file, clock) = (folder.path().join("ledger.db"), clock());
    let (one, two) = (open(&file, &clock).await.unwrap(), open(&file, &clock).await.unwrap());
    prepare(&one, "before").await;
    one.store().listen("l").await.unwrap();
    two.store().listen("l").await.unwrap();
    assert_eq!(one.store().waiting_notice("l").await.unwrap(), None, "what was before is not told");
    prepare(&one, "a").await;
    prepare(&two, "b").await;

    let taken = one.store().take_notice("l", LEASE).await.unwrap().unwrap();
    assert_eq!(about(&taken), (Occasion::ApprovalWanted, "a"));
    assert_eq!(two.store().take_notice("l", LEASE).await.unwrap(), None, "the other one speaks");
    clock.advance(LEASE);
    let again = two.store().take_notice("l", LEASE).await.unwrap().unwrap();
    assert_eq!(again.notice, taken.notice, "the same, under the same name");
    // Whoever lost the lease changes nothing any more.
    one.store().notice_delivered("l", taken.notice.clone(), Delivery::GivenUp("late")).await.unwrap();
    assert_eq!(
        about(&two.store().waiting_notice("l").await.unwrap().unwrap()),
        (Occasion::ApprovalWanted, "a")
    );

    let later = two.store().now().plus(Duration::from_secs(5));
    two.store().notice_delivered("l", again.notice, Delivery::Failed(later)).await.unwrap();
    let waiting = one.store().waiting_notice("l").await.unwrap().unwrap();
    assert_eq!((waiting.tries, waiting.not_before), (1, later));
    assert_eq!(one.store().take_notice("l", LEASE).await.unwrap(), None, "not before its time");
    clock.advance(Duration::from_secs(5));
    let third = one.store().take_notice("l", LEASE).await.unwrap().unwrap();
    assert_eq!(third.tries, 1);
    one.store().notice_delivered("l", third.notice, Delivery::Done).await.unwrap();
    let next = two.store().take_notice("l", LEASE).await.unwrap().unwrap();
    assert_eq!((about(&next), next.tries), ((Occasion::ApprovalWanted, "b"), 0));
    two.store().notice_delivered("l", next.notice, Delivery::GivenUp("a reason")).await.unwrap();
    assert_eq!(one.store().waiting_notice("l").await.unwrap(), None);

    let connection = rusqlite::Connection::open(&file).unwrap();
    let told: Vec<String> = connection
        .prepare(
            "SELECT json_extract(data, '$.reason') FROM counterfoil_evidence WHERE kind = 'notice_given_up'",
        )
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(told, ["a reason"]);
    assert_eq!(one.store().verify().await.unwrap().faults, []);
}

#[tokio::test]
async fn old_notices_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let ledger = open(&folder.path().join("ledger.db"), &clock).await.unwrap();
    ledger.store().listen("l").await.unwrap();
    prepare(&ledger, "old").await;
    clock.advance(KEPT_FOR + Duration::from_millis(1));
    prepare(&ledger, "new").await;
    ledger.purge(10).await.unwrap();
    assert_eq!(
        about(&ledger.store().waiting_notice("l").await.unwrap().unwrap()),
        (Occasion::ApprovalWanted, "new")
    );
}

#[tokio::test]
async fn a_ledger_of_an_earlier_version_gains_the_outbox() {
    let folder = tempfile::tempdir().unwrap();
    let (file, clock) = (folder.path().join("ledger.db"), clock());
    let ledger = open(&file, &clock).await.unwrap();
    prepare(&ledger, "a").await;
    ledger.store().close().await;
    drop(ledger);
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection
        .execute_batch(
            "DROP TABLE counterfoil_notices; DROP TABLE counterfoil_listeners; DROP INDEX counterfoil_keys_key; \
             DELETE FROM counterfoil_migrations WHERE number > 2",
        )
        .unwrap();
    let ledger = open(&file, &clock).await.unwrap();
    ledger.store().listen("l").await.unwrap();
    prepare(&ledger, "b").await;
    assert_eq!(
        about(&ledger.store().waiting_notice("l").await.unwrap().unwrap()),
        (Occasion::ApprovalWanted, "b")
    );
    ledger.store().close().await;
    drop(ledger);
    // One that had it and lost it is damaged.
    connection.execute_batch("DROP TABLE counterfoil_listeners").unwrap();
    assert!(matches!(open(&file, &clock).await.err(), Some(StoreError::Corrupt(_))));
}
