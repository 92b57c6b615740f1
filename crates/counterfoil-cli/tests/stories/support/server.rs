//! A server as a process of its own, which a story may kill, freeze and start again.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::cli::command;
use super::{eventually, eventually_or};

/// A running `counterfoil serve`. It is killed when dropped; its log is printed only if the story failed.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server and waits until it is ready.
    #[track_caller]
    pub(crate) fn start(folder: &Path, log: PathBuf, variables: &[(&str, &str)]) -> Self {
        let server = Self::launch(command(folder, &["serve"]), log, variables);
        assert!(server.is_ready(), "no ready line: {}", server.log());
        server
    }

    /// Starts a command that is a server, and waits until it is ready or has ended.
    pub(crate) fn launch(mut command: Command, log: PathBuf, variables: &[(&str, &str)]) -> Self {
        let file = File::create(&log).unwrap();
        command.envs(variables.iter().copied());
        let child = command
            .stdout(Stdio::from(file.try_clone().unwrap()))
            .stderr(Stdio::from(file))
            .spawn()
            .expect("the binary starts");
        let mut server = Self { child, log, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let address = eventually_or(|| match server.ended() {
            Some(_) => Some(None),
            None => server.printed_address().map(Some),
        });
        if let Some(address) = address.flatten() {
            server.address = address;
        }
        server
    }

    /// Whether it came as far as its ready line.
    pub(crate) fn is_ready(&self) -> bool {
        self.address.port() != 0
    }

    /// The address in the ready line.
    fn printed_address(&self) -> Option<SocketAddr> {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("ready on"))?;
        let at = line.find("127.0.0.1:")?;
        let text: String =
            line[at..].chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect();
        text.parse().ok().filter(|address: &SocketAddr| address.port() != 0)
    }

    /// What it has said.
    pub(crate) fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub(crate) fn wait_ended(&mut self) -> ExitStatus {
        eventually("the server ends", || self.ended())
    }

    /// One figure of its metrics, without labels.
    #[track_caller]
    pub(crate) fn figure(&self, name: &str) -> u64 {
        let api = super::Api { address: self.address, token: String::new() };
        let page = api.try_call("GET", "/metrics", b"").unwrap();
        let text = String::from_utf8(page.body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no figure {name}: {text}")).parse().unwrap()
    }

    /// `kill -9`.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().ok();
        self.child.wait().unwrap();
    }

    /// `SIGCONT`.
    pub(crate) fn thaw(&self) {
        signal(self.id(), "CONT");
    }

    /// Waits until the process is stopped by a signal.
    #[track_caller]
    pub(crate) fn wait_frozen(&self) {
        wait_stopped(self.id());
    }
}

/// Waits until a process is stopped by a signal.
#[track_caller]
pub(crate) fn wait_stopped(process: u32) {
    let path = format!("/proc/{process}/stat");
    eventually("the process is frozen", || {
        let stat = std::fs::read_to_string(&path).ok()?;
        let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
        (state == 'T').then_some(())
    });
}

/// Sends a signal to one process.
pub(crate) fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name} {process}");
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("--- {} ---\n{}", self.log.display(), self.log());
        }
    }
}
