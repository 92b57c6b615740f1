//! The rows of one transaction as far as they were loaded, and what the transaction will write.
//!
//! Verbs decide in memory. Whoever asks for something that is not on the page yet is told so, everything that was asked for
//! is loaded at once, and the verbs run again: a commit costs a few round trips, however many verbs share it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::backoff::BucketLevel;
use crate::fingerprint::{Arguments, Fingerprint};
use crate::guard::Peer;
use crate::id::{Account, OperationId, Subject, ToolName};
use crate::operation::Operation;
use crate::snapshot::{Grave, Webhooks};
use crate::store::cells::Times;
use crate::store::chain::{self, Tip};
use crate::store::failure::Failure;
use crate::store::in_force::InForce;
use crate::time::Timestamp;

/// Answers of one kind, by what was asked.
#[derive(Debug)]
pub(super) struct Shelf<K, V> {
    known: HashMap<K, V>,
    missing: RefCell<HashSet<K>>,
}

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Self {
        Self { known: HashMap::new(), missing: RefCell::default() }
    }
}

impl<K: Clone + Eq + Hash + Ord, V> Shelf<K, V> {
    /// The answer, or [`Failure::Missing`]: then it will be there the next time.
    pub(super) fn get(&self, key: &K) -> Result<&V, Failure> {
        self.known.get(key).ok_or_else(|| {
            self.want(key.clone());
            Failure::Missing
        })
    }

    /// Asks for something that somebody will need.
    pub(super) fn want(&self, key: K) {
        if !self.known.contains_key(&key) {
            self.missing.borrow_mut().insert(key);
        }
    }

    /// Keeps an answer.
    pub(super) fn put(&mut self, key: K, value: V) {
        self.known.insert(key, value);
    }

    /// What was asked for since the last time, in order: everybody takes locks in the same one.
    pub(super) fn take_missing(&mut self) -> Vec<K> {
        let mut missing: Vec<K> = self.missing.get_mut().drain().collect();
        missing.sort();
        missing
    }
}

/// What is kept under an ID.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// What is left after its retention, and since when.
    Tombstone(Grave, Timestamp),
    /// The operation, and when somebody looks at it next.
    Operation(Box<Operation>, Times),
}

/// Where an account's evidence ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// The newest row.
    pub(super) position: u64,
    /// The newest instant.
    pub(super) newest: Timestamp,
}

/// An action within an account.
pub(super) type Action = (Account, ToolName, String);

/// From when to when something was paused; without an end where it still is.
pub(super) type Span = (Timestamp, Option<Timestamp>);

/// What was loaded.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Whether nobody else changes pauses, tokens or declarations until the transaction ends.
    pub(super) exclusive: bool,
    /// Whether a verb turned out to need that.
    pub(super) wants_exclusive: std::cell::Cell<bool>,
    /// The accounts that this transaction holds, or looks at.
    pub(super) ends: HashMap<Account, End>,
    pub(super) operations: Shelf<(Account, OperationId), Found>,
    pub(super) peers: Shelf<Action, Vec<Peer>>,
    /// Those with another action, with what tells whether it is the same one after all.
    pub(super) others: Shelf<Action, Vec<(Peer, Arguments, u32)>>,
    pub(super) subjects: Shelf<(Account, Subject, Timestamp), Vec<Peer>>,
    pub(super) wishes: Shelf<(Account, Subject, u32), Vec<(Timestamp, OperationId)>>,
    pub(super) policies: Shelf<(ToolName, u32), Option<String>>,
    pub(super) newest_policies: Shelf<ToolName, Option<(u32, chain::Hash)>>,
    pub(super) users: Shelf<ToolName, Vec<Account>>,
    pub(super) pauses: Shelf<(), Vec<InForce>>,
    pub(super) paused: Shelf<(ToolName, Option<String>, Timestamp), Vec<Span>>,
    pub(super) webhooks: Shelf<(Account, OperationId, String), Webhooks>,
    pub(super) refusals: Shelf<(ToolName, String), u32>,
    pub(super) buckets: Shelf<String, Option<BucketLevel>>,
    pub(super) tips: Shelf<(Account, String), Option<Tip>>,
}

/// The action as the page knows it.
pub(super) fn action(account: &Account, tool: &ToolName, action: Fingerprint) -> Action {
    (account.clone(), tool.clone(), action.to_string())
}
