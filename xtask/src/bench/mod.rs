//! `cargo xtask bench`: what the ledger does each second, beside what the same machine does without it, in one run.
//! Figures of different runs say little about each other; ratios of one run do.

mod bare;
mod disk;
mod fixture;
mod flushes;
mod http;
mod load;
mod report;
mod script;
mod server;
mod store;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use bare::Bare;
use flushes::Watched;
use http::Ask;
use load::{Load, Pace, median};
use report::Report;
use script::Scripts;
use server::Site;
use store::Stored;
use wire::Destination;

/// What is measured, and how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Short rounds, and 50 000 stored operations instead of a million
    #[arg(long)]
    quick: bool,
    /// Measure only this
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Where the files lie whose disk is measured; by default beside the binary
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The server to measure; by default the release build of this tree
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Put the figures into docs/internals/performance.md
    #[arg(long)]
    write: bool,
    /// Run a loop so that its flushes can be counted
    #[arg(long, hide = true)]
    watched: Option<Watched>,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The disk, the bare loop and the store.
    Store,
    /// Flushes, counted with strace.
    Flushes,
    /// The server and its callers.
    Http,
    /// The binary: its size and how soon it is ready.
    Binary,
    /// Resident memory.
    Memory,
}

/// How many rounds, how long, how many operations.
#[derive(Clone, Copy)]
struct Size {
    rounds: usize,
    round: Duration,
    stored: u64,
}

/// Callers at once.
const CALLERS: [usize; 3] = [1, 64, 256];
const MANY: usize = 64;

/// Runs the benchmark.
pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let beside = std::env::current_exe()?;
    let folder = options.folder.as_deref().or(beside.parent()).context("no folder")?;
    if let Some(which) = options.watched {
        return runtime.block_on(flushes::be_watched(which, folder));
    }
    let folder = tempfile::tempdir_in(folder)?;
    runtime.block_on(measure(options, folder.path()))
}

async fn measure(options: &Options, folder: &Path) -> Result<()> {
    let size = match options.quick {
        true => Size { rounds: 3, round: Duration::from_secs(1), stored: 50_000 },
        false => Size { rounds: 5, round: Duration::from_secs(3), stored: 1_000_000 },
    };
    let wanted = |part: Part| options.only.is_none_or(|only| only == part);
    let mut report = Report::new(options.quick);
    report.say(&format!("{}; files on {}", report::machine(), report::file_system(folder)))?;
    if wanted(Part::Store) {
        writes(&mut report, folder, size).await?;
    }
    if wanted(Part::Flushes) {
        flushed(&mut report, folder)?;
    }
    if [Part::Http, Part::Binary, Part::Memory].into_iter().any(wanted) {
        let binary = match &options.binary {
            Some(binary) => std::path::absolute(binary)?,
            None => server::build()?,
        };
        let destination = Destination::start().await?;
        let orders = format!("http://{}/orders", destination.address);
        if wanted(Part::Binary) {
            starts(&mut report, &Site::make(&folder.join("starts"), &binary, &orders).await?, &binary)?;
        }
        if wanted(Part::Http) {
            let site = Site::make(&folder.join("calls"), &binary, &orders).await?;
            calls(&mut report, &site, &destination, size).await?;
        }
        if wanted(Part::Memory) {
            let site = Site::make(&folder.join("full"), &binary, &orders).await?;
            memory(&mut report, &site, &orders, size).await?;
        }
    }
    if options.write {
        report.write()?;
    }
    Ok(())
}

/// The rates of some rounds of the same measurement.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    last: Option<Load>,
}

impl Rounds {
    fn add(&mut self, load: Load) {
        self.rates.push(load.rate());
        self.last = Some(load);
    }

    /// The median, and the lowest and highest round.
    fn shown(&self) -> String {
        shown(&self.rates)
    }

    /// As [`Rounds::shown`], with the latencies of the last round.
    fn with_latency(&self) -> String {
        match &self.last {
            Some(load) => {
                format!("{}; {:.2} / {:.2} ms", self.shown(), load.percentile(50), load.percentile(99))
            }
            None => self.shown(),
        }
    }

    /// The median of what each round is to the same round of `base`.
    fn ratio(&self, base: &Self) -> f64 {
        let ratios: Vec<f64> = self.rates.iter().zip(&base.rates).map(|(one, other)| one / other).collect();
        median(&ratios)
    }
}

