//! The section `server`: where to listen, where the ledger lies.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use counterfoil::policy::DEFAULT_LEASE;

use super::duration::spell;
use super::file::ServerSection;
use super::read::length;
use super::report::Checks;
use super::shape::At;

const DEFAULT_RETENTION_INTERVAL: Duration = Duration::from_secs(60);
const DEFAULT_LISTEN: &str = "127.0.0.1:8787";
const DEFAULT_DATABASE: &str = "counterfoil.db";
const DEFAULT_MARK: &str = "counterfoil.mark";

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
    /// A PostgreSQL database that many nodes share.
    Postgres(PostgresAddress),
}

/// The address of a PostgreSQL database. It may hold a password, so it is never shown whole.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress(String);

impl PostgresAddress {
    /// The whole address, for whoever connects.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for PostgresAddress {
    /// Host and database alone.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let rest = rest.split('?').next().unwrap_or_default();
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        write!(f, "postgres://{place}")
    }
}

impl std::fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
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
    /// Where the high-water mark of a node on PostgreSQL lies; on SQLite it lies beside the ledger.
    pub mark: PathBuf,
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
    let mark = match (&section.mark, &database) {
        (Some(text), Some(Database::Sqlite(_))) => {
            let message = "on SQLite the mark lies beside the ledger";
            checks.error(
                text.span(),
                "server.mark",
                message,
                "remove the key, or name a PostgreSQL database",
            );
            PathBuf::new()
        }
        (Some(text), Some(Database::Postgres(_)) | None) => folder.join(text.get()),
        (None, _) => folder.join(DEFAULT_MARK),
    };
    Some(Server {
        listen: listen?,
        database: database?,
        lease: length(section.lease.as_ref(), DEFAULT_LEASE),
        retention_interval: length(section.retention_interval.as_ref(), DEFAULT_RETENTION_INTERVAL),
        mark,
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
    const HINT: &str =
        "write \"sqlite:PATH\", as in \"sqlite:counterfoil.db\", or \"postgres://USER@HOST/DATABASE\"";
    let (key, at) = ("server.database", text.span());
    if text.get().starts_with("postgres:") || text.get().starts_with("postgresql:") {
        return Some(Database::Postgres(PostgresAddress(text.get().clone())));
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
