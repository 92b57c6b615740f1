//! Opens the file: what it must be, how its connections are set, and the check that the settings took effect.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::store::failure::Failure;

/// The first version without the fault that could corrupt a file when its write-ahead log was reset.
const OLDEST_SQLITE: (i32, &str) = (3_051_003, "3.51.3");

/// How long a connection waits for another process of this host.
const BUSY: Duration = Duration::from_secs(5);

/// File systems whose locks or shared memory do not hold between hosts.
const NETWORK: [&str; 19] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb2",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "coda",
    "davfs",
    "glusterfs",
    "lustre",
    "beegfs",
    "gfs2",
    "ncpfs",
    "ocfs2",
    "orangefs",
    "pvfs2",
];

/// FUSE file systems whose files may lie on another host.
const NETWORK_FUSE: [&str; 14] = [
    "sshfs",
    "glusterfs",
    "ceph",
    "s3fs",
    "rclone",
    "gcsfuse",
    "davfs2",
    "juicefs",
    "curlftpfs",
    "mount.davfs",
    "cephfs",
    "grpcfuse",
    "smbnetfs",
    "lustre",
];

/// Where the ledger lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a file.
    File(PathBuf),
    /// In memory, for tests: gone with the store.
    Memory,
}

impl Place {
    /// The place that a path names.
    pub(super) fn of(path: &Path) -> Self {
        if path.as_os_str() == ":memory:" { Self::Memory } else { Self::File(path.to_owned()) }
    }

    /// The path of a file beside the ledger.
    pub(super) fn beside(&self, suffix: &str) -> Option<PathBuf> {
        match self {
            Self::Memory => None,
            Self::File(path) => {
                let mut name = path.as_os_str().to_owned();
                name.push(suffix);
                Some(PathBuf::from(name))
            }
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The one that writes.
    Writer,
    /// One that only reads.
    Reader,
}

/// Makes sure that there is a file that may become a ledger, or is one.
///
/// Nothing here opens a file that SQLite may already hold: closing any handle of it would drop the locks of the whole
/// process.
pub(super) fn prepare(place: &Place) -> Result<(), StoreError> {
    let unusable = |what: &str, error: &io::Error| StoreError::Unusable(format!("{what}: {error}"));
    if rusqlite::version_number() < OLDEST_SQLITE.0 {
        let (have, need) = (rusqlite::version(), OLDEST_SQLITE.1);
        return Err(StoreError::Unusable(format!(
            "SQLite {have} is older than {need}, which can corrupt a file"
        )));
    }
    let Place::File(path) = place else { return Ok(()) };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let folder = fs::canonicalize(parent).map_err(|error| unusable("its folder cannot be opened", &error))?;
    let target = fs::canonicalize(path).unwrap_or_else(|_| folder.clone());
    refuse_network(&target)?;
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(file) => {
            drop(file);
            // Without this a power loss could take the name away from a file that already holds acknowledged commits.
            File::open(&folder)
                .and_then(|folder| folder.sync_all())
                .map_err(|error| unusable("its folder cannot be flushed", &error))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(unusable("the file cannot be created", &error)),
    }
}

fn refuse_network(path: &Path) -> Result<(), StoreError> {
    // Where the kernel does not tell (another system), the operator's documentation has to.
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else { return Ok(()) };
    match file_system(&mounts, path) {
        Some(kind) if is_network(&kind) => Err(StoreError::Unusable(format!(
            "it lies on a network file system ({kind}), whose locks do not hold between hosts"
        ))),
        Some(_) | None => Ok(()),
    }
}

fn is_network(kind: &str) -> bool {
    match kind.strip_prefix("fuse.") {
        Some(fuse) => NETWORK_FUSE.contains(&fuse),
        None => NETWORK.contains(&kind),
    }
}

/// The type of the file system that `path` lies on: the mount with the longest matching mount point; of two on one
/// point, the later.
fn file_system(mounts: &str, path: &Path) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (left.split(' ').nth(4), right.split(' ').next()) else { continue };
        let point = unescape(point);
        let depth = Path::new(&point).components().count();
        if path.starts_with(&point) && best.is_none_or(|(longest, _)| depth >= longest) {
            best = Some((depth, kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

/// Mount points are printed with spaces and the like as three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once('\\') {
        plain.push_str(head);
        let code = tail.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &tail[3..];
            }
            None => {
                plain.push('\\');
                rest = tail;
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// Opens one connection and makes sure that its settings took effect.
pub(super) fn connect(place: &Place, role: Role) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match place {
        Place::Memory => Connection::open_in_memory()?,
        Place::File(path) => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    let journal = match place {
        Place::Memory => "memory",
        Place::File(_) => "wal",
    };
    let became: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    // A failed switch answers with another word and no error.
    if became != journal {
        let text = format!("its journal mode is {became} and cannot be made {journal}");
        return Err(StoreError::Unusable(text).into());
    }
    let cache = match role {
        Role::Writer => "PRAGMA cache_size = -8000",
        Role::Reader => "PRAGMA cache_size = -4000; PRAGMA query_only = ON",
    };
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
         PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 67108864",
    )?;
    connection.execute_batch(cache)?;
    let pages: i64 = connection.query_row("PRAGMA wal_autocheckpoint = 2000", [], |row| row.get(0))?;
    let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
    if synchronous != 2 || pages != 2_000 {
        return Err(StoreError::Unusable("its commits cannot be made durable".to_owned()).into());
    }
    Ok(connection)
}

/// Closes a connection. After a failure the write-ahead log stays as it is: moving it into the file would flush again,
/// and a flush that failed once may claim anything the second time.
pub(super) fn close(connection: Connection, failed: bool) {
    let keep = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    if failed && let Err(error) = connection.set_db_config(keep, true) {
        tracing::warn!(%error, "the write-ahead log may be moved although the ledger failed");
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "a connection could not be closed");
    }
}

/// Looks a small file through before anything is answered from it; a large one is left to `audit verify`.
pub(super) fn quick_check(connection: &Connection) -> Result<(), Failure> {
    const LARGEST: i64 = 16 * 1024 * 1024;
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    if number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?) > LARGEST {
        return Ok(());
    }
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(Failure::Fatal(StoreError::Corrupt(format!(
        "{verdict}; restore a backup, or keep the file and ask for help: it is never replaced by an empty one"
    ))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_file_system_of_a_path() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      30 22 0:40 / /mnt/net rw shared:5 - nfs4 host:/x rw\n\
                      31 22 0:41 / /mnt/net/local rw - tmpfs tmpfs rw\n\
                      32 22 0:42 / /with\\040space rw - fuse.sshfs host: rw\n";
        let kind = |path: &str| file_system(mounts, Path::new(path)).unwrap();
        assert_eq!(kind("/var/ledger.db"), "ext4");
        assert_eq!(kind("/mnt/net/ledger.db"), "nfs4");
        assert_eq!(kind("/mnt/network/ledger.db"), "ext4");
        assert_eq!(kind("/mnt/net/local/ledger.db"), "tmpfs");
        assert_eq!(kind("/with space/ledger.db"), "fuse.sshfs");
        assert!(is_network("nfs4") && is_network("fuse.sshfs") && is_network("9p"));
        assert!(!is_network("ext4") && !is_network("tmpfs") && !is_network("fuse.ntfs-3g"));
    }
}