fn shown(rates: &[f64]) -> String {
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    format!("{:.0} [{least:.0}-{most:.0}]", median(rates))
}

async fn writes(report: &mut Report, folder: &Path, size: Size) -> Result<()> {
    let scripts = script::record().await?;
    let bare = Arc::new(Bare::start(folder, scripts.clone())?);
    let path = folder.join("ledger.db");
    let stored = Stored::open(&path, "bench", "http://127.0.0.1:1/orders", 256).await?;
    let pace = Pace::For(size.round);
    let mut flush_rates = Vec::new();
    let mut both: Vec<(Rounds, Rounds)> = CALLERS.iter().map(|_| Default::default()).collect();
    let (mut alone, mut many) = (Rounds::default(), Rounds::default());
    let (mut commits, mut lifecycles, mut worked) = ([0, 0], [0, 0], [Duration::ZERO; 2]);
    for _ in 0..size.rounds {
        flush_rates.push(disk::flush_rate(folder, size.round / 3)?);
        for (callers, (without, with)) in CALLERS.into_iter().zip(&mut both) {
            let before = [bare.commits(), stored.ledger.store().commit_stats().commits];
            let began = load::processor_time()?;
            let first = bare.run(callers, pace).await?;
            let between = load::processor_time()?;
            let loads = [first, stored.lifecycles(callers, pace).await?];
            let times = [between - began, load::processor_time()? - between];
            let after = [bare.commits(), stored.ledger.store().commit_stats().commits];
            if callers == MANY {
                for which in [0, 1] {
                    commits[which] += after[which] - before[which];
                    lifecycles[which] += loads[which].calls;
                    worked[which] += times[which];
                }
            }
            let [one, other] = loads;
            without.add(one);
            with.add(other);
        }
        alone.add(stored.replays(1, pace).await?);
        many.add(stored.replays(MANY, pace).await?);
    }
    stored.close().await;
    Arc::into_inner(bare).context("the bare loop is still in use")?.stop()?;

    report.figure("flushes of the disk per second (4 KiB, fdatasync)", shown(&flush_rates))?;
    for (callers, (without, with)) in CALLERS.into_iter().zip(&both) {
        let plural = if callers == 1 { "caller" } else { "callers" };
        report.figure(
            &format!("bare loop, {callers} {plural}: lifecycles/s; p50 / p99"),
            without.with_latency(),
        )?;
        report.figure(&format!("store, {callers} {plural}: lifecycles/s; p50 / p99"), with.with_latency())?;
        let ratio = with.ratio(without);
        let what = format!("store beside bare loop, {callers} {plural}");
        if callers == MANY {
            report.aimed(&what, format!("{ratio:.2}"), "at least 0.8", ratio >= 0.8)?;
        } else {
            report.figure(&what, format!("{ratio:.2}"))?;
        }
    }
    statements(report, &scripts)?;
    for (which, name) in ["bare loop", "store"].into_iter().enumerate() {
        let each = commits[which] as f64 / lifecycles[which] as f64;
        report.figure(&format!("{name}, 64 callers: commits per lifecycle"), format!("{each:.3}"))?;
        let micros = worked[which].as_secs_f64() * 1e6 / lifecycles[which] as f64;
        let what = format!("{name}, 64 callers: processor time per lifecycle, callers included");
        report.figure(&what, format!("{micros:.0} µs"))?;
    }
    report.figure("replays read from the store per second, 1 caller; p50 / p99", alone.with_latency())?;
    report.figure("replays read from the store per second, 64 callers; p50 / p99", many.with_latency())
}

fn statements(report: &mut Report, scripts: &Scripts) -> Result<()> {
    let jobs = scripts.prepare.job.len() + scripts.report.job.len();
    let once = scripts.prepare.opening.len() + scripts.prepare.closing.len() + 2;
    report.figure(
        "statements per lifecycle, and per commit besides (both loops)",
        format!("{jobs} + {once} per commit"),
    )
}

fn flushed(report: &mut Report, folder: &Path) -> Result<()> {
    for (which, name) in [(Watched::Bare, "bare loop"), (Watched::Store, "store")] {
        let what = format!("{name}, 64 callers: flushes per lifecycle (strace)");
        let value = flushes::per_lifecycle(which, folder)?;
        report.figure(&what, value.map_or_else(|| "not counted".to_owned(), |each| format!("{each:.3}")))?;
    }
    Ok(())
}

