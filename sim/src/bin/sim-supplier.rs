//! A supplier as a process of its own, steered over `/sim/…`.
//!
//! `sim-supplier FLAVOUR DATABASE` prints its URL in one line and serves until its standard input
//! ends, so that it does not outlive whoever started it.

use std::io::{self, Read as _, Write as _};
use std::net::Ipv4Addr;

use sim::supplier::{SupplierOptions, run_until};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(flavour), Some(database)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: sim-supplier FLAVOUR DATABASE"));
    };
    let mut options = SupplierOptions::new(flavour.parse()?).with_database(database);
    options.control = true;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    writeln!(io::stdout(), "http://{}", listener.local_addr()?)?;
    run_until(listener, options, end_of_input()).await
}

/// Completes when standard input ends or fails.
async fn end_of_input() {
    let read = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new()));
    drop(read.await);
}
