//! `cargo xtask sim`: the product on a virtual clock, among destinations and people that are simulated.

#![allow(clippy::print_stdout, reason = "what it counts is what it is run for")]

mod processes;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use counterfoil::safeguard::Safeguard;
use counterfoil::{Clock as _, SystemClock};
use sim::simulator;

#[derive(Args)]
pub(crate) struct Options {
    /// Everything follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many operations at least.
    #[arg(long, default_value_t = 20_000)]
    operations: u64,
    /// Only this world of the run.
    #[arg(long)]
    world: Option<u64>,
    /// Takes a guard away, to see it missed; `all` takes each away in turn.
    #[arg(long)]
    without: Option<String>,
    /// Real processes, suppliers and time in place of virtual ones.
    #[arg(long, conflicts_with_all = ["without", "world"])]
    processes: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.processes {
        return processes::run(options.seed, options.operations);
    }
    match options.without.as_deref() {
        Some("all") => {
            for guard in Safeguard::ALL {
                missed(options, guard)?;
            }
            Ok(())
        }
        Some(label) => {
            let known: Vec<&str> = Safeguard::ALL.iter().map(|guard| guard.label()).collect();
            let guard = Safeguard::parse(label).with_context(|| format!("one of {}", known.join(", ")))?;
            let found = simulate(options, Some(guard)).err().context("nothing was found")?;
            println!("{found}");
            Ok(())
        }
        None => {
            let clock = SystemClock::default();
            let figures = match simulate(options, None) {
                Ok(figures) => figures,
                Err(found) => bail!("{found}"),
            };
            let seconds = clock.monotonic().as_secs_f64();
            println!("seed {}\n{figures}", options.seed);
            println!("{:.0} operations per second", figures.operations as f64 / seconds);
            Ok(())
        }
    }
}

fn missed(options: &Options, guard: Safeguard) -> Result<()> {
    let found = simulate(options, Some(guard)).err();
    let found = found.with_context(|| format!("without {} nothing was found", guard.label()))?;
    println!(
        "{:26} missed after {:>6} operations (seed {}, world {}): {}",
        guard.label(),
        found.operations,
        found.seed,
        found.world,
        found.what
    );
    Ok(())
}

fn simulate(
    options: &Options,
    without: Option<Safeguard>,
) -> Result<simulator::Figures, Box<simulator::Finding>> {
    simulator::run(simulator::Options {
        seed: options.seed,
        operations: options.operations,
        world: options.world,
        without,
    })
}
