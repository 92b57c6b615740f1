//! The seam to what is kept. Not a public promise: it is reshaped whenever the ledger needs it.
//!
//! A store loads a [`crate::snapshot::Snapshot`], lets a verb decide, and writes the decision, its evidence and the
//! state in one durable commit. A crash before that commit leaves nothing of the verb; a crash after it leaves all of
//! it. Nothing in between exists, and nobody is answered before the commit is durable. No decision is made in SQL.

mod any;
mod cells;
mod chain;
mod clocks;
mod commit;
mod cursor;
mod delivery;
mod failure;
mod in_force;
mod policies;
#[cfg(feature = "postgres")]
pub mod postgres;
mod rows;
mod shared;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod view;

use serde::{Deserialize, Serialize};

pub use any::Store;
pub use delivery::{Delivery, Waiting};
pub use shared::CommitStats;

use crate::guard::Stage;
use crate::id::{Account, OperationId, Principal, Subject, Task, ToolName};
use crate::time::Timestamp;

/// Which operations a list shows: every condition that is given must hold. Newest first.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// In this state.
    pub stage: Option<Stage>,
    /// Of this tool.
    pub tool: Option<ToolName>,
    /// Of this task.
    pub task: Option<Task>,
    /// About this subject.
    pub subject: Option<Subject>,
    /// Held for a person, or not.
    pub held: Option<bool>,
    /// Unresolved, or not.
    pub unresolved: Option<bool>,
    /// With this receipt reference, or sent under this key.
    pub reference: Option<String>,
    /// Prepared at or after.
    pub created_after: Option<Timestamp>,
    /// Prepared before.
    pub created_before: Option<Timestamp>,
    /// Whose ID contains this text (no wildcards).
    pub text: Option<String>,
    /// How many at the most.
    pub limit: u32,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins; `None` at the end.
    pub next_cursor: Option<String>,
}

/// One row of evidence as it stands in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceRow {
    /// Its place in the ledger; grows with each row, without gaps.
    pub position: u64,
    /// The chain: one per account and writing process.
    pub writer: String,
    /// Its place in that chain, from 1.
    pub seq: u64,
    /// Store time of the commit.
    pub at: Timestamp,
    /// What kind of thing was seen.
    pub kind: String,
    /// Who brought it, and what they are.
    pub by: (String, String),
    /// About which operation; `None` for the ledger itself.
    pub operation: Option<OperationId>,
    /// The operation's version with this row.
    pub version: u64,
    /// The operation's state after it.
    pub state: Option<String>,
    /// Details, one JSON object.
    pub data: String,
    /// Digest of this row and the one before.
    pub digest: String,
    /// Digest of the row before in the chain; all zeroes for the first.
    pub previous: String,
}

/// An operation that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Due {
    /// Whose.
    pub account: Account,
    /// Which.
    pub id: OperationId,
    /// Its tool.
    pub tool: ToolName,
    /// Since when.
    pub at: Timestamp,
}

/// Of which tools what is due is asked for. Nobody's work may stand in the way of another's, so whoever carries work on
/// asks for what it can carry out, and for the rest apart.
#[derive(Clone, Debug)]
pub enum DueOf {
    /// Every tool but these.
    Except(Vec<ToolName>),
    /// These tools, after a place: a page at a time, so that none is passed over for the sake of those before it.
    Only {
        /// The tools.
        tools: Vec<ToolName>,
        /// The last one that was seen.
        after: Option<Due>,
    },
}

/// Which operations of a tool a worker is offered.
#[derive(Clone, Debug)]
pub struct WorkAsked {
    /// After this one.
    pub after: Option<Due>,
    /// Only those whose outcome is unknown: sends of the tool are paused.
    pub unknown: bool,
    /// How many at the most.
    pub limit: u32,
}

/// A change of an operation that this or another process committed. It is a hint: whoever misses one (the channel is
/// bounded) reads again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// Whose.
    pub account: Account,
    /// Which.
    pub id: OperationId,
}

/// A pause in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The tool; `None` means everything.
    pub tool: Option<ToolName>,
    /// Only sends under this scope.
    pub scope: Option<String>,
    /// Since when.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// Why.
    pub note: String,
}

/// A stored token, without the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its ID.
    pub id: String,
    /// Whom it names.
    pub principal: Principal,
    /// Whose operations it may see.
    pub account: Account,
    /// What it may do: `agent`, `worker`, `approver`, `auditor`, `operator`.
    pub roles: Vec<String>,
    /// Which tools, as globs; empty means all.
    pub tools: Vec<String>,
    /// SHA-256 of the token text.
    pub digest: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
    /// When it runs out.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// Counts for the status screen and the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// How many operations are in each state, by tool.
    pub by_tool: Vec<ToolCensus>,
    /// When the oldest operation that is still unknown was prepared.
    pub oldest_unknown: Option<Timestamp>,
}

/// One tool's share of the census.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCensus {
    /// The tool.
    pub tool: ToolName,
    /// The state.
    pub stage: Stage,
    /// Whether they are held for a person.
    pub held: bool,
    /// How many.
    pub count: u64,
}

/// What `audit verify` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditReport {
    /// How many rows were checked.
    pub rows: u64,
    /// How many chains.
    pub chains: u64,
    /// Each broken place, in order.
    pub faults: Vec<AuditFault>,
}

/// A broken place in the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFault {
    /// Where in the ledger.
    pub position: u64,
    /// Which account's chain.
    pub account: String,
    /// Which writer's chain.
    pub writer: String,
    /// The sequence number at which it breaks.
    pub seq: u64,
    /// What is wrong, in fixed words.
    pub problem: &'static str,
}

/// How the ledger stands to its high-water mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkState {
    /// At or past it.
    Current,
    /// There is no mark although the ledger holds attempts.
    Missing,
    /// Behind it: the ledger was restored or cut.
    Behind,
}
