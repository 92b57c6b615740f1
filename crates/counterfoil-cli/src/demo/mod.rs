//! `counterfoil demo`: real suppliers that lose replies, and what becomes of every action.
//!
//! ```text
//! agent ── PUT, again and again ──▶ counterfoil serve ── POST ──▶ supplier (own process, own database)
//!                                     own process, killed          answers lost, late, twice, refused
//! ```
//!
//! What goes wrong is drawn from a seed (`plan`), played with real processes (`stage`), and judged
//! by the suppliers' own databases after everything has ended (`verdict`). With
//! `--without-counterfoil` the same script runs through a loop that sends until it hears of a success.

mod actions;
mod agent;
mod child;
mod naive;
mod plan;
mod product;
mod stage;
mod story;
mod supplier;
mod trace;
mod verdict;

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use counterfoil::random::{OsRandom, Random as _};
use tokio::time::Instant;

pub use supplier::serve_supplier;
pub use verdict::Verdict;

use actions::Action;
use plan::{Fault, Scene};
use stage::Stage;
use story::{Story, Tone};

/// What to play.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The seed; a new one where there is none.
    pub seed: Option<u64>,
    /// How many actions.
    pub actions: usize,
    /// Keep stdout for the summary.
    pub json: bool,
    /// Tell no story.
    pub quiet: bool,
    /// Let a naive loop do it.
    pub without_counterfoil: bool,
    /// Keep the folder with the databases.
    pub keep: bool,
    /// Let the supplier break its promise to know its keys: the demo has to notice.
    pub forget_keys: bool,
}

const INTRODUCTION: &[&str] = &[
    "An agent asks Counterfoil, Counterfoil asks a supplier, and on the way something breaks. Whoever hears",
    "nothing asks again, with the same operation ID. In the end each action must be done once, or not at all.",
];
const NAIVE_INTRODUCTION: &[&str] =
    &["The loop asks a supplier directly. When it hears nothing, it sends the same thing again."];

/// A random seed that is short enough to type.
const SEED_BOUND: u64 = 1_000_000;

/// How many actions a run may have: at least one for each fault.
///
/// # Errors
/// If the embedded actions do not parse.
pub fn possible_actions() -> anyhow::Result<RangeInclusive<usize>> {
    Ok(Fault::ALL.len()..=actions::all()?.len())
}

/// Plays it, tells it, and returns the summary. No process and, unless asked for, no file is left.
///
/// # Errors
/// If the number of actions does not fit, a process fails, or the run is interrupted.
pub async fn run(options: &Options) -> anyhow::Result<Verdict> {
    let seed = options.seed.unwrap_or_else(|| OsRandom.next() % SEED_BOUND);
    let scenes = plan::draw(seed, actions::all()?, options.actions)?;
    let folder =
        tempfile::Builder::new().prefix("counterfoil-demo-").tempdir().context("a temporary folder")?;
    let story = Story::new(options.json, options.quiet);
    introduce(story, seed, options);
    let begun = Instant::now();
    let verdict = perform(options, seed, &scenes, folder.path(), story, begun).await;
    if options.keep {
        let folder = folder.keep();
        story.line(Tone::Plain, &format!("Databases, configuration and log: {}", folder.display()));
    }
    let verdict = verdict?;
    // The summary is the data: as JSON it is printed by the command, otherwise it is told whatever else is not.
    verdict.tell(Story::new(options.json, options.json && options.quiet));
    Ok(verdict)
}

async fn perform(
    options: &Options,
    seed: u64,
    scenes: &[Scene],
    folder: &std::path::Path,
    story: Story,
    begun: Instant,
) -> anyhow::Result<Verdict> {
    let actions: Vec<&Action> = scenes.iter().flat_map(Scene::parts).map(|part| &part.action).collect();
    let opened =
        Box::pin(Stage::open(folder, &actions, !options.without_counterfoil, options.forget_keys, story));
    let stage = Arc::new(unless_interrupted(opened).await?);
    let played = unless_interrupted(Box::pin(stage.play(scenes))).await;
    if played.is_err() {
        stage.abandon().await;
    }
    Verdict::reach(seed, &stage, &played?, begun.elapsed()).await
}

fn introduce(story: Story, seed: u64, options: &Options) {
    let who = if options.without_counterfoil { "a naive retry loop" } else { "Counterfoil" };
    let text = format!(
        "{} actions through {who}; something goes wrong with each of them. Seed {seed}.",
        options.actions
    );
    story.line(Tone::Heading, &text);
    for line in if options.without_counterfoil { NAIVE_INTRODUCTION } else { INTRODUCTION } {
        story.line(Tone::Quiet, line);
    }
    story.line(Tone::Plain, "");
    story.line(Tone::Quiet, "! something goes wrong   + settled   ? a person is asked   x must not happen");
    story.line(Tone::Plain, "");
}

/// Ctrl-C and SIGTERM end the run; its processes go with it.
async fn unless_interrupted<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        done = work => done,
        signal = interrupted() => {
            signal.context("listen for Ctrl-C")?;
            bail!("interrupted")
        }
    }
}

#[cfg(unix)]
async fn interrupted() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn interrupted() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
