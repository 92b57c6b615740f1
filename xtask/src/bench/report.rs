//! The figures of one run, printed as they come and once more as a table.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use counterfoil::{Clock as _, SystemClock};

/// Where the figures of a run are kept.
const PAGE: &str = "docs/internals/performance.md";
const BEGIN: &str = "<!-- figures: cargo xtask bench --write -->";
const END: &str = "<!-- end of figures -->";

/// The figures so far.
pub(super) struct Report {
    rows: Vec<(String, String, String)>,
    quick: bool,
}

impl Report {
    /// No figures.
    pub(super) fn new(quick: bool) -> Self {
        Self { rows: Vec::new(), quick }
    }

    /// A line that is no figure.
    pub(super) fn say(&self, text: &str) -> Result<()> {
        Ok(writeln!(std::io::stdout(), "{text}")?)
    }

    /// A figure.
    pub(super) fn figure(&mut self, what: &str, value: String) -> Result<()> {
        self.row(what, value, String::new())
    }

    /// A figure that has an aim.
    pub(super) fn aimed(&mut self, what: &str, value: String, aim: &str, met: bool) -> Result<()> {
        let met = if met { "met" } else { "missed" };
        self.row(what, value, format!("{aim}: {met}"))
    }

    fn row(&mut self, what: &str, value: String, aim: String) -> Result<()> {
        writeln!(std::io::stdout(), "{what:<58} {value:>32}  {aim}")?;
        self.rows.push((what.to_owned(), value, aim));
        Ok(())
    }

    /// Writes the table into the page, between its marks.
    pub(super) fn write(&self) -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?;
        let path = root.join(PAGE);
        let page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let (before, rest) = page.split_once(BEGIN).context("the page has no mark")?;
        let (_, after) = rest.split_once(END).context("the page has no end mark")?;
        let page = format!("{before}{BEGIN}\n{}\n{END}{after}", self.table());
        Ok(std::fs::write(path, page)?)
    }

    fn table(&self) -> String {
        let date = SystemClock::default().now().to_string();
        let date = date.split('T').next().unwrap_or_default();
        let kind = if self.quick { ", `--quick`" } else { "" };
        let mut text = format!("\nRun of {date}{kind}, on {}.\n\n", machine());
        text.push_str("| what | figure | aim |\n|---|---:|---|\n");
        for (what, value, aim) in &self.rows {
            text.push_str(&format!("| {what} | {value} | {aim} |\n"));
        }
        text
    }
}

/// The machine, in a few words.
pub(super) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([':', ' ', '\t']);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    format!("{cores} cores ({model}), Linux {}, load {load} before the run", kernel.trim())
}

/// What file system a folder lies on.
pub(super) fn file_system(folder: &Path) -> String {
    let asked = Command::new("stat").args(["-f", "-c", "%T"]).arg(folder).output();
    asked.map_or_else(|_| "unknown".to_owned(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
