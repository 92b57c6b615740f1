//! The transaction door against effects that end the transaction under it.

#![allow(clippy::unwrap_used, reason = "a test may end where its world does not stand")]

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::{Effect, LedgerOptions, NewOperation, TransactionError};
use counterfoil::policy::Tool;
use counterfoil::{Arguments, Ledger, OperationId, StoreError, ToolName};
use rusqlite::{Connection, TransactionBehavior};

struct World {
    _folder: tempfile::TempDir,
    ledger: Ledger,
    database: Connection,
}

fn caller() -> Caller {
    Caller {
        account: "kitchen".parse().unwrap(),
        principal: "planner".parse().unwrap(),
        roles: Roles { agent: true, ..Roles::default() },
        tools: Vec::new(),
    }
}

fn item() -> NewOperation {
    let tool = ToolName::parse("items.create").unwrap();
    NewOperation::new(OperationId::parse("a").unwrap(), tool, Arguments::parse(br#"{"item":1}"#).unwrap())
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("items.db");
        let tools = vec![Tool::in_transaction(ToolName::parse("items.create").unwrap())];
        let ledger = Ledger::open(&file, tools, LedgerOptions::default()).await.unwrap();
        let database = Connection::open(&file).unwrap();
        database.execute_batch("CREATE TABLE items (id INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)").unwrap();
        Self { _folder: folder, ledger, database }
    }

    /// One call of the door whose effect goes on with `more` and takes no notice of its errors.
    fn create(&mut self, more: &str) -> Result<(), TransactionError<rusqlite::Error>> {
        let transaction = self.database.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        self.ledger.in_transaction(&transaction, &caller(), item(), |transaction| {
            transaction.execute("INSERT INTO items (id) VALUES (1)", [])?;
            transaction.execute_batch(more).ok();
            Ok(Effect::default())
        })?;
        transaction.commit().unwrap();
        Ok(())
    }

    fn items(&self) -> i64 {
        self.database.query_row("SELECT count(*) FROM items", [], |row| row.get(0)).unwrap()
    }

    async fn succeeded(&self) -> bool {
        let found = self.ledger.find(&caller(), &OperationId::parse("a").unwrap()).await;
        found.is_ok_and(|view| view.operation.state.receipt().is_some())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_was_rolled_back_gets_no_receipt() {
    for more in [
        "ROLLBACK",
        "ROLLBACK; BEGIN IMMEDIATE",
        // SQLite itself rolls the transaction back on this conflict.
        "INSERT INTO items (id) VALUES (1)",
        "ROLLBACK TO counterfoil_door",
        "ROLLBACK TO counterfoil_door; SAVEPOINT other",
    ] {
        for prepared in [false, true] {
            let mut world = World::new().await;
            if prepared {
                world.ledger.prepare(&caller(), item()).await.unwrap();
            }
            let told = world.create(more);
            assert!(
                matches!(told, Err(TransactionError::Store(StoreError::Unusable(_)))),
                "{more}: {told:?}"
            );
            assert_eq!((world.items(), world.succeeded().await), (0, false), "{more}");
            world.create("").unwrap();
            assert_eq!((world.items(), world.succeeded().await), (1, true), "{more}");
            world.create("").unwrap();
            assert_eq!(world.items(), 1, "{more}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_may_use_savepoints_of_its_own() {
    let mut world = World::new().await;
    world
        .create("SAVEPOINT mine; INSERT INTO items (id) VALUES (2); ROLLBACK TO mine; SAVEPOINT open")
        .unwrap();
    assert_eq!((world.items(), world.succeeded().await), (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_committed_by_itself_is_never_done_again() {
    for more in ["COMMIT", "COMMIT; BEGIN IMMEDIATE"] {
        for prepared in [false, true] {
            let mut world = World::new().await;
            if prepared {
                world.ledger.prepare(&caller(), item()).await.unwrap();
            }
            let told = world.create(more);
            assert!(
                matches!(told, Err(TransactionError::Store(StoreError::Unusable(_)))),
                "{more}: {told:?}"
            );
            let found = world.ledger.find(&caller(), &OperationId::parse("a").unwrap()).await.unwrap();
            assert_eq!((found.operation.state.label(), found.operation.unresolved()), ("in_progress", true));
            // The retry may not run it: what the first one did is there, and nobody has said so.
            let again = world.create("INSERT INTO items (id) VALUES (2)");
            assert!(matches!(again, Err(TransactionError::Unsettled(_))), "{more}: {again:?}");
            assert_eq!((world.items(), world.succeeded().await), (1, false), "{more}");
        }
    }
}
