//! Child processes that never outlive the demo, and the ports they listen on.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use counterfoil::random::{OsRandom, Random as _};
use tokio::process::{Child, Command};

/// Below the range that systems take the ports of outgoing connections from: a port that is closed
/// for a moment must not be taken meanwhile, nor be connected to itself.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const PORT_TRIES: usize = 200;
/// How long a child may take to end when it is asked to.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A port on `127.0.0.1` that nobody listens on.
///
/// # Errors
/// If none was found.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    let width = u64::from(PORTS.end - PORTS.start);
    for _ in 0..PORT_TRIES {
        let Ok(offset) = u16::try_from(OsRandom.next() % width) else { continue };
        if is_free(PORTS.start + offset) {
            return Ok(PORTS.start + offset);
        }
    }
    anyhow::bail!("no free port between {} and {}", PORTS.start, PORTS.end)
}

/// Whether nobody listens on that port now.
pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind(local(port)).is_ok()
}

/// That port on this machine.
pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// This binary again. The child is killed when its handle is dropped.
///
/// # Errors
/// If the path of this binary is not known.
pub(crate) fn this_binary() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("the path of this binary")?);
    // Settings of the caller's own Counterfoil must not reach the demo's.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("COUNTERFOIL_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

/// `kill -9`, and waits until it is gone.
///
/// # Errors
/// If it could not be killed.
pub(crate) async fn kill(child: &mut Child) -> anyhow::Result<()> {
    child.kill().await.context("kill -9 of a child")
}

/// Ends a child that watches its standard input, and kills one that does not end.
pub(crate) async fn end(child: &mut Child) -> anyhow::Result<()> {
    drop(child.stdin.take());
    match tokio::time::timeout(END_LIMIT, child.wait()).await {
        Ok(ended) => ended.map(drop).context("the end of a child"),
        Err(_elapsed) => kill(child).await,
    }
}
