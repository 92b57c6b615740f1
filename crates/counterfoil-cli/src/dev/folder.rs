//! The folder `.counterfoil`: the ledger, the practice supplier's orders, and the file by which clients find the server.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The folder's name.
pub const NAME: &str = ".counterfoil";

/// What clients read, from the working folder upwards.
pub const DISCOVERY: &str = "dev.json";

/// Locked while a server runs.
const LOCK: &str = "lock";

/// How long somebody may look whether it is.
const LOOKED_AT: Duration = Duration::from_millis(20);

/// What a client needs to know. The tokens make the file a secret: only its owner may read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovery {
    /// Where the server listens.
    pub url: String,
    /// The token of the application: roles agent and worker.
    pub token: String,
    /// The token of a person who decides: roles approver, auditor and operator.
    pub approver_token: String,
    /// The ledger's file.
    pub ledger: PathBuf,
    /// Where the practice supplier listens. It stays the same, since open operations go to it.
    pub supplier_url: String,
    /// The server's process.
    pub pid: u32,
}

/// The folder, for one server at a time.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Held as long as the server runs; a process that dies lets go of it.
    _lock: File,
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// Another server uses it.
    #[error("counterfoil dev already runs in this folder")]
    Taken,
    /// The system refuses.
    #[error("{NAME} cannot be used: {0}")]
    System(#[from] io::Error),
}

impl Folder {
    /// Makes the folder in `above`, or takes the one that is there.
    ///
    /// # Errors
    /// Another server uses it, or the system refuses.
    pub fn open(above: &Path) -> Result<Self, Unusable> {
        let path = above.join(NAME);
        if !path.is_dir() {
            DirBuilder::new().mode(0o700).create(&path)?;
        }
        // Nothing in here belongs into a repository: there are tokens in it.
        let ignore = path.join(".gitignore");
        if !ignore.exists() {
            std::fs::write(&ignore, "*\n")?;
        }
        let lock = File::options().create(true).truncate(false).write(true).open(path.join(LOCK))?;
        // A command that looks whether a server runs here has the lock for an instant.
        for last in [false, false, true] {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { path, _lock: lock }),
                Err(TryLockError::WouldBlock) if last => break,
                Err(TryLockError::WouldBlock) => std::thread::park_timeout(LOOKED_AT),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        Err(Unusable::Taken)
    }

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// What the last server left; nothing where that cannot be read.
    #[must_use]
    pub fn last(&self) -> Discovery {
        let read = std::fs::read(self.file(DISCOVERY)).ok();
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Writes what clients read, at once as a whole, readable for its owner alone.
    ///
    /// # Errors
    /// The system refuses.
    pub fn publish(&self, discovery: &Discovery) -> io::Result<()> {
        let (place, fresh) = (self.file(DISCOVERY), self.file("dev.json.new"));
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = File::options().create_new(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(discovery)?)?;
        file.write_all(b"\n")?;
        drop(file);
        std::fs::rename(&fresh, &place)
    }
}

/// What the server left that runs in the folder `above` right now. A file that others may read or write is none of its.
#[must_use]
pub fn running(above: &Path) -> Option<Discovery> {
    let path = above.join(NAME);
    let mut file = File::open(path.join(DISCOVERY)).ok()?;
    if file.metadata().ok()?.permissions().mode() & 0o077 != 0 {
        return None;
    }
    // A server that has ended, however it did, has let go of its lock.
    match File::open(path.join(LOCK)).ok()?.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_at_a_time_and_tokens_for_the_owner_alone() {
        let above = tempfile::tempdir().unwrap();
        let folder = Folder::open(above.path()).unwrap();
        assert!(matches!(Folder::open(above.path()), Err(Unusable::Taken)));
        assert_eq!(folder.last(), Discovery::default());
        let discovery = Discovery { url: "http://127.0.0.1:1".to_owned(), pid: 7, ..Discovery::default() };
        folder.publish(&discovery).unwrap();
        folder.publish(&discovery).unwrap();
        assert_eq!(folder.last(), discovery);
        assert_eq!(running(above.path()), Some(discovery));
        let others = |mode| {
            std::fs::set_permissions(folder.file(DISCOVERY), std::fs::Permissions::from_mode(mode)).unwrap()
        };
        others(0o644);
        assert_eq!(running(above.path()), None);
        others(0o600);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.file(DISCOVERY)), 0o600);
        assert_eq!(mode(&above.path().join(NAME)), 0o700);
        drop(folder);
        assert_eq!(running(above.path()), None);
        assert!(Folder::open(above.path()).is_ok());
    }
}
