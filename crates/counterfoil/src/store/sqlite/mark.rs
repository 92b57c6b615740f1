//! The high-water mark: a small file beside the ledger that says how far the ledger had come.
//!
//! A ledger that was restored from a backup, or cut, lies behind it. The mark may lag, never lead: it is made from rows
//! that a reader sees, and a reader sees a row only once it is durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _};
use serde::{Deserialize, Serialize};

use super::file::Place;
use super::head::Head;
use crate::store::MarkState;
use crate::store::chain::Hash;
use crate::store::failure::{Failure, signed};
use crate::time::Timestamp;

/// What the file holds, as one JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Which ledger.
    ledger: String,
    /// Its newest row of evidence.
    pub(super) position: u64,
    /// That row's digest.
    digest: String,
    /// The newest instant.
    newest: Timestamp,
}

/// What lies where the mark should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// Something that is no mark.
    Broken,
    /// A mark.
    Mark(Mark),
}

/// The mark's files.
#[derive(Clone, Debug)]
pub(super) struct MarkFile {
    path: PathBuf,
    fresh: PathBuf,
    lock: PathBuf,
}

impl Mark {
    /// Whether the ledger still holds the row that the mark was made from.
    pub(super) fn stands(&self, connection: &Connection) -> Result<bool, Failure> {
        let found = digest_at(connection, self.position)?;
        Ok(self.position == 0 || found.is_some_and(|digest| crate::hex::encode(&digest) == self.digest))
    }
}

impl MarkFile {
    /// The files beside the ledger; `None` where it lies in memory.
    pub(super) fn beside(place: &Place) -> Option<Self> {
        Some(Self {
            path: place.beside(".mark")?,
            fresh: place.beside(".mark-new")?,
            lock: place.beside(".mark-lock")?,
        })
    }

    /// Reads the mark.
    pub(super) fn read(&self) -> io::Result<Found> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).map_or(Found::Broken, Found::Mark)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Replaces the mark, unless another process has moved it further already. `force` also moves it back, which only
    /// an operator who resumes a restored ledger may do. Says whether it could be tried: another process may be at it.
    pub(super) fn advance(&self, mark: &Mark, force: bool) -> io::Result<bool> {
        let lock = open(&self.lock)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) if !force => return Ok(false),
            Err(fs::TryLockError::WouldBlock) => lock.lock()?,
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        let further = match self.read()? {
            Found::Mark(known) => known.ledger == mark.ledger && known.position >= mark.position,
            Found::Nothing | Found::Broken => false,
        };
        if further && !force {
            return Ok(true);
        }
        let mut file = open(&self.fresh)?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(mark)?)?;
        file.sync_all()?;
        // A crash before the rename leaves the old mark, one after it the new one.
        fs::rename(&self.fresh, &self.path)?;
        Ok(true)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The mark that the ledger has earned by now.
pub(super) fn earned(connection: &Connection, ledger: &str) -> Result<Mark, Failure> {
    let head = Head::read(connection)?;
    let digest = digest_at(connection, head.position)?.unwrap_or_default();
    Ok(Mark {
        ledger: ledger.to_owned(),
        position: head.position,
        digest: crate::hex::encode(&digest),
        newest: head.newest,
    })
}

fn digest_at(connection: &Connection, position: u64) -> Result<Option<Hash>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT digest FROM counterfoil_evidence WHERE position = ?1")?;
    Ok(statement.query_row([signed(position)], |row| row.get(0)).optional()?)
}

/// How the ledger stands to its mark.
pub(super) fn compare(connection: &Connection, ledger: &str, found: &Found) -> Result<MarkState, Failure> {
    let mark = match found {
        Found::Nothing | Found::Broken => {
            let attempts: bool = connection.query_row(
                "SELECT EXISTS (SELECT 1 FROM counterfoil_operations WHERE attempts > 0) \
                 OR EXISTS (SELECT 1 FROM counterfoil_tombstones)",
                [],
                |row| row.get(0),
            )?;
            return Ok(if attempts { MarkState::Missing } else { MarkState::Current });
        }
        Found::Mark(mark) => mark,
    };
    Ok(if mark.ledger == ledger && mark.stands(connection)? { MarkState::Current } else { MarkState::Behind })
}
