//! A ledger with many rows: whatever is done to one of them is named, and after ten years every ID is still refused.
//! Figures: `cargo test --test large_ledger -- --nocapture`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_wrap,
    reason = "a test may end where its world does not stand"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::{LedgerOptions, NewOperation};
use counterfoil::policy::Tool;
use counterfoil::store::AuditReport;
use counterfoil::store::sqlite::SqliteOptions;
use counterfoil::time::{ManualClock, Timestamp};
use counterfoil::{Arguments, Error, Ledger, OperationId, Refusal, ToolName};

const CALLERS: usize = 64;
const EACH: usize = 320;
const OPERATIONS: usize = CALLERS * EACH;
/// Prepared, and withdrawn.
const ROWS: u64 = 2 * OPERATIONS as u64;
const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

fn caller() -> Caller {
    Caller {
        account: "kitchen".parse().unwrap(),
        principal: "planner".parse().unwrap(),
        roles: Roles { agent: true, ..Roles::default() },
        tools: Vec::new(),
    }
}

fn tool() -> ToolName {
    ToolName::parse("items.create").unwrap()
}

fn id(number: usize) -> OperationId {
    OperationId::parse(&format!("order-{number}")).unwrap()
}

fn item(number: usize) -> NewOperation {
    let arguments = format!(r#"{{"item":{number},"sku":"flour-25kg","quantity":10,"note":"as every week"}}"#);
    NewOperation::new(id(number), tool(), Arguments::parse(arguments.as_bytes()).unwrap())
}

async fn open(file: &Path, clock: &Arc<ManualClock>) -> Ledger {
    let store = SqliteOptions::new(clock.clone());
    let options = LedgerOptions { store, clock: clock.clone(), ..LedgerOptions::default() };
    Ledger::open(file, vec![Tool::in_transaction(tool())], options).await.unwrap()
}

/// A ledger of operations that all came to an end, closed again.
async fn write(file: &Path, clock: &Arc<ManualClock>) {
    let ledger = open(file, clock).await;
    let callers: Vec<_> = (0..CALLERS)
        .map(|place| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                for number in (place..OPERATIONS).step_by(CALLERS) {
                    ledger.prepare(&caller(), item(number)).await.unwrap();
                    ledger.withdraw(&caller(), id(number)).await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let report = ledger.store().verify().await.unwrap();
    assert_eq!((report.rows, report.faults), (ROWS, vec![]));
    ledger.store().close().await;
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".mark");
    name.into()
}

/// What `audit verify` says of a copy of the ledger with which somebody did `sql`.
async fn verified_after(file: &Path, sql: &str, clock: &Arc<ManualClock>) -> AuditReport {
    let copy = file.with_file_name("copy.db");
    std::fs::copy(file, &copy).unwrap();
    std::fs::copy(beside(file), beside(&copy)).unwrap();
    let connection = rusqlite::Connection::open(&copy).unwrap();
    connection.execute_batch(sql).unwrap();
    drop(connection);
    let ledger = open(&copy, clock).await;
    let report = ledger.store().verify().await.unwrap();
    ledger.store().close().await;
    std::fs::remove_file(&copy).unwrap();
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_row_among_many_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.db");
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_790_000_000_000)));
    write(&file, &clock).await;
    let (row, next, last) = (ROWS / 3, ROWS / 3 + 1, ROWS);
    let columns = "account, writer, seq + 1, at, kind, by_name, by_kind, operation_id, version, state, data, \
                   data_digest, digest, previous";
    let apart = ROWS * 10;
    for (what, named, sql) in [
        ("flipped", row, format!("UPDATE counterfoil_evidence SET at = at + 1 WHERE position = {row}")),
        ("removed", next, format!("DELETE FROM counterfoil_evidence WHERE position = {row}")),
        (
            "reordered",
            row,
            format!(
                "UPDATE counterfoil_evidence SET position = position + {apart} WHERE position IN ({row}, {next}); \
                 UPDATE counterfoil_evidence SET position = {next} WHERE position = {apart} + {row}; \
                 UPDATE counterfoil_evidence SET position = {row} WHERE position = {apart} + {next}"
            ),
        ),
        (
            "inserted",
            last + 1,
            format!(
                "INSERT INTO counterfoil_evidence SELECT {last} + 1, {columns} FROM counterfoil_evidence \
                 WHERE position = {last}; UPDATE counterfoil_head SET position = {last} + 1"
            ),
        ),
    ] {
        let report = verified_after(&file, &sql, &clock).await;
        let first = report.faults.first().unwrap_or_else(|| panic!("{what} was not found"));
        assert_eq!(first.position, named, "{what}: {first:?}");
    }
    println!("{ROWS} rows of evidence: one that was flipped, removed, reordered or inserted is named");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_years_later_every_id_is_refused_and_little_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.db");
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_790_000_000_000)));
    write(&file, &clock).await;
    let full = bytes(&file, "counterfoil_operations");
    clock.advance(TEN_YEARS);
    let ledger = open(&file, &clock).await;
    let mut purged = 0;
    loop {
        match ledger.purge(1_000).await.unwrap() {
            0 => break,
            some => purged += some,
        }
    }
    assert_eq!(purged, OPERATIONS as u64);
    assert_eq!(ledger.store().commit_stats().purged, purged);
    // Each is refused, with the same arguments and with others, and the refusals wrote nothing.
    let before = ledger.store().commit_stats().commits;
    let mut answers = BTreeSet::new();
    for number in (0..OPERATIONS).step_by(97) {
        for other in [number, number + 1] {
            let late = NewOperation { id: id(number), ..item(other) };
            match ledger.prepare(&caller(), late).await {
                Err(Error::Refused(Refusal::ReceiptExpired { stage })) => answers.insert(stage.label()),
                other => panic!("{other:?}"),
            };
        }
    }
    assert_eq!(answers, BTreeSet::from(["rejected"]));
    assert_eq!(ledger.store().commit_stats().commits, before);
    // The evidence of what is gone still holds together: every row of before, and one for each end.
    let report = ledger.store().verify().await.unwrap();
    assert_eq!((report.rows, report.faults), (ROWS + purged, vec![]));
    ledger.store().close().await;
    let left = bytes(&file, "counterfoil_tombstones");
    println!(
        "{OPERATIONS} operations took {} bytes each with their indexes; their tombstones take {} bytes each",
        full / OPERATIONS as i64,
        left / OPERATIONS as i64,
    );
    assert!(left < full, "a tombstone takes less than what it stands for");
    assert_eq!(rows(&file, "counterfoil_tombstones"), OPERATIONS as i64);
    assert_eq!(rows(&file, "counterfoil_operations"), 0);
}

fn rows(file: &Path, table: &str) -> i64 {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// What a table and its indexes take of the file.
fn bytes(file: &Path, table: &str) -> i64 {
    let connection = rusqlite::Connection::open(file).unwrap();
    let sql = "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name IN \
               (SELECT name FROM sqlite_schema WHERE tbl_name = ?1)";
    connection.query_row(sql, [table], |row| row.get(0)).unwrap()
}
