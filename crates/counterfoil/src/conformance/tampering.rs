//! Whatever is done to the file is found, and told as what it is.

use std::fs;
use std::path::Path;

use super::bench::{Bench, account};
use super::verbs::{Append, Insert};
use crate::error::StoreError;

pub(super) async fn exercise(bench: &Bench<'_>) {
    every_changed_row_is_found(bench).await;
    files_that_are_no_ledger_are_refused(bench).await;
    damaged_files_are_refused(bench).await;
}

/// Writes a ledger of two accounts and closes it.
async fn write(bench: &Bench<'_>, name: &str) -> std::path::PathBuf {
    let open = bench.open(name).await;
    let garden = crate::Account::parse("garden").unwrap();
    for number in 0..6 {
        for account in [account(), garden.clone()] {
            let id = format!("op-{number}");
            open.store.commit(Insert::new(&account, &id, &open.declared)).await.unwrap();
            open.store.commit(Append::new(&account, &id, 1, &open.declared)).await.unwrap();
        }
    }
    assert_eq!(open.store.verify().await.unwrap().faults, []);
    open.store.close().await;
    open.path
}

async fn every_changed_row_is_found(bench: &Bench<'_>) {
    let whole = write(bench, "whole.db").await;
    let swap = |column: &str| {
        format!(
            "CREATE TEMP TABLE was AS SELECT position, {column} AS v FROM counterfoil_evidence; \
             UPDATE counterfoil_evidence SET {column} = (SELECT v FROM was WHERE was.position = 17 - \
             counterfoil_evidence.position) WHERE position IN (8, 9)"
        )
    };
    let move_rows = "UPDATE counterfoil_evidence SET position = position + 100 WHERE position IN (8, 9); \
                     UPDATE counterfoil_evidence SET position = 217 - 100 - position WHERE position > 100";
    let statements = [
        ("at", 8, "UPDATE counterfoil_evidence SET at = at + 1 WHERE position = 8".to_owned()),
        ("kind", 8, "UPDATE counterfoil_evidence SET kind = 'seem' WHERE position = 8".to_owned()),
        ("by", 8, "UPDATE counterfoil_evidence SET by_name = 'anna' WHERE position = 8".to_owned()),
        ("by kind", 8, "UPDATE counterfoil_evidence SET by_kind = 'rule' WHERE position = 8".to_owned()),
        (
            "operation",
            8,
            "UPDATE counterfoil_evidence SET operation_id = 'op-5' WHERE position = 8".to_owned(),
        ),
        ("version", 8, "UPDATE counterfoil_evidence SET version = 7 WHERE position = 8".to_owned()),
        ("state", 8, "UPDATE counterfoil_evidence SET state = NULL WHERE position = 8".to_owned()),
        ("state", 8, "UPDATE counterfoil_evidence SET state = 'succeeded' WHERE position = 8".to_owned()),
        ("data", 8, "UPDATE counterfoil_evidence SET data = '{}' WHERE position = 8".to_owned()),
        ("no data", 8, "UPDATE counterfoil_evidence SET data = NULL WHERE position = 8".to_owned()),
        ("digest", 8, "UPDATE counterfoil_evidence SET digest = zeroblob(32) WHERE position = 8".to_owned()),
        ("short digest", 8, "UPDATE counterfoil_evidence SET digest = x'00' WHERE position = 8".to_owned()),
        (
            "previous",
            8,
            "UPDATE counterfoil_evidence SET previous = zeroblob(32) WHERE position = 8".to_owned(),
        ),
        ("account", 8, "UPDATE counterfoil_evidence SET account = 'c' WHERE position = 8".to_owned()),
        ("removed", 9, "DELETE FROM counterfoil_evidence WHERE position = 8".to_owned()),
        (
            "removed, closed up",
            8,
            "DELETE FROM counterfoil_evidence WHERE position = 8; \
          UPDATE counterfoil_evidence SET position = position - 1 WHERE position > 8"
                .to_owned(),
        ),
        // Such a ledger opens paused, and the pause is the row after the hole.
        ("cut", 25, "DELETE FROM counterfoil_evidence WHERE position = 24".to_owned()),
        (
            "cut",
            24,
            "DELETE FROM counterfoil_evidence WHERE position = 24; \
          UPDATE counterfoil_head SET position = 23"
                .to_owned(),
        ),
        (
            "inserted",
            25,
            "INSERT INTO counterfoil_evidence SELECT 25, account, writer, seq + 100, at, kind, by_name, \
          by_kind, operation_id, version, state, data, data_digest, digest, previous \
          FROM counterfoil_evidence WHERE position = 24"
                .to_owned(),
        ),
        ("data swapped", 8, swap("data") + ";" + &swap("data_digest").replace("was", "w2")),
        ("reordered", 8, move_rows.to_owned()),
        (
            "state of an operation",
            2,
            "UPDATE counterfoil_operations SET stage = 'succeeded' \
          WHERE account = 'kitchen' AND id = 'op-0'"
                .to_owned(),
        ),
    ];
    for (what, position, sql) in statements {
        let copy = bench.path("copy.db");
        fs::copy(&whole, &copy).unwrap();
        let connection = rusqlite::Connection::open(&copy).unwrap();
        connection.execute_batch(&sql).unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(connection);
        fs::copy(beside(&whole), beside(&copy)).unwrap();
        let store = bench.try_open("copy.db", &Bench::setup()).unwrap();
        let report = store.verify().await.unwrap();
        let first = report.faults.first().unwrap_or_else(|| panic!("{what} was not found"));
        assert_eq!(first.position, position, "{what}: {report:?}");
        store.close().await;
        fs::remove_file(&copy).unwrap();
    }
}

fn beside(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".mark");
    name.into()
}

async fn files_that_are_no_ledger_are_refused(bench: &Bench<'_>) {
    fs::write(bench.path("text.db"), "This is a shopping list, and no database at all. ".repeat(50)).unwrap();
    let refused = bench.try_open("text.db", &Bench::setup()).unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
    for (name, sql) in [
        ("newer.db", "INSERT INTO counterfoil_migrations VALUES (99, zeroblob(32), 0)"),
        ("other.db", "UPDATE counterfoil_migrations SET checksum = zeroblob(32)"),
    ] {
        let path = write(bench, name).await;
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let refused = bench.try_open(name, &Bench::setup()).unwrap_err();
        assert!(matches!(refused, StoreError::Unusable(_)), "{refused}");
    }
    let path = write(bench, "lacking.db").await;
    rusqlite::Connection::open(&path).unwrap().execute_batch("DROP TABLE counterfoil_pauses").unwrap();
    let refused = bench.try_open("lacking.db", &Bench::setup()).unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
    // An application's own file is none of these.
    let path = bench.path("application.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE orders (id)").unwrap();
    bench.open("application.db").await.store.close().await;
}

async fn damaged_files_are_refused(bench: &Bench<'_>) {
    let whole = fs::read(write(bench, "good.db").await).unwrap();
    for (name, bytes) in [
        ("half.db", whole[..whole.len() / 2].to_vec()),
        ("flipped.db", {
            let mut bytes = whole.clone();
            let page = 4_096 * 3;
            bytes[page..page + 64].fill(0xA5);
            bytes
        }),
    ] {
        fs::write(bench.path(name), &bytes).unwrap();
        let refused = bench.try_open(name, &Bench::setup()).unwrap_err();
        assert!(matches!(refused, StoreError::Corrupt(_)), "{name}: {refused}");
        assert_eq!(fs::read(bench.path(name)).unwrap(), bytes, "{name} is left as it was");
    }
}
