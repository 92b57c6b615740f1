//! Death at the N-th durable system call of a process that goes through the transaction door, for every N until it lives:
//! afterwards there is the row and its receipt, or neither, and the retry ends with one of each.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of a test")]

use std::path::Path;
use std::process::{Command, Stdio};

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::{Effect, LedgerOptions, NewOperation};
use counterfoil::policy::Tool;
use counterfoil::{Arguments, Ledger, OperationId, ToolName};
use rusqlite::{Connection, TransactionBehavior};

/// The variable that names the file of the process that dies.
const FILE: &str = "COUNTERFOIL_DOOR_SWEEP";

/// Whatever makes something durable.
const DURABLE: &str = "pwrite64,fsync,fdatasync,ftruncate,rename,unlink";

/// More calls than one thread of the process needs.
const MANY: u32 = 300;

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

/// Opens the application's file, which is the ledger too, and creates the item once.
async fn create(file: &Path) {
    let mut database = Connection::open(file).unwrap();
    database.execute_batch("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY)").unwrap();
    let tools = vec![Tool::in_transaction(tool())];
    let ledger = Ledger::open(file, tools, LedgerOptions::default()).await.unwrap();
    let item = NewOperation::new(
        OperationId::parse("a").unwrap(),
        tool(),
        Arguments::parse(br#"{"item":1}"#).unwrap(),
    );
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    ledger
        .in_transaction(&transaction, &caller(), item, |transaction| {
            transaction.execute("INSERT INTO items DEFAULT VALUES", [])?;
            Ok::<_, rusqlite::Error>(Effect::default())
        })
        .unwrap();
    transaction.commit().unwrap();
    ledger.store().close().await;
}

/// How many items and how many receipts the file holds.
fn counts(file: &Path) -> (i64, i64) {
    let database = Connection::open(file).unwrap();
    let count = |sql: &str| database.query_row(sql, [], |row| row.get(0)).unwrap_or(0);
    (
        count("SELECT count(*) FROM items"),
        count("SELECT count(*) FROM counterfoil_operations WHERE stage = 'succeeded'"),
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process that dies"]
async fn the_dying_process() {
    let Some(file) = std::env::var_os(FILE) else { return };
    create(Path::new(&file)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn death_at_the_nth_durable_call_leaves_both_or_neither() {
    let probe = Command::new("strace").args(["-qq", "-e", "trace=none", "-o", "/dev/null", "true"]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        println!("skipped: strace is not there or may not attach");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut neither, mut both) = (0, 0);
    for nth in 1..MANY {
        let file = folder.path().join(format!("{nth}.db"));
        let ended = Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={DURABLE}")])
            .args(["-e", &format!("inject={DURABLE}:signal=KILL:when={nth}")])
            .arg(std::env::current_exe().unwrap())
            .args(["the_dying_process", "--exact", "--ignored", "--test-threads=1"])
            .env(FILE, &file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        match counts(&file) {
            (0, 0) => neither += 1,
            (1, 1) => both += 1,
            (items, receipts) => panic!("call {nth}: {items} items and {receipts} receipts"),
        }
        create(&file).await;
        assert_eq!(counts(&file), (1, 1), "call {nth}: the retry");
        if ended.success() {
            println!("died {} times, {} times after the commit", nth - 1, both - 1);
            assert!(neither > 20, "the commit lies behind the sweep");
            return;
        }
    }
    panic!("more than {MANY} calls");
}
