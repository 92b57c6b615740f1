//! Counterfoil makes an agent's write actions safe to retry.
//!
//! The application gives every accepted action an [`OperationId`] and keeps it. Every retry, new model turn or restarted
//! worker uses the same ID and gets the same [`Receipt`]. What cannot be established stays visibly
//! [`State::Unknown`] and goes to a person; nothing is sent twice because somebody was not sure.
//!
//! Effects in the application's own SQLite file commit together with their receipt:
//!
//! ```
//! use counterfoil::caller::{Caller, Roles};
//! use counterfoil::ledger::{Effect, LedgerOptions, NewOperation};
//! use counterfoil::policy::Tool;
//! use counterfoil::{Arguments, Ledger};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let file = folder.path().join("orders.db");
//! let tools = vec![Tool::in_transaction("orders.create".parse()?)];
//! let ledger = Ledger::open(&file, tools, LedgerOptions::default()).await?;
//! let mut database = rusqlite::Connection::open(&file)?;
//! database.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, sku TEXT NOT NULL)")?;
//! let caller = Caller {
//!     account: "kitchen".parse()?,
//!     principal: "planner".parse()?,
//!     roles: Roles { agent: true, ..Roles::default() },
//!     tools: Vec::new(),
//! };
//!
//! // The ID was minted when the proposal was accepted, and is kept with the pending work. The reply to the first call
//! // is lost; the second call is the retry.
//! for _ in 0..2 {
//!     let arguments = Arguments::parse(br#"{"sku":"flour-25kg"}"#)?;
//!     let accepted = NewOperation::new("approved-action-17".parse()?, "orders.create".parse()?, arguments);
//!     let transaction = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
//!     let done = ledger.in_transaction(&transaction, &caller, accepted, |transaction| {
//!         transaction.execute("INSERT INTO orders (sku) VALUES ('flour-25kg')", [])?;
//!         let reference = Some(transaction.last_insert_rowid().to_string());
//!         Ok::<_, rusqlite::Error>(Effect { reference, result: None })
//!     })?;
//!     transaction.commit()?;
//!     let receipt = done.operation.state.receipt().ok_or("no receipt")?;
//!     assert_eq!(receipt.reference.as_deref(), Some("1"));
//! }
//! let orders: i64 = database.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?;
//! assert_eq!(orders, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Effects elsewhere are carried out by an [`executor::Executor`] over a [`destination::Destination`], with the
//! destination's own protection: see [`recovery`] for what can be declared and what follows after a lost reply.
//!
//! Everything that could double a write is decided by pure functions: [`state::next`] is the whole machine,
//! [`recovery::Recovery::may_send_again`] says when another copy is safe, [`decide`] what happens next, and
//! [`guard`] what is held back meanwhile.

pub mod arguments;
pub mod backoff;
#[cfg(feature = "http")]
pub mod base64;
pub mod caller;
mod condition;
#[cfg(all(feature = "sqlite", any(test, feature = "testing")))]
pub mod conformance;
pub mod decide;
pub mod destination;
#[cfg(feature = "sqlite")]
mod door;
pub mod error;
#[cfg(feature = "sqlite")]
pub mod executor;
pub mod faults;
pub mod fingerprint;
pub mod guard;
mod hex;
#[cfg(feature = "http")]
pub mod http;
pub mod id;
pub mod json;
pub mod keys;
#[cfg(feature = "sqlite")]
pub mod ledger;
mod message;
pub mod notice;
pub mod operation;
pub mod pointer;
pub mod policy;
pub mod queue;
pub mod random;
pub mod reconcile;
pub mod recovery;
pub mod safeguard;
pub mod secret_shapes;
pub mod snapshot;
pub mod state;
pub mod stated;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
pub mod verbs;
#[cfg(feature = "sqlite")]
mod waiters;
pub mod waits;

pub use error::{Error, Refusal, StoreError};
pub use fingerprint::{Arguments, Fingerprint};
pub use id::{Account, FencingToken, OperationId, Principal, Task, ToolName, WorkerName, new_operation_id};
pub use keys::KeyFormat;
#[cfg(feature = "sqlite")]
pub use ledger::Ledger;
pub use operation::{Operation, Receipt};
pub use pointer::Pointer;
pub use state::State;
pub use time::{Clock, SystemClock, Timestamp};
