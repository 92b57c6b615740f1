//! Where the ledger ends.

use rusqlite::Connection;

use crate::store::failure::{Failure, signed, unsigned};
use crate::time::Timestamp;

/// Where the ledger ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The newest row of evidence.
    pub(super) position: u64,
    /// The newest instant of any row.
    pub(super) newest: Timestamp,
    /// How often pauses changed.
    pub(super) pauses: u64,
    /// How often tokens changed.
    pub(super) tokens: u64,
}

impl Head {
    /// Reads it.
    pub(super) fn read(connection: &Connection) -> Result<Self, Failure> {
        let mut statement = connection
            .prepare_cached("SELECT position, newest, pauses, tokens FROM counterfoil_head WHERE one = 1")?;
        Ok(statement.query_row([], |row| {
            Ok(Self {
                position: unsigned(row.get(0)?),
                newest: Timestamp::from_millis(row.get(1)?),
                pauses: unsigned(row.get(2)?),
                tokens: unsigned(row.get(3)?),
            })
        })?)
    }

    /// Writes it. The last thing before a commit.
    pub(super) fn write(self, connection: &Connection) -> Result<(), Failure> {
        connection
            .prepare_cached(
                "UPDATE counterfoil_head SET position = ?1, newest = ?2, pauses = ?3, tokens = ?4 WHERE one = 1",
            )?
            .execute((
                signed(self.position),
                self.newest.as_millis(),
                signed(self.pauses),
                signed(self.tokens),
            ))?;
        Ok(())
    }
}
