//! The transaction door against effects that end the transaction under it.

#![allow(clippy::unwrap_used, reason = "a test may end where its world does not stand")]

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::{Effect, LedgerOptions, NewOperation, TransactionError};
use counterfoil::operation::{Body, ResultBody};
use counterfoil::policy::Tool;
use counterfoil::{Arguments, Ledger, OperationId, StoreError, Task, ToolName};
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, TransactionBehavior};
use serde_json::{Value, json};

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

/// Every client that writes these rows by itself is compared with them too.
#[tokio::test(flavor = "multi_thread")]
async fn the_rows_are_those_of_the_vectors() {
    let mut world = World::new().await;
    let new = NewOperation { task: Some(Task::parse("run-1").unwrap()), ..item() };
    let transaction = world.database.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let text = r#"{"total":0.10}"#.to_owned();
    let result = ResultBody {
        status: None,
        content_type: Some("application/json".to_owned()),
        size: text.len() as u64,
        digest: "sha256:e08ae5df9337d85d21a23f07b4aedb294f34c616157d471b9a33a0fd0bcc7751".to_owned(),
        truncated: false,
        body: Some(Body::Json(text)),
    };
    let effect = Effect { reference: Some("item-1".to_owned()), result: Some(result) };
    world.ledger.in_transaction(&transaction, &caller(), new, |_| Ok::<_, ()>(effect)).unwrap();
    transaction.commit().unwrap();
    let mut written = json!({
        "operation": rows(&world.database, "SELECT * FROM counterfoil_operations")[0],
        "evidence": rows(
            &world.database,
            "SELECT account, seq, at, kind, by_name, by_kind, operation_id, version, state, data \
             FROM counterfoil_evidence WHERE account = 'kitchen' ORDER BY position",
        ),
    });
    hide_instants(&mut written);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/door.json");
    if std::env::var_os("UPDATE_ARTEFACTS").is_some() {
        std::fs::write(path, format!("{written:#}\n")).unwrap();
    }
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(written, expected, "UPDATE_ARTEFACTS=1 writes it anew; the clients must follow");
}

/// Rows as JSON, with the texts that are JSON taken apart.
fn rows(database: &Connection, sql: &str) -> Vec<Value> {
    let mut statement = database.prepare(sql).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let found = statement.query_map([], |row| {
        let cell = |(at, name): (usize, &String)| {
            let value = match row.get(at)? {
                Cell::Null => Value::Null,
                Cell::Integer(number) => json!(number),
                Cell::Real(number) => json!(number),
                Cell::Text(text) if ["body", "result", "data"].contains(&name.as_str()) => {
                    serde_json::from_str(&text).unwrap()
                }
                Cell::Text(text) => json!(text),
                Cell::Blob(bytes) => json!(bytes),
            };
            Ok((name.clone(), value))
        };
        names.iter().enumerate().map(cell).collect::<rusqlite::Result<Value>>()
    });
    found.unwrap().collect::<Result<_, _>>().unwrap()
}

fn hide_instants(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(hide_instants),
        Value::Array(elements) => elements.iter_mut().for_each(hide_instants),
        Value::Number(number) if number.as_i64().is_some_and(|number| number > 1_000_000_000_000) => {
            *value = json!("instant");
        }
        Value::String(text) if text.starts_with("20") && text.ends_with('Z') => *value = json!("instant"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
