//! The section `server`: where to listen, where the ledger lies.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use counterfoil::policy::DEFAULT_LEASE;

use super::duration::spell;
use super::file::ServerSection;
use super::read::length;
use super::report::{Checks, NOT_IN_THIS_VERSION};
use super::shape::At;

const DEFAULT_RETENTION_INTERVAL: Duration = Duration::from_secs(60);
const DEFAULT_LISTEN: &str = "127.0.0.1:8787";
const DEFAULT_DATABASE: &str = "counterfoil.db";

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address and port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Where the ledger lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// A file.
    Sqlite(PathBuf),
}

/// The settings of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where it listens.
    pub listen: Listen,
    /// Where the ledger lies.
    pub database: Database,
    /// How long a claim lasts without renewal.
    pub lease: Duration,
    /// How often receipts whose retention is over are purged.
    pub retention_interval: Duration,
}

/// Reads the section; `None` where it does not load.
pub(super) fn read(section: &ServerSection, path: &Path, checks: &mut Checks<'_>) -> Option<Server> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let listen = match &section.listen {
        Some(text) => read_listen(text, folder, checks),
        None => DEFAULT_LISTEN.parse().ok().map(Listen::Tcp),
    };
    let database = match &section.database {
        Some(text) => read_database(text, folder, checks),
        None => Some(Database::Sqlite(folder.join(DEFAULT_DATABASE))),
    };
    let bounds = [
        ("lease", &section.lease, Duration::from_secs(1), Duration::from_secs(3_600)),
        (
            "retention_interval",
            &section.retention_interval,
            Duration::from_secs(1),
            Duration::from_secs(86_400),
        ),
    ];
    for (key, value, least, most) in bounds {
        if let Some(value) = value
            && !(least..=most).contains(&value.get().0)
        {
            let message = format!("{} is outside {} to {}", value.get(), spell(least), spell(most));
            checks.error(value.span(), &format!("server.{key}"), message, "choose a value in between");
        }
    }
    Some(Server {
        listen: listen?,
        database: database?,
        lease: length(section.lease.as_ref(), DEFAULT_LEASE),
        retention_interval: length(section.retention_interval.as_ref(), DEFAULT_RETENTION_INTERVAL),
    })
}

fn read_listen(text: &At<String>, folder: &Path, checks: &mut Checks<'_>) -> Option<Listen> {
    const HINT: &str = "write \"127.0.0.1:8787\", \"[::1]:8787\" or \"unix:PATH\"";
    let listen = match text.get().strip_prefix("unix:") {
        Some("") => None,
        Some(path) => Some(Listen::Unix(folder.join(path))),
        None => text.get().parse().ok().map(Listen::Tcp),
    };
    if listen.is_none() {
        checks.error(text.span(), "server.listen", "this is no address with a port, and no socket", HINT);
    }
    listen
}

fn read_database(text: &At<String>, folder: &Path, checks: &mut Checks<'_>) -> Option<Database> {
    const HINT: &str = "write \"sqlite:PATH\", as in \"sqlite:counterfoil.db\"";
    let (key, at) = ("server.database", text.span());
    if text.get().starts_with("postgres:") || text.get().starts_with("postgresql:") {
        checks.error(at, key, NOT_IN_THIS_VERSION, HINT);
        return None;
    }
    match text.get().strip_prefix("sqlite:") {
        Some(":memory:") => {
            checks.error(at, key, "a ledger in memory forgets what was sent", HINT);
            None
        }
        Some(path) if !path.is_empty() && !path.starts_with("//") && !path.contains('?') => {
            Some(Database::Sqlite(folder.join(path)))
        }
        Some(_) | None => {
            checks.error(at, key, "this is no ledger that is known here", HINT);
            None
        }
    }
}
