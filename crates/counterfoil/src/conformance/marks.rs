//! The high-water mark: a ledger that was restored or cut starts paused, and only a person ends that.

use std::fs;
use std::path::{Path, PathBuf};

use super::bench::{Bench, Open, account};
use super::verbs::{Append, Insert, Update, attempt};
use crate::decide::PauseReason;
use crate::error::{Error, Refusal, StoreError};
use crate::id::ToolName;
use crate::operation::Operation;
use crate::store::MarkState;

pub(super) async fn exercise(bench: &Bench<'_>) {
    a_restored_ledger_starts_paused(bench).await;
    a_missing_mark_matters_only_with_attempts(bench).await;
    a_cut_tail_is_noticed(bench).await;
    an_emptied_file_is_refused(bench).await;
    a_second_process_is_not_taken_in_by_a_young_ledger(bench).await;
    the_mark_never_goes_back_by_itself(bench).await;
    without_a_mark_nothing_is_compared(bench).await;
}

fn mark(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".mark");
    name.into()
}

fn marked(path: &Path) -> u64 {
    let text = fs::read_to_string(mark(path)).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["position"].as_u64().unwrap()
}

async fn insert(open: &Open, id: &str) -> Result<bool, Error> {
    open.store.commit(Insert::new(&account(), id, &open.declared)).await
}

async fn send(open: &Open, id: &str) {
    let edit = |operation: &mut Operation, now| operation.attempts.push(attempt(1, None, now));
    open.store.commit(Update::new(&account(), id, &open.declared, edit)).await.unwrap();
}

async fn a_restored_ledger_starts_paused(bench: &Bench<'_>) {
    let open = bench.open("restored.db").await;
    assert_eq!(open.store.mark_state(), MarkState::Current);
    insert(&open, "kept").await.unwrap();
    open.store.close().await;
    let backup = bench.path("restored.backup");
    fs::copy(&open.path, &backup).unwrap();

    let open = bench.open("restored.db").await;
    assert_eq!(open.store.mark_state(), MarkState::Current);
    insert(&open, "lost").await.unwrap();
    send(&open, "lost").await;
    open.store.close().await;
    fs::copy(&backup, &open.path).unwrap();

    for _ in 0..2 {
        let open = bench.open("restored.db").await;
        assert_eq!(open.store.mark_state(), MarkState::Behind);
        assert_eq!(open.store.pauses().await.unwrap().len(), 1);
        let look = Append::new(&account(), "kept", 0, &open.declared);
        let seen = open.store.commit(look).await.unwrap();
        assert_eq!((seen.paused, seen.restored), (Some(PauseReason::Restored), true));
        let refused = insert(&open, "lost").await.unwrap_err();
        assert_eq!(refused, Error::Refused(Refusal::LedgerRestored));
        let tool = ToolName::parse("t.one").unwrap();
        assert_eq!(open.store.resume(Some(&tool), "anna", "no").await.unwrap(), 0);
        open.store.close().await;
    }
    let open = bench.open("restored.db").await;
    assert_eq!(open.store.resume(None, "anna", "looked at the supplier").await.unwrap(), 1);
    assert!(insert(&open, "lost").await.unwrap());
    open.store.close().await;
    let open = bench.open("restored.db").await;
    assert_eq!(open.store.mark_state(), MarkState::Current);
    assert_eq!(open.store.pauses().await.unwrap(), []);
    assert_eq!(open.store.verify().await.unwrap().faults, []);
}

async fn a_missing_mark_matters_only_with_attempts(bench: &Bench<'_>) {
    let open = bench.open("missing.db").await;
    insert(&open, "op-1").await.unwrap();
    open.store.close().await;
    fs::remove_file(mark(&open.path)).unwrap();
    let open = bench.open("missing.db").await;
    assert_eq!(open.store.mark_state(), MarkState::Current);
    send(&open, "op-1").await;
    open.store.close().await;
    for broken in [None, Some("{}"), Some("")] {
        match broken {
            None => fs::remove_file(mark(&open.path)).unwrap(),
            Some(text) => fs::write(mark(&open.path), text).unwrap(),
        }
        let open = bench.open("missing.db").await;
        assert_eq!(open.store.mark_state(), MarkState::Missing);
        open.store.close().await;
    }
}

async fn a_cut_tail_is_noticed(bench: &Bench<'_>) {
    let open = bench.open("cut.db").await;
    insert(&open, "op-1").await.unwrap();
    insert(&open, "op-2").await.unwrap();
    open.store.close().await;
    let connection = rusqlite::Connection::open(&open.path).unwrap();
    connection
        .execute_batch(
            "DELETE FROM counterfoil_evidence WHERE position = 2; \
             DELETE FROM counterfoil_operations WHERE id = 'op-2'; \
             UPDATE counterfoil_head SET position = 1",
        )
        .unwrap();
    drop(connection);
    let open = bench.open("cut.db").await;
    assert_eq!(open.store.mark_state(), MarkState::Behind);
}

async fn a_second_process_is_not_taken_in_by_a_young_ledger(bench: &Bench<'_>) {
    let open = bench.open("young.db").await;
    insert(&open, "op-1").await.unwrap();
    send(&open, "op-1").await;
    assert_eq!(bench.open("young.db").await.store.mark_state(), MarkState::Current);
    assert_eq!(open.store.pauses().await.unwrap(), []);
    let link = bench.path("link.db");
    std::os::unix::fs::symlink(&open.path, &link).unwrap();
    assert_eq!(bench.open("link.db").await.store.mark_state(), MarkState::Current);
    assert!(!mark(&link).exists(), "one file has one mark");
    for path in [open.path.clone(), mark(&open.path)] {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

async fn an_emptied_file_is_refused(bench: &Bench<'_>) {
    let open = bench.open("emptied.db").await;
    insert(&open, "op-1").await.unwrap();
    open.store.close().await;
    fs::write(&open.path, "").unwrap();
    let refused = bench.try_open("emptied.db", &Bench::setup()).unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
    // A file that is gone altogether is a new ledger, which the mark knows not to be the old one.
    fs::remove_file(&open.path).unwrap();
    let open = bench.open("emptied.db").await;
    assert_eq!(open.store.mark_state(), MarkState::Behind);
    assert_eq!(insert(&open, "op-1").await.unwrap_err(), Error::Refused(Refusal::LedgerRestored));
}

async fn the_mark_never_goes_back_by_itself(bench: &Bench<'_>) {
    let one = bench.open("both.db").await;
    insert(&one, "op-1").await.unwrap();
    let other = bench.open("both.db").await;
    for number in 2..10 {
        insert(&other, &format!("op-{number}")).await.unwrap();
    }
    other.store.close().await;
    assert_eq!(marked(&one.path), 9);
    insert(&one, "op-10").await.unwrap();
    one.store.close().await;
    assert_eq!(marked(&one.path), 10);
}

async fn without_a_mark_nothing_is_compared(bench: &Bench<'_>) {
    let setup = super::Setup { mark: false, ..Bench::setup() };
    let open = bench.open_with("plain.db", setup).await;
    insert(&open, "op-1").await.unwrap();
    send(&open, "op-1").await;
    open.store.close().await;
    assert!(!mark(&open.path).exists());
    assert_eq!(bench.open("plain.db").await.store.mark_state(), MarkState::Missing);
}
