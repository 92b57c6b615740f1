//! One intended action, one work item, however often the agent asks.
//!
//! The application keeps work items in its own SQLite file, which is the ledger as well: the item and its receipt
//! commit in one transaction. It prints:
//!
//! ```text
//! conflicting retry rejected
//! items: 2 retry result: 1
//! ```

#![allow(clippy::print_stdout, reason = "what it prints is the point")]

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::{Effect, LedgerOptions, NewOperation, TransactionError};
use counterfoil::policy::Tool;
use counterfoil::{Arguments, Ledger, Refusal, ToolName};
use rusqlite::{Connection, TransactionBehavior};

type Failure = Box<dyn std::error::Error>;

fn create_work_item(
    ledger: &Ledger,
    database: &mut Connection,
    caller: &Caller,
    operation_id: &str,
    title: &str,
) -> Result<String, Failure> {
    let tool = ToolName::parse("work_items.create")?;
    let arguments = Arguments::parse(format!("{{\"title\":{title:?}}}").as_bytes())?;
    let accepted = NewOperation::new(operation_id.parse()?, tool, arguments);

    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = ledger.in_transaction(&transaction, caller, accepted, |transaction| {
        transaction.execute("INSERT INTO work_items (title) VALUES (?1)", [title])?;
        let reference = transaction.last_insert_rowid().to_string();
        Ok::<_, rusqlite::Error>(Effect { reference: Some(reference), result: None })
    })?;
    transaction.commit()?;

    let receipt = done.operation.state.receipt().ok_or("no receipt")?;
    Ok(receipt.reference.clone().ok_or("no reference")?)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("work.db");
    let tools = vec![Tool::in_transaction(ToolName::parse("work_items.create")?)];
    let ledger = Ledger::open(&file, tools, LedgerOptions::default()).await?;
    let mut database = Connection::open(&file)?;
    database.busy_timeout(std::time::Duration::from_secs(5))?;
    database.execute_batch("CREATE TABLE work_items (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")?;

    let caller = Caller {
        account: "account-a".parse()?,
        principal: "planner".parse()?,
        roles: Roles { agent: true, ..Roles::default() },
        tools: Vec::new(),
    };
    let mut create = |id: &str, title: &str| create_work_item(&ledger, &mut database, &caller, id, title);

    create("approved-action-17", "Review evals")?;
    // The reply was lost: the same action again, under the ID that the application kept.
    let retried = create("approved-action-17", "Review evals")?;
    // A second intent is a second operation, also with the same words.
    create("approved-action-18", "Review evals")?;
    // The same ID for another intent is a mistake.
    match create("approved-action-17", "Different work") {
        Err(failure) if is_conflict(&failure) => println!("conflicting retry rejected"),
        Err(failure) => return Err(failure),
        Ok(_) => return Err("the conflicting retry was not rejected".into()),
    }

    let items: i64 = database.query_row("SELECT count(*) FROM work_items", [], |row| row.get(0))?;
    println!("items: {items} retry result: {retried}");
    Ok(())
}

fn is_conflict(failure: &Failure) -> bool {
    matches!(
        failure.downcast_ref::<TransactionError<rusqlite::Error>>(),
        Some(TransactionError::Refused(Refusal::OperationIdReused { .. }))
    )
}
