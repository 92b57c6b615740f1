//! The simulator: the product's own verbs and decisions, on a virtual clock, among destinations of every class that do
//! exactly what they declare, a network that delays, loses and copies, nodes that die and stand still, and people.
//!
//! One thread, no I/O; everything follows from the seed. A run consists of many small worlds (see `episode`), each
//! with a seed of its own, so that a finding is replayed in a moment.

#![allow(
    clippy::unwrap_used,
    reason = "a simulator is a test: what cannot be parsed here is a mistake in it"
)]

mod agenda;
mod audit;
mod episode;
mod figures;
mod network;
mod node;
mod notices;
mod order;
mod people;
mod site;
mod tools;
mod worker;

use std::fmt;

use counterfoil::safeguard::Safeguard;

pub use figures::Figures;

use crate::seed::Seed;
use episode::Episode;

/// What is to be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Everything follows from it.
    pub seed: u64,
    /// How many operations at least.
    pub operations: u64,
    /// Only this world of the run.
    pub world: Option<u64>,
    /// The guard that is taken away.
    pub without: Option<Safeguard>,
}

/// A contradiction, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The seed of the run.
    pub seed: u64,
    /// The world in which it was found.
    pub world: u64,
    /// The guard that was taken away.
    pub without: Option<Safeguard>,
    /// After how many operations.
    pub operations: u64,
    /// What contradicts what.
    pub what: String,
    /// Everything that happened to that operation, and around it.
    pub trace: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "found after {} operations: {}", self.operations, self.what)?;
        write!(f, "replay: cargo xtask sim --seed {} --world {}", self.seed, self.world)?;
        match self.without {
            Some(guard) => write!(f, " --without {}", guard.label()),
            None => Ok(()),
        }
    }
}

/// Runs worlds until that many operations were accepted, or something is found.
///
/// # Errors
/// The first contradiction.
pub fn run(options: Options) -> Result<Figures, Box<Finding>> {
    match options.without {
        None => worlds(options),
        Some(guard) => guard.without(|| worlds(options)),
    }
}

fn worlds(options: Options) -> Result<Figures, Box<Finding>> {
    let mut figures = Figures::default();
    let mut world = options.world.unwrap_or(0);
    loop {
        let own = Seed::for_item(options.seed, world).next_u64();
        let mut episode = Episode::new(own, false);
        episode.play();
        episode.figures.episodes = 1;
        figures.add(&episode.figures);
        if let Some((op, what)) = episode.violation {
            // The same again, this time written down.
            let mut again = Episode::new(own, true);
            again.play();
            let name = again.truths[op].id.to_string();
            let what = format!("{name} ({}): {what}", again.plans[again.truths[op].plan].site.class.label());
            let trace = again.trace.unwrap_or_default();
            let about = |line: &String| line.contains(&format!(" {name} ")) || line.contains("          ");
            let trace = trace.into_iter().filter(about).collect();
            return Err(Box::new(Finding {
                seed: options.seed,
                world,
                without: options.without,
                operations: figures.operations,
                what,
                trace,
            }));
        }
        world += 1;
        if options.world.is_some() || figures.operations >= options.operations {
            return Ok(figures);
        }
    }
}
