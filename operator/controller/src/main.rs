//! Binary of the operator.

use clap::Parser;

/// Kubernetes operator of vmcp.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {}

fn main() {
    let Args {} = Args::parse();
}