fn starts(report: &mut Report, site: &Site, binary: &Path) -> Result<()> {
    let megabytes = std::fs::metadata(binary)?.len() as f64 / 1e6;
    report.aimed(
        "size of the stripped binary",
        format!("{megabytes:.1} MB"),
        "under 25 MB",
        megabytes < 25.0,
    )?;
    let mut millis = Vec::new();
    for _ in 0..11 {
        let server = site.start()?;
        millis.push(server.ready_after.as_secs_f64() * 1e3);
        server.stop()?;
    }
    let middle = median(&millis);
    let most = millis.iter().copied().fold(0.0, f64::max);
    let least = millis.iter().copied().fold(f64::INFINITY, f64::min);
    report.aimed(
        "from the start of `serve` to its ready line",
        format!("{middle:.1} [{least:.1}-{most:.1}] ms"),
        "within 50 ms",
        middle <= 50.0,
    )
}

async fn calls(report: &mut Report, site: &Site, destination: &Destination, size: Size) -> Result<()> {
    let server = site.start()?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (idle, _) = server.resident()?;
    let (pace, next) = (Pace::For(size.round), Arc::new(AtomicU64::new(0)));
    let before = destination.effects();
    let ask = |ask: Ask| http::load(server.address, &site.token, "calls", ask, MANY, pace);
    let (mut health, mut execute) = (Rounds::default(), Rounds::default());
    let (mut replay, mut read) = (Rounds::default(), Rounds::default());
    for _ in 0..size.rounds {
        execute.add(ask(Ask::Execute(next.clone())).await?);
        health.add(ask(Ask::Health).await?);
        replay.add(ask(Ask::Replay(next.load(Ordering::Relaxed))).await?);
        read.add(ask(Ask::Read(next.load(Ordering::Relaxed))).await?);
    }
    let (_, highest) = server.resident()?;
    server.stop()?;
    let (orders, effects) = (next.load(Ordering::Relaxed), destination.effects() - before);
    ensure!(orders == effects, "{orders} orders had {effects} effects");
    report.figure("`PUT` with `execute` per second, 64 callers; p50 / p99", execute.with_latency())?;
    report.figure("`/healthz` per second, 64 callers; p50 / p99", health.with_latency())?;
    report.figure("replays (`PUT`) per second, 64 callers; p50 / p99", replay.with_latency())?;
    let ratio = replay.ratio(&health);
    report.aimed("replays beside `/healthz`", format!("{ratio:.2}"), "at least 0.5", ratio >= 0.5)?;
    report.figure("reads (`GET`) per second, 64 callers; p50 / p99", read.with_latency())?;
    report.aimed("resident memory, idle", format!("{idle:.1} MB"), "under 60 MB", idle < 60.0)?;
    report.figure("resident memory, highest under these loads", format!("{highest:.1} MB"))
}

async fn memory(report: &mut Report, site: &Site, orders: &str, size: Size) -> Result<()> {
    let stored = Stored::open(&site.ledger(), "full", orders, 2_048).await?;
    let fill = stored.lifecycles(2_048, Pace::Calls(size.stored)).await?;
    stored.close().await;
    let count = stored.count();
    report.figure(
        &format!("lifecycles/s while {count} operations are stored, 2048 callers"),
        format!("{:.0}", fill.rate()),
    )?;
    let bytes = std::fs::metadata(site.ledger())?.len() as f64;
    report.figure("bytes of the ledger per operation", format!("{:.0}", bytes / count as f64))?;
    let server = site.start()?;
    let ready = server.ready_after.as_secs_f64() * 1e3;
    report.figure(&format!("ready with {count} stored operations"), format!("{ready:.1} ms"))?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (idle, _) = server.resident()?;
    let pace = Pace::For(size.round);
    let mut replay = Rounds::default();
    for _ in 0..size.rounds {
        let ask = Ask::Replay(count);
        replay.add(http::load(server.address, &site.token, "full", ask, MANY, pace).await?);
    }
    let (after, highest) = server.resident()?;
    server.stop()?;
    report.figure(&format!("replays (`PUT`) per second among {count} operations"), replay.with_latency())?;
    report.figure(&format!("resident memory, idle, {count} stored operations"), format!("{idle:.1} MB"))?;
    report.aimed(
        &format!("resident memory after replays of {count} stored operations; highest"),
        format!("{after:.1}; {highest:.1} MB"),
        "under 60 MB",
        after < 60.0,
    )
}
