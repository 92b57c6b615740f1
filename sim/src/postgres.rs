//! A real PostgreSQL server for tests: its own data directory and a free port, started once per process and gone with it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test's server, in real time: without it the test cannot go on"
)]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a server may take to start.
const START: Duration = Duration::from_secs(60);

/// A running server. It ends when this process does, however that ends.
#[derive(Debug)]
pub struct Server {
    port: u16,
    folder: PathBuf,
    binaries: PathBuf,
    databases: Mutex<BTreeSet<String>>,
    _guardian: Child,
}

/// Where PostgreSQL's programs lie.
///
/// # Panics
/// They are not installed.
#[must_use]
pub fn binaries() -> PathBuf {
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    debian.sort();
    let needed = ["initdb", "postgres", "createdb", "psql", "pg_isready"];
    let whole = |folder: &PathBuf| needed.iter().all(|program| folder.join(program).exists());
    let found = on_path.chain(debian.into_iter().rev()).find(whole);
    found.unwrap_or_else(|| panic!("PostgreSQL is not installed: apt-get install postgresql"))
}

/// An unprivileged user where this one is root, which PostgreSQL refuses.
fn user() -> Option<(u32, u32)> {
    let me = std::fs::metadata("/proc/self").ok()?;
    if std::os::unix::fs::MetadataExt::uid(&me) != 0 {
        return None;
    }
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    let of = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(str::parse::<u32>);
        Some((ids.next()?.ok()?, ids.next()?.ok()?))
    };
    of("postgres").or_else(|| of("nobody"))
}

/// A command as that user.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user() {
        command.uid(uid).gid(gid);
    }
    command.env_remove("PGDATA").env("LC_ALL", "C.UTF-8").current_dir("/");
    command
}

impl Server {
    /// The server of this process, started when it is first asked for.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&[]))
    }

    /// Starts one more, with these settings.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn start(settings: &[(&str, &str)]) -> Self {
        let binaries = binaries();
        let folder = std::env::temp_dir().join(format!(
            "counterfoil-postgres-{}-{}",
            std::process::id(),
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
        ));
        std::fs::create_dir(&folder).unwrap();
        if let Some((uid, gid)) = user() {
            std::os::unix::fs::chown(&folder, Some(uid), Some(gid)).unwrap();
        }
        let data = folder.join("data");
        let made = command(&binaries.join("initdb"))
            .args([
                "--auth=trust",
                "--username=counterfoil",
                "--encoding=UTF8",
                "--no-locale",
                "--no-instructions",
                "-D",
            ])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success(), "initdb failed");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut server = format!(
            "exec 2>>{folder}/log; {postgres} -D {data} -p {port} -c listen_addresses=127.0.0.1 \
             -c unix_socket_directories= -c max_connections=300 -c shared_buffers=64MB",
            folder = folder.display(),
            postgres = binaries.join("postgres").display(),
            data = data.display(),
        );
        for (name, value) in settings {
            server.push_str(&format!(" -c {name}={value}"));
        }
        // Whoever started it holds the other end of standard input: when that is gone, however it went, so is the server.
        let script = format!(
            "{server} & server=$!; read -r _; kill -INT $server; wait $server; rm -rf {}",
            folder.display()
        );
        let guardian = command(Path::new("/bin/sh"))
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let server = Self { port, folder, binaries, databases: Mutex::default(), _guardian: guardian };
        server.wait();
        server
    }

    fn wait(&self) {
        let until = Instant::now() + START;
        loop {
            let ready = Command::new(self.binaries.join("pg_isready"))
                .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
                .status();
            if ready.is_ok_and(|status| status.success()) {
                return;
            }
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "PostgreSQL did not start:\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The address of a database, which is made when it is first asked for.
    ///
    /// # Panics
    /// It cannot be made.
    pub fn database(&self, name: &str) -> String {
        let name = format!("t{:016x}", hash(name));
        let mut databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
        if databases.insert(name.clone()) {
            let made = Command::new(self.binaries.join("createdb"))
                .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "counterfoil", &name])
                .status()
                .unwrap();
            assert!(made.success(), "createdb failed");
        }
        format!("postgres://counterfoil@127.0.0.1:{}/{name}", self.port)
    }

    /// Runs SQL in a database and gives what it prints, one row per line.
    ///
    /// # Panics
    /// It failed.
    pub fn sql(&self, url: &str, sql: &str) -> String {
        let done = Command::new(self.binaries.join("psql"))
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
    }
}

/// FNV-1a: names of databases are short.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
