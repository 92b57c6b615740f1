//! Counts what reaches the disk, by watching a process of its own with `strace`, where that is installed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};

use super::bare::Bare;
use super::load::Pace;
use super::store::Stored;

/// Lifecycles that are watched, and callers that make them.
const LIFECYCLES: u64 = 4_000;
const CALLERS: usize = 64;

/// Which loop.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Watched {
    /// The store.
    Store,
    /// The loop without a ledger.
    Bare,
}

impl Watched {
    fn word(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Bare => "bare",
        }
    }
}

/// Flushes per lifecycle at 64 callers; `None` where nothing can watch.
pub(super) fn per_lifecycle(which: Watched, folder: &Path) -> Result<Option<f64>> {
    let report = folder.join(format!("{}.strace", which.word()));
    let watched = Command::new("strace")
        .args(["-f", "-c", "--seccomp-bpf", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(&report)
        .arg(std::env::current_exe()?)
        .args(["bench", "--watched", which.word(), "--folder"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match watched {
        Ok(status) if status.success() => {}
        Ok(_) | Err(_) => return Ok(None),
    }
    let text = std::fs::read_to_string(report)?;
    let calls = text.lines().filter(|line| line.ends_with("sync")).map(|line| {
        let calls = line.split_whitespace().nth(3).context("a line without a count")?;
        Ok(calls.parse::<u32>()?)
    });
    let calls = calls.sum::<Result<u32>>()?;
    ensure!(calls > 0, "nothing was flushed: {text}");
    Ok(Some(f64::from(calls) / LIFECYCLES as f64))
}

/// What the watched process does.
pub(super) async fn be_watched(which: Watched, folder: &Path) -> Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    match which {
        Watched::Store => {
            let path = folder.path().join("ledger.db");
            let stored = Stored::open(&path, "watched", "http://127.0.0.1:1/orders", 256).await?;
            stored.lifecycles(CALLERS, Pace::Calls(LIFECYCLES)).await?;
            stored.close().await;
        }
        Watched::Bare => {
            let scripts = super::script::record().await?;
            let bare = Arc::new(Bare::start(folder.path(), scripts)?);
            bare.run(CALLERS, Pace::Calls(LIFECYCLES)).await?;
            Arc::into_inner(bare).context("still in use")?.stop()?;
        }
    }
    Ok(())
}
