//! One node: what its handles and tasks share.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::clock::DatabaseClock;
use super::committer::Job;
use super::identity::Identity;
use super::session::KnownTips;
use super::wires::Wires;
use super::{wire, written};
use crate::id::Account;
use crate::store::MarkState;
use crate::store::chain::Tip;
use crate::store::failure::Failure;
use crate::store::shared::Shared;
use crate::time::Timestamp;

/// What every handle and task of one ledger shares.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) shared: Arc<Shared>,
    /// Tells the store's clock what the database's says; `None` where tests drive time.
    pub(super) clock: Option<Arc<DatabaseClock>>,
    pub(super) address: Address,
    /// What the database was when this process last saw it.
    pub(super) identity: Mutex<Identity>,
    /// For transactions that write, and for those that only read.
    pub(super) wires: Wires,
    pub(super) reads: Wires,
    pub(super) tips: Mutex<KnownTips>,
    pub(super) queue: RwLock<Option<mpsc::Sender<Box<dyn Job>>>>,
    pub(super) tasks: Mutex<Vec<JoinHandle<()>>>,
    pub(super) stopping: CancellationToken,
    pub(super) mark_state: MarkState,
    pub(super) mark: Option<std::path::PathBuf>,
    pub(super) ledger: String,
    pub(super) secret: [u8; 32],
    pub(super) writer: String,
}

impl std::ops::Deref for Inner {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// How many tips are remembered; reading one anew costs one look into an index.
const MOST_TIPS: usize = 10_000;

impl Inner {
    pub(super) fn tell_time(&self, now: Timestamp) {
        if let Some(clock) = &self.clock {
            clock.tell(now);
        }
    }

    /// The ends of this node's chains, of these accounts, as far as they are known.
    pub(super) fn tips<'a>(
        &self,
        accounts: impl Iterator<Item = &'a Account>,
    ) -> Vec<((Account, String), Tip)> {
        let tips = self.tips.lock().unwrap_or_else(PoisonError::into_inner);
        accounts
            .filter_map(|account| {
                let key = (account.clone(), self.writer.clone());
                tips.get(&key).map(|tip| (key, *tip))
            })
            .collect()
    }

    /// Forgets the ends of chains that a commit may have moved.
    pub(super) fn forget_tips(&self, written: &written::Written) {
        let mut tips = self.tips.lock().unwrap_or_else(PoisonError::into_inner);
        for key in written::moved_tips(written).keys() {
            tips.remove(key);
        }
    }

    /// Remembers the ends of chains that a commit moved.
    pub(super) fn keep_tips(&self, written: &written::Written) {
        let mut tips = self.tips.lock().unwrap_or_else(PoisonError::into_inner);
        if tips.len() >= MOST_TIPS {
            tips.clear();
        }
        tips.extend(written::moved_tips(written));
    }

    /// A connection that leads to this ledger.
    pub(super) async fn connect(&self) -> Result<wire::Wire, Failure> {
        let wire = wire::Wire::open(&self.address).await?;
        let found = Identity::read(&wire).await?;
        let mut known = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        found.follows(&known)?;
        *known = found;
        Ok(wire)
    }
}
