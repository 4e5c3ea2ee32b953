//! Binary of the operator.

mod command;

use std::process::ExitCode;

use clap::Parser;

/// The first lists decode many objects at once, of which little is kept. The system's allocator does not give that memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    command::Cli::parse().run()
}
