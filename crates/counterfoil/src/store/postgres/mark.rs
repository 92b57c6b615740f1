//! The high-water mark of a node: a small file outside the database that says which database it was and how far this
//! node had come. A database that was restored from a backup lies behind it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::identity::Identity;
use super::load::number;
use super::wire::{Bound, Wire};
use crate::error::StoreError;
use crate::store::MarkState;
use crate::store::failure::Failure;

/// What the file holds, as one JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Which ledger.
    pub(super) ledger: String,
    /// The database's system identifier.
    pub(super) system: String,
    /// How many commits each process had made that kept its mark here, by its name.
    pub(super) nodes: BTreeMap<String, u64>,
}

/// How many processes a mark remembers; their names sort by when they began, and the oldest go first.
const MOST_NODES: usize = 64;

impl Mark {
    /// Notes how far a process has come.
    pub(super) fn note(&mut self, writer: &str, commits: u64) {
        let known = self.nodes.entry(writer.to_owned()).or_default();
        *known = commits.max(*known);
        while self.nodes.len() > MOST_NODES {
            self.nodes.pop_first();
        }
    }
}

/// Reads the mark; `None` where there is none.
pub(super) fn read(path: &Path) -> Result<Option<Mark>, StoreError> {
    let unusable = |text: &str| StoreError::Unusable(format!("the high-water mark cannot be read: {text}"));
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| unusable("it is none")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(&error.to_string())),
    }
}

/// Replaces the mark. A crash before the rename leaves the old one, one after it the new one.
pub(super) fn write(path: &Path, mark: &Mark) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut fresh = path.as_os_str().to_owned();
    fresh.push("-new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(mark)?)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

/// How the database stands to the mark. A higher timeline alone is a failover, not a restore.
pub(super) async fn compare(
    wire: &Wire,
    ledger: &str,
    identity: &Identity,
    mark: Option<&Mark>,
) -> Result<MarkState, Failure> {
    // A node that is new has no mark yet; what another one knows is its own to say.
    let Some(mark) = mark else { return Ok(MarkState::Current) };
    if mark.ledger != ledger || mark.system != identity.system {
        return Ok(MarkState::Behind);
    }
    for (writer, commits) in &mark.nodes {
        if commits_of(wire, writer).await?.is_none_or(|made| made < *commits) {
            return Ok(MarkState::Behind);
        }
    }
    Ok(MarkState::Current)
}

/// How many commits a node has made.
pub(super) async fn commits_of(wire: &Wire, writer: &str) -> Result<Option<u64>, Failure> {
    let sql = "SELECT commits FROM counterfoil.nodes WHERE writer = $1";
    wire.row(sql, Bound::new().text(writer)).await?.map(|row| number(&row, 0)).transpose()
}
