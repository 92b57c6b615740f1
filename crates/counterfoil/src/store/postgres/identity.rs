//! Which server this is: a restored copy or an old primary must not be taken for the ledger.

use super::load::{flag, number, text};
use super::wire::{Bound, Wire};
use crate::error::StoreError;
use crate::store::failure::Failure;

/// The oldest version that carries a ledger.
const OLDEST: u64 = 150_000;

/// What a server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// Its system identifier; empty before any was seen.
    pub(super) system: String,
    /// Its timeline: one more after every failover.
    pub(super) timeline: u64,
}

impl Identity {
    /// Asks a server. One that cannot carry a ledger, or only reads, is refused.
    pub(super) async fn read(wire: &Wire) -> Result<Self, Failure> {
        let sql = "SELECT current_setting('server_version_num')::bigint, pg_is_in_recovery(), \
             (SELECT system_identifier::text FROM pg_control_system()), \
             current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', \
             current_setting('server_encoding')";
        let row =
            wire.row(sql, Bound::new()).await?.ok_or_else(|| Failure::damaged("a server says nothing"))?;
        if number(&row, 0)? < OLDEST {
            return Err(unusable("PostgreSQL 15 or newer is needed"));
        }
        if flag(&row, 1)? {
            let text = "this PostgreSQL server is a standby: it only reads";
            return Err(Failure::Batch(StoreError::Unavailable(text.to_owned())));
        }
        if !flag(&row, 3)? {
            return Err(unusable(
                "the server's commits are not durable: set fsync and full_page_writes to on",
            ));
        }
        if text(&row, 4)? != "UTF8" {
            return Err(unusable("the database's encoding must be UTF8"));
        }
        let system = text(&row, 2)?;
        let sql = "SELECT ('x' || lpad(substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 16, '0'))::bit(64)::bigint";
        let row =
            wire.row(sql, Bound::new()).await?.ok_or_else(|| Failure::damaged("a server says nothing"))?;
        Ok(Self { system, timeline: number(&row, 0)? })
    }

    /// Whether it may carry on what `known` carried. A higher timeline is a failover; a lower one is the primary from
    /// before it, whose commits nobody else sees.
    pub(super) fn follows(&self, known: &Self) -> Result<(), Failure> {
        if known.system.is_empty() || (self.system == known.system && self.timeline >= known.timeline) {
            return Ok(());
        }
        let text = if self.system == known.system {
            "this PostgreSQL server is an old primary: another one was promoted since"
        } else {
            "this PostgreSQL server is not the one that held the ledger"
        };
        Err(Failure::Batch(StoreError::Unavailable(text.to_owned())))
    }
}

fn unusable(text: &str) -> Failure {
    Failure::Batch(StoreError::Unusable(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_goes_on_and_an_old_primary_or_a_copy_does_not() {
        let server = |system: &str, timeline| Identity { system: system.to_owned(), timeline };
        let known = server("7", 2);
        assert!(server("7", 2).follows(&known).is_ok());
        assert!(server("7", 3).follows(&known).is_ok());
        assert!(server("7", 1).follows(&known).is_err());
        assert!(server("8", 3).follows(&known).is_err());
        assert!(server("8", 3).follows(&Identity::default()).is_ok());
    }
}
