//! The library.

pub mod arguments;
pub mod backoff;
#[cfg(feature = "http")]
mod base64;
pub mod caller;
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
pub mod operation;
pub mod pointer;
pub mod policy;
pub mod random;
pub mod recovery;
pub mod secret_shapes;
pub mod snapshot;
pub mod state;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
pub mod verbs;
#[cfg(feature = "sqlite")]
mod waiters;

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
