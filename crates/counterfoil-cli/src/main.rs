//! The binary.

use std::process::ExitCode;

use clap::Parser;
use counterfoil_cli::cli::demo::{DemoArgs, DemoSupplierArgs};

#[derive(Parser)]
enum Command {
    Demo(DemoArgs),
    #[command(hide = true)]
    DemoSupplier(DemoSupplierArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Command::parse() {
        Command::Demo(demo) => demo.run().await,
        Command::DemoSupplier(supplier) => supplier.run().await,
    }
}
