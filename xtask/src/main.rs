//! Chores of the repository: `cargo xtask CHORE`.

mod bench;
mod dist;
mod mutants;
mod sim;
mod tidy;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", about = "Chores of the repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Checks licences, sources, file sizes and leftovers.
    Tidy,
    /// Changes one line of the decision functions at a time and shows that the tests go red.
    Mutants(mutants::Mutants),
    /// Makes the archive, the Python wheel and their checksums.
    Dist(dist::Dist),
    /// Measures the ledger, and beside it what the machine itself can do.
    Bench(bench::Options),
    /// Simulates the product on a virtual clock, from a seed.
    Sim(sim::Options),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().chore {
        Chore::Tidy => tidy::run(),
        Chore::Dist(dist) => dist.run(),
        Chore::Bench(options) => bench::run(&options),
        Chore::Sim(options) => sim::run(&options),
        Chore::Mutants(chore) => chore.run(),
    }
}
